// The whole way: a file with unsaved text, a refusal, a closed editor; with `acp` as the runner and as a relay to one.

import { strict as assert } from "node:assert";
import { existsSync, readFileSync } from "node:fs";
import { Editor, choose } from "../editor.mjs";
import { within } from "../world.mjs";

const ASK = "session/request_permission";

/** From an attached turn to the editor's end. */
async function tell(device, editor) {
  const session = await (await editor.session()).attach();
  const path = device.file("a.txt", "saved text\n");
  editor.buffers.set(path, "unsaved text\n");
  const open = await device.send("Read", { file_path: "a.txt" });
  assert.equal(open.outcome, "ok", JSON.stringify(open));
  assert.match(open.result, /unsaved text\n/);
  assert.match(open.result, /unsaved in Peer 1/);

  editor.instead[ASK] = choose("reject_once");
  const refused = await device.send("Write", { file_path: device.path("b.txt"), content: "x" });
  assert.equal(refused.outcome, "error");
  assert.match(refused.error, /the person at Peer 1 rejected it/);
  assert.equal(existsSync(device.path("b.txt")), false);

  // The person closes the editor; the turn is open.
  editor.program.child.stdin.end();
  const closed = await device.send("Read", { file_path: "a.txt" });
  assert.equal(closed.outcome, "ok", JSON.stringify(closed));
  assert.match(closed.result, /saved text\n/);
  assert.doesNotMatch(closed.result, /unsaved/);
  assert.equal(readFileSync(path, "utf8"), "saved text\n");
}

export async function story({ world, watches, check }) {
  await check("the story: the editor's runner goes on without it", async () => {
    const device = await world.device(["linger_ms = 600000"]);
    const editor = await Editor.open(device, watches);
    await tell(device, editor);
    assert.equal(editor.program.child.exitCode, null, "it waits for more");
    editor.program.kill("SIGTERM");
    assert.deepEqual(await within(editor.program.ended, "end"), { code: 0, signal: null });
  });

  await check("the story: and ends after a while without calls", async () => {
    const device = await world.device(["linger_ms = 1"]);
    const editor = await Editor.open(device, watches);
    await (await editor.session()).attach();
    assert.deepEqual(await editor.close({ abruptly: true }), { code: 0, signal: null });
  });

  await check("the story: a runner in the background, with acp as a relay", async () => {
    const device = await world.device();
    const runner = device.run();
    device.file("ready.txt", "x");
    assert.equal((await device.send("Read", { file_path: "ready.txt" })).outcome, "ok");
    const editor = await Editor.open(device, watches);
    await tell(device, editor);
    assert.deepEqual(await within(editor.program.ended, "end of the relay"), { code: 0, signal: null });
    assert.equal(runner.child.exitCode, null, "the runner is no editor's");
    runner.kill("SIGTERM");
    assert.deepEqual(await within(runner.ended, "end of the runner"), { code: 0, signal: null });
  });

  await check("the story: two editors at one runner; the calls of the one that closes go to the other", async () => {
    const device = await world.device();
    const runner = device.run();
    const path = device.file("a.txt", "saved\n");
    await device.send("Read", { file_path: path });
    const [first, second] = [await Editor.open(device, watches), await Editor.open(device, watches)];
    first.buffers.set(path, "in the first\n");
    second.buffers.set(path, "in the second\n");
    const seen = async () => (await device.send("Read", { file_path: path })).result;
    const open = await (await first.session()).attach();
    await (await second.session()).attach();
    assert.match(await seen(), /in the second/);
    assert.deepEqual(await second.close({ abruptly: true }), { code: 0, signal: null });
    assert.match(await seen(), /in the first/);
    assert.deepEqual(await open.cancel(), { stopReason: "cancelled" });
    assert.match(await seen(), /saved/);
    await first.close();
    runner.kill("SIGTERM");
    await within(runner.ended, "end of the runner");
  });

  await check("the story: a runner that stops ends the turn and the relay", async () => {
    const device = await world.device();
    const runner = device.run();
    device.file("ready.txt", "x");
    await device.send("Read", { file_path: "ready.txt" });
    const editor = await Editor.open(device, watches);
    const session = await (await editor.session()).attach();
    runner.kill("SIGTERM");
    assert.deepEqual(await within(session.turn, "end of the turn"), { stopReason: "end_turn" });
    await within(editor.program.ended, "end of the relay");
    await within(runner.ended, "end of the runner");
  });
}
