//! `wakegate explain` as it is used: what it prints, that it writes nothing, and how it ends.

use serde_json::{Value, json};
use wakegate::admission::{GateName, Shadows};
use wakegate::config::Config;
use wakegate::explain::{Explanation, explain, json as as_json, message, words};
use wakegate::store::Store;
use wakegate::store::memory::MemoryStore;
use wakegate::wake::UtcMicros;

use crate::harness::command::{Ended, fed};
use crate::harness::world::{Published, SECOND, T0, World, mutation, requested};
use crate::harness::{case, golden};
use crate::through_servers::on_both_databases;
use crate::through_servers::stage::{Dialect, Stage};
use crate::through_servers::story::{assignment, by_agent};

on_both_databases!(
    an_event_is_explained_as_it_would_be_decided_and_nothing_is_written,
    a_database_that_cannot_be_read_is_no_answer,
);

/// `wakegate explain` with an event on standard input.
fn explained(stage: &Stage, arguments: &[&str], input: &str) -> Ended {
    fed(&mut stage.command(&[&["explain"], arguments].concat()), input)
}

fn body(event: &Published) -> String {
    String::from_utf8(event.body.to_vec()).unwrap()
}

/// The gate that concluded, by its name.
fn concluded(answer: &Value) -> Option<&str> {
    let gates = answer["gates"].as_array()?;
    gates.iter().find(|gate| gate["conclusion"] == "concludes")?["gate"].as_str()
}

async fn an_event_is_explained_as_it_would_be_decided_and_nothing_is_written(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let worker = stage.worker().await;
    for agent in ["a1", "a2", "a3", "a4", "a5"] {
        let event = by_agent("busy", agent).with(json!({ "assignment_generation": null }));
        assert_eq!(stage.publish_for_outcome(&event).await["outcome"], "queued");
    }
    stage.publish_for_outcome(&assignment("known", "a1", 1)).await;
    stage.settled().await;
    drop(worker);
    stage.outside.set_agent("acme", "stopped", "stopped").await;
    stage.outside.pause("p1", Some("halted")).await;
    let before = stage.rows().await;

    let halted = assignment("t1", "a1", 1).with(json!({ "organization_id": "halted" }));
    for (event, outcome, reason, gate) in [
        (by_agent("busy", "a6"), "refused", json!("allowance_exhausted"), Some("allowance")),
        (assignment("known", "a1", 1), "deduplicated", json!("windowed"), Some("duplicate")),
        (assignment("t1", "stopped", 1), "refused", json!("agent_stopped"), Some("agent_status")),
        (halted, "refused", json!("organization_paused"), Some("pause")),
        (assignment("fresh", "a1", 1), "queued", Value::Null, None),
    ] {
        let ended = explained(&stage, &["-"], &body(&event));
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{}", ended.stdout);
        let answer: Value =
            serde_json::from_str(&ended.stdout).expect("one line of JSON in a pipe");
        assert_eq!(answer["outcome"]["outcome"], outcome, "{answer}");
        assert_eq!(answer["outcome"]["reason"], reason, "{answer}");
        assert_eq!(concluded(&answer), gate, "{answer}");
        assert_eq!(answer["gates"].as_array().unwrap().len(), 8, "{answer}");
    }
    let ended =
        explained(&stage, &["--at", "2100-01-01T00:00:00Z"], &body(&by_agent("busy", "a6")));
    let answer: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(answer["at"], "2100-01-01T00:00:00.000000Z");
    assert_eq!(answer["outcome"]["outcome"], "queued", "the window has passed by then: {answer}");
    let rejected = by_agent("busy", "a6").with(json!({ "assignment_generation": -1 }));
    let ended = explained(&stage, &[], &body(&rejected));
    let answer: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(answer["outcome"]["reason"], "invalid_field", "{answer}");

    assert_eq!(stage.rows().await, before, "asking changes nothing");
    let messages = stage.context.get_stream("WAKES").await.unwrap().cached_info().state.messages;
    assert_eq!(messages, 6, "nothing is published");
}

async fn a_database_that_cannot_be_read_is_no_answer(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let event = body(&assignment("t1", "a1", 1));
    stage.outside.execute("ALTER TABLE pauses RENAME TO away").await;
    let ended = explained(&stage, &[], &event);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let answer: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(answer["outcome"], Value::Null);
    assert_eq!(answer["held"]["gate"], "pause");
    assert_eq!(answer["held"]["posture"], "closed");
}

#[tokio::test]
async fn what_cannot_be_explained_says_what_to_give() {
    let stage = Stage::set(Dialect::Sqlite).await;
    let event = body(&assignment("t1", "a1", 1));
    for (input, arguments, says) in [
        (String::new(), &[][..], "there is no event to explain"),
        (format!("{event}\n{event}\n"), &[], "line 2: a second event"),
        ("nonsense".to_owned(), &[], "line 1: is not JSON"),
    ] {
        let ended = explained(&stage, arguments, &input);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
        assert!(ended.stderr.contains(says), "{}", ended.stderr);
    }
    let wrong = explained(&stage, &["--at", "noon"], &event);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("wants RFC 3339"), "{}", wrong.stderr);

    std::fs::write(stage.directory.path().join("event.json"), &event).unwrap();
    let run = "0192f0c1-7c00-7000-8000-000000000001";
    let why = ["--platform", "--actor", "ann", "--reason", "r"];
    for arguments in [
        &["explain", "event.json"][..],
        &[&["pause"], &why[..]].concat(),
        &[&["cancel", run], &why[..]].concat(),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("none.db");
        let mut command = stage.command(arguments);
        command.env("WAKEGATE_DATABASE_URL", format!("sqlite://{}", file.display()));
        let ended = crate::harness::command::ended(&mut command);
        assert_eq!(ended.code, Some(1), "{arguments:?}");
        assert!(ended.stderr.contains("there is no database"), "{}", ended.stderr);
        assert!(!file.exists(), "asking makes no database: {arguments:?}");
    }
}

async fn ask<S: Store>(store: &S, event: &Published) -> Explanation {
    ask_in_shadow(store, event, &[]).await
}

async fn ask_in_shadow<S: Store>(store: &S, event: &Published, gates: &[GateName]) -> Explanation {
    let subject = format!("wakes.{}.{}.{}", event.producer, event.organization, event.task);
    let message = message(&subject, &body(event), UtcMicros::from_micros(event.at));
    let ceilings = Some(Config::default().limits.ceilings);
    Box::pin(explain(store, &message, Shadows::of(gates), ceilings)).await
}

#[tokio::test]
async fn a_terminal_is_told_gate_by_gate() {
    let case = case::sqlite().await;
    let mut world: World<_> = case.world;
    for second in 0..5 {
        let at = T0 + second * SECOND;
        Box::pin(world.send(mutation(at, "t1", "boss", &format!("a{second}"), json!(second))))
            .await;
    }
    let store = &world.bench.store;
    let at = T0 + 30 * SECOND;
    let keyless = json!({ "task_id": "t1", "actor_type": "agent" });
    let bidi = json!({ "task_id": "t\u{202e}1\n", "actor_type": "agent" });
    let mut text = String::new();
    for event in [
        mutation(at, "t1", "boss", "a9", json!(9)),
        mutation(at, "t1", "boss", "a4", json!(4)),
        requested(T0 + 6 * SECOND, "a4", keyless.clone(), None),
        mutation(at, "t2", "", "a1", json!(1)),
        mutation(at, "t1", "boss", "", json!(1)),
        requested(at, "", keyless, None),
    ] {
        text += &words::text(&ask(store, &event).await, 80);
        text += "\n";
    }
    golden::check("explain.txt", &text);

    let in_shadow = [GateName::Pause, GateName::Allowance];
    let over = mutation(at, "t1", "boss", "a9", json!(9));
    let explanation = ask_in_shadow(store, &over, &in_shadow).await;
    golden::check("explain-shadow.txt", &words::text(&explanation, 80));
    let object = as_json::object(&explanation);
    assert_eq!(object["outcome"]["outcome"], "queued");
    assert_eq!(object["outcome"]["would_refuse"][0]["reason"], "allowance_exhausted");
    let gate = |number: usize| &object["gates"][number];
    assert_eq!((&gate(2)["mode"], &gate(2)["conclusion"]), (&json!("shadow"), &json!("passes")));
    assert_eq!(gate(5)["conclusion"], "would_refuse");
    assert_eq!(gate(5)["reason"], "allowance_exhausted");
    assert_eq!(gate(1).get("mode"), None);

    let hidden = Published::of(
        "cli",
        "acme",
        "t=E2=80=AE1=0A",
        &json!({
            "type": "wake.requested.v1", "organization_id": "acme", "reason": "r",
            "agent_profile_id": "a1", "payload": bidi,
        }),
        at,
    );
    let text = words::text(&ask(store, &hidden).await, 200);
    assert!(text.contains(r"t\u{202e}1\n"), "{text}");
}

#[tokio::test]
async fn a_read_that_fails_is_told_as_what_the_gate_makes_of_it() {
    let store = MemoryStore::new();
    let event = mutation(T0, "t1", "boss", "a1", json!(1));
    for (gate, outcome, held) in [
        (GateName::AgentStatus, None, Some("hold")),
        (GateName::Pause, None, Some("closed")),
        (GateName::Duplicate, None, Some("hold")),
        (GateName::Coalesce, None, Some("hold")),
        (GateName::Allowance, Some("count_read_failed"), None),
    ] {
        store.fail(gate);
        let explanation = ask(&store, &event).await;
        let answer = as_json::object(&explanation);
        assert_eq!(explanation.is_answered(), outcome.is_some(), "{answer}");
        assert_eq!(answer["outcome"]["degraded_reason"].as_str(), outcome, "{answer}");
        assert_eq!(answer["held"]["posture"].as_str(), held, "{answer}");
        let words = words::text(&explanation, 80);
        assert!(words.contains("cannot read, and is"), "{words}");
        store.restore(gate);
    }
}
