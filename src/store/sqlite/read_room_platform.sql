SELECT p.queued AS depth FROM queue_platform p WHERE p.singleton = 1
