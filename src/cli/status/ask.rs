//! Asking workers over NATS.

use std::time::Duration;

use async_nats::service::Info;
use async_nats::{Client, RequestErrorKind, StatusCode};
use futures_util::StreamExt as _;
use serde_json::Value;

use crate::control::ERROR_HEADER;
use crate::control::service::SERVICE;
use crate::control::{ControlError, ErrorCode};
use crate::error_text::{one_line, sanitised};

/// How long nobody has to say anything for everybody to have spoken.
const QUIET: Duration = Duration::from_millis(300);
/// Longest wait for the answer of one worker.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// The endpoint for a worker's own health.
const HEALTH: &str = "health-of-this-worker";
/// A worker that counts already is asked again, so often and so far apart.
const BUSY_ROUNDS: u32 = 10;
const BUSY_WAIT: Duration = Duration::from_millis(200);

/// A worker that was found.
pub(super) struct Found {
    pub(super) id: String,
    /// Where its health is asked.
    pub(super) health: String,
}

/// Every worker that answers the discovery of NATS services.
pub(super) async fn discover(client: &Client, first_within: Duration) -> Vec<Found> {
    let inbox = client.new_inbox();
    let Ok(mut arriving) = client.subscribe(inbox.clone()).await else { return Vec::new() };
    let subject = format!("$SRV.INFO.{SERVICE}");
    if client.publish_with_reply(subject, inbox, "".into()).await.is_err() {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut within = first_within;
    while let Ok(Some(message)) = tokio::time::timeout(within, arriving.next()).await {
        if message.status == Some(StatusCode::NO_RESPONDERS) {
            break;
        }
        within = QUIET;
        let Ok(info) = serde_json::from_slice::<Info>(&message.payload) else { continue };
        let health = info.endpoints.iter().find(|endpoint| endpoint.name == HEALTH);
        if let Some(health) = health {
            found.push(Found { id: info.id, health: health.subject.clone() });
        }
    }
    found
}

/// What became of a request.
pub(super) enum Asked {
    Answered(Value),
    Refused(ControlError),
    NoAnswer(String),
}

impl Asked {
    pub(super) fn into_result(self) -> Result<Value, ControlError> {
        match self {
            Self::Answered(reply) => Ok(reply),
            Self::Refused(error) => Err(error),
            Self::NoAnswer(why) => Err(ControlError::new(ErrorCode::Unavailable, why)),
        }
    }
}

/// Asks, again where the answer is that too much is asked at once.
pub(super) async fn ask(client: &Client, subject: &str, body: &'static str) -> Asked {
    for _ in 0..BUSY_ROUNDS {
        match once(client, subject, body).await {
            Asked::Refused(error) if error.code == ErrorCode::Busy => {
                tokio::time::sleep(BUSY_WAIT).await;
            }
            answer => return answer,
        }
    }
    once(client, subject, body).await
}

async fn once(client: &Client, subject: &str, body: &'static str) -> Asked {
    let request = client.request(subject.to_owned(), body.into());
    let message = match tokio::time::timeout(ANSWER_MAX, request).await {
        Ok(Ok(message)) => message,
        Ok(Err(error)) if error.kind() == RequestErrorKind::NoResponders => {
            return Asked::NoAnswer("nobody answers".to_owned());
        }
        Ok(Err(error)) => return Asked::NoAnswer(one_line(&error)),
        Err(_) => return Asked::NoAnswer(format!("no answer within {ANSWER_MAX:?}")),
    };
    if let Some(error) = message.headers.as_ref().and_then(|headers| headers.get(ERROR_HEADER)) {
        return Asked::Refused(refusal(error.as_str()));
    }
    match serde_json::from_slice(&message.payload) {
        Ok(reply) => Asked::Answered(reply),
        Err(error) => Asked::NoAnswer(format!("the answer is no JSON: {}", one_line(&error))),
    }
}

/// An error as a worker says it, which may be one that this command does not know.
fn refusal(header: &str) -> ControlError {
    let error: Value = serde_json::from_str(header).unwrap_or_default();
    let code = match error["code"].as_str() {
        Some("busy") => ErrorCode::Busy,
        _ => ErrorCode::Unavailable,
    };
    let message = error["message"].as_str().unwrap_or("refused without a reason");
    ControlError::new(code, sanitised(message))
}
