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
    equal(got.pop("timings")["predicted_n"], 12)
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


def test_echo_with_log_probabilities_as_harnesses_ask_for_them():
    """lm-evaluation-harness: ids, max_tokens 1, echo; greedy by equality of two floats."""
    ids = [[72, 323, 372, 376, 111], [300, 301, 302], [72, 323, 372, 376, 111, 300] * 20]
    for temperature, tokens in [(0, 1), (0, 0), (1, 3)]:
        body = {"prompt": ids, "max_tokens": tokens, "temperature": temperature, "logprobs": 1,
                "echo": True, "seed": 1234}
        r = complete(**body).json
        equal([c["index"] for c in r["choices"]], [0, 1, 2])
        for prompt, c in zip(ids, r["choices"]):
            lp = c["logprobs"]
            count = len(prompt) + tokens
            equal([len(lp[k]) for k in sorted(lp)], [count] * 4)
            equal((lp["token_logprobs"][0], lp["top_logprobs"][0]), (None, None))
            for chosen, top in zip(lp["token_logprobs"][1:], lp["top_logprobs"][1:]):
                check(1 <= len(top) <= 2 and chosen <= 0)
                check(chosen in top.values() and chosen <= max(top.values()))
            equal(lp["text_offset"][0], 0)
        if temperature == 0 and tokens == 1:
            last = r["choices"][0]["logprobs"]
            equal(last["token_logprobs"][-1], max(last["top_logprobs"][-1].values()))
        got = [e["choices"][0] for e in complete(**body, stream=True).events]
        for c in r["choices"]:
            mine = [g for g in got if g["index"] == c["index"]]
            equal("".join(g["text"] for g in mine), c["text"])
            for key, right in c["logprobs"].items():
                equal(sum((g["logprobs"][key] for g in mine if g["logprobs"]), []), right, key)


def test_null_is_absent_unknown_is_ignored_wrong_is_a_400():
    names = ["temperature", "top_p", "max_tokens", "stop", "seed", "n", "stream", "logit_bias",
             "response_format", "user", "stream_options", "logprobs", "echo", "best_of", "suffix"]
    right = complete(prompt="x").json["choices"]
    got = complete(prompt="x", **{n: None for n in names if n not in ("seed", "max_tokens")})
    equal(got.json["choices"], right)
    equal(complete(prompt="x", foo=1, store=True, metadata={}).json["choices"], right)
    for field, value in [("max_tokens", "4"), ("temperature", -1), ("n", 0), ("prompt", 3),
                         ("stop", 5), ("logit_bias", [1]), ("stream", "yes"), ("priority", "fast"),
                         ("logprobs", 99), ("stop_token_ids", [9999]), ("prompt", [99999]),
                         ("seed", 1.5), ("best_of", 4)]:
        for stream in [False, True]:
            body = {"prompt": "x", "stream": stream, field: value}
            r = server().post("/v1/completions", body)
            equal((r.status, r.error["param"], r.error["type"]),
                  (400, field, "invalid_request_error"), field)
            check(field in r.error["message"] and r.fields["content-type"] == "application/json")
    for raw, code in [(b"", "invalid_json"), (b"{", "invalid_json"), (b"[]", "invalid_type"),
                      (b"3", "invalid_type"), (b"[" * 100000, "invalid_json"),
                      (b"{}", "missing_field")]:
        r = server().post("/v1/completions", raw)
        equal((r.status, r.error["code"]), (400, code), raw[:20])


def test_seeds_are_drawn_and_reported():
    drawn = [complete(prompt="Hello", seed=s, max_tokens=20).json for s in [-1, -1, None]]
    equal(len({d["seed"] for d in drawn}), 3)
    check(len({d["choices"][0]["text"] for d in drawn}) > 1)
    for d in drawn:
        again = complete(prompt="Hello", seed=d["seed"], max_tokens=20).json
        equal(again["choices"], d["choices"])


def test_stop_texts_wait_for_min_tokens():
    body = {"prompt": "Hello", "max_tokens": 24, "temperature": 0.8, "ignore_eos": True}
    whole = complete(**body, logprobs=0).json["choices"][0]
    offsets = whole["logprobs"]["text_offset"] + [len(whole["text"])]
    later = 0
    for least in [0, 1, 5, 12, 24]:
        for char in sorted(set(whole["text"][:8])):
            at = next((i for i, c in enumerate(whole["text"])
                       if c == char and i >= offsets[least]), len(whole["text"]))
            later += at > whole["text"].index(char)
            for stream in [False, True]:
                r = complete(**body, stop=char, min_tokens=least, stream=stream)
                text = text_of(r.events) if stream else r.json["choices"][0]["text"]
                equal(text, whole["text"][:at], least, char)
    check(later > 5, later)


def test_tokenize_and_back():
    text = "Hello <|endoftext|> w\u00f6rld \U0001f642"
    for body in [{"content": text}, {"prompt": text}]:
        ids = server().post("/tokenize", body).json
        equal(ids["count"], len(ids["tokens"]))
        back = server().post("/detokenize", {"tokens": ids["tokens"]}).json
        equal((back["content"], back["prompt"]), (text, text))
    plain = server().post("/tokenize", {"content": text, "parse_special": False}).json
    check(plain["count"] > ids["count"])
    pieces = server().post("/tokenize", {"content": text, "with_pieces": True}).json["tokens"]
    equal([p["id"] for p in pieces], ids["tokens"])
    joined = b"".join(p.encode() if isinstance(p, str) else bytes(p)
                      for p in [p["piece"] for p in pieces])
    equal(joined.decode(), text)
    check(any(isinstance(p["piece"], list) for p in pieces))  # parts of a character are bytes
    texts = server().post("/tokenize", {"prompt": text, "return_token_strs": True}).json
    equal((texts["tokens"], len(texts["token_strs"])), (ids["tokens"], ids["count"]))
    check(texts["token_strs"][0] in text and "token_strs" not in ids)
    for body in [{}, {"content": 3}, {"content": "x", "add_special": 1}]:
        equal(server().post("/tokenize", body).status, 400)
    for body in [{}, {"tokens": "x"}, {"tokens": [99999]}, {"tokens": [-1]}, {"tokens": ["a"]}]:
        equal(server().post("/detokenize", body).status, 400)


def test_tokenize_a_conversation():
    turns = [{"role": "system", "content": "be <|im_end|> brief"},
             {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
             {"role": "assistant", "content": "Yo"}]
    tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    lengths = set()
    for more in [{}, {"tools": tools}, {"add_generation_prompt": False},
                 {"add_generation_prompt": False, "continue_final_message": True},
                 {"chat_template_kwargs": {"enable_thinking": False}}]:
        ids = server().post("/tokenize", {"messages": turns, **more})
        equal((ids.status, sorted(ids.json)), (200, ["count", "max_model_len", "tokens"]))
        shown = server().post("/apply-template", {"messages": turns, **more}).json
        equal((ids.json["tokens"], ids.json["count"]), (shown["tokens"], len(shown["tokens"])))
        lengths.add(ids.json["count"])
    check(len(lengths) >= 4, lengths)  # each of them asks for something else
    same = server().post("/tokenize", {"messages": turns, "add_special_tokens": True,
                                       "return_token_strs": True, "content": None}).json
    equal("".join(same["token_strs"]), server().post("/apply-template",
                                                     {"messages": turns}).json["prompt"])
    run = server().post("/v1/chat/completions", {"messages": turns, "max_tokens": 1}).json
    equal(run["usage"]["prompt_tokens"], same["count"])
    for more, field in [({"messages": 3}, "messages"), ({"messages": [{}]}, "messages[0].role"),
                        ({"prompt": "x"}, "prompt"), ({"content": "x"}, "content"),
                        ({"add_generation_prompt": 1}, "add_generation_prompt"),
                        ({"continue_final_message": "x"}, "continue_final_message"),
                        ({"tools": 3}, "tools"), ({"add_special_tokens": 1}, "add_special_tokens"),
                        ({"return_token_strs": 0}, "return_token_strs"),
                        ({"chat_template_kwargs": []}, "chat_template_kwargs"),
                        ({"chat_template": "x"}, "chat_template")]:
        r = server().post("/tokenize", {"messages": turns, **more})
        equal((r.status, field in r.error["message"]), (400, True), field, r.text)


def test_what_is_asked_without_a_body():
    models = server().get("/v1/models").json["data"]
    equal((models[0]["object"], models[0]["max_model_len"]), ("model", 256))
    equal(server().get("/v1/models/" + models[0]["id"]).json, models[0])
    props = server().get("/props").json
    equal((props["total_slots"], props["default_generation_settings"]["n_ctx"]), (16, 256))
    check("<|im_start|>" in props["chat_template"] and props["build_info"].startswith("quire "))
    check(props["model_path"] and props["eos_token"], props)
    slots = server().get("/slots?fail_on_no_slot=1").json
    equal([s["id"] for s in slots], list(range(16)))
    equal({(s["n_ctx"], s["is_processing"], s["id_task"]) for s in slots}, {(256, False, -1)})
    check(server().get("/tokenizer_info").json["eos_token"])
    page = server().get("/")
    check(b"<html" in page.body and page.fields["content-type"].startswith("text/html"))


def test_metrics_page():
    page = server().get("/metrics")
    equal(page.fields["content-type"], "text/plain; version=0.0.4; charset=utf-8")
    kinds = {}
    for row in page.text.splitlines():
        if row.startswith("# TYPE "):
            name, kind = row[7:].split()
            check(name not in kinds, name, "twice")
            kinds[name] = kind
        elif not row.startswith("#"):
            name = row.split("{")[0].split(" ")[0]
            for end in ["_bucket", "_sum", "_count"]:
                if name.endswith(end) and kinds.get(name[:-len(end)]) == "histogram":
                    name = name[:-len(end)]
            check(name in kinds, row)
            float(row.rsplit(" ", 1)[1])
    for name in ["num_requests_running", "num_requests_waiting", "kv_cache_usage_perc",
                 "prompt_tokens_total", "generation_tokens_total", "request_success_total",
                 "time_to_first_token_seconds", "inter_token_latency_seconds",
                 "e2e_request_latency_seconds", "cache_config_info"]:
        check("vllm:" + name in kinds, name)
    m = server().metrics()
    check(m["quire_request_seconds_count"] > 10)
    equal(m["quire_time_to_first_token_seconds_count"],
          m['quire_time_to_first_token_seconds_bucket{le="+Inf"}'])


def test_zz_stop():
    equal(server().stop(), 0)


if __name__ == "__main__":
    main(globals())
