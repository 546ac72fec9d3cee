#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests of `quire fit`: from numbers, from a file, and what it says about itself."""
import json

from tap import check, equal, main, model, quire

SHAPE = ["--params", "1.1B", "--layers", 22, "--kv-heads", 4, "--head-dim", 64, "--type", "Q4_K",
         "-ctk", "f16", "-ctv", "f16", "-c", 2048]


def fit(*args, status=0):
    return json.loads(quire("fit", *args, "--json", status=status).stdout)


def test_the_anchor_of_a_1_1b_model():
    r = fit(*SHAPE, "--device", "pi-zero-2w")
    equal(r["kv_bytes_per_token"], 22 * 1024)
    equal(r["kv_bytes"], 44 << 20)
    equal(r["verdict"], "streams")
    equal(r["pinned_bytes"] + r["read_bytes_per_step"], r["weight_bytes_per_step"])
    text = quire("fit", *SHAPE, "--device", "pi-zero-2w").stdout.decode()
    check("22.00 KiB a token" in text and "44 MiB" in text and "fits by streaming" in text, text)


def test_its_own_flags_make_it_fit():
    figures = ["--ram", "256M", "--disk", "20M", "--bandwidth", "1G", "--macs", "1G"]
    r = fit(*SHAPE, *figures, "--users", 8, status=4)
    equal(r["verdict"], "does_not_fit")
    check(len(r["flags"]) >= 2, r["flags"])
    for line in r["flags"]:
        flags, verdict = line.split(": ")
        again = fit(*SHAPE, *figures, "--users", 8, *flags.split())
        equal({"fits": "fits", "streams": "fits by streaming"}[again["verdict"]], verdict)


def test_a_file_says_the_same_as_its_numbers():
    # Q8_0 and no mixture of formats; the embedding is read by rows
    path = model("fit", "--type", "Q8_0", "--seed", 3)
    r = fit(path, "--device", "pi-5", "-c", 256)
    equal(r["verdict"], "fits")
    inspected = json.loads(quire("inspect", path, "--json").stdout)
    tensors = inspected["tensors"]
    check(tensors, "no tensors")
    check(0 < r["weight_bytes_per_step"] < r["file_bytes"])
    check(r["scratch_bytes"] > 0)


def test_boards():
    lines = quire("fit", *SHAPE, "--users", 8, "--boards").stdout.decode().splitlines()
    check(all(line.count("|") == 8 for line in lines), lines)
    check(len(lines) >= 6)


def test_wrong_usage_names_the_flag():
    for args, text in [([], "--params"), (["--params", "x"], "MODEL"),
                       (SHAPE + ["--device", "pi-9"], "pi-9"),
                       (["--params", "1.1Q"] + SHAPE[2:], "1.1Q"),
                       (SHAPE[:8] + ["--type", "Q9"], "Q9")]:
        p = quire("fit", *args, status=2)
        check(text in p.stderr.decode(), p.stderr)
    p = quire("fit", "/nonexistent.gguf", status=3)
    equal(len(p.stderr.decode().splitlines()), 1)


if __name__ == "__main__":
    main(globals())
