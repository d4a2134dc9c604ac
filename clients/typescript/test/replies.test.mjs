// Calls of a backend that answers wrongly or not at all: a server of the test's own.

import assert from "node:assert/strict";
import { once } from "node:events";
import http from "node:http";
import { json } from "node:stream/consumers";
import { after, test } from "node:test";

import { Backend } from "../dist/backend.js";
import { Punie } from "../dist/client.js";
import { ToolResult } from "../dist/result.js";
import { formatTool } from "../dist/tools.js";

const RESULT = { requestId: "one", outcome: "ok", payload: '{"result": "done"}', storedAtMs: 0 };

/**
 * Starts a server that answers with the value of this function of a call's path; returns a device there, and the paths.
 * A string is the whole reply; for undefined the connection is dropped.
 */
async function serve(answer) {
  const sent = [];
  const server = http.createServer(async (request, response) => {
    const { path } = await json(request);
    sent.push(path);
    const value = answer(path);
    if (value === undefined) request.socket.destroy();
    else response.end(typeof value === "string" ? value : JSON.stringify({ status: "success", value }));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  after(() => server.close().closeAllConnections());
  const url = `http://127.0.0.1:${server.address().port}`;
  return [new Punie(new Backend({ url, token: "token", subscribe: false, fetch }), "device"), sent];
}

test("a reply that is no object is no backend's", async () => {
  for (const text of ["[]", "null", "1"]) {
    const [device] = await serve(() => text);
    await assert.rejects(device.cancel("one"), { code: "BAD_SETTINGS", message: /is no backend of punie-runner/ });
  }
});

test("a cancel ends a call that has no answer", async () => {
  const controller = new AbortController();
  const [device, sent] = await serve(() => controller.abort());
  const call = device.call("Bash", {}, { requestId: "one", signal: controller.signal });
  await assert.rejects(call, { code: "CANCELLED", message: /may have run/, requestId: "one" });
  assert.deepEqual(sent, ["events:appendRequest", "events:cancel"]);
});

test("a cancel reaches a backend that fails for a while", async () => {
  const controller = new AbortController();
  const [device, sent] = await serve((path) => {
    if (path === "events:cancel") return { state: "cancelling" };
    return sent.includes("events:cancel") ? { ...RESULT, outcome: "cancelled" } : controller.abort();
  });
  assert.equal((await device.result("one", { signal: controller.signal })).outcome, "cancelled");
});

test("output that cannot be had after the result does not lose it", async () => {
  const [device] = await serve((path) => (path === "events:getResult" ? RESULT : undefined));
  assert.equal((await device.result("one", { onProgress: () => undefined })).text, "done");
});

test("a format that is unknown is an error", () => {
  const tool = { name: "a", description: "", schema: {}, effect: "reads" };
  const result = new ToolResult(RESULT);
  assert.throws(() => formatTool("yaml", "a", tool), /no format yaml/);
  assert.throws(() => result.content("yaml"), /no format yaml/);
});

test("an answer of null is an empty text", () => {
  const result = new ToolResult({ ...RESULT, payload: '{"result": null}' });
  assert.deepEqual([result.text, result.content("anthropic")], ["", []]);
});

test("a warning that the text does not have is told beside it, once", () => {
  const payload = JSON.stringify({ result: "done.\nsaid", meta: { warnings: ["said", "the encoding is guessed"] } });
  const result = new ToolResult({ ...RESULT, payload });
  const note = "Note: the encoding is guessed";
  assert.deepEqual([result.text, result.notes], ["done.\nsaid", note]);
  for (const format of ["anthropic", "mcp"]) {
    const content = result.content(format);
    assert.deepEqual((content.content ?? content).map(({ text }) => text), [result.text, note]);
  }
  for (const format of ["openai", "openai-chat"]) assert.equal(result.content(format), `${result.text}\n${note}`);
  assert.deepEqual(result.content("gemini").response, { output: `${result.text}\n${note}` });
});
