-- Looked at when the transaction commits, with the queue locked; see the migration.
INSERT INTO room_claims (
    queued_max, organization_ids, queued_organization_max, queued_project_max, project_places,
    project_ids, intake_organization_ids, intake_producers, intake_slots, intake_admitted, intake_max
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
