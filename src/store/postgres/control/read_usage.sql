SELECT 'platform' AS name, p.queued, p.active
FROM queue_platform p
WHERE p.singleton
UNION ALL
SELECT 'organization', o.queued, o.active
FROM queue_organizations o
WHERE o.organization_id = $1
UNION ALL
SELECT 'project', p.queued, p.active
FROM queue_projects p
WHERE p.organization_id = $1 AND p.project_id = $2
UNION ALL
SELECT 'intake', i.admitted::bigint, 0
FROM unnest($3::text[]) AS w (producer)
CROSS JOIN LATERAL (
    SELECT coalesce(sum(s.admitted), 0) AS admitted
    FROM intake_slots s
    WHERE s.organization_id = $1 AND s.producer = w.producer AND s.slot_at >= $4
) i
