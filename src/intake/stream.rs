//! What is asked of the stream itself, beside a lane's consumer.

use async_nats::jetstream::Context;
use serde_json::Value;

use super::{BrokerError, StreamView};
use crate::error_text::one_line;
use crate::topology::{TopologyError, api};

/// See [`super::LaneConsumer::stream`].
pub(super) async fn view(context: &Context, stream: &str) -> Result<StreamView, BrokerError> {
    let info = there(stream, api::stream_info(context, stream).await)?;
    let number = |field: &str| info["state"][field].as_u64();
    let (Some(created), Some(first_sequence), Some(last_sequence)) =
        (api::created(&info), number("first_seq"), number("last_seq"))
    else {
        let error = format!("the server describes stream {stream} without its state");
        return Err(BrokerError::Unavailable { error });
    };
    let removed_amid = number("num_deleted").unwrap_or(0);
    Ok(StreamView { created, first_sequence, last_sequence, removed_amid })
}

/// See [`super::LaneConsumer::next_after`].
pub(super) async fn next_after(
    context: &Context,
    stream: &str,
    lane: u32,
    sequence: u64,
) -> Result<Option<u64>, BrokerError> {
    let found = api::next_message(context, stream, &format!("wakes.{lane}.>"), sequence).await;
    found.map_err(|error| match error {
        TopologyError::Refused { code: api::STREAM_NOT_FOUND, .. } => gone(stream),
        other => unavailable(&other),
    })
}

/// See [`super::jetstream::JetStreamLane::removed_from`].
pub(super) async fn removed_from(
    context: &Context,
    stream: &str,
    first: u64,
) -> Result<Vec<u64>, BrokerError> {
    let info = there(stream, api::stream_details(context, stream).await)?;
    let removed = info["state"]["deleted"].as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(removed.iter().filter_map(Value::as_u64).filter(|sequence| *sequence >= first).collect())
}

/// The stream's description, or that it is gone.
fn there(stream: &str, info: Result<Option<Value>, TopologyError>) -> Result<Value, BrokerError> {
    info.map_err(|error| unavailable(&error))?.ok_or_else(|| gone(stream))
}

fn gone(stream: &str) -> BrokerError {
    BrokerError::Gone { what: format!("stream {stream}") }
}

fn unavailable(error: &TopologyError) -> BrokerError {
    BrokerError::Unavailable { error: one_line(error) }
}
