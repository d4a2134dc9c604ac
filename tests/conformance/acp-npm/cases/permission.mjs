// What the person is asked, and what each answer does.

import { strict as assert } from "node:assert";
import { existsSync } from "node:fs";
import { Editor, choose } from "../editor.mjs";

const ASK = "session/request_permission";

export async function permission({ world, watches, check }) {
  const device = await world.device();
  const editor = await Editor.open(device, watches);
  const session = await (await editor.session()).attach();
  const touch = (name) => device.send("Bash", { command: `touch ${name}` });
  const asked = () => editor.asked(ASK).length;

  await check("permission: allow", async () => {
    const answer = await touch("allowed");
    assert.equal(answer.outcome, "ok", JSON.stringify(answer));
    assert.ok(existsSync(device.path("allowed")));
    const { sessionId, toolCall, options } = editor.asked(ASK).at(-1);
    assert.deepEqual([sessionId, toolCall.toolCallId], [session.id, answer.requestId]);
    assert.deepEqual(options.map(({ kind }) => kind), ["allow_once", "allow_always", "reject_once"]);
    assert.deepEqual(session.statuses(answer.requestId).slice(0, 2), ["pending", "in_progress"]);
  });

  const refuses = async (name, answer, words) => {
    editor.instead[ASK] = answer;
    const said = await touch(name);
    delete editor.instead[ASK];
    assert.equal(said.outcome, "error", JSON.stringify(said));
    assert.equal(said.meta.code, "policy_denied");
    assert.match(said.error, words);
    assert.equal(existsSync(device.path(name)), false);
    await editor.until(() => session.statuses(said.requestId).at(-1) === "failed", "failed call");
    assert.deepEqual(session.statuses(said.requestId), ["pending", "failed"]);
  };

  await check("permission: reject", () =>
    refuses("rejected", choose("reject_once"), /was not run: the person at Peer 1 rejected it/));
  await check("permission: cancelled", () =>
    refuses("dismissed", () => ({ outcome: { outcome: "cancelled" } }), /without an answer/));
  await check("permission: an option that was not offered", () =>
    refuses("unknown", choose("allow_everything"), /none of the offered options/));
  await check("permission: an error instead of an answer", () =>
    refuses("erred", () => Promise.reject(new Error("no dialogue")), /could not be asked/));

  await check("permission: always is remembered for the session, until it is taken back", async () => {
    editor.instead[ASK] = choose("allow_always");
    const before = asked();
    const command = { command: "ls -a" };
    assert.equal((await device.send("Bash", command)).outcome, "ok");
    assert.equal((await device.send("Bash", command)).outcome, "ok");
    assert.equal(asked(), before + 1);
    // Another command is another question, and so is another session.
    editor.instead[ASK] = choose("reject_once");
    assert.equal((await touch("other")).outcome, "error");
    assert.equal(asked(), before + 2);
    const other = await (await editor.session()).attach("attach apart");
    assert.equal((await device.send("Bash", command, "apart")).outcome, "error");
    assert.equal(asked(), before + 3);
    assert.deepEqual(await other.prompt("revoke"), { stopReason: "end_turn" });
    assert.equal((await device.send("Bash", command)).outcome, "ok");
    await session.prompt("revoke");
    assert.equal((await device.send("Bash", command)).outcome, "error");
    assert.equal(asked(), before + 4);
    delete editor.instead[ASK];
    await other.cancel();
  });

  await check("permission: reads ask nobody", async () => {
    const before = asked();
    device.file("plain.txt", "x\n");
    assert.equal((await device.send("Read", { file_path: "plain.txt" })).outcome, "ok");
    assert.equal(asked(), before);
  });

  await check("permission: answered after the turn was stopped, nothing runs", async () => {
    let answer;
    const held = new Promise((resolve) => (answer = resolve));
    editor.instead[ASK] = () => held;
    const before = asked();
    const sent = touch("late");
    await editor.until(() => asked() > before, "question");
    assert.deepEqual(await session.cancel(), { stopReason: "cancelled" });
    const said = await sent;
    assert.equal(said.outcome, "error", JSON.stringify(said));
    answer(choose("allow_once")(editor.asked(ASK).at(-1)));
    delete editor.instead[ASK];
    // The connection is as good as before.
    await session.attach();
    assert.equal((await touch("after")).outcome, "ok");
    assert.equal(existsSync(device.path("late")), false);
    await session.cancel();
  });

  await editor.close();
}
