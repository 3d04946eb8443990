//! `wakegate why` and `wakegate runs`: what became of wakes, in order, and runs by page.

use serde_json::{Value, json};
use wakegate::cli::table::Form;
use wakegate::cli::{runs, why};
use wakegate::explain::history::History;
use wakegate::store::history::TaskKey;

use crate::harness::command::Ended;
use crate::harness::world::{MINUTE, SECOND, T0, World, mutation, requested};
use crate::harness::{case, golden};
use crate::through_servers::on_both_databases;
use crate::through_servers::stage::{Dialect, Stage};
use crate::through_servers::story::{assignment, by_agent};

on_both_databases!(
    what_became_of_a_task_a_wake_and_a_run_is_told_in_order,
    what_the_tables_do_not_hold_is_told_from_the_audit_stream,
    runs_are_listed_newest_first_by_page_and_by_filter,
);

fn lines(ended: &Ended) -> Vec<Value> {
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{}", ended.stdout);
    ended.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON in a pipe")).collect()
}

fn what(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["what"].as_str().unwrap()).collect()
}

async fn what_became_of_a_task_a_wake_and_a_run_is_told_in_order(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let worker = stage.worker().await;
    let keyless =
        |agent: &str| by_agent("t1", agent).with(json!({ "assignment_generation": null }));
    let mut records = Vec::new();
    for agent in ["a1", "a1", "a2", "a3", "a4", "a5", "a6"] {
        records.push(stage.publish_for_outcome(&keyless(agent)).await);
    }
    let merged = records.iter().position(|record| record["outcome"] == "coalesced").unwrap();
    let refused = records.iter().position(|record| record["outcome"] == "refused").unwrap();
    // Another task, and the same one of another organization: neither is told of.
    stage.publish_for_outcome(&by_agent("t2", "a1")).await;
    let elsewhere = assignment("t1", "a1", 1).with(json!({ "organization_id": "other" }));
    stage.publish_for_outcome(&elsewhere).await;
    stage.settled().await;
    drop(worker);
    stage
        .outside
        .execute(
            "UPDATE runs SET status = 'succeeded', claimed_at = decided_at, \
             finished_at = decided_at WHERE agent_profile_id = 'a2'",
        )
        .await;

    let told = lines(&stage.run(&["why", "t1", "--organization", "acme"]));
    let ids: Vec<_> = told.iter().filter(|line| !line["wake_id"].is_null()).collect();
    let wakes: Vec<_> = ids.iter().map(|line| line["wake_id"].clone()).collect();
    let published: Vec<_> = records.iter().map(|record| record["wake_id"].clone()).collect();
    assert_eq!(wakes, published, "every wake once, in order: {told:#?}");
    for (line, record) in ids.iter().zip(&records) {
        let outcome = match record["outcome"].as_str().unwrap() {
            "queued" => "admitted",
            other => other,
        };
        assert_eq!(line["what"], outcome, "{line}");
        assert_eq!(line["task_id"], "t1");
    }
    assert_eq!(told.iter().filter(|line| line["what"] == "claimed").count(), 1);
    assert_eq!(told.iter().filter(|line| line["what"] == "ended").count(), 1);

    let id = |index: usize| records[index]["wake_id"].as_str().unwrap();
    // The run, with the wake that joined it; the wake that joined, with its run; the refusal.
    let told = lines(&stage.run(&["why", id(0)]));
    assert_eq!(what(&told), ["admitted", "coalesced"], "{told:#?}");
    let told = lines(&stage.run(&["why", id(merged)]));
    assert_eq!(what(&told), ["admitted", "coalesced"], "{told:#?}");
    assert_eq!(told[1]["run_id"], records[merged]["run_id"]);
    let told = lines(&stage.run(&["why", id(refused)]));
    assert_eq!(what(&told), ["refused"]);
    assert_eq!(told[0]["reason"], "allowance_exhausted");
    assert_eq!(told[0]["record"], records[refused], "the record as it was given");

    let unknown = stage.run(&["why", "t3", "--organization", "acme"]);
    assert_eq!((unknown.code, unknown.stdout.as_str()), (Some(1), ""));
    assert!(unknown.stderr.contains("nothing is known of t3"), "{}", unknown.stderr);
}

async fn what_the_tables_do_not_hold_is_told_from_the_audit_stream(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let worker = stage.worker().await;
    stage.outside.set_agent("acme", "stopped", "stopped").await;
    let refused = stage.publish_for_outcome(&assignment("t1", "stopped", 1)).await;
    let rejected = assignment("t1", "a1", 1).with(json!({ "assignment_generation": -1 }));
    let rejected = stage.publish_for_outcome(&rejected).await;
    stage.settled().await;
    drop(worker);
    // The newest schema may keep a copy of it no longer than the stream keeps the event.
    stage.outside.execute("DELETE FROM refused_wakes").await;

    let told = lines(&stage.run(&["why", "t1", "--organization", "acme"]));
    assert_eq!(what(&told), ["refused"], "{told:#?}");
    assert_eq!((&told[0]["from"], &told[0]["reason"]), (&json!("audit"), &json!("agent_stopped")));
    for (record, class) in [(&refused, "refused"), (&rejected, "rejected")] {
        let told = lines(&stage.run(&["why", record["wake_id"].as_str().unwrap()]));
        assert_eq!(what(&told), [class]);
        assert_eq!(told[0]["reason"], record["reason"]);
    }
    let tables = stage.run(&["why", "t1", "--organization", "acme", "--tables-only"]);
    assert_eq!((tables.code, tables.stdout.as_str()), (Some(1), ""));

    let mut away = stage.command(&["why", "t1", "--organization", "acme"]);
    away.env("WAKEGATE_NATS_URL", "nats://127.0.0.1:1");
    let away = crate::harness::command::ended(&mut away);
    assert_eq!(away.code, Some(1));
    assert!(away.stderr.contains("cannot connect to NATS"), "{}", away.stderr);
    assert!(away.stderr.contains("--tables-only"), "{}", away.stderr);
}

async fn runs_are_listed_newest_first_by_page_and_by_filter(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let worker = stage.worker().await;
    let mut ids = Vec::new();
    for (task, agent) in [("t1", "a1"), ("t1", "a2"), ("t2", "a1"), ("t1", "a3")] {
        let record = stage.publish_for_outcome(&assignment(task, agent, 1)).await;
        ids.push(record["run_id"].as_str().unwrap().to_owned());
    }
    stage.settled().await;
    drop(worker);
    let claim = format!("UPDATE runs SET status = 'claimed' WHERE id = '{}'", ids[0]);
    stage.outside.execute(&claim).await;
    // Ids made within one millisecond are in no order of their own.
    let mut newest_first = ids.clone();
    newest_first.sort();
    newest_first.reverse();

    let listed = |arguments: &[&str]| -> Vec<String> {
        let told = lines(&stage.run(&[&["runs"], arguments].concat()));
        told.iter().map(|run| run["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(listed(&[]), newest_first);
    assert_eq!(listed(&["--limit", "3"]), newest_first[..3]);
    assert_eq!(listed(&["--limit", "3", "--before", &newest_first[2]]), newest_first[3..]);
    assert_eq!(listed(&["--status", "claimed"]), [ids[0].as_str()]);
    assert_eq!(listed(&["--status", "claimed", "--status", "queued"]), newest_first);
    assert_eq!(listed(&["--organization", "other"]), [""; 0]);
    let mut of_a1 = vec![ids[0].clone(), ids[2].clone()];
    of_a1.sort();
    of_a1.reverse();
    assert_eq!(listed(&["--organization", "acme", "--agent", "a1"]), of_a1);
    let task = ["--organization", "acme", "--task", "t1"];
    assert_eq!(listed(&task), [ids[3].as_str(), &ids[1], &ids[0]], "by request instant");
    let page = listed(&[&task[..], &["--limit", "2", "--before", &ids[3]]].concat());
    assert_eq!(page, [ids[1].as_str(), &ids[0]]);
    assert_eq!(listed(&["--task", "t1"]), [""; 0], "of the organization \"\"");

    let run: Value = lines(&stage.run(&["runs", "--status", "claimed"])).remove(0);
    for (field, value) in [("task_id", "t1"), ("agent_profile_id", "a1"), ("status", "claimed")] {
        assert_eq!(run[field], value, "{run}");
    }
    let gone =
        stage.run(&[&["runs"], &task[..], &["--before", &uuid::Uuid::nil().to_string()]].concat());
    assert_eq!(gone.code, Some(1));
    assert!(gone.stderr.contains("there is no run"), "{}", gone.stderr);
    assert_eq!(stage.run(&["runs", "--status", "gone"]).code, Some(2));
}

#[tokio::test]
async fn a_terminal_is_told_what_became_of_a_task() {
    let case = case::sqlite().await;
    let mut world: World<_> = case.world;
    let payload = json!({ "task_id": "t1", "actor_type": "agent" });
    for (at, agent, key) in [
        (T0, "a1", Some("k1")),
        (T0 + SECOND, "a1", Some("k\u{1b}[31m2")),
        (T0 + MINUTE, "a2", None),
        (T0 + 2 * MINUTE, "a3", None),
        (T0 + 3 * MINUTE, "a4", None),
        (T0 + 4 * MINUTE, "a5", None),
        (T0 + 5 * MINUTE, "a6", None),
    ] {
        Box::pin(world.send(requested(at, agent, payload.clone(), key))).await;
    }
    case.outside
        .execute(
            "UPDATE runs SET status = 'claimed', claimed_at = requested_at + 7000000 \
        WHERE agent_profile_id = 'a1'",
        )
        .await;
    case.outside.set_agent("acme", "stopped", "stopped").await;
    Box::pin(world.send(mutation(T0 + 6 * MINUTE, "t1", "", "stopped", json!(1)))).await;
    let task = TaskKey { organization_id: "acme".to_owned(), task_id: "t1".to_owned() };
    let store = &world.bench.store;
    let history = History::of_task(store, &task, 100).await.unwrap();
    golden::check("why.txt", &why::written(&history.entries(), Form::Table { width: 80 }));
    let cut = History::of_task(store, &task, 2).await.unwrap();
    assert!(!cut.cut.is_empty(), "what is cut off is said to be");

    let args = <wakegate::cli::Cli as clap::Parser>::parse_from(["wakegate", "runs"]);
    let wakegate::cli::Command::Runs(args) = args.command else { unreachable!("it says runs") };
    let listed = runs::list(store, &args).await.unwrap();
    golden::check("runs.txt", &runs::written(&listed, Form::Table { width: 80 }));
}
