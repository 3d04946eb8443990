//! The NATS service: discovery, requests, and a bounded number of them in work.
//!
//! It speaks the protocol of NATS services (ADR-32), so `nats micro` finds it. Requests about the
//! database go to any one worker, by the protocol's queue group; those about a worker go to each of
//! them, or to one by its id (docs/decisions/0036-control.md).
//!
//! A request that cannot be taken in is answered at once, `busy`: nothing waits in a line here.

use std::collections::HashMap;
use std::time::Duration;

use async_nats::Client;
use async_nats::service::{Service, ServiceExt as _};
use futures_util::stream::{self, BoxStream, SelectAll};
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::task::JoinSet;

use super::answers::Control;
use super::asked::{Asked, note};
use super::error::{ControlError, ErrorCode};
use super::verbs::{Answers, SUBJECTS, Verb};
use super::worker::host;
use crate::broker::{Broker, Link};
use crate::error_text::sanitised;
use crate::shutdown::Shutdown;
use crate::store::control::ControlStore;

/// What the service is called.
pub const SERVICE: &str = "wakegate";
const DESCRIPTION: &str = "Operators: pause, resume, agents, limits, counts, health, configuration";
/// The queue group of requests for any one worker: the protocol's own.
const ANY_WORKER: &str = "q";
/// The queue group of subjects that mean nothing. It is not [`ANY_WORKER`]: a server takes one member
/// of a group for a message, whichever of their subjects it matched.
const BESIDE: &str = "beside";
/// How long what is in work may still take once the worker is to end.
const END_MAX: Duration = Duration::from_secs(2);

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

async fn answer<S: ControlStore>(control: Control<S>, id: String, asked: Asked<Verb>) {
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

type Arriving = SelectAll<BoxStream<'static, Asked<Verb>>>;

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
            let asked = move |request| Asked::of_endpoint(verb, request);
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
            .map(move |message| Asked::elsewhere(client.clone(), message));
        arriving.push(asked.boxed());
    }
    Ok(arriving)
}
