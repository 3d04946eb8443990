SELECT status, fencing_token, lease_expires_at, cancel_requested_at, organization_id, actor_id
FROM runs
WHERE id = $1
