// devices:openSession: a device proves its key and names the token it will use from now on.
// The first time, it also shows the pairing code, and the key is pinned for good.

import { type ObjectType, v } from "convex/values";

import type { MutationCtx } from "../_generated/server";
import { pairingCodeHash } from "../identity/code";
import { deploymentRow } from "../identity/deployment";
import { deviceRow, revokedDevice } from "../identity/device";
import * as signature from "../identity/signature";
import { bounded, numeric, whole } from "../wire/arguments";
import { failure, invalid } from "../wire/failure";
import * as ids from "../wire/ids";
import { presenceRow } from "./presence";
import { hasOthers } from "./processes";

/** The version of the contract that this backend speaks. */
const CONTRACT_VERSION = 1;

const args = {
  deviceId: v.string(),
  publicKey: v.string(),
  name: v.string(),
  platform: v.string(),
  signedAtMs: numeric,
  // SHA-256 of the token in hexadecimal: the token itself does not travel here.
  tokenHash: v.string(),
  signature: v.string(),
  pairingCode: v.optional(v.string()),
  // One for each start of the device's process; older devices have none.
  processId: v.optional(v.string()),
};
type Asked = ObjectType<typeof args>;

export const openSession = {
  args,
  returns: v.object({
    deviceId: v.string(),
    // Whether this call made the device known.
    registered: v.boolean(),
    serverNowMs: v.number(),
    contractVersion: v.number(),
    // Which deployment this is, whatever its address.
    backendId: v.string(),
    // True where another process with this device's identity beats, too; absent otherwise.
    otherProcess: v.optional(v.boolean()),
  }),
  handler: async (ctx: MutationCtx, asked: Asked) => {
    const { deviceId, publicKey, name, platform, processId } = asked;
    ids.deviceId(deviceId);
    if (processId !== undefined) ids.processId(processId);
    bounded("name", name, 256);
    bounded("platform", platform, 128);
    if (!/^[0-9a-fA-F]{64}$/.test(asked.tokenHash)) {
      throw invalid("tokenHash must be a SHA-256: 64 hexadecimal digits");
    }
    const serverNowMs = Date.now();
    await prove(asked, serverNowMs);
    const tokenHash = asked.tokenHash.toLowerCase();
    const known = await deviceRow(ctx, deviceId);
    if (known === null) {
      await usePairing(ctx, asked.pairingCode, serverNowMs);
      const device = { deviceId, publicKey, tokenHash, name, platform };
      await ctx.db.insert("devices", { ...device, registeredAtMs: serverNowMs, revoked: false });
    } else {
      // A key has one spelling in base64, so comparing texts compares keys.
      if (known.publicKey !== publicKey) {
        throw failure("DEVICE_KEY_MISMATCH", "this device id is pinned to another key; a new key needs a new device id");
      }
      if (known.revoked) throw revokedDevice();
      await ctx.db.patch(known._id, { tokenHash, name, platform });
    }
    const processes = processId === undefined ? [] : ((await presenceRow(ctx, deviceId))?.processes ?? []);
    const otherProcess = processId !== undefined && hasOthers(processes, processId, serverNowMs);
    return {
      deviceId,
      registered: known === null,
      serverNowMs,
      contractVersion: CONTRACT_VERSION,
      backendId: (await deploymentRow(ctx)).backendId,
      ...(otherProcess && { otherProcess }),
    };
  },
};

/** Checks the signature before its age: only who holds the key learns more than that it is bad. */
async function prove(asked: Asked, serverNowMs: number): Promise<void> {
  const key = signature.publicKey(asked.publicKey);
  const signedAtMs = whole("signedAtMs", asked.signedAtMs);
  const text = `punie-session:v1:${asked.deviceId}:${signedAtMs}:${asked.tokenHash}`;
  await signature.verify(key, text, asked.signature);
  signature.fresh(signedAtMs, serverNowMs);
}

/** Uses the pairing code for one new device. One from before codes had an end is good no more. */
async function usePairing(ctx: MutationCtx, typed: string | undefined, nowMs: number): Promise<void> {
  const pairing = await ctx.db.query("pairing").first();
  const stands = pairing !== null && typed !== undefined && nowMs <= (pairing.expiresAtMs ?? 0);
  if (!stands || pairing.codeHash !== (await pairingCodeHash(typed))) {
    throw failure(
      "PAIRING_REQUIRED",
      "this device is new here: show the pairing code of the backend's operator. A code ends after its minutes and its devices",
    );
  }
  const usesLeft = (pairing.usesLeft ?? 1) - 1;
  if (usesLeft > 0) await ctx.db.patch(pairing._id, { usesLeft });
  else await ctx.db.delete(pairing._id);
}
