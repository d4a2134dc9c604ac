-- Approvals that devices ask for. options is JSON text: [{optionId, name, kind}].
CREATE TABLE permissions (
  number         INTEGER PRIMARY KEY,
  permission_id  TEXT NOT NULL UNIQUE,
  request_id     TEXT NOT NULL,
  device_id      TEXT NOT NULL,
  body_hash      BLOB NOT NULL,
  title          TEXT NOT NULL,
  options        TEXT NOT NULL,
  asked_at_ms    REAL NOT NULL,
  expires_at_ms  REAL NOT NULL,
  option_id      TEXT,
  answered_by    TEXT CHECK (answered_by IN ('caller', 'device')),
  answered_at_ms REAL
) STRICT;
CREATE INDEX permissions_of_request ON permissions (request_id);
CREATE INDEX permissions_unanswered ON permissions (number) WHERE answered_by IS NULL;
