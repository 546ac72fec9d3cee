#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quire serve: embeddings, llama.cpp's own /completion, and what requests tell of themselves."""
import base64
import json
import math
import struct
import threading

from serving import Server, post, text_of, Reply
from tap import check, equal, main, path, quire

SERVER = []
MESSAGES = [{"role": "user", "content": "Hello"}]


def server():
    if not SERVER:
        SERVER.append(Server("-c", 1024, "--queue", 80))
    return SERVER[0]


def embed(given, **more):
    r = server().post("/v1/embeddings", {"input": given, **more})
    equal(r.status, 200, r.text[:300])
    equal([d["index"] for d in r.json["data"]], list(range(len(r.json["data"]))))
    return r.json


def vectors(given, **more):
    return [d["embedding"] for d in embed(given, **more)["data"]]


def native(**body):
    return server().post("/completion", {"prompt": "Hello", "n_predict": 8, "seed": 3, **body})


def native_events(**body):
    r = native(stream=True, **body)
    equal((r.status, r.fields["content-type"]), (200, "text/event-stream"))
    frames = r.body.decode().split("\n\n")
    check(frames.pop() == "" and all(f.startswith("data: ") for f in frames), frames)
    return [json.loads(f[6:]) for f in frames]


def test_embeddings_shape():
    r = embed("Hello")
    equal((r["object"], r["data"][0]["object"], r["model"]), ("list", "embedding", "tiny"))
    v = r["data"][0]["embedding"]
    check(abs(math.fsum(x * x for x in v) - 1) < 1e-5)
    ids = server().post("/tokenize", {"content": "Hello"}).json["tokens"]
    equal(r["usage"], {"prompt_tokens": len(ids), "total_tokens": len(ids)})
    other = vectors("Good bye")[0]
    check(v != other and len(v) == len(other))
    equal(vectors(ids), [v])
    equal(vectors(["Hello", "Good bye", "Hello"]), [v, other, v])
    equal(vectors([ids, ids[:2], ids])[::2], [v, v])
    last = vectors("Hello", pooling="last")[0]
    check(last != v)
    equal(vectors("Hello", pooling="mean"), [v])
    equal(vectors("Hello", encoding_format="float", dimensions=None, user="me", foo=1), [v])


def test_embeddings_in_base64():
    given = ["Hello", "a b", "c"]
    for pooling in ["mean", "last"]:
        right = vectors(given, pooling=pooling)
        for text, want in zip(vectors(given, pooling=pooling, encoding_format="base64"), right):
            raw = base64.b64decode(text, validate=True)
            equal(list(struct.unpack("<%df" % (len(raw) // 4), raw)), want)


def test_embeddings_errors_name_the_field():
    for more, param, word in [
            ({"dimensions": 64}, "dimensions", "dimensions"), ({"input": None}, "input", "missing"),
            ({"input": 5}, "input", "string"), ({"input": []}, "input", "empty"),
            ({"input": ["a", 5]}, "input", "string"), ({"input": [[1], "a", {}]}, "input", "list"),
            ({"input": [1.5]}, "input", "ids"), ({"input": [99999]}, "input", "vocabulary"),
            ({"input": [-1]}, "input", "vocabulary"), ({"input": [[]]}, "input", "empty"),
            ({"input": [[True]]}, "input", "ids"), ({"input": ["x"] * 2049}, "input", "2048"),
            ({"encoding_format": "hex"}, "encoding_format", "base64"),
            ({"encoding_format": 1}, "encoding_format", "string"),
            ({"pooling": "max"}, "pooling", "mean"), ({"pooling": 1}, "pooling", "string"),
            ({"priority": "now"}, "priority", "interactive"),
            ({"cache_salt": ""}, "cache_salt", "bytes"), ({"cache_salt": 1}, "cache_salt", "a str"),
            ({"input": "x" * 5000}, "input", "1024")]:
        r = server().post("/v1/embeddings", {"input": "x", **more})
        equal((r.status, r.error["param"]), (400, param), r.text)
        check(word in r.error["message"], r.text)
    r = server().post("/v1/embeddings", {"input": ["x", "y" * 5000]})
    equal(r.error["code"], "context_length_exceeded")


def test_embeddings_are_the_same_whatever_else_runs():
    texts = ["Text %d %s" % (i, "and more " * (i * 3)) for i in range(12)]
    alone = [vectors(t)[0] for t in texts]
    last = [vectors(t, pooling="last")[0] for t in texts]
    right = native(n_predict=60).json["content"]
    busy = [server().connect() for _ in range(6)]
    for i, c in enumerate(busy):
        c.sendall(post("/completion", {"prompt": "Hello", "n_predict": 300, "seed": i,
                                       "ignore_eos": True, "stream": True}))
    equal(vectors(texts), alone)
    equal(vectors(texts[::-1], pooling="last"), last[::-1])
    got = {}
    threads = [threading.Thread(target=lambda i=i: got.update({i: vectors(texts[i])[0]}))
               for i in range(12)]
    for t in threads:
        t.start()
    equal(native(n_predict=60).json["content"], right)
    for t in threads:
        t.join()
    equal([got[i] for i in range(12)], alone)
    for c in busy:
        c.close()
    m = server().wait_idle()
    equal(m["quire_kv_blocks_free"] + m["quire_kv_blocks_cached"], m["quire_kv_blocks_total"])


def test_embeddings_in_a_log_of_events():
    with Server("--log-events", path("events"), "--chunk", 16) as s:
        for pooling in ["mean", "last", "mean"]:
            equal(s.post("/v1/embeddings", {"input": ["a b " * 30, "c"] * 3,
                                            "pooling": pooling}).status, 200)
    check(b"18 requests, 0 cancels: the same plans" in quire("replay", path("events")).stdout)


def test_many_inputs_at_once():
    given = ["w%d" % (i % 50) for i in range(2048)]
    r = embed(given, encoding_format="base64")
    texts = [d["embedding"] for d in r["data"]]
    equal(texts[:50] * 40 + texts[:48], texts)
    equal(texts[7], vectors("w7", encoding_format="base64")[0])
    server().wait_idle()


def test_who_leaves_its_embeddings_is_cancelled():
    before = server().wait_idle()
    for _ in range(4):
        with server().connect() as c:
            c.sendall(post("/v1/embeddings", {"input": [[300] * 1000] * 60}))
    m = server().wait_idle()
    equal(m["quire_kv_blocks_free"] + m["quire_kv_blocks_cached"], m["quire_kv_blocks_total"])
    check(m["quire_prefill_tokens_total"] - before["quire_prefill_tokens_total"] < 4 * 60000)


def test_native_answer():
    openai = server().post("/v1/completions", {"prompt": "Hello", "max_tokens": 8, "seed": 3}).json
    ids = server().post("/tokenize", {"content": "Hello"}).json["tokens"]
    for url in ["/completion", "/completions"]:
        r = server().post(url, {"prompt": "Hello", "n_predict": 8, "seed": 3}).json
        equal(r["content"], openai["choices"][0]["text"])
        equal((r["stop"], r["stop_type"], r["stopping_word"], r["truncated"], r["tokens"]),
              (True, "limit", "", False, []))
        equal((r["tokens_predicted"], r["tokens_evaluated"]), (8, len(ids)))
        equal((r["prompt"], r["model"], r["index"]), ("Hello", "tiny", 0))
        equal((r["generation_settings"]["seed"], r["generation_settings"]["n_predict"]), (3, 8))
        equal(r["timings"]["predicted_n"], 8)
        check("completion_probabilities" not in r)
    for body in [{"id_slot": 2, "cache_prompt": False, "n_keep": -1}, {"seed": 3, "foo": []},
                 {"mirostat": 0, "dry_multiplier": 0.0, "xtc_probability": 0, "lora": [],
                  "top_n_sigma": -1, "grammar": "", "dynatemp_range": 0.0, "t_max_predict_ms": 0}]:
        equal(native(**body).json["content"], openai["choices"][0]["text"])


def test_native_tokens_and_probabilities():
    r = native(return_tokens=True, n_probs=3).json
    back = server().post("/detokenize", {"tokens": r["tokens"]}).json["content"]
    equal((len(r["tokens"]), back), (8, r["content"]))
    probabilities = r["completion_probabilities"]
    equal([p["id"] for p in probabilities], r["tokens"])
    check(all(len(p["top_logprobs"]) == 3 and p["logprob"] <= 0 for p in probabilities))
    openai = server().post("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 2,
                                                    "logprobs": True, "top_logprobs": 3}).json
    entry = openai["choices"][0]["logprobs"]["content"][0]
    equal(sorted(entry) + ["id"], [k for k in sorted(probabilities[0]) if k != "id"] + ["id"])
    events = native_events(return_tokens=True, n_probs=3)
    equal(sum((e["tokens"] for e in events), []), r["tokens"])
    equal(sum((e.get("completion_probabilities", []) for e in events), []), probabilities)
    equal(len(events), 9)
    events = native_events()  # a stream has the ids, asked for or not
    equal(sum((e["tokens"] for e in events), []), r["tokens"])


def test_native_stream():
    for more in [{}, {"n_predict": 20}, {"stop": ["e"], "n_predict": 100}, {"n": 3},
                 {"prompt": ["a b", "c d"]}]:
        whole = native(**more).json
        whole = whole if isinstance(whole, list) else [whole]
        events = native_events(**more)
        for w in whole:
            mine = [e for e in events if e["index"] == w["index"]]
            equal("".join(e["content"] for e in mine), w["content"])
            equal([e["stop"] for e in mine], [False] * (len(mine) - 1) + [True])
            for key in ["stop_type", "stopping_word", "tokens_predicted", "prompt", "seed",
                        "truncated", "has_new_line", "tokens_evaluated"]:
                equal(mine[-1][key], w[key], key)
            check("timings" in mine[-1] and "generation_settings" in mine[-1])


def test_native_stops():
    r = native(stop=["e"], n_predict=200).json
    equal((r["stop_type"], r["stopping_word"]), ("word", "e"))
    check("e" not in r["content"])
    # as far as the context goes, when it does not say how far
    r = server().post("/completion", {"prompt": "Hello", "ignore_eos": True}).json
    equal((r["tokens_evaluated"] + r["tokens_predicted"], r["stop_type"]), (1024, "limit"))


def test_native_errors_name_the_field():
    for field, value in [("n_predict", "4"), ("n_predict", -2), ("n_probs", 21), ("n_probs", True),
                         ("return_tokens", 1), ("temperature", "hot"), ("top_k", 0.5),
                         ("repeat_penalty", 0), ("repeat_last_n", -2), ("min_p", 1), ("stop", 3),
                         ("prompt", None), ("prompt", {}), ("prompt", []), ("prompt", [300, "a"]),
                         ("samplers", "top_k"), ("samplers", ["min_p", "top_p"]),
                         ("samplers", ["magic"]), ("samplers", [3]), ("mirostat", 2),
                         ("grammar", "root ::= x"), ("post_sampling_probs", True),
                         ("response_fields", ["content"]), ("lora", [{"id": 0, "scale": 1}]),
                         ("return_progress", "yes"), ("stream", 1), ("seed", "x"),
                         ("logit_bias", [["hello", 1]]), ("ignore_eos", None if False else 1)]:
        for stream in [False, True]:
            r = native(**{"stream": stream, field: value})
            equal((r.status, r.error["param"]), (400, field), field, r.text)
            equal(r.fields["content-type"], "application/json")


def test_native_samplers_are_those_of_its_list():
    plain = native(temperature=1.0).json["content"]
    off = {"top_k": 1, "min_p": 0.9, "repeat_penalty": 2.0}
    check(native(**off).json["content"] != plain)
    equal(native(**off, samplers=["temperature"]).json["content"], plain)
    equal(native(top_k=1, samplers=["dry", "top_k", "typ_p", "top_p", "min_p", "xtc",
                                    "temperature"]).json["content"],
          native(top_k=1).json["content"])


def test_seed_and_timings_in_bodies_and_streams():
    asks = [("/v1/completions", {"prompt": "Hello"}), ("/v1/chat/completions",
                                                      {"messages": MESSAGES}),
            ("/completion", {"prompt": "Hello"})]
    for url, body in asks:
        for seed in [-1, 7]:
            body = {**body, "max_tokens": 20, "seed": seed, "ignore_eos": True}
            whole = server().post(url, body).json
            equal(whole["timings"]["predicted_n"], 20)
            check(whole["seed"] == 7 if seed == 7 else whole["seed"] >= 0)
            again = server().post(url, {**body, "seed": whole["seed"]}).json
            for key in ["choices", "content"]:
                equal(again.get(key), whole.get(key))
            for options in [None, {"include_usage": True}]:
                r = server().post(url, {**body, "stream": True, "stream_options": options})
                events = r.events if url != "/completion" else [
                    json.loads(f[6:]) for f in r.body.decode().split("\n\n")[:-1]]
                equal([i for i, e in enumerate(events) if "timings" in e], [len(events) - 1])
                equal([i for i, e in enumerate(events) if "seed" in e], [len(events) - 1])
                equal(events[-1]["timings"]["predicted_n"], 20)
    none = server().post("/v1/completions", {"prompt": "Hello", "max_tokens": 0}).json["timings"]
    equal((none["predicted_n"], none["predicted_ms"]), (0, 0.0))  # all of it was the prompt


def test_prompt_progress():
    ids = [300 + i % 150 for i in range(900)]
    with Server("-c", 1024, "--chunk", 100) as s:
        for url, body in [("/v1/completions", {"prompt": ids}), ("/completion", {"prompt": ids}),
                           ("/v1/chat/completions",
                            {"messages": [{"role": "user", "content": "Hello " * 150}]})]:
            body = {**body, "max_tokens": 3, "seed": 1, "stream": True}
            plain = s.post(url, body).body
            frames = s.post(url, {**body, "return_progress": True, "cache_salt": url}).body
            events = [json.loads(f[6:]) for f in frames.decode().split("\n\n")
                      if f.startswith("data: {")]
            told = [e["prompt_progress"] for e in events if "prompt_progress" in e]
            check(len(told) >= 3, told)
            done = [p["processed"] for p in told]
            check(done == sorted(set(done)) and done[-1] == told[0]["total"], done)
            check(all(p["cache"] == 0 and p["time_ms"] >= 0 for p in told))
            first = next(i for i, e in enumerate(events) if e.get("choices") or e.get("content"))
            check(all("prompt_progress" not in e for e in events[first:]))
            check(b"prompt_progress" not in plain)


def test_several_prompts_are_admitted_all_or_none():
    with Server("--max-rows", 2, "--queue", 2, "-c", 1024) as s:
        with s.connect() as c:
            c.sendall(post("/completion", {"prompt": "x", "n_predict": 900, "stream": True,
                                           "ignore_eos": True}))
            Reply(c.makefile("rb"), body=False)
            before = s.metrics()["quire_requests_submitted_total"]
            for body in [{"prompt": ["a"] * 4}, {"prompt": "a", "n": 4},
                         {"prompt": ["a", "b"], "n": 2}]:
                r = s.post("/v1/completions", body)
                equal((r.status, r.error["code"]), (429, "queue_full"))
            equal(s.metrics()["quire_requests_submitted_total"], before)
            r = s.post("/v1/completions", {"prompt": ["a", "b", "c"], "max_tokens": 2})
            equal([x["index"] for x in r.json["choices"]], [0, 1, 2])
            # one that cannot be fitted refuses them all
            r = s.post("/v1/completions", {"prompt": ["a", "b" * 3000]})
            equal(r.error["code"], "context_length_exceeded")
        s.wait_idle()


def test_choices_of_one_prompt_compute_it_once():
    ids = [300 + i % 160 for i in range(640)]
    before = server().metrics()["quire_prefill_tokens_total"]
    r = server().post("/v1/completions", {"prompt": ids, "n": 8, "max_tokens": 4,
                                          "cache_salt": "once"})
    equal(len(r.json["choices"]), 8)
    used = server().metrics()["quire_prefill_tokens_total"] - before
    check(used < 640 + 8 * 32, used)
    # with scores of the prompt, too; every choice shows them, streamed and not
    body = {"prompt": ids[:80], "n": 3, "max_tokens": 3, "logprobs": 2, "echo": True, "seed": 4}
    whole = server().post("/v1/completions", body).json["choices"]
    parts = server().post("/v1/completions", {**body, "stream": True}).events
    for c in whole:
        equal(c["logprobs"]["token_logprobs"][:80], whole[0]["logprobs"]["token_logprobs"][:80])
        mine = [x for e in parts for x in e["choices"] if x["index"] == c["index"]]
        equal(sum((x["logprobs"]["token_logprobs"] for x in mine if x["logprobs"]), []),
              c["logprobs"]["token_logprobs"])
        equal(text_of(parts, c["index"]), c["text"])


def test_prefixes_are_shared_within_a_salt():
    def cached(salt, key=None):
        body = {"prompt": [310 + i % 120 for i in range(100)], "max_tokens": 2, "cache_salt": salt}
        r = s.post("/v1/completions", body, Authorization=key and "Bearer " + key)
        equal(r.status, 200, r.text)
        texts.add(json.dumps(r.json["choices"]))
        return r.json["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
    texts = set()
    with Server("--temp", 0) as s:
        equal([cached(x) for x in ["a", "a", "b", None, "a", "b", None]],
              [False, True, False, False, True, True, True])
    with Server("--temp", 0, "--api-key", "k1", "--api-key", "k2") as s:
        equal([cached(x, k) for x, k in [("a", "k1"), ("a", "k2"), ("a", "k1"), ("a", "k2"),
                                         (None, "k1"), (None, "k2")]],
              [False, False, True, True, False, True])
    equal(len(texts), 1)


def test_input_tokens():
    r = server().post("/v1/chat/completions/input_tokens", {"messages": MESSAGES}).json
    full = server().post("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 1}).json
    equal((r["object"], r["input_tokens"]),
          ("response.input_tokens", full["usage"]["prompt_tokens"]))
    for body in [{}, {"messages": 3}, {"messages": []}, {"messages": [3]}]:
        r = server().post("/v1/chat/completions/input_tokens", body)
        equal((r.status, r.error["param"]), (400, "messages"), body)


def test_zz_stop():
    equal(server().stop(), 0)


if __name__ == "__main__":
    main(globals())
