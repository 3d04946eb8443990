//! The NATS service for operators.
//!
//! It speaks the protocol of NATS services (ADR-32), so `nats micro` finds it. Requests about the
//! database go to any one worker, by the protocol's queue group; those about a worker go to each of
//! them, or to one by its id (docs/decisions/0036-control.md).
//!
//! A request that cannot be taken in is answered at once, `busy`: nothing waits in a line here.

use async_nats::Client;
use async_nats::service::Service;

use super::answers::Control;
use super::asked::Asked;
use super::serving;
use super::serving::{ANY_WORKER, Arriving, Endpoint, Manner, listen, listen_beside};
use super::verbs::{Answers, SUBJECTS, Verb};
use crate::broker::Broker;
use crate::shutdown::Shutdown;
use crate::store::control::ControlStore;

/// What the service is called.
pub const SERVICE: &str = "wakegate";
const DESCRIPTION: &str = "Operators: pause, resume, agents, limits, counts, health, configuration";

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
    let service = serving::start(broker, SERVICE, DESCRIPTION).await?;
    let id = service.info().await.id;
    let arriving = arriving(&service, &broker.client, &id).await?;
    tracing::info!(worker = id, subjects = SUBJECTS, "answering operators");
    let manner = Manner { who: "operators", requests_max, is_bounded_elsewhere: |_| false };
    let answer = |asked| answer(control.clone(), id.clone(), asked);
    serving::serve(service, arriving, manner, answer, broker, shutdown).await
}

async fn answer<S: ControlStore>(control: Control<S>, id: String, asked: Asked<Verb>) {
    let reply = match asked.verb {
        Some(verb) => control.answer(&id, verb, &asked.message().payload).await,
        None => Err(serving::unknown(&asked.message().subject, Verb::ALL.map(Verb::as_str))),
    };
    asked.respond(reply).await;
}

async fn arriving(
    service: &Service,
    client: &Client,
    id: &str,
) -> Result<Arriving<Verb>, async_nats::Error> {
    let mut arriving = serving::nothing();
    for verb in Verb::ALL {
        let own = (format!("{}-of-this-worker", verb.name()), format!("{}.{id}", verb.subject()));
        let shared = (verb.name(), verb.subject());
        let (group, subjects) = match verb.answers() {
            Answers::AnyWorker => (ANY_WORKER, vec![shared]),
            // A queue group of one is none: every worker gets every request.
            Answers::EachWorker => (id, vec![shared, own]),
        };
        for (name, subject) in subjects {
            let documents = format!("control-{}", verb.name());
            let endpoint = Endpoint { name, subject, group, documents };
            listen(&mut arriving, service, verb, endpoint).await?;
        }
    }
    for beside in ["*", "agent.*", "limits.*"] {
        let means_something = |subject: &str| Verb::of_subject(subject).is_some();
        let subject = format!("{SUBJECTS}.{beside}");
        listen_beside(&mut arriving, client, subject, means_something).await?;
    }
    Ok(arriving)
}
