// The functions about permissions: a device's own policy asks upward, and somebody answers.
// What each does is in its own file in permissions/. The device decides what may be asked.

import * as answers from "./permissions/answer";
import * as questions from "./permissions/ask";
import * as lists from "./permissions/pending";
import { mutation, query } from "./wire/public";

export const ask = mutation(questions.ask);
export const pending = query(lists.pending);
export const answer = mutation(answers.answer);
