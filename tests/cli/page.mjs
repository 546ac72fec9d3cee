// SPDX-License-Identifier: MIT
// The script of the page at "/" without a browser: what it sends when somebody stops an answer,
// begins another chat and talks on. The page comes on stdin; prints the messages of each request.
import { readFileSync } from "node:fs";
import { runInNewContext } from "node:vm";

const [, script] = readFileSync(0, "utf8").match(/<script>(.*)<\/script>/s);
const parts = {};
const part = () => ({ append() {}, focus() {}, scrollIntoView() {}, replaceChildren() {} });
const sent = [];

// Never answers, until it is told to stop.
const stuck = signal => ({ read: () => new Promise((_, fail) =>
  signal.addEventListener("abort", () => fail(signal.reason))) });

const spoken = frames => ({ read: async () => frames.length > 0
  ? { value: new TextEncoder().encode(frames.shift()), done: false } : { done: true } });

async function fetch(path, options) {
  if (path === "v1/models") return { ok: true, json: async () => ({ data: [{ id: "m" }] }) };
  sent.push(JSON.parse(options.body).messages);
  const reader = sent.length === 1 ? stuck(options.signal)
    : spoken(['data: {"choices":[{"delta":{"content":"yes"}}]}\n\n', "data: [DONE]\n\n"]);
  return { ok: true, body: { getReader: () => reader } };
}

runInNewContext(script, { fetch, performance, AbortController, TextDecoder,
  document: { getElementById: id => parts[id] ??= part(), createElement: part },
  sessionStorage: { getItem: () => null } });

const settled = () => new Promise(done => setImmediate(() => setImmediate(done)));
async function say(text) {
  parts.text.value = text;
  parts.form.onsubmit({ preventDefault() {} });
  await settled();
}
await say("one");
parts.clear.onclick();
await settled();
await say("two");
await say("three");
console.log(JSON.stringify(sent));
