#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Files that want to hurt: each costs one clear line, exit status 3, little time and memory."""
import json
import os
import resource
import shutil
import struct
import subprocess
import time

from serving import Reply, Server, post
from tap import ENV, QUIRE, check, equal, main, middle, path, start, tiny, write

U32, F32, STRING, ARRAY = 4, 6, 8, 9
TYPE_F32, TYPE_F16, TYPE_IQ1_S = 0, 1, 19
COMMANDS = [["inspect"], ["tokenize", "-p", "x"], ["run", "-p", "x", "-n", "1"],
            ["batch", "-i", os.devnull, "-o", "-"]]


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def key(name, kind, value):
    return text(name) + struct.pack("<I", kind) + value


def u32(name, value):
    return key(name, U32, struct.pack("<I", value))


def texts(name, items, times=1):
    count = len(items) * times
    return key(name, ARRAY, struct.pack("<IQ", STRING, count) + b"".join(map(text, items)) * times)


def vocabulary(merge="a b", times=1):
    """Keys of the smallest gpt2 vocabulary."""
    return [key("tokenizer.ggml.model", STRING, text("gpt2")),
            texts("tokenizer.ggml.tokens", ["a", "b", "ab"]),
            texts("tokenizer.ggml.merges", [merge], times)]


def gguf(name, keys, tensors=(), data_bytes=0):
    """A file whose tensors, (name, dimensions, type), all begin at its one piece of sparse data."""
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(keys)) + b"".join(keys)
    for tensor, dims, kind in tensors:
        head += text(tensor) + struct.pack("<I%dQ" % len(dims), len(dims), *dims)
        head += struct.pack("<IQ", kind, 0)
    with open(path(name), "wb") as f:
        f.write(head)
        f.truncate((len(head) + 31) // 32 * 32 + data_bytes)
    return path(name)


def refused(model, command, wanted):
    """Runs command on model. The peak is the largest child's so far, or this script's own."""
    p = subprocess.Popen([QUIRE, *command, "-m", model], env=ENV, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE)
    err = p.communicate(timeout=60)[1]
    equal(p.returncode, 3, command, err[-300:])
    check(err.count(b"\n") == 1 and wanted in err, command, err[-300:])
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    sanitized = "san-" in QUIRE
    check(sanitized or peak < 50, command, "took", peak, "MiB")


def test_more_merges_than_the_tokens_allow():
    for merge in ["", "a b"]:
        model = gguf("merges.gguf", vocabulary(merge, 500000))
        refused(model, ["tokenize", "-p", "x"], b"tokenizer.ggml.merges has 500000 elements")


def test_tensors_that_overlap_take_no_memory():
    wide, layers = 1 << 18, 1024
    keys = vocabulary() + [key("general.architecture", STRING, text("llama")),
                           key("llama.attention.layer_norm_rms_epsilon", F32,
                               struct.pack("<f", 1e-5))]
    for name, value in [("embedding_length", wide), ("block_count", layers),
                        ("feed_forward_length", 256), ("attention.head_count", 1),
                        ("context_length", 64), ("attention.key_length", 16),
                        ("attention.value_length", 16), ("rope.dimension_count", 16)]:
        keys.append(u32("llama." + name, value))
    tensors = [("token_embd.weight", [wide, 3], TYPE_IQ1_S),
               ("output_norm.weight", [wide], TYPE_F32)]
    for i in range(layers):
        for name, dims, kind in [
                ("attn_norm", [wide], TYPE_F32), ("attn_q", [wide, 16], TYPE_IQ1_S),
                ("attn_k", [wide, 16], TYPE_IQ1_S), ("attn_v", [wide, 16], TYPE_IQ1_S),
                ("attn_output", [16, wide], TYPE_F16), ("ffn_norm", [wide], TYPE_F32),
                ("ffn_gate", [wide, 256], TYPE_IQ1_S), ("ffn_up", [wide, 256], TYPE_IQ1_S),
                ("ffn_down", [256, wide], TYPE_IQ1_S)]:
            tensors.append(("blk.%d.%s.weight" % (i, name), dims, kind))
    model = gguf("wide.gguf", keys, tensors, wide * 256 // 256 * 50)
    refused(model, ["run", "-p", "x", "-n", "1", "-c", "8"], b"norms and biases")


def test_not_a_file():
    os.mkfifo(path("fifo"))
    for model in ["", "nothing", "fifo", ".", os.devnull, "/dev/zero"]:
        for command in COMMANDS:
            refused(model and os.path.join(path(""), model), command, b"quire")


def test_the_reason_is_seen_behind_a_long_path():
    deep = os.path.join(path(""), *["folder-%040d" % i for i in range(8)], "model.gguf")
    for command in COMMANDS:
        refused(deep, command, b"model.gguf: cannot be opened: No such file")


def cut_while_running(whole, tokens, *flags):
    model = path("cut.gguf")
    shutil.copy(whole, model)
    p = start("run", "-m", model, "-p", "abc", "-n", -1, "-c", tokens, "--kv-tokens", tokens,
              "--ignore-eos", "-q", *flags, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    check(len(p.stdout.read(20)) == 20)
    os.truncate(model, 4096)
    err = p.communicate(timeout=60)[1]
    equal(p.returncode, 3, err[-300:])
    equal(err.count(b"cut short"), 1, err[-300:])
    check(b"bytes of the model file are gone" in err.splitlines()[-1], err[-300:])


def test_cut_short_while_in_use():
    cut_while_running(tiny(), 20000)


def test_cut_short_while_streamed():
    cut_while_running(middle(), 2000, "--mem", "48M", "--max-rows", 2)


def test_cut_short_in_a_batch():
    """Every request that is left ends with one error, and the process with its summary."""
    model = path("cut.gguf")
    shutil.copy(tiny(), model)
    write("in.jsonl", "".join(json.dumps(
        {"custom_id": str(i), "method": "POST", "url": "/v1/completions",
         "body": {"prompt": "abc %d" % i, "max_tokens": 4000, "ignore_eos": True}}) + "\n"
        for i in range(12)))
    p = start("batch", "-m", model, "-i", path("in.jsonl"), "-o", path("out.jsonl"), "-np", 4,
              "-c", 5000, "--kv-tokens", 20000, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    while b"threads" not in (line := p.stderr.readline()):
        check(line, "no start line")
    time.sleep(0.2)
    os.truncate(model, 4096)
    err = p.communicate(timeout=60)[1]
    equal(p.returncode, 5, err[-300:])
    equal(err.count(b"cut short"), 1, err[-300:])
    rows = [json.loads(line) for line in open(path("out.jsonl"))]
    equal(sorted(int(r["custom_id"]) for r in rows), list(range(12)))
    check(all(r["error"] or r["response"]["status_code"] >= 500 for r in rows), rows[:2])


def cut_while_served(whole, tokens, *flags):
    """Each request in flight ends with one error, later ones with 503; the process stays and says
    why."""
    model = path("served.gguf")
    shutil.copy(whole, model)
    body = {"prompt": "abc", "max_tokens": tokens - 100, "ignore_eos": True}
    with Server("-c", tokens, "--kv-tokens", 4 * tokens, *flags, model=model) as s:
        equal(s.get("/health").status, 200)
        equal(s.metrics()["quire_model_lost"], 0)
        streams = []
        for _ in range(2):
            c = s.connect()
            c.sendall(post("/v1/completions", {**body, "stream": True}))
            streams.append(Reply(c.makefile("rb"), body=False))
            equal(streams[-1].status, 200)
        check(all(next(r.pieces()) for r in streams))
        whole_answer = s.connect()
        whole_answer.sendall(post("/v1/completions", body))
        check(any(s.metrics()["quire_requests_running"] == 3 for _ in range(1000)))
        os.truncate(model, 4096)
        for r in streams:
            frames = b"".join(r.pieces()).split(b"\n\n")
            errors = [f for f in frames if b'"error"' in f]
            equal(len(errors), 1, frames[-3:])
            check(b'"model_lost"' in errors[0], errors[0])
        r = Reply(whole_answer.makefile("rb"))
        equal((r.status, r.error["code"]), (503, "model_lost"))
        for path_ in ["/v1/completions", "/v1/chat/completions", "/v1/messages"]:
            r = s.post(path_, body)
            equal(r.status, 503, r.text)
            check("are gone" in r.error["message"], r.text)
        r = s.get("/health")
        equal((r.status, r.error["code"]), (503, "model_lost"))
        equal(s.metrics()["quire_model_lost"], 1)
        equal(s.get("/v1/models").status, 200)
        equal(s.process.poll(), None)
    check(any("cut short" in line for line in s.log), s.log)


def test_cut_short_while_served():
    cut_while_served(tiny(), 20000)


def test_cut_short_while_served_and_streamed():
    cut_while_served(middle(), 1000, "--mem", "60M", "-np", 4)


if __name__ == "__main__":
    main(globals())
