UPDATE runs
SET status = 'claimed', claimed_at = ?2, lease_expires_at = ?3, runner_id = ?4, claim_id = ?5,
    fencing_token = fencing_token + 1
WHERE id = ?1 AND status = 'queued' AND (expires_at IS NULL OR expires_at > ?2)
RETURNING id, fencing_token, lease_expires_at, claimed_at, organization_id, project_id,
          agent_profile_id, reason, payload, task_id, actor_type, actor_id, idempotency_key,
          coalesced_count, producer, traceparent, requested_at
