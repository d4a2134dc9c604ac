-- Until when a caller listens for a request's progress, as it last said.
ALTER TABLE requests ADD COLUMN watched_until_ms REAL;
