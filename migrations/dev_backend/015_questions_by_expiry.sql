-- Callers get the unanswered questions that can be answered for longest, so that expired ones hide none of them.
DROP INDEX permissions_unanswered;
CREATE INDEX permissions_unanswered ON permissions (expires_at_ms) WHERE answered_by IS NULL;
