SELECT p.active, EXISTS (
    SELECT 1 FROM pauses s
    WHERE s.scope = 'platform' AND s.organization_id = '' AND s.released_at IS NULL
) AS paused
FROM queue_platform p
WHERE p.singleton = 1
