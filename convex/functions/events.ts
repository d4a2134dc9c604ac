// The functions of the event store, by their paths on the wire: requests out to a device, results back to the caller.
// What each does is in its own file in events/.

import * as append from "./events/append";
import * as cancellation from "./events/cancel";
import * as claims from "./events/claim";
import * as heads from "./events/head";
import * as open from "./events/open";
import * as poll from "./events/poll";
import * as progress from "./events/progress";
import * as results from "./events/results";
import { mutation, query } from "./wire/public";

export const appendRequest = mutation(append.appendRequest);
export const cancel = mutation(cancellation.cancel);
export const listForDevice = query(poll.listForDevice);
export const head = query(heads.head);
export const listOpen = query(open.listOpen);
export const listOpenIds = query(open.listOpenIds);
export const claim = mutation(claims.claim);
export const appendProgress = mutation(progress.appendProgress);
export const listProgress = query(progress.listProgress);
export const watchProgress = mutation(progress.watchProgress);
export const appendResult = mutation(results.appendResult);
export const getResult = query(results.getResult);
