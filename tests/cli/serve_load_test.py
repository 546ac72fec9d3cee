#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quire serve: many clients, slow clients, and clients that leave."""
import json
import os
import random
import signal
import socket
import struct
import threading
import time

from serving import Reply, Server, events_of, head, post, text_of
from tap import check, equal, main, middle

SERVER = []
REQUESTS = int(os.environ.get("QUIRE_TEST_REQUESTS", "300"))


def server():
    if not SERVER:
        SERVER.append(Server("--ping-s", 1, "--write-s", 2, "--max-rows", 8, "--queue", 80,
                             "--kv-tokens", 4096, "--log-level", "warn"))
    return SERVER[0]


def body(i, tokens=24, **more):
    return {"prompt": "Prompt %d of %s" % (i, "many " * (i % 5)), "max_tokens": tokens, "seed": i,
            "temperature": 0.8, "ignore_eos": True, **more}


def in_threads(count, work):
    failed = []

    def run(i):
        try:
            work(i)
        except Exception as e:  # told by the main thread
            failed.append((i, repr(e)))
    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    check(not failed, failed[:3])


def solo(i, **more):
    return server().post("/v1/completions", body(i, **more)).json["choices"][0]["text"]


def memory_kib(s):
    with open("/proc/%d/status" % s.process.pid) as f:
        rows = dict(line.split(":", 1) for line in f)
    return sum(int(rows[name].split()[0]) for name in ["RssAnon", "VmSwap"])


def test_256_idle_and_64_active_connections():
    right = [solo(i) for i in range(64)]
    idle = [server().connect() for _ in range(256)]

    def ask(i):
        r = server().post("/v1/completions", body(i, stream=i % 2 == 1))
        equal(r.status, 200, r.body[:200])
        equal(text_of(r.events) if i % 2 else r.json["choices"][0]["text"], right[i], i)
    in_threads(64, ask)
    for s in idle[::16]:
        s.sendall(head("GET", "/health"))
        equal(Reply(s.makefile("rb")).status, 200)
    for s in idle:
        s.close()
    m = server().wait_idle()
    equal(m["quire_kv_blocks_free"] + m["quire_kv_blocks_cached"], m["quire_kv_blocks_total"])


def test_burst_of_200_connects():
    statuses = []

    def ask(i):
        r = server().post("/v1/completions", body(i, tokens=4))
        statuses.append(r.status)
        if r.status == 429:
            equal((r.error["code"], r.error["type"]), ("queue_full", "rate_limit_error"))
            check(1 <= int(r.fields["retry-after"]) <= 60, r.fields)
    in_threads(200, ask)
    equal(len(statuses), 200)
    check(set(statuses) <= {200, 429} and 200 in statuses, set(statuses))
    server().wait_idle()


def test_full_queue_is_a_429():
    with Server("--max-rows", 1, "--queue", 1, "--log-level", "error") as s:
        with s.connect() as a, s.connect() as b:
            for c in [a, b]:
                c.sendall(post("/v1/completions", body(0, 200, stream=True)))
                Reply(c.makefile("rb"), body=False)
            for stream in [False, True]:
                r = s.post("/v1/completions", body(1, stream=stream))
                equal((r.status, r.error["code"]), (429, "queue_full"))
                check(int(r.fields["retry-after"]) >= 1)
        s.wait_idle()
        equal(s.post("/v1/completions", body(1)).status, 200)
        # more choices than may ever wait run all the same, when nothing else does
        equal(len(s.post("/v1/completions", body(1, 4, n=5)).json["choices"]), 5)


def test_a_request_may_step_back_behind_others():
    for name, right in [("spare", "acb"), ("interactive", "abc")]:
        with Server("--max-rows", 1) as s, s.connect() as a, s.connect() as b, s.connect() as c:
            replies = []
            for conn, tokens, fields in [(a, 200, {}), (b, 100, {"X_Quire_Class": name}),
                                         (c, 4, {})]:
                conn.sendall(post("/v1/completions", body(len(replies), tokens, stream=True),
                                  X_Request_Id="step-%d" % len(replies), **fields))
                replies.append(Reply(conn.makefile("rb"), body=False))
            for r in replies:
                equal((r.status, b"".join(r.pieces())[-14:]), (200, b"data: [DONE]\n\n"))
        ends = [line[line.index("step-") + 5] for line in s.log if "step-" in line]
        equal("".join("abc"[int(i)] for i in ends), right)


def test_spare_requests_leave_half_of_the_queue():
    with Server("--max-rows", 1, "--queue", 4, "--log-level", "error") as s, s.connect() as a:
        a.sendall(post("/v1/completions", body(0, 200, stream=True)))
        Reply(a.makefile("rb"), body=False)
        r = s.post("/v1/completions", body(1, 2, n=3), X_Quire_Class="spare")
        equal((r.status, r.error["code"]), (429, "queue_full"))
        check("this one asks for 3 more" in r.error["message"], r.text)
        equal(s.post("/v1/completions", body(1, 2, n=3)).status, 200)


def test_unknown_class_is_a_400():
    for name in ["urgent", "Spare", "1"]:
        r = server().post("/v1/completions", body(0), X_Quire_Class=name)
        equal((r.status, r.error["code"]), (400, "invalid_class"))


def test_connections_at_the_limit_wait_or_take_an_idle_place():
    with Server("--max-connections", 4, "--log-level", "error") as s:
        idle = [s.connect() for _ in range(4)]
        for c in idle:
            c.sendall(head("GET", "/health"))
            Reply(c.makefile("rb"))
        for i in range(8):
            equal(s.get("/health").status, 200)
        for c in idle:
            c.close()


def leave(i, after, reset):
    """Sends a request and leaves after so many bytes of its answer, or at once."""
    with server().connect() as s:
        s.sendall(post("/v1/completions", body(i, 200, stream=i % 2 == 0)))
        if after:
            s.recv(after)
        if reset:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def test_who_leaves_is_cancelled():
    before = server().wait_idle()
    for i in range(12):
        leave(i, 300 if i % 4 == 0 else 0, i % 3 == 0)
    m = server().wait_idle()
    started = m["quire_requests_submitted_total"] - before["quire_requests_submitted_total"]
    cancelled = m["quire_requests_cancelled_total"] - before["quire_requests_cancelled_total"]
    equal(cancelled, started)
    equal(m["quire_kv_blocks_free"] + m["quire_kv_blocks_cached"], m["quire_kv_blocks_total"])
    check(m["quire_decode_tokens_total"] - before["quire_decode_tokens_total"] < 12 * 200)


def test_who_leaves_the_queue_or_the_prompt_is_cancelled():
    with Server("--max-rows", 1, "-c", 4096, "--log-level", "error") as s:
        long = {"prompt": [list(range(300, 400)) * 40], "max_tokens": 4}
        with s.connect() as a:
            a.sendall(post("/v1/completions", long))
            waiting = [s.connect() for _ in range(5)]
            for c in waiting:
                c.sendall(post("/v1/completions", body(1, 100)))
            while s.metrics()["quire_requests_waiting"] < 5:
                pass
            for c in waiting:
                c.close()
            while s.metrics()["quire_requests_waiting"] > 0:
                pass
        m = s.wait_idle()
        equal(m["quire_requests_cancelled_total"], 6)
        check(m["quire_prefill_tokens_total"] < 4000, m["quire_prefill_tokens_total"])


def test_half_closed_clients_are_answered_where_they_may_be():
    with Server("--half-close", "--log-level", "error") as s:
        for stream in [False, True]:
            with s.connect() as c:
                c.sendall(post("/v1/completions", body(1, stream=stream)))
                c.shutdown(socket.SHUT_WR)
                f = c.makefile("rb")
                equal(Reply(f).status, 200)
                equal(f.read(), b"")


def test_health_answers_during_a_long_prompt():
    with Server("--max-rows", 2, "-c", 4096, "--chunk", 32, "--log-level", "error") as s:
        with s.connect() as c:
            ids = [300 + i * 7 % 200 for i in range(4000)]
            c.sendall(post("/v1/completions", {"prompt": ids, "max_tokens": 4}))
            seen = 0
            while s.metrics()["quire_requests_running"] == 0:
                pass
            while s.metrics()["quire_prefill_tokens_total"] < 3900:
                equal(s.get("/health").status, 200)
                seen += 1
            check(seen > 5, seen)
            equal(Reply(c.makefile("rb")).json["usage"]["prompt_tokens"], 4000)


def test_a_long_body_does_not_hold_up_short_ones():
    with Server("-c", 4096, "--log-level", "error") as s:
        with s.connect() as c:
            c.sendall(post("/tokenize", {"content": "some words " * 500000}))
            for i in range(3):
                equal(s.get("/health").status, 200)
                equal(s.post("/v1/completions", body(i, 2)).status, 200)
            equal(Reply(c.makefile("rb")).status, 200)


def test_pings_in_silence():
    # 4,000 steps of a model that takes milliseconds for one: far over a second.
    with Server("--max-rows", 1, "--ping-s", 1, "-c", 4096, "--log-level", "error",
                "--chunk", 1, model=middle()) as s:
        with s.connect() as c:
            c.sendall(post("/v1/completions", {"prompt": [300] * 4000, "max_tokens": 1,
                                               "stream": True}))
            r = Reply(c.makefile("rb"), body=False)
            first = next(iter(r.pieces()))
            c.shutdown(socket.SHUT_RDWR)  # nobody wants the rest
            equal(first, b":\n\n")


def test_slow_reader_is_dropped_and_slows_nobody():
    with Server("--write-s", 1, "-c", 4096, "--log-level", "error") as s:
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        slow.connect(s.address)
        slow.sendall(post("/v1/completions", body(1, 3900, stream=True, n=8, logprobs=20)))
        right = s.post("/v1/completions", body(2)).json["choices"]
        while s.metrics()["quire_slow_readers_dropped_total"] == 0:
            equal(s.post("/v1/completions", body(2)).json["choices"], right)
        s.wait_idle()
        slow.close()


def test_many_requests_and_a_third_of_them_leaves():
    """300 requests; QUIRE_TEST_REQUESTS=1000 for as many."""
    right = {i: solo(i % 40, tokens=16) for i in range(40)}
    for i in range(40):  # what is allocated once is allocated now
        leave(i, 100, i % 2 == 0)
    server().wait_idle()
    before = memory_kib(server())
    rng = random.Random(5)
    plan = [(i, rng.random() < 0.3, rng.choice([0, 0, 1, 200, 700]), rng.random() < 0.5)
            for i in range(REQUESTS)]
    answered = []

    def work(worker):
        for i, leaves, after, reset in plan[worker::16]:
            if leaves:
                leave(i % 40, after, reset)
                continue
            stream = i % 2 == 1
            r = server().post("/v1/completions", body(i % 40, 16, stream=stream))
            equal(r.status, 200, r.body[:200])
            equal(text_of(r.events) if stream else r.json["choices"][0]["text"], right[i % 40], i)
            answered.append(i)
    in_threads(16, work)
    equal(len(answered), sum(not p[1] for p in plan))
    m = server().wait_idle()
    equal(m["quire_kv_blocks_free"] + m["quire_kv_blocks_cached"], m["quire_kv_blocks_total"])
    grown = memory_kib(server()) - before
    check(grown < 1024, grown, "KiB more")


def test_sigterm_drains():
    with Server("-c", 2048, "--log-level", "error") as s:
        right = s.post("/v1/completions", body(1, 1500)).json["choices"][0]["text"]
        with s.connect() as a, s.connect() as b, s.connect() as c:
            a.sendall(post("/v1/completions", body(1, 1500, stream=True)))
            r = Reply(a.makefile("rb"), body=False)
            s.process.send_signal(signal.SIGTERM)
            c.sendall(post("/v1/completions", body(2)))  # the signal may come after it
            check(Reply(c.makefile("rb")).status in (200, 503))
            b.sendall(head("GET", "/health"))
            health = Reply(b.makefile("rb"))
            equal((health.status, health.error["code"]), (503, "draining"))
            check(int(health.fields["retry-after"]) > 0)
            equal(text_of(events_of(b"".join(r.pieces()))), right)
        equal(s.process.wait(60), 0)  # by itself: another signal would end it at once


def test_second_sigterm_ends_it():
    s = Server("-c", 4096, "--log-level", "error")
    with s.connect() as a:
        a.sendall(post("/v1/completions", body(1, 4000, stream=True)))
        Reply(a.makefile("rb"), body=False)
        for _ in range(2):
            s.process.send_signal(signal.SIGTERM)
            time.sleep(0.2)
        equal(s.process.wait(10), -signal.SIGTERM)


def test_loading_is_a_503():
    s = Server(ready=False)
    while s.address is None:
        time.sleep(0.001)
    statuses = {s.get("/health").status for _ in range(3)}
    check(statuses <= {200, 503}, statuses)
    check(s.is_ready.wait(60))
    equal(s.get("/health").json, {"status": "ok"})
    equal(s.stop(), 0)


def test_zz_stop():
    equal(server().stop(), 0)


if __name__ == "__main__":
    main(globals())
