//! Whatever is published, decoding answers, and its answer is safe to pass on.

use bytes::Bytes;
use proptest::prelude::*;
use wakegate::wake::decode::{Content, Message, decode};
use wakegate::wake::json::{JsonFault, members};
use wakegate::wake::token::token;

use super::{MUTATED, REQUESTED, body_with};
use crate::messages::{message, message_on, object, quoted};

/// What holds for every event, whatever was sent.
fn assert_harmless(message: &Message) -> Result<(), TestCaseError> {
    let event = decode(message);
    let organization = &event.envelope.organization_token;
    prop_assert!((1..=64).contains(&organization.len()), "{}", organization);
    prop_assert!(
        organization.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-=".contains(&b)),
        "{}",
        organization
    );
    prop_assert!(event.envelope.producer.as_str().len() <= 256);
    match &event.content {
        Content::Rejected(rejection) => {
            prop_assert!(!rejection.fault.is_empty() && rejection.fault.len() <= 4_096);
            prop_assert!(!rejection.fault.contains(char::is_control), "{:?}", rejection.fault);
            prop_assert_eq!(&rejection.body, &message.body);
        }
        Content::Wake(wake) => {
            prop_assert!(!wake.payload.text().contains('\0'));
            let task = wake.payload.task().task().map_or("", |task| task.as_str());
            prop_assert!(message.subject.ends_with(&*token(task)));
        }
        Content::NoWake(no_wake) => {
            prop_assert!(message.subject.ends_with(&*token(no_wake.task_id.as_str())));
        }
    }
    Ok(())
}

fn valid_body() -> impl Strategy<Value = Vec<u8>> {
    prop::sample::select(vec![object(&MUTATED), object(&REQUESTED)]).prop_map(String::into_bytes)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn arbitrary_bytes_cost_only_themselves(
        subject in "(wakes\\.)?.{0,40}",
        body in prop::collection::vec(any::<u8>(), 0..200),
        header in ".{0,80}",
    ) {
        let mut message = message_on(&subject, body);
        message.traceparent = Some(header.as_str().into());
        message.outcome_to = Some(format!("_INBOX.{header}").into());
        assert_harmless(&message)?;
    }

    #[test]
    fn a_valid_event_with_bytes_changed_costs_only_itself(
        body in valid_body(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4_u8), 1..6),
        pick in prop::sample::select(b"\"\\{}[],:0e-u\0\x7f\xff nt".to_vec()),
    ) {
        let mut body = body;
        for (at, byte, edit) in edits {
            let at = at.index(body.len());
            match edit {
                0 => body[at] = byte,
                1 => body[at] = pick,
                2 => body.insert(at, pick),
                _ => { body.remove(at); }
            }
        }
        assert_harmless(&message("org", "task", Bytes::from(body)))?;
    }

    #[test]
    fn any_json_in_any_field_costs_only_itself(
        members in prop::sample::select(vec![MUTATED, REQUESTED]),
        which in 1..7_usize,
        text in any::<String>(),
        form in 0..4,
    ) {
        let raw = match form {
            0 => quoted(&text),
            1 => format!("[{}]", quoted(&text)),
            2 => quoted(&object(&[("task_id", Some(&quoted(&text)))])),
            _ => object(&[("task_id", Some(&quoted(&text))), ("actor_type", Some(&quoted(&text)))]),
        };
        let body = body_with(&members, &[(members[which].0, Some(&raw))]);
        for (organization, task) in [("org", "task"), (&*text, "task"), ("org", &*text), ("org", "")] {
            assert_harmless(&message(organization, task, body.clone()))?;
        }
    }
}

/// Skipping what is nested does not recurse, so no publisher can end the process with a deep body.
#[test]
fn nesting_of_100_000_levels_is_scanned_on_a_small_stack() {
    const LEVELS: usize = 100_000;
    let scanned = std::thread::Builder::new().stack_size(64 * 1_024).spawn(|| {
        for (open, inner, close) in
            [("[", "", "]"), (r#"{"":"#, "1", "}"), (r#"[{"k":"#, "[]", "}]")]
        {
            let deep = format!("{}{inner}{}", open.repeat(LEVELS), close.repeat(LEVELS));
            let text = format!(r#"{{"x":{deep},"a":{deep},"task_id":"t"}}"#);
            let names = ["a", "task_id"];
            let found = members(&text, &names).expect("any depth is JSON");
            assert_eq!(found, [Some(deep.as_str()), Some(r#""t""#)]);
            let half = members(&text[..text.len() / 2], &names);
            assert_eq!(half, Err(JsonFault::Truncated));
        }
    });
    scanned.expect("a thread").join().expect("no stack overflow");
}
