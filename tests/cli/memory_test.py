#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Two processes on one model: one copy of the weights, and little memory of their own."""
import json
import os
import re
import subprocess

from tap import ENV, QUIRE, Skip, check, main, model

MIB = 1 << 20


def mappings(pid):
    """(path, {field: bytes}) of every mapping."""
    try:
        with open("/proc/%d/smaps" % pid) as f:
            lines = f.read().splitlines()
    except OSError as e:
        raise Skip("smaps cannot be read: %s" % e)
    out = []
    for text in lines:
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", text):
            parts = text.split(None, 5)
            out.append((parts[5] if len(parts) > 5 else "", {}))
        else:
            m = re.match(r"(\w+):\s+(\d+) kB", text)
            if m:
                out[-1][1][m.group(1)] = int(m.group(2)) * 1024
    if not out or "Pss" not in out[0][1]:
        raise Skip("smaps has no Pss here")
    return out


def test_two_processes_share_the_weights():
    big = model("big", "--shape", "custom", "--width", 768, "--heads", 12, "--kv-heads", 4,
                "--layers", 8, "--ffn", 2048, "--vocab", 8192, "--ctx", 1024, "--type", "Q8_0",
                "--direct")
    size = os.path.getsize(big)
    line = json.dumps({"prompt": "some words " * 20, "max_tokens": 4}).encode() + b"\n"
    processes = []
    try:
        for _ in range(2):
            p = subprocess.Popen([QUIRE, "batch", "-m", big, "-i", "-", "-o", "-", "-c", "512"],
                                 env=ENV, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE)
            processes.append(p)
            p.stdin.write(line)
            p.stdin.flush()
        for p in processes:  # both have read every weight now, and still live
            check(json.loads(p.stdout.readline())["response"]["status_code"] == 200)
        maps = [mappings(p.pid) for p in processes]
        for p in processes:
            p.stdin.close()
        texts = [p.stderr.read().decode() for p in processes]
        for p in processes:
            check(p.wait(timeout=30) == 0)
    finally:
        for p in processes:
            p.kill()
            p.wait()
            p.stdout.close()
            p.stderr.close()
    pss = sum(f["Pss"] for m in maps for name, f in m if name == big)
    check(pss <= 1.05 * size, "Pss", pss, "file", size)
    check(pss >= 0.9 * size, "the weights are not mapped at all:", pss, "of", size)
    for m, text in zip(maps, texts):
        said = re.search(r"KV pool \d+ tokens [^,]*, [^,]*, (\d+) MiB; scratch (\d+) MiB", text)
        pool, scratch = map(int, said.groups())
        private = sum(f["Private_Dirty"] + f["Private_Clean"] for name, f in m if name != big)
        check(private < (pool + scratch + 50) * MIB, "private", private / MIB, "pool", pool,
              "scratch", scratch)


if __name__ == "__main__":
    main(globals())
