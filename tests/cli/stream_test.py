#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Models larger than memory, through the program: the same text whichever way the weights come and
whatever the system refuses, one warning for each refusal, and the promises about what is read. What
this machine cannot show is skipped by name. Prints TAP."""
import ctypes
import errno
import functools
import json
import os
import platform
import re
import resource
import struct
import subprocess
import sys
import time

from serving import Server
from tap import ENV, QUIRE, Skip, check, equal, main, middle, model, path, quire, write

TIGHT = ["--mem", "40M", "-c", 256, "-np", 2]
RUN = ["-p", "abc", "-n", 8, "--temp", 0]
LIBC = ctypes.CDLL(None, use_errno=True)

# System calls by their numbers; other processors have others.
CALLS = {"x86_64": {"io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
                    "fcntl": 72, "mlock2": 325},
         "aarch64": {"io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
                     "fcntl": 25, "mlock2": 284}}.get(platform.machine())
O_DIRECT, F_SETFL = os.O_DIRECT, 4


def refuse(call, error, arguments=()):
    """A preexec that makes a system call fail; arguments: (index, value, mask) that must match."""
    if CALLS is None:
        raise Skip("system call numbers of %s are not known here" % platform.machine())
    jump, load, ret, masked = 0x15, 0x20, 0x06, 0x54
    body = [(load, 0, 0, 0)]  # the number
    tests = [(jump, CALLS[call])]
    program = []
    for index, value, mask in arguments:
        tests.append((load, 16 + 8 * index))
        tests.append((masked, mask))
        tests.append((jump, value))
    for at, (code, k) in enumerate(tests):
        left = len(tests) - at
        program.append((code, 0, left if code == jump else 0, k))
    program.append((ret, 0, 0, 0x50000 | error))
    program.append((ret, 0, 0, 0x7fff0000))
    code = b"".join(struct.pack("HBBI", *i) for i in body + program)

    class Filter(ctypes.Structure):
        _fields_ = [("count", ctypes.c_ushort), ("code", ctypes.c_char_p)]

    def preexec():
        f = Filter(len(body + program), code)
        if LIBC.prctl(38, 1, 0, 0, 0) != 0 or LIBC.prctl(22, 2, ctypes.byref(f)) != 0:
            os._exit(99)
    return preexec


def run(*flags, preexec=None, model=None):
    """text, start line of the weights, warnings"""
    p = subprocess.run([QUIRE, "run", "-m", model or middle(), *map(str, [*RUN, *flags])],
                       capture_output=True, env=ENV, timeout=300, preexec_fn=preexec)
    if p.returncode == 99:
        raise Skip("system calls cannot be filtered here")
    equal(p.returncode, 0, p.stderr[-500:])
    lines = p.stderr.decode().splitlines()
    weights = [line for line in lines if line.startswith("weights")]
    return p.stdout, weights[0], [line for line in lines if line.startswith("warning:")]


@functools.cache
def plenty():
    text, line, _ = run("-c", 256, "-np", 2)
    check(line.endswith("mapped"), line)
    return text


@functools.cache
def has_ring():
    return "io_uring, direct" in run(*TIGHT)[1]


def same(flags, mode, warnings, preexec=None, model=None):
    text, line, said = run(*TIGHT, *flags, preexec=preexec, model=model)
    check(mode in line, line)
    equal(len(said), len(warnings), said)
    for want, line in zip(warnings, said):
        check(want in line, line)
    equal(text, plenty())


def test_every_way_gives_the_same_text():
    if has_ring():
        same([], "io_uring, direct", [])
    same(["--read", "threads"], "threads, direct", [])
    same(["--read", "mmap"], "mmap", [])
    same(["--prefault"], "MiB kept", [])
    text, line, said = run("-c", 256, "-np", 2, "--no-mmap")
    check("40 MiB kept, 0 MiB read" in line or "41 MiB kept, 0 MiB read" in line, line)
    equal((text, said), (plenty(), []))
    text, line, said = run("-c", 256, "-np", 2, "--prefault")
    equal((text, said), (plenty(), []))


def test_io_uring_refused_by_a_filter():
    for error in [errno.EPERM, errno.ENOSYS, errno.ENOMEM]:
        same([], "threads, direct", ["io_uring is refused"],
             preexec=refuse("io_uring_setup", error))


def test_io_uring_refused_when_it_is_entered():
    if not has_ring():
        raise Skip("io_uring is refused on this machine")
    same([], "threads, direct", ["io_uring is refused: Operation not permitted"],
         preexec=refuse("io_uring_enter", errno.EPERM))


def test_locked_memory_limit():
    if not has_ring():
        raise Skip("io_uring is refused on this machine")
    if os.geteuid() != 0:
        raise Skip("only root has a capability to drop")

    def preexec():
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
        if LIBC.prctl(24, 14, 0, 0, 0) != 0:  # CAP_IPC_LOCK leaves the bounding set
            os._exit(99)
    text, line, said = run(*TIGHT, preexec=preexec)
    equal(text, plenty())
    equal(len(said), 1, said)
    # what others of this user have locked counts, and older kernels count the ring itself
    check(("not registered" in line and "cannot be registered" in said[0]) or
          ("threads, direct" in line and "io_uring is refused" in said[0]), line, said)


def test_mlock_refused():
    text, line, said = run(*TIGHT, "--mlock", preexec=refuse("mlock2", errno.EPERM))
    equal(len(said), 1, said)
    check("cannot be locked" in said[0], said)
    equal(text, plenty())


def test_no_direct_reads():
    direct = refuse("fcntl", errno.EINVAL, [(1, F_SETFL, 0xffffffff), (2, O_DIRECT, O_DIRECT)])
    same(["--read", "threads"], "threads, page cache", ["no direct reads"], preexec=direct)
    if has_ring():
        same([], "io_uring, page cache", ["no direct reads"], preexec=direct)


def test_file_system_without_direct_reads():
    """ramfs has none."""
    where = path("ramfs")
    os.makedirs(where, exist_ok=True)
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "ramfs", "none", where],
                                           capture_output=True).returncode != 0:
        raise Skip("no file system may be mounted here")
    try:
        copy = os.path.join(where, "m.gguf")
        with open(middle(), "rb") as src, open(copy, "wb") as dst:
            dst.write(src.read())
        same([], "page cache", ["no direct reads"], model=copy)
    finally:
        subprocess.run(["umount", where], check=True)


def bench(*flags):
    p = subprocess.run([QUIRE, "bench", "-m", middle(), "-npp", "8", "-ntg", "16", "-npl", "1,8",
                        "--jsonl", *map(str, flags)], capture_output=True, env=ENV, timeout=300)
    equal(p.returncode, 0, p.stderr[-500:])
    return [json.loads(line) for line in p.stdout.splitlines()]


def test_bench_says_what_is_read():
    rows = bench("--mem", "48M")
    equal([r["n_pl"] for r in rows], [1, 8])
    for r in rows:
        left = r["weight_bytes_per_step"] - r["pinned_bytes"]
        check(0.9 * left < r["read_bytes_per_step"] < 1.1 * left, r)
        check(r["pinned_bytes"] > 0)
        if "io_uring" in r["read_mode"]:
            check(r["ring_reads"] > 0)
    if has_ring():
        equal({(r["read_mode"], r["read_fallbacks"]) for r in rows}, {("io_uring, direct", 0)})
    equal({r["read_mode"] for r in bench()}, {"mapped"})


def test_steps_are_wide_without_flags():
    write("one.jsonl", json.dumps({"prompt": "abc", "max_tokens": 2}) + "\n")
    for mem, rows, chunk, live_chunk in [("50M", 64, 256, 256), ("2G", 16, 128, 64)]:
        batch_ = quire("batch", "-m", middle(), "-i", path("one.jsonl"), "-o",
                       path("one-%s.jsonl" % mem), "-c", 128, "--mem", mem).stderr.decode()
        run_ = quire("run", "-m", middle(), "-c", 128, *RUN, "--mem", mem).stderr.decode()
        with Server("-c", 128, "--mem", mem, model=middle()) as s:
            served = "\n".join(s.log)
        for said, most, most_new in [(batch_, rows, chunk), (run_, 1, chunk),
                                  (served, rows, live_chunk)]:
            check(", %d requests at once, chunk %d\n" % (most, most_new) in said, said)
            check(("read in every step" in said) == (chunk == 256), said)


def test_only_chosen_experts_are_read():
    """Of a mixture a step reads the experts that its rows chose and no other: eight rows choose
    more than one row does, and neither chooses all. The text is that of a mapped file."""
    mixture = model("mixture", "--shape", "custom", "--width", 256, "--layers", 4, "--heads", 4,
                    "--kv-heads", 2, "--ffn", 1024, "--vocab", 1024, "--type", "Q8_0", "--experts",
                    16, "--experts-used", 2, "--direct", "--seed", 7)
    size = os.path.getsize(mixture)
    want = quire("run", "-m", mixture, "-c", 128, *RUN).stdout
    got = quire("run", "-m", mixture, "-c", 128, *RUN, "--mem", "36M")
    equal(got.stdout, want)
    check(b"read in every step" in got.stderr, got.stderr)
    p = quire("bench", "-m", mixture, "-npp", 8, "-ntg", 16, "-npl", "1,8", "--jsonl", "--mem",
              "36M")
    one, eight = map(json.loads, p.stdout.splitlines())
    expert = 3 * 256 * 1024 * 34 // 32  # bytes of one, in one of four layers
    always = size - 4 * 16 * expert
    # kept or not, what is read is experts: at most all that two picks a row can choose
    check(one["read_bytes_per_step"] <= 4 * 2 * expert + always + (1 << 20), one)
    check(one["read_bytes_per_step"] < eight["read_bytes_per_step"] < 4 * 16 * expert, one, eight)
    check(eight["read_bytes_per_step"] + eight["pinned_bytes"] < size, eight, size)
    check(0 < one["pinned_bytes"] < size // 2, one)


def cold(*names):
    for name in names:
        with open(name, "rb") as f:
            os.fsync(f.fileno())
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def twice():
    """80 MiB: twice the memory that it is given."""
    return model("twice", "--shape", "custom", "--width", 512, "--layers", 20, "--heads", 8,
                 "--kv-heads", 2, "--ffn", 2048, "--vocab", 2048, "--type", "Q8_0", "--direct",
                 "--seed", 6)


def first_token(name, mem):
    """A cold start to the first token: one pass over the weights, which reads each once. The
    process as a whole reads the header too, and, when the token is there, into a few buffers."""
    size = os.path.getsize(name)
    cold(name)
    p = subprocess.Popen([QUIRE, "run", "-m", name, "-p", "abc", "-n", "1", "-c", "256", "--mem",
                          mem, "-v"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=ENV)
    said = p.stderr.read().decode()
    _, status, usage = os.wait4(p.pid, 0)
    p.returncode = os.waitstatus_to_exitcode(status)
    equal(p.returncode, 0, said)
    kept, streamed = map(int, re.search(r"weights +(\d+) MiB kept, (\d+) MiB", said).groups())
    read = int(re.search(r"reading +(\d+) MiB", said).group(1))
    steps = int(re.search(r"steps +(\d+) with", said).group(1))
    check(streamed > kept > 0, said)
    equal(steps, 1, said)
    buffers = 1 + bytes_of(mem) // 16 // (1 << 20)
    check(read <= kept + streamed + max(buffers, 5), said)
    check(usage.ru_inblock * 512 < size + (buffers + 16 << 20), usage.ru_inblock * 512, size)


def bytes_of(text):
    return int(text[:-1]) << 20


def test_cold_start_reads_nothing_twice():
    first_token(twice(), "40M")


class Group:
    """A control group with a memory limit, v1 or v2; page cache counts."""

    def __init__(self, limit):
        v1, v2 = "/sys/fs/cgroup/memory", "/sys/fs/cgroup"
        if os.path.exists(v1 + "/memory.limit_in_bytes"):
            self.parent, self.limit = v1, "memory.limit_in_bytes"
        elif os.path.exists(v2 + "/cgroup.controllers"):
            self.parent, self.limit = v2, "memory.max"
        else:
            raise Skip("no memory control groups")
        self.dir = os.path.join(self.parent, "quire-test-%d" % os.getpid())
        try:
            os.mkdir(self.dir)
            self.put(self.limit, limit)
        except OSError as e:
            if os.path.isdir(self.dir):
                os.rmdir(self.dir)
            raise Skip("memory control groups are not writable (%s)" % e.strerror)

    def put(self, name, value):
        with open(os.path.join(self.dir, name), "w") as f:
            f.write(str(value))

    def enter(self):
        self.put("cgroup.procs", os.getpid())

    def kills(self):
        for name in ["memory.oom_control", "memory.events"]:
            full = os.path.join(self.dir, name)
            if os.path.exists(full):
                with open(full) as f:
                    for line in f:
                        if line.startswith("oom_kill "):
                            return int(line.split()[1])
        return 0

    def anonymous(self):
        with open(os.path.join(self.dir, "memory.stat")) as f:
            rows = dict(line.split() for line in f)
        return int(rows.get("total_rss") or rows["anon"])

    def close(self):
        os.rmdir(self.dir)


def batch(name, whole, *flags, preexec=None):
    p = subprocess.run([QUIRE, "batch", "-m", whole, "-i", path("in.jsonl"), "-o", path(name),
                        "-np", "8", "-c", "128", *map(str, flags)],
                       capture_output=True, env=ENV, timeout=900, preexec_fn=preexec)
    equal(p.returncode, 0, p.stderr[-500:])
    with open(path(name)) as f:
        answers = [json.loads(line) for line in f]
    return ({a["custom_id"]: a["response"]["body"]["choices"][0]["text"] for a in answers},
            p.stderr.decode())


def eight_under(whole, mib):
    """Eight requests at once under a limit with the page cache, and without a flag that says so:
    the texts are those that come with plenty of memory, and nobody is killed."""
    write("in.jsonl", "".join(json.dumps(
        {"custom_id": str(i), "method": "POST", "url": "/v1/completions",
         "body": {"prompt": "abc %d" % i, "max_tokens": 12, "temperature": 0}}) + "\n"
        for i in range(8)))
    name = os.path.basename(whole)
    want, _ = batch(name + "-plenty.jsonl", whole)
    group = Group(mib << 20)
    try:
        cold(whole)
        got, said = batch(name + "-tight.jsonl", whole, preexec=group.enter)
        kills = group.kills()
    finally:
        group.close()
    equal(len(got), 8)
    equal(got, want)
    equal(kills, 0)
    check("under the cgroup limit of %d MiB" % mib in said, said)
    check("read in every step" in said, said)


def test_eight_requests_under_a_control_group():
    eight_under(middle(), 40)


def test_a_large_model():
    """QUIRE_BIG_MODEL=FILE, 1.1B parameters: the same under 256 MiB, and its first token."""
    big = os.environ.get("QUIRE_BIG_MODEL")
    if not big:
        raise Skip("QUIRE_BIG_MODEL names no file")
    eight_under(big, 256)
    first_token(big, "256M")


def fill_cache(server):
    """One request after the other: what they computed stays cached."""
    for i in range(4):
        r = server.post("/v1/completions", {"prompt": "%d abc" % i * 20, "max_tokens": 40,
                                            "temperature": 0, "ignore_eos": True})
        equal(r.status, 200, r.text)
    cached = server.metrics()["quire_kv_blocks_cached"]
    check(cached > 4, cached)


def until_given_back(server, again=lambda: None):
    for _ in range(600):
        again()
        m = server.metrics()
        if m["quire_kv_blocks_cached"] == 0:
            break
        time.sleep(0.1)
    equal(m["quire_kv_blocks_cached"], 0)
    check(m["quire_kv_blocks_relieved_total"] > 4 and m["quire_memory_short_looks_total"] > 0, m)


def test_stalls_for_memory_give_cached_blocks_back():
    total = [0]

    def stall():
        total[0] += 10**9
        write("stalls", "some avg10=0.00 avg60=0.00 avg300=0.00 total=%d\n" % total[0])
    stall()
    with Server("--pressure", path("stalls")) as s:
        fill_cache(s)
        until_given_back(s, stall)
        fill_cache(s)
    quire("run", "-m", middle(), "-p", "x", "-n", 1, "--pressure", path("none"), status=1)


def test_a_neighbour_takes_the_memory_of_the_group():
    """What others in the group take is seen before weights of a mapped file are evicted."""
    limit = 200 << 20
    group = Group(limit)
    try:
        with Server("--kv-tokens", 2048, model=middle(), preexec_fn=group.enter) as s:
            fill_cache(s)
            size = limit - group.anonymous() - (40 << 20)
            hog = subprocess.Popen([sys.executable, "-c",
                                    "b = bytearray(%d); b[::4096] = b'x' * len(b[::4096]); input()"
                                    % size], stdin=subprocess.PIPE, preexec_fn=group.enter)
            try:
                until_given_back(s)
            finally:
                hog.communicate(b"\n")
            equal(hog.returncode, 0)
            equal(s.post("/v1/completions", {"prompt": "x", "max_tokens": 2}).status, 200)
        equal(group.kills(), 0)
    finally:
        group.close()


def test_metrics_say_how_weights_are_read():
    with Server("--mem", "48M", "-np", 2, "-c", 256, model=middle()) as s:
        equal(s.post("/v1/completions", {"prompt": "x", "max_tokens": 3}).status, 200)
        m = s.metrics()
        mode = [n for n in m if n.startswith("quire_weights_info")][0]
        check(m["quire_weights_pinned_bytes"] > 0 and m["quire_weights_streamed_bytes"] > 0, m)
        check(m["quire_weights_read_bytes_total"] >= m["quire_weights_streamed_bytes"], m)
        if has_ring():
            equal(mode, 'quire_weights_info{read_mode="io_uring, direct"}')
            equal(m["quire_weights_read_fallbacks"], 0)
            check(m["quire_weights_ring_reads_total"] > 0, m)
    with Server("--mem", "48M", "-np", 2, "-c", 256, model=middle(),
                preexec_fn=refuse("io_uring_setup", errno.EPERM)) as s:
        m = s.metrics()
        equal(m['quire_weights_info{read_mode="threads, direct"}'], 1)
        equal(m["quire_weights_read_fallbacks"], 1)
        equal(m["quire_weights_ring_reads_total"], 0)
    with Server() as s:
        equal(s.metrics()['quire_weights_info{read_mode="mapped"}'], 1)


if __name__ == "__main__":
    main(globals())
