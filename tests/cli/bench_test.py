#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quire bench: rows that agree with what was asked for, in every format, and what ends it early.
How fast anything was is no test here."""
import csv
import io
import json
import os
import re
import shutil
import signal
import subprocess

from tap import ENV, QUIRE, TMP, check, equal, main, path, quire, start, tiny

QUICK = ["-r", 1, "-q"]


def bench(*flags, status=0):
    return quire("bench", "-m", tiny(), *QUICK, *flags, status=status, timeout=600)


def rows(*flags):
    return [json.loads(line) for line in bench("-o", "jsonl", *flags).stdout.splitlines()]


def test_a_row_for_each_prompt_and_output():
    got = rows("-p", "16,40", "-n", "4,8", "-t", 2)
    equal([r["test"] for r in got], ["pp16", "pp40", "tg4", "tg8"])
    for r in got:
        name = "pp" if r["n_pp"] else "tg"
        tokens = r["n_pp"] + r["n_tg"]
        check(r[name + "_tps"] > 0 and r["tps"] > 0, r)
        check(abs(r[name + "_tps"] * r["t_" + name] - tokens) < 1e-5 * tokens, r)
        other = "tg" if name == "pp" else "pp"
        equal((r["t_" + other], r[other + "_tps"], r[other + "_bound"]), (0, 0, "none"))
    equal([r["test"] for r in rows("-p", "0,16", "-n", 0)], ["pp16"])
    every = rows("-p", 16, "-n", 4, "-npl", "1,3", "-d", "0,20", "-b", "8,16")
    equal([r["test"] for r in every],
          [(name + b if name[0] == "p" else name) + depth for depth in ("", " @ d20")
           for b in (" b8", " b16") for name in ("pp16", "tg4", "pp16 x3", "tg4 x3")])


def test_rows_of_both():
    got = rows("-npp", 40, "-ntg", "4,8", "-npl", "1,2,4", "-t", 2)
    equal([(r["n_pp"], r["n_tg"], r["n_pl"]) for r in got],
          [(40, tg, pl) for tg in (4, 8) for pl in (1, 2, 4)])
    for r in got:
        for name, n in (("pp", r["n_pp"]), ("tg", r["n_tg"])):
            check(abs(r[name + "_tps"] * r["t_" + name] - n * r["n_pl"]) < 1e-5 * n * r["n_pl"], r)
            check(r[name + "_tps_p10"] <= r[name + "_tps"] <= r[name + "_tps_p90"], r)
        equal(r["weight_bytes_per_step"], got[0]["weight_bytes_per_step"])
        equal(r["threads"], 2)


def test_every_row_has_limits_noise_and_origin():
    for r in rows("-npp", 8, "-ntg", 2, "-npl", "1,2", "-r", 2):
        check(r["limit_read_gbs"] > 0 and r["limit_int8_gmacs"] > 0, r)
        for name in ("pp", "tg"):
            bytes_s, macs_s = r[name + "_read_gbs"], r[name + "_gmacs"]
            most = max(bytes_s / r["limit_read_gbs"], macs_s / r["limit_int8_gmacs"])
            check(abs(r[name + "_fraction"] - most) < 1e-3 * most, r)
            check(r[name + "_bound"] in ("memory", "arithmetic"))
            equal(len(r[name + "_us"]), 2)
        check(0 < r["noise_low"] <= r["noise_median"] <= r["noise_high"] and r["noise_pairs"] >= 5)
        check(re.fullmatch("[0-9a-f]{32}", r["model_digest"]), r)
        equal(r["model_bytes"], os.path.getsize(tiny()))
        equal(r["command"].split()[:3], ["quire", "bench", "-m"])
        check(r["cpu"] and r["commit"] and r["version"] and r["time"].endswith("Z"))


def test_products_are_counted():
    r, = rows("-npp", 8, "-ntg", 4, "-npl", 3, "-d", 5)
    said = json.loads(quire("inspect", tiny(), "--json").stdout)["tensors"]
    sizes = {t["name"]: t["dims"][0] * t["dims"][1] for t in said if len(t["dims"]) == 2}
    output = sizes.pop("output.weight", sizes["token_embd.weight"])
    sizes.pop("token_embd.weight")
    layers = sum(sizes.values())
    check(abs(r["tg_gmacs"] * r["t_tg"] * 1e9 - 12 * (layers + output)) < 1e-3 * 12 * layers, r)
    check(abs(r["pp_gmacs"] * r["t_pp"] * 1e9 - 24 * layers - 3 * output) < 1e-3 * 24 * layers, r)


def test_formats_say_the_same():
    shape = ["-npp", 8, "-ntg", 2, "-npl", "1,2"]
    table = bench(*shape).stdout.decode()
    equal(len(re.findall(r"^\|\s+\d", table, re.M)), 2, table)
    check("noise" in table.splitlines()[0] and "quire bench -m" in table.splitlines()[-1], table)
    array = json.loads(bench(*shape, "-o", "json").stdout)
    lines = rows(*shape)
    equal([list(r) for r in array], [list(r) for r in lines])
    single = [k for k, v in lines[0].items() if not isinstance(v, (list, dict))]
    got = list(csv.DictReader(io.StringIO(bench(*shape, "-o", "csv").stdout.decode())))
    equal([list(r) for r in got], [single, single])
    equal([r["test"] for r in got], [r["test"] for r in lines])
    out = bench(*shape, "--jsonl").stdout
    check(not re.search(rb"\d{8}\.|\.\d{14}", out), "floats longer than they are true", out)
    equal(len(bench("-p", 8, "-n", 2).stdout.decode().split("\n| tg2")), 2)


def test_odd_names_do_no_harm():
    for name in ["a b'\"c", "new\nline", "gr\u00fc\u00dfe\u2603", "bad\udcff\udcfe", "c,o|m`m\\a"]:
        odd = os.path.join(TMP, name + ".gguf")
        shutil.copy(tiny(), odd)
        for form in ("json", "csv", "md") if "\n" in name else ("jsonl",):
            p = subprocess.run([QUIRE, "bench", "-m", odd, "-p", "4", "-n", "0", "-r", "1", "-q",
                                "-o", form], capture_output=True, env=ENV)
            equal(p.returncode, 0, p.stderr)
            out = p.stdout.decode("ascii")
            if form in ("json", "jsonl"):
                row = json.loads(out)
                row = row[0] if form == "json" else row
                said = subprocess.run(["bash", "-c", "printf '%s\\0' " + row["command"]],
                                      capture_output=True).stdout.split(b"\0")[3]
                equal(said, os.fsencode(odd))
            elif form == "csv":
                equal(len(list(csv.reader(io.StringIO(out)))), 2, out)
            else:
                equal(out.splitlines()[-1].split()[:2], ["quire", "bench"], out)


def test_layers_add_up():
    r, = rows("-npp", 40, "-ntg", 6, "-npl", 2, "--layers", "-t", 2)
    for name, steps in (("pp", 1), ("tg", 6)):
        laps = r["layers"][name]
        equal(laps["steps"], steps)
        for stage, us in laps["stages_us"].items():
            check(abs(sum(x.get(stage, 0) for x in laps["layers_us"]) - us) < 0.1, stage, laps)
        total = sum(laps["stages_us"].values()) + laps["rest_us"]
        check(abs(total - laps["step_us"]) < 1, total, laps)
        check(laps["step_us"] * steps <= r["t_" + name] * 1e6 + 1, r)
    table = bench("-p", 8, "-n", 2, "--layers").stdout.decode()
    check("attention" in table and "| layers |" in table, table)


def test_wrong_flags_are_named():
    for flags, word in ((["-p", 0, "-n", 0], "nothing to measure"), (["-p", 0], "nothing to "),
                        (["-r", 0], "-r"), (["-npp", 0], "-npp"), (["-d", "x"], "-d"),
                        (["-p", 8, "-npp", 8], "-npp"), (["-o", "xml"], "-o"), (["-b", 0], "-b"),
                        (["-p", 40, "-n", 4, "-c", 20], "-c allows 20"),
                        (["-d", 20, "-p", 4, "-c", 20], "-d"),
                        (["-d", 1 << 20, "-p", 1 << 20], "-d"),
                        (["--layers", "-o", "csv"], "--layers")):
        said = bench(*flags, status=2).stderr.decode()
        check(word in said, flags, said)
    bench("-npp", 40, "-ntg", 4, "-npl", 4, "--kv-tokens", 64, status=4)
    quire("bench", "-p", 4, status=2)
    quire("bench", "-m", path("none.gguf"), "-p", 4, status=3)


def test_a_full_disk_is_an_error():
    for form in ("md", "csv", "json", "jsonl"):
        with open("/dev/full", "w") as full:
            p = subprocess.run([QUIRE, "bench", "-m", tiny(), "-p", "4", "-n", "2", "-q", "-o",
                                form], stdout=full, stderr=subprocess.PIPE, env=ENV)
        equal(p.returncode, 1, form, p.stderr)
        check(b"cannot be written" in p.stderr, p.stderr)


def test_what_is_done_stays_when_it_is_interrupted():
    # The second row is minutes of work; without the check between steps the wait below runs out.
    for form in ("jsonl", "json"):
        p = start("bench", "-m", tiny(), "-p", "4,60000", "-n", 0, "-r", 1, "-t", 1, "--isa",
                  "scalar", "--act", "f32", "--chunk", 64, "-o", form, "-q", stdout=subprocess.PIPE,
                  stderr=subprocess.PIPE)
        try:
            out = p.stdout.readline()
            while b"pp4" not in out:
                check(p.poll() is None)
                out += p.stdout.readline()
            p.send_signal(signal.SIGINT)
            rest, _ = p.communicate(timeout=600)
        finally:
            p.kill()
        equal(p.returncode, 130)
        done = json.loads(out + rest) if form == "json" else [json.loads(out)] + [
            json.loads(line) for line in rest.splitlines()]
        equal([r["test"] for r in done], ["pp4"])


def test_an_end_before_the_first_row_is_an_empty_array():
    p = start("bench", "-m", tiny(), "-p", "60000", "-n", 0, "-r", 1, "-t", 1, "--isa", "scalar",
              "--act", "f32", "--chunk", 64, "-o", "json", stdout=subprocess.PIPE,
              stderr=subprocess.PIPE)
    try:
        while b"threads" not in p.stderr.readline():
            check(p.poll() is None)
        p.send_signal(signal.SIGINT)
        out, _ = p.communicate(timeout=600)
    finally:
        p.kill()
    equal((p.returncode, json.loads(out)), (130, []))


if __name__ == "__main__":
    main(globals())
