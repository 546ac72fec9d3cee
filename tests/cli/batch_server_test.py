#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quire batch --server: the rows of an offline run, from a server that people use meanwhile."""
import http.server
import json
import re
import signal
import subprocess
import threading

from serving import Server
from tap import check, equal, main, path, quire, read, rows, start, tiny, write


def job(count, tokens=12):
    """All kinds of lines, good and bad ones."""
    lines = []
    for i in range(count):
        text = "Number %d of %s" % (i, "many " * (i % 5))
        chat = {"messages": [{"role": "user", "content": text}], "max_tokens": tokens}
        lines.append([
            {"prompt": text},
            {"custom_id": "c-%d" % i, "method": "POST", "url": "/v1/completions",
             "body": {"prompt": [text, "x"], "n": 2, "logprobs": 2, "echo": True}},
            {"custom_id": "d-%d" % i, "method": "POST", "url": "/v1/chat/completions",
             "body": {**chat, "logprobs": True, "top_logprobs": 2, "seed": 5}},
            {"custom_id": "e-%d" % i, "method": "POST", "url": "/v1/responses",
             "body": {"input": text, "max_output_tokens": tokens}},
            {"custom_id": "f-%d" % i, "method": "POST", "url": "/v1/completions",
             "body": {"prompt": text, "max_tokens": "many"}},
            {"custom_id": "g-%d" % i, "method": "POST", "url": "/v1/completions",
             "body": {"prompt": "word " * 400}},
            {"custom_id": "h-%d" % i, "url": "/v1/completions", "body": {"prompt": "", "n": 1}},
            {"custom_id": "i-%d" % i, "url": "/v1/chat/completions",
             "body": {**chat, "temperature": 0.2, "stop": ["e"], "stream": True}},
            {"messages": chat["messages"], "max_tokens": tokens, "temperature": 0},
            {"custom_id": "j-%d" % i, "url": "/v1/embeddings", "body": {"input": [text, "x"]}},
        ][i % 10])
    return "".join(json.dumps(line) + "\n" for line in lines)


def bare(row):
    """A row without ids, times, and how much was in the cache."""
    body = row["response"]["body"]
    identity = body.pop("id", "x-").replace("_", "-").split("-", 1)[1]
    for name in ("created", "created_at"):
        body.pop(name, None)
    for name in ("prompt_tokens_details", "input_tokens_details"):
        body.get("usage", {}).pop(name, None)
    return re.sub(r'"(msg|rs|fc|call)_%s_' % identity, r'"\1_ID_', json.dumps(row))


def by_line(name):
    found = rows(name)
    equal(len({row["line"] for row in found}), len(found))
    return {row["line"]: bare(row) for row in found}


def offline(source, target, *flags, status=0):
    return quire("batch", "-m", tiny(), "-c", 256, "-q", "-i", path(source), "-o", path(target),
                 *flags, status=status)


def online(server, source, target, *flags, status=0):
    url = server if isinstance(server, str) else "unix:" + server.address
    return quire("batch", "--server", url, "-q", "-i", path(source), "-o", path(target), *flags,
                 status=status)


def unix_server(name, *flags):
    return Server("--unix-socket", path(name), "--log-level", "error", *flags)


def test_rows_are_those_of_an_offline_run():
    write("job.jsonl", job(50))
    offline("job.jsonl", "right.jsonl", status=5)
    right = by_line("right.jsonl")
    equal(len(right), 50)
    # The server's own defaults do not matter: what they change is sent along.
    for number, flags in enumerate([[], ["--temp", 0.3, "-s", 7, "-n", 9, "--top-k", 3, "--stop",
                                         "a", "--logit-bias", "5+3", "--ignore-eos"]]):
        with unix_server("rows-%d" % number, *flags) as s:
            name = "there-%d.jsonl" % number
            online(s, "job.jsonl", name, status=5)
            equal(by_line(name), right)
            before = read(name)
            online(s, "job.jsonl", name, status=5)
            equal(read(name), before)


def test_flags_of_the_job_count_and_not_the_servers():
    flags = ["-n", 5, "--temp", 0.7, "-s", 3, "--logit-bias", "7+2", "--stop", "zz", "--min-p",
             0.01, "--repeat-penalty", 1.1]
    write("flags.jsonl", job(20))
    offline("flags.jsonl", "flags-right.jsonl", *flags, status=5)
    with unix_server("flags", "--temp", 0.1) as s:
        online(s, "flags.jsonl", "flags-there.jsonl", *flags, "--ordered", status=5)
        equal([row["line"] for row in rows("flags-there.jsonl")], list(range(1, 21)))
        for more in (["--sampling-order", "llama.cpp"], ["--no-special"], ["-c", 64],
                     ["-m", tiny()], ["--logit-bias", "7+200"], ["--check"]):
            online(s, "flags.jsonl", "flags-bad.jsonl", *more, status=2)
    equal(by_line("flags-there.jsonl"), by_line("flags-right.jsonl"))


def test_a_job_goes_on_here_or_there():
    write("half.jsonl", job(9))
    write("whole.jsonl", job(27))
    offline("whole.jsonl", "whole-right.jsonl", status=5)
    with unix_server("on") as s:
        offline("half.jsonl", "here.jsonl", status=5)
        online(s, "whole.jsonl", "here.jsonl", status=5)
        online(s, "half.jsonl", "there.jsonl", status=5)
        p = online(s, "half.jsonl", "there.jsonl", "--temp", 0.5, status=2)
        check(b"temperature 1.0, now it is 0.5" in p.stderr, p.stderr)
    offline("whole.jsonl", "there.jsonl", status=5)
    for name in ("here.jsonl", "there.jsonl"):
        equal(by_line(name), by_line("whole-right.jsonl"))
    with unix_server("other", "-c", 128) as s:  # its answers may be shorter
        p = quire("batch", "--server", "unix:" + s.address, "-i", path("half.jsonl"), "-o",
                  path("here.jsonl"), status=2)
        equal(p.stderr.count(b"ctx_size"), 1, p.stderr)


def wait_for_rows(name, count, p):
    while p.poll() is None:
        try:
            if read(name).count(b"\n") >= count:
                return
        except FileNotFoundError:
            pass
    raise AssertionError("it ended before row %d" % count)


def long_job(count):
    return "".join(json.dumps({"custom_id": "k%d" % i, "url": "/v1/completions",
                               "body": {"prompt": "P%d" % i, "max_tokens": 150,
                                        "ignore_eos": True}}) + "\n" for i in range(count))


def test_a_server_that_is_lost_stops_the_job_and_it_goes_on():
    write("lost.jsonl", long_job(60))
    offline("lost.jsonl", "lost-right.jsonl")
    for number in (signal.SIGKILL, signal.SIGTERM):
        name = "lost-%d.jsonl" % number
        s = unix_server("lost", "--drain-s", 0)
        p = start("batch", "--server", "unix:" + s.address, "-i", path("lost.jsonl"), "-o",
                  path(name), stderr=subprocess.PIPE)
        wait_for_rows(name, 3, p)
        s.stop(number)
        err = p.communicate(timeout=60)[1]
        equal(p.returncode, 75, err)
        check(b"the server is gone" in err and b"start it again" in err, err)
        online("unix:" + path("lost"), "lost.jsonl", name, status=75)
        with unix_server("lost") as s:
            online(s, "lost.jsonl", name)
        equal(by_line(name), by_line("lost-right.jsonl"))


def test_a_signal_stops_the_job():
    write("signal.jsonl", long_job(60))
    with unix_server("signal") as s:
        p = start("batch", "--server", "unix:" + s.address, "-i", path("signal.jsonl"), "-o",
                  path("signal-out.jsonl"), "--grace", 0, "-q", stderr=subprocess.DEVNULL)
        wait_for_rows("signal-out.jsonl", 3, p)
        p.send_signal(signal.SIGTERM)
        equal(p.wait(60), 75)
        s.wait_idle()
        online(s, "signal.jsonl", "signal-out.jsonl")
    equal(len(by_line("signal-out.jsonl")), 60)


def test_a_full_queue_is_waited_for():
    write("full.jsonl", long_job(3))
    with unix_server("full", "--max-rows", 1, "--queue", 0) as s:
        online(s, "full.jsonl", "full-out.jsonl")
        check(s.metrics()['quire_http_replies_total{code="429"}'] > 0)
    equal(len(by_line("full-out.jsonl")), 3)


def test_keys():
    write("key.jsonl", '{"prompt": "x", "max_tokens": 2}\n')
    with unix_server("key", "--api-key", "secret") as s:
        for flags in ([], ["--api-key", "wrong"], ["--api-key", "a\r\nb: c"]):
            p = online(s, "key.jsonl", "key-out.jsonl", *flags, status=2)
            check(b"--api-key" in p.stderr, p.stderr)
        online(s, "key.jsonl", "key-out.jsonl", "--api-key", "secret")
    equal(len(by_line("key-out.jsonl")), 1)


class Scripted(http.server.BaseHTTPRequestHandler):
    """A server of any behaviour: answers[path] is a list of (status, fields, body), the last one
    for ever."""
    answers, seen = {}, []

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.seen.append((self.path, dict(self.headers), json.loads(body)))
        left = self.answers[self.path]
        status, fields, answer = left.pop(0) if len(left) > 1 else left[0]
        if status is None:
            return
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.encode())

    def log_message(self, *_):
        pass


def with_script(answers, *flags, status=0):
    Scripted.seen = []
    basis = {"model": {"model": "scripted", "ctx_size": 64, "special": True}, "defaults": {},
             "chat_defaults": {}, "rows": 1, "vocab_count": 100}
    Scripted.answers = {"/basis": [(200, {}, json.dumps(basis))], **answers}
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Scripted) as s:
        threading.Thread(target=s.serve_forever, daemon=True).start()
        p = quire("batch", "--server", "http://127.0.0.1:%d/" % s.server_address[1], "-i", "-",
                  "-o", "-", *flags, stdin=b'{"prompt": "x", "seed": 9}\n', status=status)
        s.shutdown()
    return p


GOOD = (200, {}, json.dumps({"choices": [], "usage": {"prompt_tokens": 1}}))


def test_what_is_sent():
    p = with_script({"/v1/completions": [GOOD]}, "--api-key", "k", "--temp", 0.5)
    equal(json.loads(p.stdout)["response"]["body"], json.loads(GOOD[2]))
    _, fields, body = Scripted.seen[1]
    equal((fields["X-Quire-Class"], fields["Authorization"], fields["X-Request-Id"]),
          ("spare", "Bearer k", "req_1"))
    equal((body["prompt"], body["seed"], body["temperature"], body["max_tokens"]),
          ("x", 9, 0.5, 128))


def test_busy_and_loading_servers_are_waited_for():
    later = [(503, {"Retry-After": "1"}, "{}"), (429, {"Retry-After": "1"}, "{}"),
             (502, {"Retry-After": "soon"}, "<html>")]
    p = with_script({"/v1/completions": later + [GOOD]})
    equal(p.stdout.count(b"\n"), 1)
    equal(len(Scripted.seen), 5)
    check(p.stderr.count(b"the server is busy (status 503)") == 1, p.stderr)
    basis = json.dumps({"model": {"special": True, "ctx_size": 9}, "defaults": {},
                        "chat_defaults": {}, "rows": 1, "vocab_count": 9})
    with_script({"/v1/completions": [GOOD], "/basis": [later[0], (200, {}, basis)]})


def test_odd_servers_end_the_job_and_not_a_row():
    for answer, status in (((None, {}, ""), 75), ((200, {}, "no JSON"), 75), ((200, {}, "[]"), 75),
                           ((401, {}, "{}"), 75), ((200, {"Content-Length": "9"}, "{}"), 75)):
        p = with_script({"/v1/completions": [answer]}, status=status)
        equal(p.stdout, b"", answer)
    for answer in ((404, {}, "{}"), (200, {}, "{}"), (200, {}, '{"model": 1}')):
        p = with_script({"/basis": [answer]}, status=2)
        check(b"is no quire server" in p.stderr, p.stderr)
    for url in ("unix:", "ftp://x", "http://"):
        online(url, "key.jsonl", "odd.jsonl", status=2)
    p = online("unix:" + path("nobody"), "key.jsonl", "odd.jsonl", status=75)
    check(b"No such file" in p.stderr, p.stderr)


def test_a_failure_of_the_server_is_a_row():
    body = {"error": {"message": "broken", "type": "server_error", "code": "server_error",
                      "param": None}}
    p = with_script({"/v1/completions": [(500, {}, json.dumps(body))]}, status=5)
    row = json.loads(p.stdout)
    equal((row["response"]["status_code"], row["response"]["body"], row["error"]),
          (500, body, {"code": "server_error", "message": "broken"}))


if __name__ == "__main__":
    main(globals())
