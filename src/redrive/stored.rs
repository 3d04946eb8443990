//! Messages as the stream has them.

use async_nats::header::{HeaderName, NATS_MESSAGE_ID};
use async_nats::jetstream::Context;
use async_nats::{HeaderMap, HeaderValue, Subject};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};
use std::str::FromStr as _;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::{Chosen, STREAM};
use crate::topology::TopologyError;
use crate::topology::api;
use crate::wake::WakeId;

/// Names the wake that a message is the redrive of.
pub const REDRIVE_OF: &str = "Wakegate-Redrive-Of";

/// A message of `WAKES`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMessage {
    /// `wakes.<lane>.<producer>.<organization>.<task>`
    pub subject: String,
    /// Where it is.
    pub sequence: u64,
    /// When it was stored, in nanoseconds since the epoch.
    pub stored_at_nanos: i128,
    /// Its headers in order; a line that is none is left out.
    pub headers: Vec<(String, String)>,
    /// The event.
    pub body: Bytes,
}

/// What the stream has of a wake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Original {
    /// The very message.
    There(StoredMessage),
    /// No longer anything, or a message of another wake.
    Gone,
}

impl StoredMessage {
    fn of(message: &Value) -> Option<Self> {
        let decoded = |name: &str| -> Option<Vec<u8>> {
            message[name].as_str().map_or(Some(Vec::new()), |text| STANDARD.decode(text).ok())
        };
        let at = OffsetDateTime::parse(message["time"].as_str()?, &Rfc3339).ok()?;
        Some(Self {
            subject: message["subject"].as_str()?.to_owned(),
            sequence: message["seq"].as_u64()?,
            stored_at_nanos: at.unix_timestamp_nanos(),
            headers: headers(&decoded("hdrs")?),
            body: decoded("data")?.into(),
        })
    }

    /// The wake that it is.
    #[must_use]
    pub fn wake_id(&self) -> WakeId {
        WakeId::derive(STREAM, self.sequence, self.stored_at_nanos)
    }

    /// Its `Nats-Msg-Id`.
    #[must_use]
    pub fn message_id(&self) -> Option<&str> {
        let is = |name: &str| name.eq_ignore_ascii_case(NATS_MESSAGE_ID.as_ref());
        self.headers.iter().find(|(name, _)| is(name)).map(|(_, value)| value.as_str())
    }

    /// The tokens of the subject behind the lane: producer, organization, task.
    fn tokens(&self) -> Option<[&str; 3]> {
        let tokens: Vec<&str> = self.subject.split('.').collect();
        match tokens[..] {
            ["wakes", _, producer, organization, task] => Some([producer, organization, task]),
            _ => None,
        }
    }

    /// The subject that it was published on; nothing where that cannot be told or be published on.
    #[must_use]
    pub fn published_on(&self) -> Option<Subject> {
        let subject = format!("wakes.{}", self.tokens()?.join("."));
        // What was no UTF-8 came as something else.
        let whole = !subject.contains(char::REPLACEMENT_CHARACTER);
        Subject::validated(subject).ok().filter(|_| whole)
    }

    /// Its subject in every lane, as a filter.
    pub(super) fn everywhere(&self) -> Option<String> {
        Some(format!("wakes.*.{}", self.tokens()?.join(".")))
    }

    /// The organization as the subject has it.
    pub(super) fn organization_token(&self) -> Option<&str> {
        self.tokens().map(|[_, organization, _]| organization)
    }

    /// The headers of what is published again: its own, but for those that are the server's.
    pub(super) fn headers_again(&self) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in &self.headers {
            let servers = name.get(..5).is_some_and(|name| name.eq_ignore_ascii_case("nats-"));
            if servers || name.eq_ignore_ascii_case(REDRIVE_OF) {
                continue;
            }
            // Never through `From<&str>`, which panics on what is none.
            if let (Ok(name), Ok(value)) =
                (HeaderName::from_str(name), HeaderValue::from_str(value))
            {
                map.append(name, value);
            }
        }
        map
    }
}

/// `name: value` lines behind the status line; what a publisher wrote may be anything.
fn headers(bytes: &[u8]) -> Vec<(String, String)> {
    let lines = bytes.split(|byte| *byte == b'\n').skip(1);
    let text = lines.filter_map(|line| std::str::from_utf8(line).ok());
    text.filter_map(|line| {
        let (name, value) = line.trim_end_matches('\r').split_once(':')?;
        Some((name.to_owned(), value.trim().to_owned()))
    })
    .collect()
}

async fn get(context: &Context, asks: Value) -> Result<Option<StoredMessage>, TopologyError> {
    let Some(message) = api::message(context, STREAM, &asks).await? else { return Ok(None) };
    let unreadable = || TopologyError::Request {
        request: format!("STREAM.MSG.GET.{STREAM}"),
        error: "the answer holds no message".to_owned(),
    };
    StoredMessage::of(&message).map(Some).ok_or_else(unreadable)
}

/// The message of a wake.
pub(super) async fn original(
    context: &Context,
    chosen: &Chosen,
) -> Result<Original, TopologyError> {
    let message = at(context, chosen.sequence).await?;
    // A stream that was made anew has other messages at the same sequences.
    let same = message.filter(|message| message.wake_id() == chosen.wake_id);
    Ok(same.map_or(Original::Gone, Original::There))
}

/// The message at a sequence.
pub(super) async fn at(
    context: &Context,
    sequence: u64,
) -> Result<Option<StoredMessage>, TopologyError> {
    get(context, json!({ "seq": sequence })).await
}

/// The sequence of the last message on a subject; 0 where there is none.
pub(super) async fn last_on(context: &Context, subject: &str) -> Result<u64, TopologyError> {
    let last = get(context, json!({ "last_by_subj": subject })).await?;
    Ok(last.map_or(0, |message| message.sequence))
}

/// The first message on a subject behind a sequence.
pub(super) async fn next_on(
    context: &Context,
    subject: &str,
    behind: u64,
) -> Result<Option<StoredMessage>, TopologyError> {
    get(context, json!({ "seq": behind + 1, "next_by_subj": subject })).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(headers: &str) -> StoredMessage {
        StoredMessage::of(&json!({
            "subject": "wakes.3.task_mutation.acme.t=2E1", "seq": 7,
            "time": "2026-11-01T12:00:00.000000001Z",
            "hdrs": STANDARD.encode(headers), "data": STANDARD.encode("{}"),
        }))
        .unwrap()
    }

    #[test]
    fn what_is_published_again_has_the_publishers_headers_and_none_of_the_servers() {
        let stored = message(
            "NATS/1.0\r\nNats-Msg-Id: acme.1\r\ntraceparent: 00-a\r\nno header\r\n\
             Wakegate-Outcome-To: wake-outcomes.a\r\nnats-expected-stream: WAKES\r\n\
             Wakegate-Redrive-Of: x\r\n\r\n",
        );
        assert_eq!(stored.message_id(), Some("acme.1"));
        let again = stored.headers_again();
        let names: Vec<_> = again.iter().map(|(name, _)| name.to_string()).collect();
        assert_eq!(names.len(), 2, "{names:?}");
        for (name, value) in [("traceparent", "00-a"), ("Wakegate-Outcome-To", "wake-outcomes.a")] {
            assert_eq!(again.get(name).map(HeaderValue::as_str), Some(value));
        }
    }

    #[test]
    fn subjects_lose_their_lane() {
        let mut stored = message("");
        assert_eq!(stored.published_on().unwrap().as_str(), "wakes.task_mutation.acme.t=2E1");
        assert_eq!(stored.everywhere().as_deref(), Some("wakes.*.task_mutation.acme.t=2E1"));
        for subject in ["wakes.3.a.b", "wakes.3.a.b.c.d", "other.3.a.b.c", "wakes.3.a.b.\u{fffd}"] {
            subject.clone_into(&mut stored.subject);
            assert_eq!(stored.published_on(), None, "{subject}");
        }
    }
}
