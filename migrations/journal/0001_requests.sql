-- The journal: what must survive a crash. One row a request, from acceptance to delivery and beyond.
create table request (
  id              text primary key not null,
  origin          text not null check (origin in ('backend', 'task')),
  tool            text not null,
  args            text not null,
  args_hash       blob not null,
  conversation    text not null,
  agent_type      text,
  effect          text not null check (effect in ('reads', 'writes', 'executes', 'asks_user')),
  created_at_ms   real not null,
  deadline_ms     real,
  received_at_ms  integer not null,
  state           text not null check (state in ('accepted', 'started', 'finished', 'delivered', 'undeliverable')),
  attempt         integer not null default 0,
  lease_id        text not null,
  cancel_requested integer not null default 0,
  started_at_ms   integer,
  finished_at_ms  integer,
  outcome         text check (outcome in ('ok', 'error', 'cancelled')),
  truncated       integer not null default 0,
  deliver_attempts integer not null default 0,
  closed_at_ms    integer,
  last_error      text
) strict;

create index request_live on request (state) where state in ('accepted', 'started', 'finished');
create index request_waiting on request (conversation) where state = 'accepted';
create index request_closed on request (closed_at_ms) where closed_at_ms is not null;

-- Apart from the row, so that an acknowledgement never rewrites a payload.
create table result (
  request_id text primary key not null references request (id) on delete cascade,
  payload    text not null
) strict;

-- Processes of calls that run: who they are, so that a later life of the runner can end exactly them.
create table child (
  request_id text not null references request (id) on delete cascade,
  identity   text not null,
  command    text not null,
  started_at_ms integer not null,
  primary key (request_id, identity)
) strict;

create table kv (
  key   text primary key not null,
  value text not null
) strict;
