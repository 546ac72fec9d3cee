#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quire bench serve, against a server whose every answer is known."""
import json
import os
import socketserver
import sys
import threading
import time

from tap import QUIRE, ROOT, check, equal, main, path, quire, tiny

sys.path.append(os.path.join(ROOT, "bench"))
import peers  # what is measured beside quire is started by the same lines


class Answers(socketserver.StreamRequestHandler):
    """Three pieces of text after a while; what was asked is kept in the server."""

    def handle(self):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self.rfile.read(1)
        lines = head.decode().split("\r\n")
        length = next(int(x.split(":")[1]) for x in lines if x.lower().startswith("content-length"))
        body = json.loads(self.rfile.read(length))
        with self.server.lock:
            self.server.asked.append((lines, body))
            self.server.now += 1
            self.server.most = max(self.server.most, self.server.now)
            number = len(self.server.asked)
        last = self.answer(body, number)
        with self.server.lock:
            self.server.now -= 1  # before the client can know and ask again
        self.wfile.write(last)

    def answer(self, body, number):
        """Writes all but the last piece, which it returns."""
        if number in self.server.fails:
            return b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy"
        if number in self.server.cuts:
            return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nda"
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                         b"Transfer-Encoding: chunked\r\n\r\n")
        prompt = body.get("prompt") or body["messages"][0]["content"]
        for i in range(3):
            time.sleep(self.server.pause)
            choice = {"text": "x"} if "prompt" in body else {"delta": {"content": "x"}}
            self.event({"choices": [choice]}, cut=i)
        self.event({"choices": [], "usage": {"prompt_tokens": 2 * len(prompt.split()),
                                             "completion_tokens": 3}})
        self.chunk(b"data: [DONE]\n\n")
        return b"0\r\n\r\n"

    def event(self, data, cut=0):
        text = b"data: " + json.dumps(data).encode() + b"\n\n"
        self.chunk(text[:cut * 3])  # an event may come in any pieces
        self.chunk(text[cut * 3:])

    def chunk(self, data):
        if data:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
    request_queue_size = 64


def with_server(test, pause=0.002, fails=(), cuts=()):
    with Server(("127.0.0.1", 0), Answers) as server:
        server.lock, server.asked, server.now, server.most = threading.Lock(), [], 0, 0
        server.pause, server.fails, server.cuts = pause, fails, cuts
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            return test(server, "http://127.0.0.1:%d" % server.server_address[1])
        finally:
            server.shutdown()


def bench(url, *flags, status=0):
    return quire("bench", "serve", url, *flags, status=status)


def test_closed_loop_counts():
    def test(server, url):
        out = json.loads(bench(url, "--users", "2,5", "--requests", 20, "-o", "json",
                               "--prompt-tokens", 60, "--new-tokens", 7).stdout)
        equal([row["users"] for row in out], [2, 5])
        for row in out:
            equal((row["requests"], row["failed"], row["prompt_tokens"]), (20, 0, 60))
            check(abs(row["output_tps"] * row["seconds"] - 60) < 1e-3, row)
            check(0 < row["itl_ms"]["p50"] <= row["itl_ms"]["p99"], row)
            check(row["ttft_ms"]["p50"] <= row["latency_ms"]["p50"], row)
        equal(server.most, 5)
        equal(len(server.asked), 41)  # one to count the tokens of a word
        lines, body = server.asked[-1]
        equal(lines[0], "POST /v1/completions HTTP/1.1")
        equal((body["max_tokens"], body["stream"], body["ignore_eos"]), (7, True, True))
        equal(len(body["prompt"].split()), 30)
    with_server(test)


def test_prompts_share_their_head_alone():
    def test(server, url):
        bench(url, "--users", 1, "--requests", 3, "--prompt-tokens", 200, "--shared", 0.8)
        prompts = [body["prompt"].split() for _, body in server.asked[1:]]
        equal(prompts[0][:80], prompts[1][:80])
        check(prompts[0][80:] != prompts[1][80:] != prompts[2][80:])
    with_server(test)


def test_chat_and_key_and_prefix():
    def test(server, url):
        bench(url + "/deep/", "--users", 1, "--requests", 1, "--api", "chat", "--api-key", "secret",
              "--model", "m")
        lines, body = server.asked[-1]
        equal(lines[0], "POST /deep/v1/chat/completions HTTP/1.1")
        check("Authorization: Bearer secret" in lines, lines)
        equal(body["model"], "m")
    with_server(test)


def test_failures_are_counted_and_told():
    def test(server, url):
        p = bench(url, "--users", 2, "--requests", 10, "-o", "jsonl")
        row = json.loads(p.stdout)
        equal((row["requests"], row["failed"]), (10, 2))
        check(b"2 of 10 requests failed" in p.stderr, p.stderr)
        check(b"status 503: busy" in p.stderr or b"closed the connection" in p.stderr, p.stderr)
    with_server(test, fails={3}, cuts={6})


def test_open_loop_arrives_at_its_rate():
    def test(server, url):
        row = json.loads(bench(url, "--users", 64, "--requests", 40, "--rate", 200, "-o",
                               "jsonl").stdout)
        equal((row["requests"], row["failed"]), (40, 0))
        check(row["seconds"] > 0.05, row)  # 40 arrivals at 200 a second need about 0.2
    with_server(test)


def test_a_peer_is_a_command():
    with peers.Served(QUIRE, "serve", "-m", "{model}", "--port", "{port}", model=tiny()) as server:
        row = json.loads(bench(server.url, "--users", 1, "--requests", 2, "--prompt-tokens", 20,
                               "--new-tokens", 3, "-o", "jsonl").stdout)
        equal((row["requests"], row["failed"]), (2, 0))
    check(server.process.poll() is not None)


def refused(start):
    try:
        start()
    except SystemExit as said:
        return str(said)
    raise AssertionError("not refused")


def test_peers_that_cannot_be():
    said = refused(lambda: peers.Served("server", "{prt}", model="m"))
    check("server: what stands in braces is port, model" in said and "prt" in said, said)
    said = refused(peers.Served(QUIRE, "serve", "-m", path("none"), "--port", "{port}").__enter__)
    check(said.startswith(QUIRE + " ended with "), said)
    said = refused(lambda: peers.named("serving", ["llama-server"]))
    check("NAME=PROGRAM is meant" in said, said)
    said = refused(lambda: peers.named("offline", ["a=b"], ("c", "d")))
    check("a: NAME=PROGRAM is meant, NAME one of c, d" in said, said)


def test_a_server_that_is_not_there():
    p = bench("http://127.0.0.1:1", status=1)
    check(b"does not answer" in p.stderr, p.stderr)
    p = bench("unix:" + path("none"), status=1)
    check(b"does not answer" in p.stderr, p.stderr)
    for bad in ("ftp://x", "http://", "unix:"):
        bench(bad, status=2)
    bench("http://127.0.0.1:1", "--users", 0, status=2)
    quire("bench", "serve", status=2)


if __name__ == "__main__":
    main(globals())
