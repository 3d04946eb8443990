SELECT organization_id, queued_runs_max, queued_runs_project_max, waiting_seconds_max,
       active_runs_max, intake_events_per_minute_max, event_bytes_max, weight, actor, reason,
       updated_at
FROM organization_limits
WHERE organization_id = $1
