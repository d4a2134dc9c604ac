// The caller of one device.

declare const process: { env: Record<string, string | undefined> } | undefined;

import { Backend, sleep } from "./backend.js";
import type { Functions } from "./contract.js";
import { PunieError } from "./error.js";
import { type Format, ToolResult } from "./result.js";
import { formatTool, type Tool, ToolNames } from "./tools.js";

/** A device that has not answered for so long may be away: that is looked up then, and again after this time. */
const PRESENCE_MS = [5_000, 30_000] as const;
/** A device is away when nothing was heard of it for so many beats. */
const BEATS_AWAY = 2.5;
const BEAT_MS = 60_000;
/** The time for the answer to a cancelled or late request. */
const LAST_WAIT_MS = 10_000;
/** A caller that listens to a call's output says so again after this time. */
const LISTEN_MS = 40_000;

export interface ConnectOptions {
  /** The backend's address; PUNIE_BACKEND_URL by default. */
  url?: string;
  /** The caller's token; PUNIE_CALLER_TOKEN by default. */
  token?: string;
  /** The device's id; PUNIE_DEVICE by default, else the one device that there is. */
  device?: string;
  /** Watch results over a WebSocket (the default), or poll. */
  subscribe?: boolean;
  fetch?: typeof fetch;
}

export interface ToolChoice {
  /** The tools to list, by name. All by default. */
  only?: readonly string[];
  /** Also list tools that are there only for agents which know their names from elsewhere. */
  compat?: boolean;
}

export interface CallOptions {
  /** Receives the output of a command while it runs. */
  onProgress?: (text: string) => void;
  /** Cancels the call on the device. */
  signal?: AbortSignal;
  /** The call's deadline from now, in milliseconds: the device does not begin it later, and stops it then. */
  deadlineMs?: number;
  /** The same id and arguments again are the same request, which runs once. */
  requestId?: string;
  /** Calls of one conversation run in order. By default each call is its own. */
  conversationId?: string;
  /** Wait for a device that is away. By default the call is cancelled, with the error DEVICE_OFFLINE. */
  waitOffline?: boolean;
}

export type Question = Functions["permissions:pending"]["returns"][number];
export type Answer = Functions["permissions:answer"]["returns"];

/** Connects to a backend, and finds the device. */
export async function connect(options: ConnectOptions = {}): Promise<Punie> {
  const variables = typeof process === "undefined" ? {} : process.env; // There is no process in a browser.
  const url = options.url ?? variables["PUNIE_BACKEND_URL"];
  const token = options.token ?? variables["PUNIE_CALLER_TOKEN"];
  const device = options.device ?? variables["PUNIE_DEVICE"];
  if (url === undefined || !/^https?:\/\//.test(url)) {
    throw new PunieError("BAD_SETTINGS", `${url === undefined ? "There is no address" : `${url} is no address`} of a backend. Set PUNIE_BACKEND_URL, for example to http://127.0.0.1:3210`);
  }
  if (!token) {
    throw new PunieError("BAD_SETTINGS", "There is no caller's token. Set PUNIE_CALLER_TOKEN; `punie-runner dev` prints the file that has it.");
  }
  const backend = new Backend({ url, token, subscribe: options.subscribe ?? true, fetch: options.fetch ?? fetch });
  return new Punie(backend, await chooseDevice(backend, device));
}

async function chooseDevice(backend: Backend, wanted: string | undefined): Promise<string> {
  const devices = await backend.call("devices:list", wanted === undefined ? {} : { deviceId: wanted }, { patienceMs: 0 });
  if (devices.length === 0) {
    const which = wanted === undefined ? "No device is" : `The device ${wanted} is not`;
    throw new PunieError("DEVICE_UNKNOWN", `${which} paired with ${backend.url}. On the computer with the tools: punie-runner pair CODE`);
  }
  const there = devices.filter((device) => !isAway(device, backend));
  const [one, other] = there.length > 0 ? there : devices;
  if (one !== undefined && other === undefined) return one.deviceId;
  const list = devices.map(({ deviceId, name }) => `${deviceId} (${name})`).join(", ");
  throw new PunieError("DEVICE_AMBIGUOUS", `There are several devices: ${list}. Name one by PUNIE_DEVICE.`);
}

function isAway(seen: { online: boolean; seenAtMs?: number; beatMs?: number }, backend: Backend): boolean {
  return !seen.online || backend.nowMs() - (seen.seenAtMs ?? 0) > BEATS_AWAY * (seen.beatMs ?? BEAT_MS);
}

/** A device's tools, results and questions. */
export class Punie {
  private names: ToolNames | undefined;

  constructor(
    readonly backend: Backend,
    readonly device: string,
  ) {}

  /** The device's tools, as it describes them. */
  async catalog(choice: ToolChoice = {}): Promise<Tool[]> {
    const items = await this.backend.call("catalog:list", { deviceId: this.device, kind: "tool" });
    const tools = items.map(({ body }) => JSON.parse(body) as Tool);
    this.names = new ToolNames(tools);
    const isWanted = ({ name, compat }: Tool): boolean => choice.only?.includes(name) ?? (choice.compat || !compat);
    return tools.filter(isWanted);
  }

  /** The device's tools, in the format of a model's interface. */
  // The libraries of the vendors have types of their own, which this one does not depend on.
  async tools(format: Format, choice: ToolChoice = {}): Promise<any[]> {
    const tools = await this.catalog(choice);
    const aliases = new Map([...(this.names?.entries() ?? [])].map(([alias, name]) => [name, alias]));
    return tools.map((tool) => formatTool(format, aliases.get(tool.name) ?? tool.name, tool));
  }

  /** Calls a tool and waits for its result. A tool that fails has a result too: look at `isError`. */
  async call(tool: string, args: Record<string, unknown> | string = {}, options: CallOptions = {}): Promise<ToolResult> {
    if (options.signal?.aborted) throw new PunieError("CANCELLED", `${tool} was cancelled before it was sent.`);
    const { requestId = newRequestId(), conversationId, deadlineMs } = options;
    const request = {
      requestId,
      deviceId: this.device,
      toolName: this.names?.ownName(tool) ?? tool,
      args: typeof args === "string" ? args : JSON.stringify(args),
      ...(conversationId !== undefined && { conversationId }),
      ...(deadlineMs !== undefined && { deadlineMs: this.backend.nowMs() + deadlineMs }),
      ...(options.onProgress !== undefined && { progress: true }),
    };
    try {
      await this.backend.call("events:appendRequest", request, { signal: options.signal });
    } catch (error) {
      if (!isCutShort(error, options.signal)) throw error;
      // The request may be stored: only its answer may be lost.
      await this.backend.call("events:cancel", { requestId }, { patienceMs: 0 }).catch(() => undefined);
      throw cancelled(requestId, error);
    }
    return await this.result(requestId, options);
  }

  /** Waits for the result of a request that was sent before. */
  async result(requestId: string, options: CallOptions = {}): Promise<ToolResult> {
    const done = new AbortController();
    const waits = [this.watchResult(requestId, done.signal), this.watchCancel(requestId, options.signal, done.signal)];
    if (!options.waitOffline) waits.push(this.watchPresence(requestId, done.signal));
    if (options.deadlineMs !== undefined) waits.push(this.watchDeadline(requestId, options.deadlineMs, done.signal));
    const progress = options.onProgress && this.followProgress(requestId, options.onProgress, done.signal);
    if (progress !== undefined) waits.push(progress.then(never));
    try {
      const result = await Promise.race(waits);
      done.abort();
      // The result has the output too, so nothing is lost with a last piece that cannot be fetched.
      await progress?.catch(ignorePunieError);
      return result;
    } catch (error) {
      if (isCutShort(error, options.signal)) throw cancelled(requestId, error);
      // The request is stored: the program may wait for its result again.
      throw error instanceof PunieError ? new PunieError(error.code, error.message, error.data, requestId) : error;
    } finally {
      done.abort();
    }
  }

  /** Cancels a request. What had been done by then is in its result. */
  async cancel(requestId: string): Promise<Functions["events:cancel"]["returns"]["state"]> {
    return (await this.backend.call("events:cancel", { requestId })).state;
  }

  /** The questions and approvals that wait for an answer at this device. The token must allow to approve. */
  async questions(): Promise<Question[]> {
    return this.withTimeLeft(await this.backend.call("permissions:pending", { deviceId: this.device }));
  }

  /** The open questions, each time that they change, until the signal is aborted. */
  async *watchQuestions(signal: AbortSignal): AsyncGenerator<Question[], void> {
    for await (const pending of this.backend.watch("permissions:pending", { deviceId: this.device }, signal)) {
      yield this.withTimeLeft(pending);
    }
  }

  private withTimeLeft(pending: Question[]): Question[] {
    return pending.filter(({ expiresAtMs }) => expiresAtMs > this.backend.nowMs());
  }

  /** Answers a question by one of its options; the option `text` takes a text. The first answer counts. */
  async answer(permissionId: string, optionId: string, text?: string): Promise<Answer> {
    return await this.backend.call("permissions:answer", { permissionId, optionId, ...(text !== undefined && { text }) });
  }

  /** Closes the WebSocket at once. Without it, that happens a few seconds after the last call. */
  async close(): Promise<void> {
    await this.backend.close();
  }

  private async watchResult(requestId: string, done: AbortSignal): Promise<ToolResult> {
    for await (const row of this.backend.watch("events:getResult", { requestId }, done)) {
      if (row !== null) return new ToolResult(row);
    }
    return await never();
  }

  private async watchCancel(requestId: string, signal: AbortSignal | undefined, done: AbortSignal): Promise<never> {
    if (signal === undefined) return await never();
    await aborted(AbortSignal.any([signal, done]));
    return await this.abandon(requestId, done, "CANCELLED", "was cancelled, and the device has not said what it had done");
  }

  private async watchDeadline(requestId: string, deadlineMs: number, done: AbortSignal): Promise<never> {
    await sleep(deadlineMs + LAST_WAIT_MS / 2, done);
    return await this.abandon(requestId, done, "TIMEOUT", `has no result after ${deadlineMs + LAST_WAIT_MS} ms`, LAST_WAIT_MS / 2);
  }

  private async watchPresence(requestId: string, done: AbortSignal): Promise<never> {
    let pause: number = PRESENCE_MS[0];
    for (;;) {
      await sleep(pause, done);
      pause = PRESENCE_MS[1];
      const seen = done.aborted ? null : await this.backend.call("devices:presence", { deviceId: this.device }, { signal: done });
      if (done.aborted || seen === null || isAway(seen, this.backend)) break;
    }
    return await this.abandon(requestId, done, "DEVICE_OFFLINE", `was cancelled: the device ${this.device} is away. Start punie-runner there`, 0);
  }

  /** Cancels a request and gives its result a last time to come; then it is an error. */
  private async abandon(requestId: string, done: AbortSignal, code: string, why: string, waitMs = LAST_WAIT_MS): Promise<never> {
    if (!done.aborted) await this.backend.call("events:cancel", { requestId }, { patienceMs: LAST_WAIT_MS, signal: done });
    await sleep(waitMs, done);
    if (done.aborted) return await never();
    throw new PunieError(code, `The request ${requestId} ${why}. It may have run: result("${requestId}") waits for its result again.`);
  }

  /** Hands over the output of a running command, to the last piece before its result. */
  private async followProgress(requestId: string, receive: (text: string) => void, done: AbortSignal): Promise<void> {
    let after: number | undefined;
    const args = (): { requestId: string; after?: number } => ({ requestId, ...(after !== undefined && { after }) });
    const hand = (pieces: Functions["events:listProgress"]["returns"]): boolean => {
      for (const { n, data } of pieces) {
        receive(pieceText(data));
        after = n;
      }
      return pieces.length > 0;
    };
    const follow = async (): Promise<void> => {
      while (!done.aborted) {
        for await (const pieces of this.backend.watch("events:listProgress", args(), done)) {
          if (hand(pieces)) break;
        }
      }
    };
    await Promise.all([this.keepListening(requestId, done), follow()]);
    while (hand(await this.backend.call("events:listProgress", args(), { patienceMs: LAST_WAIT_MS / 2 })));
  }

  private async keepListening(requestId: string, done: AbortSignal): Promise<void> {
    while (!done.aborted) {
      await sleep(LISTEN_MS, done);
      if (!done.aborted) await this.backend.call("events:watchProgress", { requestId }, { signal: done });
    }
  }
}

/** True for the error of a call that was not repeated any more since it was cancelled. */
function isCutShort(error: unknown, signal: AbortSignal | undefined): error is PunieError {
  return signal?.aborted === true && error instanceof PunieError && error.code === "UNREACHABLE";
}

function cancelled(requestId: string, { message }: PunieError): PunieError {
  const again = `result("${requestId}") waits for its result again.`;
  return new PunieError("CANCELLED", `The request ${requestId} was cancelled, but the device may not know. It may have run: ${again} ${message}`, {}, requestId);
}

function ignorePunieError(error: unknown): void {
  if (!(error instanceof PunieError)) throw error;
}

/** A promise that is never settled: what would settle it is over. */
function never(): Promise<never> {
  return new Promise(() => undefined);
}

/** The text of a piece of output, with a note on what was left out before it. */
function pieceText(data: string): string {
  let piece: { text?: string; omittedBytes?: number };
  try {
    piece = JSON.parse(data);
  } catch {
    return data;
  }
  const { text = "", omittedBytes = 0 } = piece;
  return omittedBytes > 0 ? `\n[${omittedBytes} bytes left out]\n${text}` : text;
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

/** A UUID of version 7: by its time the backend knows what it has long forgotten. */
function newRequestId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const time = Date.now().toString(16).padStart(12, "0");
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  const variant = "89ab"[(bytes[8] ?? 0) & 3];
  return `${time.slice(0, 8)}-${time.slice(8)}-7${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-${hex.slice(20)}`;
}
