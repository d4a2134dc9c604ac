-- A request's life in full: how often it was offered, which life of the runner began it, what it was about to do,
-- and what went wrong on the way.
alter table request add column offers integer not null default 1;
alter table request add column cancel_requested_at_ms integer;
-- The life of the runner (kv 'epoch') that began it last.
alter table request add column epoch integer;
-- Its tool declares each effect (table intent) before it makes it: without a declaration nothing has happened.
alter table request add column declares integer not null default 0;
-- The error code of its reply: the reply itself is gone once it is delivered.
alter table request add column code text;

-- What a call was about to do, written before it does it, so that recovery decides instead of guessing.
create table intent (
  request_id text not null references request (id) on delete cascade,
  n          integer not null,
  -- JSON: what is touched, as it was before and as it shall be.
  body       text not null,
  primary key (request_id, n)
) strict;

-- What does not happen to every request: offered under the same id with other arguments, begun again, reconciled,
-- a post that failed. Also of requests that are not in the journal.
create table incident (
  id         integer primary key,
  request_id text not null,
  at_ms      integer not null,
  kind       text not null,
  detail     text,
  -- The same again and again (a post that fails while the backend is away) is one row.
  times      integer not null default 1,
  last_at_ms integer
) strict;

create index incident_request on incident (request_id);
