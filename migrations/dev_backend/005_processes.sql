-- Which processes of a device beat, as JSON text: two with one identity are told of each other.
ALTER TABLE presence ADD COLUMN processes TEXT;
