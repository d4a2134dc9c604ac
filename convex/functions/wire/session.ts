// The session that a request belongs to: the program that shows it to its user, and the folders that it works in.

import { type Infer, v } from "convex/values";

import { invalid } from "./failure";
import { utf8Length } from "./text";

const MOST_FOLDERS = 16;
const MOST_CLIENT_BYTES = 128;
const MOST_PATH_BYTES = 4096;

export const session = v.object({ client: v.string(), folders: v.array(v.string()) });

/** Control characters: a name or a path with one could pretend to be two lines of what is signed and shown. */
const CONTROL = /\p{Cc}/u;

/** Refuses a session outside its limits. */
export function checkSession({ client, folders }: Infer<typeof session>): void {
  if (client === "" || utf8Length(client) > MOST_CLIENT_BYTES || CONTROL.test(client)) {
    throw invalid("session.client must be 1 to 128 bytes without control characters");
  }
  if (folders.length === 0 || folders.length > MOST_FOLDERS) {
    throw invalid("session.folders must be 1 to 16 absolute paths");
  }
  const isUsable = (path: string) =>
    path.startsWith("/") && utf8Length(path) <= MOST_PATH_BYTES && !CONTROL.test(path);
  if (!folders.every(isUsable)) {
    throw invalid(
      "each of session.folders must be an absolute path of at most 4096 bytes without control characters",
    );
  }
}
