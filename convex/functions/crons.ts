// What happens by itself. Each run counts as one call on Convex's bill, hence the wide intervals.

import { cronJobs } from "convex/server";

import { internal } from "./_generated/api";

const crons = cronJobs();

crons.interval("close overdue requests", { minutes: 5 }, internal.deadlines.close, {});
crons.interval("delete old rows", { hours: 24 }, internal.retention.sweep, {});

export default crons;
