-- Which backend this is, whatever its address: devices keep what belongs to one apart from what belongs to another.
CREATE TABLE deployment (
  only INTEGER PRIMARY KEY CHECK (only = 1),
  id   TEXT NOT NULL
) STRICT;
