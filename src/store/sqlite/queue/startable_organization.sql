SELECT o.organization_id, o.share, o.served
FROM queue_organizations o
WHERE o.organization_id = ? AND o.startable AND o.active < ?
