#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quire bench crossover on a tiny model: rows, resumption, equal texts, the report. No times."""
import json
import os
import shutil
import signal
import time

from tap import Skip, check, equal, main, path, quire, read, rows, start, tiny, write

SMALL = ["--quick", "-q", "--users", "1,2", "--size", "25", "--rounds", "2"]


def crossover(out, *flags, **kwargs):
    return quire("bench", "crossover", "-m", tiny(), "-o", path(out), *SMALL, *flags,
                 timeout=900, **kwargs)  # a sanitized build on a busy machine


def whole():
    """A finished crossover, made once in three calls."""
    if not os.path.exists(path("whole")):
        crossover("whole", "--seconds", 1)
        before = read("whole/results.jsonl")
        crossover("whole", "--seconds", 1)
        check(read("whole/results.jsonl").startswith(before), "rows are never written anew")
        crossover("whole")
    return rows("whole/results.jsonl")


def runs(all_rows):
    return [row for row in all_rows if row["row"] == "run"]


def test_every_run_is_there_once():
    found = whole()
    keys = [(row["row"], row["key"]) for row in found if row["row"] != "limits"]
    equal(len(keys), len(set(keys)))
    # Rounds x workloads x (A..G and A again, A E F G) and one round of three open loads.
    equal(len(runs(found)), 2 * 2 * (8 + 4) + 2 * 3 * 4)
    equal(sum(row["row"] == "tax" for row in found), 2)
    equal(found[0]["row"], "plan")
    p = found[0]["provenance"]
    check(p["command"].startswith("quire bench crossover -m "), p)
    check(p["cpu"] and p["model_digest"] and p["threads"] >= 1 and p["commit"], p)
    check(sum(row["row"] == "limits" for row in found) >= 2)
    before = read("whole/results.jsonl")
    check(b"74 of 74 runs" in crossover("whole").stdout)
    equal(read("whole/results.jsonl"), before)  # nothing is left to measure


def test_rungs_answer_alike():
    texts = {}
    for row in runs(whole()):
        place = (row["workload"], row["open"], row["load"])
        texts.setdefault(place, set()).add(row["texts"])
        equal(row["requests"], len(row["all_ttft_ms"]))
        equal(row["requests"], len(row["all_latency_ms"]))
        check(row["ttft_ms"]["p50"] <= row["ttft_ms"]["p95"] <= row["ttft_ms"]["max"])
        check(row["kv_peak_bytes"] > 0 and row["weight_read_bytes"] > 0 and row["steps"] > 0)
    check(all(len(same) == 1 for same in texts.values()), texts)
    check(len(set.union(*texts.values())) > 1, "workloads differ")


def test_rungs_differ_in_what_they_reuse():
    def of(rung, load, name, workload="chat"):
        return [row[name] for row in runs(whole()) if row["rung"] == rung and not row["open"]
                and row["load"] == load and row["workload"] == workload][0]
    equal([of(rung, 1, "cached_tokens") for rung in "DE"], [0, 0])
    check(of("A", 1, "cached_tokens") > of("A", 2, "cached_tokens"), "others push it out")
    equal(of("A", 1, "cached_tokens"), of("C", 1, "cached_tokens"))
    check(of("G", 2, "cached_tokens") > of("A", 2, "cached_tokens"))
    check(of("G", 2, "kv_read_bytes") < of("F", 2, "kv_read_bytes"), "one block is common")
    check(of("E", 2, "steps", "short") < of("A", 2, "steps", "short"))
    equal(of("A", 1, "steps", "short"), of("C", 1, "steps", "short"))


def test_other_texts_are_an_error():
    whole()
    shutil.copytree(path("whole"), path("other"))
    lines = read("other/results.jsonl").decode().splitlines()
    bad = [json.loads(line) for line in lines]
    last = max(i for i, row in enumerate(bad) if row["row"] == "run")
    gone = bad.pop(last)
    for row in bad:
        if row.get("load") == gone["load"] and row.get("workload") == gone["workload"]:
            row["texts"] = "0" * 32
    write("other/results.jsonl", "".join(json.dumps(row) + "\n" for row in bad))
    p = crossover("other", status=None)
    check(p.returncode not in (0, 130), p.returncode)
    check(b"gives other texts than rung" in p.stderr, p.stderr)
    check(all(row["key"] != gone["key"] for row in runs(rows("other/results.jsonl"))))


def test_a_damaged_plan_is_an_error():
    whole()
    lines = read("whole/results.jsonl").decode().splitlines()
    plan = json.loads(lines[0])
    os.makedirs(path("damaged"), exist_ok=True)
    for field, value in (("scale", 3.0), ("scale", -1.0), ("rounds", 1000000), ("speeds", {})):
        bad = [json.dumps({**plan, field: value})] + lines[1:]
        write("damaged/results.jsonl", "\n".join(bad) + "\n")
        p = crossover("damaged", status=None)
        check(b"the row of the plan is damaged" in p.stderr, field, p.returncode, p.stderr)


def test_report_has_everything():
    whole()
    text = read("whole/report.md").decode()
    for title in ("# Where batching over a paged cache begins to pay", "## What one user pays",
                  "## By number of users", "## The ladder at one user",
                  "## When people come as they like", "## Memory", "## What was measured",
                  "## Where these figures come from"):
        check(title in text, title)
    for part in ("quire bench crossover", "digest", "Noise:", "machine limit", "commit"):
        check(part in text, part)
    equal(text.count("| short questions, nothing shared |"), 1 + 1 + 3 + 1 + 1)
    check("nan" not in text and "inf" not in text)


def test_without_gnuplot_tables_are_there():
    whole()
    p = crossover("whole", "--report", env={"PATH": path("nothing")})
    check(b"gnuplot-nox" in p.stdout, p.stdout)
    check(b"![" not in read("whole/report.md"))
    check(b"set output 'throughput.svg'" in read("whole/plot.gp"))


def test_with_gnuplot_pictures_are_there():
    whole()
    if shutil.which("gnuplot") is None:
        raise Skip("gnuplot is not installed")
    crossover("whole", "--report")
    text = read("whole/report.md").decode()
    for name in ("throughput.svg", "completion.svg", "tax.svg"):
        check("](%s)" % name in text, name)
        check(b"users at once" in read("whole/" + name) or name == "tax.svg")
        check(read("whole/" + name).rstrip().endswith(b"</svg>"), name)


def test_a_signal_leaves_whole_rows():
    p = start("bench", "crossover", "-m", tiny(), "-o", path("cut"), "--quick", "-q", "--size", 100)
    name = path("cut/results.jsonl")
    while p.poll() is None and not (os.path.exists(name) and b'"run"' in read("cut/results.jsonl")):
        time.sleep(0.01)
    p.send_signal(signal.SIGINT)
    equal(p.wait(60), 130)
    check(all(row["row"] in ("plan", "limits", "tax", "run") for row in rows("cut/results.jsonl")))
    check(b"runs are done; what follows is of these" in read("cut/report.md"))


def test_flags():
    for flags in (["--users", "2,4"], ["--users", "1,1"], ["-c", "100"], ["--size", "101"],
                  ["--rounds", "99"]):
        crossover("none", *flags, status=2)
    crossover("none", "--report", status=2)


main(globals())
