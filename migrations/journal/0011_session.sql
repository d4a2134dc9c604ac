-- The client and the folders of the session that a request belongs to, as JSON. Null where its caller named none.
alter table request add column session text;
