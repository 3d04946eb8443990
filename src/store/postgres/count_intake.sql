INSERT INTO intake_slots AS s (organization_id, producer, slot_at, admitted)
SELECT unnest($1::text[]), unnest($2::text[]), unnest($3::timestamptz[]), unnest($4::bigint[])
ON CONFLICT (organization_id, producer, slot_at) DO UPDATE
SET admitted = s.admitted + EXCLUDED.admitted
