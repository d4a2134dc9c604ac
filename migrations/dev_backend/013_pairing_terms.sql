-- Until when the pairing code is good, and for how many more devices. One from before these columns is good no more.
ALTER TABLE pairing ADD COLUMN expires_at_ms REAL NOT NULL DEFAULT 0;
ALTER TABLE pairing ADD COLUMN uses_left INTEGER NOT NULL DEFAULT 0;
