-- What housekeeping walks: open requests by deadline and by age, inbox rows and results by age.
CREATE INDEX requests_due ON requests (deadline_ms) WHERE state = 'open';
CREATE INDEX requests_by_age ON requests (created_at_ms) WHERE state = 'open';
CREATE INDEX results_by_age ON results (stored_at_ms);
CREATE INDEX inbox_by_age ON inbox (seq);
