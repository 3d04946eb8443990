//! The NATS service: discovery, requests, and a bounded number of them in work.
//!
//! It speaks the protocol of NATS services (ADR-32), so `nats micro` finds it. Requests about the
//! database go to any one worker, by the protocol's queue group; those about a worker go to each of
//! them, or to one by its id (docs/decisions/0036-control.md).
//!
//! A request that cannot be taken in is answered at once, `busy`: nothing waits in a line here.

use std::collections::HashMap;
use std::time::Duration;

use async_nats::service::error::Error as ServiceError;
use async_nats::service::{
    NATS_SERVICE_ERROR, NATS_SERVICE_ERROR_CODE, Request, Service, ServiceExt as _,
};
use async_nats::{Client, HeaderMap, HeaderValue, Message};
use futures_util::stream::{self, BoxStream, SelectAll};
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::task::JoinSet;

use super::answers::Control;
use super::error::{ControlError, ErrorCode};
use super::verbs::{Answers, SUBJECTS, Verb};
use super::worker::host;
use crate::broker::{Broker, Link};
use crate::error_text::{one_line, sanitised};
use crate::shutdown::Shutdown;
use crate::store::control::ControlStore;

/// What the service is called.
pub const SERVICE: &str = "wakegate";
/// The header with a [`ControlError`] in it, as JSON.
pub const ERROR_HEADER: &str = "Wakegate-Error";
const DESCRIPTION: &str = "Operators: pause, resume, agents, limits, counts, health, configuration";
/// The queue group of requests for any one worker: the protocol's own.
const ANY_WORKER: &str = "q";
/// The queue group of subjects that mean nothing. It is not [`ANY_WORKER`]: a server takes one member
/// of a group for a message, whichever of their subjects it matched.
const BESIDE: &str = "beside";
/// How long what is in work may still take once the worker is to end.
const END_MAX: Duration = Duration::from_secs(2);
/// Where replies may go: inboxes, and what a server makes of an inbox of another account. Whoever may
/// ask must not borrow this connection's permissions to publish elsewhere.
const INBOXES: [&str; 2] = ["_INBOX", "_R_."];

/// Answers until the worker is to end.
///
/// # Errors
/// The client was closed, or does not take the service.
pub async fn serve<S: ControlStore>(
    control: Control<S>,
    broker: &Broker,
    requests_max: usize,
    shutdown: &Shutdown,
) -> Result<(), async_nats::Error> {
    let metadata = HashMap::from([
        ("host".to_owned(), host()),
        ("process".to_owned(), std::process::id().to_string()),
    ]);
    let service = broker.client.service_builder().description(DESCRIPTION).metadata(metadata);
    let service = service.start(SERVICE, env!("CARGO_PKG_VERSION")).await?;
    let id = service.info().await.id;
    let mut asked = endpoints(&service, &id).await?;
    asked.extend(forged(&broker.client).await?);
    tracing::info!(worker = id, subjects = SUBJECTS, "answering operators");

    let mut work = JoinSet::new();
    loop {
        let request = tokio::select! {
            asked = asked.next() => match asked {
                Some(asked) => asked,
                None => break,
            },
            Some(done) = work.join_next() => {
                note(done);
                continue;
            }
            () = shutdown.requested() => break,
        };
        // What has ended makes room.
        while let Some(Some(done)) = work.join_next().now_or_never() {
            note(done);
        }
        if !request.may_be_answered() {
            continue;
        }
        if work.len() < requests_max {
            work.spawn(answer(control.clone(), id.clone(), request));
        } else {
            let message = format!("{requests_max} requests are in work; ask again");
            request.respond(Err(ControlError::new(ErrorCode::Busy, message))).await;
        }
    }
    drop(asked);
    let stopped = service.stop().await;
    let all = async {
        while let Some(done) = work.join_next().await {
            note(done);
        }
    };
    if tokio::time::timeout(END_MAX, all).await.is_err() {
        tracing::warn!(requests = work.len(), "requests of operators end unanswered");
    }
    if *broker.link.borrow() == Link::Up {
        // What was answered is to be sent, too.
        let _ = tokio::time::timeout(END_MAX, broker.client.flush()).await;
    }
    stopped
}

async fn answer<S: ControlStore>(control: Control<S>, id: String, asked: Asked) {
    let reply = match asked.verb {
        Some(verb) => control.answer(&id, verb, &asked.message().payload).await,
        None => Err(unknown(&asked.message().subject)),
    };
    asked.respond(reply).await;
}

fn unknown(subject: &str) -> ControlError {
    let verbs = Verb::ALL.map(Verb::as_str).join(", ");
    let message = format!("there is no {}; there are {verbs}", sanitised(subject));
    ControlError::new(ErrorCode::UnknownVerb, message)
}

fn note(done: Result<(), tokio::task::JoinError>) {
    if let Err(error) = done {
        tracing::error!(error = one_line(&error), "a request of an operator ended by a panic");
    }
}

/// A request, and how it is answered.
struct Asked {
    /// None of a subject that means nothing.
    verb: Option<Verb>,
    via: Via,
}

enum Via {
    Endpoint(Request),
    /// Beside the service: tools are not to see it as one of its endpoints.
    Elsewhere(Client, Message),
}

type Arriving = SelectAll<BoxStream<'static, Asked>>;

async fn endpoints(service: &Service, id: &str) -> Result<Arriving, async_nats::Error> {
    let mut arriving: Arriving = stream::select_all([]);
    for verb in Verb::ALL {
        let own = (format!("{}-of-this-worker", verb.name()), format!("{}.{id}", verb.subject()));
        let shared = (verb.name(), verb.subject());
        let (group, subjects) = match verb.answers() {
            Answers::AnyWorker => (ANY_WORKER, vec![shared]),
            // A queue group of one is none: every worker gets every request.
            Answers::EachWorker => (id, vec![shared, own]),
        };
        for (name, subject) in subjects {
            let metadata = HashMap::from([
                ("request_schema".to_owned(), format!("control-{}-request.json", verb.name())),
                ("reply_schema".to_owned(), format!("control-{}-reply.json", verb.name())),
            ]);
            let endpoint = service.endpoint_builder().name(name).queue_group(group);
            let endpoint = endpoint.metadata(metadata).add(subject).await?;
            let asked = move |request| Asked { verb: Some(verb), via: Via::Endpoint(request) };
            arriving.push(endpoint.map(asked).boxed());
        }
    }
    Ok(arriving)
}

/// Subjects beside those of the verbs, so that a wrong one is answered and not waited for.
async fn forged(client: &Client) -> Result<Arriving, async_nats::Error> {
    let mut arriving: Arriving = stream::select_all([]);
    for beside in ["*", "agent.*", "limits.*"] {
        let subject = format!("{SUBJECTS}.{beside}");
        let messages = client.queue_subscribe(subject, BESIDE.to_owned()).await?;
        let client = client.clone();
        let asked = messages
            .filter(|message| std::future::ready(Verb::of_subject(&message.subject).is_none()))
            .map(move |message| Asked { verb: None, via: Via::Elsewhere(client.clone(), message) });
        arriving.push(asked.boxed());
    }
    Ok(arriving)
}

impl Asked {
    fn message(&self) -> &Message {
        match &self.via {
            Via::Endpoint(request) => &request.message,
            Via::Elsewhere(_, message) => message,
        }
    }

    /// Whether there is somebody to answer. Nothing is done for a request that cannot be told what
    /// became of it.
    fn may_be_answered(&self) -> bool {
        let message = self.message();
        let reply = message.reply.as_deref();
        let may = reply.is_some_and(|reply| INBOXES.iter().any(|inbox| reply.starts_with(inbox)));
        if !may {
            tracing::warn!(
                subject = sanitised(&message.subject),
                reply = reply.map(sanitised),
                "a request of an operator names no inbox for its reply: nothing was done"
            );
        }
        may
    }

    async fn respond(&self, reply: Result<Vec<u8>, ControlError>) {
        let mut headers = HeaderMap::new();
        let reply = match reply {
            Ok(body) => Ok(body.into()),
            Err(error) => {
                // Made of ASCII, so it is a value of a header.
                if let Ok(value) = error.header().parse::<HeaderValue>() {
                    headers.insert(ERROR_HEADER, value);
                }
                Err(ServiceError { status: ascii(&error.to_string()), code: error.code.number() })
            }
        };
        let sent = match (&self.via, reply) {
            (Via::Endpoint(request), reply) => request.respond_with_headers(reply, headers).await,
            (Via::Elsewhere(client, message), Err(ServiceError { status, code })) => {
                let Some(inbox) = message.reply.clone() else { return };
                headers.insert(NATS_SERVICE_ERROR, status.as_str());
                headers.insert(NATS_SERVICE_ERROR_CODE, code.to_string().as_str());
                client.publish_with_headers(inbox, headers, "".into()).await
            }
            (Via::Elsewhere(..), Ok(_)) => return,
        };
        if let Err(error) = sent {
            tracing::warn!(error = one_line(&error), "a request of an operator was not answered");
        }
    }
}

/// Text for a header, which a person reads.
fn ascii(text: &str) -> String {
    sanitised(text).chars().map(|c| if c.is_ascii() { c } else { '?' }).collect()
}
