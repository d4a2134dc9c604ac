-- How long after its last beat a device means to beat again.
ALTER TABLE presence ADD COLUMN beat_ms REAL;
