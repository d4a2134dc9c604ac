-- What a caller may do: ask devices for tools, or approve what devices ask about. Without a word it may do both.
ALTER TABLE callers ADD COLUMN may TEXT CHECK (may IN ('ask', 'approve'));

-- Whether new devices are kept out until the code is renewed.
ALTER TABLE pairing ADD COLUMN closed INTEGER NOT NULL DEFAULT 0;
