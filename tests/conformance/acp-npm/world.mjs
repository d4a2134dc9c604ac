// A backend, devices that are paired with it, and what was started for them: all of it ends with `close`.

import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";

/** More than anything here takes on a slow machine under load. */
const PATIENCE = 60_000;

/** This, or an error that says what was waited for. */
export const within = (promise, what, ms = PATIENCE) => {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no ${what} within ${ms / 1000} s`)), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
};

/** A process whose end and whose words can be waited for. */
export class Program {
  stderr = "";
  stdout = "";

  constructor(program, args, options = {}) {
    this.child = spawn(program, args, { stdio: ["pipe", "pipe", "pipe"], ...options });
    this.child.stderr.setEncoding("utf8").on("data", (text) => (this.stderr = (this.stderr + text).slice(-20_000)));
    this.child.stdin.on("error", () => {});
    this.ended = new Promise((resolve, reject) => {
      this.child.on("error", reject);
      this.child.on("close", (code, signal) => resolve({ code, signal }));
    });
  }

  /** All that it says, until its end. */
  async whole(input = "") {
    this.child.stdout.setEncoding("utf8").on("data", (text) => (this.stdout += text));
    this.child.stdin.end(input);
    return { ...(await within(this.ended, "end of a process")), stdout: this.stdout, stderr: this.stderr };
  }

  kill(signal = "SIGKILL") {
    if (this.child.exitCode === null && this.child.signalCode === null) this.child.kill(signal);
  }
}

export class World {
  #folder = mkdtempSync(join(realpathSync(tmpdir()), "punie-acp-"));
  #programs = [];
  #devices = 0;

  constructor(binary) {
    this.binary = binary;
    // Also where the script itself fails.
    process.on("exit", () => this.#programs.forEach((program) => program.kill()));
  }

  /** Starts the backend. */
  static async open(binary) {
    const world = new World(binary);
    const home = ["--json", "--home", join(world.#folder, "backend"), "--log", "off"];
    const backend = world.start(["backend", ...home]);
    const lines = createInterface({ input: backend.child.stdout })[Symbol.asyncIterator]();
    world.backend = JSON.parse((await within(lines.next(), "backend")).value);
    const renewed = await world.start(["operator", "pairing", "renew", "--uses", "1000", "--minutes", "600", ...home]).whole();
    if (renewed.code !== 0) throw new Error(`pairing code: ${renewed.stderr}`);
    world.backend.pairingCode = JSON.parse(renewed.stdout).pairingCode;
    return world;
  }

  start(args, environment = {}) {
    // An editor that is started from a dock passes on little.
    const { PATH, HOME } = process.env;
    const program = new Program(this.binary, args, { cwd: "/", env: { PATH, HOME, ...environment } });
    this.#programs.push(program);
    return program;
  }

  /** A device with a workspace of its own; `editor` and the rest are lines of its configuration. */
  async device(editor = [], rest = []) {
    const name = join(this.#folder, `device-${(this.#devices += 1)}`);
    const device = new Device(this, join(name, "home"), join(name, "work"));
    for (const folder of [device.home, device.workspace]) mkdirSync(folder, { recursive: true });
    // A runner must not outlive the case that it belongs to.
    const lines = editor.some((line) => line.startsWith("linger_ms")) ? editor : [...editor, "linger_ms = 0"];
    const url = `[backend]\nurl = ${JSON.stringify(this.backend.url)}\n`;
    // Nothing confines commands in an editor's terminal.
    const sandbox = editor.includes("terminals = true") ? '[sandbox]\nrequire = "none"\n' : "";
    writeFileSync(join(device.home, "config.toml"), [url, sandbox, "[editor]", ...lines, ...rest, ""].join("\n"));
    const paired = this.start(["pair", this.backend.pairingCode, "--home", device.home, "--log", "off"], {
      PUNIE_WORKSPACE: device.workspace,
    });
    const { code, stdout, stderr } = await paired.whole();
    if (code !== 0) throw new Error(`pairing: ${stdout}${stderr}`);
    return device;
  }

  async close() {
    for (const program of this.#programs) program.kill();
    await Promise.all(this.#programs.map((program) => program.ended.catch(() => {})));
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

export class Device {
  constructor(world, home, workspace) {
    Object.assign(this, { world, home, workspace });
  }

  path(name) {
    return join(this.workspace, name);
  }

  /** A file on the disk; its path. */
  file(name, text) {
    writeFileSync(this.path(name), text);
    return this.path(name);
  }

  /** The caller asks this device for a tool; its answer. */
  async send(tool, args, conversation) {
    const words = ["send", tool, "-", "--json", "--wait", "60", "--home", this.home, "--log", "off"];
    if (conversation) words.push("--conversation", conversation);
    const asked = this.world.start(words, { PUNIE_CALLER_TOKEN: this.world.backend.callerToken });
    const { stdout, stderr } = await asked.whole(JSON.stringify(args));
    const line = stdout.trim().split("\n").at(-1);
    if (!line) throw new Error(`${tool}: ${stderr}`);
    return JSON.parse(line);
  }

  /** The owner's word, "allow" or "deny", to the next question that waits on the device; the question. */
  async answer(word) {
    const approvals = (...words) => this.world.start(["approvals", ...words, "--home", this.home, "--log", "off"]).whole();
    for (;;) {
      const [line] = (await approvals("--json")).stdout.split("\n");
      if (line) {
        const question = JSON.parse(line);
        await approvals(word, question.id);
        return question;
      }
      await pause(50);
    }
  }

  /** A runner in the background, which works with this home. */
  run() {
    return this.world.start(["run", "--home", this.home, "--workspace", this.workspace, "--log", "info"]);
  }
}
