-- The answer to a question in words, where the chosen option asks for them.
ALTER TABLE permissions ADD COLUMN answer_text TEXT;
