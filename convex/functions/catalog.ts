// The functions about what a device has: tools, skills, agents and plugins.
// What each does is in its own file in catalog/.

import * as lists from "./catalog/list";
import * as upserts from "./catalog/upsert";
import { mutation, query } from "./wire/public";

export const upsertMany = mutation(upserts.upsertMany);
export const list = query(lists.list);
