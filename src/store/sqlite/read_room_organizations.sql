WITH w (position, organization_id) AS (VALUES (?, ?))
SELECT w.position, q.queued AS depth,
       CASE CAST(strftime('%s', 'now') AS INTEGER) / 60 - q.drain_minute
           WHEN 0 THEN q.drained + q.drained_before
           WHEN 1 THEN q.drained
           ELSE 0
       END AS drained,
       60000 + CAST(strftime('%s', 'now') AS INTEGER) % 60 * 1000 AS millis,
       l.queued_runs_max, l.queued_runs_project_max, l.waiting_seconds_max, l.active_runs_max,
       l.intake_events_per_minute_max, l.event_bytes_max
FROM w
LEFT JOIN queue_organizations q ON q.organization_id = w.organization_id
LEFT JOIN organization_limits l ON l.organization_id = w.organization_id
WHERE w.organization_id IS NOT NULL
