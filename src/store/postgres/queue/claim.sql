-- One round trip; see the function in the migration. What was given before is in no order of its own:
-- that this is asked again is seen before the queue is locked, or else by the instant of the claim.
SELECT id, status, fencing_token, lease_expires_at, claimed_at, organization_id, project_id,
       agent_profile_id, reason, payload, task_id, actor_type, actor_id, idempotency_key,
       coalesced_count, producer, traceparent, requested_at,
       queue_rank(queue_class, producer, actor_type, reason, requested_at) AS queue_rank,
       claimed_at IS DISTINCT FROM $5 OR (
           SELECT b.id FROM runs b WHERE b.claim_id = $1 AND b.status = 'claimed' LIMIT 1
       ) IS NOT NULL AS again
FROM queue_claim($1, $2, $3, $4, $5, $6, $7, $8, $9)
