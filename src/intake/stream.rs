//! What is asked of the stream itself, beside a lane's consumer.

use async_nats::jetstream::Context;
use async_nats::jetstream::context::RequestErrorKind;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::{BrokerError, StreamView};
use crate::error_text::{one_line, sanitised};
use crate::wake::UtcMicros;

const NO_MESSAGE_FOUND: u64 = 10_037;
const STREAM_NOT_FOUND: u64 = 10_059;

/// See [`super::LaneConsumer::stream`].
pub(super) async fn view(context: &Context, stream: &str) -> Result<StreamView, BrokerError> {
    let info = ask(context, stream, &format!("STREAM.INFO.{stream}"), &json!({})).await?;
    let created = info["created"].as_str();
    let created = created.and_then(|text| OffsetDateTime::parse(text, &Rfc3339).ok());
    let number = |field: &str| info["state"][field].as_u64();
    match (created, number("first_seq"), number("last_seq")) {
        (Some(created), Some(first_sequence), Some(last_sequence)) => Ok(StreamView {
            created: UtcMicros::from_datetime(created),
            first_sequence,
            last_sequence,
            removed_amid: number("num_deleted").unwrap_or(0),
        }),
        _ => Err(unavailable(format!("the server describes stream {stream} without its state"))),
    }
}

/// See [`super::LaneConsumer::next_after`].
pub(super) async fn next_after(
    context: &Context,
    stream: &str,
    lane: u32,
    sequence: u64,
) -> Result<Option<u64>, BrokerError> {
    let request = json!({ "seq": sequence + 1, "next_by_subj": format!("wakes.{lane}.>") });
    let subject = format!("STREAM.MSG.GET.{stream}");
    let found = answer(context, &subject, &request).await?;
    if code(&found) == Some(NO_MESSAGE_FOUND) {
        return Ok(None);
    }
    let found = checked(stream, found)?;
    match found["message"]["seq"].as_u64() {
        Some(sequence) => Ok(Some(sequence)),
        None => Err(unavailable(format!("the answer to {subject} names no sequence"))),
    }
}

/// See [`super::jetstream::JetStreamLane::removed_from`].
pub(super) async fn removed_from(
    context: &Context,
    stream: &str,
    first: u64,
) -> Result<Vec<u64>, BrokerError> {
    let request = json!({ "deleted_details": true });
    let info = ask(context, stream, &format!("STREAM.INFO.{stream}"), &request).await?;
    let removed = info["state"]["deleted"].as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(removed.iter().filter_map(Value::as_u64).filter(|sequence| *sequence >= first).collect())
}

async fn ask(
    context: &Context,
    stream: &str,
    subject: &str,
    request: &Value,
) -> Result<Value, BrokerError> {
    checked(stream, answer(context, subject, request).await?)
}

async fn answer(context: &Context, subject: &str, request: &Value) -> Result<Value, BrokerError> {
    context.request(subject.to_owned(), request).await.map_err(|error| match error.kind() {
        // The server never answers a request that the user may not make.
        RequestErrorKind::TimedOut => unavailable(format!(
            "no answer to $JS.API.{subject}: the server is away or too slow, or this user may not \
             publish there"
        )),
        _ => unavailable(one_line(&error)),
    })
}

fn code(answer: &Value) -> Option<u64> {
    answer.get("error").map(|error| error["err_code"].as_u64().unwrap_or(0))
}

fn checked(stream: &str, answer: Value) -> Result<Value, BrokerError> {
    match code(&answer) {
        None => Ok(answer),
        Some(STREAM_NOT_FOUND) => Err(BrokerError::Gone { what: format!("stream {stream}") }),
        Some(_) => {
            let said = answer["error"]["description"].as_str().unwrap_or("no description");
            Err(unavailable(sanitised(said)))
        }
    }
}

fn unavailable(error: String) -> BrokerError {
    BrokerError::Unavailable { error }
}
