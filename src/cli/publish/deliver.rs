//! Sends messages, awaits each `PubAck`, and where asked waits for what became of the event.

use std::time::Duration;

use async_nats::Subscriber;
use async_nats::jetstream::Context;
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::publish::PublishAck;
use futures_util::StreamExt as _;

use super::events::EventFault;
use super::message::Outgoing;
use crate::cli::operators::complain;
use crate::cli::servers::connect;
use crate::cli::{Exit, Failure, print};
use crate::config::Config;
use crate::error_text::one_line;

/// Sends every message in order. Standard output gets one line an event: its sequence, or with
/// `outcome` its outcome record.
///
/// # Errors
/// The server is away, or refuses: what was sent until then is stored.
pub(super) async fn deliver(
    config: &Config,
    messages: impl Iterator<Item = Result<Outgoing, EventFault>>,
    outcome: Option<Duration>,
) -> Result<Exit, Failure> {
    let broker = connect(config).await?;
    let mut post = Post {
        context: broker.jetstream(),
        outcomes: match outcome {
            None => None,
            Some(patience) => Some(Outcomes::subscribe(&broker.client, patience).await?),
        },
    };
    let mut exit = Exit::Done;
    for message in messages {
        let sent = match message {
            Ok(message) => post.send(message).await?,
            Err(fault) => Sent::Fault(fault),
        };
        match sent {
            Sent::Stored(line) => print(&format!("{line}\n"))?,
            Sent::Duplicate { line, sequence } => {
                complain(&format!(
                    "line {line}: the server has this message id already, as sequence {sequence}; \
                     nothing was stored"
                ));
                if exit == Exit::Done {
                    exit = Exit::Duplicate;
                }
            }
            Sent::Fault(EventFault { line, what }) => {
                complain(&format!("line {line}: {what}"));
                exit = Exit::Failed;
            }
        }
    }
    Ok(exit)
}

/// What became of one message.
enum Sent {
    /// Stored; the line to print.
    Stored(String),
    /// The server took it for a duplicate.
    Duplicate { line: usize, sequence: u64 },
    /// It was not published.
    Fault(EventFault),
}

struct Post {
    context: Context,
    outcomes: Option<Outcomes>,
}

impl Post {
    async fn send(&mut self, message: Outgoing) -> Result<Sent, Failure> {
        let reply = self.outcomes.as_mut().map(Outcomes::next_subject);
        let headers = match message.headers(reply.as_deref()) {
            Ok(headers) => headers,
            Err(what) => return Ok(Sent::Fault(EventFault { line: message.line, what })),
        };
        let Outgoing { line, subject, body, .. } = message;
        let stored: Result<PublishAck, PublishError> =
            async { self.context.publish_with_headers(subject, headers, body.into()).await?.await }
                .await;
        let stored = stored.map_err(|error| refused(line, &error))?;
        if stored.duplicate {
            return Ok(Sent::Duplicate { line, sequence: stored.sequence });
        }
        Ok(Sent::Stored(match (&mut self.outcomes, reply) {
            (Some(outcomes), Some(reply)) => outcomes.wait(&reply, line, stored.sequence).await?,
            _ => stored.sequence.to_string(),
        }))
    }
}

/// Where outcomes arrive: one subject an event, under one inbox.
struct Outcomes {
    inbox: String,
    arriving: Subscriber,
    asked: u64,
    patience: Duration,
}

impl Outcomes {
    async fn subscribe(client: &async_nats::Client, patience: Duration) -> Result<Self, Failure> {
        let inbox = client.new_inbox();
        let arriving = client
            .subscribe(format!("{inbox}.*"))
            .await
            .map_err(|error| Failure::of("cannot subscribe to outcomes", &error))?;
        // The server must know of it before the first event can be decided.
        client.flush().await.map_err(|error| Failure::of("the server went away", &error))?;
        Ok(Self { inbox, arriving, asked: 0, patience })
    }

    fn next_subject(&mut self) -> String {
        self.asked += 1;
        format!("{}.{}", self.inbox, self.asked)
    }

    async fn wait(&mut self, reply: &str, line: usize, sequence: u64) -> Result<String, Failure> {
        let arrived = tokio::time::timeout(self.patience, async {
            while let Some(message) = self.arriving.next().await {
                // A late answer to an earlier event is none to this one.
                if message.subject.as_str() == reply {
                    return Some(String::from_utf8_lossy(&message.payload).into_owned());
                }
            }
            None
        })
        .await;
        match arrived {
            Ok(Some(record)) => Ok(record),
            Ok(None) => Err(Failure::new("the connection to NATS was closed")),
            Err(_) => Err(Failure::new(format!(
                "line {line}: stored as sequence {sequence}, and no outcome within {} s",
                self.patience.as_secs()
            ))
            .remedy("is a worker running? `wakegate run` decides what is stored, later too")),
        }
    }
}

fn refused(line: usize, error: &PublishError) -> Failure {
    let failure = Failure::new(format!("line {line}: not stored: {}", one_line(error)));
    match error.kind() {
        PublishErrorKind::StreamNotFound => {
            failure.remedy("there is no stream for it: run `wakegate streams apply`")
        }
        PublishErrorKind::TimedOut => failure.remedy(
            "the server did not answer, or this user may not publish there; what was not printed \
             may or may not be stored",
        ),
        _ => failure,
    }
}
