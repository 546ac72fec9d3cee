#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quire logits, perplexity and bench fused: the same bits on every way, and numbers that agree."""
import array
import json
import math
import os

from tap import GOLDEN, Skip, check, equal, main, model, path, quire, read, tiny, write

TOKENS = [(i * 37 + i * i) % 500 for i in range(100)]


def logits(*more, source=None, name=None):
    write("tokens.txt", " ".join(map(str, TOKENS)))
    quire("logits", "-m", name or tiny(), "--tokens", source or path("tokens.txt"), "-o",
          path("out.f32"), "-q", *more)
    return read("out.f32")


def test_logits_are_the_same_bits_on_every_way():
    right = logits()
    equal(len(right), 100 * 512 * 4)
    for rows in [1, 2, 5, 16]:
        for chunk in [1, 7, 32, 100]:
            got = logits("--rows", rows, "--chunk", chunk, "--threads", 1 + rows % 2)
            equal(got, right, rows, chunk)
    for more in [["--isa", "scalar"], ["-t", 2, "--chunk", 200], ["--kv-tokens", 4096],
                 ["-c", 500]]:
        equal(logits(*more), right, more)


def test_act_f32_is_near_but_another_arithmetic():
    a, b = array.array("f", logits()), array.array("f", logits("--act", "f32"))
    nmse = sum((x - y) ** 2 for x, y in zip(a, b)) / sum(y * y for y in b)
    check(0 < nmse < 0.01, nmse)


def test_token_lists_in_every_spelling():
    right = logits()
    equal(logits(source=write("json.txt", json.dumps(TOKENS))), right)
    equal(logits(source=write("lines.txt", "\n".join(map(str, TOKENS)) + "\n")), right)
    for bad in ["1 2 512", "1 two", "", "-3"]:
        p = quire("logits", "-m", tiny(), "--tokens", write("bad.txt", bad), "-o", path("x"),
                  status=2)
        check(b"--tokens" in p.stderr or b"token 512" in p.stderr, p.stderr)
    one = logits(source=write("one.txt", "7"))
    equal(len(one), 512 * 4)
    equal(logits("--rows", 3, source=path("one.txt")), one)


def log_probability(row, token):
    top = max(row)
    return row[token] - top - math.log(sum(math.exp(x - top) for x in row))


def perplexity(name, chunk, *more):
    return json.loads(quire("perplexity", "-m", name, "-f", path("text.txt"), "-c", chunk, "--json",
                            "-q", *more).stdout)


def test_perplexity_agrees_with_the_logits():
    text = "Some text to score, with numbers 1234 and a few more words than one chunk holds. " * 4
    write("text.txt", text)
    ids = json.loads(quire("tokenize", "-m", tiny(), "-f", path("text.txt"), "--ids").stdout)
    chunk, total, scored = 64, 0.0, 0
    for begin in range(0, len(ids), chunk):
        part = ids[begin:begin + chunk]
        write("part.txt", json.dumps(part))
        all_logits = array.array("f", logits(source=path("part.txt")))
        for i in range(len(part) - 1):
            total -= log_probability(all_logits[i * 512:(i + 1) * 512], part[i + 1])
            scored += 1
    for more in [[], ["--chunk", 9], ["--max-rows", 1], ["-t", 1]]:
        out = perplexity(tiny(), chunk, *more)
        equal(out["tokens_scored"], scored)
        equal(out["tokens"], len(ids))
        check(abs(out["nll_mean"] - total / scored) < 1e-4, out, total / scored)
        check(abs(out["perplexity"] - math.exp(out["nll_mean"])) < 1e-9 * out["perplexity"])
    p = quire("perplexity", "-m", tiny(), "-f", path("text.txt"), "-c", chunk, "-q")
    plain = p.stdout.decode()
    check(plain.startswith("perplexity %.6f" % out["perplexity"]), plain)
    quire("perplexity", "-m", tiny(), "-f", write("short.txt", "a"), status=2)


def test_perplexity_of_a_vocabulary_with_bos():
    spm = model("spm", "--type", "F16", "--vocab-kind", "spm", "--seed", 3)
    write("text.txt", "words and words " * 20)
    out = perplexity(spm, 32)
    equal(out["tokens_scored"], out["tokens"])  # BOS stands first in each chunk


def test_bench_fused_counts_the_bytes():
    p = quire("bench", "fused", "--format", "q4_k", "--rows", 64, "--width", 512, "-r", 1,
              "--columns", "1,3", "--jsonl")
    for line, columns in zip(p.stdout.splitlines(), (1, 3), strict=True):
        row = json.loads(line)
        equal((row["format"], row["columns"]), ("Q4_K", columns))
        equal(row["fused_bytes"], 64 * 512 * 144 / 256)
        equal(row["unfused_bytes"], 64 * 512 * (144 / 256 + 8))
        check(row["fused_ms"] >= 0 and row["dequant_ms"] > 0, row)
    quire("bench", "fused", "--format", "Q9", status=2)
    quire("bench", "fused", "--width", 300, status=2)


def test_golden_logits_through_the_command():
    folder = os.path.join(GOLDEN, "models")
    if not os.path.isdir(folder):
        raise Skip("no golden models at " + GOLDEN)
    ids = open(os.path.join(folder, "tokens.txt")).read()
    write("golden.txt", ids)
    got = array.array("f", logits("--rows", 2, name=os.path.join(folder, "llama-F32.gguf"),
                                  source=path("golden.txt")))
    with open(os.path.join(folder, "llama-F32.logits.f32"), "rb") as f:
        right = array.array("f", f.read())
    equal(len(got), len(right))
    nmse = sum((x - y) ** 2 for x, y in zip(got, right)) / sum(y * y for y in right)
    check(nmse < 1e-6 + 1e-9, nmse)


if __name__ == "__main__":
    main(globals())
