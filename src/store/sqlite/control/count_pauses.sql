SELECT scope AS name, count(*) AS total
FROM pauses
WHERE released_at IS NULL
GROUP BY scope
ORDER BY scope
