#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quire run --session, --cache-file, --swap: what stopped goes on with the same tokens, after a
normal end, after kill -9, and with a file beside it that was spoilt."""
import json
import os
import re
import signal
import subprocess

from tap import ENV, check, equal, main, path, quire, start, tiny, write

PROMPT = "A session is a text that goes on from one run to the next, and so does this prompt. " * 2
ARGS = ["-m", tiny(), "-c", 512, "--temp", 0.8, "-s", 7, "--ignore-eos"]


def home(name):
    ENV["XDG_STATE_HOME"] = path(name)
    return os.path.join(path(name), "quire")


def run(*args, **kwargs):
    return quire("run", *ARGS, *args, **kwargs)


def whole(tokens):
    return run("-p", PROMPT, "-n", tokens, "-q").stdout.rstrip(b"\n")


def counter(stderr, pattern):
    found = re.search(pattern, stderr.decode())
    check(found is not None, pattern)
    return int(found.group(1))


def test_a_session_goes_on_where_it_stopped():
    folder = home("goes-on")
    right = whole(90)
    parts = [run("-p", PROMPT, "-n", 40, "-q", "--session", "a").stdout.rstrip(b"\n")]
    out = run("-n", 50, "-v", "--session", "a")
    check(counter(out.stderr, r"(\d+) prompt tokens reused") > 32, "blocks come back")
    check(counter(out.stderr, r"swap .* (\d+) read") > 0)
    parts.append(out.stdout.rstrip(b"\n"))
    equal(b"".join(parts), right)
    names = sorted(os.listdir(folder))
    check("a.session" in names and any(n.endswith(".blocks") for n in names), names)


def test_more_text_is_added():
    home("more")
    run("-p", "One. ", "-n", 8, "-q", "--session", "b")
    first = run("-p", "Two. ", "-n", 8, "-q", "--session", "b").stdout
    home("more-again")
    run("-p", "One. ", "-n", 8, "-q", "--session", "b")
    equal(run("-p", "Two. ", "-n", 8, "-q", "--session", "b", "--no-prefix-cache").stdout, first)


def test_killed_in_the_middle():
    folder = home("killed")
    right = whole(200)
    process = start("run", *ARGS, "-p", PROMPT, "-n", 190, "-q", "--session", "k",
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    shown = b""
    while len(shown) < 20:
        shown += os.read(process.stdout.fileno(), 1)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    size = os.path.getsize(os.path.join(folder, "k.session"))
    check(size > 24 + 4 * len(PROMPT) // 8, "the prompt is kept, and the answer token by token")
    rest = run("-n", 10, "-q", "--session", "k").stdout.rstrip(b"\n")
    check(len(rest) > 0 and rest in right, "it goes on inside the undisturbed text")


def test_spoilt_files_cost_recomputation():
    folder = home("spoilt")
    right = whole(60)
    first = run("-p", PROMPT, "-n", 30, "-q", "--session", "s").stdout.rstrip(b"\n")
    blocks = [os.path.join(folder, n) for n in os.listdir(folder) if n.endswith(".blocks")][0]
    session = os.path.join(folder, "s.session")
    with open(blocks, "r+b") as f:
        data = f.read()
        f.seek(0)
        f.write(bytes(b ^ 1 if i > 4096 and i % 997 == 0 else b for i, b in enumerate(data)))
    with open(session, "ab") as f:
        f.write(b"\x05\x00\x00\x00torn")
    out = run("-n", 30, "-v", "--session", "s")
    equal(first + out.stdout.rstrip(b"\n"), right)
    check(b"damaged" in out.stderr, out.stderr)
    with open(session, "r+b") as f:
        f.write(b"not one")
    out = run("-n", 3, "--session", "s", status=2)
    check(b"is not a session" in out.stderr)


def test_names_and_flags():
    home("names")
    for name in ["", "../x", ".x", "a/b", "x" * 65]:
        run("-n", 1, "--session", name, "-p", "x", status=2)
    run("-n", 1, "--session", "x", "--chat", "-p", "x", status=2)


def test_foreign_cache_files_are_ignored_with_one_line():
    foreign = write("foreign.txt", "This is somebody's letter.\n" * 400)
    right = whole(20)
    out = run("-p", PROMPT, "-n", 20, "--cache-file", foreign)
    equal(out.stdout.rstrip(b"\n"), right)
    equal(out.stderr.count(b"warning:"), 1)
    check(b"not a block file" in out.stderr)
    equal(open(foreign).read(), "This is somebody's letter.\n" * 400)
    file = path("kept.blocks")
    run("-p", PROMPT, "-n", 20, "-q", "--cache-file", file)
    out = run("-p", PROMPT, "-n", 20, "--cache-file", file, "--act", "f32")
    equal(out.stderr.count(b"warning:"), 1)
    check(b"begun anew: it was made with another model" in out.stderr, out.stderr)


def test_a_cache_file_in_no_directory_is_named_so():
    out = run("-p", "x", "-n", 1, "--cache-file", path("nowhere") + "/a.blocks", status=1)
    check(b"No such file or directory" in out.stderr, out.stderr)


def test_batch_with_swap_and_chaos_says_the_same():
    rows = [{"prompt": (PROMPT * 2)[i:180 + i], "max_tokens": 60, "temperature": 0.7, "seed": i}
            for i in range(6)]
    source = write("swap.jsonl", "".join(json.dumps(r) + "\n" for r in rows))

    def texts(name, *args):
        out = quire("batch", "-m", tiny(), "-i", source, "-o", path(name), "-c", 512, "-np", 6,
                    "-v", *args)
        lines = sorted((json.loads(l) for l in open(path(name))), key=lambda r: r["id"])
        return [r["response"]["body"]["choices"][0]["text"] for r in lines], out.stderr

    right, _ = texts("swap-0.jsonl")
    for n, io in enumerate(["auto", "plain"]):
        got, said = texts("swap-1%d.jsonl" % n, "--kv-tokens", 512, "--swap", path("."), "--audit",
                          1, "--swap-io", io, "--chaos", "preempt=5,alloc=3")
        equal(got, right)
        check(counter(said, r"(\d+) preemptions") > 3)
        check((b"plain calls" in said) == (io == "plain") or b"io_uring is refused" in said)
    got, said = texts("swap-2.jsonl", "--kv-tokens", 512, "--swap", path("."), "--audit", 1,
                      "--chaos", "preempt=5,io=2")
    equal(got, right)
    quire("batch", "-m", tiny(), "-i", source, "-o", path("x.jsonl"), "--chaos", "io=0", status=2)


if __name__ == "__main__":
    main(globals())
