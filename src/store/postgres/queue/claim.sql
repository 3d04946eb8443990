-- One round trip; see the function in the migration.
SELECT id, status, fencing_token, lease_expires_at, claimed_at, organization_id, project_id,
       agent_profile_id, reason, payload, task_id, actor_type, actor_id, idempotency_key,
       coalesced_count, producer, traceparent, requested_at
FROM queue_claim($1, $2, $3, $4, $5, $6, $7, $8, $9)
