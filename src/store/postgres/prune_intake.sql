-- Each is looked up by its primary key, whatever statistics say.
DELETE FROM intake_slots
WHERE ctid = ANY (ARRAY (
    SELECT k.ctid
    FROM (
        SELECT unnest($1::text[]) AS organization_id, unnest($2::text[]) AS producer,
               unnest($3::timestamptz[]) AS slot_at
    ) w
    CROSS JOIN LATERAL (
        SELECT s.ctid
        FROM intake_slots s
        WHERE s.organization_id = w.organization_id AND s.producer = w.producer
            AND s.slot_at = w.slot_at
        LIMIT 1
    ) k
))
RETURNING slot_at
