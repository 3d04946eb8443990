SELECT 'platform' AS name, p.queued, p.active
FROM queue_platform p
WHERE p.singleton = 1
UNION ALL
SELECT 'organization', o.queued, o.active
FROM queue_organizations o
WHERE o.organization_id = ?1
UNION ALL
SELECT 'project', p.queued, p.active
FROM queue_projects p
WHERE p.organization_id = ?1 AND p.project_id = ?2
UNION ALL
SELECT 'intake', coalesce(sum(s.admitted), 0), 0
FROM intake_slots s
WHERE s.organization_id = ?1 AND s.slot_at >= ?3
GROUP BY s.producer
