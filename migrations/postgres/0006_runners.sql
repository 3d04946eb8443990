-- Runs under way that nobody has asked to end, by organization: those that a pause of mode `stop_now`
-- is to end.
CREATE INDEX runs_unstopped ON runs (organization_id, id)
    WHERE status IN ('claimed', 'running') AND cancel_requested_at IS NULL;
