-- Wakes that operators had published again, and who and why: one row a redrive, written before the
-- message is published, with the message id under which it is. What is published is on the stream
-- behind after_sequence, or nowhere: so a redrive that was cut short can be told from one that was not.
CREATE TABLE redrives (
    wake_id TEXT NOT NULL
        CHECK (length(wake_id) = 36 AND wake_id NOT GLOB '*[^-0-9a-f]*'),
    -- 1, and one more each time it is asked for again.
    ordinal INTEGER NOT NULL CHECK (ordinal >= 1),
    message_id TEXT NOT NULL
        CHECK (length(CAST(message_id AS BLOB)) BETWEEN 1 AND 256),
    outcome TEXT NOT NULL CHECK (outcome IN ('refused', 'rejected')),
    outcome_reason TEXT NOT NULL
        CHECK (length(CAST(outcome_reason AS BLOB)) BETWEEN 1 AND 64),
    after_sequence INTEGER NOT NULL CHECK (after_sequence >= 0),
    actor TEXT NOT NULL
        CHECK (length(CAST(actor AS BLOB)) BETWEEN 1 AND 256),
    reason TEXT NOT NULL
        CHECK (length(CAST(reason AS BLOB)) BETWEEN 1 AND 1024),
    created_at INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)),
    -- Null until it is known to be on the stream.
    published_at INTEGER,
    published_sequence INTEGER CHECK (published_sequence > after_sequence),
    published_wake_id TEXT
        CHECK (length(published_wake_id) = 36 AND published_wake_id NOT GLOB '*[^-0-9a-f]*'),
    PRIMARY KEY (wake_id, ordinal),
    CHECK ((published_at IS NULL) = (published_sequence IS NULL)),
    CHECK ((published_at IS NULL) = (published_wake_id IS NULL))
) STRICT;

-- Of which wake this one is the redrive.
CREATE INDEX redrives_by_published_wake ON redrives (published_wake_id)
    WHERE published_wake_id IS NOT NULL;
