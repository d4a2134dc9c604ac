-- The backends that this device has worked for. A request, and a fact in backend_fact, belongs to one of them.
create table backend (
  number  integer primary key not null,
  -- The deployment's own id; null before it was asked for it, '' where it has none.
  id      text,
  -- Where it was met last; '' where that is not known.
  address text not null,
  -- Rises with each process that works for it: the highest is that of the last process.
  used    integer not null
) strict;

create unique index backend_id on backend (id) where id <> '';

-- Owns what was there before this table was. The first process with a configured backend gives it to that one.
insert into backend (number, id, address, used) values (0, null, '', 0);

alter table request add column backend integer not null default 0;

drop index request_live;
create index request_live on request (backend, state) where state in ('accepted', 'started', 'finished');

create table backend_fact (
  backend integer not null,
  key     text not null,
  value   text not null,
  primary key (backend, key)
) strict;

insert into backend_fact (backend, key, value)
select 0, key, value from kv where key in (
  'cursor', 'clock_offset_ms', 'catalog_revision', 'last_contact_ms', 'last_poll_ms', 'backend_trouble', 'backend_link',
  'request_key'
);
delete from kv where key in (
  'cursor', 'clock_offset_ms', 'catalog_revision', 'last_contact_ms', 'last_poll_ms', 'backend_trouble', 'backend_link',
  'request_key'
);
