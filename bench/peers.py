# SPDX-License-Identifier: MIT
"""Servers that are measured side by side, and where a figure comes from: for bench/offline and
bench/serving. Peers are programs the user names; quire builds none of them."""
import json
import os
import socket
import subprocess
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
QUIRE = os.path.join(ROOT, "build", "quire")
START_SECONDS = 600  # some compile before they serve


def cpu_name():
    with open("/proc/cpuinfo") as info:
        names = [line.split(":", 1)[1].strip() for line in info if line.startswith("model name")]
    return names[0] if names else "unknown CPU"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def named(command, words, known=()):
    """[(name, program)] of the words of --peer; any name where none is known."""
    pairs = [word.partition("=")[::2] for word in words]
    for name, program in pairs:
        if not name or not program or known and name not in known:
            raise SystemExit("%s: --peer %s: NAME=PROGRAM is meant%s"
                             % (command, name, known and ", NAME one of " + ", ".join(known)))
    return pairs


class Served:
    """A server under its command, of whose words {port} and the given values are put in, from when
    its /health says that it is ready to the end of a with statement."""

    def __init__(self, *command, **values):
        self.port = free_port()
        self.url = "http://127.0.0.1:%d" % self.port
        try:
            self.command = [str(word).format(port=self.port, **values) for word in command]
        except (KeyError, IndexError, ValueError) as wrong:
            raise SystemExit("%s: what stands in braces is port, %s: %s"
                             % (command[0], ", ".join(values), wrong)) from wrong

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        latest = time.monotonic() + START_SECONDS
        while True:
            try:
                with urllib.request.urlopen(self.url + "/health", timeout=5):
                    return self
            except OSError:
                if self.process.poll() is not None:
                    raise SystemExit("%s ended with %d" % (self.command[0],
                                                           self.process.returncode))
                if time.monotonic() > latest:
                    self.__exit__()
                    raise SystemExit("%s is not ready after %d s" % (self.command[0],
                                                                     START_SECONDS))
                time.sleep(0.1)

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def llama_server(program, model, slots, context, threads):
    """Its best settings here: one cache for all slots, prompts found again in it."""
    return Served(program, "-m", model, "--host", "127.0.0.1", "--port", "{port}", "-np", slots,
                  "-c", slots * context, "-t", threads, "-tb", threads, "-b", 2048, "-ub", 512,
                  "-cb", "--no-webui", "--cache-reuse", 32, "--no-warmup")


def quire_server(model, slots, context, threads):
    return Served(QUIRE, "serve", "-m", model, "--port", "{port}", "--max-rows", slots, "-c",
                  context, "--kv-tokens", slots * context, "-t", threads, "-q", "--log-level",
                  "error")


def append(path, row):
    """One row of raw figures."""
    if path:
        with open(path, "a") as raw:
            raw.write(json.dumps({"time": time.strftime("%FT%TZ", time.gmtime()),
                                  "cpu": cpu_name(), **row}) + "\n")
