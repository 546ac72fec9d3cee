#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quire run: where the prompt comes from, what ends an answer, and what is printed where."""
import json
import os
import signal
import subprocess
import time

from tap import check, equal, main, path, quire, start, tiny, write

GREEDY = ["--temp", 0, "-n", 12, "-q"]


def text(*args, **kwargs):
    return quire("run", "-m", tiny(), *args, **kwargs).stdout


def test_prompt_from_flag_stdin_and_file():
    right = text("-p", "the prompt", *GREEDY)
    check(len(right) > 1)
    equal(text(*GREEDY, stdin=b"the prompt"), right)
    equal(text("-p", "-", *GREEDY, stdin=b"the prompt"), right)
    equal(text("-f", write("prompt.txt", "the prompt"), *GREEDY), right)
    check(text("-p", "another", *GREEDY) != right)
    quire("run", "-m", tiny(), "-p", "x", "-f", path("prompt.txt"), status=2)


def test_json_has_the_same_text():
    right = text("-p", "abc", *GREEDY).decode()
    out = json.loads(text("-p", "abc", "--json", *GREEDY))
    equal(out["text"] + "\n", right)
    equal(out["completion_tokens"], 12)
    equal(out["finish_reason"], "length")
    for key in ["prompt_tokens", "seed", "prompt_per_second", "predicted_per_second"]:
        check(key in out, key)


def test_same_bits_whatever_threads_chunk_and_level():
    args = ["-p", "a longer prompt " * 6, "-n", 40, "-q", "--temp", 0.9, "-s", 3, "-c", 256]
    right = text(*args)
    for more in [["-t", 1], ["-t", 2], ["--chunk", 1], ["--chunk", 7], ["--isa", "scalar"],
                 ["--max-rows", 8], ["--kv-tokens", 512]]:
        equal(text(*args, *more), right, more)


def test_seed_decides_the_draw():
    draws = {text("-p", "x", "-n", 16, "-q", "-s", seed) for seed in range(4)}
    equal(len(draws), 4)
    equal(text("-p", "x", "-n", 16, "-q", "-s", 2), text("-p", "x", "-n", 16, "-q", "-s", 2))
    p = quire("run", "-m", tiny(), "-p", "x", "-n", 16, "-q", "-s", -1)
    word, seed = p.stderr.decode().split()
    equal(word, "seed")
    equal(text("-p", "x", "-n", 16, "-q", "-s", seed), p.stdout)


def test_stop_text_and_bias():
    whole = text("-p", "abc", *GREEDY).decode()[:-1]
    stop = whole[3:6]
    equal(text("-p", "abc", "--stop", stop, *GREEDY).decode(), whole[:whole.index(stop)] + "\n")
    only = json.loads(text("-p", "abc", "--logit-bias", "65+10000", "--json", *GREEDY))["text"]
    equal(len(set(only)), 1)


def test_context_ends_the_answer():
    out = json.loads(text("-p", "abc", "-n", -1, "-c", 40, "--ignore-eos", "--json", "-q"))
    equal(out["prompt_tokens"] + out["completion_tokens"], 40)
    equal(out["finish_reason"], "length")
    p = quire("run", "-m", tiny(), "-p", "word " * 100, "-c", 40, "-q", status=2)
    check(b"the limit is 40" in p.stderr, p.stderr)


def test_ctrl_c_ends_it_with_130():
    big = ["-n", -1, "-c", 20000, "--kv-tokens", 20000, "--ignore-eos"]
    p = start("run", "-m", tiny(), "-p", "abc", *big, stdout=subprocess.PIPE,
              stderr=subprocess.PIPE)
    check(len(p.stdout.read(20)) == 20)  # it streams
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=30)
    equal(p.returncode, 130)
    check(b"cancelled" in err, err[-300:])


def test_closed_stdout_is_an_error_not_a_signal():
    reading, writing = os.pipe()
    p = start("run", "-m", tiny(), "-p", "abc", "-n", 5000, "-c", 6000, "--ignore-eos", "-q",
              stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    os.read(reading, 5)
    os.close(reading)
    begin = time.monotonic()
    p.communicate(timeout=30)
    equal(p.returncode, 1)
    check(time.monotonic() - begin < 25)
    p = start("run", "-m", tiny(), "-p", "abc", "-n", 3, "-q", stdout=open("/dev/full", "wb"),
              stderr=subprocess.PIPE)
    p.communicate(timeout=30)
    equal(p.returncode, 1)


if __name__ == "__main__":
    main(globals())
