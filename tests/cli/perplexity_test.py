#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quire perplexity: closed forms, overlapping windows, and divergence from a saved base."""
import array
import json
import math
import os
import shutil
import struct

from tap import check, equal, main, model, path, quire, read, write

TEXT = "Some text to score, with numbers 1234 and a few more words than one window holds. " * 4
VOCAB = 512


def plain():
    return model("plain", "--type", "F32", "--seed", 5)


def score(name, *more, status=0):
    return quire("perplexity", "-m", name, "-f", path("text.txt"), "--json", "-q", *more,
                 status=status)


def result(name, *more):
    return json.loads(score(name, *more).stdout)


def tensors(name):
    return {t["name"]: t for t in json.loads(quire("inspect", name, "--json").stdout)["tensors"]}


def patched(out, changes):
    """plain() with tensors replaced: name -> floats of the whole tensor, or None for zeros."""
    shutil.copy(plain(), path(out))
    places = tensors(plain())
    with open(path(out), "r+b") as f:
        for name, floats in changes.items():
            f.seek(places[name]["offset"])
            f.write(bytes(places[name]["bytes"]) if floats is None else floats.tobytes())
    return path(out)


def test_a_model_without_preference_scores_the_size_of_its_vocabulary():
    write("text.txt", TEXT)
    out = result(patched("uniform.gguf", {"output.weight": None}))
    check(abs(out["perplexity"] - VOCAB) < 1e-3, out)


def test_a_model_that_is_certain_scores_one():
    write("text.txt", "q" * 200)
    ids = json.loads(quire("tokenize", "-m", plain(), "-f", path("text.txt"), "--ids").stdout)
    token = ids[0]
    equal(set(ids), {token})
    quire("inspect", plain(), "--tensor", "token_embd.weight", "-o", path("embed.f32"))
    embed = array.array("f", read("embed.f32"))
    width = len(embed) // VOCAB
    output = array.array("f", [0.0]) * len(embed)
    for i in range(width):
        output[token * width + i] = math.copysign(50.0, embed[token * width + i])
    changes = {n: None for n in tensors(plain()) if n.endswith(("attn_output.weight",
                                                               "ffn_down.weight"))}
    out = result(patched("certain.gguf", {**changes, "output.weight": output}), "--act", "f32")
    check(abs(out["perplexity"] - 1) < 1e-6, out)


def log_probability(row, token):
    top = max(row)
    return row[token] - top - math.log(sum(math.exp(x - top) for x in row))


def test_windows_that_overlap():
    write("text.txt", TEXT)
    ids = json.loads(quire("tokenize", "-m", plain(), "-f", path("text.txt"), "--ids").stdout)
    for window, stride in ((64, 16), (50, 49), (64, 64), (500, 100)):
        total, done, count = 0.0, 1, 0
        for begin in range(0, len(ids), stride):
            part = ids[begin:begin + window]
            if begin == done:
                done += 1
            write("part.txt", json.dumps(part))
            quire("logits", "-m", plain(), "--tokens", path("part.txt"), "-o", path("part.f32"))
            logits = array.array("f", read("part.f32"))
            for i in range(done - begin, len(part)):
                total -= log_probability(logits[(i - 1) * VOCAB:i * VOCAB], part[i])
                count += 1
            done = max(done, begin + len(part))
            if done >= len(ids):
                break
        out = result(plain(), "-c", window, "--stride", stride)
        equal(out["tokens_scored"], count, window, stride)
        check(abs(out["nll_mean"] - total / count) < 1e-4, out, total / count)
    said = score(plain(), "-c", 32, "--stride", 33, status=2).stderr
    check(b"--stride 33 leaves tokens out" in said, said)


def distributions(name, ids, window):
    for begin in range(0, len(ids), window):
        part = ids[begin:begin + window]
        write("part.txt", json.dumps(part))
        quire("logits", "-m", name, "--tokens", path("part.txt"), "-o", path("part.f32"))
        logits = array.array("f", read("part.f32"))
        for i in range(1, len(part)):
            row = logits[(i - 1) * VOCAB:i * VOCAB]
            top = max(row)
            norm = top + math.log(sum(math.exp(x - top) for x in row))
            yield [x - norm for x in row], row.index(top)


def test_divergence_from_a_base():
    write("text.txt", TEXT)
    other = path("q4.gguf")
    quire("quantize", plain(), other, "Q2_K", "-q")
    kept = score(plain(), "-c", 64, "--save-base", path("base.kl")).stdout
    equal(json.loads(kept), result(plain(), "-c", 64))
    same = result(plain(), "-c", 64, "--base", path("base.kl"))["base"]
    check(same["kl_max"] < 1e-4 and same["same_top"] == 1.0, same)
    ids = json.loads(quire("tokenize", "-m", plain(), "-f", path("text.txt"), "--ids").stdout)
    kls, tops = [], []
    for (p, p_top), (q, q_top) in zip(distributions(plain(), ids, 64),
                                      distributions(other, ids, 64)):
        kls.append(sum(math.exp(a) * (a - b) for a, b in zip(p, q)))
        tops.append(p_top == q_top)
    out = result(other, "-c", 64, "--base", path("base.kl"))["base"]
    mean = sum(kls) / len(kls)
    check(mean > 1e-3, "the two models are too much alike for a test", mean)
    check(abs(out["kl_mean"] - mean) < 0.01 * mean + 1e-5, out, mean)
    check(abs(out["kl_max"] - max(kls)) < 0.01 * max(kls) + 1e-4, out, max(kls))
    check(abs(out["same_top"] - sum(tops) / len(tops)) < 1e-9, out)
    said = quire("perplexity", "-m", other, "-f", path("text.txt"), "-c", 64, "-q", "--base",
                 path("base.kl")).stdout.decode()
    check("KL divergence" in said and "same best token" in said, said)


def test_a_base_must_fit():
    write("text.txt", TEXT)
    score(plain(), "-c", 64, "--save-base", path("fit.kl"))
    data = read("fit.kl")
    check(b"must be the same" in score(plain(), "-c", 32, "--base", path("fit.kl"),
                                       status=2).stderr)
    for wrong in (b"", data[:10], b"x" + data[1:], data[:-4],
                  data[:8] + struct.pack("<I", 7) + data[12:]):
        said = score(plain(), "-c", 64, "--base", write("wrong.kl", wrong), status=None)
        check(said.returncode in (2, 3) and b"--base" in said.stderr, said)
    check(b"cannot be opened" in score(plain(), "--base", path("none.kl"), status=2).stderr)
    write("text.txt", TEXT.replace("Some", "Same"))
    check(b"another text" in score(plain(), "-c", 64, "--base", path("fit.kl"), status=2).stderr)
    out = score(plain(), "-c", 64, "--save-base", "/dev/full", status=1)
    check(b"--save-base" in out.stderr, out.stderr)
    check(os.path.getsize(path("fit.kl")) == len(data))


if __name__ == "__main__":
    main(globals())
