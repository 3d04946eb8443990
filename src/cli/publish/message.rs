//! An event becomes a message: its subject and its message id follow from what it says.

use std::borrow::Cow;
use std::hash::{BuildHasher as _, RandomState};
use std::str::FromStr as _;

use async_nats::header::NATS_MESSAGE_ID;
use async_nats::{HeaderMap, HeaderValue};
use uuid::Uuid;

use super::events::{EventFault, InputEvent};
use crate::error_text::sanitised;
use crate::wake::decode::{BODY_BYTES_MAX, TASK_MUTATED, WAKE_REQUESTED};
use crate::wake::json::{Held, held, members};
use crate::wake::producer::ProducerClass;
use crate::wake::token::{ABSENT, token};
use crate::wake::{IdFault, OrganizationId, TaskId, requested};

/// Producer of a `wake.requested.v1` where none is named: this command. It counts as `other`.
pub const PRODUCER_OF_REQUESTS: &str = "cli";
/// Where the outcome is wanted.
pub const OUTCOME_TO: &str = "Wakegate-Outcome-To";

/// A message ready to be published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// The line of the input that the event begins on, from 1.
    pub line: usize,
    /// `wakes.<producer>.<organization>.<task>`
    pub subject: String,
    /// `<organization>.<uuid>`
    pub message_id: String,
    /// The event, byte for byte.
    pub body: String,
}

impl Outgoing {
    /// Only what the subject needs is read; everything else of an event is the worker's to judge.
    ///
    /// # Errors
    /// [`EventFault`] where no worker could take the event, or its subject cannot be told.
    pub fn of(
        event: InputEvent,
        producer: Option<&str>,
        occurrence: Uuid,
    ) -> Result<Self, EventFault> {
        let address = Address::of(&event.body)
            .map_err(|what| EventFault { line: event.line, what: sanitised(&what) })?;
        let organization = token(address.organization_id.as_str());
        let task = address.task.as_deref().map_or(ABSENT.into(), token);
        let producer = producer.unwrap_or(address.producer);
        Ok(Self {
            line: event.line,
            subject: format!("wakes.{producer}.{organization}.{task}"),
            message_id: format!("{organization}.{occurrence}"),
            body: event.body,
        })
    }

    /// The headers; `outcome_to` is where the outcome is wanted.
    ///
    /// # Errors
    /// A value that no header can hold. Never through `From<&str>`, which panics on one.
    pub fn headers(&self, outcome_to: Option<&str>) -> Result<HeaderMap, String> {
        let value = |text: &str| HeaderValue::from_str(text).map_err(|error| error.to_string());
        let mut headers = HeaderMap::new();
        headers.insert(NATS_MESSAGE_ID, value(&self.message_id)?);
        if let Some(subject) = outcome_to {
            headers.insert(OUTCOME_TO, value(subject)?);
        }
        Ok(headers)
    }
}

/// What a subject is made from.
#[derive(Debug, PartialEq, Eq)]
struct Address {
    organization_id: OrganizationId,
    task: Option<String>,
    producer: &'static str,
}

impl Address {
    fn of(body: &str) -> Result<Self, String> {
        if body.len() > BODY_BYTES_MAX {
            return Err(format!("holds {} bytes, {BODY_BYTES_MAX} are allowed", body.len()));
        }
        let names = ["type", "organization_id", "task_id", "payload"];
        let [kind, organization, task, payload] =
            members(body, &names).map_err(|_| "is no JSON object")?;
        let organization_id = match organization.map(held) {
            None | Some(Held::Null) => OrganizationId::none(),
            Some(value) => OrganizationId::parse(&text("organization_id", Some(value))?)
                .map_err(in_field("organization_id"))?,
        };
        match kind.map(held) {
            Some(Held::Text(kind)) if kind == TASK_MUTATED => {
                let task = text("task_id", task.map(held))?;
                TaskId::parse(&task).map_err(in_field("task_id"))?;
                let producer = ProducerClass::TaskMutation.as_str();
                Ok(Self { organization_id, task: Some(task.into_owned()), producer })
            }
            Some(Held::Text(kind)) if kind == WAKE_REQUESTED => {
                // A payload that breaks the limits has no task; the worker says which limit.
                let payload = requested::payload(payload).ok();
                let task = payload.and_then(|payload| payload.task().task().cloned());
                let task = task.map(|task| task.as_str().to_owned());
                Ok(Self { organization_id, task, producer: PRODUCER_OF_REQUESTS })
            }
            Some(Held::Text(other)) => Err(format!(
                "type: there is no {other:?}; there are {TASK_MUTATED} and {WAKE_REQUESTED}"
            )),
            _ => Err(format!("type: wants {TASK_MUTATED} or {WAKE_REQUESTED}")),
        }
    }
}

fn in_field(field: &'static str) -> impl Fn(IdFault) -> String {
    move |fault| format!("{field}: {fault}")
}

/// The text of a field that has to be one.
fn text<'a>(field: &str, value: Option<Held<'a>>) -> Result<Cow<'a, str>, String> {
    match value {
        Some(Held::Text(text)) => Ok(text),
        Some(Held::Unstorable(fault)) => Err(format!("{field}: {fault}")),
        _ => Err(format!("{field}: is no string")),
    }
}

/// Makes message ids that no other process makes.
#[derive(Debug, Default)]
pub struct MessageIds {
    // Keyed by the operating system's randomness for each process.
    keyed: (RandomState, RandomState),
    made: u64,
}

impl MessageIds {
    /// Ids of this process.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A new id, in the layout of a random UUID.
    pub fn make(&mut self) -> Uuid {
        self.made += 1;
        let (left, right) = (self.keyed.0.hash_one(self.made), self.keyed.1.hash_one(self.made));
        let bytes = (u128::from(left) << 64 | u128::from(right)).to_be_bytes();
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn outgoing(body: &str, producer: Option<&str>) -> Result<Outgoing, EventFault> {
        Outgoing::of(InputEvent { line: 7, body: body.to_owned() }, producer, Uuid::nil())
    }

    #[test]
    fn subjects_follow_from_the_event() {
        for (body, subject) in [
            (r#"{"type":"task.mutated.v1","task_id":"t1"}"#, "wakes.task_mutation.-.t1"),
            (
                r#"{"type":"task.mutated.v1","organization_id":"a.b","task_id":"*"}"#,
                "wakes.task_mutation.a=2Eb.=2A",
            ),
            (
                r#"{"type":"task.mutated.v1","organization_id":null,"task_id":"-"}"#,
                "wakes.task_mutation.-.=2D",
            ),
            (r#"{"type":"wake.requested.v1","organization_id":"o"}"#, "wakes.cli.o.-"),
            (r#"{"type":"wake.requested.v1","payload":{"task_id":"t"}}"#, "wakes.cli.-.t"),
            (r#"{"type":"wake.requested.v1","payload":"{\"task_id\":\"t\"}"}"#, "wakes.cli.-.t"),
            (r#"{"type":"wake.requested.v1","payload":{"task_id":""}}"#, "wakes.cli.-.-"),
            (r#"{"type":"wake.requested.v1","payload":{"task_id":42}}"#, "wakes.cli.-.-"),
            (r#"{"type":"wake.requested.v1","payload":{"task_id":"\ud800"}}"#, "wakes.cli.-.-"),
            (
                r#"{"type":"wake.requested.v1","payload":{"\ud800":1,"task_id":"t"}}"#,
                "wakes.cli.-.t",
            ),
            (
                r#"{"type":"wake.requested.v1","\ud800":1,"payload":{"task_id":"t"}}"#,
                "wakes.cli.-.t",
            ),
            (r#"{"type":"wake.requested.v1","payload":[1]}"#, "wakes.cli.-.-"),
            (r#"{"type":"wake.requested.v1","payload":"words"}"#, "wakes.cli.-.-"),
            (
                r#"{"type":"wake.requested.v1","payload":{"task_id":"a","task_id":"b"}}"#,
                "wakes.cli.-.b",
            ),
        ] {
            let made = outgoing(body, None).unwrap();
            assert_eq!(made.subject, subject, "{body}");
            assert_eq!(made.body, body, "the body is untouched");
            assert_eq!(made.line, 7);
        }
    }

    #[test]
    fn a_producer_that_is_named_is_the_one_in_the_subject() {
        let made = outgoing(r#"{"type":"task.mutated.v1","task_id":"t"}"#, Some("onboarding"));
        assert_eq!(made.unwrap().subject, "wakes.onboarding.-.t");
    }

    #[test]
    fn what_has_no_subject_is_a_fault_that_says_why() {
        let long = format!(r#"{{"type":"task.mutated.v1","task_id":"{}"}}"#, "t".repeat(257));
        let large =
            format!(r#"{{"type":"wake.requested.v1","x":"{}"}}"#, "x".repeat(BODY_BYTES_MAX));
        for (body, what) in [
            ("[]", "is no JSON object"),
            ("7", "is no JSON object"),
            ("{}", "type: wants task.mutated.v1 or wake.requested.v1"),
            (
                r#"{"type":"task\n"}"#,
                r#"type: there is no "task\n"; there are task.mutated.v1 and wake.requested.v1"#,
            ),
            (r#"{"type":"task.mutated.v1"}"#, "task_id: is no string"),
            (r#"{"type":"task.mutated.v1","task_id":7}"#, "task_id: is no string"),
            (r#"{"type":"task.mutated.v1","task_id":""}"#, "task_id: is empty"),
            (r#"{"type":"task.mutated.v1","task_id":"\u0000"}"#, "task_id: holds a NUL"),
            (long.as_str(), "task_id: holds 257 bytes, 256 are allowed"),
            (
                r#"{"type":"task.mutated.v1","task_id":"t","organization_id":7}"#,
                "organization_id: is no string",
            ),
            (large.as_str(), "holds 262179 bytes, 262144 are allowed"),
        ] {
            let fault = outgoing(body, None).unwrap_err();
            assert_eq!(fault, EventFault { line: 7, what: what.to_owned() });
        }
    }

    #[test]
    fn message_ids_begin_with_the_organization_and_are_new_each_time() {
        let body = r#"{"type":"task.mutated.v1","organization_id":"a b","task_id":"t"}"#;
        let made = outgoing(body, None).unwrap();
        assert_eq!(made.message_id, "a=20b.00000000-0000-0000-0000-000000000000");
        let mut processes = [MessageIds::new(), MessageIds::new()];
        let ids: HashSet<Uuid> =
            (0..1_000).flat_map(|_| processes.each_mut().map(MessageIds::make)).collect();
        assert_eq!(ids.len(), 2_000);
        assert!(ids.iter().all(|id| id.get_version_num() == 4));
    }

    #[test]
    fn headers_hold_the_message_id_and_where_the_outcome_is_wanted() {
        let made = outgoing(r#"{"type":"task.mutated.v1","task_id":"t"}"#, None).unwrap();
        let headers = made.headers(Some("_INBOX.x")).unwrap();
        let text = |name: &str| headers.get(name).map(|value| value.as_str().to_owned());
        assert_eq!(text("Nats-Msg-Id").as_ref(), Some(&made.message_id));
        assert_eq!(text(OUTCOME_TO).as_deref(), Some("_INBOX.x"));
        assert!(made.headers(None).unwrap().get(OUTCOME_TO).is_none());
        assert!(made.headers(Some("a\r\nb: c")).is_err(), "no header is smuggled in");
    }
}
