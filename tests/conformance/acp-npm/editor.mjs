// An editor, by the library's own client side: buffers that may differ from the disk, a person who answers, terminals.
// What it is asked is kept, and what it answers can be replaced for a while.

import { spawn } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";
import { RequestError, client, methods, ndJsonStream } from "@agentclientprotocol/sdk";
import { Watch, tapped } from "./frames.mjs";
import { within } from "./world.mjs";

const { fs, session, terminal } = methods.client;

/** Says how it chose, by the kind of an option. */
export const choose = (kind) => ({ options }) => {
  const option = options.find((one) => one.kind === kind);
  return { outcome: { outcome: "selected", optionId: option?.optionId ?? kind } };
};

export const SERVES_ALL = { fs: { readTextFile: true, writeTextFile: true }, terminal: true };
export const SERVES_FILES = { fs: { readTextFile: true, writeTextFile: true }, terminal: false };
export const SERVES_NOTHING = { fs: { readTextFile: false, writeTextFile: false }, terminal: false };

let opened = 0;

export class Editor {
  /** Text that is in the editor and perhaps not on the disk. */
  buffers = new Map();
  terminals = new Map();
  /** {method, params}: all that it was asked and told. */
  seen = [];
  /** What is answered instead of the usual, by method. */
  instead = {};
  #waiting = new Set();

  constructor(device, program, watches) {
    Object.assign(this, { device, program });
    this.watch = new Watch(`connection ${(opened += 1)}`);
    watches.push(this.watch);
  }

  /** Starts the agent and introduces itself. */
  static async open(device, watches, { serves = SERVES_FILES, extensions = {}, ...environment } = {}) {
    const program = device.world.start(["acp", "--home", device.home, "--log", "info"], environment);
    const editor = new Editor(device, program, watches);
    editor.#connect(extensions);
    const clientInfo = { name: "peer", title: "Peer", version: "1" };
    const { PROTOCOL_VERSION: protocolVersion } = await import("@agentclientprotocol/sdk");
    editor.introduced = await editor.ask("initialize", { protocolVersion, clientInfo, clientCapabilities: serves });
    return editor;
  }

  #connect(extensions) {
    const app = client({ name: "peer" });
    const serve = (method, usual, parser) => {
      const handler = async ({ params, signal }) => {
        this.seen.push({ method, params });
        this.#stir();
        return (this.instead[method] ?? usual)(params, signal);
      };
      if (parser) app.onRequest(method, parser, handler);
      else app.onRequest(method, handler);
    };
    serve(fs.readTextFile, (params) => this.#read(params));
    serve(fs.writeTextFile, (params) => this.#write(params));
    serve(session.requestPermission, choose("allow_once"));
    serve(terminal.create, (params) => this.#create(params));
    serve(terminal.output, ({ terminalId }) => this.#terminal(terminalId).output());
    serve(terminal.waitForExit, ({ terminalId }) => this.#terminal(terminalId).ended);
    serve(terminal.kill, ({ terminalId }) => this.#terminal(terminalId).kill());
    serve(terminal.release, ({ terminalId }) => {
      this.#terminal(terminalId).kill();
      this.terminals.delete(terminalId);
      return {};
    });
    for (const [method, answer] of Object.entries(extensions)) serve(method, answer, (params) => params);
    app.onNotification(session.update, ({ params }) => {
      this.seen.push({ method: session.update, params });
      this.#stir();
    });
    const { stdin, stdout } = this.program.child;
    const output = tapped((frame) => this.watch.frame("editor", frame));
    const input = tapped((frame) => this.watch.frame("agent", frame));
    output.readable.pipeTo(Writable.toWeb(stdin)).catch(() => {});
    this.connection = app.connect(ndJsonStream(output.writable, Readable.toWeb(stdout).pipeThrough(input)));
    this.connection.closed.then(() => this.#stir(), () => this.#stir());
  }

  ask(method, params) {
    return within(this.connection.agent.request(method, params), `answer to ${method}`);
  }

  /** A session of the device's workspace. */
  async session(cwd = this.device.workspace) {
    const { sessionId } = await this.ask("session/new", { cwd, mcpServers: [] });
    return new Session(this, sessionId);
  }

  /** The frames of a method that came so far. */
  asked(method, from = 0) {
    return this.seen.slice(from).filter((one) => one.method === method).map((one) => one.params);
  }

  /** Waits until this is so; what it gave. */
  until(holds, what) {
    const looking = new Promise((resolve) => {
      const look = () => {
        const found = holds();
        if (!found) return;
        this.#waiting.delete(look);
        resolve(found);
      };
      this.#waiting.add(look);
      look();
    });
    return within(looking, what);
  }

  #stir() {
    for (const look of [...this.#waiting]) look();
  }

  /** Bytes as no library would send them. */
  raw(bytes) {
    return new Promise((resolve) => this.program.child.stdin.write(bytes, resolve));
  }

  /** The agent sees the end of its input; how it ended. */
  async close({ abruptly = false } = {}) {
    this.program.child.stdin.end();
    const ended = await within(this.program.ended, "end of the agent");
    this.watch.end({ abruptly });
    for (const one of this.terminals.values()) one.kill();
    return ended;
  }

  #read({ path, line, limit }) {
    const text = this.buffers.get(path) ?? (existsSync(path) ? readFileSync(path, "utf8") : undefined);
    if (text === undefined) throw RequestError.resourceNotFound(path);
    if (line == null && limit == null) return { content: text };
    const lines = text.split(/(?<=\n)/).slice((line || 1) - 1);
    return { content: lines.slice(0, limit ?? undefined).join("") };
  }

  #write({ path, content }) {
    this.buffers.set(path, content);
    writeFileSync(path, content);
    return {};
  }

  #create({ command, args = [], env = [], cwd, outputByteLimit }) {
    const terminalId = `t${this.terminals.size + 1}-${opened}`;
    // As some editors do: one line of words for a shell.
    const line = [command, ...args].join(" ");
    const variables = Object.fromEntries(env.map(({ name, value }) => [name, value]));
    const terminal = new Terminal(line, { ...process.env, ...variables }, cwd, outputByteLimit);
    terminal.child.stdout.on("data", () => this.#stir());
    this.terminals.set(terminalId, terminal);
    return { terminalId };
  }

  #terminal(id) {
    const found = this.terminals.get(id);
    if (!found) throw RequestError.resourceNotFound(id);
    return found;
  }
}

class Terminal {
  #kept = Buffer.alloc(0);
  #cut = false;
  #status = null;

  constructor(line, env, cwd, limit = Infinity) {
    this.child = spawn("/bin/sh", ["-c", line], { env, cwd, detached: true, stdio: ["ignore", "pipe", "pipe"] });
    const keep = (bytes) => {
      this.#kept = Buffer.concat([this.#kept, bytes]);
      if (this.#kept.length <= limit) return;
      this.#cut = true;
      this.#kept = this.#kept.subarray(this.#kept.length - limit);
    };
    this.child.stdout.on("data", keep);
    this.child.stderr.on("data", keep);
    this.ended = new Promise((resolve) => {
      this.child.on("close", (exitCode, signal) => resolve((this.#status = { exitCode, signal })));
    });
  }

  output() {
    const output = this.#kept.toString("utf8").replace(/^\uFFFD+/, "");
    return { output, truncated: this.#cut, ...(this.#status && { exitStatus: this.#status }) };
  }

  kill() {
    try {
      process.kill(-this.child.pid, "SIGKILL");
    } catch {
      // It has ended.
    }
    return {};
  }
}

/** A session of an editor's, and its turn. */
export class Session {
  constructor(editor, id) {
    Object.assign(this, { editor, id });
  }

  prompt(text, options) {
    const params = { sessionId: this.id, prompt: [{ type: "text", text }] };
    const asked = this.editor.connection.agent.request("session/prompt", params, options);
    // Whoever waits for it sees its error.
    asked.catch(() => {});
    return asked;
  }

  updates(from = 0) {
    return this.editor.asked(session.update, from).filter((one) => one.sessionId === this.id).map((one) => one.update);
  }

  said(from = 0) {
    const chunks = this.updates(from).filter((one) => one.sessionUpdate === "agent_message_chunk");
    return chunks.map((one) => one.content.text).join("");
  }

  /** Opens a turn for the backend's calls. */
  async attach(words = "attach", options = undefined) {
    const from = this.editor.seen.length;
    this.turn = this.prompt(words, options);
    await Promise.race([
      this.editor.until(() => this.said(from).includes("Attached"), "attached turn"),
      this.turn.then(() => Promise.reject(new Error(`the turn ended at once: ${this.said(from)}`))),
    ]);
    return this;
  }

  /** The person stops the turn; how it ended. */
  async cancel() {
    await this.editor.connection.agent.notify("session/cancel", { sessionId: this.id });
    return within(this.turn, "end of the turn");
  }

  /** The statuses that a call was shown with. */
  statuses(toolCallId) {
    const own = this.updates().filter((one) => one.toolCallId === toolCallId);
    return own.map((one) => one.status ?? (one.sessionUpdate === "tool_call" ? "pending" : null)).filter(Boolean);
  }
}
