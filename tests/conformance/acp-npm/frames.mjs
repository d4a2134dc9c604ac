// Every frame of a conversation, held against the published schema and against the rules between frames. Also a program:
// `node frames.mjs FILE` reads what another script recorded, a JSON line each: {"connection", "from", "frame"}.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import Ajv from "ajv/dist/2020.js";

const path = new URL("node_modules/@agentclientprotocol/sdk/schema/v1/schema.json", import.meta.url);
const schema = JSON.parse(readFileSync(path, "utf8"));
const ajv = new Ajv({ strict: false, validateFormats: false, allErrors: false, discriminator: false });
ajv.addSchema(schema, "acp");

/** What the schema has for a method: {"fs/read_text_file": {Request, Response}}. */
const methods = {};
for (const [name, definition] of Object.entries(schema.$defs)) {
  const kind = /(Request|Response|Notification)$/.exec(name)?.[1];
  if (definition["x-method"] && kind) {
    const fits = ajv.getSchema(`acp#/$defs/${name}`);
    const known = definition.properties && new Set(Object.keys(definition.properties));
    (methods[definition["x-method"]] ??= {})[kind] = { name, fits, known };
  }
}
const envelopes = { agent: 0, editor: 1 };
for (const [from, place] of Object.entries(envelopes)) envelopes[from] = ajv.getSchema(`acp#/anyOf/${place}`);
const errors = ajv.getSchema("acp#/$defs/Error");

const short = (value) => JSON.stringify(value)?.slice(0, 400);

/** One connection's frames: `from` is "agent" or "editor". Problems are gathered, not thrown. */
export class Watch {
  problems = [];
  count = 0;
  /** The codes of the answers to what could not be read. */
  unread = [];
  #asked = { agent: new Map(), editor: new Map() };
  #used = { agent: new Set(), editor: new Set() };
  #sessions = new Set();
  #calls = new Map();
  #turns = new Map();

  constructor(name) {
    this.name = name;
  }

  #bad(why, frame) {
    this.problems.push(`${this.name}: ${why}: ${short(frame)}`);
  }

  #fits(kind, value, frame) {
    if (!kind) return;
    if (!kind.fits(value)) {
      const [error] = kind.fits.errors;
      this.#bad(`no ${kind.name}: ${error.instancePath} ${error.message}`, frame);
    }
    const odd = Object.keys(value ?? {}).filter((key) => kind.known && !kind.known.has(key) && key !== "_meta");
    if (odd.length) this.#bad(`${kind.name} has no ${odd.join(", ")}`, frame);
  }

  /** A frame that was sent. */
  frame(from, frame) {
    this.count += 1;
    if (frame?.jsonrpc !== "2.0") this.#bad("no JSON-RPC 2.0", frame);
    if (!envelopes[from](frame) && !("method" in frame && frame.method.startsWith("$/"))) {
      this.#bad(`no message of the ${from}'s`, frame);
    }
    if ("method" in frame) this.#asks(from, frame);
    else this.#answers(from, frame);
  }

  #asks(from, frame) {
    const known = methods[frame.method];
    const isRequest = "id" in frame;
    if (isRequest) {
      if (this.#used[from].has(frame.id)) this.#bad("the id was used before", frame);
      this.#used[from].add(frame.id);
      this.#asked[from].set(frame.id, frame);
    }
    if (!known && from === "agent" && !/^(_|\$\/)/.test(frame.method)) this.#bad("no method of ACP", frame);
    this.#fits(known?.[isRequest ? "Request" : "Notification"], frame.params, frame);
    const session = frame.params?.sessionId;
    if (from === "editor" && frame.method === "session/prompt") this.#open(session, 1);
    if (from === "agent" && session !== undefined && !this.#sessions.has(session)) {
      this.#bad("the session was not answered yet", frame);
    }
    if (from === "agent" && frame.method === "session/update") this.#update(session, frame);
  }

  #answers(from, frame) {
    const other = from === "agent" ? "editor" : "agent";
    if ("error" in frame && !errors(frame.error)) this.#bad("no Error", frame);
    const asked = this.#asked[other].get(frame.id);
    if (!asked) {
      if (frame.id === null && frame.error) this.unread.push(frame.error.code);
      else this.#bad("it answers nothing", frame);
      return;
    }
    this.#asked[other].delete(frame.id);
    // The specification lets these be empty, and peers send null.
    const empty = ["fs/write_text_file", "terminal/kill", "terminal/release"].includes(asked.method);
    if ("result" in frame && !(empty && frame.result === null)) {
      this.#fits(methods[asked.method]?.Response, frame.result, frame);
    }
    if (from === "agent" && asked.method === "session/new" && frame.result) this.#sessions.add(frame.result.sessionId);
    if (from === "agent" && asked.method === "session/prompt") this.#open(asked.params.sessionId, -1);
  }

  /** A session may have more than one prompt under way. */
  #open(session, more) {
    this.#turns.set(session, (this.#turns.get(session) ?? 0) + more);
  }

  /** A tool call is shown before it is updated, goes only forwards, and has one end; all of it within a turn. Outside of
   * one there is only text: that a call waits for the owner. */
  #update(session, frame) {
    const update = frame.params.update;
    if (update.sessionUpdate === "available_commands_update") return;
    if (!this.#turns.get(session) && update.sessionUpdate !== "agent_message_chunk") this.#bad("an update outside a turn", frame);
    if (!update.sessionUpdate.startsWith("tool_call")) return;
    const order = ["pending", "in_progress", "completed", "failed"];
    const key = `${session} ${update.toolCallId}`;
    const before = this.#calls.get(key);
    if (update.sessionUpdate === "tool_call") {
      if (before) this.#bad("the call was shown before", frame);
      this.#calls.set(key, update.status ?? "pending");
      return;
    }
    if (!before) return this.#bad("the call was never shown", frame);
    if (before === "completed" || before === "failed") this.#bad("the call had ended", frame);
    if (!update.status) return;
    if (order.indexOf(update.status) < order.indexOf(before)) this.#bad(`it was ${before}`, frame);
    this.#calls.set(key, update.status);
  }

  /** The connection ended in order: every request of the editor's has its answer, every call its end. */
  end({ abruptly = false } = {}) {
    if (abruptly) return;
    for (const frame of this.#asked.editor.values()) this.#bad("it was never answered", frame);
    for (const [call, status] of this.#calls) {
      if (status !== "completed" && status !== "failed") this.#bad(`the call ${call} stayed ${status}`, null);
    }
  }
}

/** Passes bytes on and gives each whole line, read as JSON; what is none is not the library's. */
export const tapped = (give) => {
  const decoder = new TextDecoder();
  let rest = "";
  return new TransformStream({
    transform(bytes, controller) {
      const lines = (rest + decoder.decode(bytes, { stream: true })).split("\n");
      rest = lines.pop();
      for (const line of lines.filter((one) => one.trim())) give(JSON.parse(line));
      controller.enqueue(bytes);
    },
  });
};

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const watches = new Map();
  let count = 0;
  for (const line of readFileSync(process.argv[2], "utf8").split("\n").filter(Boolean)) {
    const { connection, from, frame, end } = JSON.parse(line);
    if (!watches.has(connection)) watches.set(connection, new Watch(connection));
    const watch = watches.get(connection);
    if (end) watch.end(end);
    else watch.frame(from, frame);
    count += end ? 0 : 1;
  }
  const problems = [...watches.values()].flatMap((watch) => watch.problems);
  for (const problem of problems) console.log(`not ok ${problem}`);
  console.log(`${count} frames of ${watches.size} connections, ${problems.length} problems`);
  process.exit(problems.length || count === 0 ? 1 : 0);
}
