-- One unnest a column in the SELECT list: in FROM each would be kept as a table of its own first.
INSERT INTO runs (
    id, organization_id, project_id, agent_profile_id, reason, idempotency_key, coalesced_count,
    degraded_reason, producer, traceparent, requested_at, decided_at, expires_at,
    payload, task_id, task_unusable, actor_type, actor_id, queue_class
)
SELECT unnest($1::uuid[]), unnest($2::text[]), unnest($3::text[]), unnest($4::text[]),
       unnest($5::text[]), unnest($6::text[]), unnest($7::integer[]),
       unnest($8::text[]), unnest($9::text[]), unnest($10::text[]),
       unnest($11::timestamptz[]), unnest($12::timestamptz[]), unnest($13::timestamptz[]),
       unnest($14::text[]), unnest($15::text[]), unnest($16::boolean[]), unnest($17::text[]),
       unnest($18::text[]), unnest($19::smallint[])
