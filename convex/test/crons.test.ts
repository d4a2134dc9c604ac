// What happens by itself: requests whose time is up are closed, and old rows go.

import { afterEach, expect, test, vi } from "vitest";

import { api, internal } from "../functions/_generated/api";
import crons from "../functions/crons";
import { append, BEGIN_MS, later, pair, stage } from "./stage";

const DAY_MS = 24 * 60 * 60 * 1000;

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllEnvs();
});

test("both crons name functions that are there", async () => {
  const named = Object.values(crons.crons).map(({ name }) => name);
  expect(named.sort()).toEqual(["deadlines:close", "retention:sweep"]);
  const s = await stage();
  expect(await s.t.mutation(internal.deadlines.close, {})).toEqual({ closed: 0 });
  expect(await s.t.mutation(internal.retention.sweep, {})).toEqual({ deleted: 0 });
});

test("a request past its deadline is answered as expired after a minute of grace, and no other", async () => {
  const s = await stage();
  const { D } = await pair(s);
  await append(s, ["due"], { deadlineMs: BEGIN_MS + 1000 });
  await append(s, ["early"], { deadlineMs: BEGIN_MS + 1001 });
  await append(s, ["never"]);
  await later(s, 60_999);
  expect(await s.t.mutation(internal.deadlines.close, {})).toEqual({ closed: 0 });
  await later(s, 1);
  expect(await s.t.mutation(internal.deadlines.close, {})).toEqual({ closed: 1 });
  const result = await s.t.query(api.events.getResult, { callerToken: s.callerToken, requestId: "due" });
  expect(result).toMatchObject({ outcome: "error", storedAtMs: BEGIN_MS + 61_000 });
  expect(JSON.parse(result?.payload ?? "")).toMatchObject({
    toolName: "Read",
    error: expect.stringContaining("not run"),
    meta: { code: "expired", retryable: true, durationMs: 0 },
  });
  const open = await s.t.query(api.events.listOpen, D);
  expect(open.map(({ requestId }) => requestId)).toEqual(["early", "never"]);
  const late = { ...D, requestId: "due", leaseId: "a", outcome: "ok" as const, payload: "{}" };
  await expect(s.t.mutation(api.events.appendResult, late)).rejects.toMatchObject({ data: { code: "RESULT_EXISTS" } });
});

test("a device that holds a lease is left to answer for itself", async () => {
  const s = await stage();
  const { D } = await pair(s);
  await append(s, ["r"], { deadlineMs: BEGIN_MS - 60_000 });
  await s.t.mutation(api.events.claim, { ...D, requestId: "r", leaseId: "a" });
  await later(s, 59_999);
  expect(await s.t.mutation(internal.deadlines.close, {})).toEqual({ closed: 0 });
  await s.t.mutation(api.events.claim, { ...D, requestId: "r", leaseId: "a" });
  // Its lease is over; it may be without a network, with the answer.
  await later(s, 60_000 + 599_999);
  expect(await s.t.mutation(internal.deadlines.close, {})).toEqual({ closed: 0 });
  await later(s, 1);
  expect(await s.t.mutation(internal.deadlines.close, {})).toEqual({ closed: 1 });
  const result = await s.t.query(api.events.getResult, { callerToken: s.callerToken, requestId: "r" });
  expect(JSON.parse(result?.payload ?? "").meta).toEqual({
    durationMs: 0,
    code: "expired",
    retryable: false,
    attempt: 1,
    mayHaveRun: true,
  });
});

test("many overdue requests are closed in batches of 100, one after the other", async () => {
  const s = await stage();
  const { D } = await pair(s);
  const ids = Array.from({ length: 201 }, (_, i) => `r${i}`);
  await append(s, ids, { deadlineMs: BEGIN_MS - 60_000 });
  expect(await s.t.mutation(internal.deadlines.close, {})).toEqual({ closed: 100 });
  await later(s, 0);
  expect(await s.t.query(api.events.listOpen, D)).toEqual([]);
});

async function rows(s: Awaited<ReturnType<typeof stage>>) {
  return await s.t.run(async (ctx) => {
    const tables = ["inbox", "requests", "requestBodies", "progress", "results", "permissions"] as const;
    const counts = tables.map(async (table) => [table, (await ctx.db.query(table).collect()).length] as const);
    return Object.fromEntries(await Promise.all(counts));
  });
}

async function finished(s: Awaited<ReturnType<typeof stage>>, D: { deviceId: string; token: string }, requestId: string) {
  const claimed = { ...D, requestId, leaseId: "a" };
  await append(s, [requestId]);
  await s.t.mutation(api.events.claim, claimed);
  await s.t.mutation(api.events.appendProgress, { ...claimed, n: 0, data: "x" });
  const options = [{ optionId: "a", name: "A", kind: "allow_once" as const }];
  const question = { ...D, permissionId: `p-${requestId}`, requestId, title: "t", options, expiresAtMs: 0 };
  await s.t.mutation(api.permissions.ask, question);
  await s.t.mutation(api.events.appendResult, { ...claimed, outcome: "ok", payload: "{}" });
}

test("after 30 days a finished request leaves only that it was", async () => {
  const s = await stage();
  const { D } = await pair(s);
  await finished(s, D, "old");
  await later(s, 30 * DAY_MS);
  await finished(s, D, "new");
  expect(await s.t.mutation(internal.retention.sweep, {})).toEqual({ deleted: 0 });
  await later(s, 1);
  expect(await s.t.mutation(internal.retention.sweep, {})).toEqual({ deleted: 5 });
  expect(await rows(s)).toEqual({ inbox: 1, requests: 2, requestBodies: 1, progress: 1, results: 1, permissions: 1 });

  const asked = { callerToken: s.callerToken, requestId: "old" };
  expect(await s.t.query(api.events.getResult, asked)).toBeNull();
  expect(await s.t.mutation(api.events.cancel, asked)).toEqual({ state: "finished" });
  const again = { ...asked, deviceId: "dev-1", toolName: "Read", args: "{}" };
  expect(await s.t.mutation(api.events.appendRequest, again)).toEqual({ requestId: "old", created: false });
  const post = { ...D, requestId: "old", leaseId: "a", outcome: "ok" as const, payload: "{}" };
  await expect(s.t.mutation(api.events.appendResult, post)).rejects.toMatchObject({ data: { code: "RESULT_EXISTS" } });
  const page = await s.t.query(api.events.listForDevice, { ...D, cursor: "1" });
  expect(page.events.map(({ requestId }) => requestId)).toEqual(["new"]);
});

test("a request that nobody took is closed when its body would go", async () => {
  const s = await stage();
  await pair(s);
  await append(s, ["r"], { deadlineMs: BEGIN_MS + 365 * DAY_MS });
  await later(s, 30 * DAY_MS);
  expect(await s.t.mutation(internal.deadlines.close, {})).toEqual({ closed: 1 });
});

test("much that is old goes in batches, one after the other", async () => {
  const s = await stage();
  const { D } = await pair(s);
  for (let i = 0; i < 45; i += 1) await finished(s, D, `r${i}`);
  const large = { ...D, requestId: "large", leaseId: "a" };
  await append(s, ["large"]);
  await s.t.mutation(api.events.claim, large);
  for (let n = 0; n < 80; n += 1) {
    await s.t.mutation(api.events.appendProgress, { ...large, n, data: "x".repeat(64 * 1024) });
  }
  await s.t.mutation(api.events.appendResult, { ...large, outcome: "ok", payload: "y".repeat(900 * 1024) });
  await later(s, 30 * DAY_MS + 1);
  const first = await s.t.mutation(internal.retention.sweep, {});
  expect(first.deleted).toBe(100);
  await later(s, 0);
  expect(await rows(s)).toEqual({ inbox: 0, requests: 46, requestBodies: 0, progress: 0, results: 0, permissions: 0 });
});

test("the days may be said, and nonsense is told", async () => {
  const s = await stage();
  const { D } = await pair(s);
  await finished(s, D, "r");
  await later(s, 2 * DAY_MS);
  vi.stubEnv("PUNIE_RETENTION_DAYS", "soon");
  await expect(s.t.mutation(internal.retention.sweep, {})).rejects.toThrow("PUNIE_RETENTION_DAYS");
  vi.stubEnv("PUNIE_RETENTION_DAYS", "1");
  expect(await s.t.mutation(internal.retention.sweep, {})).toEqual({ deleted: 5 });
});

/** A UUIDv7 of this time. */
function uuid7(atMs: number): string {
  const time = atMs.toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-000000000000`;
}

test("the row of an old request goes where the time in its id has it refused", async () => {
  const s = await stage();
  const { D } = await pair(s);
  const ids = { now: uuid7(BEGIN_MS), ahead: uuid7(BEGIN_MS + 2 * 60 * 60 * 1000), plain: "plain" };
  for (const id of Object.values(ids)) await finished(s, D, id);
  await later(s, 30 * DAY_MS + 1);
  await s.t.mutation(internal.retention.sweep, {});
  expect(await rows(s)).toMatchObject({ requests: 2, results: 0 });
  await expect(append(s, [ids.now])).rejects.toMatchObject({ data: { code: "INVALID_ARGUMENT" } });
  for (const requestId of [ids.ahead, ids.plain]) {
    const state = await s.t.mutation(api.events.cancel, { callerToken: s.callerToken, requestId });
    expect(state).toEqual({ state: "finished" });
  }
});

test("a longer retention lets no id run again that was swept", async () => {
  const s = await stage();
  const { D } = await pair(s);
  vi.stubEnv("PUNIE_RETENTION_DAYS", "1");
  const swept = uuid7(BEGIN_MS);
  await finished(s, D, swept);
  await later(s, DAY_MS + 1);
  await s.t.mutation(internal.retention.sweep, {});
  expect(await rows(s)).toMatchObject({ requests: 0 });
  vi.stubEnv("PUNIE_RETENTION_DAYS", "30");
  await expect(append(s, [swept])).rejects.toMatchObject({ data: { code: "INVALID_ARGUMENT" } });
  const untilMs = BEGIN_MS + 1 + 60 * 60 * 1000;
  await expect(append(s, [uuid7(untilMs)])).rejects.toMatchObject({ data: { code: "INVALID_ARGUMENT" } });
  await append(s, [uuid7(untilMs + 1)]);
});

test("with a shorter retention ids are refused sooner", async () => {
  const s = await stage();
  await pair(s);
  vi.stubEnv("PUNIE_RETENTION_DAYS", "2");
  const DAYS_2 = 2 * DAY_MS - 60 * 60 * 1000;
  await expect(append(s, [uuid7(BEGIN_MS - DAYS_2)])).rejects.toMatchObject({ data: { code: "INVALID_ARGUMENT" } });
  await append(s, [uuid7(BEGIN_MS - DAYS_2 + 1)]);
});
