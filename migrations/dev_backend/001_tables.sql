-- The tables of the embedded backend. A shipped file is never edited: add the next number.

-- The commit clock: one row, so that it survives a restart and never goes back.
CREATE TABLE clock (
  only     INTEGER PRIMARY KEY CHECK (only = 1),
  last_seq INTEGER NOT NULL
) STRICT;
INSERT INTO clock (only, last_seq) VALUES (1, 0);

-- The code that a new device must show once. Plain, because it is shown again at every start.
CREATE TABLE pairing (
  only INTEGER PRIMARY KEY CHECK (only = 1),
  code TEXT NOT NULL
) STRICT;

CREATE TABLE callers (
  token_hash   BLOB PRIMARY KEY,
  name         TEXT NOT NULL,
  minted_at_ms REAL NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE devices (
  device_id        TEXT PRIMARY KEY,
  public_key       BLOB NOT NULL,
  token_hash       BLOB NOT NULL,
  name             TEXT NOT NULL,
  platform         TEXT NOT NULL,
  registered_at_ms REAL NOT NULL,
  revoked          INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- Apart from devices: a heartbeat must not touch what every poll reads.
CREATE TABLE presence (
  device_id    TEXT PRIMARY KEY,
  signed_at_ms INTEGER NOT NULL,
  seen_at_ms   REAL NOT NULL,
  online       INTEGER NOT NULL,
  health       TEXT
) STRICT, WITHOUT ROWID;

-- Append-only and tiny. Rows of one commit share seq; place orders them within it.
CREATE TABLE inbox (
  device_id  TEXT NOT NULL,
  seq        INTEGER NOT NULL,
  place      INTEGER NOT NULL,
  type       TEXT NOT NULL CHECK (type IN ('tool_request', 'tool_cancel')),
  request_id TEXT NOT NULL,
  PRIMARY KEY (device_id, seq, place)
) STRICT, WITHOUT ROWID;

-- What changes during a request's life. Its args lie in request_args, so that a claim or a
-- renewal never rewrites a large row.
CREATE TABLE requests (
  number              INTEGER PRIMARY KEY,
  request_id          TEXT NOT NULL UNIQUE,
  device_id           TEXT NOT NULL,
  seq                 INTEGER NOT NULL,
  state               TEXT NOT NULL CHECK (state IN ('open', 'finished')),
  cancelled           INTEGER NOT NULL DEFAULT 0,
  attempt             INTEGER NOT NULL DEFAULT 0,
  lease_id            TEXT,
  lease_expires_at_ms REAL,
  body_hash           BLOB NOT NULL,
  tool_name           TEXT NOT NULL,
  conversation_id     TEXT,
  agent_type          TEXT,
  created_at_ms       REAL NOT NULL,
  deadline_ms         REAL,
  issued_at_ms        REAL,
  signature           TEXT
) STRICT;
CREATE INDEX requests_open ON requests (device_id, seq) WHERE state = 'open';

CREATE TABLE request_args (
  number INTEGER PRIMARY KEY,
  args   TEXT NOT NULL
) STRICT;

CREATE TABLE progress (
  request_id TEXT NOT NULL,
  n          INTEGER NOT NULL,
  data       TEXT NOT NULL,
  PRIMARY KEY (request_id, n)
) STRICT;

CREATE TABLE results (
  request_id   TEXT NOT NULL PRIMARY KEY,
  body_hash    BLOB NOT NULL,
  outcome      TEXT NOT NULL CHECK (outcome IN ('ok', 'error', 'cancelled')),
  truncated    INTEGER,
  stored_at_ms REAL NOT NULL,
  payload      TEXT NOT NULL
) STRICT;

CREATE TABLE catalog (
  device_id TEXT NOT NULL,
  kind      TEXT NOT NULL,
  key       TEXT NOT NULL,
  hash      TEXT NOT NULL,
  body      TEXT NOT NULL,
  PRIMARY KEY (device_id, kind, key)
) STRICT;

-- The highest revision seen, also of a kind that has no items left.
CREATE TABLE catalog_revisions (
  device_id TEXT NOT NULL,
  kind      TEXT NOT NULL,
  revision  INTEGER NOT NULL,
  PRIMARY KEY (device_id, kind)
) STRICT, WITHOUT ROWID;
