-- Who set an agent's status, and why; null where nobody said, as of rows from before, and of runners.
ALTER TABLE agents
    ADD COLUMN actor text COLLATE "C"
        CHECK (octet_length(actor) BETWEEN 1 AND 256),
    ADD COLUMN reason text COLLATE "C"
        CHECK (octet_length(reason) BETWEEN 1 AND 1024);
