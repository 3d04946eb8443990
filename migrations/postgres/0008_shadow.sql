-- What gates in shadow would have refused of a wake, written in the transaction that decides it: a
-- wake that is delivered again tells the same again, and counts once.

CREATE TABLE shadowed_wakes (
    wake_id uuid PRIMARY KEY,
    organization_id text COLLATE "C" NOT NULL
        CHECK (octet_length(organization_id) <= 256),
    task_id text COLLATE "C"
        CHECK (octet_length(task_id) BETWEEN 1 AND 256),
    -- As those of refused_wakes, in the order of the gates, separated by commas.
    reasons text COLLATE "C" NOT NULL
        CHECK (reasons ~ '^[a-z_]+(,[a-z_]+)*$'),
    record text NOT NULL,
    requested_at timestamptz NOT NULL DEFAULT now()
);
