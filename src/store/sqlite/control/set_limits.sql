INSERT INTO organization_limits AS l (
    organization_id, queued_runs_max, queued_runs_project_max, waiting_seconds_max, active_runs_max,
    intake_events_per_minute_max, event_bytes_max, weight, actor, reason, updated_at
)
VALUES (?1, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)
ON CONFLICT (organization_id) DO UPDATE
SET queued_runs_max = CASE WHEN ?2 THEN excluded.queued_runs_max ELSE l.queued_runs_max END,
    queued_runs_project_max =
        CASE WHEN ?3 THEN excluded.queued_runs_project_max ELSE l.queued_runs_project_max END,
    waiting_seconds_max =
        CASE WHEN ?4 THEN excluded.waiting_seconds_max ELSE l.waiting_seconds_max END,
    active_runs_max = CASE WHEN ?5 THEN excluded.active_runs_max ELSE l.active_runs_max END,
    intake_events_per_minute_max = CASE WHEN ?6
        THEN excluded.intake_events_per_minute_max ELSE l.intake_events_per_minute_max END,
    event_bytes_max = CASE WHEN ?7 THEN excluded.event_bytes_max ELSE l.event_bytes_max END,
    weight = CASE WHEN ?8 THEN excluded.weight ELSE l.weight END,
    actor = excluded.actor, reason = excluded.reason, updated_at = excluded.updated_at
RETURNING organization_id, queued_runs_max, queued_runs_project_max, waiting_seconds_max,
          active_runs_max, intake_events_per_minute_max, event_bytes_max, weight, actor, reason,
          updated_at
