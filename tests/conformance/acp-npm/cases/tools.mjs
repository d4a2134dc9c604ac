// Tools of the editor's own: whether it is asked for them, what comes of the list, and calling one.

import { strict as assert } from "node:assert";
import { Editor, SERVES_FILES, SERVES_NOTHING, choose } from "../editor.mjs";

const DISCOVER = "_punie/discover_tools";
const ANNOUNCED = { ...SERVES_FILES, _meta: { punie: { discoverTools: true } } };

const rename = {
  name: "ide_rename",
  kind: "edit",
  description: "Renames a symbol everywhere",
  parameters: {
    type: "object",
    properties: { symbol: { type: "string" }, to: { type: "string" } },
    required: ["symbol", "to"],
  },
  requires_permission: true,
  categories: ["refactoring"],
  since: "2.0",
};
const catalog = {
  tools: [
    rename,
    { name: "broken" },
    { name: "ide_outline", kind: "marvel", description: "Lists symbols", parameters: { type: "object" } },
  ],
};

const status = async (session) => {
  const from = session.editor.seen.length;
  await session.prompt("status");
  await session.editor.until(() => session.said(from).includes("The runner"), "status");
  return session.said(from);
};

export async function tools({ world, watches, check }) {
  const device = await world.device();

  await check("discovery: not announced, so not asked: tier 2", async () => {
    const editor = await Editor.open(device, watches, { extensions: { [DISCOVER]: () => catalog } });
    const session = await editor.session();
    assert.match(await status(session), /Tier 2/);
    assert.deepEqual(editor.asked(DISCOVER), []);
    await editor.close();
  });

  await check("discovery: the owner decides whether it is asked for", async () => {
    for (const [wish, serves, asked] of [["never", ANNOUNCED, 0], ["always", SERVES_FILES, 1]]) {
      const own = await world.device([`discover = "${wish}"`]);
      const editor = await Editor.open(own, watches, { serves, extensions: { [DISCOVER]: () => catalog } });
      assert.match(await status(await editor.session()), asked ? /Tier 1/ : /Tier 2/);
      assert.equal(editor.asked(DISCOVER).length, asked);
      await editor.close();
    }
  });

  await check("discovery: announced but missing: tier 2", async () => {
    const editor = await Editor.open(device, watches, { serves: ANNOUNCED });
    assert.match(await status(await editor.session()), /Tier 2/);
    await editor.close();
  });

  await check("discovery: an editor that serves nothing: tier 3", async () => {
    const editor = await Editor.open(device, watches, { serves: SERVES_NOTHING });
    assert.match(await status(await editor.session()), /Tier 3/);
    await editor.close();
  });

  let called = ({ args }) => `${args.symbol} is ${args.to}`;
  const extensions = { [DISCOVER]: () => catalog, _ide_rename: (params) => called(params), _ide_outline: () => ({ symbols: [] }) };
  const editor = await Editor.open(device, watches, { serves: ANNOUNCED, extensions });
  const session = await (await editor.session()).attach();

  await check("discovery: a list: tier 1, asked once, the bad entry left out", async () => {
    const said = await status(session);
    assert.match(said, /Tier 1/);
    assert.match(said, /ide_rename, ide_outline/);
    assert.match(said, /Left out: tools\[1\] "broken"/);
    assert.equal(editor.asked(DISCOVER).length, 1);
    assert.equal(editor.asked(DISCOVER)[0].sessionId, session.id);
  });

  await check("bridge: _ide_rename is called, after a yes", async () => {
    const answer = await device.send("ide_rename", { symbol: "a", to: "b" });
    assert.equal(answer.outcome, "ok", JSON.stringify(answer));
    assert.equal(answer.result, "a is b");
    const [asked] = editor.asked("_ide_rename");
    assert.deepEqual([asked.sessionId, asked.args], [session.id, { symbol: "a", to: "b" }]);
    assert.equal(editor.asked("session/request_permission").length, 1);
  });

  await check("bridge: a no, or arguments that do not fit, never reach the editor", async () => {
    const before = editor.asked("_ide_rename").length;
    editor.instead["session/request_permission"] = choose("reject_once");
    assert.equal((await device.send("ide_rename", { symbol: "a", to: "b" })).meta.code, "policy_denied");
    delete editor.instead["session/request_permission"];
    assert.equal((await device.send("ide_rename", { symbol: "a" })).meta.code, "invalid_args");
    assert.equal(editor.asked("_ide_rename").length, before);
  });

  await check("bridge: the editor's error is the caller's", async () => {
    called = () => Promise.reject(new Error("symbol is ambiguous"));
    const answer = await device.send("ide_rename", { symbol: "a", to: "b" });
    assert.equal(answer.outcome, "error");
    assert.match(answer.error, /symbol is ambiguous/);
  });

  await session.cancel();

  await check("bridge: without a turn the owner is asked on the device, and a no never reaches the editor", async () => {
    const before = editor.asked("_ide_rename").length;
    const sent = device.send("ide_rename", { symbol: "a", to: "b" });
    assert.equal((await device.answer("deny")).tool, "ide_rename");
    const answer = await sent;
    assert.equal(answer.meta.code, "policy_denied", JSON.stringify(answer));
    assert.equal(editor.asked("_ide_rename").length, before);
  });

  await editor.close();

  await check("bridge: after the editor is gone its tools are unknown", async () => {
    const other = await Editor.open(device, watches);
    const turn = await (await other.session()).attach();
    const answer = await device.send("ide_rename", { symbol: "a", to: "b" });
    assert.equal(answer.meta.code, "unknown_tool", JSON.stringify(answer));
    await turn.cancel();
    await other.close();
  });
}
