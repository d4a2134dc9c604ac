-- Who denied a call that needed approval, or why nobody did. Null where it needed none, or was allowed.
alter table request add column denial text;
-- How long it ran, in milliseconds, without the wait for an approval. Null where it never started.
alter table request add column run_ms integer;
