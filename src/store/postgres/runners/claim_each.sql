-- One round trip and one transaction for several claims, in order of their positions; organizations
-- are given with the position of the claim that names them. See the function in the migration, and
-- claim.sql. EXISTS would be looked up in a hash of all that is claimed.
SELECT w.position, c.id, c.status, c.fencing_token, c.lease_expires_at, c.claimed_at,
       c.organization_id, c.project_id, c.agent_profile_id, c.reason, c.payload, c.task_id,
       c.actor_type, c.actor_id, c.idempotency_key, c.coalesced_count, c.producer, c.traceparent,
       c.requested_at,
       queue_rank(c.queue_class, c.producer, c.actor_type, c.reason, c.requested_at) AS queue_rank,
       c.claimed_at IS DISTINCT FROM $7 OR (
           SELECT b.id FROM runs b WHERE b.claim_id = w.claim_id AND b.status = 'claimed' LIMIT 1
       ) IS NOT NULL AS again
FROM (
    SELECT generate_subscripts($1::uuid[], 1) AS position, unnest($1::uuid[]) AS claim_id,
           unnest($2::text[]) AS runner, unnest($3::integer[]) AS runs_max,
           unnest($4::timestamptz[]) AS lease_until
) w
CROSS JOIN LATERAL queue_claim(
    w.claim_id, w.runner, w.runs_max,
    (
        SELECT array_agg(o.organization_id)
        FROM unnest($5::integer[], $6::text[]) AS o (position, organization_id)
        WHERE o.position = w.position
    ),
    $7, w.lease_until, $8, $9, $10
) c
