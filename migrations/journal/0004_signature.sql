-- The caller's signature of a request, as base64: where a key is pinned later, or another one, what still waits is
-- checked anew. Of a signed request `created_at_ms` is when it was signed.
alter table request add column signature text;
