#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests of `quire inspect`: what it shows, what it writes, and that a bad file costs one line, exit
3 and under 50 MiB. Prints TAP."""

import json
import os
import struct
import subprocess
import sys
import tempfile

BUILD = os.environ.get("B", "build/release")
QUIRE = os.path.join(BUILD, "quire")
MKMODEL = os.path.join(BUILD, "tests/tools/mkmodel")
SANITIZED = "san-" in BUILD
WORK = tempfile.TemporaryDirectory(prefix="quire-inspect-")
results = []


def path(name):
    return os.path.join(WORK.name, name)


def check(name, good, why=""):
    results.append(good)
    print(f"{'ok' if good else 'not ok'} {len(results)} - {name}")
    if not good:
        print("".join(f"#   {line}\n" for line in str(why).splitlines()), end="")


def run(*args):
    """status, stdout, stderr, peak resident KiB"""
    with open(path("out"), "w+b") as out, open(path("err"), "w+b") as err:
        child = subprocess.Popen([QUIRE, "inspect", *args], stdout=out, stderr=err)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        return child.returncode, out.read(), err.read().decode(), usage.ru_maxrss


def mkmodel(name, *args):
    subprocess.run([MKMODEL, *args, "-o", path(name)], check=True)
    return path(name)


def save(name, data, size=None):
    """data: bytes, or pieces of them (a child's peak memory starts with ours: keep ours small)"""
    with open(path(name), "wb") as f:
        for piece in [data] if isinstance(data, bytes) else data:
            f.write(piece)
        if size is not None:
            f.truncate(size)
    return path(name)


def text(s):
    s = s.encode() if isinstance(s, str) else s
    return struct.pack("<Q", len(s)) + s


def head(tensors, keys):
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, keys)


def tensor(name, dims, kind, offset):
    return text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)


def test_shows_keys_and_tensors():
    status, out, err, _ = run(mkmodel("tiny.gguf", "--type", "Q8_0"))
    out = out.decode()
    check(
        "text lists keys and tensors",
        status == 0
        and err == ""
        and "general.architecture  string  llama" in out
        and "token_embd.weight  Q8_0  [256 x 512]" in out
        and "tokenizer.ggml.merges  string[253]" in out,
        out,
    )
    longest = max(len(line) for line in out.splitlines())
    check("long arrays and strings are cut in text", longest < 300, longest)


def test_json_is_complete():
    status, out, err, _ = run(path("tiny.gguf"), "--json")
    j = json.loads(out)
    tokens = j["metadata"]["tokenizer.ggml.tokens"]
    check(
        "json holds every element",
        status == 0
        and err == ""
        and j["version"] == 3
        and tokens["kind"] == "array"
        and tokens["elem_kind"] == "string"
        and tokens["count"] == 512
        and len(tokens["value"]) == 512
        and tokens["value"][509] == "<|endoftext|>",
    )
    embed = next(t for t in j["tensors"] if t["name"] == "token_embd.weight")
    check(
        "json describes tensors",
        embed["dims"] == [256, 512]
        and embed["type"] == "Q8_0"
        and embed["elements"] == 131072
        and embed["bytes"] == 139264
        and embed["file"] == 0
        and embed["offset"] % 32 == 0
        and j["files"]
        == [{"path": path("tiny.gguf"), "bytes": os.path.getsize(path("tiny.gguf"))}],
        embed,
    )


def test_json_of_every_kind():
    values = [
        ("u8", 0, "B", 200),
        ("i8", 1, "b", -3),
        ("u16", 2, "H", 65000),
        ("i16", 3, "h", -300),
        ("u32", 4, "I", 4000000000),
        ("i32", 5, "i", -70000),
        ("f32", 6, "f", 0.5),
        ("bool", 7, "B", 1),
        ("u64", 10, "Q", 2**64 - 1),
        ("i64", 11, "q", -(2**63)),
        ("f64", 12, "d", 0.1),
        ("nan", 6, "f", float("nan")),
    ]
    data = head(0, len(values) + 3)
    for name, kind, code, value in values:
        data += text(name) + struct.pack("<I" + code, kind, value)
    data += text("s") + struct.pack("<I", 8) + text(b'q"\\\n\x01\xff\xc3\xa9')
    nested = struct.pack("<IQ", 4, 2) + struct.pack("<II", 7, 8)  # [7, 8]
    nested += struct.pack("<IQ", 9, 2) + struct.pack("<IQ", 8, 1) + text("x")  # [["x"], []]
    nested += struct.pack("<IQ", 9, 0)
    nested += struct.pack("<IQ", 0, 0)  # []
    data += text("deep") + struct.pack("<IIQ", 9, 9, 3) + nested
    data += text("none") + struct.pack("<IIQ", 9, 9, 0)
    status, out, err, _ = run(save("kinds.gguf", data), "--json")
    meta = json.loads(out)["metadata"] if status == 0 else {}
    got = {name: entry["value"] for name, entry in meta.items()}
    want = {name: value for name, _, _, value in values}
    want.update(
        bool=True, nan=None, s='q"\\\n\x01\ufffd\u00e9', deep=[[7, 8], [["x"], []], []], none=[]
    )
    check("json of every kind, nested arrays too", got == want, f"{got}\n{err}")
    status, out, err, _ = run(path("kinds.gguf"))
    check(
        "text escapes bytes that are no characters",
        status == 0
        and rb'q"\\x0a\x01\xff' in out
        and b"\x01" not in out
        and b"\xff" not in out,
        out,
    )


def test_tensor_to_floats():
    exact = mkmodel("f32.gguf", "--type", "F32")
    status, _, err, _ = run(exact, "--tensor", "blk.1.ffn_down.weight", "-o", path("a.f32"))
    got = open(path("a.f32"), "rb").read()
    entry = next(
        t
        for t in json.loads(run(exact, "--json")[1])["tensors"]
        if t["name"] == "blk.1.ffn_down.weight"
    )
    with open(exact, "rb") as f:
        f.seek(entry["offset"])
        want = f.read(entry["bytes"])
    check(
        "an F32 tensor comes out as it is",
        status == 0 and got == want and len(got) == 4 * 512 * 256,
        err,
    )
    status, _, err, _ = run(
        path("tiny.gguf"), "--tensor", "blk.1.ffn_down.weight", "-o", path("b.f32")
    )
    a = struct.unpack("<131072f", got)
    b = struct.unpack("<131072f", open(path("b.f32"), "rb").read())
    error = sum((x - y) ** 2 for x, y in zip(a, b)) / sum(x * x for x in a)
    check(
        "a Q8_0 tensor comes out dequantized", status == 0 and 0 < error < 1e-4, f"{error} {err}"
    )
    status, out, err, _ = run(exact, "--tensor", "output_norm.weight", "-o", "-")
    check("-o - is standard output", status == 0 and len(out) == 1024, err)


def test_split_model():
    mkmodel("split.gguf", "--split", "3")
    first = path("split-00001-of-00003.gguf")
    status, out, _, _ = run(first, "--json")
    j = json.loads(out)
    check(
        "a split model is one model",
        status == 0
        and len(j["files"]) == 3
        and len(j["tensors"]) == 21
        and {t["file"] for t in j["tensors"]} == {0, 1, 2},
    )
    os.unlink(path("split-00002-of-00003.gguf"))
    status, _, err, _ = run(first)
    check(
        "a missing part is named",
        status == 3 and "split-00002-of-00003.gguf: is missing" in err,
        err,
    )


def test_usage():
    for name, args, words in [
        ("no model", [], "no model"),
        ("--tensor without -o", [path("tiny.gguf"), "--tensor", "x"], "-o FILE"),
        (
            "unknown tensor",
            [path("tiny.gguf"), "--tensor", "x", "-o", path("x.f32")],
            "no tensor x",
        ),
        ("unknown flag", [path("tiny.gguf"), "--jsn"], "--json"),
        ("two models", [path("tiny.gguf"), path("tiny.gguf")], ""),
    ]:
        status, out, err, _ = run(*args)
        check(
            f"usage: {name} is exit 2",
            status == 2 and words in err and out == b"",
            f"{status} {err}",
        )
    status, _, err, _ = run(
        path("tiny.gguf"), "--tensor", "output.weight", "-o", path("no/such/folder")
    )
    check("a file that cannot be written is exit 1", status == 1 and "no/such/folder" in err, err)


def bad_files():
    """CASES T20 and the classes behind it, with the words that the line must have."""
    good = open(mkmodel("good.gguf", "--type", "Q4_0"), "rb").read()
    yield "magic only", b"GGUF", None, "version at byte 4"
    yield "2^63 tensors", head(2**63, 0), None, "tensor count at byte 8"
    yield "key length 2^63 - 1", head(0, 1) + struct.pack(
        "<Q", 2**63 - 1
    ) + b"k" * 16, None, "name at byte 32"
    yield "five dimensions", head(1, 0) + tensor(
        "t", [1] * 5, 0, 0
    ) + b"\0" * 64, None, "dimension count at byte 33"
    yield "a dimension of 0", head(1, 0) + tensor(
        "t", [32, 0], 0, 0
    ) + b"\0" * 64, None, "dimension at byte 45"
    yield "big-endian", bytes.fromhex("4747554600000003") + b"\0" * 16, None, "big-endian"
    yield "web page", b"<!DOCTYPE html><html><body>404</body></html>", None, "web page"
    yield "half of a good file", good[: len(good) // 2], None, "cut short"
    yield "type 255", head(1, 0) + tensor("t", [32], 255, 0) + b"\0" * 64, None, "type at byte 45"
    yield "withdrawn type", head(1, 0) + tensor("t", [256], 31, 0) + b"\0" * 256, None, "Q4_0_4_4"
    yield "empty file", b"", None, "magic at byte 0"
    strings = text("a") + struct.pack("<IIQ", 9, 8, (2**26 - 49) // 8)
    yield "64 MiB of empty strings", head(0, 2) + strings, 100 << 20, "limit is 67108864"
    nested = text("a") + struct.pack("<IIQ", 9, 9, 5 << 20)
    yield "5 million empty arrays", head(0, 2) + nested, 100 << 20, "key 1 name"
    names = (
        head(0, 1001) if i == 0 else text(f"{i:08}" + "n" * 60000) + struct.pack("<IB", 0, 0)
        for i in range(1001)
    )
    yield "60 MB of key names", names, None, "key 1000"
    yield "a terabyte of nothing", head(65537, 0), 1 << 40, "tensor count at byte 8"


def test_bad_files():
    for name, data, size, words in bad_files():
        status, out, err, rss = run(save("bad.gguf", data, size))
        lines = err.splitlines()
        good = (
            status == 3 and out == b"" and len(lines) == 1 and words in err and "bad.gguf" in err
        )
        if not SANITIZED:
            good = good and rss < 50 << 10
        check(f"bad file: {name}", good, f"status {status}, {rss} KiB, {err}")
    for name, file, words in [
        ("missing file", path("none.gguf"), "none.gguf"),
        ("folder", WORK.name, "regular"),
    ]:
        status, out, err, _ = run(file)
        check(
            f"bad file: {name}",
            status == 3 and words in err and len(err.splitlines()) == 1,
            f"{status} {err}",
        )


def test_golden():
    folder = os.environ.get("QUIRE_GOLDEN", "../shared/golden")
    models = os.path.join(folder, "models")
    if not os.path.isdir(models):
        results.append(True)
        print(f"ok {len(results)} - golden models open # SKIP no ../shared/golden/models")
        return
    names = sorted(n for n in os.listdir(models) if n.endswith(".gguf"))
    failed = [n for n in names if run(os.path.join(models, n), "--json")[0] != 0]
    check("golden models open", not failed and len(names) > 40, failed)


for test in [
    test_shows_keys_and_tensors,
    test_json_is_complete,
    test_json_of_every_kind,
    test_tensor_to_floats,
    test_split_model,
    test_usage,
    test_bad_files,
    test_golden,
]:
    test()
print(f"1..{len(results)}")
sys.exit(not all(results))
