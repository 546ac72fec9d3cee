#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`quire tokenize` from outside: input forms, output forms, errors and exit codes. Prints TAP.

The vocabulary is written here: 256 bytes, two merges, one control and one user-defined token.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
QUIRE = os.path.join(ROOT, os.environ.get("B", "build/release"), "quire")


def text(s):
    data = s.encode()
    return struct.pack("<Q", len(data)) + data


def key(name, kind, value):
    return text(name) + struct.pack("<I", kind) + value


def array(name, kind, values):
    return key(name, 9, struct.pack("<IQ", kind, len(values)) + b"".join(values))


def alphabet():
    """What byte-level BPE writes for the bytes 0..255."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x144))
    return [chr(b) if b in plain else chr(next(others)) for b in range(256)]


def write_model(path, pre="gpt-2"):
    tokens = alphabet() + ["he", "ll", "<|im_end|>", "<tool>"]
    types = [1] * 258 + [3, 4]
    keys = [
        key("tokenizer.ggml.model", 8, text("gpt2")),
        key("tokenizer.ggml.pre", 8, text(pre)),
        array("tokenizer.ggml.tokens", 8, [text(t) for t in tokens]),
        array("tokenizer.ggml.token_type", 5, [struct.pack("<i", t) for t in types]),
        array("tokenizer.ggml.merges", 8, [text("h e"), text("l l")]),
        key("tokenizer.ggml.bos_token_id", 4, struct.pack("<I", 258)),
        key("tokenizer.ggml.add_bos_token", 7, b"\1"),
    ]
    with open(path, "wb") as f:
        f.write(b"GGUF" + struct.pack("<IQQ", 3, 0, len(keys)) + b"".join(keys))


def run(*args, stdin=b""):
    r = subprocess.run([QUIRE, "tokenize", *args], input=stdin, capture_output=True, timeout=60)
    return r.returncode, r.stdout.decode(), r.stderr.decode()


def test_jsonl_ids(d):
    lines = ["hello", "", "a<|im_end|><tool>", "\u98a8\U0001F642", "nul \0", "line\nend"]
    path = os.path.join(d, "in.jsonl")
    with open(path, "w") as f:
        f.writelines(json.dumps(s) + "\n" for s in lines)
    code, out, err = run("-m", d + "/m.gguf", "--jsonl", path)
    assert (code, err) == (0, ""), err
    rows = out.split("\n")
    as_text = "[97,60,124,105,109,95,101,110,100,124,62,259]"
    assert rows[:3] == ["[256,257,111]", "[]", as_text], rows
    assert rows[6:] == [""], rows
    assert json.loads(rows[3]) == list("\u98a8\U0001F642".encode())
    assert json.loads(rows[4])[-1] == 0
    code, back, err = run("-m", d + "/m.gguf", "--jsonl", "-", "--decode", stdin=out.encode())
    assert (code, err) == (0, ""), err
    assert [json.loads(s) for s in back.splitlines()] == lines, back


def test_flags_bos_and_special(d):
    line = json.dumps("a<|im_end|>").encode()
    args = ("-m", d + "/m.gguf", "--jsonl", "-")
    assert run(*args, "--bos", stdin=line)[1].startswith("[258,97,60,")
    assert run(*args, "--special", stdin=line)[1] == "[97,258]\n"
    assert run(*args, "--special", "--bos", stdin=line)[1] == "[258,97,258]\n"


def test_plain_text(d):
    code, out, _ = run("-m", d + "/m.gguf", "-p", "hell\n")
    assert code == 0
    assert [s.split() for s in out.splitlines()] == [
        ["256", '"he"'], ["257", '"ll"'], ["10", '"\\x0a"']], out
    for args, stdin in ((("-f", "-"), b"hell\n"), (("-",), b"hell\n")):
        assert run("-m", d + "/m.gguf", "--ids", *args, stdin=stdin)[1] == "[256,257,10]\n"
    assert run("-m", d + "/m.gguf", "-p", "", "--ids")[1] == "[]\n"
    assert run("-m", d + "/m.gguf", "-p", "[256, 257] 10", "--decode")[1] == "hell\n"


def test_bad_lines_are_named(d):
    for line, word in ((b'"a"\n7\n', "line 2"), (b'"a"\n"b\n', "line 2"),
                       (b'"a"\n\n"b"\n', "line 2"), (b'"\xff"\n', "line 1"),
                       (b'{"a":1}\n', "line 1"), (b'"a" x\n', "line 1")):
        code, out, err = run("-m", d + "/m.gguf", "--jsonl", "-", stdin=line)
        assert code == 2 and word in err, (line, code, err)
        assert len(err.splitlines()) == 1, err
        assert out == ("" if word == "line 1" else "[97]\n"), out
    for line in (b"[1,260]\n", b"[-1]\n", b"[1.5]\n", b'["a"]\n', b"7\n"):
        code, _, err = run("-m", d + "/m.gguf", "--jsonl", "-", "--decode", stdin=line)
        assert code == 2 and "line 1" in err, (line, code, err)
    assert run("-m", d + "/m.gguf", "-p", "260", "--decode")[0] == 2


def test_wrong_usage(d):
    model = ("-m", d + "/m.gguf")
    for args in ((), model, ("-p", "a"), (*model, "-p", "a", "-f", "x"),
                 (*model, "-f", d + "/none"), (*model, "--jsonl", d + "/none"),
                 (*model, "-p", "a", "--idz")):
        code, _, err = run(*args)
        assert code == 2 and err != "", (args, code, err)


def test_unusable_model(d):
    write_model(d + "/other.gguf", pre="no-such-rules")
    code, _, err = run("-m", d + "/other.gguf", "-p", "a")
    assert code == 3 and "tokenizer.ggml.pre 'no-such-rules'" in err, (code, err)
    with open(d + "/page.gguf", "wb") as f:
        f.write(b"<html></html>")
    assert run("-m", d + "/page.gguf", "-p", "a")[0] == 3


def main():
    tests = [(name, f) for name, f in globals().items() if name.startswith("test_")]
    print(f"1..{len(tests)}")
    failed = 0
    with tempfile.TemporaryDirectory() as d:
        write_model(d + "/m.gguf")
        for number, (name, test) in enumerate(tests, 1):
            try:
                test(d)
                print(f"ok {number} - {name}")
            except (AssertionError, subprocess.TimeoutExpired, ValueError) as e:
                failed += 1
                print(f"not ok {number} - {name}\n# {type(e).__name__}: {e}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
