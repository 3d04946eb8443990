//! Every malformed form of both event types, with its reason and fault.

use wakegate::wake::WakeId;
use wakegate::wake::decode::{BODY_BYTES_MAX, Content, Event, RejectReason, decode};

use super::{MUTATED, REQUESTED, body_with, incompressible, rejected};
use crate::messages::{STORED_AT_NANOS, message, message_on, object, quoted};

#[test]
fn a_body_that_cannot_be_read_is_rejected_with_its_reason() {
    use RejectReason::{NotJson, NotUtf8, TooLarge, UnknownType};
    let no_object = "the body is no JSON object: it does not begin with {";
    let truncated = "the body is no JSON object: it ends before the object does";
    let known = "; known are task.mutated.v1 and wake.requested.v1";
    let unknown = |found: &str| format!("`type` is {found}{known}");
    let near = |column: usize| {
        format!(
            "the body is no JSON object: it breaks the JSON grammar near line 1, column {column}"
        )
    };
    let long = format!("{{\"type\":\"{}\"}}", "x".repeat(1_000));
    let mut too_large = vec![0xFF; BODY_BYTES_MAX + 1];
    let too_large_fault = "the body holds 262145 bytes, 262144 are allowed";
    too_large[0] = b'{';
    for (body, reason, fault) in [
        (too_large, TooLarge, too_large_fault.to_owned()),
        (vec![0xFF; BODY_BYTES_MAX], NotUtf8, "the body is no UTF-8 after byte 0".to_owned()),
        (b"{\"type\":\"\xC3\"}".to_vec(), NotUtf8, "the body is no UTF-8 after byte 9".to_owned()),
        (
            b"{\"a\":\"\xED\xA0\x80\"}".to_vec(),
            NotUtf8,
            "the body is no UTF-8 after byte 6".to_owned(),
        ),
        (b"".to_vec(), NotJson, no_object.to_owned()),
        (b" \n".to_vec(), NotJson, no_object.to_owned()),
        (b"null".to_vec(), NotJson, no_object.to_owned()),
        (b"[]".to_vec(), NotJson, no_object.to_owned()),
        (b"\"{}\"".to_vec(), NotJson, no_object.to_owned()),
        (b"\xEF\xBB\xBF{}".to_vec(), NotJson, no_object.to_owned()),
        (b"{".to_vec(), NotJson, truncated.to_owned()),
        (b"{\"type\":".to_vec(), NotJson, truncated.to_owned()),
        (b"{}{}".to_vec(), NotJson, near(3)),
        (b"{} trailing".to_vec(), NotJson, near(4)),
        (b"{}\0".to_vec(), NotJson, near(3)),
        (b"{\"a\":1,}".to_vec(), NotJson, near(8)),
        (b"{\"a\":01}".to_vec(), NotJson, near(7)),
        (b"{a:1}".to_vec(), NotJson, near(2)),
        (b"{}".to_vec(), UnknownType, unknown("absent")),
        (b"{\"Type\":\"task.mutated.v1\"}".to_vec(), UnknownType, unknown("absent")),
        (b"{\"type\":null}".to_vec(), UnknownType, unknown("null")),
        (b"{\"type\":1}".to_vec(), UnknownType, unknown("a number")),
        (b"{\"type\":true}".to_vec(), UnknownType, unknown("a boolean")),
        (b"{\"type\":{}}".to_vec(), UnknownType, unknown("an object")),
        (b"{\"type\":[\"task.mutated.v1\"]}".to_vec(), UnknownType, unknown("an array")),
        (b"{\"type\":\"\\u0000\"}".to_vec(), UnknownType, unknown("no text")),
        (b"{\"type\":\"\\ud800\"}".to_vec(), UnknownType, unknown("no text")),
        (b"{\"type\":\"\"}".to_vec(), UnknownType, unknown("\"\"")),
        (b"{\"type\":\"task.mutated.v2\"}".to_vec(), UnknownType, unknown("\"task.mutated.v2\"")),
        (
            b"{\"type\":\"task.mutated.v1\",\"type\":\"a\\n\\u202eb\\\"\"}".to_vec(),
            UnknownType,
            unknown(r#""a\n\u{202e}b\"""#),
        ),
        (long.into_bytes(), UnknownType, unknown(&format!("\"{}…\"", "x".repeat(64)))),
    ] {
        let shown = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        let event = decode(&message("org", "task", body.clone()));
        assert_eq!(rejected(&event), (reason, fault.as_str()), "{shown}");
        let Content::Rejected(rejection) = &event.content else { unreachable!() };
        assert_eq!(rejection.body, body, "as received");
    }
}

/// Every wrong form of a string field: what is put there, and what the fault says of it.
fn wrong_strings(bytes_max: usize) -> Vec<(String, String)> {
    let long = |text: String| {
        let fault = format!("holds {} bytes, {bytes_max} are allowed", text.len());
        (quoted(&text), fault)
    };
    let plain = |raw: &str, fault: &str| (raw.to_owned(), fault.to_owned());
    vec![
        plain("1", "is a number, a string is wanted"),
        plain("-1.5e300", "is a number, a string is wanted"),
        plain("true", "is a boolean, a string is wanted"),
        plain("false", "is a boolean, a string is wanted"),
        plain("[]", "is an array, a string is wanted"),
        plain(r#"["task"]"#, "is an array, a string is wanted"),
        plain(r#"{"id":"task"}"#, "is an object, a string is wanted"),
        plain(r#""\u0000""#, "holds a NUL"),
        plain(r#""task\u0000""#, "holds a NUL"),
        plain(r#""\ud800""#, "holds a lone surrogate"),
        plain(r#""task\udfffx""#, "holds a lone surrogate"),
        long(incompressible(bytes_max + 1)),
        long("é".repeat(bytes_max / 2 + 1)),
        long("x".repeat(100_000)),
    ]
}

#[test]
fn every_wrong_form_of_every_string_field_is_an_invalid_field_that_is_named() {
    const REQUIRED: [(&str, &str); 3] =
        [("null", "is null"), (r#""""#, "is empty"), ("", "is absent")];
    for (members, name, bytes_max, required) in [
        (&MUTATED, "organization_id", 256, false),
        (&MUTATED, "project_id", 256, false),
        (&MUTATED, "task_id", 256, true),
        (&MUTATED, "acting_agent_id", 256, false),
        (&MUTATED, "new_assignee_agent_profile_id", 256, false),
        (&REQUESTED, "organization_id", 256, false),
        (&REQUESTED, "project_id", 256, false),
        (&REQUESTED, "reason", 64, true),
        (&REQUESTED, "agent_profile_id", 256, true),
        (&REQUESTED, "idempotency_key", 1_024, false),
    ] {
        let mut forms = wrong_strings(bytes_max);
        if required {
            forms.extend(REQUIRED.map(|(raw, fault)| (raw.to_owned(), fault.to_owned())));
        }
        for (raw, fault) in forms {
            let body = body_with(members, &[(name, Some(raw.as_str()).filter(|r| !r.is_empty()))]);
            let event = decode(&message("org", "task", body));
            let fault = format!("`{name}` {fault}");
            assert_eq!(rejected(&event), (RejectReason::InvalidField, fault.as_str()), "{raw:.80}");
        }
    }
}

#[test]
fn a_generation_in_any_other_spelling_is_an_invalid_field() {
    let fault =
        "`assignment_generation` is no integer from 0 to 9223372036854775807 in digits alone";
    let huge = "9".repeat(100_000);
    for raw in [
        "-1",
        "-0",
        "0.0",
        "1.5",
        "1e3",
        "1E0",
        "9223372036854775808",
        "18446744073709551616",
        &huge,
        r#""3""#,
        r#""""#,
        "true",
        "false",
        "[3]",
        "{}",
    ] {
        let body = body_with(&MUTATED, &[("assignment_generation", Some(raw))]);
        let event = decode(&message("org", "task", body));
        assert_eq!(rejected(&event), (RejectReason::InvalidField, fault), "{raw:.40}");
    }
}

#[test]
fn a_payload_field_over_the_limit_is_an_invalid_field_also_within_a_string() {
    let long = incompressible(257);
    for name in ["task_id", "actor_type", "actor_id"] {
        let payload = object(&[(name, Some(&quoted(&long)))]);
        for payload in [quoted(&payload), payload] {
            let body = body_with(&REQUESTED, &[("payload", Some(&payload))]);
            let event = decode(&message("org", "", body));
            let fault = format!("`payload.{name}` holds 257 bytes, 256 are allowed");
            assert_eq!(rejected(&event), (RejectReason::InvalidField, fault.as_str()));
        }
    }
}

#[test]
fn all_faults_of_an_event_are_named_at_once() {
    let long = quoted(&"x".repeat(300));
    let producer = "p".repeat(257);
    let subject = format!("wakes.0.{producer}.elsewhere.elsewhere");
    let mutated = body_with(
        &MUTATED,
        &[
            ("organization_id", Some("1")),
            ("project_id", Some(&long)),
            ("task_id", None),
            ("acting_agent_id", Some(r#""\u0000""#)),
            ("new_assignee_agent_profile_id", Some(r#""\ud800""#)),
            ("assignment_generation", Some("1.0")),
        ],
    );
    let payload = format!(r#"{{"task_id":{long},"actor_type":{long},"actor_id":{long}}}"#);
    let requested = body_with(
        &REQUESTED,
        &[
            ("organization_id", Some("[]")),
            ("project_id", Some("{}")),
            ("reason", Some(r#""""#)),
            ("agent_profile_id", Some("null")),
            ("idempotency_key", Some("7")),
            ("payload", Some(&payload)),
        ],
    );
    for (body, fault) in [
        (
            mutated,
            "`producer` holds 257 bytes, 256 are allowed; \
             `organization_id` is a number, a string is wanted; \
             `project_id` holds 300 bytes, 256 are allowed; \
             `task_id` is absent; \
             `acting_agent_id` holds a NUL; \
             `new_assignee_agent_profile_id` holds a lone surrogate; \
             `assignment_generation` is no integer from 0 to 9223372036854775807 in digits alone",
        ),
        (
            requested,
            "`producer` holds 257 bytes, 256 are allowed; \
             `organization_id` is an array, a string is wanted; \
             `project_id` is an object, a string is wanted; \
             `reason` is empty; \
             `agent_profile_id` is null; \
             `idempotency_key` is a number, a string is wanted; \
             `payload.task_id` holds 300 bytes, 256 are allowed; \
             `payload.actor_type` holds 300 bytes, 256 are allowed; \
             `payload.actor_id` holds 300 bytes, 256 are allowed",
        ),
    ] {
        let event = decode(&message_on(&subject, body));
        assert_eq!(rejected(&event), (RejectReason::InvalidField, fault));
        assert_eq!(event.envelope.producer.as_str(), &producer[..256], "shortened");
    }
}

#[test]
fn checks_come_in_the_contracts_order() {
    use RejectReason::{InvalidField, NotJson, NotUtf8, SubjectMismatch, TooLarge, UnknownType};
    let elsewhere = "wakes.0.p.elsewhere.elsewhere";
    let pad = |start: &[u8], bytes: usize| [start, &vec![b' '; bytes - start.len()]].concat();
    for (body, reason) in [
        (pad(b"\xFF", BODY_BYTES_MAX + 1), TooLarge),
        (b"\xFF{".to_vec(), NotUtf8),
        (b"{\"type\":\"x\"".to_vec(), NotJson),
        (b"{\"type\":\"x\",\"task_id\":1}".to_vec(), UnknownType),
        (b"{\"type\":\"task.mutated.v1\",\"task_id\":1}".to_vec(), InvalidField),
        (object(&MUTATED).into_bytes(), SubjectMismatch),
    ] {
        assert_eq!(rejected(&decode(&message_on(elsewhere, body))).0, reason);
    }
}

#[test]
fn the_envelope_is_filled_whatever_the_body_is() {
    let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    for (subject, producer, organization) in [
        ("wakes.0.task_mutation.org.task", "task_mutation", "org"),
        ("wakes.0.nobody-knows-me.=2A.-", "nobody-knows-me", "=2A"),
        ("wakes.0.p.*.-", "p", "=2A"),
        ("wakes.0.p.a b.-", "p", "a=20b"),
        ("wakes.0.p.=zz.-", "p", "=3Dzz"),
        ("wakes.0.p", "p", "-"),
        ("", "-", "-"),
    ] {
        for (body, to, honoured) in [
            (object(&MUTATED), "_INBOX.abc.1", true),
            ("{".to_owned(), "wake-outcomes.org", true),
            (object(&REQUESTED), "wake-audit.refused.x.y", false),
            ("{}".to_owned(), "_INBOX.>", false),
            (String::new(), "", false),
        ] {
            let mut message = message_on(subject, body);
            message.traceparent = Some(traceparent.into());
            message.outcome_to = Some(to.into());
            let Event { envelope, .. } = decode(&message);
            assert_eq!(envelope.id, WakeId::derive("WAKES", 7, STORED_AT_NANOS));
            assert_eq!((&*envelope.stream, envelope.sequence), ("WAKES", 7));
            assert_eq!(envelope.requested_at, message.requested_at);
            assert_eq!(envelope.producer.as_str(), producer, "{subject}");
            assert_eq!(&*envelope.organization_token, organization, "{subject}");
            assert_eq!(envelope.outcome_to.as_deref(), Some(to).filter(|_| honoured));
            assert_eq!(envelope.outcome_to_ignored, !honoured);
            assert_eq!(envelope.traceparent.as_deref(), Some(traceparent));
        }
    }
    let mut message = message("org", "task", object(&MUTATED));
    message.traceparent = Some("00-not-of-the-form".into());
    let envelope = decode(&message).envelope;
    assert_eq!((envelope.traceparent, envelope.outcome_to), (None, None));
    assert!(!envelope.outcome_to_ignored, "there was none to ignore");
}
