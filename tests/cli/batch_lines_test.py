#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quire batch: lines of every kind, good and bad; each that is not blank gets exactly one row
(CASES T26 and its class)."""
import base64
import json
import os
import struct

from tap import check, equal, main, path, quire, read, rows, tiny, write

GOOD = {"prompt": "x", "max_tokens": 2}


def line(custom_id=None, url="/v1/completions", **body):
    head = {"custom_id": custom_id} if custom_id is not None else {}
    return json.dumps({**head, "method": "POST", "url": url, "body": body}).encode()


def answers(lines, *flags, status=0, line_end=b"\n"):
    """line number -> row; the same in one file, in both files, and through --check."""
    write("in.jsonl", line_end.join(lines) + line_end)
    args = ["batch", "-m", tiny(), "-c", 256, "-q", "-i", path("in.jsonl"), *flags]
    for name in ("out.jsonl", "good.jsonl", "errors.jsonl"):
        for end in ("", ".job"):
            if os.path.exists(path(name + end)):
                os.unlink(path(name + end))
    p = quire(*args, "-o", path("out.jsonl"), status=status)
    out = {row["line"]: row for row in rows("out.jsonl")}
    equal(len(out), len(rows("out.jsonl")), "a line has two rows")
    ok = sum(row["error"] is None for row in out.values())
    check(b"%d ok, %d failed" % (ok, len(out) - ok) in p.stderr, p.stderr)
    quire(*args, "-o", path("good.jsonl"), "--errors", path("errors.jsonl"), status=status)
    equal((len(rows("good.jsonl")), len(rows("errors.jsonl"))), (ok, len(out) - ok))
    p = quire(*args, "--check", "--tokens-per-second", 1000, status=status)
    check(b"%d lines would run, %d would fail" % (ok, len(out) - ok) in p.stdout, p.stdout)
    for row in out.values():
        check(row["id"] and "custom_id" in row and row["response"]["request_id"], row)
        if row["error"] is not None:
            equal(row["response"]["body"]["error"]["message"], row["error"]["message"])
    return out


def codes(out):
    return {number: (row["custom_id"], row["response"]["status_code"],
                     row["error"] and row["error"]["code"]) for number, row in out.items()}


def test_t26_a_job_file_with_bad_rows():
    out = answers([line("a", **GOOD), b"", b'{"custom_id": "b", "method": "POST", "url": "/v1/comp',
                   line(**GOOD), line("c", "/v1/unknown", prompt="x"),
                   line("d", prompt="word " * 600), line("e", prompt="x", max_tokens="4"),
                   line("f", prompt="x", stream=True), line("g", **GOOD)], status=5)
    equal(codes(out), {1: ("a", 200, None), 3: (None, 400, "invalid_json"),
                       4: (None, 400, "missing_field"), 5: ("c", 404, "unknown_url"),
                       6: ("d", 400, "context_length_exceeded"), 7: ("e", 400, "invalid_type"),
                       8: ("f", 400, "not_supported"), 9: ("g", 200, None)})
    for number in (3, 4, 8):
        check("line %d" % number in out[number]["error"]["message"], out[number])


def test_a_line_of_3_mib():
    text = "many words " * (3 * 1024 * 1024 // 11)
    out = answers([line("a", prompt=text), line("b", **GOOD),
                   line("c", prompt="x", max_tokens=2, user=text)], status=5)
    equal(codes(out), {1: ("a", 400, "context_length_exceeded"), 2: ("b", 200, None),
                       3: ("c", 200, None)})
    check(out[1]["response"]["body"]["error"]["n_prompt_tokens"] > 500000)


def test_a_utf_8_mark_stands_before_the_first_line_only():
    good = line("a", **GOOD)
    equal(codes(answers([b"\xef\xbb\xbf" + good])), {1: ("a", 200, None)})
    out = answers([b"\xef\xbb\xbf", good, b"\xef\xbb\xbf" + good], status=5)
    equal(codes(out), {2: ("a", 200, None), 3: (None, 400, "invalid_json")})
    utf_16 = good.decode().encode("utf-16")
    equal(set(codes(answers([utf_16], status=5)).values()), {(None, 400, "invalid_json")})


def test_lines_end_in_crlf():
    out = answers([line("a", **GOOD), b"", b" \t", line("b", **GOOD)], line_end=b"\r\n")
    equal(codes(out), {1: ("a", 200, None), 4: ("b", 200, None)})
    text = [row["response"]["body"]["choices"] for row in out.values()]
    equal(text[0], text[1])


def test_a_byte_ff():
    out = answers([b"\xff", b'{"prompt": "a\xffb"}', line("a", **GOOD),
                   b'{"custom_id": "\xff", "url": "/v1/completions", "body": {"prompt": "x"}}'],
                  status=5)
    equal(codes(out), {1: (None, 400, "invalid_json"), 2: (None, 400, "invalid_json"),
                       3: ("a", 200, None), 4: (None, 400, "invalid_json")})
    read("out.jsonl").decode()  # and none of it is in the output
    out = answers([b"a\xffb", b"ab"], "--format", "text", "-n", 2, status=5)
    equal(codes(out), {1: (None, 400, "invalid_text"), 2: (None, 200, None)})


def test_custom_ids_that_are_there_twice():
    out = answers([line("k", **GOOD), line("k", prompt="y"), line("", **GOOD), line("", **GOOD),
                   json.dumps({"custom_id": "k", **GOOD}).encode(), line("K", **GOOD)], status=5)
    equal(codes(out), {1: ("k", 200, None), 2: (None, 400, "duplicate_custom_id"),
                       3: ("", 200, None), 4: (None, 400, "duplicate_custom_id"),
                       5: (None, 400, "duplicate_custom_id"), 6: ("K", 200, None)})
    check("'k'" in out[2]["error"]["message"], out[2])


def test_stream_true_is_a_400_row():
    bodies = {"/v1/completions": {"prompt": "x"}, "/v1/responses": {"input": "x"},
              "/v1/chat/completions": {"messages": [{"role": "user", "content": "x"}]}}
    lines = [line(url, url, stream=True, max_tokens=2, **body) for url, body in bodies.items()]
    lines += [json.dumps({"stream": True, **body}).encode() for body in bodies.values()]
    out = answers(lines, status=5)
    equal({c[1:] for c in codes(out).values()}, {(400, "not_supported")})
    for number, row in out.items():
        equal(row["response"]["body"]["error"]["param"], "stream")
        check("line %d" % number in row["error"]["message"], row)
    lines = [line(url, url, stream=value, max_tokens=2, **body)
             for url, body in bodies.items() for value in (False, None)]
    out = answers([text.replace(b'"custom_id": "', b'"custom_id": "%d' % i)
                   for i, text in enumerate(lines)])
    equal({c[1:] for c in codes(out).values()}, {(200, None)})


def test_lines_with_url_need_a_custom_id():
    out = answers([line(**GOOD), json.dumps({"custom_id": None, "url": "/v1/completions",
                                             "body": GOOD}).encode(),
                   json.dumps({"custom_id": 7, "url": "/v1/completions", "body": GOOD}).encode(),
                   json.dumps({"url": "/v1/completions"}).encode(),
                   json.dumps(GOOD).encode(), json.dumps({"custom_id": "a", **GOOD}).encode()],
                  status=5)
    equal(codes(out), {1: (None, 400, "missing_field"), 2: (None, 400, "missing_field"),
                       3: (None, 400, "invalid_type"), 4: (None, 400, "missing_field"),
                       5: (None, 200, None), 6: ("a", 200, None)})
    for number in (1, 2, 4):
        check("line %d has no custom_id" % number in out[number]["error"]["message"], out[number])


def test_embeddings():
    out = answers([line("a", "/v1/embeddings", input="some words"),
                   line("b", "/v1/embeddings", input=["some words", "more"],
                        encoding_format="base64"),
                   line("c", "/v1/embeddings", prompt="x"),
                   line("d", "/v1/embeddings", input="x", stream=True)], status=5)
    equal({n: c[:2] for n, c in codes(out).items()},
          {1: ("a", 200), 2: ("b", 200), 3: ("c", 400), 4: ("d", 400)})
    floats = out[1]["response"]["body"]["data"][0]["embedding"]
    texts = [item["embedding"] for item in out[2]["response"]["body"]["data"]]
    packed = struct.pack("<%df" % len(floats), *floats)
    equal((len(texts), base64.b64decode(texts[0])), (2, packed))


def test_shapes_of_lines():
    out = answers([b"[]", b"7", b'"x"', b"null", b"{}", b'{"prompt": "x"} more',
                   line("a", prompt="x").replace(b"POST", b"GET"),
                   b'{"custom_id": "b", "url": 5, "body": {"prompt": "x"}}',
                   b'{"custom_id": "c", "url": "/v1/completions", "body": "x"}',
                   b'{"custom_id": "d", "url": "/v1/completions"}',
                   b'{"custom_id": "e", "body": {"prompt": "x"}}',
                   b'{"prompt": "x", "prompt": "y", "max_tokens": 1}', b"[" * 100000], status=5)
    equal({n: c[1:] for n, c in codes(out).items()},
          {1: (400, "invalid_type"), 2: (400, "invalid_type"), 3: (400, "invalid_type"),
           4: (400, "invalid_type"), 5: (400, "missing_field"), 6: (400, "invalid_json"),
           7: (405, "method_not_allowed"), 8: (400, "invalid_type"), 9: (400, "invalid_type"),
           10: (400, "missing_field"), 11: (400, "missing_field"), 12: (200, None),
           13: (400, "invalid_json")})


def test_check_tells_how_long_it_takes():
    write("long.jsonl", b"\n".join([line("k%d" % i, prompt="x " * 40, max_tokens=20)
                                    for i in range(100)]))
    args = ["batch", "-m", tiny(), "-c", 256, "-q", "-i", path("long.jsonl"), "--check"]
    said = quire(*args, "--tokens-per-second", 1).stdout.decode().splitlines()
    tokens = int(said[1].split()[0]) + 2000
    equal(said[1].split(", ")[1], "at most 2000 tokens to generate")
    equal(said[2], "at most %d:%02d:%02d (%d s), at the 1.0 tokens/s of --tokens-per-second"
          % (tokens // 3600, tokens // 60 % 60, tokens % 60, tokens))
    said = quire(*args).stdout.decode().splitlines()
    check("measured here now with" in said[2] and said[2].startswith("at most 0:0"), said)


if __name__ == "__main__":
    main(globals())
