#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The requests that lm-evaluation-harness' local-completions sends, read as it reads the answers,
and the same numbers from logits that were computed in process."""
import array
import math

from serving import Server
from tap import check, equal, main, path, quire, tiny, write

IDS = [[(7 * i * i + 13 * i + k) % 250 for i in range(n)] for k, n in enumerate((24, 31, 40))]
CONTEXTS = [20, 12, 39]
SERVER = Server()


def ask(**body):
    reply = SERVER.post("/v1/completions",
                        {"model": "tiny", "temperature": 0, "seed": 1234, **body})
    equal(reply.status, 200, reply.text)
    return sorted(reply.json["choices"], key=lambda choice: choice["index"])


def scores(choice, context, drop):
    """Sum over the continuation, and whether each of its tokens is the likeliest, as the harness
    computes them: floats are compared exactly. drop: tokens behind the prompt."""
    logprobs = choice["logprobs"]
    end = len(logprobs["token_logprobs"]) - drop
    chosen = logprobs["token_logprobs"][context:end]
    best = logprobs["top_logprobs"][context:end]
    return sum(chosen), all(c == max(b.values()) for c, b in zip(chosen, best)), len(chosen)


def in_process(ids, context):
    tokens, out = write("ids.txt", " ".join(map(str, ids))), path("logits.f32")
    quire("logits", "-m", tiny(), "-q", "--tokens", tokens, "-o", out)
    values = array.array("f")
    with open(out, "rb") as f:
        values.frombytes(f.read())
    vocab = len(values) // len(ids)
    total, greedy = 0.0, True
    for i in range(context, len(ids)):
        row = values[(i - 1) * vocab:i * vocab]
        top = max(row)
        total += row[ids[i]] - top - math.log(sum(math.exp(x - top) for x in row))
        greedy = greedy and row.index(top) == ids[i]
    return total, greedy


def check_scores(choices, drop):
    equal([c["index"] for c in choices], list(range(len(IDS))))
    for choice, ids, context in zip(choices, IDS, CONTEXTS):
        equal(choice["logprobs"]["token_logprobs"][0], None)
        equal(choice["logprobs"]["top_logprobs"][0], None)
        total, greedy, count = scores(choice, context, drop)
        right, right_greedy = in_process(ids, context)
        equal(count, len(ids) - context)
        check(abs(total - right) < 1e-4 * count, total, right)
        equal(greedy, right_greedy)


def test_loglikelihood_with_one_token():
    check_scores(ask(prompt=IDS, max_tokens=1, logprobs=1, echo=True), 1)


def test_loglikelihood_without_a_token():
    check_scores(ask(prompt=IDS, max_tokens=0, logprobs=1, echo=True), 0)


def test_what_is_likeliest_is_greedy():
    ids = IDS[0][:8]
    for _ in range(3):  # a continuation that the model itself would choose
        quire("logits", "-m", tiny(), "-q", "--tokens", write("ids.txt", " ".join(map(str, ids))),
              "-o", path("logits.f32"))
        values = array.array("f")
        with open(path("logits.f32"), "rb") as f:
            values.frombytes(f.read())
        row = values[-(len(values) // len(ids)):]
        ids = ids + [row.index(max(row))]
    choice, = ask(prompt=[ids], max_tokens=1, logprobs=1, echo=True)
    equal(scores(choice, 8, 1)[1], True)


def test_texts_equal_ids():
    text = "Some plain text, to be scored."
    ids = SERVER.post("/tokenize", {"content": text}).json["tokens"]
    a, = ask(prompt=[text], max_tokens=1, logprobs=1, echo=True)
    b, = ask(prompt=[ids], max_tokens=1, logprobs=1, echo=True)
    equal(a["logprobs"]["token_logprobs"], b["logprobs"]["token_logprobs"])
    check(a["text"].startswith(text), a["text"])


def test_generate_until():
    whole, = ask(prompt=[IDS[0]], max_tokens=12)
    again, = ask(prompt=[IDS[0]], max_tokens=12, stop=["\x01none", "\x02of", "\x03these"])
    equal(again["text"], whole["text"])
    stop = whole["text"][2:4]
    cut, = ask(prompt=[IDS[0]], max_tokens=12, stop=[stop])
    equal(cut["text"], whole["text"][:whole["text"].index(stop)])


def test_zz_stop():
    equal(SERVER.stop(), 0)


if __name__ == "__main__":
    main(globals())
