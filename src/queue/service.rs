//! The NATS service for runners: discovery, requests, a bounded number of them in work, and a bounded
//! number of claims that wait.
//!
//! As the service for operators ([`crate::control::service`]), and beside it: a name, a connection
//! and a bound of its own.

use std::collections::HashMap;
use std::time::Duration;

use async_nats::Client;
use async_nats::service::{Service, ServiceExt as _};
use futures_util::stream::{self, BoxStream, SelectAll};
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::task::JoinSet;

use super::answers::Runs;
use super::verbs::{SUBJECTS, Verb};
use crate::broker::{Broker, Link};
use crate::control::asked::{Asked, note};
use crate::control::worker::host;
use crate::control::{ControlError, ErrorCode};
use crate::error_text::sanitised;
use crate::shutdown::Shutdown;
use crate::store::runners::RunnerStore;

/// What the service is called.
pub const SERVICE: &str = "wakegate-runs";
const DESCRIPTION: &str = "Runners: claim, start, heartbeat, finish; withdraw and cancel";
/// The queue group of requests: the protocol's own.
const ANY_WORKER: &str = "q";
/// The queue group of subjects that mean nothing. It is not [`ANY_WORKER`]: a server takes one member
/// of a group for a message, whichever of their subjects it matched.
const BESIDE: &str = "beside";
/// How long what is in work may still take once the worker is to end.
const END_MAX: Duration = Duration::from_secs(2);

type Arriving = SelectAll<BoxStream<'static, Asked<Verb>>>;

/// Answers until the worker is to end.
///
/// # Errors
/// The client was closed, or does not take the service.
pub async fn serve<S: RunnerStore>(
    runs: Runs<S>,
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
    let mut asked = endpoints(&service).await?;
    asked.extend(forged(&broker.client).await?);
    tracing::info!(subjects = SUBJECTS, "answering runners");

    // Claims wait at the desk, which lets in no more than it has room for.
    let (mut work, mut claims) = (JoinSet::new(), JoinSet::new());
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
            Some(done) = claims.join_next() => {
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
        if request.verb == Some(Verb::Claim) {
            claims.spawn(answer(runs.clone(), request));
        } else if work.len() < requests_max {
            work.spawn(answer(runs.clone(), request));
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
        while let Some(done) = claims.join_next().await {
            note(done);
        }
    };
    if tokio::time::timeout(END_MAX, all).await.is_err() {
        let requests = work.len() + claims.len();
        tracing::warn!(requests, "requests of runners end unanswered");
    }
    if *broker.link.borrow() == Link::Up {
        // What was answered is to be sent, too.
        let _ = tokio::time::timeout(END_MAX, broker.client.flush()).await;
    }
    stopped
}

async fn answer<S: RunnerStore>(runs: Runs<S>, asked: Asked<Verb>) {
    let subject = &asked.message().subject;
    let reply = match Verb::of_subject(subject) {
        Some((verb, organization)) => {
            runs.answer(verb, organization, &asked.message().payload).await
        }
        None => Err(unknown(subject)),
    };
    asked.respond(reply).await;
}

fn unknown(subject: &str) -> ControlError {
    let verbs = Verb::ALL.map(Verb::as_str).join(", ");
    let message = format!("there is no {}; there are {verbs}", sanitised(subject));
    ControlError::new(ErrorCode::UnknownVerb, message)
}

async fn endpoints(service: &Service) -> Result<Arriving, async_nats::Error> {
    let mut arriving: Arriving = stream::select_all([]);
    for verb in Verb::ALL {
        let mut subjects = vec![(verb.as_str().to_owned(), verb.subject())];
        if verb.may_be_of_an_organization() {
            let name = format!("{}-of-an-organization", verb.as_str());
            subjects.push((name, format!("{}.*", verb.subject())));
        }
        for (name, subject) in subjects {
            let metadata = HashMap::from([
                ("request_schema".to_owned(), format!("runs-{}-request.json", verb.as_str())),
                ("reply_schema".to_owned(), format!("runs-{}-reply.json", verb.as_str())),
            ]);
            let endpoint = service.endpoint_builder().name(name).queue_group(ANY_WORKER);
            let endpoint = endpoint.metadata(metadata).add(subject).await?;
            arriving.push(endpoint.map(move |request| Asked::of_endpoint(verb, request)).boxed());
        }
    }
    Ok(arriving)
}

/// Subjects beside those of the verbs, so that a wrong one is answered and not waited for.
async fn forged(client: &Client) -> Result<Arriving, async_nats::Error> {
    let mut arriving: Arriving = stream::select_all([]);
    for beside in ["*", "*.*"] {
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
