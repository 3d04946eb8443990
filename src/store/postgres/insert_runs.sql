INSERT INTO runs (
    id, organization_id, project_id, agent_profile_id, reason, idempotency_key, coalesced_count,
    degraded_reason, producer, traceparent, requested_at, decided_at,
    payload, task_id, task_unusable, actor_type, actor_id
)
SELECT * FROM unnest(
    $1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::integer[],
    $8::text[], $9::text[], $10::text[], $11::timestamptz[], $12::timestamptz[],
    $13::text[], $14::text[], $15::boolean[], $16::text[], $17::text[]
)
ON CONFLICT (id) DO NOTHING
