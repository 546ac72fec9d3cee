#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The official clients, unchanged, against a server: openai and anthropic for Python, openai for
Node, LangChain. Two made-up models know one text each, so every answer is known: a text with
characters over token borders, and a tool call. Run by tests/clients/run, which installs them."""
import asyncio
import json
import os
import shutil
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
INTO = os.path.join(ROOT, "build/clients")
sys.path[:0] = [os.path.join(ROOT, "tests/cli"), os.path.join(INTO, "python")]

import anthropic  # noqa: E402
import httpx  # noqa: E402
import langchain_openai  # noqa: E402
import openai  # noqa: E402

from serving import Server  # noqa: E402
from tap import Skip, check, equal, main, model  # noqa: E402

SAID = "Good morning, \U0001f642 \u98a8 to you all.\nIt is one o'clock, and all is well."
TOKENS = (len(SAID.encode()) + 2) // 3 + 1  # three bytes each, and the end
CALL = 'One moment.\n<tool_call>\n{"name": "weather", "arguments": {"city": "Ulm", "days": 2}}\n' \
       "</tool_call>"
ARGUMENTS = {"city": "Ulm", "days": 2}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "Tells the weather.",
                                           "parameters": SCHEMA}}]
HI = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is new?"}]
KEY = "secret"
FLAGS = ["-c", 4096, "--api-key", KEY]
TALKER = Server(*FLAGS, model=model("talker", "--script", SAID))
CALLER = Server(*FLAGS, model=model("caller", "--script", CALL))


def url(server):
    return "http://127.0.0.1:%d" % server.address[1]


def openai_client(server=TALKER, key=KEY):
    return openai.OpenAI(base_url=url(server) + "/v1", api_key=key, max_retries=0)


def anthropic_client(server=TALKER, key=KEY):
    return anthropic.Anthropic(base_url=url(server), api_key=key, max_retries=0)


def metric(server, name):
    page = httpx.get(url(server) + "/metrics", headers={"Authorization": "Bearer " + KEY}).text
    rows = dict(line.rsplit(" ", 1) for line in page.splitlines() if line[:1] != "#")
    return float(rows[name])


def wait_until_idle(server):
    """Until nothing runs; a test that waits for ever is ended from outside."""
    while metric(server, "quire_requests_running") + metric(server, "quire_requests_waiting") > 0:
        time.sleep(0.02)


def raises(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError("no %s" % kind.__name__)


def test_openai_models():
    models = openai_client().models.list().data
    equal([m.id for m in models], ["talker"])
    equal(openai_client().models.retrieve("talker").object, "model")


def test_openai_chat():
    answer = openai_client().chat.completions.create(model="talker", messages=HI)
    equal(answer.choices[0].message.content, SAID)
    equal(answer.choices[0].message.role, "assistant")
    equal(answer.choices[0].finish_reason, "stop")
    equal(answer.choices[0].message.tool_calls, None)
    equal(answer.usage.completion_tokens, TOKENS)
    equal(answer.usage.total_tokens, answer.usage.prompt_tokens + TOKENS)
    check(answer.id.startswith("chatcmpl-"), answer.id)
    again = openai_client().chat.completions.create(model="talker", messages=HI, n=3, max_tokens=4)
    equal([c.message.content for c in again.choices], [SAID[:12]] * 3)
    equal({c.finish_reason for c in again.choices}, {"length"})
    check(again.usage.prompt_tokens_details.cached_tokens > 0)


def test_openai_chat_stream():
    chunks = list(openai_client().chat.completions.create(
        model="talker", messages=HI, stream=True, stream_options={"include_usage": True}))
    equal("".join(c.choices[0].delta.content or "" for c in chunks if c.choices), SAID)
    equal(chunks[0].choices[0].delta.role, "assistant")
    equal([c.choices[0].finish_reason for c in chunks if c.choices][-1], "stop")
    equal(chunks[-1].choices, [])
    equal(chunks[-1].usage.completion_tokens, TOKENS)
    equal(len({(c.id, c.created, c.model) for c in chunks}), 1)
    # a chunk for each token that completes a character
    texts = sum(bool(c.choices and c.choices[0].delta.content) for c in chunks)
    check(TOKENS - 6 <= texts < TOKENS)


def test_openai_chat_logprobs():
    ask = dict(model="talker", messages=HI, logprobs=True, top_logprobs=2)
    whole = openai_client().chat.completions.create(**ask).choices[0].logprobs.content
    equal(b"".join(bytes(t.bytes) for t in whole).decode(), SAID)
    check(all(len(t.top_logprobs) == 2 and t.top_logprobs[0].logprob == t.logprob for t in whole))
    parts = [t for c in openai_client().chat.completions.create(stream=True, **ask)
             if c.choices and c.choices[0].logprobs for t in c.choices[0].logprobs.content]
    equal([t.logprob for t in parts], [t.logprob for t in whole])


def test_openai_completions():
    client = openai_client()
    answer = client.completions.create(model="talker", prompt="x", max_tokens=200)
    equal(answer.choices[0].text, SAID)
    equal(answer.choices[0].finish_reason, "stop")
    chunks = list(client.completions.create(model="talker", prompt="x", max_tokens=200,
                                            stream=True))
    equal("".join(c.choices[0].text for c in chunks if c.choices), SAID)
    several = client.completions.create(model="talker", prompt=["a", "b"], n=2, max_tokens=2)
    equal([(c.index, c.text) for c in several.choices], [(i, SAID[:6]) for i in range(4)])
    stopped = client.completions.create(model="talker", prompt="x", max_tokens=200, stop="one o'")
    equal(stopped.choices[0].text, SAID[:SAID.index("one o'")])


def test_openai_embeddings():
    client = openai_client()  # asks for base64, and gives floats
    answer = client.embeddings.create(model="talker", input=["one", "two", "one"])
    one, two, again = [e.embedding for e in answer.data]
    check(one == again and len(one) == len(two) and abs(sum(x * x for x in one) - 1) < 1e-4)
    plain = client.embeddings.create(model="talker", input="one", encoding_format="float")
    check(max(abs(a - b) for a, b in zip(plain.data[0].embedding, one)) < 1e-7)
    equal(plain.usage.total_tokens, plain.usage.prompt_tokens)
    error = raises(openai.BadRequestError, lambda: client.embeddings.create(
        model="talker", input="one", dimensions=8))
    equal(error.param, "dimensions")
    texts = langchain_openai.OpenAIEmbeddings(model="talker", base_url=url(TALKER) + "/v1",
                                              api_key=KEY, check_embedding_ctx_length=False)
    check(max(abs(a - b) for a, b in zip(texts.embed_query("one"), one)) < 1e-6)


def test_openai_tools():
    ask = dict(model="caller", messages=HI, tools=TOOLS)
    answer = openai_client(CALLER).chat.completions.create(**ask).choices[0]
    equal(answer.finish_reason, "tool_calls")
    equal(answer.message.content, "One moment.")
    call, = answer.message.tool_calls
    equal(call.function.name, "weather")
    equal(json.loads(call.function.arguments), ARGUMENTS)
    # the client's own accumulator, strict about ids and indexes
    with openai_client(CALLER).chat.completions.stream(**ask) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_completion().choices[0]
    check("tool_calls.function.arguments.delta" in kinds, set(kinds))
    equal(final.finish_reason, "tool_calls")
    equal(final.message.content, "One moment.")
    equal(json.loads(final.message.tool_calls[0].function.arguments), ARGUMENTS)
    more = HI + [answer.message, {"role": "tool", "tool_call_id": call.id, "content": "Rain."}]
    following = openai_client().chat.completions.create(model="talker", messages=more, tools=TOOLS)
    equal(following.choices[0].message.content, SAID)
    plain = openai_client(CALLER).chat.completions.create(tool_choice="none", **ask).choices[0]
    equal(plain.message.content, CALL)


def test_openai_errors():
    client = openai_client()

    def chat(**more):
        return client.chat.completions.create(**{"model": "talker", "messages": HI, **more})
    error = raises(openai.BadRequestError, lambda: chat(temperature=-1))
    equal((error.status_code, error.param, error.code), (400, "temperature", "invalid_value"))
    check(error.request_id)
    long = [{"role": "user", "content": "x" * 5000}]
    for stream in (False, True):
        error = raises(openai.BadRequestError, lambda: chat(messages=long, stream=stream))
        equal((error.code, error.type), ("context_length_exceeded", "invalid_request_error"))
        check("4096" in str(error), error)
    error = raises(openai.BadRequestError, lambda: chat(response_format={"type": "json_object"}))
    equal(error.param, "response_format")
    raises(openai.AuthenticationError, lambda: openai_client(key="wrong").models.list())
    raises(openai.NotFoundError, lambda: client.models.retrieve("nobody"))


def test_openai_cancel():
    for server, stream in ((TALKER, True), (CALLER, True), (TALKER, False)):
        before = metric(server, "quire_requests_cancelled_total")
        ask = dict(model="m", messages=HI, stream=stream, max_tokens=3900,
                   extra_body={"ignore_eos": True})
        if stream:
            answer = openai_client(server).chat.completions.create(**ask)
            for _ in range(3):
                next(answer)
            answer.close()
        else:
            client = openai.OpenAI(base_url=url(server) + "/v1", api_key=KEY, max_retries=0,
                                   timeout=0.05)
            raises(openai.APITimeoutError, lambda: client.chat.completions.create(**ask))
        wait_until_idle(server)
        equal(metric(server, "quire_requests_cancelled_total"), before + 1)


def test_openai_many_at_once():
    async def ask_all():
        client = openai.AsyncOpenAI(base_url=url(TALKER) + "/v1", api_key=KEY)
        answers = await asyncio.gather(*(client.chat.completions.create(
            model="talker", messages=[{"role": "user", "content": "q%d" % i}]) for i in range(12)))
        return {a.choices[0].message.content for a in answers}
    equal(asyncio.run(ask_all()), {SAID})


def test_openai_responses():
    client = openai_client()
    answer = client.responses.create(model="talker", input="What is new?", instructions="Be brief.")
    equal(answer.output_text, SAID)
    equal((answer.status, answer.usage.output_tokens), ("completed", TOKENS))
    with client.responses.stream(model="talker", input="What is new?") as stream:
        said = "".join(e.delta for e in stream if e.type == "response.output_text.delta")
        final = stream.get_final_response()
    equal(said, SAID)
    equal(final.output_text, SAID)
    tool = {"type": "function", "name": "weather", "parameters": SCHEMA, "strict": False}
    items = openai_client(CALLER).responses.create(model="caller", input="?", tools=[tool]).output
    equal([i.type for i in items], ["message", "function_call"])
    equal(json.loads(items[1].arguments), ARGUMENTS)
    more = [{"role": "user", "content": "?"}, *items,
            {"type": "function_call_output", "call_id": items[1].call_id, "output": "Rain."}]
    equal(client.responses.create(model="talker", input=more, tools=[tool]).output_text, SAID)
    error = raises(openai.BadRequestError, lambda: client.responses.create(
        model="talker", input="x", previous_response_id="resp_1"))
    equal(error.param, "previous_response_id")


def test_anthropic_messages():
    client = anthropic_client()
    ask = dict(model="talker", max_tokens=200, system="Be brief.",
               messages=[{"role": "user", "content": "What is new?"}])
    answer = client.messages.create(**ask)
    equal([b.text for b in answer.content], [SAID])
    equal((answer.stop_reason, answer.usage.output_tokens), ("end_turn", TOKENS))
    with client.messages.stream(**ask) as stream:
        said = "".join(stream.text_stream)
        final = stream.get_final_message()
    equal(said, SAID)
    equal(final.content[0].text, SAID)
    equal((final.stop_reason, final.usage.output_tokens), ("end_turn", TOKENS))
    stopped = client.messages.create(stop_sequences=["you"], **ask)
    equal((stopped.stop_reason, stopped.stop_sequence), ("stop_sequence", "you"))
    equal(stopped.content[0].text, SAID[:SAID.index("you")])
    count = client.messages.count_tokens(model="talker", system="Be brief.",
                                         messages=ask["messages"]).input_tokens
    used = answer.usage
    equal(count, used.input_tokens + used.cache_read_input_tokens)


def test_anthropic_tools():
    tool = {"name": "weather", "description": "Tells the weather.", "input_schema": SCHEMA}
    ask = dict(model="caller", max_tokens=200, tools=[tool],
               messages=[{"role": "user", "content": "What is new?"}])
    answer = anthropic_client(CALLER).messages.create(**ask)
    equal([b.type for b in answer.content], ["text", "tool_use"])
    equal((answer.content[1].name, answer.content[1].input), ("weather", ARGUMENTS))
    equal(answer.stop_reason, "tool_use")
    with anthropic_client(CALLER).messages.stream(**ask) as stream:
        final = stream.get_final_message()
    equal(final.content[1].input, ARGUMENTS)
    equal(final.stop_reason, "tool_use")
    more = ask["messages"] + [
        {"role": "assistant", "content": answer.content},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": answer.content[1].id,
                                      "content": "Rain."}]}]
    following = anthropic_client().messages.create(**{**ask, "messages": more})
    equal(following.content[0].text, SAID)


def test_anthropic_errors():
    client = anthropic_client()
    ask = dict(model="talker", max_tokens=9)
    error = raises(anthropic.BadRequestError, lambda: client.messages.create(
        messages=[{"role": "user", "content": "x" * 5000}], **ask))
    equal(error.body["error"]["type"], "invalid_request_error")
    check("4096" in error.body["error"]["message"])
    raises(anthropic.AuthenticationError, lambda: anthropic_client(key="wrong").messages.create(
        messages=[{"role": "user", "content": "x"}], **ask))


def test_langchain_chat():
    llm = langchain_openai.ChatOpenAI(base_url=url(TALKER) + "/v1", api_key=KEY, model="talker")
    question = [("system", "Be brief."), ("human", "What is new?")]
    answer = llm.invoke(question)
    equal(answer.content, SAID)
    equal(answer.usage_metadata["output_tokens"], TOKENS)
    equal("".join(c.content for c in llm.stream(question)), SAID)
    equal([a.content for a in llm.batch([question] * 4)], [SAID] * 4)
    caller = langchain_openai.ChatOpenAI(base_url=url(CALLER) + "/v1", api_key=KEY, model="caller")
    answer = caller.bind_tools(TOOLS).invoke(question)
    equal([(c["name"], c["args"]) for c in answer.tool_calls], [("weather", ARGUMENTS)])
    total = None
    for chunk in caller.bind_tools(TOOLS).stream(question):
        total = chunk if total is None else total + chunk
    equal([(c["name"], c["args"]) for c in total.tool_calls], [("weather", ARGUMENTS)])


def test_langchain_completions():
    llm = langchain_openai.OpenAI(base_url=url(TALKER) + "/v1", api_key=KEY, model="talker")
    equal(llm.invoke("x"), SAID)
    equal("".join(llm.stream("x")), SAID)
    equal(llm.batch(["a", "b"]), [SAID] * 2)


def test_openai_node():
    if shutil.which("node") is None or not os.path.exists(INTO + "/node/node_modules/openai"):
        raise Skip("no node and npm")
    script = os.path.join(INTO, "node/openai.mjs")  # beside its packages
    shutil.copy(os.path.join(ROOT, "tests/clients/openai.mjs"), script)
    expected = {"said": SAID, "tools": TOOLS, "arguments": ARGUMENTS, "tokens": TOKENS}
    p = subprocess.run(["node", script, url(TALKER) + "/v1", url(CALLER) + "/v1", KEY,
                        json.dumps(expected)], capture_output=True, text=True, timeout=100)
    equal((p.returncode, p.stdout), (0, "chat stream completions logprobs tools errors cancel "
                                        "responses\n"), p.stderr[-3000:])
    wait_until_idle(TALKER)


if __name__ == "__main__":
    try:
        main(globals())
    finally:
        for server in (TALKER, CALLER):
            server.process.terminate()
            server.process.wait()
