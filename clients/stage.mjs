// Runs a command with what the tests of the client libraries need: a device at the embedded backend and one at the
// functions of convex/, each with another that is away, and a backend without a device. STAGE in the command's
// environment says in JSON where they are. Usage: node stage.mjs COMMAND...
// The program is the one in target/debug, or the one that RUNNER_PROGRAM names.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, existsSync, rmSync } from "node:fs";
import { mkdir, mkdtemp, readFile, writeFile } from "node:fs/promises";
import net from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";

import { post, root, start, startFunctions, stopAll } from "./processes.mjs";

const program = process.env.RUNNER_PROGRAM ?? path.join(process.env.CARGO_TARGET_DIR ?? path.join(root, "target"), "debug/punie-runner");
if (!existsSync(program)) throw new Error(`${program} is not there: cargo build, or set RUNNER_PROGRAM`);
const folder = await mkdtemp(path.join(tmpdir(), "punie-clients-"));
process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(1));

/** Starts the runner. Of the real home, it would copy the toolchains' caches for its commands. */
const startRunner = (args, found) => start(program, args, found, { HOME: folder, CARGO_HOME: undefined });

/** Commands that begin so are asked about. */
const POLICY = '[[rule]]\nname = "asked"\ndecision = "ask"\ncommand = ["touch", "approved"]\n';
/** This server holds no polls and wakes nobody: the device asks often. */
const CONFIG = "[backend.poll]\nactive_ms = 200\nrecent_ms = 200\nidle_ms = 200\n";
const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAQAAAAECAIAAAAmkwkpAAAAEElEQVR4nGP4z8AARwzEcQCukw/x0F8jngAAAABJRU5ErkJggg==";

/** A home and a workspace of its own. */
async function makeHome(name) {
  const [home, workspace] = [path.join(folder, name, "home"), path.join(folder, name, "work")];
  await mkdir(home, { recursive: true, mode: 0o700 });
  await mkdir(workspace, { recursive: true });
  await writeFile(path.join(home, "policy.toml"), POLICY, { mode: 0o600 });
  await writeFile(path.join(home, "config.toml"), CONFIG, { mode: 0o600 });
  await writeFile(path.join(workspace, "dot.png"), Buffer.from(PNG, "base64"));
  return { home, workspace };
}

/** Pairs the device of a home; returns its id. */
async function pair(pairingCode, args) {
  return await startRunner(["pair", pairingCode, ...args], /\(([0-9a-f-]{36})\) is paired/);
}

async function embedded() {
  const { home, workspace } = await makeHome("embedded");
  const args = ["dev", "--port", "0", "--home", home, "--workspace", workspace];
  const url = await startRunner(args, /^Backend +(http\S+)[^]*catalog is published/m);
  const tokens = path.join(home, "tokens", new URL(url).host.replace(":", "_"));
  const read = async (name) => (await readFile(path.join(tokens, name), "utf8")).trim();
  const [token, adminKey] = [await read("approver"), await read("admin")];
  return { url, workspace, token, adminKey, away: await pairAway("embedded", url, await renewCode(url, adminKey)) };
}

/** Makes a pairing code for two devices. */
async function renewCode(url, adminKey) {
  const renew = { path: "pairing:renew", args: { uses: 2 }, format: "json" };
  const { value } = await post(url, "/api/function", renew, { authorization: `Convex ${adminKey}` });
  return value.pairingCode;
}

/** Pairs a device that never runs. */
async function pairAway(name, url, pairingCode) {
  const { home, workspace } = await makeHome(`${name}-away`);
  return await pair(pairingCode, ["--home", home, "--workspace", workspace, "--backend-url", url]);
}

/** Lets the server's clock, which stands still, go on like this one. */
async function followClock(url) {
  let { nowMs } = await post(url, "/shim/clock", { advanceMs: 0 });
  const follow = async () => ({ nowMs } = await post(url, "/shim/clock", { advanceMs: Date.now() - nowMs }));
  await follow();
  setInterval(() => follow().catch(() => undefined), 200).unref();
}

async function hosted() {
  const { home, workspace } = await makeHome("hosted");
  const url = await startFunctions();
  const { callerToken, adminKey } = await post(url, "/shim/reset", {});
  await followClock(url);
  const pairingCode = await renewCode(url, adminKey);
  const args = ["--home", home, "--workspace", workspace, "--backend-url", url];
  await pair(pairingCode, args);
  await startRunner(["run", ...args], /catalog is published/);
  return { url, workspace, token: callerToken, adminKey, away: await pairAway("hosted", url, pairingCode) };
}

/**
 * Passes bytes on, but cuts the connection in place of the first answer to a request with a word that begins with
 * `lost-`, and writes that word to a file.
 */
async function cutOnce(url, file) {
  const { hostname, port } = new URL(url);
  const cut = new Set();
  const server = net.createServer((client) => {
    const backend = net.connect(Number(port), hostname);
    let word;
    client.on("data", (bytes) => {
      word = /events:appendRequest/.test(bytes) ? /lost-\w+/.exec(bytes)?.[0] : undefined;
      backend.write(bytes);
    });
    backend.on("data", (bytes) => {
      if (word === undefined || cut.has(word)) {
        client.write(bytes);
        return;
      }
      cut.add(word);
      appendFileSync(file, `${word}\n`);
      client.destroy();
      backend.destroy();
    });
    for (const [one, other] of [[client, backend], [backend, client]]) {
      one.on("error", () => other.destroy());
      one.on("close", () => other.end());
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return `http://127.0.0.1:${server.address().port}`;
}

try {
  const [here, there, other] = await Promise.all([embedded(), hosted(), startFunctions()]);
  const empty = { url: other, token: (await post(other, "/shim/reset", {})).callerToken };
  const cuts = path.join(folder, "cuts");
  for (const backend of [here, there]) backend.cutUrl = await cutOnce(backend.url, cuts);
  const env = { ...process.env, STAGE: JSON.stringify({ backends: { embedded: here, hosted: there }, empty, cuts }) };
  const [command, ...args] = process.argv.slice(2);
  [process.exitCode] = await once(spawn(command, args, { env, stdio: "inherit" }), "exit");
} finally {
  await stopAll();
}
process.exit();
