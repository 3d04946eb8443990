SELECT p.queued AS depth,
       CASE CAST(strftime('%s', 'now') AS INTEGER) / 60 - p.drain_minute
           WHEN 0 THEN p.drained + p.drained_before
           WHEN 1 THEN p.drained
           ELSE 0
       END AS drained,
       60000 + CAST(strftime('%s', 'now') AS INTEGER) % 60 * 1000 AS millis
FROM queue_platform p
WHERE p.singleton = 1
