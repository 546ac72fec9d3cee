#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What block tables cost one sequence, in instructions, which do not depend on the machine's mood.

Callgrind counts one window of bench/paging for each arm. The contiguous arm has a table too (entry
i is i), because kernels know nothing else: instructions of the kernels' lines that read tables are
counted as well, and taken off it, so that what remains is a loop that looks nothing up."""
import os
import re
import shutil
import subprocess

from tap import BUILD, ROOT, TMP, Skip, check, equal, main, tiny

PAGING = os.path.join(BUILD, "bench", "paging")
READS = re.compile(r"\b(blocks|table)\[")
MOST = 0.02
ARMS = ("contiguous", "paged", "shuffled")
counts = {}


def lookups(folder="kernels"):
    """(file, line) of what reads a block table."""
    found = set()
    for where, _, names in os.walk(os.path.join(ROOT, folder)):
        for name in names:
            file = os.path.relpath(os.path.join(where, name), ROOT)
            if name.endswith((".c", ".h")) and not name.startswith(("quantize", "dequant")):
                with open(os.path.join(ROOT, file)) as f:
                    for number, line in enumerate(f, 1):
                        if READS.search(line):
                            found.add((file, number))
    return found


def sums(out):
    """Instructions of all lines of a callgrind file, and of those that read tables."""
    wanted, names = lookups(), {}
    file, line, total, reading, calls = "", 0, 0, 0, False
    with open(out) as f:
        for text in f:
            m = re.match(r"(f[lie])=\((\d+)\)(?: (.*))?$", text)
            if m:
                names.setdefault(m.group(2), (m.group(3) or "").strip())
                file = os.path.normpath(names[m.group(2)])
            m = re.match(r"(\+\d+|-\d+|\*|\d+) (\d+)$", text)
            if m:
                where = m.group(1)
                if where != "*":
                    line = line + int(where) if where[0] in "+-" else int(where)
                if not calls:
                    total += int(m.group(2))
                    reading += int(m.group(2)) if (file, line) in wanted else 0
            calls = text.startswith("calls=")
    return total, reading


def count(arm):
    """Of one window of 16 tokens at depth 128, on one thread."""
    if shutil.which("valgrind") is None:
        raise Skip("valgrind is not installed")
    if arm not in counts:
        out = os.path.join(TMP, "callgrind." + arm)
        run = subprocess.run(
            ["valgrind", "--tool=callgrind", "--toggle-collect=window*",
             "--callgrind-out-file=" + out, PAGING, "-m", tiny(), "-t", "1", "--depth", "128",
             "--tokens", "16", "--arm", arm],
            capture_output=True, text=True, timeout=600)
        equal(run.returncode, 0, run.stderr[-1500:])
        counts[arm] = sums(out)
    return counts[arm]


def test_callgrind_sees_the_table_being_read():
    for arm in ARMS:
        total, reading = count(arm)
        check(total > 1000000, arm, total)
        check(0 < reading < total, arm, reading)


def test_paging_costs_two_hundredths_of_the_instructions_at_most():
    total, reading = count("contiguous")
    base = total - reading
    print("# contiguous %d, of these %d read tables" % (total, reading))
    for arm in ARMS[1:]:
        tax = count(arm)[0] / base - 1
        print("# %s %d: %+.3f %%" % (arm, count(arm)[0], 100 * tax))
        check(tax <= MOST, arm, tax)


if __name__ == "__main__":
    main(globals())
