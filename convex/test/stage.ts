// What the tests share: an empty backend, and the parties that call it. Real signatures, real hashes.

import { convexTest } from "convex-test";
import { vi } from "vitest";

import { api, internal } from "../functions/_generated/api";
import schema from "../functions/schema";
import { hex, sha256, utf8 } from "../functions/wire/text";

export const modules = import.meta.glob("../functions/**/*.*s");

export const BEGIN_MS = 1_763_000_000_000;

/** An empty backend on a clock that stands still; tests move it. */
export async function stage() {
  vi.useFakeTimers({ now: BEGIN_MS, toFake: ["Date", "setTimeout"] });
  const t = convexTest({ schema, modules, transactionLimits: true });
  const { callerToken } = await t.action(internal.callers.mint, { name: "test", may: "both" });
  const { pairingCode } = await t.action(internal.pairing.renew, { uses: 100, minutes: 10_080 });
  return { t, callerToken, pairingCode };
}
export type Stage = Awaited<ReturnType<typeof stage>>;

const base64 = (bytes: ArrayBuffer): string => btoa(String.fromCharCode(...new Uint8Array(bytes)));

/** A device that opened its first session. */
export async function pair({ t, pairingCode }: Stage, deviceId = "dev-1") {
  const keys = (await crypto.subtle.generateKey({ name: "Ed25519" }, true, ["sign", "verify"])) as CryptoKeyPair;
  const sign = async (text: string) => base64(await crypto.subtle.sign({ name: "Ed25519" }, keys.privateKey, utf8(text)));
  const publicKey = base64(await crypto.subtle.exportKey("raw", keys.publicKey));
  const token = hex(crypto.getRandomValues(new Uint8Array(16)));
  const tokenHash = await sha256(token);
  const signedAtMs = Date.now();
  const signature = await sign(`punie-session:v1:${deviceId}:${signedAtMs}:${tokenHash}`);
  const session = { deviceId, publicKey, name: "a laptop", platform: "linux", signedAtMs, tokenHash, signature };
  await t.mutation(api.devices.openSession, { ...session, pairingCode });
  return { D: { deviceId, token }, sign, session };
}

/** Requests under these ids. */
export async function append({ t, callerToken }: Stage, requestIds: string[], more: { deadlineMs?: number } = {}) {
  for (const requestId of requestIds) {
    const asked = { callerToken, requestId, deviceId: "dev-1", toolName: "Read", args: "{}", ...more };
    await t.mutation(api.events.appendRequest, asked);
  }
}

/** Lets the clock go on, and what was scheduled run. */
export async function later({ t }: Stage, ms: number): Promise<void> {
  vi.setSystemTime(Date.now() + ms);
  await t.finishAllScheduledFunctions(vi.runAllTimers);
}
