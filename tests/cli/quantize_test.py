#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests of `quire quantize`: what the tensors of the new file are, that nothing else changed, and
what is refused. Prints TAP."""

import json
import os
import subprocess

from tap import ENV, QUIRE, check, equal, main, model, path, quire, read, write


def tensors(file):
    """types by name, values by key"""
    out = json.loads(quire("inspect", file, "--json").stdout)
    return ({t["name"]: t["type"] for t in out["tensors"]},
            {k: v["value"] for k, v in out["metadata"].items()})


def source():
    return model("f32", "--type", "F32", "--seed", 3)


def test_one_format_for_all_matrices():
    types, _ = tensors(source())
    quire("quantize", source(), path("q8.gguf"), "q8_0")
    new, keys = tensors(path("q8.gguf"))
    equal(list(new), list(types))
    for name, kind in new.items():
        vector = "norm" in name or name.endswith(".bias")
        equal(kind, "F32" if vector else "Q8_0", name)
    equal(keys["general.file_type"], 7)
    equal(keys["general.quantization_version"], 2)


def test_keys_are_copied():
    _, before = tensors(source())
    quire("quantize", source(), path("keys.gguf"), "Q4_0")
    _, after = tensors(path("keys.gguf"))
    for name in ("general.file_type", "general.quantization_version", "general.alignment"):
        before.pop(name, None)
        after.pop(name, None)
    equal(after, before)


def test_a_mix_gives_more_bits_where_errors_cost():
    quire("quantize", source(), path("mix.gguf"), "Q4_K_M")
    new, keys = tensors(path("mix.gguf"))
    equal(new["output.weight"], "Q6_K")
    equal(new["blk.0.attn_q.weight"], "Q4_K")
    check("Q6_K" in (new[n] for n in new if n.endswith("ffn_down.weight")), new)
    equal(keys["general.file_type"], 15)


def test_the_same_format_is_the_same_bytes():
    quire("quantize", source(), path("same.gguf"), "F32")
    for name in tensors(source())[0]:
        quire("inspect", source(), "--tensor", name, "-o", path("a.f32"))
        quire("inspect", path("same.gguf"), "--tensor", name, "-o", path("b.f32"))
        equal(read("a.f32"), read("b.f32"), name)


def test_any_thread_count_gives_the_same_file():
    for threads in (1, 2, 3):
        quire("quantize", source(), path(f"t{threads}.gguf"), "Q4_K_S", "-t", threads)
        equal(read(f"t{threads}.gguf"), read("t1.gguf"))


def test_the_new_file_answers():
    quire("quantize", source(), path("run.gguf"), "IQ4_XS")
    out = quire("run", "-m", path("run.gguf"), "-p", "abc", "-n", 8, "--temp", 0)
    check(out.stdout, "nothing came out")


def test_quantized_files_need_a_word():
    quire("quantize", source(), path("once.gguf"), "Q8_0")
    out = quire("quantize", path("once.gguf"), path("twice.gguf"), "Q4_0", status=2)
    check(b"--from-quantized" in out.stderr and b"Q8_0 already" in out.stderr, out.stderr)
    check(not os.path.exists(path("twice.gguf")), "a file was left behind")
    quire("quantize", path("once.gguf"), path("twice.gguf"), "Q4_0", "--from-quantized")
    equal(tensors(path("twice.gguf"))[0]["blk.0.attn_q.weight"], "Q4_0")


def test_wrong_words_are_named():
    out = quire("quantize", source(), path("x.gguf"), "Q4_9", status=2)
    check(b"Q4_9" in out.stderr and b"Q4_K_M" in out.stderr, out.stderr)
    quire("quantize", source(), status=2)
    out = quire("quantize", source(), source(), "Q8_0", status=2)
    check("choose another name" in out.stderr.decode(), out.stderr)
    out = quire("quantize", source(), path("no/such/x.gguf"), "Q8_0", status=1)
    check("cannot be created" in out.stderr.decode(), out.stderr)
    quire("quantize", write("broken.gguf", "GGUF"), path("x.gguf"), "Q8_0", status=3)


def test_a_file_size_limit_leaves_nothing():
    before = set(os.listdir(os.path.dirname(path("x"))))
    code = subprocess.run(["bash", "-c", 'ulimit -f 64; exec "$0" "$@"', QUIRE, "quantize",
                           source(), path("full.gguf"), "Q8_0"], env=ENV, capture_output=True)
    equal(code.returncode, 1, code.stderr)
    check(b"cannot be written" in code.stderr, code.stderr)
    equal(set(os.listdir(os.path.dirname(path("x")))), before)


if __name__ == "__main__":
    main(globals())
