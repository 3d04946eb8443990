WITH w (position, organization_id, producer, first, last) AS (VALUES (?, ?, ?, ?, ?))
SELECT w.position, s.admitted AS depth, s.slot_at
FROM w CROSS JOIN intake_slots s
    ON s.organization_id = w.organization_id AND s.producer = w.producer
    AND s.slot_at BETWEEN w.first AND w.last
