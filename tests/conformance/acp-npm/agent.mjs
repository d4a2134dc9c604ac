// An agent by the npm library, for which punie-runner is the editor: node agent.mjs
// Its first prompt tries all that an editor serves; a line for each case on stderr, `ok NAME` or `not ok NAME: why`.

import { strict as assert } from "node:assert";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { PROTOCOL_VERSION, agent, methods, ndJsonStream } from "@agentclientprotocol/sdk";
import { Watch, tapped } from "./frames.mjs";

const watch = new Watch("agent");
let [passed, failed] = [0, 0];
let cwd;

const check = async (name, body) => {
  try {
    await body();
    passed += 1;
    console.error(`ok ${name}`);
  } catch (error) {
    failed += 1;
    console.error(`not ok ${name}: ${String(error.message).replaceAll("\n", " ")}`);
  }
};

const REFUSED = { code: -31001 };
const MISSING = { code: -32002 };

async function files(ask) {
  const at = (name) => join(cwd, name);
  const read = (path, more = {}) => ask("fs/read_text_file", { path, ...more });
  writeFileSync(at("lines.txt"), "one\ntwo\nthree\nfour");

  await check("read", async () => assert.deepEqual(await read(at("lines.txt")), { content: "one\ntwo\nthree\nfour" }));
  await check("read: from a line, no more than a limit", async () => {
    assert.equal((await read(at("lines.txt"), { line: 2, limit: 2 })).content, "two\nthree\n");
    assert.equal((await read(at("lines.txt"), { line: 4 })).content, "four");
    assert.equal((await read(at("lines.txt"), { limit: 1 })).content, "one\n");
    assert.equal((await read(at("lines.txt"), { line: 40 })).content, "");
  });
  await check("read: a missing file is -32002", () => assert.rejects(read(at("nowhere.txt")), MISSING));
  await check("read: outside of the workspace is refused", async () => {
    await assert.rejects(read("/etc/hostname"), REFUSED);
    await assert.rejects(read(join(cwd, "../../etc/hostname")), REFUSED);
    const path = join(cwd, "../beside.txt");
    await assert.rejects(ask("fs/write_text_file", { path, content: "" }), REFUSED);
    assert.equal(existsSync(path), false);
  });
  await check("read: five at once", async () => {
    const names = [1, 2, 3, 4, 5].map((n) => at(`five-${n}.txt`));
    for (const name of names) writeFileSync(name, `text of ${name}`);
    const read5 = await Promise.all(names.map((name) => read(name)));
    assert.deepEqual(read5.map((one) => one.content), names.map((name) => `text of ${name}`));
  });
  await check("write: with a new parent", async () => {
    const path = at("new/deep/file.txt");
    await ask("fs/write_text_file", { path, content: "é\r\nend" });
    assert.equal(readFileSync(path, "utf8"), "é\r\nend");
    await ask("fs/write_text_file", { path, content: "" });
    assert.equal(readFileSync(path, "utf8"), "");
  });
}

async function terminals(ask) {
  const create = async (line, more = {}) => {
    const words = { command: "/bin/sh", args: ["-c", line], ...more };
    return (await ask("terminal/create", words)).terminalId;
  };
  const on = (method) => (terminalId) => ask(`terminal/${method}`, { terminalId });
  const [wait, output, kill, release] = ["wait_for_exit", "output", "kill", "release"].map(on);

  await check("terminal: variables, exit code 5, both streams in their order", async () => {
    const id = await create('echo "out $ONE"; echo err >&2; pwd; exit 5', {
      env: [{ name: "ONE", value: "of $mine" }], cwd,
    });
    assert.deepEqual(picked(await wait(id)), { exitCode: 5, signal: null });
    const said = await output(id);
    assert.equal(said.output, `out of $mine\nerr\n${cwd}\n`);
    assert.equal(said.truncated, false);
    assert.deepEqual(picked(said.exitStatus), { exitCode: 5, signal: null });
    await release(id);
  });
  await check("terminal: output while another call waits; kill, and the wait ends with a signal", async () => {
    const id = await create("echo begun; exec sleep 600");
    const waiting = wait(id);
    let said;
    do said = await output(id);
    while (!said.output.includes("begun"));
    assert.equal(said.exitStatus ?? null, null);
    await kill(id);
    const { exitCode, signal } = picked(await waiting);
    assert.equal(exitCode, null);
    assert.match(signal, /^SIG(TERM|KILL)$/);
    assert.equal((await output(id)).output, "begun\n");
    await release(id);
  });
  await check("terminal: use after release is refused", async () => {
    const id = await create("true");
    await release(id);
    for (const use of [wait, output, kill, release]) await assert.rejects(use(id), MISSING);
  });
  await check("terminal: a grandchild in the background does not delay the wait", async () => {
    const id = await create("sleep 600 & echo $!");
    assert.equal(picked(await wait(id)).exitCode, 0);
    const grandchild = Number((await output(id)).output);
    await release(id);
    assert.ok(grandchild > 1);
    try {
      process.kill(grandchild);
    } catch {
      // It ended with its terminal.
    }
  });
  await check("terminal: no more than the byte limit, and its end", async () => {
    const id = await create("seq 1 20000; printf 'é%.0s' 1 2 3 4 5", { outputByteLimit: 999 });
    await wait(id);
    const said = await output(id);
    assert.equal(said.truncated, true);
    assert.ok(Buffer.byteLength(said.output) <= 999 && Buffer.byteLength(said.output) > 900);
    assert.ok(said.output.endsWith("20000\nééééé"), said.output.slice(-40));
    assert.doesNotMatch(said.output, /\uFFFD/);
    await release(id);
  });
  await check("terminal: an unknown program is an error", () =>
    assert.rejects(ask("terminal/create", { command: "punie-has-no-such-program" })));
  await check("terminal: a folder outside of the workspace is refused", () =>
    assert.rejects(create("true", { cwd: "/" }), REFUSED));
}

const picked = ({ exitCode = null, signal = null }) => ({ exitCode, signal });

async function rest(ask) {
  const toolCall = { toolCallId: "call-1", title: "Something" };
  await check("permission: what allows is chosen by its kind, though a refusal comes first", async () => {
    const options = [
      { optionId: "allow", name: "Never", kind: "reject_always" },
      { optionId: "x1", name: "No", kind: "reject_once" },
      { optionId: "x2", name: "Yes", kind: "allow_once" },
    ];
    const { outcome } = await ask("session/request_permission", { toolCall, options });
    assert.deepEqual([outcome.outcome, outcome.optionId], ["selected", "x2"]);
  });
  await check("permission: where nothing allows once, nothing is allowed", async () => {
    const options = [{ optionId: "allow", name: "Yes, yes", kind: "reject_once" }];
    assert.equal((await ask("session/request_permission", { toolCall, options })).outcome.outcome, "cancelled");
  });
  await check("an unknown method and an unknown extension are -32601", async () => {
    await assert.rejects(ask("_punie/nonsense", {}), { code: -32601 });
    await assert.rejects(ask("_fs/delete", {}), { code: -32601 });
  });
  await check("the editor's own tools: none", async () =>
    assert.deepEqual(await ask("_punie/discover_tools", {}), { tools: [] }));
}

const app = agent({ name: "npm-agent" })
  .onRequest(methods.agent.initialize, ({ params }) => {
    assert.equal(params.clientCapabilities.terminal, true);
    return { protocolVersion: PROTOCOL_VERSION, agentCapabilities: {}, agentInfo: { name: "npm-agent", version: "1" } };
  })
  .onRequest(methods.agent.session.new, ({ params }) => {
    cwd = params.cwd;
    return { sessionId: "session-1" };
  })
  .onRequest(methods.agent.session.prompt, async ({ params, client }) => {
    const { sessionId } = params;
    const ask = (method, more) => client.request(method, { sessionId, ...more });
    const content = { type: "text", text: "trying" };
    await client.notify("session/update", { sessionId, update: { sessionUpdate: "agent_message_chunk", content } });
    await files(ask);
    await terminals(ask);
    await rest(ask);
    return { stopReason: "end_turn" };
  });

const output = tapped((frame) => watch.frame("agent", frame));
const input = tapped((frame) => watch.frame("editor", frame));
output.readable.pipeTo(Writable.toWeb(process.stdout)).catch(() => {});
const connection = app.connect(ndJsonStream(output.writable, Readable.toWeb(process.stdin).pipeThrough(input)));
await connection.closed.catch(() => {});
watch.end();
for (const problem of watch.problems) console.error(`not ok ${problem}`);
console.error(`${passed} passed, ${failed} failed, ${watch.count} frames`);
process.exit(Math.min(failed + watch.problems.length, 100));
