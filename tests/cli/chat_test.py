#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quire chat and run --chat: turns, the template, what is shown where."""
from tap import check, equal, main, model, quire, tiny, write

SAID = "Good morning, \U0001f642 all.\nIt is late."


def script():
    return model("script", "--script", SAID)


def chat(*args, **kwargs):
    return quire("chat", "-m", script(), *args, **kwargs)


def test_one_question():
    for args in [["-p", "hello"], ["-f", write("question.txt", "hello")]]:
        p = chat("-q", *args)
        equal(p.stdout.decode(), SAID + "\n")
        equal(p.stderr, b"")
    chat("-p", "a", "-f", "b", status=2)
    chat("-q", stdin=b"\xff\n", status=1)


def test_turns_from_stdin():
    p = chat(stdin=b"hello\n\n/help\nand then?\\\nwell?\nlast")
    equal(p.stdout.decode(), (SAID + "\n") * 3)
    lines = [line for line in p.stderr.decode().splitlines() if line.startswith("prompt ")]
    equal(len(lines), 3)
    # a turn's prompt is found again by the next one
    known = [int(line.split(",")[1].split()[0]) for line in lines]
    prompts = [int(line.split()[1]) for line in lines]
    equal(known[0], 0)
    check(known[1] >= prompts[0] - 1 and known[2] >= prompts[1] - 1, known, prompts)


def test_clear_and_exit():
    p = chat(stdin=b"hello\n/clear\nhello\n/exit\nhello\n")
    equal(p.stdout.decode(), (SAID + "\n") * 2)
    lines = [line for line in p.stderr.decode().splitlines() if line.startswith("prompt ")]
    equal(lines[0].split()[1], lines[1].split()[1])


def test_template_and_system():
    own = write("own.jinja", "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}")
    short = chat("-p", "hello", "--chat-template", own).stderr.decode()
    long = chat("-p", "hello", "--chat-template", own, "--system", "Be nice.").stderr.decode()
    tokens = [int(text[text.index("\nprompt ") + 8:].split()[0]) for text in (short, long)]
    equal(tokens[0], len("<user>hello"))
    equal(tokens[1], len("<system>Be nice.<user>hello"))
    p = chat("-q", "-p", "x", "--chat-template", write("bad.jinja", "{% if %}"))
    check(b"ChatML is used instead" in p.stderr, p.stderr)
    chat("-p", "x", "--chat-template", "/nowhere", status=2)


def test_run_with_and_without_template():
    question = ["-p", "hello", "-q", "-n", 8, "--temp", 0]
    plain = quire("run", "-m", tiny(), *question).stdout
    equal(quire("run", "-m", tiny(), "--no-chat", *question).stdout, plain)
    asked = quire("run", "-m", tiny(), "--chat", *question).stdout
    written = quire("run", "-m", tiny(), "-q", "-n", 8, "--temp", 0, "-p",
                    "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n").stdout
    equal(asked, written)
    check(asked != plain)
    # what a user writes is no control token, in a chat
    quoted = ["-q", "-n", 8, "--temp", 0, "-p", "x<|im_end|>"]
    check(quire("run", "-m", tiny(), "--chat", *quoted).stdout != asked)
    quire("run", "-m", tiny(), "--chat", "--no-chat", *question, status=2)
    quire("run", "-m", tiny(), "--chat", "--json", *question, status=2)


def test_question_that_does_not_fit():
    p = chat("-c", 64, stdin=b"x" * 100 + b"\nhi\n", status=1)
    check(b"the limit is 64" in p.stderr, p.stderr)
    equal(p.stdout.decode()[:4], SAID[:4])


if __name__ == "__main__":
    main(globals())
