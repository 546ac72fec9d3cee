# SPDX-License-Identifier: MIT
"""A server under test, and a client that shows every byte: sockets, no HTTP library in between."""
import json
import re
import signal
import socket
import subprocess
import threading

from tap import check, start, tiny

LIMIT_S = 60


class Server:
    """quire serve on a free port. log: the lines of stderr so far."""

    def __init__(self, *flags, model=None, ready=True, preexec_fn=None):
        self.log = []
        self.address = None
        self.process = start("serve", "-m", model or tiny(), "--port", 0, "-c", 256, *flags,
                             stderr=subprocess.PIPE, text=True, preexec_fn=preexec_fn)
        self.is_ready = threading.Event()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        if ready:
            check(self.is_ready.wait(LIMIT_S) and self.address, "not ready:", *self.log[-5:])

    def _read(self):
        for line in self.process.stderr:
            self.log.append(line.rstrip("\n"))
            found = re.match(r"listening http://[^ ]*:(\d+)$", line)
            if found:
                self.address = ("127.0.0.1", int(found.group(1)))
            elif line.startswith("listening unix:"):
                self.address = line[15:].strip()
            if line.startswith("ready"):
                self.is_ready.set()
        self.is_ready.set()

    def connect(self):
        kind = socket.AF_UNIX if isinstance(self.address, str) else socket.AF_INET
        s = socket.socket(kind, socket.SOCK_STREAM)
        s.settimeout(LIMIT_S)
        s.connect(self.address)
        return s

    def metrics(self):
        """name or name{labels} -> number"""
        page = self.get("/metrics").text
        rows = [line.rsplit(" ", 1) for line in page.splitlines() if line and line[0] != "#"]
        return {name: float(value) for name, value in rows}

    def request(self, raw):
        """One request on a connection of its own."""
        with self.connect() as s:
            s.sendall(raw)
            return Reply(s.makefile("rb"))

    def get(self, path, **fields):
        return self.request(head("GET", path, **fields))

    def post(self, path, body, **fields):
        return self.request(post(path, body, **fields))

    def wait_idle(self):
        """Until nothing runs or waits; the numbers at that moment."""
        for _ in range(2000):
            m = self.metrics()
            if (m["quire_requests_running"] == 0 and m["quire_requests_waiting"] == 0 and
                    m["quire_calls"] == 0):
                return m
        raise AssertionError("still busy: %r" % m)

    def stop(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        status = self.process.wait(LIMIT_S)
        self.reader.join(LIMIT_S)
        return status

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        status = self.stop()
        check(exc[0] is not None or status == 0, "status", status, *self.log[-5:])


def head(method, path, **fields):
    named = {"Host": "localhost", **{k.replace("_", "-"): v for k, v in fields.items()}}
    lines = ["%s %s HTTP/1.1" % (method, path)]
    lines += ["%s: %s" % item for item in named.items() if item[1] is not None]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def post(path, body, **fields):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return head("POST", path, Content_Type="application/json", Content_Length=len(data),
                **fields) + data


class Reply:
    """status, fields (names in lower case), body as bytes; body=False leaves it unread."""

    def __init__(self, f, body=True):
        self.file = f
        line = f.readline()
        found = re.fullmatch(rb"HTTP/1\.1 (\d{3}) [^\r\n]+\r\n", line)
        check(found, "no status line:", line)
        self.status = int(found.group(1))
        self.fields = {}
        for line in iter(f.readline, b"\r\n"):
            check(line.endswith(b"\r\n"), line)
            name, value = line[:-2].decode().split(": ", 1)
            check(name.lower() not in self.fields, name, "twice")
            self.fields[name.lower()] = value
        self.body = b"".join(self.pieces()) if body else None

    def pieces(self):
        if self.fields.get("transfer-encoding") == "chunked":
            while True:
                size = int(self.file.readline(), 16)
                piece = self.file.read(size)
                check(self.file.read(2) == b"\r\n")
                if size == 0:
                    return
                yield piece
        elif "content-length" in self.fields:
            yield self.file.read(int(self.fields["content-length"]))
        elif self.status not in (100, 204, 304):
            yield self.file.read()

    @property
    def text(self):
        return self.body.decode()

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json["error"]

    @property
    def events(self):
        """The data of a stream's frames; the last one must be [DONE]."""
        return events_of(self.body)


def events_of(body):
    frames = body.decode().split("\n\n")
    check(frames.pop() == "", "the stream does not end with an empty line")
    data = [f[6:] for f in frames if not f.startswith(":")]
    check(all(f.startswith("data: ") or f == ":" for f in frames), frames)
    check(data and data[-1] == "[DONE]", data[-1:])
    return [json.loads(d) for d in data[:-1]]


def text_of(events, index=0):
    return "".join(c["text"] for e in events for c in e["choices"] if c["index"] == index)
