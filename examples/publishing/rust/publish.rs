//! Publishes that an agent assigned a task, and waits for what becomes of it.
//!
//! `cargo run --example publish -- <organization> <task> <acting agent> <assignee> <generation>`

pub(crate) mod tokens;

use std::env;
use std::error::Error;
use std::time::Duration;

use async_nats::jetstream::context::PublishErrorKind;
use async_nats::{Client, ConnectOptions, HeaderMap, HeaderValue, jetstream};
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use uuid::{Builder, Uuid};

use self::tokens::token;

const ATTEMPTS: u32 = 3;
const OUTCOME_WITHIN: Duration = Duration::from_secs(30);

pub(crate) type Fault = Box<dyn Error + Send + Sync>;

/// Publishes one occurrence, and returns its outcome record.
async fn publish(client: &Client, event: &Value) -> Result<Value, Fault> {
    let id = |field: &str| event[field].as_str().unwrap_or_default();
    let organization = token(id("organization_id"));
    let subject = format!("wakes.task_mutation.{organization}.{}", token(id("task_id")));
    // An inbox that nobody can guess, listened to before the event can be decided.
    let inbox = client.new_inbox();
    let mut outcomes = client.subscribe(inbox.clone()).await?;
    client.flush().await?;
    let sequence = store(client, &subject, &organization, event.to_string(), &inbox).await?;
    let ours = async {
        while let Some(message) = outcomes.next().await {
            let record: Value = serde_json::from_slice(&message.payload)?;
            // Else it is not ours, whoever sent it.
            if record["stream_sequence"] == sequence {
                return Ok(record);
            }
        }
        Err("the connection to NATS was closed".into())
    };
    tokio::time::timeout(OUTCOME_WITHIN, ours).await?
}

/// Has the stream store one message, and returns its sequence there.
async fn store(
    client: &Client,
    subject: &str,
    organization: &str,
    body: String,
    inbox: &str,
) -> Result<u64, Fault> {
    let stream = jetstream::new(client.clone());
    let mut message_id = format!("{organization}.{}", random_uuid());
    let mut unanswered = 0;
    loop {
        // Through `parse`: `From<&str>` panics on a line break.
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Msg-Id", message_id.parse::<HeaderValue>()?);
        headers.insert("Wakegate-Outcome-To", inbox.parse::<HeaderValue>()?);
        let body = body.clone().into();
        let answer =
            async { stream.publish_with_headers(subject.to_owned(), headers, body).await?.await };
        match answer.await {
            // Never sent before, and known all the same: somebody else used this id.
            Ok(ack) if ack.duplicate && unanswered == 0 => {
                message_id = format!("{organization}.{}", random_uuid());
            }
            Ok(ack) => return Ok(ack.sequence),
            // It may be stored or not: repeated under the same id, it is stored once.
            Err(error) if error.kind() == PublishErrorKind::TimedOut => {
                unanswered += 1;
                if unanswered == ATTEMPTS {
                    return Err(error.into());
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// `Uuid::new_v4()`, where the crate's feature `v4` is on.
fn random_uuid() -> Uuid {
    Builder::from_random_bytes(rand::random()).into_uuid()
}

/// Publishes what the arguments say, as the settings say.
pub(crate) async fn run(
    arguments: &[String],
    setting: impl Fn(&str) -> Option<String>,
) -> Result<Value, Fault> {
    let [organization, task, actor, assignee, generation] = arguments else {
        return Err("wants <organization> <task> <acting agent> <assignee> <generation>".into());
    };
    let or = |name: &str, default: &str| setting(name).unwrap_or_else(|| default.to_owned());
    let mut options = ConnectOptions::new().custom_inbox_prefix(or("NATS_INBOX_PREFIX", "_INBOX"));
    if let Some(user) = setting("NATS_USER") {
        options = options.user_and_password(user, or("NATS_PASSWORD", ""));
    }
    let client = options.connect(or("NATS_URL", "nats://127.0.0.1:4222")).await?;
    let event = json!({
        "type": "task.mutated.v1",
        "organization_id": organization,
        "task_id": task,
        "acting_agent_id": actor,
        "new_assignee_agent_profile_id": assignee,
        "assignment_generation": generation.parse::<u64>()?,
    });
    publish(&client, &event).await
}

#[tokio::main]
#[expect(clippy::disallowed_methods, clippy::print_stdout, reason = "a program of its own")]
async fn main() -> Result<(), Fault> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    println!("{}", run(&arguments, |name| env::var(name).ok()).await?);
    Ok(())
}
