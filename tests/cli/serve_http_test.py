#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quire serve: bytes of the protocol, and who may use the server."""
import json
import os
import socket
import time

from serving import Reply, Server, head, post
from tap import check, equal, main, path, quire, tiny, write

SERVER = []
GOOD = {"prompt": "Hello", "max_tokens": 2, "temperature": 0}


def server():
    if not SERVER:
        SERVER.append(Server("--read-s", 2, "--idle-s", 30, "--max-body", 4096))
    return SERVER[0]


def refused(raw, status, closes=True):
    """One request that must get this status, and end the connection without a reset."""
    with server().connect() as s:
        s.sendall(raw)
        f = s.makefile("rb")
        r = Reply(f)
        equal(r.status, status, raw[:100])
        check(r.error["message"] and r.error["code"] and r.error["type"], r.text)
        equal(r.fields.get("connection"), "close" if closes else None, raw[:100])
        if closes:
            equal(f.read(), b"", raw[:100])
    equal(server().get("/health").status, 200)


def line(text, more=b""):
    return text + b"\r\nHost: localhost\r\n" + more + b"\r\n"


def test_request_lines_that_are_none():
    for raw, status in [
            (line(b"GET"), 400), (line(b"GET /health"), 400), (line(b"GET  /health HTTP/1.1"), 400),
            (line(b"GET /health HTTP/1.1 "), 400), (line(b"GET health HTTP/1.1"), 400),
            (line(b"G@T /health HTTP/1.1"), 400), (line(b"GET /he\x01lth HTTP/1.1"), 400),
            (line(b"GET /h\xc3\xa4 HTTP/1.1"), 400), (line(b"GET /health HTTP/2.0"), 505),
            (line(b"GET /health http/1.1"), 400), (line(b"GET /health HTTP/1.10"), 400),
            (line(b"GET http:// HTTP/1.1"), 400), (line(b"GET * HTTP/1.1"), 400),
            (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
            (b"GET /health HTTP/1.1\nHost: localhost\n\n", 400),
            (b"GET /health HTTP/1.1\r\nHost: localhost\n\r\n", 400)]:
        refused(raw, status)


def test_fields_that_two_readers_could_read_in_two_ways():
    get = b"GET /health HTTP/1.1"
    for more, status in [
            (b"A : b\r\n", 400), (b"A: b\r\n c\r\n", 400), (b"A: b\r\n\tc\r\n", 400),
            (b": b\r\n", 400), (b"A\r\n", 400), (b"A\x00: b\r\n", 400), (b"A: b\x00c\r\n", 400),
            (b"A: b\rc\r\n", 400), (b"Host: other\r\n", 400), (b"Expect: magic\r\n", 417),
            (b"Content-Length: 5\r\nContent-Length: 5\r\n", 400),
            (b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", 400),
            (b"Content-Length: +5\r\n", 400), (b"Content-Length: 5, 5\r\n", 400),
            (b"Content-Length: 0x5\r\n", 400), (b"Content-Length: -1\r\n", 400),
            (b"Content-Length:\r\n", 400), (b"Content-Length: 99999999999999999999\r\n", 400),
            (b"Transfer-Encoding: gzip, chunked\r\n", 501),
            (b"Transfer-Encoding: identity\r\n", 501), (b"Transfer-Encoding: xchunked\r\n", 501),
            (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 400)]:
        refused(line(get, more), status)
    refused(b"GET /health HTTP/1.1\r\n\r\n", 400)
    refused(b"GET /health HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400)


def test_limits_of_the_head():
    refused(b"GET /" + b"a" * 65536 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 414)
    refused(line(b"GET /health HTTP/1.1", b"A: " + b"b" * 65536 + b"\r\n"), 431)
    refused(line(b"GET /health HTTP/1.1", b"A: b\r\n" * 200), 431)
    refused(line(b"GET /health HTTP/1.1", (b"A: " + b"b" * 4000 + b"\r\n") * 20), 431)
    r = server().request(line(b"GET /health HTTP/1.1", (b"A: " + b"b" * 4000 + b"\r\n") * 7))
    equal(r.status, 200)


def chunked(body, sizes=None):
    return (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n" + body)


def test_chunks():
    data = json.dumps(GOOD).encode()
    right = server().post("/v1/completions", GOOD).json["choices"]
    one_by_one = b"".join(b"1\r\n%c\r\n" % c for c in data) + b"0\r\n\r\n"
    for body in [one_by_one, b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data),
                 b"%08X;a=b\r\n%s\r\n000\r\nTrailer: x\r\n\r\n" % (len(data), data)]:
        equal(server().request(chunked(body)).json["choices"], right)
    for size in [b"0x10", b"+5", b"-1", b" 5", b"5 ", b"", b"g", b"5;\x01", b"5\r"]:
        refused(chunked(size + b"\r\nhello\r\n0\r\n\r\n"), 400)
    refused(chunked(b"5\r\nhelloX\r\n0\r\n\r\n"), 400)
    refused(chunked(b"5\nhello\r\n0\r\n\r\n"), 400)
    refused(chunked(b"0\r\nA: b\r\n c\r\n\r\n"), 400)
    refused(chunked(b"0\r\n" + b"A: b\r\n" * 2000 + b"\r\n"), 400)
    for size in [b"1001", b"ffffffff", b"fffffffff", b"ffffffffffffffff", b"0" * 20]:
        refused(chunked(size + b"\r\n"), 413)
    refused(chunked(b"800\r\n" + b" " * 0x800 + b"\r\n801\r\n"), 413)


def test_bodies_that_are_too_long_or_late():
    refused(head("POST", "/v1/completions", Content_Length=4097), 413)
    start = time.monotonic()
    refused(head("POST", "/v1/completions", Content_Length=10) + b"{", 408)
    refused(b"GET /hea", 408)
    check(time.monotonic() - start < 30)


def test_keep_alive_and_pipelining():
    with server().connect() as s:
        f = s.makefile("rb")
        s.sendall(b"\r\n" + head("GET", "/health") + post("/v1/completions", GOOD) * 3 +
                  post("/v1/completions", {**GOOD, "stream": True}) + head("HEAD", "/v1/models") +
                  head("GET", "/none") + head("GET", "/health", Connection="close"))
        equal(Reply(f).json, {"status": "ok"})
        texts = [Reply(f).json["choices"][0]["text"] for _ in range(3)]
        equal(len(set(texts)), 1)
        r = Reply(f)
        equal("".join(e["choices"][0]["text"] for e in r.events), texts[0])
        r = Reply(f, body=False)
        check(r.status == 200 and int(r.fields["content-length"]) > 0)
        equal(Reply(f).status, 404)
        equal(Reply(f).fields["connection"], "close")
        equal(f.read(), b"")


def test_http_1_0():
    r = server().request(b"GET /health HTTP/1.0\r\n\r\n")
    equal((r.status, r.fields["connection"]), (200, "close"))
    data = json.dumps({**GOOD, "stream": True}).encode()
    r = server().request(b"POST /v1/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(data)
                         + data)
    check("transfer-encoding" not in r.fields)
    equal(r.events[-1]["choices"][0]["finish_reason"], "length")


def test_one_byte_at_a_time():
    with server().connect() as s:
        for c in post("/v1/completions", GOOD):
            s.sendall(bytes([c]))
        equal(Reply(s.makefile("rb")).status, 200)


def test_expect_100_continue():
    raw = post("/v1/completions", GOOD, Expect="100-continue")
    split = raw.index(b"\r\n\r\n") + 4
    with server().connect() as s:
        f = s.makefile("rb")
        s.sendall(raw[:split])
        equal(f.readline() + f.readline(), b"HTTP/1.1 100 Continue\r\n\r\n")
        s.sendall(raw[split:])
        equal(Reply(f).status, 200)
    r = server().request(head("POST", "/nothing", Expect="100-continue", Content_Length=9))
    equal(r.status, 404)


def test_paths_and_methods():
    for path_ in ["/nothing", "/v1", "/v1/models/", "/v1/completions/", "//health"]:
        equal((server().get(path_).status, server().get(path_).error["code"]),
              (404, "unknown_url"), path_)
    r = server().get("/v1/completions")
    equal((r.status, r.fields["allow"], r.error["code"]),
          (405, "POST, OPTIONS", "method_not_allowed"))
    r = server().post("/health", {})
    equal((r.status, r.fields["allow"]), (405, "GET, HEAD, OPTIONS"))
    equal(server().request(head("DELETE", "/health")).status, 405)
    equal(server().request(head("OPTIONS", "/v1/completions")).fields["allow"], "POST, OPTIONS")
    equal(server().get("/health?x=1").status, 200)
    equal(server().request(line(b"GET http://localhost/health HTTP/1.1")).status, 200)


def test_media_that_is_no_json():
    raw = head("POST", "/v1/completions", Content_Type="multipart/form-data; boundary=x",
               Content_Length=2) + b"{}"
    equal(server().request(raw).status, 415)
    raw = head("POST", "/v1/completions", Content_Encoding="gzip", Content_Length=2) + b"{}"
    equal(server().request(raw).status, 415)


def test_request_ids():
    equal(server().get("/health", X_Request_Id="abc-1").fields["x-request-id"], "abc-1")
    for bad in ["a b", "x" * 65, "", "\xe4"]:
        got = server().get("/health", X_Request_Id=bad).fields["x-request-id"]
        check(got != bad and got.startswith("req-"), got)
    ids = {server().get("/health").fields["x-request-id"] for _ in range(5)}
    equal(len(ids), 5)


def test_hosts_and_origins():
    for name in ["localhost", "LOCALHOST:80", "127.0.0.1:8080", "127.9.9.9", "[::1]:1",
                 "a.localhost"]:
        equal(server().get("/health", Host=name).status, 200, name)
    for name in ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "127.0.0",
                 "127.0.0.256", "128.0.0.1", "[::2]"]:
        equal(server().get("/health", Host=name).error["code"], "host_not_allowed", name)
    equal(server().get("/health", Origin="http://localhost").status, 200)
    for origin in ["http://evil.example", "null", "http://localhost:1", "https://localhost.evil"]:
        r = server().get("/health", Origin=origin)
        equal((r.status, r.error["code"]), (403, "origin_not_allowed"), origin)
        check("access-control-allow-origin" not in r.fields)
    with Server("--cors-origin", "https://a.example", "--allow-host", "box") as s:
        equal(s.get("/health", Host="box:1").status, 200)
        r = s.get("/health", Origin="https://a.example")
        equal(r.fields["access-control-allow-origin"], "https://a.example")
        r = s.request(head("OPTIONS", "/v1/completions", Origin="https://a.example",
                           Access_Control_Request_Method="POST"))
        equal(r.status, 204)
        equal(r.fields["access-control-allow-headers"], "authorization, *")  # as SDKs need them
        equal(s.get("/health", Origin="https://b.example").status, 403)


def test_keys():
    keys = write("keys", "# who\nsecret-2 team-a batch\n\nsecret-3 team-b\n")
    with Server("--api-key", "secret-1", "--api-key-file", keys) as s:
        for key in ["secret-1", "secret-2", "secret-3"]:
            equal(s.get("/v1/models", Authorization="Bearer " + key).status, 200)
            equal(s.get("/v1/models", Authorization="bearer " + key).status, 200)
            equal(s.get("/v1/models", X_Api_Key=key).status, 200)
        for shown in [None, "", "Bearer", "Bearer ", "Basic secret-1", "Bearer secret-", "secret-1",
                      "Bearer secret-11", "Bearer secret-1secret-1", "Bearer #"]:
            r = s.get("/v1/models", Authorization=shown)
            equal((r.status, r.error["type"]), (401, "authentication_error"), shown)
            equal(r.fields["www-authenticate"], "Bearer")
        equal(s.post("/v1/completions", GOOD).status, 401)
        equal(s.get("/metrics").status, 401)
        equal([s.get(p).status for p in ["/health", "/", "/v1/health"]], [200, 200, 200])
        equal(s.request(head("OPTIONS", "/v1/completions")).status, 204)
        check(not any("secret" in text for text in s.log), "a key is in the log")


def test_what_is_refused_at_the_start():
    busy = socket.socket()
    busy.bind(("127.0.0.1", 0))
    busy.listen()
    for flags, status, text in [
            (["--host", "0.0.0.0"], 2, "--api-key"), (["--host", "no such host"], 2, "--host"),
            (["--port", busy.getsockname()[1]], 1, "in use"), (["--api-key", "a b"], 2, "key"),
            (["--api-key-file", write("empty", "#\n")], 2, "no keys"),
            (["--api-key-file", write("wrong", "key who fast\n")], 2, "line 1"),
            (["--alias", "a b"], 2, "-a")]:
        p = quire("serve", "-m", tiny(), "-c", 256, "--port", 0, *flags, status=status)
        check(text in p.stderr.decode().splitlines()[-1], flags, p.stderr)
    p = quire("serve", "-m", write("bad.gguf", "GGUF"), "--port", 0, status=3)
    with Server("--host", "0.0.0.0", "--no-key") as s:
        equal(s.get("/health", Host="any.example").status, 200)


def test_unix_socket():
    where = path("socket")
    for _ in range(2):  # the second one finds what a killed one has left
        s = Server("--unix-socket", where)
        equal(s.get("/health").status, 200)
        equal(os.stat(where).st_mode & 0o7, 0)
        p = quire("serve", "-m", tiny(), "-c", 256, "--unix-socket", where, status=1)
        check(b"in use" in p.stderr, p.stderr)
        s.process.kill()
        s.process.wait()
    with Server("--unix-socket", where) as s:
        equal(s.post("/v1/completions", GOOD).status, 200)
    check(not os.path.exists(where))


def test_alias_and_strict_model():
    with Server("-a", "my-model", "--strict-model") as s:
        equal(s.get("/v1/models").json["data"][0]["id"], "my-model")
        equal(s.get("/v1/models/my-model").json["id"], "my-model")
        equal(s.get("/v1/models/other").error["code"], "model_not_found")
        equal(s.post("/v1/completions", GOOD).json["model"], "my-model")
        equal(s.post("/v1/completions", {**GOOD, "model": "my-model"}).status, 200)
        r = s.post("/v1/completions", {**GOOD, "model": "gpt-4"})
        equal((r.status, r.error["code"]), (404, "model_not_found"))
        check("my-model" in r.error["message"])
    with Server("-a", "org/some-model", "--log-level", "error") as s:
        for path, status in [("org/some%2Dmodel", 200), ("org%2Fsome%2Dmodel", 200),
                             ("org%2fsome%2Dmode%6C", 200), ("org%2Fsome%2Dmode", 404),
                             ("org%2Fsome%2Dmodel%", 404), ("org%2Fsome%2Dmodel%2", 404),
                             ("org%2Fsome%2Dmodel%zz", 404), ("org%2Fsome%2Dmodel%00", 404),
                             ("%6f" * 500, 404)]:
            equal(s.get("/v1/models/" + path).status, status, path)
    equal(server().post("/v1/completions", {**GOOD, "model": "gpt-4"}).status, 200)


def test_log_lines():
    with Server("--log-format", "json") as s:
        s.post("/v1/completions", {**GOOD, "prompt": "my own words"}, X_Request_Id="r-1")
        s.get("/my/own/path")
        s.get("/health")
        s.stop()
        rows = [json.loads(text) for text in s.log if text.startswith("{")]
        rows = [r for r in rows if r["event"] == "request"]
        equal(len(rows), 2)
        equal((rows[0]["id"], rows[0]["route"], rows[0]["status"], rows[0]["output_tokens"]),
              ("r-1", "completions", 200, 2))
        check(not any("my own" in text or "/my/" in text for text in s.log), s.log)


def test_zz_stop():
    equal(server().stop(), 0)


if __name__ == "__main__":
    main(globals())
