//! Ids, subjects and payloads that systems like this one were bitten by: data here.

use wakegate::admission::gates::allowance;
use wakegate::wake::decode::{BODY_BYTES_MAX, RejectReason, decode};
use wakegate::wake::{TaskField, Wake};

use super::{MUTATED, REQUESTED, body_with, incompressible, rejected, woken};
use crate::messages::{message, message_on, object, quoted};

/// Ids that systems like this one were bitten by, all of them data here.
fn hostile_ids() -> Vec<String> {
    let mut ids: Vec<String> = [
        "*",
        ">",
        ".",
        "..",
        "a.b",
        "-",
        "=",
        "=2D",
        "=h0",
        " ",
        " a ",
        "a b",
        "a:b",
        "a::b",
        "a/b",
        "../../etc/passwd",
        "%",
        "%3A",
        "%25",
        "100%",
        "a\nb",
        "\r\n",
        "\t",
        "a\u{1}b",
        "\u{7f}",
        "\u{1b}[31m",
        "\"",
        "'",
        "`",
        "\\",
        "a\\u0000",
        "\u{202e}abc",
        "\u{200f}",
        "\u{feff}",
        "\u{2028}",
        "é",
        "e\u{301}",
        "😀",
        "👩‍👩‍👧",
        "漢字",
        "'; DROP TABLE runs; --",
        "\" OR \"\"=\"",
        "{}",
        "${jndi:x}",
        "null",
        "NULL",
        "0",
        "true",
        "user",
        "agent",
        "task_comment:1",
        "$JS.API.>",
    ]
    .map(str::to_owned)
    .to_vec();
    ids.extend([incompressible(256), incompressible(65), "漢".repeat(85), "*".repeat(256)]);
    ids
}

#[test]
fn hostile_ids_are_data_and_never_reach_a_subject_raw() {
    for id in hostile_ids() {
        let raw = quoted(&id);
        let units: Vec<String> = id.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
        let escaped = units.concat();
        for raw in [raw, format!("\"{escaped}\"")] {
            let raw = Some(raw.as_str());
            let body = body_with(
                &MUTATED,
                &[
                    ("organization_id", raw),
                    ("project_id", raw),
                    ("task_id", raw),
                    ("acting_agent_id", raw),
                    ("new_assignee_agent_profile_id", raw),
                ],
            );
            let message = message(&id, &id, body);
            assert_eq!(message.subject.split('.').count(), 5, "{}", message.subject);
            let wake = woken(&message);
            assert_names(&wake, &id);
            let text = id.replace('%', "%25").replace(':', "%3A");
            let key = wake.occurrence.key().expect("a key").as_str();
            assert_eq!(key, format!("task_assigned:{text}:{text}:3"));
            let payload: serde_json::Value = serde_json::from_str(wake.payload.text()).unwrap();
            let expected = serde_json::json!({
                "reason": "task_assigned", "task_id": id, "organization_id": id, "project_id": id,
                "actor_type": "agent", "actor_id": id,
            });
            assert_eq!(payload, expected);
        }
    }
}

#[test]
fn hostile_ids_are_data_in_requested_wakes_also_within_a_string() {
    for id in hostile_ids() {
        let raw = quoted(&id);
        let payload = object(&[
            ("actor_type", Some(r#""agent""#)),
            ("actor_id", Some(&raw)),
            ("task_id", Some(&raw)),
        ]);
        for given in [payload.clone(), quoted(&payload)] {
            let body = body_with(
                &REQUESTED,
                &[
                    ("organization_id", Some(&raw)),
                    ("project_id", Some(&raw)),
                    ("agent_profile_id", Some(&raw)),
                    ("idempotency_key", Some(&raw)),
                    ("payload", Some(&given)),
                ],
            );
            let wake = woken(&message(&id, &id, body));
            assert_names(&wake, &id);
            assert_eq!(wake.occurrence.key().expect("a key").as_str(), id);
            assert_eq!(wake.payload.text(), payload);
            assert!(allowance::binds(&wake));
        }
    }
}

fn assert_names(wake: &Wake, id: &str) {
    assert_eq!(wake.organization_id.as_str(), id);
    assert_eq!(wake.project_id.as_ref().expect("a project").as_str(), id);
    assert_eq!(wake.agent_profile_id.as_str(), id);
    assert_eq!(wake.payload.task().task().expect("a task").as_str(), id);
    assert_eq!(wake.payload.actor_id().expect("an actor").as_str(), id);
}

#[test]
fn limits_hold_to_the_byte() {
    let reason = incompressible(64);
    let key = incompressible(1_024);
    let body = body_with(
        &REQUESTED,
        &[("reason", Some(&quoted(&reason))), ("idempotency_key", Some(&quoted(&key)))],
    );
    let wake = woken(&message("org", "task", body));
    assert_eq!(wake.reason.as_str(), reason);
    assert_eq!(wake.occurrence.key().expect("a key").as_str(), key);

    let mut body = object(&REQUESTED).into_bytes();
    body.resize(BODY_BYTES_MAX, b' ');
    woken(&message("org", "task", body.clone()));
    body.push(b' ');
    let event = decode(&message("org", "task", body));
    assert_eq!(rejected(&event).0, RejectReason::TooLarge);
}

#[test]
fn a_subject_must_be_of_the_form_and_name_the_bodys_organization_and_task() {
    let form = |subject: &str| {
        format!(
            "the subject \"{subject}\" is not wakes.<partition>.<producer>.<organization>.<task>"
        )
    };
    let differs = |name: &str, found: &str, id: &str| {
        format!(
            "the {name} token of the subject is \"{found}\", the body's {name} \"{id}\" has \"{id}\""
        )
    };
    let both = format!("{}; {}", differs("organization", "x", "org"), differs("task", "y", "task"));
    for (subject, fault) in [
        ("wakes.0.task_mutation.other.task", differs("organization", "other", "org")),
        ("wakes.0.task_mutation.-.task", differs("organization", "-", "org")),
        ("wakes.0.task_mutation.ORG.task", differs("organization", "ORG", "org")),
        ("wakes.0.task_mutation.=6Frg.task", differs("organization", "=6Frg", "org")),
        ("wakes.0.task_mutation.org.other", differs("task", "other", "task")),
        ("wakes.0.task_mutation.org.-", differs("task", "-", "task")),
        ("wakes.0.task_mutation.org.*", differs("task", "*", "task")),
        ("wakes.0.task_mutation.x.y", both),
        ("", form("")),
        ("wakes", form("wakes")),
        ("wakes.task_mutation.org.task", form("wakes.task_mutation.org.task")),
        ("wakes.0.task_mutation.org.task.x", form("wakes.0.task_mutation.org.task.x")),
        ("wakes.0.task_mutation.org.task.", form("wakes.0.task_mutation.org.task.")),
        ("wakes.0..org.task", form("wakes.0..org.task")),
        ("wakes..task_mutation.org.task", form("wakes..task_mutation.org.task")),
        ("sleeps.0.task_mutation.org.task", form("sleeps.0.task_mutation.org.task")),
    ] {
        for members in [&MUTATED, &REQUESTED] {
            let event = decode(&message_on(subject, object(members)));
            assert_eq!(rejected(&event), (RejectReason::SubjectMismatch, fault.as_str()));
        }
    }
    let unassigned = body_with(&MUTATED, &[("new_assignee_agent_profile_id", Some(r#""""#))]);
    let event = decode(&message("org", "other", unassigned));
    assert_eq!(rejected(&event).0, RejectReason::SubjectMismatch, "also where nobody is woken");
}

#[test]
fn a_task_that_is_no_usable_string_has_the_token_of_none() {
    for (payload, task) in [
        (r#"{"task_id":""}"#, TaskField::Absent),
        (r#"{"task_id":null}"#, TaskField::Absent),
        ("{}", TaskField::Absent),
        ("null", TaskField::Absent),
        (r#""broken {""#, TaskField::Absent),
        (r#"{"task_id":42}"#, TaskField::Unusable),
        (r#"{"task_id":["task"]}"#, TaskField::Unusable),
        (r#"{"task_id":"task\u0000"}"#, TaskField::Unusable),
        (r#"{"task_id":"\ud800"}"#, TaskField::Unusable),
        (r#""{\"task_id\":\"\u0000\"}""#, TaskField::Unusable),
    ] {
        let body = body_with(&REQUESTED, &[("payload", Some(payload))]);
        let wake = woken(&message("org", "", body.clone()));
        assert_eq!(wake.payload.task(), &task, "{payload}");
        assert!(!wake.payload.text().contains('\0'), "storable");
        let event = decode(&message("org", "task", body));
        let fault = "the task token of the subject is \"task\", the body's task \"\" has \"-\"";
        assert_eq!(rejected(&event), (RejectReason::SubjectMismatch, fault), "{payload}");
    }
}

/// AC-OFFICE-ASSIGN-RATE-001.1: scope is decided by what the payload says, and nothing beside it
/// in the payload can hide it.
#[test]
fn nothing_in_a_payload_object_takes_it_out_of_the_allowances_scope() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let arrays = nested(100_000);
    let objects = format!("{}1{}", r#"{"":"#.repeat(30_000), "}".repeat(30_000));
    let digits = "1".repeat(200_000);
    for beside in [
        arrays.as_str(),
        &objects,
        &digits,
        "1e999999",
        "-0.0E-0",
        r#""\u0000\ud800\udc00\udc00""#,
        r#"1,"\ud800":2,"\u0000":3,"":4"#,
        "1,\r\n\t \"y\"\r\n\t :\r\n\t 2\r\n\t ",
        r#"1,"actor_type":"user","task_id":9,"actor_type":"agent","task_id":"task""#,
        r#"1,"actor_type":0,"\u0061ctor_type":"\u0061gent""#,
    ] {
        let payload = format!(r#"{{"actor_type":"agent","task_id":"task","x":{beside}}}"#);
        let body = body_with(&REQUESTED, &[("payload", Some(&payload))]);
        let wake = woken(&message("org", "task", body));
        assert!(allowance::binds(&wake), "{beside:.40}");
        assert_eq!(wake.payload.text(), payload, "byte for byte");
        let body = body_with(&REQUESTED, &[("payload", Some(&quoted(&payload)))]);
        assert!(allowance::binds(&woken(&message("org", "task", body))), "{beside:.40}");
    }
}
