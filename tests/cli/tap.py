# SPDX-License-Identifier: MIT
"""What the scripts in this folder share: the program under test, small models, and TAP output.

A test is a function named test_*, and its name is what is printed. It fails by an exception (check,
equal) and is skipped by raising Skip with the reason. main() runs them all.
"""
import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
import traceback

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get("B", "build/release"))
QUIRE = os.path.join(BUILD, "quire")
MKMODEL = os.path.join(BUILD, "tests/tools/mkmodel")
GOLDEN = os.environ.get("QUIRE_GOLDEN") or os.path.join(ROOT, "..", "shared", "golden")
TMP = tempfile.mkdtemp(prefix="quire-cli-")
atexit.register(shutil.rmtree, TMP, ignore_errors=True)

# The environment's own QUIRE_ settings must not change what is tested.
ENV = {k: v for k, v in os.environ.items() if not k.startswith("QUIRE_")}


class Skip(Exception):
    """Raised with a reason."""


def path(name):
    return os.path.join(TMP, name)


def write(name, text):
    with open(path(name), "wb") as f:
        f.write(text if isinstance(text, bytes) else text.encode())
    return path(name)


def read(name):
    with open(path(name), "rb") as f:
        return f.read()


def model(name, *flags):
    """A model made by mkmodel once per script."""
    out = path(name + ".gguf")
    if not os.path.exists(out):
        subprocess.run([MKMODEL, *map(str, flags), "-o", out], check=True,
                       stdout=subprocess.DEVNULL)
    return out


def tiny():
    return model("tiny", "--type", "Q8_0", "--seed", 1)


def middle():
    """41 MiB: large enough not to fit."""
    return model("middle", "--shape", "custom", "--width", 512, "--layers", 10, "--heads", 8,
                 "--kv-heads", 2, "--ffn", 2048, "--vocab", 2048, "--type", "Q8_0", "--direct",
                 "--seed", 5)


def quire(*args, stdin=None, status=0, env=None, timeout=120):
    """Runs the program to its end; status is what it must exit with, None for anything."""
    p = subprocess.run([QUIRE, *map(str, args)], input=stdin, capture_output=True, timeout=timeout,
                       env={**ENV, **(env or {})})
    if status is not None and p.returncode != status:
        raise AssertionError("quire %s: status %d, not %d\nstdout: %s\nstderr: %s"
                             % (" ".join(map(str, args)), p.returncode, status, p.stdout[-500:],
                                p.stderr[-1500:]))
    return p


def start(*args, **kwargs):
    return subprocess.Popen([QUIRE, *map(str, args)], env=ENV, **kwargs)


def rows(name):
    return [json.loads(line) for line in read(name).decode().splitlines()]


def check(value, *notes):
    if not value:
        raise AssertionError(" ".join(map(str, notes)) or "check failed")


def equal(a, b, *notes):
    check(a == b, repr(a)[:400], "is not", repr(b)[:400], *notes)


def main(scope):
    tests = [(n[5:], f) for n, f in scope.items() if n.startswith("test_")]
    print("1..%d" % len(tests))
    failed = False
    for number, (name, test) in enumerate(tests, 1):
        title = "%d - %s" % (number, name.replace("_", " "))
        try:
            test()
            print("ok", title)
        except Skip as reason:
            print("ok", title, "# SKIP", reason)
        except Exception:  # a failing test must not hide the others
            failed = True
            print("not ok", title)
            for line in traceback.format_exc().splitlines():
                print("#", line)
        sys.stdout.flush()
    sys.exit(1 if failed else 0)
