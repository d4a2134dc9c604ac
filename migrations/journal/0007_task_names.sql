-- The numbers in the short names of tasks (task_7). A number is never given a second time.
create table task (
  number     integer primary key autoincrement,
  request_id text unique not null references request (id) on delete cascade
) strict;
