INSERT INTO merged_wakes (
    wake_id, run_id, organization_id, idempotency_key, requested_at, decided_at,
    payload, actor_type, actor_id
)
SELECT unnest($1::uuid[]), unnest($2::uuid[]), unnest($3::text[]), unnest($4::text[]),
       unnest($5::timestamptz[]), unnest($6::timestamptz[]),
       unnest($7::text[]), unnest($8::text[]), unnest($9::text[])
