// Commands in the editor's terminals, where the owner wants that.

import { strict as assert } from "node:assert";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { RequestError } from "@agentclientprotocol/sdk";
import { Editor, SERVES_ALL } from "../editor.mjs";

const methods = (editor, from) =>
  editor.seen.slice(from).map((one) => one.method).filter((method) => method.startsWith("terminal/"));

export async function terminals({ world, watches, check }) {
  const device = await world.device(["terminals = true", "timeout_ms = 10000"]);
  const editor = await Editor.open(device, watches, { serves: SERVES_ALL });
  const session = await (await editor.session()).attach();
  const bash = (command, more = {}) => device.send("Bash", { command, ...more });

  await check("terminal: create, wait, output, release, exit code 4", async () => {
    const from = editor.seen.length;
    const answer = await bash("echo out; echo err >&2; exit 4");
    assert.equal(answer.meta.exitCode, 4, JSON.stringify(answer));
    assert.match(JSON.stringify(answer), /out.*err/);
    const seen = methods(editor, from);
    for (const method of ["terminal/create", "terminal/wait_for_exit", "terminal/output", "terminal/release"]) {
      assert.ok(seen.includes(method), `${method} is not in ${seen}`);
    }
    assert.equal(seen.at(-1), "terminal/release");
    const [created] = editor.asked("terminal/create", from);
    assert.equal(created.cwd, device.workspace);
    const shown = session.updates().filter((one) => one.toolCallId === answer.requestId);
    assert.ok(shown.flatMap((one) => one.content ?? []).some((one) => one.type === "terminal"), "shown in its call");
    assert.equal(editor.terminals.size, 0);
  });

  await check("terminal: words that a shell would read otherwise arrive as they are", async () => {
    const answer = await bash(`printf '%s|' "it's" '$HOME' 'two  words' "*"; pwd`);
    assert.match(answer.result, /it's\|\$HOME\|two  words\|\*\|/);
    assert.ok(answer.result.includes(device.workspace));
  });

  await check("terminal: a timeout kills and releases, with a signal", async () => {
    const from = editor.seen.length;
    const answer = await bash("echo begun; sleep 600", { timeout: 500 });
    assert.equal(answer.outcome, "error", JSON.stringify(answer));
    assert.match(JSON.stringify(answer), /begun/);
    const seen = methods(editor, from);
    assert.ok(seen.indexOf("terminal/kill") > 0, `${seen}`);
    assert.equal(seen.at(-1), "terminal/release");
    assert.equal(answer.meta.signal, "SIGKILL", JSON.stringify(answer));
  });

  await check("terminal: 64 KiB and more with a byte limit", async () => {
    const from = editor.seen.length;
    const answer = await bash("seq 1 400000");
    assert.equal(answer.meta.exitCode, 0, JSON.stringify(answer).slice(0, 500));
    const [created] = editor.asked("terminal/create", from);
    assert.ok(created.outputByteLimit > 0);
    assert.match(answer.result, /400000/);
    assert.ok(JSON.stringify(answer).length < 300_000);
  });

  await check("terminal: an editor that refuses it has the command run here, and the answer says so", async () => {
    editor.instead["terminal/create"] = () => Promise.reject(RequestError.invalidParams(undefined, "none today"));
    const answer = await bash("echo here");
    delete editor.instead["terminal/create"];
    assert.match(answer.result, /here/);
    assert.match(JSON.stringify(answer), /on this machine/);
  });

  await check("terminal: after any other error nothing is run here, since it may run there", async () => {
    editor.instead["terminal/create"] = () => Promise.reject(new Error("it broke"));
    const answer = await bash("touch ran-here");
    delete editor.instead["terminal/create"];
    assert.equal(answer.outcome, "error", JSON.stringify(answer));
    assert.equal(answer.meta.mayHaveRun, true, JSON.stringify(answer));
    assert.equal(existsSync(join(device.workspace, "ran-here")), false);
  });

  await check("session/cancel in the middle of a command: cancelled, the terminal released", async () => {
    const from = editor.seen.length;
    const sent = bash("echo begun; sleep 600; echo never");
    await editor.until(() => methods(editor, from).includes("terminal/wait_for_exit"), "command");
    const [terminal] = editor.terminals.values();
    await editor.until(() => terminal.output().output.includes("begun"), "first word of the command");
    assert.deepEqual(await session.cancel(), { stopReason: "cancelled" });
    const answer = await sent;
    assert.equal(answer.outcome, "cancelled", JSON.stringify(answer));
    await editor.until(() => methods(editor, from).includes("terminal/release"), "release");
    assert.equal(editor.terminals.size, 0);
    assert.ok((await terminal.ended).signal);
  });

  await editor.close();

  await check("terminal: what runs here is shown as it comes, where the editor announces that", async () => {
    const own = await world.device();
    const serves = { ...SERVES_ALL, _meta: { terminal_output: true } };
    const shows = await Editor.open(own, watches, { serves });
    const turn = await (await shows.session()).attach();
    const answer = await own.send("Bash", { command: "echo shown; exit 3" });
    assert.equal(answer.meta.exitCode, 3);
    await shows.until(() => ["completed", "failed"].includes(turn.statuses(answer.requestId).at(-1)), "end");
    const meta = turn.updates().filter((one) => one.toolCallId === answer.requestId).map((one) => one._meta ?? {});
    const { terminal_info: info } = meta.find((one) => one.terminal_info);
    assert.equal(info.cwd, own.workspace);
    const data = meta.map((one) => one.terminal_output?.data ?? "").join("");
    assert.equal(data, "shown\r\n");
    const { terminal_exit: exit } = meta.find((one) => one.terminal_exit);
    assert.deepEqual(exit, { terminal_id: info.terminal_id, exit_code: 3, signal: null });
    assert.deepEqual(methods(shows, 0), []);
    await turn.cancel();
    await shows.close();
  });
}
