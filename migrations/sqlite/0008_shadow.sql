-- What gates in shadow would have refused of a wake, written in the transaction that decides it: a
-- wake that is delivered again tells the same again, and counts once.

CREATE TABLE shadowed_wakes (
    wake_id TEXT PRIMARY KEY NOT NULL
        CHECK (length(wake_id) = 36 AND wake_id NOT GLOB '*[^-0-9a-f]*'),
    organization_id TEXT NOT NULL
        CHECK (length(CAST(organization_id AS BLOB)) <= 256),
    task_id TEXT
        CHECK (length(CAST(task_id AS BLOB)) BETWEEN 1 AND 256),
    -- As those of refused_wakes, in the order of the gates, separated by commas.
    reasons TEXT NOT NULL
        CHECK (reasons GLOB '[a-z]*' AND reasons NOT GLOB '*[^a-z_,]*'),
    record TEXT NOT NULL,
    requested_at INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER))
) STRICT;
