-- An id begins with the instant of its wake.
SELECT reason AS name, count(*) AS total
FROM refused_wakes
WHERE wake_id >= $1
GROUP BY reason
ORDER BY reason
