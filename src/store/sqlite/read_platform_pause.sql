SELECT id FROM pauses WHERE scope = 'platform' AND organization_id = '' AND released_at IS NULL
