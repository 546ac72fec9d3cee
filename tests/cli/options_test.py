#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Flags and exit statuses that every command shares."""
import subprocess

from tap import QUIRE, check, equal, main, quire, tiny, write

COMMANDS = ["run", "batch", "bench", "perplexity", "logits"]


def said(p):
    return p.stderr.decode()


def test_unknown_flag_names_the_nearest():
    for command in COMMANDS:
        p = quire(command, "--thread", "2", status=2)
        check("unknown flag --thread; the nearest is --threads" in said(p), said(p))
        equal(p.stdout, b"")
    check("--temp" in said(quire("run", "--tmep", "1", status=2)))
    check("-npl" in said(quire("bench", "-nplx", "1", status=2)))


def test_unknown_command_names_the_nearest():
    check("the nearest is batch" in said(quire("bach", status=2)))
    check("usage: quire COMMAND" in said(quire(status=2)))


def test_help_of_every_command_is_data():
    text = quire("help").stdout.decode()
    for command in COMMANDS:
        check(command in text)
        help_text = quire(command, "--help").stdout
        equal(help_text, quire("help", command).stdout)
        for flag in [b"-m, --model", b"-c, --ctx-size", b"--kv-tokens", b"--max-rows", b"--chunk",
                     b"-t, --threads", b"--isa", b"--act", b"QUIRE_THREADS"]:
            check(flag in help_text, command, "lacks", flag)


def test_a_full_disk_is_an_error():
    for words in (["help"], ["help", "run"], ["help", "--man"], ["run", "--help"], ["--version"]):
        with open("/dev/full", "wb") as full:
            p = subprocess.run([QUIRE, *words], stdout=full, stderr=subprocess.PIPE)
        equal(p.returncode, 1)
        equal(p.stderr, b"quire: stdout cannot be written\n")


def test_version_says_how_it_was_built():
    text = quire("--version").stdout.decode()
    for word in ["quire ", "compiler", "isa", "allocator"]:
        check(word in text, text)


def test_wrong_values_name_flag_and_range():
    p = quire("run", "-m", tiny(), "-c", "12x", status=2)
    check("-c takes a whole number from 0 to 1048576, not '12x'" in said(p), said(p))
    p = quire("run", "-m", tiny(), "-p", "x", status=2, env={"QUIRE_TOP_K": "many"})
    check("QUIRE_TOP_K takes a whole number" in said(p), said(p))
    check("--isa takes one of auto, scalar" in said(quire("run", "--isa", "mmx", status=2)))
    for more, word in [(["--logit-bias", "9999+1"], "--logit-bias"), (["--top-p", "0"], "top_p")]:
        check(word in said(quire("run", "-m", tiny(), "-p", "x", *more, status=2)))


def test_missing_flags():
    check("-m MODEL is missing" in said(quire("run", "-p", "x", status=2)))
    check("-i is missing" in said(quire("batch", "-m", tiny(), status=2)))
    check("-o is missing" in said(quire("batch", "-m", tiny(), "-i", "x", status=2)))
    check("-f FILE is missing" in said(quire("perplexity", "-m", tiny(), status=2)))
    check("--tokens is missing" in said(quire("logits", "-m", tiny(), "-o", "x", status=2)))


def test_flags_of_other_engines_are_ignored_with_a_note():
    p = quire("run", "-m", tiny(), "-p", "a", "-n", 1, "-ngl", "99", "--mmap", "-fa", "on",
              "-no-cnv", "-st", "--color", "auto", "--no-context-shift")
    for flag in ["-ngl", "--mmap", "-fa", "-no-cnv", "-st", "--color",
                 "--no-context-shift"]:
        equal(said(p).count("note: %s is ignored" % flag), 1)
    p = quire("serve", "--jinja", "--metrics", "--slots", "--props", "--no-webui", "--embeddings",
              "--enable-prefix-caching", "--dtype", "auto", "--max-num-seqs", 4, status=2)
    check("-m MODEL is missing" in said(p), said(p))  # and nothing about flags


def test_bad_models_exit_3():
    for text in [b"GGUF", b"<html></html>", b""]:
        bad = write("bad.gguf", text)
        for command in [["run", "-p", "x"], ["bench"], ["perplexity", "-f", bad]]:
            p = quire(command[0], "-m", bad, *command[1:], status=3)
            equal(len(said(p).splitlines()), 1, said(p))
    quire("run", "-m", "/nonexistent.gguf", "-p", "x", status=3)


def test_what_cannot_fit_exits_4():
    p = quire("run", "-m", tiny(), "-p", "x", "--kv-tokens", "1000M", status=4)
    check("do not fit" in said(p) and "MiB available" in said(p), said(p))


def test_start_lines_say_what_was_taken():
    text = said(quire("run", "-m", tiny(), "-p", "x", "-n", 1, "-c", 96, "--kv-tokens", 64, "-t",
                      1))
    for word in ["Q8_0", "64 tokens a request", "KV pool 64 tokens", "threads", "isa", "int8"]:
        check(word in text, word, "not in", text)
    equal(said(quire("run", "-m", tiny(), "-p", "x", "-n", 1, "-q")), "")


def commands():
    rows = quire("help").stdout.decode().splitlines()
    return [row.split()[0] for row in rows if row.startswith("  ") and row[15:16].strip() and
            not row.startswith("  quire")]


def test_every_command_has_a_manual_page_and_words_for_a_shell():
    check(len(commands()) > 8, commands())
    for name in commands():
        if name == "help":
            continue
        page = quire("help", "--man", name).stdout.decode()
        flags = quire("help", "--flags", name).stdout.decode().split()
        check(page.startswith(".TH QUIRE") and flags, name)
        text = quire(name, "--help").stdout.decode()
        for flag in flags:
            check(flag in text and flag.replace("-", "\\-") in page, name, flag)
    page = quire("help", "--man").stdout.decode()
    check(all(".B %s\n" % name in page for name in commands()))
    script = quire("help", "--completion").stdout
    p = subprocess.run(["bash", "-c", script.decode() + "\nquire() { " + QUIRE + ' "$@"; }\n'
                        "COMP_WORDS=(quire serve --unix); COMP_CWORD=2; _quire\n"
                        'echo "${COMPREPLY[@]}"; COMP_WORDS=(quire ser); COMP_CWORD=1; _quire\n'
                        'echo "${COMPREPLY[@]}"'], capture_output=True, check=True)
    equal(p.stdout.decode().split(), ["--unix-socket", "serve"])


if __name__ == "__main__":
    main(globals())
