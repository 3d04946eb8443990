SELECT 0::bigint AS position, p.id
FROM pauses p
WHERE p.scope = 'platform' AND p.organization_id = '' AND p.released_at IS NULL
UNION ALL
SELECT w.position, p.id
FROM unnest($1::text[]) WITH ORDINALITY AS w (organization_id, position)
JOIN pauses p
    ON p.scope = 'organization' AND p.organization_id = w.organization_id
    AND p.released_at IS NULL
