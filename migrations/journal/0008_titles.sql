-- A masked line that says what a request is about: its command, its paths or its query. Null where none is kept.
alter table request add column title text;
-- The end of its command.
alter table request add column exit_code integer;
alter table request add column exit_signal text;
-- The rule that refused it.
alter table request add column rule text;
