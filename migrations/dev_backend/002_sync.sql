-- What came of mutations over sockets, so that one that is sent again over the next socket is not run again. Written
-- in the mutation's own transaction. A client numbers its mutations within its session.
CREATE TABLE sync_mutations (
  session_id   BLOB    NOT NULL,
  request_id   INTEGER NOT NULL,
  body_hash    BLOB    NOT NULL,
  ts           INTEGER NOT NULL,
  value        TEXT    NOT NULL,
  stored_at_ms REAL    NOT NULL,
  PRIMARY KEY (session_id, request_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX sync_mutations_by_age ON sync_mutations (stored_at_ms);

-- The key of whoever owns this database. Plain, as the pairing code is: it is shown again at every start.
CREATE TABLE admin (
  only INTEGER PRIMARY KEY CHECK (only = 1),
  key  TEXT NOT NULL
) STRICT;
