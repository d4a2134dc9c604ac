// Editors that are slow, silent, broken or gone, and signals.

import { strict as assert } from "node:assert";
import { existsSync, readFileSync } from "node:fs";
import { Editor, SERVES_ALL, SERVES_FILES } from "../editor.mjs";
import { within } from "../world.mjs";

const READ = "fs/read_text_file";
const never = () => new Promise(() => {});

const result = (answer) => {
  assert.equal(answer.outcome, "ok", JSON.stringify(answer));
  return answer.result;
};

/** Whether there is such a process that is not a zombie. */
const runs = (pid) => {
  try {
    return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
};

const gone = (pid) =>
  within(
    (async () => {
      while (runs(pid)) await new Promise((resolve) => setTimeout(resolve, 5));
    })(),
    `end of the process ${pid}`,
  );

export async function trouble({ world, watches, check }) {
  await check("an editor that never answers: the disk's text, and the answer says so", async () => {
    const device = await world.device(["timeout_ms = 200"]);
    const editor = await Editor.open(device, watches);
    const session = await (await editor.session()).attach();
    device.file("a.txt", "on disk\n");
    editor.instead[READ] = never;
    const answer = await device.send("Read", { file_path: "a.txt" });
    assert.match(result(answer), /on disk/);
    assert.match(JSON.stringify(answer), /Peer 1 did not answer within/);
    // A write would replace what nobody knows.
    const write = await device.send("Write", { file_path: device.path("a.txt"), content: "blind\n" });
    assert.equal(write.outcome, "error", JSON.stringify(write));
    assert.equal(readFileSync(device.path("a.txt"), "utf8"), "on disk\n");
    delete editor.instead[READ];
    editor.buffers.set(device.path("a.txt"), "back again\n");
    assert.match(result(await device.send("Read", { file_path: "a.txt" })), /back again/);
    await session.cancel();
    await editor.close();
  });

  await check("an editor that closes in the middle of a read: the disk's text", async () => {
    const device = await world.device(["linger_ms = 60000"]);
    const editor = await Editor.open(device, watches);
    await (await editor.session()).attach();
    device.file("a.txt", "on disk\n");
    editor.instead[READ] = never;
    const sent = device.send("Read", { file_path: "a.txt" });
    await editor.until(() => editor.asked(READ).length > 0, "read");
    editor.program.child.stdin.end();
    assert.match(result(await sent), /on disk/);
    editor.program.kill("SIGTERM");
    assert.deepEqual(await within(editor.program.ended, "end"), { code: 0, signal: null });
  });

  await check("an editor that closes in the middle of a command in its terminal: the caller hears that it may have run", async () => {
    const device = await world.device(["terminals = true", "linger_ms = 60000"]);
    const editor = await Editor.open(device, watches, { serves: SERVES_ALL });
    await (await editor.session()).attach();
    const sent = device.send("Bash", { command: "sleep 600; echo never" });
    await editor.until(() => editor.asked("terminal/wait_for_exit").length > 0, "command");
    editor.program.child.stdin.end();
    const answer = await sent;
    assert.deepEqual([answer.outcome, answer.meta.mayHaveRun], ["error", true], JSON.stringify(answer));
    assert.match(answer.error, /Peer 1 was closed before it answered/);
    // The next one waits for a yes on this machine, and runs there.
    const next = device.send("Bash", { command: "echo here" });
    await device.answer("allow");
    assert.match(result(await next), /here/);
    editor.program.kill("SIGTERM");
    await editor.close({ abruptly: true });
  });

  await check("an editor whose terminals say nothing: the timeout ends the call all the same", async () => {
    const device = await world.device(["terminals = true", "timeout_ms = 200"]);
    const editor = await Editor.open(device, watches, { serves: SERVES_ALL });
    const session = await (await editor.session()).attach();
    for (const method of ["terminal/wait_for_exit", "terminal/kill", "terminal/output"]) editor.instead[method] = never;
    const answer = await device.send("Bash", { command: "sleep 600; echo never", timeout: 300 });
    assert.deepEqual([answer.outcome, answer.meta.mayHaveRun], ["error", true], JSON.stringify(answer));
    await editor.until(() => editor.terminals.size === 0, "release");
    assert.deepEqual(await session.cancel(), { stopReason: "cancelled" });
    await editor.close();
  });

  await check("an editor that closes in the middle of a question: nothing runs", async () => {
    const device = await world.device(["linger_ms = 60000"]);
    const editor = await Editor.open(device, watches);
    await (await editor.session()).attach();
    editor.instead["session/request_permission"] = never;
    const sent = device.send("Bash", { command: "touch unasked" });
    await editor.until(() => editor.asked("session/request_permission").length > 0, "question");
    editor.program.child.stdin.end();
    const answer = await sent;
    assert.equal(answer.outcome, "error", JSON.stringify(answer));
    assert.match(answer.error, /closed before anybody answered/);
    assert.equal(existsSync(device.path("unasked")), false);
    editor.program.kill("SIGTERM");
    assert.deepEqual(await within(editor.program.ended, "end"), { code: 0, signal: null });
  });

  await check("lines that are no message, too long or no text end nothing", async () => {
    const device = await world.device();
    const editor = await Editor.open(device, watches, { serves: SERVES_FILES });
    const session = await (await editor.session()).attach();
    await editor.raw("this is no JSON\n{\"jsonrpc\":\"2.0\"\n\n[]\n42\n");
    await editor.raw(Buffer.from([0x7b, 0xff, 0xfe, 0x22, 0x0a]));
    const prompt = { sessionId: session.id, prompt: [{ type: "text", text: "status" }] };
    await editor.raw(`{"id":"no version","method":"session/prompt","params":${JSON.stringify(prompt)}}\n`);
    const most = Buffer.alloc(1 << 20, "x");
    await editor.raw('{"jsonrpc":"2.0","method":"_long","params":{"text":"');
    for (let mib = 0; mib < 40; mib += 1) await editor.raw(most);
    await editor.raw('"}}\n');
    // Bad bytes within a string spoil that string and nothing else.
    const text = Buffer.concat([
      Buffer.from(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"`), Buffer.from([0xc3, 0x28]),
      Buffer.from(`"}}\n`),
    ]);
    await editor.raw(text);
    device.file("a.txt", "still read\n");
    assert.match(result(await device.send("Read", { file_path: "a.txt" })), /still read/);
    assert.deepEqual(await session.cancel(), { stopReason: "cancelled" });
    assert.deepEqual(await editor.close(), { code: 0, signal: null });
    assert.deepEqual(editor.watch.unread, [-32700, -32700, -32600, -32600, -32700, -32600, -32700]);
  });

  await check("an answer of more than 32 MiB is an error of that one call", async () => {
    const device = await world.device();
    const editor = await Editor.open(device, watches);
    const session = await (await editor.session()).attach();
    device.file("a.txt", "on disk\n");
    editor.instead[READ] = () => ({ content: "x".repeat(33 << 20) });
    assert.match(result(await device.send("Read", { file_path: "a.txt" })), /on disk/);
    delete editor.instead[READ];
    editor.buffers.set(device.path("a.txt"), "small again\n");
    assert.match(result(await device.send("Read", { file_path: "a.txt" })), /small again/);
    await session.cancel();
    await editor.close();
  });

  const sleeping = async (device, editor) => {
    const sent = device.send("Bash", { command: "echo $$ > pid; exec sleep 600" });
    const path = device.path("pid");
    await within(
      (async () => {
        while (!existsSync(path) || !readFileSync(path, "utf8").endsWith("\n")) {
          await new Promise((resolve) => setTimeout(resolve, 5));
        }
      })(),
      "command",
    );
    const pid = Number(readFileSync(path, "utf8"));
    assert.ok(runs(pid));
    return { sent: sent.catch(() => {}), pid, editor };
  };

  await check("SIGTERM of the runner leaves no child", async () => {
    const device = await world.device(["linger_ms = 600000"], ["[limits]", "drain_ms = 0"]);
    const editor = await Editor.open(device, watches);
    await (await editor.session()).attach();
    const { pid } = await sleeping(device, editor);
    editor.program.kill("SIGTERM");
    assert.deepEqual(await within(editor.program.ended, "end of the runner"), { code: 0, signal: null });
    await gone(pid);
  });

  await check("session/cancel stops a command that runs here", async () => {
    const device = await world.device();
    const editor = await Editor.open(device, watches);
    const session = await (await editor.session()).attach();
    const { pid } = await sleeping(device, editor);
    assert.deepEqual(await session.cancel(), { stopReason: "cancelled" });
    await gone(pid);
    await editor.close();
  });
}
