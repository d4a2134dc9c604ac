// A worker of the second wire, in another language than the runner: it asks what a Synapse worker asks, over one
// WebSocket of the npm package ws, and drops the connection at bad moments. Not here: starting the runner. The test that
// starts this reads the port from the first line of stdout; the last line is "ok", or the process fails.
//
// Usage: node worker.mjs WORKSPACE (a git repository with one commit, README.md in it and "outside" beside it)

import assert from "node:assert/strict";
import { once } from "node:events";
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { WebSocketServer } from "ws";

const workspace = process.argv[2];
const patience = 60_000;
const server = new WebSocketServer({ host: "127.0.0.1", port: 0 });
await once(server, "listening");
console.log(server.address().port);

/** Every result frame that ever came, by call. */
const results = new Map();
/** Frames that are no results. */
const errors = [];
const waiting = [];
let socket = null;

server.on("connection", (next, request) => {
  assert.equal(request.headers.authorization, "Bearer the-token-of-the-synapse-worker");
  socket = next;
  next.on("message", (data, isBinary) => {
    assert.equal(isBinary, false, "results are text frames");
    const frame = JSON.parse(data.toString());
    if (frame.type === "tool_result") {
      assert.deepEqual(Object.keys(frame).sort(), ["output", "status", "tool_call_id", "type"]);
      assert.equal(typeof frame.output, "string");
      const seen = results.get(frame.tool_call_id) ?? [];
      seen.push(frame);
      results.set(frame.tool_call_id, seen);
      if (dropOn === frame.tool_call_id) {
        dropOn = null;
        next.terminate();
      }
    } else {
      errors.push(frame);
    }
    look();
  });
  look();
});

/** The result of this call ends the connection before anything more is read. */
let dropOn = null;

function look() {
  for (const [n, { is, resolve }] of [...waiting.entries()].reverse()) {
    if (is()) {
      waiting.splice(n, 1);
      resolve();
    }
  }
}

function until(what, is) {
  if (is()) return Promise.resolve();
  return new Promise((resolve, reject) => {
    const clock = setTimeout(() => reject(new Error(`in vain was waited for ${what}`)), patience);
    waiting.push({ is, resolve: () => (clearTimeout(clock), resolve()) });
  });
}

const connected = () => until("a connection", () => socket?.readyState === 1);

async function send(frame) {
  await connected();
  socket.send(typeof frame === "string" ? frame : JSON.stringify(frame));
}

async function answer(id) {
  await until(`the result of ${id}`, () => results.has(id));
  return results.get(id)[0];
}

async function call(id, tool, args) {
  await send({ type: "tool_call", tool, id, ...(args === undefined ? {} : { args }) });
  return answer(id);
}

async function succeeds(id, tool, args) {
  const { status, output } = await call(id, tool, args);
  assert.equal(status, "success", `${tool}: ${output}`);
  return output;
}

async function fails(id, tool, args) {
  const { status, output } = await call(id, tool, args);
  assert.equal(status, "error", `${tool}: ${output}`);
  return output;
}

// The conversation: look, read, change, run.
assert.match(await succeeds("1-status", "git_status"), /clean/);
assert.equal(await succeeds("2-read", "read_file", { path: "README.md" }), "# A repository\n");
await succeeds("3-write", "write_file", { path: "src/new/main.py", content: "print('h\u00e9llo')\n" });
assert.equal(readFileSync(join(workspace, "src/new/main.py"), "utf8"), "print('h\u00e9llo')\n");
await succeeds("4-write", "write_file", { path: "README.md", content: "# Changed\n" });
const status = await succeeds("5-status", "git_status", {});
assert.match(status, /^ M README\.md$/m);
assert.match(status, /^\?\? src\/$/m);
assert.match(await succeeds("6-diff", "get_diff", {}), /^-# A repository\n\+# Changed$/m);
assert.match(await succeeds("7-run", "run_command", { command: "echo $((6 * 7)); ls src" }), /42\nnew/);

// What is refused, to the letter.
assert.equal(await fails("8-up", "read_file", { path: "../outside" }), "Error: Security violation");
assert.equal(await fails("9-absolute", "read_file", { path: "/etc/passwd" }), "Error: Security violation");
assert.equal(await fails("10-none", "read_file", { path: "none" }), "Error: File not found");
assert.match(await fails("11-unknown", "launch_missiles", {}), /launch_missiles/);
assert.match(await fails("12-invalid", "read_file", { path: 123 }), /path/);
assert.match(await fails("13-list", "read_file", ["README.md"]), /object/);
assert.match(await fails("14-missing", "write_file", { path: "x" }), /content/);
await fails("15-up", "write_file", { path: "../outside", content: "overwritten" });
assert.equal(readFileSync(join(workspace, "../outside"), "utf8"), "mine\n");

// A connection that drops while a call runs; the worker does not ask again.
await send({
  type: "tool_call",
  tool: "run_command",
  id: "16-dropped",
  args: { command: "echo a >> effects; until [ -e go ]; do sleep 0.05; done; echo done" },
});
while (!existsSync(join(workspace, "effects"))) await new Promise((resolve) => setTimeout(resolve, 10));
socket.terminate();
await until("the end of it", () => socket.readyState !== 1);
appendFileSync(join(workspace, "go"), "");
assert.match((await answer("16-dropped")).output, /done/);

// One that drops right after a call was sent: it may not have arrived, so the worker asks until there is a result.
const risky = { type: "tool_call", tool: "run_command", id: "17-lost", args: { command: "echo b >> effects; echo done" } };
await send(risky);
socket.terminate();
await until("the end of it", () => socket.readyState !== 1);
await send(risky);
assert.match((await answer("17-lost")).output, /done/);

// One that drops as the result comes in: it is sent again, or was understood to have arrived; asking again tells.
const dated = { type: "tool_call", tool: "run_command", id: "18-cut", args: { command: "echo c >> effects; date +%s%N" } };
dropOn = "18-cut";
await send(dated);
await answer("18-cut");
await until("the end of it", () => socket.readyState !== 1);
await send(dated);
await until("the same result again", () => results.get("18-cut").length >= 2);

// The same id for something else.
await send({ type: "tool_call", tool: "run_command", id: "18-cut", args: { command: "echo d >> effects" } });
await until("word of the conflict", () => errors.some((frame) => frame.tool_call_id === "18-cut"));
// And frames that are none.
await send("no JSON");
await until("word of it", () => errors.some((frame) => /JSON/.test(frame.message)));

assert.equal(readFileSync(join(workspace, "effects"), "utf8"), "a\nb\nc\n", "each effect once");
for (const [id, frames] of results) {
  for (const frame of frames) assert.deepEqual(frame, frames[0], `${id} was answered in two ways`);
}
assert.equal(results.size, 18);
console.log("ok");
process.exit(0);
