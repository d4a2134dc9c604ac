// Starts the processes that the tests of the client libraries need, and ends them.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { PassThrough } from "node:stream";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("..", import.meta.url));
const children = [];
process.once("exit", () => children.forEach((child) => child.kill()));

/** Starts a process and returns the first group of what its output is searched for. */
export async function start(command, args, found, env = {}) {
  const child = spawn(command, args, { cwd: root, env: { ...process.env, ...env } });
  children.push(child);
  const output = new PassThrough();
  child.stdout.pipe(output);
  child.stderr.pipe(output);
  child.once("exit", () => output.end());
  let text = "";
  for await (const bytes of output.iterator({ destroyOnReturn: false })) {
    text += bytes;
    const match = found.exec(text);
    if (match === null) continue;
    output.resume();
    return match[1];
  }
  throw new Error(`${command} ${args.join(" ")} ended before it was ready: ${text}`);
}

export async function stopAll() {
  const running = children.filter((child) => child.exitCode === null && child.signalCode === null);
  const ended = running.map((child) => once(child, "exit"));
  running.forEach((child) => child.kill());
  await Promise.all(ended);
}

/** Starts a server of the functions in convex/; returns its address. */
export const startFunctions = () => start("node", ["convex/test/server.mjs"], /"url":"([^"]+)"/, { PORT: "0" });

export async function post(url, route, body, headers = {}) {
  const options = { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json", ...headers } };
  return await (await fetch(`${url}${route}`, options)).json();
}
