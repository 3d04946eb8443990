SELECT o.organization_id, o.share, o.served
FROM queue_organizations o
WHERE o.startable AND o.share >= 0 AND o.active < ?
ORDER BY o.share, o.served, o.organization_id
LIMIT 1
