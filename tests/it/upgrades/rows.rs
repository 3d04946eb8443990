//! Data that every schema since the first one can hold: a row or more in each table, by the columns
//! that the contract lists.

use crate::harness::outside::Outside;

/// Table, its columns that every version has, and rows. `{now}` is the present instant, `{id:n}` an
/// id of the dialect's kind.
const DATA: [(&str, &str, &[&str]); 8] = [
    (
        "runs",
        "id, organization_id, project_id, agent_profile_id, reason, status, payload, task_id, \
         actor_type, actor_id, idempotency_key, coalesced_count, degraded_reason, producer, \
         requested_at",
        &[
            "{id:1}, 'acme', 'p', 'a1', 'task_assigned', 'claimed', '{\"task_id\":\"known\"}', \
             'known', 'user', NULL, 'task_assigned:known:a1:1', 3, NULL, 'task_mutation', {now}",
            "{id:2}, '', NULL, 'ä', 'r', 'queued', 'no json \\u0000', NULL, NULL, NULL, NULL, 1, \
             'task_unattributed', 'other', {now}",
            "{id:11}, 'acme', NULL, 'a1', 'task_assigned', 'succeeded', '{}', 'busy', 'agent', \
             'lead', NULL, 1, NULL, 'task_mutation', {now}",
            "{id:12}, 'acme', NULL, 'a1', 'task_assigned', 'failed', '{}', 'busy', 'agent', \
             'lead', NULL, 1, NULL, 'task_mutation', {now}",
            "{id:13}, 'acme', NULL, 'a2', 'task_assigned', 'running', '{}', 'busy', 'agent', \
             'lead', NULL, 1, NULL, 'task_mutation', {now}",
            "{id:14}, 'acme', NULL, 'a2', 'task_assigned', 'claimed', '{}', 'busy', 'agent', \
             'lead', NULL, 1, NULL, 'task_mutation', {now}",
            "{id:15}, 'acme', NULL, 'a2', 'task_assigned', 'cancelled', '{}', 'busy', 'agent', \
             'lead', NULL, 1, NULL, 'task_mutation', {now}",
            "{id:16}, 'acme', 'p', 'a2', 'r', 'queued', '{}', NULL, 'user', 'ann', NULL, 1, NULL, \
             'other', {now}",
            "{id:17}, 'acme', 'p', 'a2', 'r', 'queued', '{}', NULL, 'agent', NULL, NULL, 1, NULL, \
             'recovery_sweep', {now}",
            "{id:18}, 'paused', 'p', 'a2', 'r', 'expired', '{}', NULL, NULL, NULL, NULL, 1, NULL, \
             'other', {now}",
            "{id:19}, 'paused', NULL, 'a2', 'r', 'timed_out', '{}', NULL, NULL, NULL, NULL, 1, NULL, \
             'other', {now}",
            "{id:6}, 'paused', NULL, 'a2', 'r', 'limit_exceeded', '{}', NULL, NULL, NULL, NULL, 1, \
             NULL, 'other', {now}",
        ],
    ),
    (
        "merged_wakes",
        "wake_id, run_id, organization_id, idempotency_key, payload, actor_type, actor_id, \
         requested_at",
        &["{id:3}, {id:1}, 'acme', 'k-merged', '{}', 'agent', 'lead', {now}"],
    ),
    (
        "refused_wakes",
        "wake_id, organization_id, task_id, reason, record, requested_at",
        &["{id:4}, 'acme', 't', 'agent_paused', '{\"outcome\":\"refused\"}', {now}"],
    ),
    (
        "wake_keys",
        "organization_id, idempotency_key, run_id, requested_at",
        &["'acme', 'task_assigned:known:a1:1', {id:1}, {now}", "'acme', 'k-merged', {id:1}, {now}"],
    ),
    (
        "lanes",
        "stream, lane, stream_created_at, decided_sequence, decided_instant",
        &["'ELSEWHERE', 0, {now}, 12, {now}"],
    ),
    (
        "isolated_wakes",
        "wake_id, stream, lane, attempts, started_at",
        &["{id:5}, 'ELSEWHERE', 0, 2, {now}"],
    ),
    (
        "agents",
        "organization_id, agent_profile_id, status, updated_at",
        &["'acme', 'stopped', 'stopped', {now}", "'acme', 'a1', 'working', {now}"],
    ),
    (
        "pauses",
        "id, scope, organization_id, mode, actor, reason, created_at, released_at",
        &[
            "'p1', 'organization', 'paused', 'drain', 'ann', 'why', {now}, NULL",
            "'p2', 'platform', '', 'stop_now', 'ann', 'over', {now}, {now}",
        ],
    ),
];

/// Fills every table.
pub async fn fill(outside: &Outside) {
    for (table, columns, rows) in DATA {
        for row in rows {
            let mut row = (*row).to_owned();
            let now = match outside {
                Outside::Sqlite(_) => {
                    "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)"
                }
                Outside::Postgres(_) => "now()",
            };
            row = row.replace("{now}", now);
            for nth in 0..20 {
                let id = format!("'{}'", uuid::Uuid::from_u128(nth));
                row = row.replace(&format!("{{id:{nth}}}"), &id);
            }
            outside.execute(&format!("INSERT INTO {table} ({columns}) VALUES ({row})")).await;
        }
    }
}

/// Every row by those columns, sorted.
pub async fn rows(outside: &Outside) -> Vec<String> {
    let mut all = Vec::new();
    for (table, columns, _) in DATA {
        let found: Vec<String> = match outside {
            Outside::Sqlite(pool) => {
                let sql = format!("SELECT json_array({columns}) FROM {table}");
                sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).fetch_all(pool).await.unwrap()
            }
            Outside::Postgres(pool) => {
                let sql = format!(
                    "SELECT row_to_json(r)::text FROM (SELECT {columns} FROM {table}) AS r"
                );
                sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).fetch_all(pool).await.unwrap()
            }
        };
        assert!(!found.is_empty(), "{table} has data");
        all.extend(found.into_iter().map(|row| format!("{table} {row}")));
    }
    all.sort();
    all
}
