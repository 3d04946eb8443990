-- Wakes that operators had published again, and who and why: one row a redrive, written before the
-- message is published, with the message id under which it is. What is published is on the stream
-- behind after_sequence, or nowhere: so a redrive that was cut short can be told from one that was not.
CREATE TABLE redrives (
    wake_id uuid NOT NULL,
    -- 1, and one more each time it is asked for again.
    ordinal integer NOT NULL CHECK (ordinal >= 1),
    message_id text COLLATE "C" NOT NULL
        CHECK (octet_length(message_id) BETWEEN 1 AND 256),
    outcome text COLLATE "C" NOT NULL CHECK (outcome IN ('refused', 'rejected')),
    outcome_reason text COLLATE "C" NOT NULL
        CHECK (octet_length(outcome_reason) BETWEEN 1 AND 64),
    after_sequence bigint NOT NULL CHECK (after_sequence >= 0),
    actor text COLLATE "C" NOT NULL
        CHECK (octet_length(actor) BETWEEN 1 AND 256),
    reason text COLLATE "C" NOT NULL
        CHECK (octet_length(reason) BETWEEN 1 AND 1024),
    created_at timestamptz NOT NULL DEFAULT now(),
    -- Null until it is known to be on the stream.
    published_at timestamptz,
    published_sequence bigint CHECK (published_sequence > after_sequence),
    published_wake_id uuid,
    PRIMARY KEY (wake_id, ordinal),
    CHECK ((published_at IS NULL) = (published_sequence IS NULL)),
    CHECK ((published_at IS NULL) = (published_wake_id IS NULL))
);

-- Of which wake this one is the redrive.
CREATE INDEX redrives_by_published_wake ON redrives (published_wake_id)
    WHERE published_wake_id IS NOT NULL;
