/* eslint-disable */
/**
 * Generated `api` utility.
 *
 * THIS CODE IS AUTOMATICALLY GENERATED.
 *
 * To regenerate, run `npx convex dev`.
 * @module
 */

import type {
  ApiFromModules,
  FilterApi,
  FunctionReference,
} from "convex/server";
import type * as callers from "../callers.js";
import type * as catalog from "../catalog.js";
import type * as catalog_list from "../catalog/list.js";
import type * as catalog_upsert from "../catalog/upsert.js";
import type * as crons from "../crons.js";
import type * as deadlines from "../deadlines.js";
import type * as devices from "../devices.js";
import type * as devices_heartbeat from "../devices/heartbeat.js";
import type * as devices_presence from "../devices/presence.js";
import type * as devices_processes from "../devices/processes.js";
import type * as devices_session from "../devices/session.js";
import type * as events from "../events.js";
import type * as events_append from "../events/append.js";
import type * as events_cancel from "../events/cancel.js";
import type * as events_claim from "../events/claim.js";
import type * as events_head from "../events/head.js";
import type * as events_open from "../events/open.js";
import type * as events_poll from "../events/poll.js";
import type * as events_progress from "../events/progress.js";
import type * as events_request from "../events/request.js";
import type * as events_results from "../events/results.js";
import type * as identity_caller from "../identity/caller.js";
import type * as identity_code from "../identity/code.js";
import type * as identity_deployment from "../identity/deployment.js";
import type * as identity_device from "../identity/device.js";
import type * as identity_signature from "../identity/signature.js";
import type * as pairing from "../pairing.js";
import type * as permissions from "../permissions.js";
import type * as permissions_answer from "../permissions/answer.js";
import type * as permissions_ask from "../permissions/ask.js";
import type * as permissions_pending from "../permissions/pending.js";
import type * as permissions_question from "../permissions/question.js";
import type * as permissions_shape from "../permissions/shape.js";
import type * as retention from "../retention.js";
import type * as retention_period from "../retention/period.js";
import type * as wire_arguments from "../wire/arguments.js";
import type * as wire_failure from "../wire/failure.js";
import type * as wire_ids from "../wire/ids.js";
import type * as wire_public from "../wire/public.js";
import type * as wire_session from "../wire/session.js";
import type * as wire_text from "../wire/text.js";

/**
 * A utility for referencing Convex functions in your app's API.
 *
 * Usage:
 * ```js
 * const myFunctionReference = api.myModule.myFunction;
 * ```
 */
declare const fullApi: ApiFromModules<{
  callers: typeof callers;
  catalog: typeof catalog;
  "catalog/list": typeof catalog_list;
  "catalog/upsert": typeof catalog_upsert;
  crons: typeof crons;
  deadlines: typeof deadlines;
  devices: typeof devices;
  "devices/heartbeat": typeof devices_heartbeat;
  "devices/presence": typeof devices_presence;
  "devices/processes": typeof devices_processes;
  "devices/session": typeof devices_session;
  events: typeof events;
  "events/append": typeof events_append;
  "events/cancel": typeof events_cancel;
  "events/claim": typeof events_claim;
  "events/head": typeof events_head;
  "events/open": typeof events_open;
  "events/poll": typeof events_poll;
  "events/progress": typeof events_progress;
  "events/request": typeof events_request;
  "events/results": typeof events_results;
  "identity/caller": typeof identity_caller;
  "identity/code": typeof identity_code;
  "identity/deployment": typeof identity_deployment;
  "identity/device": typeof identity_device;
  "identity/signature": typeof identity_signature;
  pairing: typeof pairing;
  permissions: typeof permissions;
  "permissions/answer": typeof permissions_answer;
  "permissions/ask": typeof permissions_ask;
  "permissions/pending": typeof permissions_pending;
  "permissions/question": typeof permissions_question;
  "permissions/shape": typeof permissions_shape;
  retention: typeof retention;
  "retention/period": typeof retention_period;
  "wire/arguments": typeof wire_arguments;
  "wire/failure": typeof wire_failure;
  "wire/ids": typeof wire_ids;
  "wire/public": typeof wire_public;
  "wire/session": typeof wire_session;
  "wire/text": typeof wire_text;
}>;
export declare const api: FilterApi<
  typeof fullApi,
  FunctionReference<any, "public">
>;
export declare const internal: FilterApi<
  typeof fullApi,
  FunctionReference<any, "internal">
>;
