// What the cases of tests/contract cannot say: several rows in one transaction, parallel calls on one database, and
// what a row may hold. The rest of the contract is tested there.

import { afterEach, describe, expect, test, vi } from "vitest";

import { api } from "../functions/_generated/api";
import { append, pair, stage } from "./stage";

afterEach(() => {
  vi.useRealTimers();
});

describe("parallel appends", () => {
  test("of one id make one row", async () => {
    const s = await stage();
    const { D } = await pair(s);
    const asked = { callerToken: s.callerToken, requestId: "r", deviceId: "dev-1", toolName: "Read", args: "{}" };
    const replies = await Promise.all(Array.from({ length: 8 }, () => s.t.mutation(api.events.appendRequest, asked)));
    expect(replies.filter((reply) => reply.created)).toHaveLength(1);
    expect(await s.t.run(async (ctx) => (await ctx.db.query("requests").collect()).length)).toBe(1);
    const page = await s.t.query(api.events.listForDevice, { ...D, cursor: null });
    expect(page.events).toHaveLength(1);
  });
});

describe("a cursor", () => {
  /** Transactions of these sizes. */
  async function committed(sizes: number[]) {
    const s = await stage();
    const { D } = await pair(s);
    for (const [commit, size] of sizes.entries()) {
      await s.t.run(async (ctx) => {
        for (let row = 0; row < size; row += 1) {
          const seq = ctx.db.vars.commitTs;
          await ctx.db.insert("inbox", { deviceId: "dev-1", seq, type: "tool_cancel", requestId: `r${commit}-${row}` });
        }
      });
    }
    return { s, D };
  }

  test.each([
    [[1, 1, 1], 1],
    [[3, 1, 2], 2],
    [[2, 2, 2], 3],
    [[5, 1], 2],
    [[1, 5, 1], 4],
  ])("over commits of %j rows in pages of %i splits none and skips none", async (sizes, limit) => {
    const { s, D } = await committed(sizes);
    const seen: string[] = [];
    let cursor: string | null = null;
    for (let page = 0; page <= sizes.length; page += 1) {
      const reply: { events: { requestId: string; seq: string }[]; cursor: string | null; isDone: boolean } =
        await s.t.query(api.events.listForDevice, { ...D, cursor, limit });
      const commits = new Set(reply.events.map(({ seq }) => seq));
      for (const { seq } of reply.events) expect(seq === cursor).toBe(false);
      expect(reply.events.length <= limit || commits.size === 1).toBe(true);
      seen.push(...reply.events.map(({ requestId }) => requestId));
      cursor = reply.cursor;
      if (reply.isDone) break;
    }
    const all = sizes.flatMap((size, commit) => Array.from({ length: size }, (_, row) => `r${commit}-${row}`));
    expect(seen).toEqual(all);
  });

  test("counts commits, not the wall clock", async () => {
    const s = await stage();
    const { D } = await pair(s);
    await append(s, ["r1"]);
    const { cursor } = await s.t.query(api.events.listForDevice, { ...D, cursor: null });
    vi.setSystemTime(Date.now() - 3_600_000);
    await append(s, ["r2"]);
    const page = await s.t.query(api.events.listForDevice, { ...D, cursor });
    expect(page.events.map(({ requestId }) => requestId)).toEqual(["r2"]);
  });
});

test("the largest request fits its row, and a claim does not write it again", async () => {
  const s = await stage();
  const { D } = await pair(s);
  const args = "x".repeat(900 * 1024);
  const asked = { callerToken: s.callerToken, requestId: "r", deviceId: "dev-1", toolName: "Write", args };
  await s.t.mutation(api.events.appendRequest, asked);
  await s.t.mutation(api.events.claim, { ...D, requestId: "r", leaseId: "a" });
  const [request] = await s.t.run(async (ctx) => await ctx.db.query("requests").collect());
  expect(JSON.stringify({ ...request, seq: 0 }).length).toBeLessThan(1024);
  expect(await s.t.query(api.events.listOpen, D)).toMatchObject([{ args, attempt: 1 }]);
});

test("a heartbeat writes nothing that a poll reads", async () => {
  const s = await stage();
  const { sign } = await pair(s);
  const before = await s.t.run(async (ctx) => await ctx.db.query("devices").collect());
  const signedAtMs = Date.now();
  const signature = await sign(`dev-1:${signedAtMs}`);
  await s.t.mutation(api.devices.heartbeat, { deviceId: "dev-1", signedAtMs, signature });
  expect(await s.t.run(async (ctx) => await ctx.db.query("devices").collect())).toEqual(before);
});

test("a thousand devices with full health are listed within the limits of one query", async () => {
  const s = await stage();
  // Full is as much as a beat is let in with.
  const { D, sign } = await pair(s);
  const beat = async (bytes: number) => {
    vi.setSystemTime(Date.now() + 1);
    const signedAtMs = Date.now();
    const signature = await sign(`${D.deviceId}:${signedAtMs}`);
    const health = "x".repeat(bytes);
    return await s.t.mutation(api.devices.heartbeat, { deviceId: D.deviceId, signedAtMs, signature, health });
  };
  const refused = { data: { code: "TOO_LARGE", limit: expect.any(Number) } };
  const { limit } = await beat(1024 * 1024).then(
    () => ({ limit: 0 }),
    (error: { data: { limit: number } }) => {
      expect(error).toMatchObject(refused);
      return error.data;
    },
  );
  await beat(limit);
  for (let batch = 0; batch < 10; batch += 1) {
    await s.t.run(async (ctx) => {
      for (let i = 0; i < 100; i += 1) {
        const deviceId = `d${batch}-${i}`;
        const device = { deviceId, publicKey: "k", tokenHash: "h", name: "n", platform: "p" };
        await ctx.db.insert("devices", { ...device, registeredAtMs: 0, revoked: false });
        const health = "x".repeat(limit);
        await ctx.db.insert("presence", { deviceId, signedAtMs: 0, seenAtMs: 0, online: true, health });
      }
    });
  }
  const listed = await s.t.query(api.devices.list, { callerToken: s.callerToken });
  expect(listed).toHaveLength(1000);
  expect(listed.every((device) => !("health" in device))).toBe(true);
});
