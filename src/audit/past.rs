//! What the audit stream still holds, read from its beginning or from an instant on.

use async_nats::jetstream::Context;
use async_nats::jetstream::consumer::{AckPolicy, Consumer, DeliverPolicy, pull};
use futures_util::StreamExt as _;
use serde_json::Value;
use std::time::Duration;

use super::AuditClass;
use crate::error_text::one_line;
use crate::wake::UtcMicros;

pub(super) const STREAM: &str = "WAKE_AUDIT";
/// Events asked for at once.
const BATCH_EVENTS_MAX: usize = 500;
/// Longest wait for the next of them; events that the stream drops meanwhile never come.
const BATCH_WITHIN: Duration = Duration::from_secs(5);
/// Most events that one reading takes: more than the stream keeps of one organization.
const EVENTS_MAX: u64 = 250_000;
/// The server forgets a reader that went away after this.
pub(super) const INACTIVE_WITHIN: Duration = Duration::from_secs(30);

/// Why the audit stream could not be read.
#[derive(Debug, thiserror::Error)]
#[error("the audit stream cannot be read: {error}")]
pub struct PastError {
    /// The cause chain in one line.
    error: String,
}

fn fault(error: &dyn std::error::Error) -> PastError {
    PastError { error: one_line(error) }
}

/// Hands every event on, oldest first: its class, and the record as JSON. `class` leaves out all others,
/// `organization_token` those of other organizations, `since` those published earlier. Answers whether that was
/// all, or the bound of one reading was reached.
///
/// # Errors
/// [`PastError`] where the server does not answer, or does not let this user read.
pub async fn past(
    context: &Context,
    class: Option<AuditClass>,
    organization_token: Option<&str>,
    since: Option<UtcMicros>,
    mut each: impl FnMut(&str, Value),
) -> Result<bool, PastError> {
    let deliver_policy = match since {
        None => DeliverPolicy::All,
        Some(since) => DeliverPolicy::ByStartTime { start_time: since.datetime() },
    };
    let config = pull::Config {
        deliver_policy,
        ack_policy: AckPolicy::None,
        filter_subject: format!(
            "wake-audit.{}.*.{}",
            class.map_or("*", AuditClass::as_str),
            organization_token.unwrap_or("*")
        ),
        inactive_threshold: INACTIVE_WITHIN,
        memory_storage: true,
        num_replicas: 1,
        ..pull::Config::default()
    };
    let consumer: Consumer<pull::Config> =
        context.create_consumer_on_stream(config, STREAM).await.map_err(|error| fault(&error))?;
    let pending = consumer.cached_info().num_pending;
    let read = read(&consumer, pending.min(EVENTS_MAX), &mut each).await;
    // It goes by itself where this fails.
    drop(context.delete_consumer_from_stream(&consumer.cached_info().name, STREAM).await);
    read?;
    Ok(pending <= EVENTS_MAX)
}

async fn read(
    consumer: &Consumer<pull::Config>,
    mut left: u64,
    each: &mut impl FnMut(&str, Value),
) -> Result<(), PastError> {
    while left > 0 {
        let wanted = usize::try_from(left).unwrap_or(BATCH_EVENTS_MAX).min(BATCH_EVENTS_MAX);
        let batch = consumer.batch().max_messages(wanted).expires(BATCH_WITHIN);
        let mut batch = batch.messages().await.map_err(|error| fault(&error))?;
        let mut arrived = 0;
        while let Some(message) = batch.next().await {
            let message = message.map_err(|error| PastError { error: error.to_string() })?;
            arrived += 1;
            let class = message.subject.split('.').nth(1).unwrap_or_default().to_owned();
            // What somebody else put there is no event.
            if let Ok(record) = serde_json::from_slice(&message.payload) {
                each(&class, record);
            }
        }
        if arrived == 0 {
            return Ok(());
        }
        left = left.saturating_sub(arrived);
    }
    Ok(())
}
