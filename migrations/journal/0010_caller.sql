-- The name of the caller, as the backend knows it by its token. Null where the backend gave none.
alter table request add column caller text;
