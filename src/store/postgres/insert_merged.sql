INSERT INTO merged_wakes (
    wake_id, run_id, organization_id, idempotency_key, requested_at, decided_at,
    payload, actor_type, actor_id
)
SELECT * FROM unnest(
    $1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::timestamptz[], $6::timestamptz[],
    $7::text[], $8::text[], $9::text[]
)
ON CONFLICT (wake_id) DO NOTHING
