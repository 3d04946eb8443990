INSERT INTO redrives (wake_id, ordinal, message_id, outcome, outcome_reason, after_sequence, actor,
    reason, created_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT (wake_id, ordinal) DO NOTHING
RETURNING ordinal
