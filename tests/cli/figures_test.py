#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""README's ratios against other engines stand in the raw rows of bench/results."""
import glob
import json
import os
import re
import subprocess

from tap import ROOT, Skip, check, equal, main, path, write

COMPARE = os.path.join(ROOT, "bench", "compare")
RATIO = r"(\d+\.\d\d) \((\d+\.\d\d) to (\d+\.\d\d)\)"


def table(name, status=0):
    p = subprocess.run([COMPARE, "--read", name], capture_output=True, text=True)
    equal(p.returncode, status, name, p.stderr)
    return p.stdout


def rounds(name):
    with open(name) as raw:
        rows = [json.loads(line) for line in raw]
    return rows and all({"engines", "shape"} <= set(row) for row in rows)


def test_every_ratio_of_the_readme_has_its_rows():
    files = [f for f in glob.glob(os.path.join(ROOT, "bench", "results", "*.jsonl")) if rounds(f)]
    known = {tuple(map(float, r)) for f in files for r in re.findall(RATIO, table(f))}
    with open(os.path.join(ROOT, "README.md")) as readme:
        said = {tuple(map(float, r)) for r in re.findall(RATIO, readme.read())}
    if not said:
        raise Skip("README has no ratios")
    for one in said:
        check(any(max(abs(a - b) for a, b in zip(one, other)) < 0.011 for other in known), one)


def row(number, quire, peer, **more):
    return {"model": "m", "shape": "s", "cpu": "c", "round": number, "limits": {"read GB/s": 1.0},
            "engines": {"quire": {"1": [1, quire]}, "peer": {"1": [1, peer]}}, **more}


def test_contaminated_rounds_are_left_out_while_three_others_remain():
    bad = {"contaminated": ["limits moved"], "moved_percent": 50, "others_percent": 0}
    good = [row(i, 3.0, 1.5) for i in range(3)]
    write("rounds.jsonl", "\n".join(map(json.dumps, good + [row(4, 9.0, 1.5, **bad)])))
    said = table(path("rounds.jsonl"))
    check("3 of 4 rounds; contaminated: 1" in said, said)
    check("| 1 rows | 3.0 | 1.5 | 2.00 (2.00 to 2.00), 3 of 3, p 0.25 |" in said, said)
    write("few.jsonl", "\n".join(map(json.dumps, good[:2] + [row(4, 9.0, 1.5, **bad)])))
    said = table(path("few.jsonl"))
    check("3 of 3 rounds; contaminated: 1, used all the same" in said, said)
    check("2.00 (2.00 to 6.00), 3 of 3, p 0.25" in said, said)


def test_the_sign_test():
    write("signs.jsonl", "\n".join(json.dumps(row(i, 2.0 if i else 1.0, 1.5)) for i in range(6)))
    check("5 of 6, p 0.22" in table(path("signs.jsonl")))


if __name__ == "__main__":
    main(globals())
