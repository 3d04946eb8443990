-- What joined a run, and what was refused of a task: operators ask for both, and neither may be
-- looked for in the whole table. The wakes' ids are no part of them: while a table is small, or was
-- when it was analysed, an index that ends in the id looks as good for an id as the primary key.

CREATE INDEX merged_wakes_by_run ON merged_wakes (run_id, requested_at);

CREATE INDEX refused_wakes_by_task
    ON refused_wakes (organization_id, task_id, requested_at)
    WHERE task_id IS NOT NULL;
