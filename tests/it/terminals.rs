//! What operators' commands print on a terminal of 80 columns, and that a pipe gets JSON.

use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr as _;

use crate::harness::command::ended;
use crate::harness::terminal::{COLUMNS, in_terminal, plain};
use crate::harness::world::Published;
use crate::through_servers::stage::{Dialect, Stage};

/// Ids as long as they may be, of wide characters, and that would move the cursor.
fn ids() -> [String; 4] {
    ["x".repeat(256), "任".repeat(85), "\u{1b}[31m\u{202e}a\nb".to_owned(), "t1".to_owned()]
}

fn event(organization: &str, task: &str, agent: &str, generation: Value) -> Published {
    let body = json!({
        "type": "task.mutated.v1", "organization_id": organization, "task_id": task,
        "new_assignee_agent_profile_id": agent, "assignment_generation": generation,
    });
    Published::of("task_mutation", organization, task, &body, 0)
}

#[tokio::test]
async fn no_line_is_wider_than_the_terminal_and_a_pipe_gets_no_colours() {
    let stage = Stage::set(Dialect::Sqlite).await;
    let worker = stage.worker().await;
    let mut refused = Value::Null;
    for id in &ids() {
        let set = ["--status", "stopped", "--reason", "it loops, and nobody knows why it does"];
        let agent = ["agents", "set", "--organization", id, "--agent", id, "--actor", "ann"];
        assert_eq!(ended(&mut stage.command(&[&agent[..], &set].concat())).code, Some(0));
        refused = stage.publish_for_outcome(&event(id, id, id, json!(1))).await;
        assert_eq!(refused["reason"], "agent_stopped");
        assert_eq!(
            stage.publish_for_outcome(&event(id, id, "a1", json!(1))).await["outcome"],
            "queued"
        );
        stage.publish_for_outcome(&event(id, id, "a1", json!(2))).await;
        let wrong = stage.publish_for_outcome(&event(id, id, "a1", json!(-1))).await;
        assert_eq!(wrong["outcome"], "rejected");
    }
    stage.settled().await;
    let [long, wide, odd, short] = ids();
    let (long, wide, odd) = (long.as_str(), wide.as_str(), odd.as_str());
    let body = String::from_utf8(event(long, long, wide, json!(3)).body.to_vec()).unwrap();
    std::fs::write(stage.directory.path().join("event.json"), body).unwrap();
    let wake = refused["wake_id"].as_str().unwrap();
    let sign = ["--reason", "it loops, and nobody knows why it does", "--actor", "ann"];
    let signed = |arguments: &[&'static str]| [arguments, &sign].concat();
    let mut coloured = Vec::new();
    for arguments in [
        vec!["agents", "list"],
        vec!["agents", "get", "--organization", long, "--agent", long],
        vec!["status"],
        signed(&["pause", "--platform"]),
        [&["pause", "--organization", long], &sign[..]].concat(),
        vec!["status"],
        signed(&["resume", "--platform"]),
        [&["resume", "--organization", long], &sign[..]].concat(),
        vec!["explain", "event.json"],
        vec!["why", long, "--organization", long],
        vec!["why", wide, "--organization", wide],
        vec!["why", odd, "--organization", odd],
        vec!["runs"],
        vec!["prune", "--older-than", "30d", "--dry-run"],
        vec!["prune", "--older-than", "30d"],
        vec!["tail", "--since", "1h", "--until-caught-up"],
        vec!["redrive", "--since", "1h"],
        [&["redrive", "--since", "1h", "--execute"], &sign[..]].concat(),
        vec!["redrive", "--wake", wake],
        vec!["why", &short, "--organization", &short],
    ] {
        let name = arguments[..1].concat();
        let told = in_terminal(&stage.command(&arguments));
        assert_eq!(told.code, Some(0), "{arguments:?}: {}{}", told.stdout, told.stderr);
        let text = plain(&told.stdout);
        assert!(!text.is_empty(), "{arguments:?}");
        assert!(!told.stderr.contains('\u{1b}'), "{arguments:?}: {}", told.stderr);
        for line in text.lines().chain(told.stderr.lines()) {
            assert!(line.width() <= COLUMNS, "{arguments:?}: {} columns: {line}", line.width());
            assert_eq!(line, line.trim_end(), "{arguments:?}: blanks at the end");
        }
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{arguments:?}: {text:?}");
        assert!(!text.contains('\u{202e}'), "{arguments:?}");
        if told.stdout.contains('\u{1b}') && !coloured.contains(&name) {
            coloured.push(name);
        }
        // Nothing that would change anything is done twice but what may be.
        if ["pause", "resume"].contains(&arguments[0]) {
            continue;
        }
        let piped = ended(&mut stage.command(&arguments));
        assert!(!piped.stdout.contains('\u{1b}'), "{arguments:?}");
        for line in piped.stdout.lines() {
            assert!(serde_json::from_str::<Value>(line).is_ok(), "{arguments:?}: {line}");
        }
    }
    assert_eq!(coloured, ["agents", "status", "tail", "redrive"]);
    for arguments in [
        &["agents", "get", "--organization", long, "--agent", "nobody"][..],
        &["why", long],
        &["prune", "--older-than", "1d"],
        &["redrive", "--wake", &uuid::Uuid::nil().to_string()],
        &["explain", "none.json"],
    ] {
        let told = in_terminal(&stage.command(arguments));
        assert_ne!((told.code, told.stderr.as_str()), (Some(0), ""), "{arguments:?}");
        for line in told.stderr.lines() {
            assert!(line.width() <= COLUMNS, "{arguments:?}: {line}");
        }
    }
    drop(worker);
}
