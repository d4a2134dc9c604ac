// Calls of the backend's functions: over HTTP, and over a WebSocket where values are watched.

import { ConvexClient } from "convex/browser";
import { makeFunctionReference } from "convex/server";

import { type Functions, KINDS, type Path } from "./contract.js";
import { PunieError, refusal } from "./error.js";

/** The time within which calls are repeated while the backend does not answer. */
const PATIENCE_MS = 30_000;
const ATTEMPT_MS = 30_000;
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;
/** The pause between polls while a subscription is there: the poll finds what a broken socket hides. */
const SUBSCRIBED_PAUSE_MS = 30_000;
/** A socket without subscriptions is closed after this time, so that a process can end. */
const IDLE_MS = 5_000;
/** The precision of the time in a reply's header: clocks that differ by little more are the same. */
const DATE_STEP_MS = 1_000;

export interface BackendSettings {
  url: string;
  token: string;
  /** Without it, values are polled. */
  subscribe: boolean;
  fetch: typeof fetch;
}

export interface Repeats {
  /** The time within which a call without an answer is repeated. */
  patienceMs?: number;
  /** Ends the repeats. */
  signal?: AbortSignal | undefined;
}

type Args<P extends Path> = Functions[P]["args"];
type Returns<P extends Path> = Functions[P]["returns"];

/** Completes after this time, or as soon as the signal is aborted. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    if (signal?.aborted) end();
    else signal?.addEventListener("abort", end);
  });
}

interface Reply {
  status?: string;
  value?: unknown;
  errorMessage?: string;
  errorData?: Record<string, unknown>;
  message?: string;
}

/** The reply of a backend, or undefined for the text of another server. */
function parseReply(text: string): Reply | undefined {
  try {
    const reply: unknown = JSON.parse(text);
    return typeof reply === "object" && reply !== null && !Array.isArray(reply) ? reply : undefined;
  } catch {
    return undefined;
  }
}

export class Backend {
  readonly url: string;
  /** The backend's clock less this one's. */
  private offsetMs = 0;
  private socket: ConvexClient | undefined;
  private subscriptions = 0;
  private idle: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly settings: BackendSettings) {
    this.url = settings.url.replace(/\/+$/, "");
  }

  /** The time by the backend's clock. */
  nowMs(): number {
    return Date.now() + this.offsetMs;
  }

  /**
   * Calls a function. A call without an answer is repeated, until the signal is aborted: every function counts once,
   * however often it is called with the same arguments.
   */
  async call<P extends Path>(path: P, args: Args<P>, repeats: Repeats = {}): Promise<Returns<P>> {
    const { patienceMs = PATIENCE_MS, signal } = repeats;
    const body = JSON.stringify({ path, format: "json", args: { ...args, callerToken: this.settings.token } });
    const until = Date.now() + patienceMs;
    for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(2 * pause, LONGEST_PAUSE_MS)) {
      try {
        return await this.post(`${this.url}/api/${KINDS[path]}`, body, path);
      } catch (error) {
        if (!(error instanceof PunieError) || error.code !== "UNREACHABLE" || Date.now() + pause > until) throw error;
        await sleep(pause, signal);
        if (signal?.aborted) throw error;
      }
    }
  }

  private async post<P extends Path>(address: string, body: string, path: P): Promise<Returns<P>> {
    let status: number;
    let text: string;
    try {
      const headers = { "content-type": "application/json" };
      const signal = AbortSignal.timeout(ATTEMPT_MS);
      const { fetch } = this.settings;
      const reply = await fetch(address, { method: "POST", headers, body, signal });
      const date = Date.parse(reply.headers.get("date") ?? "");
      const offsetMs = date + DATE_STEP_MS / 2 - Date.now();
      if (!Number.isNaN(offsetMs)) this.offsetMs = Math.abs(offsetMs) > 2 * DATE_STEP_MS ? offsetMs : 0;
      status = reply.status;
      text = await reply.text();
    } catch (error) {
      const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
      throw this.unreachable(cause instanceof Error ? cause.message : String(cause));
    }
    const reply = parseReply(text);
    if (reply === undefined) {
      if (status === 429 || status >= 500) throw this.unreachable(`HTTP ${status}`);
      throw new PunieError("BAD_SETTINGS", `${this.url} is no backend of punie-runner (HTTP ${status}). Check PUNIE_BACKEND_URL.`);
    }
    if (reply.status === "success") return reply.value as Returns<P>;
    if (reply.status === "error") throw refusal(reply.errorData, reply.errorMessage ?? text, path);
    if (status === 429 || status >= 500) throw this.unreachable(`HTTP ${status}`);
    throw refusal(undefined, reply.message ?? text, path);
  }

  private unreachable(cause: string): PunieError {
    const advice = "Check PUNIE_BACKEND_URL, and that the backend runs; to start one here: punie-runner dev --port 3210";
    return new PunieError("UNREACHABLE", `The backend at ${this.url} does not answer (${cause}). ${advice}`);
  }

  /** The values of a query, as they change, until the signal is aborted. */
  async *watch<P extends Path>(path: P, args: Args<P>, signal: AbortSignal): AsyncGenerator<Returns<P>, void> {
    const news: Array<{ value: Returns<P> } | { error: unknown }> = [];
    let wake = new AbortController();
    const receive = (one: (typeof news)[number]): void => {
      news.push(one);
      wake.abort();
    };
    const unsubscribe = this.subscribe(path, args, receive);
    const end = (): void => wake.abort();
    signal.addEventListener("abort", end);
    try {
      let pause = FIRST_PAUSE_MS;
      let heard = false;
      while (!signal.aborted) {
        const next = news.shift();
        if (next !== undefined) {
          heard = true;
          if ("error" in next) throw next.error;
          yield next.value;
          continue;
        }
        wake = new AbortController();
        // A socket that does not open at once is not waited for.
        const ms = unsubscribe === undefined ? pause : heard ? SUBSCRIBED_PAUSE_MS : LONGEST_PAUSE_MS;
        await sleep(ms, wake.signal);
        pause = Math.min(1.5 * pause, LONGEST_PAUSE_MS);
        if (news.length > 0 || signal.aborted) continue;
        try {
          yield await this.call(path, args, { signal });
        } catch (error) {
          if (!signal.aborted) throw error;
        }
      }
    } finally {
      signal.removeEventListener("abort", end);
      unsubscribe?.();
    }
  }

  private subscribe<P extends Path>(
    path: P,
    args: Args<P>,
    receive: (one: { value: Returns<P> } | { error: unknown }) => void,
  ): (() => void) | undefined {
    if (!this.settings.subscribe) return undefined;
    this.socket ??= new ConvexClient(this.url, { logger: false, skipConvexDeploymentUrlCheck: true });
    const query = makeFunctionReference<"query", Record<string, unknown>, Returns<P>>(path);
    const fail = (error: Error & { data?: Record<string, unknown> }): void => receive({ error: refusal(error.data, error.message, path) });
    const full = { ...args, callerToken: this.settings.token };
    const unsubscribe = this.socket.onUpdate(query, full, (value) => receive({ value }), fail);
    this.subscriptions += 1;
    clearTimeout(this.idle);
    return () => {
      unsubscribe();
      this.subscriptions -= 1;
      if (this.subscriptions === 0) this.idle = setTimeout(() => void this.close(), IDLE_MS);
    };
  }

  async close(): Promise<void> {
    clearTimeout(this.idle);
    const { socket } = this;
    this.socket = undefined;
    await socket?.close();
  }
}
