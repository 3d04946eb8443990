//! An event that is at fault costs only itself.

use serde_json::json;

use super::on_both_databases;
use super::stage::{Dialect, Setting, Stage};
use super::story::assignment;
use crate::harness::outside::Outside;

on_both_databases!(
    what_the_database_refuses_alone_is_unstorable_and_the_rest_of_its_batch_is_admitted,
    organizations_never_meet_and_none_speaks_for_another,
);

/// The database refuses the runs of one agent, as a constraint of its own would.
async fn refuse_runs_of(stage: &Stage, agent: &str) {
    let sql = match &stage.outside {
        Outside::Sqlite(_) => format!(
            "CREATE TRIGGER refuse BEFORE INSERT ON runs WHEN new.agent_profile_id = '{agent}'
             BEGIN SELECT raise(ABORT, 'not this one'); END"
        ),
        Outside::Postgres(_) => {
            format!("ALTER TABLE runs ADD CHECK (agent_profile_id <> '{agent}')")
        }
    };
    stage.outside.execute(&sql).await;
}

async fn what_the_database_refuses_alone_is_unstorable_and_the_rest_of_its_batch_is_admitted(
    dialect: Dialect,
) {
    let stage = Stage::set(dialect).await;
    refuse_runs_of(&stage, "bad").await;
    let mut asked = Vec::new();
    for nth in 0..100 {
        let agent = if nth == 37 { "bad".to_owned() } else { format!("a{nth}") };
        asked.push(stage.ask(&assignment("t1", &agent, 1)).await);
    }
    let worker = stage.worker().await;
    for (nth, asked) in asked.iter().enumerate() {
        let record = stage.outcome(asked).await;
        if nth == 37 {
            assert_eq!(record["outcome"], "rejected", "{record}");
            assert_eq!(record["reason"], "unstorable", "{record}");
        } else {
            assert_eq!(record["outcome"], "queued", "{}", worker.told(&record.to_string()));
        }
    }
    stage.settled().await;
    assert_eq!(stage.outside.run_count().await, 99);
    assert_eq!(stage.outside.number("SELECT count(*) FROM wake_keys").await, 99);
    let audited = stage.audited().await;
    let [event] = audited.as_slice() else { panic!("one audit event: {audited:?}") };
    assert_eq!(event.subject, "wake-audit.rejected.unstorable.acme");
    assert_eq!(event.record["stream_sequence"], asked[37].sequence);
    let holds = worker.moved(&["wakegate_lane_holds_total"]).await;
    assert!(holds.is_empty(), "nothing waited for it: {holds:?}");

    worker.kill();
    stage.deliver_everything_again().await;
    stage.catch_up();
    assert_eq!(stage.outside.run_count().await, 99, "and it stays so");
    assert_eq!(stage.audited().await, audited);
}

async fn organizations_never_meet_and_none_speaks_for_another(dialect: Dialect) {
    let stage = Stage::with(dialect, Setting { partitions: 3, ..Setting::default() }).await;
    let worker = stage.worker().await;
    let of = |organization: &str| json!({ "organization_id": organization });
    let organizations = ["acme", "globex", "", "acme.globex", "-", "ACME"];
    for round in 0..3 {
        let mut asked = Vec::new();
        for organization in organizations {
            asked.push(stage.ask(&assignment("t1", "a1", 7).with(of(organization))).await);
        }
        for (organization, asked) in organizations.iter().zip(&asked) {
            let record = stage.outcome(asked).await;
            let expected = if round == 0 { "queued" } else { "deduplicated" };
            assert_eq!(record["outcome"], expected, "{organization}: {record}");
            let run = stage.outside.run_of(&record).await;
            assert_eq!(run.organization_id, *organization, "the run that it met is its own");
        }
    }
    assert_eq!(stage.outside.run_count().await, 6);

    let mut forged = assignment("t1", "a1", 8);
    "globex".clone_into(&mut forged.organization);
    let record = stage.publish_for_outcome(&forged).await;
    assert_eq!(record["reason"], "subject_mismatch");
    assert!(record.get("organization_id").is_none(), "whose it is cannot be told: {record}");
    stage.settled().await;
    let audited = stage.audited().await;
    let [event] = audited.as_slice() else { panic!("one audit event: {audited:?}") };
    assert_eq!(event.subject, "wake-audit.rejected.subject_mismatch.globex");
    assert_eq!(stage.outside.run_count().await, 6, "{}", worker.log());
}
