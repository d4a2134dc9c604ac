// Text files through the editor: what is unsaved there, what it does not have, what is none of its business.

import { strict as assert } from "node:assert";
import { existsSync, readFileSync } from "node:fs";
import { Editor, SERVES_FILES, SERVES_NOTHING } from "../editor.mjs";

const READ = "fs/read_text_file";
const WRITE = "fs/write_text_file";

/** An answer that went well; its text. */
const result = (answer) => {
  assert.equal(answer.outcome, "ok", JSON.stringify(answer));
  return answer.result;
};

export async function files({ world, watches, check }) {
  const device = await world.device(["timeout_ms = 10000"]);
  const editor = await Editor.open(device, watches, { serves: SERVES_FILES });
  const session = await (await editor.session()).attach();
  const read = (file_path, more = {}) => device.send("Read", { file_path, ...more });

  await check("read: the unsaved text of the editor", async () => {
    const path = device.file("unsaved.txt", "on disk\n");
    editor.buffers.set(path, "not saved yet\n");
    const answer = await read("unsaved.txt");
    assert.match(result(answer), /not saved yet/);
    assert.match(result(answer), /unsaved in Peer 1/);
    assert.doesNotMatch(result(answer), /on disk\n/);
    assert.equal(answer.meta.source, "editor");
    const [asked] = editor.asked(READ).slice(-1);
    assert.deepEqual([asked.path, asked.sessionId], [path, session.id]);
    await editor.until(() => session.statuses(answer.requestId).at(-1) === "completed", "end of the call");
    assert.deepEqual(session.statuses(answer.requestId), ["pending", "in_progress", "completed"]);
  });

  await check("read: what the editor does not have is read from the disk", async () => {
    const path = device.file("closed.txt", "only on disk\n");
    editor.instead[READ] = async () => {
      const { RequestError } = await import("@agentclientprotocol/sdk");
      throw RequestError.resourceNotFound(path);
    };
    const answer = await read("closed.txt");
    delete editor.instead[READ];
    assert.match(result(answer), /only on disk/);
    assert.notEqual(answer.meta.source, "editor");
  });

  await check("read: a file that is nowhere is an error for the caller", async () => {
    const answer = await read("nowhere.txt");
    assert.equal(answer.outcome, "error");
    assert.equal(answer.meta.code, "not_found");
    await editor.until(() => session.statuses(answer.requestId).at(-1) === "failed", "failed call");
  });

  await check("read: 300 kB from the editor, every line of it", async () => {
    const path = device.file("long.txt", "short\n");
    const lines = Array.from({ length: 6000 }, (_, n) => `line ${n} ${"é".repeat(20)}`);
    const text = `${lines.join("\n")}\n`;
    assert.ok(Buffer.byteLength(text) > 300_000);
    editor.buffers.set(path, text);
    const seen = [];
    for (let offset = 1; offset <= 6000; offset += 500) {
      const page = result(await read("long.txt", { offset, limit: 500 }));
      seen.push(...[...page.matchAll(/^ *\d+\t(line .*)$/gm)].map(([, line]) => line));
    }
    assert.deepEqual(seen, lines);
  });

  await check("read: five at once", async () => {
    const paths = [1, 2, 3, 4, 5].map((n) => device.file(`five-${n}.txt`, "disk\n"));
    let release;
    const all = new Promise((resolve) => (release = resolve));
    let open = 0;
    // No answer before all five are asked.
    editor.instead[READ] = async ({ path }) => {
      open += 1;
      if (open === 5) release();
      await all;
      return { content: `text of ${path}\n` };
    };
    const answers = await Promise.all(paths.map((path) => read(path)));
    delete editor.instead[READ];
    answers.forEach((answer, n) => assert.ok(result(answer).includes(`text of ${paths[n]}`)));
  });

  await check("read: a file outside of the workspace never reaches the editor", async () => {
    const from = editor.seen.length;
    const answer = await read("/etc/hostname");
    assert.equal(answer.outcome, "error");
    assert.deepEqual(editor.asked(READ, from), []);
  });

  await check("write: through the editor, with a difference", async () => {
    const path = device.file("written.txt", "before\n");
    const answer = await device.send("Write", { file_path: path, content: "after\n" });
    result(answer);
    assert.equal(answer.meta.source, "editor");
    assert.deepEqual(editor.asked(WRITE), [{ sessionId: session.id, path, content: "after\n" }]);
    assert.equal(readFileSync(path, "utf8"), "after\n");
    await editor.until(() => session.statuses(answer.requestId).at(-1) === "completed", "end of the call");
    const contents = session.updates().filter((one) => one.toolCallId === answer.requestId).flatMap((one) => one.content ?? []);
    const diff = contents.find((one) => one.type === "diff");
    assert.deepEqual(diff && [diff.path, diff.oldText, diff.newText], [path, "before\n", "after\n"]);
  });

  await check("write: an edit works on the unsaved text", async () => {
    const path = device.file("edited.txt", "old on disk\n");
    editor.buffers.set(path, "unsaved one\nunsaved two\n");
    result(await read(path));
    result(await device.send("Edit", { file_path: path, old_string: "two", new_string: "2" }));
    assert.equal(editor.buffers.get(path), "unsaved one\nunsaved 2\n");
  });

  await check("write: a new file in a new folder", async () => {
    const path = device.path("new/deep/file.txt");
    result(await device.send("Write", { file_path: path, content: "fresh\n" }));
    assert.equal(readFileSync(path, "utf8"), "fresh\n");
  });

  await check("write: the editor's refusal is told, and nothing is written beside it", async () => {
    const path = device.file("refused.txt", "as before\n");
    editor.instead[WRITE] = async () => {
      const { RequestError } = await import("@agentclientprotocol/sdk");
      throw RequestError.internalError(undefined, "the buffer is locked");
    };
    const answer = await device.send("Write", { file_path: path, content: "never\n" });
    delete editor.instead[WRITE];
    assert.equal(answer.outcome, "error");
    assert.match(answer.error, /the buffer is locked/);
    assert.equal(readFileSync(path, "utf8"), "as before\n");
  });

  await check("two sessions: each sees its own conversation", async () => {
    const other = await (await editor.session()).attach("attach apart");
    const path = device.file("shared.txt", "x\n");
    const [first, second] = await Promise.all([
      device.send("Read", { file_path: path }, "apart"),
      device.send("Read", { file_path: path }, "together"),
    ]);
    const shown = ({ requestId }, where) => where.statuses(requestId).at(-1) === "completed";
    await editor.until(() => shown(first, other) && shown(second, session), "both calls in their turns");
    assert.deepEqual(other.statuses(second.requestId), []);
    assert.deepEqual(session.statuses(first.requestId), []);
    const sessions = editor.asked(READ).filter((one) => one.path === path).map((one) => one.sessionId);
    assert.deepEqual(new Set(sessions), new Set([session.id, other.id]));
    assert.deepEqual(await other.cancel(), { stopReason: "cancelled" });
    // It goes to the turn that is for all from here on.
    const third = await device.send("Read", { file_path: path }, "apart");
    await editor.until(() => shown(third, session), "the call in the other turn");
  });

  assert.deepEqual(await session.cancel(), { stopReason: "cancelled" });
  await editor.close();

  await check("a flag that is off: no call on the wire", async () => {
    const bare = await world.device(["terminals = true"]);
    const nothing = await Editor.open(bare, watches, { serves: SERVES_NOTHING });
    const turn = await (await nothing.session()).attach();
    const path = bare.file("a.txt", "on disk\n");
    nothing.buffers.set(path, "never asked for\n");
    assert.match(result(await bare.send("Read", { file_path: path })), /on disk/);
    result(await bare.send("Write", { file_path: path, content: "changed\n" }));
    assert.match(result(await bare.send("Bash", { command: "echo here" })), /here/);
    assert.equal(readFileSync(path, "utf8"), "changed\n");
    await turn.cancel();
    await nothing.close();
    const methods = new Set(nothing.seen.map((one) => one.method));
    assert.deepEqual(methods, new Set(["session/update", "session/request_permission"]));
  });

  await check("the owner's configuration is a flag too", async () => {
    const kept = await world.device(["files = false"]);
    const all = await Editor.open(kept, watches);
    const turn = await (await all.session()).attach();
    const path = kept.file("a.txt", "on disk\n");
    all.buffers.set(path, "never asked for\n");
    assert.match(result(await kept.send("Read", { file_path: path })), /on disk/);
    await turn.cancel();
    await all.close();
    assert.deepEqual(all.asked(READ), []);
    assert.ok(existsSync(path));
  });
}
