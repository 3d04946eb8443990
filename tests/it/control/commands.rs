//! `wakegate pause`, `resume`, `agents` and `status` as they are used.

use serde_json::{Value, json};
use wakegate::cli::agents_table;
use wakegate::cli::status::{LaneStatus, Status, render};

use super::asking::until_answering;
use crate::harness::command::Ended;
use crate::harness::{golden, until_some};
use crate::through_servers::on_both_databases;
use crate::through_servers::stage::{Dialect, Setting, Stage};
use crate::through_servers::story::assignment;

on_both_databases!(
    an_operator_pauses_and_resumes_without_any_worker,
    an_operator_sets_and_lists_agents,
    the_status_of_a_running_installation,
);

fn run(stage: &Stage, arguments: &[&str]) -> Ended {
    let mut command = stage.command(arguments);
    command.env("USER", "ann");
    crate::harness::command::ended(&mut command)
}

/// What it printed, as JSON lines.
fn lines(ended: &Ended) -> Vec<Value> {
    let lines = ended.stdout.lines();
    lines.map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
}

fn done(ended: &Ended) -> Value {
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{}", ended.stdout);
    let mut lines = lines(ended);
    assert_eq!(lines.len(), 1, "{}", ended.stdout);
    lines.remove(0)
}

async fn an_operator_pauses_and_resumes_without_any_worker(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    for organization in ["acme", "", "*.\u{202e}>'\n"] {
        let scope = ["--organization", organization];
        let with = |words: &[&'static str]| -> Vec<String> {
            let (first, rest) = words.split_first().unwrap();
            [*first].iter().chain(&scope).chain(rest).map(|word| (*word).to_owned()).collect()
        };
        let run = |words: &[&'static str]| {
            let words = with(words);
            run(&stage, &words.iter().map(String::as_str).collect::<Vec<_>>())
        };
        let nothing = run(&["resume", "--reason", "over"]);
        assert_eq!(nothing.code, Some(5), "{}", nothing.stderr);
        assert!(nothing.stderr.contains("nothing is paused there"), "{}", nothing.stderr);

        let paused = done(&run(&["pause", "--reason", "flood", "--mode", "stop-now"]));
        assert_eq!(
            (&paused["created"], &paused["pause"]["mode"]),
            (&json!(true), &json!("stop_now"))
        );
        assert_eq!(paused["pause"]["organization_id"], organization);
        assert_eq!(paused["pause"]["actor"], "ann", "whoever runs the shell");
        let again = done(&run(&["pause", "--reason", "flood", "--mode", "stop-now"]));
        assert_eq!((&again["created"], &again["pause"]), (&json!(false), &paused["pause"]));
        let other = run(&["pause", "--reason", "flood", "--actor", "bob"]);
        assert_eq!((other.code, other.stdout.as_str()), (Some(5), ""));
        let id = paused["pause"]["id"].as_str().unwrap();
        assert!(other.stderr.contains(id) && other.stderr.contains("\"ann\""), "{}", other.stderr);

        let resumed = done(&run(&["resume", "--reason", "over", "--actor", "bob"]));
        assert_eq!(resumed["pause"]["released"]["actor"], "bob");
    }
    let platform = done(&run(&stage, &["pause", "--platform", "--reason", "incident"]));
    assert_eq!(platform["pause"]["scope"], "platform");
    let another = run(&stage, &["resume", "--platform", "--pause-id", "x", "--reason", "r"]);
    assert_eq!(another.code, Some(5), "{}", another.stderr);
    stage.publish(&assignment("t1", "a1", 1)).await;
    stage.catch_up();
    let refused = "SELECT count(*) FROM refused_wakes WHERE reason = 'platform_paused'";
    assert_eq!(stage.outside.number(refused).await, 1, "the worker goes by it");

    for (arguments, says) in [
        (&["pause", "--platform"][..], "--reason"),
        (&["pause", "--reason", "r"], "--platform|--organization"),
        (&["pause", "--platform", "--organization", "a", "--reason", "r"], "cannot be used with"),
        (&["pause", "--platform", "--reason", " "], "is empty"),
        (&["pause", "--platform", "--reason", "r", "--actor", ""], "--actor"),
        (&["resume", "--platform"], "--reason"),
        (&["agents", "set", "--agent", "a", "--status", "idle", "--reason", "r"], "--organization"),
        (&["agents", "get", "--organization", "", "--agent", ""], "is empty"),
        (&["agents", "list", "--status", "gone"], "pending-approval"),
        (&["agents", "list", "--limit", "0"], "--limit"),
    ] {
        let wrong = run(&stage, arguments);
        assert_eq!((wrong.code, wrong.stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(wrong.stderr.contains(says), "{arguments:?}: {}", wrong.stderr);
    }
    // Where nobody says who it is, nobody is made up.
    let mut nameless = stage.command(&["pause", "--platform", "--reason", "r"]);
    let nameless = crate::harness::command::ended(nameless.env_remove("USER"));
    assert_eq!(nameless.code, Some(2), "{}", nameless.stderr);
    assert!(nameless.stderr.contains("--actor"), "{}", nameless.stderr);
}

async fn an_operator_sets_and_lists_agents(dialect: Dialect) {
    let stage = Stage::set(dialect).await;
    let unknown = run(&stage, &["agents", "get", "--organization", "acme", "--agent", "a"]);
    assert_eq!((unknown.code, unknown.stdout.as_str()), (Some(5), ""));
    assert!(unknown.stderr.contains("may run"), "{}", unknown.stderr);
    for (organization, agent, status) in
        [("acme", "a", "stopped"), ("acme", "b\u{202e}", "pending-approval"), ("", "a", "idle")]
    {
        let set = run(
            &stage,
            &[
                "agents",
                "set",
                "--organization",
                organization,
                "--agent",
                agent,
                "--status",
                status,
                "--reason",
                "loops",
            ],
        );
        let set = done(&set);
        assert_eq!(set["status"], status.replace('-', "_"));
        assert_eq!((&set["actor"], &set["reason"]), (&json!("ann"), &json!("loops")));
        let get = run(&stage, &["agents", "get", "--organization", organization, "--agent", agent]);
        assert_eq!(done(&get), set);
    }
    let names = |ended: &Ended| -> Vec<String> {
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let name = |row: &Value| format!("{}/{}", row["organization_id"], row["agent_profile_id"]);
        lines(ended).iter().map(name).collect()
    };
    let all = run(&stage, &["agents", "list"]);
    assert_eq!(names(&all), ["\"\"/\"a\"", "\"acme\"/\"a\"", "\"acme\"/\"b\u{202e}\""]);
    let stopped = run(&stage, &["agents", "list", "--status", "stopped"]);
    assert_eq!(names(&stopped), ["\"acme\"/\"a\""]);
    let ours = run(&stage, &["agents", "list", "--organization", ""]);
    assert_eq!(names(&ours), ["\"\"/\"a\""]);
    let two = run(&stage, &["agents", "list", "--limit", "2"]);
    assert_eq!(names(&two).len(), 2);
    assert!(two.stderr.contains("more than 2"), "{}", two.stderr);
    let three = run(&stage, &["agents", "list", "--limit", "3"]);
    assert_eq!((names(&three).len(), three.stderr.as_str()), (3, ""));
}

async fn the_status_of_a_running_installation(dialect: Dialect) {
    let setting = Setting { partitions: 2, ..Setting::default() };
    let stage = Stage::with(dialect, setting).await;
    done(&run(&stage, &["pause", "--organization", "umbra", "--reason", "flood"]));
    stage.outside.set_agent("acme", "stopped", "stopped").await;
    for nth in 0..10 {
        stage.publish(&assignment(&format!("t{nth}"), "a1", 1)).await;
    }
    stage.publish(&assignment("t11", "stopped", 1)).await;

    let without = run(&stage, &["status"]);
    let status = done(&without);
    assert_eq!(status["workers"], json!([]));
    let lanes = status["lanes"].as_array().unwrap();
    let pending: u64 = lanes.iter().map(|lane| lane["pending"].as_u64().unwrap()).sum();
    assert_eq!((lanes.len(), pending), (2, 11), "what waits is told although nobody works");
    assert!(lanes.iter().all(|lane| lane["owner"].is_null()));
    assert_eq!(status["pauses"][0]["organization_id"], "umbra");
    assert_eq!(status["counts"]["queued_runs"], 0);

    let worker = stage.worker().await;
    let client = stage.nats.client().await;
    until_answering(&client).await;
    stage.settled().await;
    let settled = async || {
        let status = done(&run(&stage, &["status"]));
        let owned = status["lanes"].as_array()?.iter().all(|lane| lane["owner"].is_string());
        owned.then_some(status)
    };
    let status = until_some(settled, || worker.told("its lanes were never told of")).await;
    assert_eq!(status["workers"].as_array().unwrap().len(), 1);
    let owner = &status["workers"][0]["worker"]["id"];
    for lane in status["lanes"].as_array().unwrap() {
        assert_eq!((&lane["owner"], &lane["pending"]), (owner, &json!(0)), "{lane}");
        assert!(lane["oldest_pending_seconds"].is_f64() && lane["held"].is_null(), "{lane}");
    }
    assert_eq!(status["counts"]["queued_runs"], 10);
    assert_eq!(status["counts"]["refusals"]["by_reason"], json!({ "agent_stopped": 1 }));
    assert_eq!((&status["unanswered"], &status["more_pauses"]), (&json!([]), &json!(false)));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_without_servers_says_what_is_missing() {
    let mut stage = Stage::set(Dialect::Sqlite).await;
    let platform = run(&stage, &["pause", "--platform", "--reason", "r"]);
    assert_eq!(platform.code, Some(0), "{}", platform.stderr);
    stage.nats.kill();
    let without_nats = run(&stage, &["status"]);
    assert_eq!(without_nats.code, Some(1), "{}", without_nats.stderr);
    let status = lines(&without_nats).remove(0);
    assert!(status["unanswered"][0].as_str().unwrap().contains("cannot connect to NATS"));
    assert_eq!(status["pauses"][0]["scope"], "platform", "the database is asked");

    stage.database_url = "postgres://ann:s3cret@127.0.0.1:1/none".to_owned();
    let without_both = run(&stage, &["status"]);
    assert_eq!(without_both.code, Some(1));
    assert!(!without_both.stdout.contains("s3cret"), "{}", without_both.stdout);
    let pause = run(&stage, &["pause", "--platform", "--reason", "r"]);
    assert_eq!((pause.code, pause.stdout.as_str()), (Some(1), ""));
    let says = pause.stderr;
    assert!(says.contains("WAKEGATE_DATABASE_URL") && !says.contains("s3cret"), "{says}");
}

/// What a worker says of itself, for a picture of it.
fn worker(id: &str, ready: bool, lanes: &[bool]) -> Value {
    let lanes: Vec<Value> = lanes.iter().map(|owned| json!({ "owned": owned })).collect();
    let database = if ready {
        json!({ "state": "ok" })
    } else {
        json!({ "state": "waiting", "reason": "no answer to ping within 2s\u{1b}[2J" })
    };
    json!({
        "worker": {
            "id": id, "host": "wakegate-0", "process": 4711, "version": "0.1.0",
            "started_at": "2026-09-21T14:13:20.123456Z",
        },
        "ready": ready, "shutting_down": false, "lanes": lanes,
        "components": { "nats": { "state": "ok" }, "database": database },
    })
}

fn lane(lane: u32, owner: Option<&str>, oldest: Option<f64>, held: Option<&str>) -> LaneStatus {
    LaneStatus {
        lane,
        owner: owner.map(str::to_owned),
        pending: Some(12_345 * u64::from(lane)),
        oldest_pending_seconds: oldest,
        held: held.map(str::to_owned),
    }
}

#[test]
fn the_status_reads_well_in_a_terminal() {
    let pause = |scope: &str, organization: Option<&str>, reason: &str| {
        let mut pause = json!({
            "scope": scope, "mode": "drain", "actor": "ann", "reason": reason,
            "created_at": "2026-09-21T14:13:20.123456Z",
        });
        if let Some(organization) = organization {
            pause["organization_id"] = json!(organization);
        }
        pause
    };
    let status = Status {
        workers: vec![
            worker("KQ3FZB1XW0V8Y2M5N7P9R1", true, &[true, false, false]),
            worker("KQ3FZB1XW0V8Y2M5N7P9S4", false, &[false, true, false]),
        ],
        lanes: vec![
            lane(0, Some("KQ3FZB1XW0V8Y2M5N7P9R1"), Some(0.04), None),
            lane(1, Some("KQ3FZB1XW0V8Y2M5N7P9S4"), Some(4_000.0), Some("the database is away")),
            lane(2, None, None, None),
        ],
        counts: json!({
            "queued_runs": 1_204, "agents": { "idle": 10, "stopped": 2 },
            "pauses": { "organization": 2, "platform": 1 },
            "refusals": {
                "since": "2026-09-21T13:13:20.123456Z",
                "by_reason": { "allowance_exhausted": 31, "organization_paused": 7 },
            },
        }),
        pauses: vec![
            pause("platform", None, "incident 42"),
            pause("organization", Some(""), "no organization\nat all"),
            pause(
                "organization",
                Some("acme-\u{202e}日本語"),
                "an agent that assigns tasks to itself in a loop, again and again and again",
            ),
        ],
        more_pauses: true,
        unanswered: vec!["worker X: no answer within 5s".to_owned()],
    };
    let text = render(&status, 80, false);
    assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text}");
    golden::check("status.txt", &text);
    golden::check("status-nothing.txt", &render(&Status::default(), 80, false));
}

#[test]
fn agents_read_well_in_a_terminal() {
    use wakegate::control::documents::{AgentDocument, Status as AgentStatus};
    use wakegate::wake::{AgentId, OrganizationId, UtcMicros};
    let agent = |organization: &str, id: &str, status, by: Option<(&str, &str)>| AgentDocument {
        organization_id: OrganizationId::parse(organization).unwrap(),
        agent_profile_id: AgentId::parse(id).unwrap(),
        status,
        actor: by.map(|(actor, _)| actor.to_owned()),
        reason: by.map(|(_, reason)| reason.to_owned()),
        updated_at: UtcMicros::from_micros(1_790_000_000_123_456),
    };
    let agents = [
        agent("", "builder", AgentStatus::Idle, None),
        agent("acme", "builder", AgentStatus::Stopped, Some(("ann", "it loops"))),
        agent("日本", "レビュー\u{202e}\n", AgentStatus::PendingApproval, Some(("bob", "new"))),
        agent(&"x".repeat(60), &"y".repeat(60), AgentStatus::Paused, Some(("c", "long ids"))),
    ];
    golden::check("agents.txt", &agents_table(&agents, 80, false));
    assert_eq!(agents_table(&[], 80, false), "no agent has a status\n");
}
