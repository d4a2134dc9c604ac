// What is said before and beside a turn: who is there, sessions, words, what is unknown, the end.

import { strict as assert } from "node:assert";
import { Editor, SERVES_ALL } from "../editor.mjs";

export async function conversation({ world, watches, check }) {
  const device = await world.device();
  const editor = await Editor.open(device, watches, { serves: SERVES_ALL });
  let session;

  await check("initialize", () => {
    const { protocolVersion, agentInfo, agentCapabilities } = editor.introduced;
    assert.equal(protocolVersion, 1);
    assert.equal(agentInfo.name, "punie-runner");
    assert.equal(agentCapabilities.loadSession, true);
  });

  await check("session/new", async () => {
    session = await editor.session();
    await editor.until(() => session.updates()[0]?.sessionUpdate === "available_commands_update", "commands");
    const names = session.updates()[0].availableCommands.map(({ name }) => name);
    assert.deepEqual(names, ["attach", "status", "revoke"]);
    const refused = (cwd) => assert.rejects(editor.session(cwd), { code: -32602 });
    await refused("relative");
    await refused(device.path("is-not-there"));
  });

  await check("prompt", async () => {
    assert.deepEqual(await session.prompt("fix the bug"), { stopReason: "end_turn" });
    await editor.until(() => session.said().includes("it does not chat"), "help");
    assert.deepEqual(await session.prompt("/status"), { stopReason: "end_turn" });
    await editor.until(() => session.said().includes("the backend answers"), "status");
    assert.match(session.said(), /attached: no/);
    assert.match(session.said(), /In place of this machine it reads text files, writes text files\./);
  });

  await check("an unknown session is -32002, an unknown method and extension -32601", async () => {
    const { agent } = editor.connection;
    const prompt = [{ type: "text", text: "status" }];
    await assert.rejects(agent.request("session/prompt", { sessionId: "none", prompt }), { code: -32002 });
    await assert.rejects(agent.request("session/load", { sessionId: "x", cwd: "/", mcpServers: [] }), { code: -32002 });
    await assert.rejects(agent.request("_punie/nonsense", {}), { code: -32601 });
    // Nobody answers these, and they end nothing.
    await agent.notify("session/cancel", { sessionId: "none" });
    await agent.notify("_punie/nonsense", {});
    assert.deepEqual(await session.prompt("status"), { stopReason: "end_turn" });
  });

  await check("a version that is not there yet is answered with 1", async () => {
    const clientInfo = { name: "later", version: "9" };
    const answer = await editor.ask("initialize", { protocolVersion: 99, clientInfo, clientCapabilities: SERVES_ALL });
    assert.equal(answer.protocolVersion, 1);
  });

  await check("$/cancel_request of the prompt ends the turn as well", async () => {
    const stop = new AbortController();
    const open = await (await editor.session()).attach("attach", { cancellationSignal: stop.signal });
    stop.abort();
    assert.deepEqual(await open.turn, { stopReason: "cancelled" });
    // And it can be attached again.
    await open.attach();
    assert.deepEqual(await open.prompt("attach"), { stopReason: "end_turn" });
    await editor.until(() => open.said().includes("attached already"), "word about the open turn");
    assert.deepEqual(await open.cancel(), { stopReason: "cancelled" });
  });

  await check("end of input without a turn: exit 0", async () => {
    assert.deepEqual(await editor.close(), { code: 0, signal: null });
  });

  await check("end of input before anything: exit 0", async () => {
    const early = await Editor.open(device, watches);
    assert.deepEqual(await early.close(), { code: 0, signal: null });
  });
}
