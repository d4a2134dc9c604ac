// Calls of real devices: over HTTP on both backends, and by subscriptions on the embedded one.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import http from "node:http";
import { after, describe, test } from "node:test";

import { connect, PunieError } from "../dist/index.js";
import { ToolNames } from "../dist/tools.js";

const { backends, empty, cuts } = JSON.parse(process.env.STAGE);
const { embedded, hosted } = backends;

const code = (expected, words) => (error) => {
  assert.ok(error instanceof PunieError, String(error));
  assert.equal(error.code, expected);
  assert.match(error.message, words);
  return true;
};

const places = [
  ["the embedded backend, by subscriptions", embedded, true],
  ["the embedded backend, by polls", embedded, false],
  ["the functions of convex/, by polls", hosted, false],
];
for (const [name, backend, subscribe] of places) {
  describe(name, { concurrency: true }, async () => {
    const { url, token, away, workspace, cutUrl } = backend;
    const settings = { url, token, subscribe };
    const punie = await connect(settings);
    after(() => punie.close());
    const bash = (command, options) => punie.call("Bash", { command }, options);
    /** Makes a call that is asked about, once this side listens; returns the question and the call. */
    const ask = async (title, call) => {
      let called;
      for await (const questions of punie.watchQuestions(new AbortController().signal)) {
        called ??= call();
        const found = questions.find((question) => question.title.includes(title));
        if (found !== undefined) return [found, called];
      }
    };

    test("the tools come in every format", async () => {
      const only = ["Read", "Bash"];
      const find = async (format) => (await punie.tools(format, { only })).find((tool) => JSON.stringify(tool).includes('"Bash"'));
      assert.equal((await find("anthropic")).input_schema.type, "object");
      const { type, name, parameters } = await find("openai");
      assert.deepEqual([type, name, parameters.type], ["function", "Bash", "object"]);
      assert.equal((await find("openai-chat")).function.parameters.type, "object");
      assert.equal((await find("gemini")).parametersJsonSchema.type, "object");
      assert.deepEqual((await find("mcp")).annotations, { readOnlyHint: false });
      assert.equal((await punie.tools("mcp", { only })).length, 2);
      const [few, all] = [await punie.catalog(), await punie.catalog({ compat: true })];
      assert.ok(few.length > 20 && all.length > few.length);
      assert.ok(few.every((tool) => !tool.compat));
    });

    test("a result has its text and its facts", async () => {
      const result = await bash("echo one; exit 3");
      assert.deepEqual([result.outcome, result.isError, result.meta.exitCode], ["ok", false, 3]);
      assert.match(result.text, /one/);
      assert.equal(result.content("openai"), result.text);
      assert.deepEqual(result.content("gemini"), { response: { output: result.text } });
      assert.equal((await punie.result(result.requestId)).text, result.text);
    });

    test("a failure of a tool is a result with a code", async () => {
      const result = await punie.call("Read", { file_path: "nothing" });
      assert.deepEqual([result.isError, result.error.code], [true, "not_found"]);
      assert.deepEqual(result.content("gemini"), { response: { error: result.text } });
      assert.equal(result.content("mcp").isError, true);
      assert.equal((await punie.call("NoSuchTool")).error.code, "unknown_tool");
    });

    test("an image comes in the form of each model", async () => {
      const result = await punie.call("Read", '{"file_path": "dot.png"}');
      assert.equal(result.structured.width, 4);
      const { mimeType, data } = result.images[0];
      assert.ok(mimeType === "image/png" && !result.text.includes(data));
      assert.deepEqual(result.content("anthropic")[1].source, { type: "base64", media_type: mimeType, data });
      assert.equal(result.content("openai")[1].image_url, `data:image/png;base64,${data}`);
      assert.match(result.content("openai-chat"), /left out/);
      assert.deepEqual(result.content("gemini").parts, [{ inlineData: { mimeType, data } }]);
      assert.deepEqual(result.content("mcp").content[1], { type: "image", mimeType, data });
      assert.equal(result.content("mcp").structuredContent.width, 4);
    });

    test("output comes while a command runs", async () => {
      const seen = [];
      let isOver = false;
      const onProgress = (text) => seen.push({ text, isOver });
      const result = await bash("for i in 1 2 3 4 5 6; do echo line $i; sleep 0.4; done", { onProgress });
      isOver = true;
      assert.ok(seen.length > 0 && seen.every((piece) => !piece.isOver));
      assert.ok(result.text.startsWith(seen.map(({ text }) => text).join("").trim()));
    });

    test("a signal cancels a call on the device", async () => {
      const controller = new AbortController();
      const call = bash("echo begun; sleep 100", { signal: controller.signal, onProgress: () => controller.abort() });
      const result = await call;
      assert.deepEqual([result.outcome, result.error.code], ["cancelled", "cancelled"]);
      assert.match(result.text, /begun/);
      await assert.rejects(bash("echo", { signal: controller.signal }), code("CANCELLED", /before it was sent/));
      assert.equal(await punie.cancel(result.requestId), "finished");
    });

    test("a deadline ends a call", async () => {
      const result = await bash("sleep 100", { deadlineMs: 2_000 });
      assert.equal(result.outcome, "error");
      assert.match(result.error.code, /^(timeout|expired)$/);
    });

    test("a question is answered in words", async () => {
      const question = { question: `Which colour ${name}?`, header: "Colour", options: [{ label: "Red" }, { label: "Blue" }] };
      const [{ permissionId, options }, call] = await ask(name, () => punie.call("AskUserQuestion", { questions: [question] }));
      assert.ok(options.some(({ optionId }) => optionId === "text"));
      assert.equal((await punie.answer(permissionId, "text", "2")).accepted, true);
      assert.match((await call).text, /-> Blue/);
    });

    test("an approval lets a command run", async () => {
      const file = `approved ${subscribe}`;
      const [{ permissionId, options, requestId }, call] = await ask(file, () => bash(`touch ${file}`));
      assert.ok((await punie.questions()).some((question) => question.permissionId === permissionId));
      const { optionId } = options.find(({ kind }) => kind === "allow_once");
      assert.equal((await punie.answer(permissionId, optionId)).accepted, true);
      const result = await call;
      assert.deepEqual([result.outcome, result.requestId], ["ok", requestId]);
    });

    test("a socket that drops after the commit gives one effect", async () => {
      const word = `lost-${randomUUID().slice(0, 8)}`;
      const behind = await connect({ ...settings, url: cutUrl });
      const result = await behind.call("Bash", { command: `echo ${word} >> ${word}` });
      await behind.close();
      assert.equal(result.outcome, "ok");
      assert.ok(readFileSync(cuts, "utf8").includes(word));
      assert.equal(readFileSync(`${workspace}/${word}`, "utf8"), `${word}\n`);
    });

    test("the same id again is the same request", async () => {
      const requestId = randomUUID();
      const command = `echo ${requestId} >> twice-${requestId}`;
      await Promise.all([bash(command, { requestId }), bash(command, { requestId })]);
      assert.equal(readFileSync(`${workspace}/twice-${requestId}`, "utf8"), `${requestId}\n`);
      await assert.rejects(bash("echo other", { requestId }), code("REQUEST_ID_REUSED", /make a new id/));
    });

    test("a device that is away is named, and gets nothing to do later", async () => {
      const call = (await connect({ ...settings, device: away })).call("Bash", { command: "ls" });
      const error = await call.catch((error) => error);
      assert.ok(code("DEVICE_OFFLINE", /Start punie-runner there/)(error));
      assert.equal(await punie.cancel(error.requestId), "cancelling");
    });

    test("settings that are wrong are named", async () => {
      await assert.rejects(connect({ ...settings, token: "wrong" }), code("CALLER_UNAUTHORIZED", /PUNIE_CALLER_TOKEN/));
      await assert.rejects(connect({ ...settings, device: "other" }), code("DEVICE_UNKNOWN", /other is not paired.*pair CODE/));
    });
  });
}

test("an address, a token or a device that is missing is named", async () => {
  await assert.rejects(connect({ url: "ftp://x", token: "x" }), code("BAD_SETTINGS", /PUNIE_BACKEND_URL/));
  await assert.rejects(connect({ url: embedded.url }), code("BAD_SETTINGS", /PUNIE_CALLER_TOKEN/));
  await assert.rejects(connect(empty), code("DEVICE_UNKNOWN", /No device is paired/));
});

test("an address that is no backend's is named", async () => {
  const server = http.createServer((_, response) => response.writeHead(404).end("<html>")).listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${server.address().port}`;
  await assert.rejects(connect({ url, token: "x" }), code("BAD_SETTINGS", /is no backend of punie-runner/));
  server.close().closeAllConnections();
  await assert.rejects(connect({ url, token: "x" }), code("UNREACHABLE", /does not answer .*ECONNREFUSED/));
});

test("names for models have no dots and stay different", () => {
  const names = new ToolNames([{ name: "a_b" }, { name: "a.b" }, { name: "a/b" }, { name: "x".repeat(80) }]);
  const aliases = [...names.entries()];
  assert.equal(new Set(aliases.map(([alias]) => alias)).size, 4);
  for (const [alias, name] of aliases) {
    assert.match(alias, /^[A-Za-z0-9_-]{1,64}$/);
    assert.equal(names.ownName(alias), name);
  }
  assert.equal(names.ownName("a_b"), "a_b");
});
