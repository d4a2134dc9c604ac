-- The name of the caller whose token sent a request. Null for requests from before this column.
ALTER TABLE requests ADD COLUMN caller_name TEXT;
