SELECT wake_id, ordinal, message_id, outcome, outcome_reason, after_sequence, actor, reason,
    created_at, published_at, published_sequence, published_wake_id
FROM redrives
WHERE wake_id = $1
ORDER BY ordinal DESC
LIMIT 1
