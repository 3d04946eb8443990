-- Who set an agent's status, and why; null where nobody said, as of rows from before, and of runners.
ALTER TABLE agents ADD COLUMN actor TEXT
    CHECK (length(CAST(actor AS BLOB)) BETWEEN 1 AND 256);
ALTER TABLE agents ADD COLUMN reason TEXT
    CHECK (length(CAST(reason AS BLOB)) BETWEEN 1 AND 1024);
