-- The largest time of ids up to which requests were ever deleted: an id from before it is refused, whatever the retention
-- and the clock are then.
ALTER TABLE clock ADD COLUMN swept_ms REAL NOT NULL DEFAULT 0;
