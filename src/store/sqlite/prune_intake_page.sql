SELECT organization_id, producer, slot_at, slot_at < ?4 AS prunable
FROM intake_slots
WHERE (organization_id, producer, slot_at) > (?1, ?2, ?3)
ORDER BY organization_id, producer, slot_at
LIMIT ?5
