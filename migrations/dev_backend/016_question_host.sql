-- The host and port that a question is about. Null where it is about a call.
ALTER TABLE permissions ADD COLUMN host TEXT;
