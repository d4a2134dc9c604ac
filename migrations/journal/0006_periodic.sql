-- Every regular look at the journal reads an index of the few rows that it is about, never all that is remembered.
-- The planner does not use a partial index over several states for a look at one of them, hence one for each. The state
-- is their first column although it is always the same: it makes the look a search, in the order that is asked for.
drop index request_live;
create index request_begun on request (state, backend) where state = 'started';
create index request_outbox on request (state, backend, finished_at_ms) where state = 'finished';
create index request_undeliverable on request (state, backend) where state = 'undeliverable';
create index request_task on request (origin, backend, received_at_ms) where origin = 'task';
create index incident_last on incident (coalesce(last_at_ms, at_ms));

-- All that is decided about a waiting request without its arguments, which may be long.
drop index request_waiting;
create index request_waiting on request (state, backend, conversation, origin, tool, cancel_requested)
  where state = 'accepted';

-- When a reply was sent that is kept because it may be asked for again; null where none is kept.
alter table request add column sent_at_ms integer;
create index request_sent on request (sent_at_ms) where sent_at_ms is not null;
update request set sent_at_ms = closed_at_ms
  where origin = 'backend' and closed_at_ms is not null and id in (select request_id from result);
