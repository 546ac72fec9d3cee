#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quire serve: requests that want to hurt. Each gets an error that names its field, and the server
goes on."""
import json
import select
import socket
import threading
import time

from serving import Reply, Server, head, post
from tap import QUIRE, check, equal, main

SERVER = []
USER = [{"role": "user", "content": "x"}]
VALUES = ["true", "0", "-1", "2.5", "1e308", "-1e308", "1e999", "1" + "0" * 30,
          "9223372036854775807", "NaN", '""', '"x"', '"%s"' % ("y" * 3000),
          '"\\u0000"', '"\\ud800"', '"\xff"', "[]", "{}",
          "[[]]", "[null]", '[""]', "[-1]", '["a", 1]', '{"type": "x"}', "[{}]", "[true]",
          "[[1], 2]", '[["a"]]', '{"1": "x"}', '{"99999": 1}', "[[1]]"]
# What a body needs, and the fields that are looked at.
PARTS = {
    "/v1/completions": (
        {"prompt": "x", "max_tokens": 2},
        "prompt max_tokens temperature top_p top_k min_p typical_p repetition_penalty "
        "repeat_penalty repeat_last_n "
        "frequency_penalty presence_penalty max_completion_tokens min_tokens n seed "
        "logprobs echo stream ignore_eos include_stop_str_in_output stop stop_token_ids logit_bias "
        "best_of response_format suffix stream_options priority cache_salt samplers "
        "return_progress grammar mirostat"),
    "/v1/chat/completions": (
        {"messages": USER, "max_tokens": 2},
        "messages tools tool_choice parallel_tool_calls chat_template_kwargs reasoning_effort "
        "enable_thinking reasoning_format add_generation_prompt functions top_logprobs "
        "stop stream response_format documents n logprobs"),
    "/completion": (
        {"prompt": "x", "n_predict": 2},
        "prompt n_predict n_probs return_tokens samplers stop logit_bias repeat_last_n stream lora "
        "response_fields post_sampling_probs"),
    "/v1/embeddings": ({"input": "x"}, "input encoding_format dimensions pooling priority"),
    "/v1/messages": (
        {"messages": USER, "max_tokens": 2},
        "messages system max_tokens stop_sequences stream temperature top_p top_k tools "
        "tool_choice thinking"),
    "/v1/responses": (
        {"input": "x", "max_output_tokens": 2},
        "input instructions max_output_tokens stream temperature top_p tools tool_choice "
        "previous_response_id top_logprobs parallel_tool_calls conversation background"),
    "/tokenize": ({"content": "x"}, "content add_special parse_special with_pieces "
                  "return_token_strs messages"),
    "/detokenize": ({"tokens": [300]}, "tokens"),
    "/apply-template": ({"messages": USER}, "messages tools"),
    "/v1/messages/count_tokens": ({"messages": USER}, "messages system tools"),
    "/v1/chat/completions/input_tokens": ({"messages": USER}, "messages tools"),
}


def server():
    if not SERVER:
        SERVER.append(Server("--read-s", 2, "--log-level", "error"))
    return SERVER[0]


def test_every_field_with_every_wrong_value():
    c = server().connect()
    f = c.makefile("rb")
    accepted = 0
    for url, (base, fields) in PARTS.items():
        for field in fields.split():
            for value in VALUES:
                rest = {k: v for k, v in base.items() if k != field}
                raw = json.dumps(rest)[:-1] + (", " if rest else "") + '"%s": %s}' % (field, value)
                c.sendall(post(url, raw.encode("latin-1")))
                r = Reply(f)
                accepted += r.status == 200
                if r.status == 200:
                    continue
                equal(r.status, 400, url, field, value[:30], r.text)
                message = r.error["message"]
                check(message and message.isprintable(), message)
                named = r.error.get("param") == field or field in message
                long = len(value) > 1000 and "tokens" in message
                check(named or long or "no JSON" in message, url, field, value[:30], r.text)
    c.close()
    check(accepted > 100, accepted)  # neutral values among them
    r = server().post("/v1/messages/count_tokens", {"messages": []})
    equal((r.status, r.json["type"]), (400, "error"))  # as Anthropic's errors look
    equal(server().post("/v1/completions", PARTS["/v1/completions"][0]).status, 200)


def test_bodies_that_are_too_large():
    for size in [100 << 20, 1 << 40, (1 << 63) - 1]:
        r = server().request(head("POST", "/v1/completions", Content_Length=size))
        equal((r.status, r.fields["connection"]), (413, "close"))
    with server().connect() as c:  # by chunks, and it does not say how much comes
        c.sendall(head("POST", "/v1/completions", Transfer_Encoding="chunked"))
        chunk = b"100000\r\n" + b" " * (1 << 20) + b"\r\n"
        try:
            for _ in range(160):  # a body, what is dropped behind it, and what sockets hold
                c.sendall(chunk)
        except (ConnectionError, TimeoutError):
            pass  # it has said so, and reads no more
        else:
            raise AssertionError("160 MiB were read")
    big = b'{"prompt": "' + b"some words " * 600000 + b'"}'  # 6 MiB: it may be that large
    r = server().post("/v1/completions", big)
    equal((r.status, r.error["code"]), (400, "context_length_exceeded"))
    r = server().post("/v1/completions", b'{"prompt": [' + b"1," * 2000000 + b"1]}")
    equal((r.status, r.error["code"]), (400, "context_length_exceeded"))
    r = server().post("/v1/completions", b'{' + b'"a":1,' * 300000 + b'"prompt":"x"}')
    equal(r.status, 200)


def test_bodies_that_never_end():
    size = 32 << 20
    raw = head("POST", "/v1/completions", Content_Length=size) + b" " * (size - 1)
    with Server("--read-s", 600, "--log-level", "error") as s:
        for _ in range(2):  # what is left behind counts no longer
            held = [s.connect() for _ in range(9)]
            for c in held:
                try:
                    c.sendall(raw)
                except ConnectionError:
                    pass
            refused = select.select(held, [], [], 10)[0]  # one of them: eight find room
            check(refused, "nobody is refused")
            r = Reply(refused[0].makefile("rb"))
            equal((r.status, r.error["code"], r.fields["connection"]), (503, "overloaded", "close"))
            for c in held:
                c.close()
        equal(s.post("/v1/completions", {"prompt": "x", "max_tokens": 1}).status, 200)


def test_bodies_that_would_be_many_times_as_large_in_memory():
    right = server().post("/v1/completions", {"prompt": "x", "temperature": 0}).json["choices"]
    r = server().post("/v1/completions", b'{"prompt": [' + b"[]," * 8000000 + b"1]}")
    equal((r.status, r.error["code"]), (500, "out_of_memory"))
    equal(r.fields["x-should-retry"], "false")
    with open("/proc/%d/status" % server().process.pid) as f:
        peak = int(next(line for line in f if line.startswith("VmHWM")).split()[1])
    check("san-" in QUIRE or peak < 1 << 20, peak, "KiB")
    got = server().post("/v1/completions", {"prompt": "x", "temperature": 0}).json["choices"]
    equal(got, right)


def test_slow_senders_are_ended_and_slow_nobody():
    slow = [server().connect() for _ in range(100)]
    raw = post("/v1/completions", {"prompt": "x"})
    began = time.monotonic()
    sent = 0
    while sent < 12:  # a byte each, again and again
        for c in slow:
            try:
                c.send(raw[sent:sent + 1])
            except ConnectionError:
                pass
        sent += 1
        equal(server().get("/health").status, 200)
        equal(server().post("/v1/completions", {"prompt": "x", "max_tokens": 2}).status, 200)
        time.sleep(0.1)
    for c in slow:
        equal(Reply(c.makefile("rb")).status, 408)
        c.close()
    check(time.monotonic() - began < 60)


def test_half_of_a_request_and_then_nothing():
    raw = post("/v1/chat/completions", {"messages": USER, "max_tokens": 2})
    for cut in range(1, len(raw), 7):
        with server().connect() as c:
            c.sendall(raw[:cut])
            c.shutdown(1)
            c.makefile("rb").read()  # an answer or none, but an end
    equal(server().get("/health").status, 200)
    server().wait_idle()


def test_a_flood_of_pipelined_requests():
    with server().connect() as c:
        one = post("/v1/completions", {"prompt": "x", "max_tokens": 1}) + head("GET", "/health")
        c.sendall(one * 50)
        f = c.makefile("rb")
        for _ in range(50):
            equal((Reply(f).status, Reply(f).status), (200, 200))


def test_pipelined_requests_of_somebody_who_reads_nothing():
    one = head("GET", "/health")
    count = (6 << 20) // len(one)  # their replies are 36 MB
    raw = one * count
    with server().connect() as c:
        c.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
        c.settimeout(1)
        sent = 0
        try:
            while sent < len(raw):
                sent += c.send(raw[sent:sent + (1 << 20)])
        except TimeoutError:
            pass  # the server has stopped reading, too
        check(sent < len(raw), "all was read")
        equal(server().get("/health").status, 200)
        c.settimeout(60)
        rest = threading.Thread(target=c.sendall, args=(raw[sent:],))
        rest.start()
        replies, tail = 0, b""
        while replies < count:
            data = tail + c.recv(1 << 20)
            check(len(data) > len(tail), "closed after", replies)
            replies += data.count(b"HTTP/1.1 200 ")
            tail = data[-12:]
        rest.join()
        equal(replies, count)


def test_zz_stop():
    equal(server().stop(), 0)


if __name__ == "__main__":
    main(globals())
