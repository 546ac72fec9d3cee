#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quire batch: the same answers as single runs, nothing lost and nothing twice."""
import json
import os
import resource
import signal
import subprocess
import time

from tap import TMP, Skip, check, equal, main, path, quire, read, rows, start, tiny, write

TOKENS = 24


def line(custom_id, **body):
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": "/v1/completions",
                       "body": body})


def job(count, tokens=TOKENS):
    return "".join(line("id-%d" % i, prompt="Prompt %d of %s" % (i, "many " * (i % 7)),
                        max_tokens=tokens, temperature=0.8, seed=i, ignore_eos=True) + "\n"
                   for i in range(count))


def texts(name):
    """custom_id -> text; each id must be there once."""
    out = {}
    for row in rows(name):
        equal(row["response"]["status_code"], 200, row)
        check(row["custom_id"] not in out, row["custom_id"], "twice")
        out[row["custom_id"]] = row["response"]["body"]["choices"][0]["text"]
    return out


def batch(source, target, *more, status=0):
    return quire("batch", "-m", tiny(), "-i", path(source), "-o", path(target), "-c", 256, *more,
                 status=status)


def undisturbed():
    if not os.path.exists(path("right.jsonl")):
        write("job.jsonl", job(64))
        batch("job.jsonl", "right.jsonl", "-q")
    return texts("right.jsonl")


def test_64_prompts_equal_64_single_runs():
    right = undisturbed()
    equal(len(right), 64)
    for i, row in enumerate(job(64).splitlines()):
        body = json.loads(row)["body"]
        p = quire("run", "-m", tiny(), "-p", body["prompt"], "-n", TOKENS, "--temp", 0.8, "-s", i,
                  "--ignore-eos", "--json", "-q", "-c", 256)
        equal(json.loads(p.stdout)["text"], right["id-%d" % i], i)


def test_window_and_pool_do_not_change_the_text():
    right = undisturbed()
    for number, more in enumerate([["--max-rows", 3], ["--kv-tokens", 256, "--chunk", 5]]):
        batch("job.jsonl", "other-%d.jsonl" % number, "-q", *more)
        equal(texts("other-%d.jsonl" % number), right)


def wait_for_rows(name, count, process):
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        if os.path.exists(path(name)) and read(name).count(b"\n") >= count:
            return True
        time.sleep(0.01)
    return False


def test_killed_and_started_again_each_id_once():
    right = undisturbed()
    killed = 0
    for at in [1, 12, 30, 50]:
        p = start("batch", "-m", tiny(), "-i", path("job.jsonl"), "-o", path("killed.jsonl"), "-q",
                  "-c", 256, stderr=subprocess.DEVNULL)
        if wait_for_rows("killed.jsonl", at, p):
            p.kill()
            killed += 1
        p.wait()
        with open(path("killed.jsonl"), "ab") as f:  # and what a kill inside a write leaves
            f.write(b'{"id":"batch_req_9","custom_id":"id-')
    check(killed >= 2, "the job was over before it could be killed")
    p = batch("job.jsonl", "killed.jsonl")
    check(b"64 ok, 0 failed" in p.stderr, p.stderr[-300:])
    equal(texts("killed.jsonl"), right)


def test_sigterm_leaves_a_resumable_file():
    right = undisturbed()
    write("long.jsonl", job(64, 80))
    for number, at in [(signal.SIGTERM, 2), (signal.SIGINT, 20)]:
        p = start("batch", "-m", tiny(), "-i", path("long.jsonl"), "-o", path("stopped.jsonl"),
                  "-c", 256, "--grace", 0, stderr=subprocess.PIPE)
        check(wait_for_rows("stopped.jsonl", at, p))
        p.send_signal(number)
        err = p.communicate(timeout=60)[1]
        equal(p.returncode, 75, err[-300:])
        check(b"start it again" in err, err[-300:])
        check(read("stopped.jsonl").endswith(b"\n"))
    batch("long.jsonl", "stopped.jsonl", "-q")
    got = texts("stopped.jsonl")
    equal(len(got), 64)
    for custom_id, text in got.items():
        check(text.startswith(right[custom_id]) or right[custom_id].endswith("\ufffd"), custom_id)


def bad_rows(limit_words):
    return "\n".join([
        line("a", prompt="Hello", max_tokens=4),
        "",
        '{"custom_id": "b", "method": "POST", "url": "/v1/comp',
        '{"method": "POST", "url": "/v1/completions", "body": {"prompt": "x"}}',
        '{"custom_id": "c", "method": "POST", "url": "/v1/unknown", "body": {"prompt": "x"}}',
        line("d", prompt="word " * limit_words),
        line("e", prompt="x", max_tokens="4"),
        line("f", prompt="x", stream=True),
        line("g", prompt="bye", max_tokens=4),
    ]) + "\n"


def test_bad_rows_get_error_rows():
    write("bad.jsonl", bad_rows(600))
    p = batch("bad.jsonl", "bad-out.jsonl", status=5)
    check(b"2 ok, 6 failed" in p.stderr.splitlines()[-1], p.stderr[-200:])
    by_line = {row["line"]: row for row in rows("bad-out.jsonl")}
    equal(sorted(by_line), [1, 3, 4, 5, 6, 7, 8, 9])
    right = {1: ("a", 200, None), 3: (None, 400, "invalid_json"), 4: (None, 400, "missing_field"),
             5: ("c", 404, "unknown_url"), 6: ("d", 400, "context_length_exceeded"),
             7: ("e", 400, "invalid_type"), 8: ("f", 400, "not_supported"), 9: ("g", 200, None)}
    for number, (custom_id, status, code) in right.items():
        row = by_line[number]
        equal(row["custom_id"], custom_id)
        equal(row["response"]["status_code"], status)
        equal(row["error"] and row["error"]["code"], code)
        check("id" in row and "request_id" in row["response"])
        if code is None:
            equal(row["response"]["body"]["usage"]["completion_tokens"], 4)
        else:
            equal(row["response"]["body"]["error"]["code"], code)
    for number in [3, 4]:
        check("line %d" % number in by_line[number]["error"]["message"])
    check("max_tokens" in by_line[7]["error"]["message"])
    equal(by_line[6]["response"]["body"]["error"]["n_ctx"], 256)
    before = read("bad-out.jsonl")
    p = batch("bad.jsonl", "bad-out.jsonl", status=5)
    check(b"2 ok, 6 failed (8 of them from before)" in p.stderr, p.stderr[-200:])
    equal(read("bad-out.jsonl"), before)


def test_deep_and_endless_lines():
    with open(path("deep.jsonl"), "wb") as f:
        f.write(b"[" * 100000 + b"\n")
        f.write(b'{"prompt": "' + b"x" * (65 << 20) + b'"}\n')
        f.write(b'{"prompt": "x", "max_tokens": 1}\n')
        f.write(b"\xff\xfe\n")
    batch("deep.jsonl", "deep-out.jsonl", "-q", status=5)
    got = {row["line"]: row["error"] and row["error"]["code"] for row in rows("deep-out.jsonl")}
    equal(got, {1: "invalid_json", 2: "line_too_long", 3: None, 4: "invalid_json"})


def test_full_disk_leaves_whole_rows():
    right = undisturbed()
    limit = len(read("right.jsonl")) // 2 + 7  # somewhere inside a row

    def limit_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    p = start("batch", "-m", tiny(), "-i", path("job.jsonl"), "-o", path("full.jsonl"), "-q",
              "-c", 256, stderr=subprocess.PIPE, preexec_fn=limit_files)
    err = p.communicate(timeout=60)[1]
    equal(p.returncode, 1, err)
    check(b"the output cannot be written" in err, err)
    check(read("full.jsonl").endswith(b"}\n") and len(texts("full.jsonl")) > 10)
    batch("job.jsonl", "full.jsonl", "-q")
    equal(texts("full.jsonl"), right)


def test_full_disk_of_64_kib():
    right = undisturbed()
    disk = path("disk")
    os.makedirs(disk)
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk],
                           capture_output=True)
    if mount.returncode != 0:
        raise Skip("a tmpfs cannot be mounted: " + mount.stderr.decode().strip())
    try:
        write("fill.jsonl", job(400))
        p = quire("batch", "-m", tiny(), "-i", path("fill.jsonl"), "-o", disk + "/out.jsonl", "-q",
                  "-c", 256, status=75)
        check(b"No space left" in p.stderr and b"start it again" in p.stderr, p.stderr)
        check(read("disk/out.jsonl").endswith(b"}\n"), "a row is cut off")
        count = len(texts("disk/out.jsonl"))
        check(50 < count < 400, count)
        for name in ("out.jsonl", "out.jsonl.job"):
            write(name, read("disk/" + name))
    finally:
        subprocess.run(["umount", disk], check=True)
    batch("fill.jsonl", "out.jsonl", "-q")
    got = texts("out.jsonl")
    equal(len(got), 400)
    equal({k: got[k] for k in right}, right)


def test_no_final_line_end_blank_lines_and_crlf():
    write("ends.jsonl", '\n  \n{"prompt": "x", "max_tokens": 2}\r\n\t\n'
          '{"prompt": "y", "max_tokens": 2}')
    batch("ends.jsonl", "ends-out.jsonl", "-q")
    equal(sorted(row["line"] for row in rows("ends-out.jsonl")), [3, 5])


def test_byte_order_mark_is_not_part_of_the_first_line():
    mark, text = "\ufeff", '{"prompt": "x", "max_tokens": 2}\n'
    write("mark.jsonl", mark + text + text)
    batch("mark.jsonl", "mark-out.jsonl", "-q")
    equal(sorted(row["line"] for row in rows("mark-out.jsonl")), [1, 2])
    write("mark-2.jsonl", text + mark + text)  # anywhere else it is not JSON
    batch("mark-2.jsonl", "mark-2-out.jsonl", "-q", status=5)


def test_shorthand_equals_run_with_its_defaults():
    write("short.jsonl", '{"prompt": "the prompt"}\n')
    batch("short.jsonl", "short-out.jsonl", "-q")
    row = rows("short-out.jsonl")[0]
    text = row["response"]["body"]["choices"][0]["text"]
    p = quire("run", "-m", tiny(), "-p", "the prompt", "-q", "-c", 256)
    equal(p.stdout.decode(), text + "\n")
    check(row["response"]["body"]["usage"]["completion_tokens"] <= 128)


def test_stdin_to_stdout():
    p = quire("batch", "-m", tiny(), "-i", "-", "-o", "-", "-q", "-c", 256,
              stdin=job(3, 4).encode())
    ids = sorted(json.loads(s)["custom_id"] for s in p.stdout.splitlines())
    equal(ids, ["id-0", "id-1", "id-2"])


def test_rows_come_while_stdin_is_open():
    p = start("batch", "-m", tiny(), "-i", "-", "-o", "-", "-q", "-c", 256, stdin=subprocess.PIPE,
              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    for i in range(3):
        p.stdin.write(line("k%d" % i, prompt="x", max_tokens=2).encode() + b"\n")
        p.stdin.flush()
        equal(json.loads(p.stdout.readline())["custom_id"], "k%d" % i)
    p.stdin.close()
    equal(p.wait(timeout=30), 0)
    p.stdout.close()


def test_same_custom_id_twice_in_one_input():
    write("twice.jsonl", line("k", prompt="x", max_tokens=2) + "\n" + line("k", prompt="y") + "\n")
    batch("twice.jsonl", "twice-out.jsonl", "-q", status=5)
    out = {row["line"]: row for row in rows("twice-out.jsonl")}
    equal([out[1]["custom_id"], out[2]["custom_id"]], ["k", None])
    equal(out[2]["error"]["code"], "duplicate_custom_id")
    batch("twice.jsonl", "twice-out.jsonl", "-q", status=5)
    equal(len(rows("twice-out.jsonl")), 2)


def test_several_prompts_and_choices():
    write("many.jsonl",
          line("k", prompt=["a b", "c d"], n=3, max_tokens=6, seed=5, logprobs=1) + "\n")
    batch("many.jsonl", "many-out.jsonl", "-q")
    choices = rows("many-out.jsonl")[0]["response"]["body"]["choices"]
    equal([c["index"] for c in choices], list(range(6)))
    check(len({c["text"] for c in choices[:3]}) > 1, "choices draw alike")
    for c in choices:
        for chosen, top in zip(c["logprobs"]["token_logprobs"], c["logprobs"]["top_logprobs"]):
            check(chosen <= max(top.values()))


def test_zero_byte_as_a_token():
    p = quire("tokenize", "-m", tiny(), "--jsonl", write("zero-text.jsonl", r'"\u0000"' + "\n"))
    zero = json.loads(p.stdout)[-1]
    write("zero.jsonl", line("k", prompt=[zero, zero], echo=True, logprobs=0, max_tokens=2,
                             logit_bias={str(zero): 100}) + "\n")
    batch("zero.jsonl", "zero-out.jsonl", "-q")
    choice = rows("zero-out.jsonl")[0]["response"]["body"]["choices"][0]
    equal(choice["text"], "\0" * 4)
    equal([list(top) for top in choice["logprobs"]["top_logprobs"][1:]], [["\ufffd"]] * 3)
    before = read("zero-out.jsonl")
    batch("zero.jsonl", "zero-out.jsonl", "-q")  # the next start reads the row
    equal(read("zero-out.jsonl"), before)


def feed(output, **streams):
    """A job that reads on, with one row done."""
    p = start("batch", "-m", tiny(), "-i", "-", "-o", output, "-q", "-c", 256,
              stdin=subprocess.PIPE, stderr=subprocess.PIPE, **streams)
    p.stdin.write(line("k0", prompt="x", max_tokens=2).encode() + b"\n")
    p.stdin.flush()
    return p


def test_two_jobs_on_one_output():
    p = feed(path("both.jsonl"))
    check(wait_for_rows("both.jsonl", 1, p))
    before = read("both.jsonl")
    write("one.jsonl", line("k1", prompt="y", max_tokens=2) + "\n")
    second = batch("one.jsonl", "both.jsonl", status=1)
    check(b"is being written by another job" in second.stderr, second.stderr)
    second = batch("one.jsonl", "both.jsonl", "--retry-errors", status=1)
    equal(read("both.jsonl"), before)
    p.stdin.close()
    equal(p.wait(60), 0)
    batch("one.jsonl", "both.jsonl", "-q")
    equal(sorted(texts("both.jsonl")), ["k0", "k1"])
    p.stderr.close()


def test_a_reader_that_goes_away():
    p = feed("-", stdout=subprocess.PIPE)
    equal(json.loads(p.stdout.readline())["custom_id"], "k0")
    p.stdout.close()
    p.stdin.write(line("k1", prompt="x", max_tokens=2).encode() + b"\n")
    p.stdin.close()
    equal(p.wait(60), 1)
    check(b"the output cannot be written: Broken pipe" in p.stderr.read())
    p.stderr.close()


def test_outputs_that_cannot_be_made():
    write("one.jsonl", line("k1", prompt="y", max_tokens=2) + "\n")
    for output in ("/proc/out.jsonl", path("no/such/folder.jsonl"), TMP, "/dev/full"):
        p = quire("batch", "-m", tiny(), "-i", path("one.jsonl"), "-o", output, "-q", "-c", 256,
                  status=None)
        check(p.returncode in (1, 75), p.returncode, output, p.stderr)
        equal(p.stderr.count(b"\n") <= 2, True, p.stderr)


def test_output_of_something_else_is_refused():
    write("notes.txt", "my notes\n")
    write("one.jsonl", '{"prompt": "x"}\n')
    p = batch("one.jsonl", "notes.txt", status=2)
    check(b"is no row of a batch job" in p.stderr, p.stderr)
    equal(read("notes.txt"), b"my notes\n")
    p = batch("one.jsonl", "one.jsonl", status=2)
    equal(read("one.jsonl"), b'{"prompt": "x"}\n')
    for text in ["my only note", '{"prompt": "x"}']:  # without a line end, as a torn row is
        write("note.txt", text)
        batch("one.jsonl", "note.txt", status=2)
        batch("note.txt", "note.txt", status=2)
        equal(read("note.txt"), text.encode())
    p = batch("nothing.jsonl", "x.jsonl", status=2)
    check(b"-i" in p.stderr)


if __name__ == "__main__":
    main(globals())
