-- Each is looked up by its primary key.
WITH w (organization_id, producer, slot_at) AS (VALUES (?, ?, ?))
DELETE FROM intake_slots
WHERE (organization_id, producer, slot_at) IN (SELECT organization_id, producer, slot_at FROM w)
RETURNING slot_at
