INSERT INTO refused_wakes (wake_id, organization_id, task_id, reason, record, requested_at)
SELECT * FROM unnest(
    $1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[]
)
ON CONFLICT (wake_id) DO NOTHING
