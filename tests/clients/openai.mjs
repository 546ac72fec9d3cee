// SPDX-License-Identifier: MIT
// The official openai client for Node against a server; prints what has passed. Arguments: two base
// URLs, the key, and what is expected as JSON.
import assert from "node:assert/strict";
import OpenAI from "openai";

const [, , talkerUrl, callerUrl, apiKey, expected] = process.argv;
const { said, tools, arguments: wanted, tokens } = JSON.parse(expected);
const talker = new OpenAI({ baseURL: talkerUrl, apiKey, maxRetries: 0 });
const caller = new OpenAI({ baseURL: callerUrl, apiKey, maxRetries: 0 });
const messages = [{ role: "user", content: "What is new?" }];
const ask = { model: "m", messages };

const tests = {
  async chat() {
    const answer = await talker.chat.completions.create(ask);
    assert.equal(answer.choices[0].message.content, said);
    assert.equal(answer.choices[0].finish_reason, "stop");
    assert.equal(answer.usage.completion_tokens, tokens);
  },
  async stream() {
    const stream = await talker.chat.completions.create({
      ...ask, stream: true, stream_options: { include_usage: true } });
    let text = "", usage = null;
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta?.content ?? "";
      usage = chunk.usage ?? usage;
    }
    assert.equal(text, said);
    assert.equal(usage.completion_tokens, tokens);
  },
  async completions() {
    const answer = await talker.completions.create({ model: "m", prompt: "x", max_tokens: 200 });
    assert.equal(answer.choices[0].text, said);
    let text = "";
    for await (const chunk of await talker.completions.create({
      model: "m", prompt: "x", max_tokens: 200, stream: true }))
      text += chunk.choices[0]?.text ?? "";
    assert.equal(text, said);
  },
  async logprobs() {
    const answer = await talker.chat.completions.create({ ...ask, logprobs: true, top_logprobs: 1 });
    const list = answer.choices[0].logprobs.content;
    assert.equal(Buffer.from(list.flatMap((t) => t.bytes)).toString(), said);
    assert.ok(list.every((t) => t.top_logprobs[0].logprob === t.logprob));
  },
  async tools() {
    const answer = await caller.chat.completions.create({ ...ask, tools });
    assert.equal(answer.choices[0].finish_reason, "tool_calls");
    assert.deepEqual(JSON.parse(answer.choices[0].message.tool_calls[0].function.arguments), wanted);
    const final = await caller.chat.completions.stream({ ...ask, tools }).finalChatCompletion();
    assert.equal(final.choices[0].message.tool_calls[0].function.name, "weather");
    assert.deepEqual(JSON.parse(final.choices[0].message.tool_calls[0].function.arguments), wanted);
  },
  async errors() {
    await assert.rejects(talker.chat.completions.create({ ...ask, top_p: 7 }), (e) =>
      e instanceof OpenAI.BadRequestError && e.param === "top_p" && e.code === "invalid_value");
    const stranger = new OpenAI({ baseURL: talkerUrl, apiKey: "wrong", maxRetries: 0 });
    await assert.rejects(stranger.models.list(), OpenAI.AuthenticationError);
    await assert.rejects(talker.models.retrieve("nobody"), OpenAI.NotFoundError);
  },
  async cancel() {
    const stream = await talker.chat.completions.create({
      ...ask, stream: true, max_tokens: 3900, ignore_eos: true });
    let count = 0;
    for await (const _ of stream)
      if (++count === 3) break;
    assert.ok(stream.controller.signal.aborted);
  },
  async responses() {
    const answer = await talker.responses.create({ model: "m", input: "x" });
    assert.equal(answer.output_text, said);
    let text = "";
    for await (const event of await talker.responses.create({ model: "m", input: "x", stream: true }))
      if (event.type === "response.output_text.delta") text += event.delta;
    assert.equal(text, said);
  },
};

const passed = [];
for (const [name, test] of Object.entries(tests)) {
  await test();
  passed.push(name);
}
console.log(passed.join(" "));
