-- What this very request has been given before.
SELECT id, fencing_token, lease_expires_at, claimed_at, organization_id, project_id,
       agent_profile_id, reason, payload, task_id, actor_type, actor_id, idempotency_key,
       coalesced_count, producer, traceparent, requested_at, queue_rank
FROM runs
WHERE status = 'claimed' AND claim_id = ?
