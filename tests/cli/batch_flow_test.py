#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quire batch: packed input, plain text, order, shards, failed rows apart and again, checks, and
that a job goes on only with what it was begun with."""
import gzip
import json
import os
import subprocess

from tap import Skip, check, equal, main, model, path, quire, read, rows, tiny, write

COUNT = 40


def line(number, **body):
    return json.dumps({"custom_id": "id-%d" % number, "method": "POST", "url": "/v1/completions",
                       "body": {"prompt": "Number %d" % number, "max_tokens": 6 + number % 5,
                                "temperature": 0.7, "seed": number, **body}}) + "\n"


def job():
    return "".join(line(i) for i in range(COUNT))


def batch(source, target, *more, status=0):
    return quire("batch", "-m", tiny(), "-i", path(source), "-o", path(target), "-c", 128, "-q",
                 *more, status=status)


def bare(row):
    """A row without what differs from run to run."""
    body = row["response"]["body"]
    body.pop("created", None)
    body.get("usage", {}).pop("prompt_tokens_details", None)
    return row


def by_id(name):
    out = {}
    for row in rows(name):
        check(row["custom_id"] not in out, row["custom_id"], "twice")
        out[row["custom_id"]] = bare(row)
    return out


def whole():
    if not os.path.exists(path("whole.jsonl")):
        write("job.jsonl", job())
        batch("job.jsonl", "whole.jsonl")
    return by_id("whole.jsonl")


def test_packed_input():
    right = whole()
    data = job().encode()
    half = len(data) // 2
    write("job.gz", gzip.compress(data[:half]) + gzip.compress(data[half:]))
    batch("job.gz", "gz.jsonl")
    equal(by_id("gz.jsonl"), right)
    write("cut.gz", gzip.compress(data)[:-20])
    p = batch("cut.gz", "cut.jsonl", status=1)
    check(b"broken or cut off" in p.stderr, p.stderr)
    try:
        packed = subprocess.run(["zstd", "-c"], input=data, capture_output=True, check=True).stdout
    except FileNotFoundError as e:
        raise Skip("gzip was checked; no zstd program to make the other") from e
    write("job.zst", packed)
    batch("job.zst", "zst.jsonl")
    equal(by_id("zst.jsonl"), right)


def test_plain_text_lines_are_prompts():
    write("text.txt", "First line\r\n\n{not json}\n")
    batch("text.txt", "text.jsonl", "--format", "text", "--temp", 0, "-n", 5)
    got = {row["line"]: row["response"]["body"]["choices"][0]["text"] for row in rows("text.jsonl")}
    equal(sorted(got), [1, 3])
    for number, prompt in ((1, "First line"), (3, "{not json}")):
        p = quire("run", "-m", tiny(), "-p", prompt, "--temp", 0, "-n", 5, "-c", 128, "-q",
                  "--json")
        equal(json.loads(p.stdout)["text"], got[number])


def test_order_of_the_input():
    right = whole()
    for window in (1, 64):
        name = "ordered-%d.jsonl" % window
        batch("job.jsonl", name, "--ordered", "--window", window)
        got = rows(name)
        equal([row["custom_id"] for row in got], ["id-%d" % i for i in range(COUNT)])
        equal({row["custom_id"]: bare(row) for row in got}, right)


def test_shards_make_the_whole():
    right = whole()
    parts = {}
    for i in range(3):
        batch("job.jsonl", "shard-%d.jsonl" % i, "--shard", "%d/3" % i)
        part = by_id("shard-%d.jsonl" % i)
        check(COUNT // 3 <= len(part) <= COUNT // 3 + 1, len(part))
        check(not set(part) & set(parts), "a line is in two shards")
        parts.update(part)
    equal(parts, right)
    for bad in ("3/3", "x", "1", "-1/3", "0/0"):
        batch("job.jsonl", "bad.jsonl", "--shard", bad, status=2)


def failing_job():
    return "".join(line(i, **({"max_tokens": "six"} if i % 4 == 0 else {})) for i in range(COUNT))


def test_failed_rows_apart_and_again():
    right = whole()
    write("fails.jsonl", failing_job())
    batch("fails.jsonl", "good.jsonl", "--errors", path("errors.jsonl"), status=5)
    equal(len(rows("errors.jsonl")), COUNT // 4)
    check(all(row["error"] for row in rows("errors.jsonl")))
    check(all(row["error"] is None for row in rows("good.jsonl")))
    before = read("good.jsonl")
    batch("fails.jsonl", "good.jsonl", "--errors", path("errors.jsonl"), status=5)
    equal(read("good.jsonl"), before)
    # The input is repaired, and one line that never ran comes on top: only failures run again.
    write("fails.jsonl", job() + line(COUNT))
    batch("fails.jsonl", "good.jsonl", "--errors", path("errors.jsonl"), "--retry-errors")
    equal(by_id("good.jsonl"), right)
    equal(read("errors.jsonl"), b"")
    batch("fails.jsonl", "good.jsonl", "--errors", path("errors.jsonl"))
    equal(len(by_id("good.jsonl")), COUNT + 1)


def test_retry_in_one_file():
    right = whole()
    write("fails.jsonl", failing_job())
    batch("fails.jsonl", "one.jsonl", status=5)
    equal(sum(row["error"] is not None for row in rows("one.jsonl")), COUNT // 4)
    write("fails.jsonl", job())
    batch("fails.jsonl", "one.jsonl", "--retry-errors")
    equal(by_id("one.jsonl"), right)


def test_check_runs_nothing():
    write("fails.jsonl", failing_job() + line(99, prompt="word " * 300))
    p = quire("batch", "-m", tiny(), "-i", path("fails.jsonl"), "-c", 128, "-q", "--check",
              status=5)
    said = p.stdout.decode()
    check("%d lines would run, %d would fail" % (COUNT * 3 // 4, COUNT // 4 + 1) in said, said)
    check("at most %d tokens" % sum(6 + i % 5 for i in range(COUNT) if i % 4) in said, said)


def test_summary():
    write("fails.jsonl", failing_job())
    batch("fails.jsonl", "sum.jsonl", "--summary", path("sum.json"), status=5)
    got = json.loads(read("sum.json"))
    equal((got["ok"], got["failed"], got["stopped"]), (COUNT * 3 // 4, COUNT // 4, False))
    equal(got["output_tokens"], sum(row["response"]["body"]["usage"]["completion_tokens"]
                                    for row in rows("sum.jsonl") if not row["error"]))


def test_a_job_goes_on_with_what_it_was_begun_with():
    whole()
    batch("job.jsonl", "stamp.jsonl", "--top-k", 5)
    before = read("stamp.jsonl")
    p = batch("job.jsonl", "stamp.jsonl", "--top-k", 6, status=2)
    check(b"top_k 5, now it is 6" in p.stderr, p.stderr)
    p = batch("job.jsonl", "stamp.jsonl", "--top-k", 5, "--act", "f32", status=2)
    check(b"act" in p.stderr, p.stderr)
    for more, name in ((["--sampling-order", "llama.cpp"], b"order"), (["-n", 3], b"max_tokens"),
                       (["-ctk", "q8_0"], b"kv_type_k"), (["--no-special"], b"special")):
        p = batch("job.jsonl", "stamp.jsonl", "--top-k", 5, *more, status=2)
        check(name in p.stderr, p.stderr)
    other = model("other", "--type", "Q8_0", "--seed", 2)
    os.makedirs(path("same-name"), exist_ok=True)
    os.rename(other, path("same-name/tiny.gguf"))
    p = quire("batch", "-m", path("same-name/tiny.gguf"), "-i", path("job.jsonl"), "-o",
              path("stamp.jsonl"), "-c", 128, "-q", "--top-k", 5, status=2)
    check(b"digest" in p.stderr, p.stderr)
    batch("job.jsonl", "stamp.jsonl", "--top-k", 5, "-t", 1, "--max-rows", 3)
    equal(read("stamp.jsonl"), before)


def test_lines_that_share_their_beginning_meet():
    heads = ["alpha beta gamma delta " * 10, "one two three four " * 10]
    text = "".join(line(i, prompt=heads[i % 2] + str(i), max_tokens=2) for i in range(24))
    write("shared.jsonl", text)
    cached = {}
    for window in (1, 64):
        # A pool that keeps one head at most beside what runs.
        quire("batch", "-m", tiny(), "-i", path("shared.jsonl"), "-o",
              path("shared-%d.out" % window), "-c", 256, "--kv-tokens", 512, "--max-rows", 1,
              "--window", window, "--summary", path("shared.json"), "-q")
        cached[window] = json.loads(read("shared.json"))["cached_tokens"]
    check(cached[64] >= cached[1], cached)
    check(cached[64] > 0, cached)
    equal(by_id("shared-1.out"), by_id("shared-64.out"))


if __name__ == "__main__":
    main(globals())
