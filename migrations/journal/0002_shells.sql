-- Shells in the background, by the number in their name (sh_1): what the next life of the runner needs to take one up
-- again, or to say what became of it.
create table shell (
  number        integer primary key not null,
  pid           integer,
  command       text not null,
  folder        text not null,
  purpose       text,
  -- Of one that outlives the runner: who it is (boot:pid:start), which request's, and its named pipe.
  identity      text,
  request_id    text,
  fifo          text,
  raw           integer not null default 0,
  -- Where its output is kept.
  handle        text,
  state         text not null check (state in ('running', 'ended', 'stopped', 'lost')),
  exit_code     integer,
  exit_signal   text,
  started_at_ms integer not null,
  ended_at_ms   integer
) strict;

create index shell_running on shell (identity) where state = 'running';
