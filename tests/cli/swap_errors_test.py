#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A block file on a disk that really fails: answers stay the same, and one warning names the error.

A small library in front of the C library's makes writes or reads of whole blocks fail with the
errno of the case; a file system of 64 KiB is really full."""
import json
import os
import shutil
import subprocess
import tempfile

from tap import ENV, QUIRE, TMP, Skip, check, equal, main, path, tiny, write

SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static int fails(const char *name, size_t bytes)
{
    const char *code = getenv(name), *after = getenv("FAIL_AFTER");
    static int calls;
    if (code == NULL || bytes < 4096 || calls++ < (after != NULL ? atoi(after) : 0))
        return 0;
    errno = atoi(code);
    return 1;
}

ssize_t pwrite(int fd, const void *p, size_t n, off_t at)
{
    ssize_t (*next)(int, const void *, size_t, off_t) = dlsym(RTLD_NEXT, "pwrite");
    return fails("FAIL_WRITES", n) ? -1 : next(fd, p, n, at);
}

ssize_t pread(int fd, void *p, size_t n, off_t at)
{
    ssize_t (*next)(int, void *, size_t, off_t) = dlsym(RTLD_NEXT, "pread");
    return fails("FAIL_READS", n) ? -1 : next(fd, p, n, at);
}
"""
TEXT = "Once upon a time there was a small mill by a river, and in the mill lived a cat. " * 4
ROOMY = ("--kv-tokens", 4096)
SCARCE = ("--kv-tokens", 512, "--chaos", "preempt=5", "--swap-io", "plain", "-v")


def shim():
    library = path("shim.so")
    if not os.path.exists(library):
        built = subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", library,
                                write("shim.c", SHIM), "-ldl"], capture_output=True, text=True)
        if built.returncode != 0:
            raise Skip("a shared library cannot be built: " + built.stderr[-200:])
    return library


def batch(*args, env=None, before=()):
    """Texts of six requests, and what was said."""
    rows = [{"prompt": TEXT[i:180 + i], "max_tokens": 60, "temperature": 0.7, "seed": i}
            for i in range(6)]
    source = write("rows.jsonl", "".join(json.dumps(r) + "\n" for r in rows))
    out = path("out.jsonl")
    if os.path.exists(out):
        os.remove(out)
    run = subprocess.run([*before, QUIRE, "batch", "-m", tiny(), "-i", source, "-o", out, "-c",
                          "512", "-np", "6", *map(str, args)],
                         capture_output=True, text=True, timeout=120, env={**ENV, **(env or {})})
    equal(run.returncode, 0, run.stderr[-1500:])
    with open(out) as f:
        lines = sorted((json.loads(l) for l in f), key=lambda r: r["id"])
    return [r["response"]["body"]["choices"][0]["text"] for r in lines], run.stderr


def says_the_same(wanted, swap, **kwargs):
    right, _ = batch(*ROOMY)
    got, said = batch(*SCARCE, *swap, **kwargs)
    equal(got, right)
    equal(said.count("warning:"), 1, said)
    check(wanted in said, said)
    return said


def test_a_disk_that_is_full_from_the_fourth_block_on():
    said = says_the_same("writing a block: No space left on device", ("--swap", TMP),
                         env={"LD_PRELOAD": shim(), "FAIL_WRITES": "28", "FAIL_AFTER": "3"})
    check(" 3 blocks written" in said, said)


def test_a_disk_that_cannot_be_written():
    says_the_same("writing a block: Input/output error", ("--cache-file", path("a.blocks")),
                  env={"LD_PRELOAD": shim(), "FAIL_WRITES": "5"})


def test_a_disk_that_cannot_be_read():
    kept = path("b.blocks")
    batch(*ROOMY, "--cache-file", kept)
    says_the_same("reading a block: Input/output error", ("--cache-file", kept),
                  env={"LD_PRELOAD": shim(), "FAIL_READS": "5", "FAIL_AFTER": "1"})


def test_a_file_system_of_64_kib():
    unshare = shutil.which("unshare")
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", tempfile.mkdtemp(dir=TMP)]
    before = [unshare or "", "--user", "--map-root-user", "--mount"]
    if unshare is None or subprocess.run([*before, *mount], capture_output=True).returncode != 0:
        raise Skip("no file system can be mounted here")
    script = " ".join(mount) + ' && exec "$@"'
    said = says_the_same("writing a block: No space left on device",
                         ("--cache-file", mount[-1] + "/c.blocks", "--swap-size", "4M"),
                         before=[*before, "sh", "-c", script, "sh"])
    check("blocks written" in said, said)


if __name__ == "__main__":
    main(globals())
