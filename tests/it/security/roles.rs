//! Each user of `ops/nats/users.conf` can do its part, and the server refuses it everything else.

use futures_util::StreamExt as _;
use serde_json::{Value, json};

use super::guarded::{ACME, CONTROL, Guarded, OPERATOR, REDRIVE, Role, TASK_MUTATION, WORKER};
use super::raw::Raw;
use crate::harness::PATIENCE;

fn assignment(organization: &str, task: &str, agent: &str) -> String {
    json!({
        "type": "task.mutated.v1", "organization_id": organization, "task_id": task,
        "new_assignee_agent_profile_id": agent, "assignment_generation": 1,
    })
    .to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_role_does_its_work_with_its_permissions() {
    let guarded = Guarded::set().await;
    let operator = guarded.context(OPERATOR).await;
    let mut audit = operator.client().subscribe("wake-audit.>").await.unwrap();
    operator.client().flush().await.unwrap();
    let mut worker = guarded.worker().await;
    guarded.outside.set_agent("acme", "stopped", "stopped").await;

    for (role, producer) in [(TASK_MUTATION, "task_mutation"), (ACME, "workflow_auto_start")] {
        let event = assignment("acme", &format!("t-{}", role.user), "a1");
        let told = guarded.publish(role, producer, &event);
        assert_eq!(told.code, Some(0), "{}: {}", role.user, told.stderr);
        let record: Value = serde_json::from_str(&told.stdout).unwrap();
        assert_eq!(record["outcome"], "queued", "{record}");
    }
    let refused =
        guarded.publish(TASK_MUTATION, "task_mutation", &assignment("acme", "t", "stopped"));
    let record: Value = serde_json::from_str(&refused.stdout).unwrap();
    assert_eq!(record["reason"], "agent_stopped", "{record}");

    let heard = tokio::time::timeout(PATIENCE, audit.next()).await.expect("operators hear of it");
    assert_eq!(heard.unwrap().subject.as_str(), "wake-audit.refused.agent_stopped.acme");
    // The operator reads what was before too, with a consumer of its own.
    let stream = operator.get_stream("WAKE_AUDIT").await.unwrap();
    let reader = async_nats::jetstream::consumer::pull::Config {
        filter_subject: "wake-audit.refused.>".to_owned(),
        ..Default::default()
    };
    let reader = stream.create_consumer(reader).await;
    let reader = reader.unwrap_or_else(|error| panic!("{error}; {}", guarded.nats.log()));
    let mut messages = reader.messages().await.unwrap();
    let kept = tokio::time::timeout(PATIENCE, messages.next()).await.unwrap().unwrap().unwrap();
    assert_eq!(kept.subject.as_str(), "wake-audit.refused.agent_stopped.acme");
    kept.double_ack().await.unwrap();

    let told = guarded.run(OPERATOR, &["tail", "--since", "1h", "--until-caught-up"]);
    assert_eq!((told.code, told.stderr.as_str()), (Some(0), ""));
    let told: Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!(told["reason"], "agent_stopped", "{told}");

    // Whoever looks need not be able to publish wakes, and whoever publishes them again can.
    guarded.outside.set_agent("acme", "stopped", "idle").await;
    let sign = ["--execute", "--reason", "mended", "--actor", "ann"];
    for (role, arguments, code, state) in [
        (OPERATOR, &[][..], 0, Some("would_publish")),
        (OPERATOR, &sign, 1, None),
        (REDRIVE, &[], 0, Some("would_finish")),
        (REDRIVE, &sign, 0, Some("published")),
    ] {
        let ended = guarded.run(role, &[&["redrive", "--since", "1h"], arguments].concat());
        assert_eq!(ended.code, Some(code), "{}: {}", role.user, ended.stderr);
        let told: Option<Value> = ended.stdout.lines().next().map(|line| line.parse().unwrap());
        assert_eq!(told.as_ref().and_then(|told| told["state"].as_str()), state);
        let denied = ended.stderr.contains("this user may not publish wakes");
        assert_eq!(denied, code == 1, "{}", ended.stderr);
    }
    let checked = guarded.run(OPERATOR, &["streams", "check"]);
    assert_eq!(checked.code, Some(0), "{} {}", checked.stdout, checked.stderr);
    let again = guarded.run(OPERATOR, &["streams", "apply"]);
    assert_eq!(again.code, Some(0), "{}", again.stderr);

    worker.signal("TERM");
    assert!(worker.ended().await.success(), "{}", worker.told("it ends in order"));
    assert!(!worker.log().contains("iolation"), "{}", worker.told("it was denied something"));
}

/// What each may not publish, and what each may not listen to.
const FORBIDDEN: [(Role, &[&str], &[&str]); 6] = [
    (
        CONTROL,
        &[
            "wakegate.control.pause",
            "wake-audit.refused.agent_stopped.acme",
            "wakes.task_mutation.acme.t1",
            "wake-outcomes.a",
            "$JS.API.STREAM.INFO.WAKES",
            "$JS.ACK.WAKES.lane-0.1.1.1.1.0",
            "_INBOX.task_mutation.a",
            "_INBOX_worker.a",
        ],
        &["wakes.>", "wake-audit.>", "wake-outcomes.>", "_INBOX_operator.>", "$JS.>", ">"],
    ),
    (
        WORKER,
        &[
            "wakes.task_mutation.acme.t1",
            "$JS.API.STREAM.CREATE.WAKES",
            "$JS.API.STREAM.UPDATE.WAKES",
            "$JS.API.STREAM.DELETE.WAKES",
            "$JS.API.STREAM.PURGE.WAKES",
            "$JS.API.STREAM.PURGE.WAKE_AUDIT",
            "$JS.API.STREAM.MSG.DELETE.WAKES",
            "$JS.API.CONSUMER.CREATE.WAKES.lane-0",
            "$JS.API.CONSUMER.DELETE.WAKES.lane-0",
            "$JS.API.CONSUMER.NAMES.WAKES",
            "$JS.API.CONSUMER.MSG.NEXT.WAKE_AUDIT.reader",
            "$JS.ACK.WAKE_AUDIT.reader.1.1.1.1.0",
            "_INBOX_worker.a",
            "_INBOX_operator.a",
            "wakegate.control.pause",
            "wake-replicas.a",
            "elsewhere",
        ],
        &[
            "wakegate.control.>",
            "$SRV.>",
            "wakes.>",
            "wake-replicas.>",
            "wake-audit.>",
            "wake-outcomes.>",
            "_INBOX.>",
            "_INBOX_operator.>",
            ">",
        ],
    ),
    (
        OPERATOR,
        &[
            "wakes.task_mutation.acme.t1",
            "wake-audit.refused.agent_stopped.acme",
            "wake-outcomes.a",
            "$JS.API.STREAM.DELETE.WAKES",
            "$JS.API.STREAM.PURGE.WAKES",
            "$JS.API.STREAM.DELETE.WAKE_AUDIT",
            "$JS.API.STREAM.PURGE.WAKE_AUDIT",
            "$JS.API.STREAM.MSG.DELETE.WAKE_AUDIT",
            "$JS.API.STREAM.CREATE.OTHER",
            "$JS.API.CONSUMER.MSG.NEXT.WAKES.lane-0",
            "$JS.ACK.WAKES.lane-0.1.1.1.1.0",
            "_INBOX.task_mutation.a",
            "_INBOX_worker.a",
            "wake-replicas",
        ],
        &[
            "wakegate.control.>",
            "$SRV.>",
            "wakes.>",
            "wake-replicas",
            "_INBOX.>",
            "_INBOX_worker.>",
            "wake-outcomes.>",
            ">",
        ],
    ),
    (
        REDRIVE,
        &[
            "wakes.0.task_mutation.acme.t1",
            "wake-audit.refused.agent_stopped.acme",
            "wake-outcomes.a",
            "$JS.API.STREAM.UPDATE.WAKES",
            "$JS.API.STREAM.DELETE.WAKES",
            "$JS.API.STREAM.PURGE.WAKES",
            "$JS.API.STREAM.MSG.DELETE.WAKES",
            "$JS.API.STREAM.PURGE.WAKE_AUDIT",
            "$JS.API.CONSUMER.CREATE.WAKES.mine",
            "$JS.API.CONSUMER.DELETE.WAKES.lane-0",
            "$JS.API.CONSUMER.MSG.NEXT.WAKES.lane-0",
            "$JS.ACK.WAKES.lane-0.1.1.1.1.0",
            "_INBOX.task_mutation.a",
            "_INBOX_worker.a",
            "wakegate.control.pause",
            "wake-replicas",
        ],
        &["wakes.>", "wake-audit.>", "wake-outcomes.>", "_INBOX.>", "_INBOX_operator.>", ">"],
    ),
    (
        TASK_MUTATION,
        &[
            "wakes.onboarding.acme.t1",
            "wakes.task_mutation.acme",
            "wakes.0.task_mutation.acme.t1",
            "wake-audit.refused.agent_stopped.acme",
            "wake-outcomes.task_mutation.a",
            "$JS.API.INFO",
            "$JS.API.STREAM.INFO.WAKES",
            "$JS.API.STREAM.DELETE.WAKES",
            "$JS.API.STREAM.MSG.GET.WAKES",
            "$JS.API.STREAM.MSG.DELETE.WAKES",
            "$JS.API.CONSUMER.MSG.NEXT.WAKES.lane-0",
            "$JS.API.CONSUMER.UNPIN.WAKES.lane-0",
            "$JS.API.CONSUMER.CREATE.WAKES.mine",
            "$JS.ACK.WAKES.lane-0.1.1.1.1.0",
            "$SYS.REQ.SERVER.PING",
            "wakegate.control.pause",
            "wakegate.control.counts",
            "$SRV.PING",
            "_INBOX.task_mutation.a",
            "_INBOX_worker.a",
            "wake-replicas",
        ],
        &[
            ">",
            "wake-replicas",
            "wakes.>",
            "wake-audit.>",
            "wake-outcomes.>",
            "wake-outcomes.acme.a",
            "_INBOX.>",
            "_INBOX.acme.>",
            "_INBOX_worker.>",
            "$JS.ACK.>",
            "$JS.EVENT.>",
            "wakegate.control.>",
        ],
    ),
    (
        ACME,
        &[
            "wakes.workflow_auto_start.umbra.t1",
            "wakes.workflow_auto_start.-.t1",
            "wakes.task_mutation.acme.t1",
            "wake-audit.refused.agent_stopped.umbra",
        ],
        &["wakes.workflow_auto_start.acme.>", "_INBOX.task_mutation.>"],
    ),
];

#[tokio::test]
async fn the_server_refuses_a_role_everything_else() {
    let guarded = Guarded::set().await;
    let admin_before = guarded.context(OPERATOR).await;
    for (role, publishes, subscriptions) in FORBIDDEN {
        let mut raw = Raw::connect_as(&guarded.nats, role.user, &role.password()).await;
        for subject in publishes {
            raw.send(format!("PUB {subject} 2\r\n{{}}\r\n").as_bytes()).await;
            let errors = raw.errors().await;
            let wanted = format!("'Permissions Violation for Publish to \"{subject}\"'");
            assert_eq!(errors, [wanted], "{} publishes {subject}", role.user);
        }
        for (sid, subject) in (1..).zip(subscriptions) {
            raw.send(format!("SUB {subject} {sid}\r\n").as_bytes()).await;
            let errors = raw.errors().await;
            let wanted = format!("'Permissions Violation for Subscription to \"{subject}\"'");
            assert_eq!(errors, [wanted], "{} subscribes to {subject}", role.user);
        }
    }
    for stream in ["WAKES", "WAKE_AUDIT"] {
        let info = admin_before.get_stream(stream).await.unwrap().get_info().await.unwrap();
        assert_eq!(info.state.last_sequence, 0, "nothing came into {stream}");
    }
    let checked = guarded.run(OPERATOR, &["streams", "check"]);
    assert_eq!(checked.code, Some(0), "{} {}", checked.stdout, checked.stderr);
}

#[tokio::test]
async fn nobody_comes_in_without_a_user() {
    let guarded = Guarded::set().await;
    let anonymous = async_nats::connect(guarded.nats.url()).await;
    assert!(anonymous.is_err_and(|error| error.to_string().contains("authorization violation")));
    let wrong = guarded
        .command(WORKER, &["streams", "check"])
        .env("WAKEGATE_NATS_URL", guarded.nats.url().replace("nats://", "nats://worker:guess@"))
        .output()
        .unwrap();
    let said = String::from_utf8(wrong.stderr).unwrap();
    assert!(said.contains("authorization violation") && !said.contains("guess"), "{said}");
}
