#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quire serve: what requests get, streamed and not."""
import json

from serving import Server, text_of
from tap import check, equal, main, quire, tiny

SERVER = []


def server():
    if not SERVER:
        SERVER.append(Server())
    return SERVER[0]


def complete(**body):
    return server().post("/v1/completions", {"max_tokens": 8, "seed": 3, **body})


def test_a_completion_equals_batch_and_run():
    body = {"prompt": "Hello", "max_tokens": 12, "temperature": 0.8, "seed": 5, "logprobs": 2}
    row = json.dumps({"custom_id": "a", "url": "/v1/completions", "body": body})
    p = quire("batch", "-m", tiny(), "-i", "-", "-o", "-", "-q", "-c", 256, stdin=row.encode())
    right = json.loads(p.stdout)["response"]["body"]
    got = complete(**body).json
    equal(got["choices"], right["choices"])
    equal(got["usage"]["completion_tokens"], right["usage"]["completion_tokens"])
    equal(sorted(got), sorted(right))
    p = quire("run", "-m", tiny(), "-p", "Hello", "-n", 12, "--temp", 0.8, "-s", 5, "--json", "-q",
              "-c", 256)
    equal(got["choices"][0]["text"], json.loads(p.stdout)["text"])


def test_stream_is_the_same_text_in_pieces():
    for more in [{}, {"n": 3}, {"prompt": ["a b", "c d"]}, {"stop": ["e"]}]:
        body = {"prompt": "Hello", "max_tokens": 20, **more}
        whole = complete(**body).json
        r = complete(**body, stream=True)
        equal(r.fields["content-type"], "text/event-stream")
        equal(r.fields["x-accel-buffering"], "no")
        equal(len({(e["id"], e["created"], e["model"], e["object"]) for e in r.events}), 1)
        for c in whole["choices"]:
            equal(text_of(r.events, c["index"]), c["text"])
            ends = [d["finish_reason"] for e in r.events for d in e["choices"]
                    if d["index"] == c["index"] and d["finish_reason"]]
            equal(ends, [c["finish_reason"]])
        check(not any("usage" in e for e in r.events))


def test_usage_chunk_when_asked():
    r = complete(prompt="Hello", stream=True, stream_options={"include_usage": True})
    equal([e["choices"] for e in r.events].count([]), 1)
    last = r.events[-1]
    equal(last["choices"], [])
    equal(last["usage"], complete(prompt="Hello").json["usage"])
    check("prompt_tokens_details" in last["usage"])


def test_zz_stop():
    equal(server().stop(), 0)


if __name__ == "__main__":
    main(globals())
