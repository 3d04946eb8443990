INSERT INTO shadowed_wakes (wake_id, organization_id, task_id, reasons, record, requested_at)
SELECT unnest($1::uuid[]), unnest($2::text[]), unnest($3::text[]), unnest($4::text[]),
       unnest($5::text[]), unnest($6::timestamptz[])
