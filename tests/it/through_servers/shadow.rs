//! Gates in shadow, as publishers and operators meet them.

use serde_json::{Value, json};

use super::on_both_databases;
use super::stage::{Dialect, Stage};
use super::story::assignment;
use crate::control::asking::{ask, until_answering};
use crate::harness::world::brief;

on_both_databases!(
    a_pause_in_shadow_stops_nothing_and_says_so_everywhere,
    everything_delivered_again_by_a_worker_that_enforces_changes_nothing,
);

const IN_SHADOW: (&str, &str) = ("WAKEGATE_GATES_PAUSE_MODE", "shadow");
const COUNTED: &str = "wakegate_would_refuse_total{gate=\"pause\",reason=\"organization_paused\"}";

async fn a_pause_in_shadow_stops_nothing_and_says_so_everywhere(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    stage.outside.pause("p1", Some("acme")).await;
    let worker = stage.worker_with(&[IN_SHADOW]).await;
    worker.until_logged("gate pause is in shadow: it says what it would refuse").await;
    worker.until_logged("a pause of the platform or of an organization stops nothing").await;
    let ready = worker.until_readyz("it is ready", |answer| answer.status == 200).await;
    assert_eq!(ready["gates_in_shadow"], json!(["pause"]));

    let record = stage.publish_for_outcome(&assignment("t1", "a1", 1)).await;
    assert_eq!(brief(&record), "queued");
    assert_eq!(record["would_refuse"][0]["pause_id"], "p1");
    stage.settled().await;
    let audited = stage.audited().await;
    assert_eq!(audited.len(), 1, "{audited:?}");
    assert_eq!(audited[0].subject, "wake-audit.would_refuse.organization_paused.acme");
    assert_eq!(audited[0].record, record);
    assert_eq!(worker.scrape().await[COUNTED].to_bits(), 1.0_f64.to_bits());
    assert!(worker.moved(&["wakegate_refusals_total"]).await.is_empty());

    let client = stage.nats.client().await;
    until_answering(&client).await;
    let health = ask(&client, "health", json!({})).await.unwrap();
    assert_eq!(health["gates_in_shadow"], json!(["pause"]));
    // One that joins the run, and one that leaves no row of its own.
    let merged = assignment("t1", "a1", 2);
    let merged = stage.publish_for_outcome(&merged).await;
    let duplicate = stage.publish_for_outcome(&assignment("t1", "a1", 1)).await;
    assert_eq!((&*brief(&merged), &*brief(&duplicate)), ("coalesced", "deduplicated:windowed"));
    stage.settled().await;
    let told = |subject: &[&str]| {
        let why = stage.run(&[&["why"], subject].concat());
        assert_eq!(why.code, Some(0), "{}", why.stderr);
        let lines = why.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let shadows = lines.filter(|line| line["what"] == "would_refuse");
        let told = shadows.map(|line| {
            assert_eq!(line["reason"], "organization_paused", "{line}");
            (line["wake_id"].clone(), line["from"].as_str().unwrap().to_owned())
        });
        told.collect::<Vec<_>>()
    };
    let of = |record: &Value, from: &str| (record["wake_id"].clone(), from.to_owned());
    let both = [of(&record, "shadowed_wakes"), of(&merged, "shadowed_wakes")];
    for record in [&record, &merged, &duplicate] {
        let told = told(&[record["wake_id"].as_str().unwrap()]);
        assert!(told.contains(&of(record, "shadowed_wakes")), "{record}: {told:?}");
    }
    assert_eq!(told(&["t1", "--organization", "acme", "--tables-only"]), both);
    let all = told(&["t1", "--organization", "acme"]);
    assert_eq!(all, [&both[..], &[of(&duplicate, "audit")]].concat(), "and each once");
}

async fn everything_delivered_again_by_a_worker_that_enforces_changes_nothing(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    stage.outside.pause("p1", Some("acme")).await;
    let worker = stage.worker_with(&[IN_SHADOW]).await;
    for generation in [1_u64, 2, 2] {
        stage.publish_for_outcome(&assignment("t1", "a1", generation)).await;
    }
    stage.settled().await;
    let (rows, audited) = (stage.rows().await, stage.audited().await);
    assert_eq!(audited.len(), 3, "{audited:?}");
    worker.kill();
    stage.deliver_everything_again().await;
    let worker = stage.worker().await;
    stage.settled().await;
    assert_eq!(stage.rows().await, rows);
    assert_eq!(stage.audited().await, audited, "told once");
    let counted =
        ["wakegate_would_refuse_total", "wakegate_refusals_total", "wakegate_wakes_total"];
    assert!(worker.moved(&counted).await.is_empty(), "{}", worker.told("counted twice"));
    let record = stage.publish_for_outcome(&assignment("t2", "a1", 1)).await;
    assert_eq!(brief(&record), "refused:organization_paused");
}
