INSERT INTO intake_slots (organization_id, producer, slot_at, admitted)
SELECT * FROM (VALUES (?, ?, ?, ?)) AS w
WHERE column1 IS NOT NULL
ON CONFLICT (organization_id, producer, slot_at) DO UPDATE
SET admitted = admitted + excluded.admitted
