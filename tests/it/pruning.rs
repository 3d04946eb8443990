//! `wakegate prune`: what goes, what stays whatever is asked, and what is refused.

use serde_json::{Value, json};
use wakegate::admission::{GateName, Shadows};
use wakegate::store::Store;
use wakegate::store::prune::{Horizon, PruneStore, Table, sweep};
use wakegate::wake::UtcMicros;

use crate::harness::case::{self, Case};
use crate::harness::world::{MINUTE, Published, SECOND, T0, mutation, requested};
use crate::through_servers::on_both_databases;
use crate::through_servers::stage::{Dialect, Stage};
use crate::through_servers::story::assignment;

on_both_databases!(the_command_deletes_what_has_ended_and_says_how_much);

const HOUR: i64 = 60 * MINUTE;

fn at(micros: i64) -> UtcMicros {
    UtcMicros::from_micros(micros)
}

#[tokio::test]
async fn what_has_not_ended_stays_with_all_of_it_on_sqlite() {
    Box::pin(what_has_not_ended_stays(case::sqlite().await)).await;
}

#[tokio::test]
async fn what_has_not_ended_stays_with_all_of_it_on_postgres() {
    Box::pin(what_has_not_ended_stays(case::postgres().await)).await;
}

/// A wake of a person, with a key.
fn keyed(at: i64, task: &str, key: &str) -> Published {
    requested(at, "a", json!({ "task_id": task, "actor_type": "user" }), Some(key))
}

/// Four old runs: ended, ended with a merge, queued with a merge, and ended but lately; and one that
/// is young.
async fn fill<S: Store>(case: &mut Case<S>) {
    let events = [
        keyed(T0, "ended", "k1"),
        keyed(T0, "merged", "k2"),
        keyed(T0 + SECOND, "merged", "k3"),
        keyed(T0, "waiting", "k4"),
        keyed(T0 + SECOND, "waiting", "k5"),
        keyed(T0, "lately", "k6"),
        keyed(T0 + 48 * HOUR, "young", "k7"),
    ];
    let outcomes = case.world.outcomes(&events).await;
    let (queued, coalesced) = ("queued", "coalesced");
    assert_eq!(outcomes, [queued, queued, coalesced, queued, coalesced, queued, queued]);
    case.outside
        .execute("UPDATE runs SET status = 'succeeded' WHERE task_id NOT IN ('waiting', 'lately')")
        .await;
    // Requested long ago, ended only now: after what is pruned.
    case.outside
        .execute(
            "UPDATE runs SET status = 'failed', finished_at = \
             (SELECT requested_at FROM runs WHERE task_id = 'young') WHERE task_id = 'lately'",
        )
        .await;
    case.outside.set_agent("acme", "stopped", "stopped").await;
    for at in [T0, T0 + 48 * HOUR] {
        let refused = case.world.send(mutation(at, "t", "", "stopped", json!(at))).await;
        assert_eq!(refused["outcome"], "refused");
    }

    case.world.bench.shadows = Shadows::of(&[GateName::Pause]);
    case.outside.pause("p1", None).await;
    for at in [T0 + HOUR, T0 + 47 * HOUR] {
        let unchanged = case.world.send(keyed(at, "ended", "k1")).await;
        assert_eq!(unchanged["outcome"], "deduplicated");
        assert_eq!(unchanged["would_refuse"][0]["reason"], "platform_paused");
    }
    // One of each refusal.
    case.outside
        .execute(
            "INSERT INTO redrives (wake_id, ordinal, message_id, outcome, outcome_reason, \
             after_sequence, actor, reason, created_at) \
             SELECT wake_id, 1, 'm', 'refused', reason, 1, 'ann', 'why', requested_at \
             FROM refused_wakes",
        )
        .await;
}

async fn what_has_not_ended_stays<S: Store + PruneStore>(mut case: Case<S>) {
    fill(&mut case).await;
    let store = case.world.bench.store.clone();
    let horizon = |keys| Horizon { rows: at(T0 + 24 * HOUR), keys };
    let gone = |keys| {
        [
            (Table::Keys, keys),
            (Table::Merged, 1),
            (Table::Runs, 2),
            (Table::Refused, 1),
            (Table::Shadowed, 1),
            (Table::Intake, 1),
            (Table::Redrives, 1),
        ]
    };
    for (keys, expected) in [(None, gone(0)), (Some(at(T0 + 24 * HOUR)), gone(3))] {
        let preview = sweep(&store, horizon(keys), true).await.unwrap();
        assert_eq!(preview, expected, "a preview, {keys:?}");
    }
    // At an instant before all of it nothing goes, and at none of it anything that waits.
    let nothing = Horizon { rows: at(T0), keys: Some(at(T0)) };
    assert!(sweep(&store, nothing, false).await.unwrap().iter().all(|(_, rows)| *rows == 0));

    let swept = sweep(&store, horizon(None), false).await.unwrap();
    assert_eq!(swept, gone(0));
    assert_eq!(case.outside.number("SELECT count(*) FROM intake_slots").await, 1, "the young one");
    let left = |table: &'static str| {
        let outside = &case.outside;
        async move { outside.number(&format!("SELECT count(*) FROM {table}")).await }
    };
    assert_eq!(left("runs").await, 3);
    assert_eq!(left("merged_wakes").await, 1);
    assert_eq!(left("refused_wakes").await, 1);
    assert_eq!(left("shadowed_wakes").await, 1);
    assert_eq!(left("redrives").await, 1);
    assert_eq!(left("wake_keys").await, 7, "a key outlives its run");
    // The occurrences are known for ever, whatever became of the runs.
    let again = case.world.outcomes(&[keyed(T0 + 72 * HOUR, "ended", "k1")]).await;
    assert_eq!(again, ["deduplicated:durable"]);

    let swept = sweep(&store, horizon(Some(at(T0 + 24 * HOUR))), false).await.unwrap();
    assert_eq!(swept[0], (Table::Keys, 3), "the keys of what is gone, and no other");
    let again = case.world.outcomes(&[keyed(T0 + 72 * HOUR, "ended", "k1")]).await;
    assert_eq!(again, ["queued"], "that is what it means to forget a key");
    let waiting = case.world.outcomes(&[keyed(T0 + 72 * HOUR, "waiting", "k5")]).await;
    assert_eq!(waiting, ["deduplicated:durable"]);
}

#[tokio::test]
async fn more_than_a_page_is_pruned_on_sqlite() {
    Box::pin(more_than_a_page_is_pruned(case::sqlite().await)).await;
}

#[tokio::test]
async fn more_than_a_page_is_pruned_on_postgres() {
    Box::pin(more_than_a_page_is_pruned(case::postgres().await)).await;
}

async fn more_than_a_page_is_pruned<S: Store + PruneStore>(mut case: Case<S>) {
    let events: Vec<_> =
        (0..1_300_i64).map(|n| mutation(T0 + n, &format!("t{n}"), "", "a", json!(n))).collect();
    case.world.batch(&events).await;
    case.outside.execute("UPDATE runs SET status = 'cancelled' WHERE task_id <> 't7'").await;
    let horizon = Horizon { rows: at(T0 + HOUR), keys: Some(at(T0 + HOUR)) };
    let store = case.world.bench.store.clone();
    for preview in [true, false] {
        let swept = sweep(&store, horizon, preview).await.unwrap();
        let counts = swept.map(|(_, rows)| rows);
        assert_eq!(counts, [1_299, 0, 1_299, 0, 0, 1, 0], "preview {preview}");
    }
    assert_eq!(case.outside.number("SELECT count(*) FROM runs").await, 1);
    assert_eq!(case.outside.number("SELECT count(*) FROM wake_keys").await, 1);
}

/// Moves every run's instants into the past.
async fn age(stage: &Stage, days: i64) {
    let sql = match stage.outside {
        crate::harness::outside::Outside::Sqlite(_) => {
            format!("UPDATE runs SET requested_at = requested_at - {days} * 86400000000")
        }
        crate::harness::outside::Outside::Postgres(_) => {
            format!("UPDATE runs SET requested_at = requested_at - interval '{days} days'")
        }
    };
    stage.outside.execute(&sql).await;
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("JSON in a pipe")).collect()
}

async fn the_command_deletes_what_has_ended_and_says_how_much(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let worker = stage.worker().await;
    stage.publish_for_outcome(&assignment("t1", "a1", 1)).await;
    stage.publish_for_outcome(&assignment("t2", "a1", 1)).await;
    stage.settled().await;
    drop(worker);
    stage.outside.execute("UPDATE runs SET status = 'succeeded' WHERE task_id = 't1'").await;
    age(&stage, 60).await;

    let short = stage.run(&["prune", "--older-than", "7d"]);
    assert_eq!((short.code, short.stdout.as_str()), (Some(2), ""), "{}", short.stderr);
    assert!(
        short.stderr.contains("--older-than is shorter than 8d: WAKES keeps"),
        "{}",
        short.stderr
    );

    for (arguments, deleted) in [(&["--dry-run"][..], false), (&[], true)] {
        let ended = stage.run(&[&["prune", "--older-than", "30d"], arguments].concat());
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
        let told = lines(&ended.stdout);
        let rows: Vec<_> =
            told.iter().map(|line| (line["table"].as_str(), line["rows"].as_u64())).collect();
        let expected = [
            ("wake_keys", 0),
            ("merged_wakes", 0),
            ("runs", 1),
            ("refused_wakes", 0),
            ("shadowed_wakes", 0),
            ("intake_slots", 0),
            ("redrives", 0),
        ];
        assert_eq!(rows, expected.map(|(table, rows)| (Some(table), Some(rows))));
        assert!(told.iter().all(|line| line["deleted"] == deleted), "{told:?}");
        let left = stage.outside.number("SELECT count(*) FROM runs").await;
        assert_eq!(left, if deleted { 1 } else { 2 });
    }

    // With the stream out of reach, what is declared has to do.
    let mut command = stage.command(&["prune", "--older-than", "30d"]);
    command.env("WAKEGATE_NATS_URL", "nats://127.0.0.1:1");
    let ended = crate::harness::command::ended(&mut command);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("is taken from its declaration"), "{}", ended.stderr);
    let wrong = stage.run(&["prune", "--older-than", "soon"]);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("wants a number and s, m, h, d or w"), "{}", wrong.stderr);
}
