#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quire replay: a log of --log-events gives the same plans again, and a changed one does not."""
import json
import os

from tap import check, equal, main, path, quire, read, tiny, write


def log_a_batch():
    if os.path.exists(path("events")):
        return read("events")
    rows = [{"custom_id": "id-%d" % i, "method": "POST", "url": "/v1/completions",
             "body": {"prompt": "Prompt %d, %s" % (i, "again and " * i), "max_tokens": 40,
                      "n": 1 + i % 2, "temperature": 0.9, "seed": i}} for i in range(16)]
    write("in.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    quire("batch", "-m", tiny(), "-i", path("in.jsonl"), "-o", path("out.jsonl"), "-c", 256,
          "--kv-tokens", 320, "--chunk", 16, "--swap", path(""),
          "--chaos", "preempt=9,alloc=7,io=5", "--log-events", path("events"), "-q")
    return read("events")


def test_logged_batch_gives_the_same_plans():
    log_a_batch()
    out = quire("replay", path("events")).stdout.decode()
    check(out.endswith("24 requests, 0 cancels: the same plans\n"), out)


def test_changed_log_is_noticed_at_its_step():
    log = log_a_batch().replace(b"chunk_tokens=16 ", b"chunk_tokens=15 ")
    write("changed", log)
    out = quire("replay", path("changed"), status=1).stdout
    check(b": differs at step " in out and b"the log one of" in out, out)


def test_cut_log_is_played_to_its_end():
    log = log_a_batch()
    write("cut", log[:len(log) // 2])
    check(b"the same plans" in quire("replay", path("cut")).stdout)


def test_what_is_no_log_is_refused():
    write("other", "quire events 0\n")
    equal(quire("replay", path("other"), status=3).stdout, b"")
    quire("replay", path("nowhere"), status=None)
    check(b"no log" in quire("replay", status=2).stderr)


if __name__ == "__main__":
    main(globals())
