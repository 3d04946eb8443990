SELECT status AS name, count(*) AS total
FROM agents
GROUP BY status
ORDER BY status
