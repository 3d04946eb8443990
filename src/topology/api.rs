//! The JetStream API, spoken as JSON: what is declared is what is sent, and a field that this
//! client does not know is neither lost nor reset.

use async_nats::connection::State;
use async_nats::jetstream::Context;
use async_nats::jetstream::context::RequestErrorKind;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::TopologyError;
use crate::wake::UtcMicros;

/// A cluster without a leader at the moment.
pub(super) const JETSTREAM_NOT_AVAILABLE: u64 = 10_008;
const CONSUMER_NOT_FOUND: u64 = 10_014;
const JETSTREAM_NOT_ENABLED_FOR_ACCOUNT: u64 = 10_039;
const NO_MESSAGE_FOUND: u64 = 10_037;
pub(crate) const STREAM_NOT_FOUND: u64 = 10_059;
const JETSTREAM_NOT_ENABLED: u64 = 10_076;

/// `STREAM.INFO`, or nothing where there is no such stream.
pub(crate) async fn stream_info(
    context: &Context,
    stream: &str,
) -> Result<Option<Value>, TopologyError> {
    found(request(context, &format!("STREAM.INFO.{stream}"), &json!({})).await, STREAM_NOT_FOUND)
}

/// As [`stream_info`], with the sequences that were removed amid the stream.
pub(crate) async fn stream_details(
    context: &Context,
    stream: &str,
) -> Result<Option<Value>, TopologyError> {
    let asks = json!({ "deleted_details": true });
    found(request(context, &format!("STREAM.INFO.{stream}"), &asks).await, STREAM_NOT_FOUND)
}

/// When a stream was created, as its `STREAM.INFO` says.
pub(crate) fn created(info: &Value) -> Option<UtcMicros> {
    let created = OffsetDateTime::parse(info["created"].as_str()?, &Rfc3339).ok()?;
    Some(UtcMicros::from_datetime(created))
}

/// `CONSUMER.INFO`, or nothing where there is no such consumer or stream.
pub(super) async fn consumer_info(
    context: &Context,
    stream: &str,
    name: &str,
) -> Result<Option<Value>, TopologyError> {
    let subject = format!("CONSUMER.INFO.{stream}.{name}");
    let info = found(request(context, &subject, &json!({})).await, CONSUMER_NOT_FOUND);
    match info {
        Err(TopologyError::Refused { code: STREAM_NOT_FOUND, .. }) => Ok(None),
        other => other,
    }
}

/// The names of every consumer of a stream.
pub(super) async fn consumer_names(
    context: &Context,
    stream: &str,
) -> Result<Vec<String>, TopologyError> {
    let subject = format!("CONSUMER.NAMES.{stream}");
    let mut names: Vec<String> = Vec::new();
    loop {
        let page = request(context, &subject, &json!({ "offset": names.len() })).await?;
        let on_page = page["consumers"].as_array().map(Vec::as_slice).unwrap_or_default();
        names.extend(on_page.iter().filter_map(Value::as_str).map(str::to_owned));
        let total = page["total"].as_u64().unwrap_or(0);
        if on_page.is_empty() || names.len() as u64 >= total {
            return Ok(names);
        }
    }
}

/// The sequence of the first message behind `sequence` on a subject, if the stream keeps one.
pub(crate) async fn next_message(
    context: &Context,
    stream: &str,
    subject: &str,
    sequence: u64,
) -> Result<Option<u64>, TopologyError> {
    let asks = json!({ "seq": sequence + 1, "next_by_subj": subject });
    let Some(message) = message(context, stream, &asks).await? else { return Ok(None) };
    match message["seq"].as_u64() {
        Some(sequence) => Ok(Some(sequence)),
        None => Err(TopologyError::Request {
            request: format!("STREAM.MSG.GET.{stream}"),
            error: "the answer names no sequence".to_owned(),
        }),
    }
}

/// The message that `asks` describes as `STREAM.MSG.GET` takes it, if the stream keeps one.
pub(crate) async fn message(
    context: &Context,
    stream: &str,
    asks: &Value,
) -> Result<Option<Value>, TopologyError> {
    let subject = format!("STREAM.MSG.GET.{stream}");
    let found = found(request(context, &subject, asks).await, NO_MESSAGE_FOUND)?;
    Ok(found.map(|mut answer| answer["message"].take()))
}

/// Creates a stream.
pub(super) async fn create_stream(
    context: &Context,
    stream: &str,
    config: &Value,
) -> Result<(), TopologyError> {
    request(context, &format!("STREAM.CREATE.{stream}"), config).await.map(drop)
}

/// Updates a stream; a field left out goes back to its default.
pub(super) async fn update_stream(
    context: &Context,
    stream: &str,
    config: &Value,
) -> Result<(), TopologyError> {
    request(context, &format!("STREAM.UPDATE.{stream}"), config).await.map(drop)
}

/// Creates a consumer, or updates one that exists.
pub(super) async fn put_consumer(
    context: &Context,
    stream: &str,
    name: &str,
    config: &Value,
) -> Result<(), TopologyError> {
    let subject = format!("CONSUMER.CREATE.{stream}.{name}");
    request(context, &subject, &json!({ "stream_name": stream, "config": config })).await.map(drop)
}

/// Deletes a consumer.
pub(super) async fn delete_consumer(
    context: &Context,
    stream: &str,
    name: &str,
) -> Result<(), TopologyError> {
    request(context, &format!("CONSUMER.DELETE.{stream}.{name}"), &json!({})).await.map(drop)
}

fn found(
    answer: Result<Value, TopologyError>,
    not_found: u64,
) -> Result<Option<Value>, TopologyError> {
    match answer {
        Ok(info) => Ok(Some(info)),
        Err(TopologyError::Refused { code, .. }) if code == not_found => Ok(None),
        Err(error) => Err(error),
    }
}

async fn request(context: &Context, subject: &str, body: &Value) -> Result<Value, TopologyError> {
    let answer: Value = match context.request(subject.to_owned(), body).await {
        Ok(answer) => answer,
        Err(error) => return Err(unanswered(context, subject, &error)),
    };
    let Some(error) = answer.get("error") else { return Ok(answer) };
    let code = error["err_code"].as_u64().unwrap_or(0);
    if matches!(code, JETSTREAM_NOT_ENABLED | JETSTREAM_NOT_ENABLED_FOR_ACCOUNT) {
        return Err(TopologyError::NoJetStream);
    }
    Err(TopologyError::Refused {
        request: subject.to_owned(),
        code,
        error: error["description"].as_str().unwrap_or("no description").to_owned(),
    })
}

fn unanswered(
    context: &Context,
    subject: &str,
    error: &async_nats::jetstream::context::RequestError,
) -> TopologyError {
    match error.kind() {
        RequestErrorKind::NoResponders => TopologyError::NoJetStream,
        RequestErrorKind::TimedOut if context.client().connection_state() != State::Connected => {
            TopologyError::NotConnected
        }
        // The server never answers a request that the user may not make.
        RequestErrorKind::TimedOut => TopologyError::NoAnswer { request: subject.to_owned() },
        RequestErrorKind::InvalidSubject | RequestErrorKind::Other => {
            TopologyError::Request { request: subject.to_owned(), error: error.to_string() }
        }
    }
}
