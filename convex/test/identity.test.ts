// Who is let in: minted tokens, identities of a provider, pairing codes; and what is kept of them.

import { afterEach, expect, test, vi } from "vitest";

import { api, internal } from "../functions/_generated/api";
import { append, pair, stage } from "./stage";

afterEach(() => {
  vi.useRealTimers();
});

const ALICE = { issuer: "https://id.example", subject: "alice", tokenIdentifier: "https://id.example|alice" };

test("an identity asks once the operator has allowed it, and a stranger's does not", async () => {
  const s = await stage();
  await pair(s);
  await append(s, ["r"]);
  const alice = s.t.withIdentity(ALICE);
  const refused = { data: { code: "CALLER_UNAUTHORIZED" } };
  await expect(alice.query(api.events.getResult, { requestId: "r" })).rejects.toMatchObject(refused);
  await s.t.mutation(internal.callers.allow, { name: "alice", tokenIdentifier: ALICE.tokenIdentifier, may: "both" });
  expect(await alice.query(api.events.getResult, { requestId: "r" })).toBeNull();
  expect(await alice.mutation(api.events.cancel, { requestId: "r" })).toEqual({ state: "cancelling" });
  expect(await alice.query(api.permissions.pending, {})).toEqual([]);
  expect(await alice.query(api.catalog.list, { deviceId: "dev-1", kind: "tool" })).toEqual([]);
  const mallory = s.t.withIdentity({ ...ALICE, subject: "mallory", tokenIdentifier: "https://id.example|mallory" });
  await expect(mallory.query(api.events.getResult, { requestId: "r" })).rejects.toMatchObject(refused);
  await expect(s.t.query(api.events.getResult, { requestId: "r" })).rejects.toMatchObject(refused);
});

test("an identity that may approve asks for nothing, and one that may ask approves nothing", async () => {
  const s = await stage();
  const refused = { data: { code: "CALLER_UNAUTHORIZED" } };
  const alice = s.t.withIdentity(ALICE);
  await s.t.mutation(internal.callers.allow, { name: "alice", tokenIdentifier: ALICE.tokenIdentifier, may: "approve" });
  expect(await alice.query(api.permissions.pending, {})).toEqual([]);
  await expect(alice.query(api.events.getResult, { requestId: "r" })).rejects.toMatchObject(refused);
  const narrowed = { name: "alice", tokenIdentifier: ALICE.tokenIdentifier, may: "ask" as const };
  expect(await s.t.mutation(internal.callers.allow, narrowed)).toEqual(narrowed);
  expect(await alice.query(api.events.getResult, { requestId: "r" })).toBeNull();
  await expect(alice.query(api.permissions.pending, {})).rejects.toMatchObject(refused);
  expect(await s.t.query(internal.callers.list, {})).toMatchObject([{ name: "alice", may: "ask" }, { name: "test" }]);
});

test("an identity that is allowed again has what was said last", async () => {
  const s = await stage();
  const alice = s.t.withIdentity(ALICE);
  const { tokenIdentifier } = ALICE;
  const allow = async (more: { name: string; may?: "both" }) =>
    await s.t.mutation(internal.callers.allow, { tokenIdentifier, ...more });
  expect(await allow({ name: "alice", may: "both" })).toEqual({ name: "alice", tokenIdentifier });
  expect(await alice.query(api.permissions.pending, {})).toEqual([]);
  expect(await allow({ name: "alice of the field" })).toEqual({ name: "alice of the field", tokenIdentifier, may: "ask" });
  const refused = { data: { code: "CALLER_UNAUTHORIZED" } };
  await expect(alice.query(api.permissions.pending, {})).rejects.toMatchObject(refused);
  expect(await s.t.query(internal.callers.list, {})).toMatchObject([{ name: "alice of the field" }, { name: "test" }]);
  expect(await s.t.mutation(internal.callers.revoke, { name: "alice" })).toEqual({ revoked: 0 });
});

test("a wrong token is not saved by an identity", async () => {
  const s = await stage();
  await s.t.mutation(internal.callers.allow, { name: "alice", tokenIdentifier: ALICE.tokenIdentifier });
  const asked = s.t.withIdentity(ALICE).query(api.devices.list, { callerToken: "wrong" });
  await expect(asked).rejects.toMatchObject({ data: { code: "CALLER_UNAUTHORIZED" } });
});

test("a revoked caller is out at once, and the others stay", async () => {
  const s = await stage();
  const other = await s.t.action(internal.callers.mint, { name: "other" });
  expect(await s.t.query(internal.callers.list, {})).toMatchObject([{ name: "other" }, { name: "test" }]);
  expect(await s.t.mutation(internal.callers.revoke, { name: "test" })).toEqual({ revoked: 1 });
  const asked = s.t.query(api.devices.list, { callerToken: s.callerToken });
  await expect(asked).rejects.toMatchObject({ data: { code: "CALLER_UNAUTHORIZED" } });
  expect(await s.t.query(api.devices.list, { callerToken: other.callerToken })).toEqual([]);
});

test("no secret is kept as it is", async () => {
  const s = await stage();
  const { D } = await pair(s);
  const kept = await s.t.run(async (ctx) => {
    const tables = ["callers", "pairing", "devices"] as const;
    return JSON.stringify(await Promise.all(tables.map((table) => ctx.db.query(table).collect())));
  });
  for (const secret of [s.callerToken, s.pairingCode, D.token]) expect(kept).not.toContain(secret);
});

test("a renewed pairing code replaces the old, and a closed one lets nobody in", async () => {
  const s = await stage();
  const { pairingCode } = await s.t.action(internal.pairing.renew, {});
  const out = { data: { code: "PAIRING_REQUIRED" } };
  await expect(pair(s)).rejects.toMatchObject(out);
  await pair({ ...s, pairingCode });
  await s.t.mutation(internal.pairing.close, {});
  await expect(pair({ ...s, pairingCode }, "dev-2")).rejects.toMatchObject(out);
});

test("a pairing code from before its terms is good no more", async () => {
  const s = await stage();
  await s.t.run(async (ctx) => {
    const [row] = await ctx.db.query("pairing").collect();
    if (row) await ctx.db.patch(row._id, { expiresAtMs: undefined, usesLeft: undefined });
  });
  await expect(pair(s)).rejects.toMatchObject({ data: { code: "PAIRING_REQUIRED" } });
});

test("a revoked device is out, cannot come back, and gets no requests", async () => {
  const s = await stage();
  const { D, session } = await pair(s);
  expect(await s.t.mutation(internal.devices.revoke, { deviceId: "dev-1" })).toEqual({ revoked: true });
  expect(await s.t.mutation(internal.devices.revoke, { deviceId: "dev-9" })).toEqual({ revoked: false });
  const out = { data: { code: "DEVICE_UNAUTHORIZED" } };
  await expect(s.t.query(api.events.head, D)).rejects.toMatchObject(out);
  await expect(s.t.mutation(api.devices.openSession, session)).rejects.toMatchObject(out);
  await expect(append(s, ["r"])).rejects.toMatchObject(out);
  expect(await s.t.query(api.devices.list, { callerToken: s.callerToken })).toEqual([]);
});
