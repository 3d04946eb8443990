SELECT count(*) AS total FROM runs WHERE status = 'queued'
