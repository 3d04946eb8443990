//! A NATS service: discovery, and a bounded number of requests in work. What answers operators and what
//! answers runners are one each.

use std::collections::HashMap;
use std::time::Duration;

use async_nats::Client;
use async_nats::service::{Service, ServiceExt as _};
use futures_util::stream::{self, BoxStream, SelectAll};
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::task::JoinSet;

use super::asked::{Asked, note};
use super::error::{ControlError, ErrorCode};
use super::worker::host;
use crate::broker::{Broker, Link};
use crate::error_text::sanitised;
use crate::shutdown::Shutdown;

/// The queue group of requests for any one worker: the protocol's own.
pub(crate) const ANY_WORKER: &str = "q";
/// The queue group of subjects that mean nothing. It is not [`ANY_WORKER`]: a server takes one member
/// of a group for a message, whichever of their subjects it matched.
const BESIDE: &str = "beside";
/// How long what is in work may still take once the worker is to end.
const END_MAX: Duration = Duration::from_secs(2);

/// What is asked on all the subjects of a service.
pub(crate) type Arriving<V> = SelectAll<BoxStream<'static, Asked<V>>>;

/// Makes a service known, without endpoints yet.
pub(crate) async fn start(
    broker: &Broker,
    name: &str,
    description: &str,
) -> Result<Service, async_nats::Error> {
    let metadata = HashMap::from([
        ("host".to_owned(), host()),
        ("process".to_owned(), std::process::id().to_string()),
    ]);
    let service = broker.client.service_builder().description(description).metadata(metadata);
    service.start(name, env!("CARGO_PKG_VERSION")).await
}

/// One endpoint, and which documents it speaks: `docs/schemas/<documents>-request.json` and the reply.
pub(crate) struct Endpoint<'a> {
    pub(crate) name: String,
    pub(crate) subject: String,
    pub(crate) group: &'a str,
    pub(crate) documents: String,
}

/// Listens on an endpoint.
pub(crate) async fn listen<V: Copy + Send + 'static>(
    arriving: &mut Arriving<V>,
    service: &Service,
    verb: V,
    of: Endpoint<'_>,
) -> Result<(), async_nats::Error> {
    let metadata = HashMap::from([
        ("request_schema".to_owned(), format!("{}-request.json", of.documents)),
        ("reply_schema".to_owned(), format!("{}-reply.json", of.documents)),
    ]);
    let endpoint = service.endpoint_builder().name(of.name).queue_group(of.group);
    let endpoint = endpoint.metadata(metadata).add(of.subject).await?;
    arriving.push(endpoint.map(move |request| Asked::of_endpoint(verb, request)).boxed());
    Ok(())
}

/// Listens on a subject with wildcards beside the endpoints, so that one that means nothing is answered
/// and not waited for.
pub(crate) async fn listen_beside<V: Send + 'static>(
    arriving: &mut Arriving<V>,
    client: &Client,
    subject: String,
    means_something: fn(&str) -> bool,
) -> Result<(), async_nats::Error> {
    let messages = client.queue_subscribe(subject, BESIDE.to_owned()).await?;
    let client = client.clone();
    let asked = messages
        .filter(move |message| std::future::ready(!means_something(&message.subject)))
        .map(move |message| Asked::elsewhere(client.clone(), message));
    arriving.push(asked.boxed());
    Ok(())
}

/// Nothing yet is listened on.
pub(crate) fn nothing<V>() -> Arriving<V> {
    stream::select_all([])
}

/// The answer on a subject that means nothing.
pub(crate) fn unknown<const N: usize>(subject: &str, verbs: [&str; N]) -> ControlError {
    let verbs = verbs.join(", ");
    let message = format!("there is no {}; there are {verbs}", sanitised(subject));
    ControlError::new(ErrorCode::UnknownVerb, message)
}

/// How requests are taken in.
pub(crate) struct Manner<V> {
    /// Who asks, for the log.
    pub(crate) who: &'static str,
    /// Most in work at once; the next one is answered `busy`.
    pub(crate) requests_max: usize,
    /// Those that something else bounds.
    pub(crate) is_bounded_elsewhere: fn(&V) -> bool,
}

/// Answers until the worker is to end.
pub(crate) async fn serve<V: Send + 'static, F: Future<Output = ()> + Send + 'static>(
    service: Service,
    mut arriving: Arriving<V>,
    manner: Manner<V>,
    answer: impl Fn(Asked<V>) -> F,
    broker: &Broker,
    shutdown: &Shutdown,
) -> Result<(), async_nats::Error> {
    let (mut work, mut beside) = (JoinSet::new(), JoinSet::new());
    loop {
        let request = tokio::select! {
            asked = arriving.next() => match asked {
                Some(asked) => asked,
                None => break,
            },
            Some(done) = work.join_next() => {
                note(done);
                continue;
            }
            Some(done) = beside.join_next() => {
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
        if request.verb.as_ref().is_some_and(manner.is_bounded_elsewhere) {
            beside.spawn(answer(request));
        } else if work.len() < manner.requests_max {
            work.spawn(answer(request));
        } else {
            let message = format!("{} requests are in work; ask again", manner.requests_max);
            request.respond(Err(ControlError::new(ErrorCode::Busy, message))).await;
        }
    }
    drop(arriving);
    let stopped = service.stop().await;
    let all = async {
        while let Some(done) = work.join_next().await {
            note(done);
        }
        while let Some(done) = beside.join_next().await {
            note(done);
        }
    };
    if tokio::time::timeout(END_MAX, all).await.is_err() {
        let requests = work.len() + beside.len();
        tracing::warn!(requests, "requests of {} end unanswered", manner.who);
    }
    if *broker.link.borrow() == Link::Up {
        // What was answered is to be sent, too.
        let _ = tokio::time::timeout(END_MAX, broker.client.flush()).await;
    }
    stopped
}
