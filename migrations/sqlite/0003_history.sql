-- What joined a run, and what was refused of a task: operators ask for both, and neither may be
-- looked for in the whole table.

CREATE INDEX merged_wakes_by_run ON merged_wakes (run_id, requested_at, wake_id);

CREATE INDEX refused_wakes_by_task
    ON refused_wakes (organization_id, task_id, requested_at, wake_id)
    WHERE task_id IS NOT NULL;
