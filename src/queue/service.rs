//! The NATS service for runners: a bounded number of requests in work, and of claims that wait.
//!
//! As the service for operators ([`crate::control::service`]), and beside it: a name, a connection
//! and a bound of its own.

use async_nats::Client;
use async_nats::service::Service;

use super::answers::Runs;
use super::verbs::{SUBJECTS, Verb};
use crate::broker::Broker;
use crate::control::asked::Asked;
use crate::control::serving::{
    self, ANY_WORKER, Arriving, Endpoint, Manner, listen, listen_beside,
};
use crate::shutdown::Shutdown;
use crate::store::runners::RunnerStore;

/// What the service is called.
pub const SERVICE: &str = "wakegate-runs";
const DESCRIPTION: &str = "Runners: claim, start, heartbeat, finish; withdraw and cancel";

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
    let service = serving::start(broker, SERVICE, DESCRIPTION).await?;
    let arriving = arriving(&service, &broker.client).await?;
    tracing::info!(subjects = SUBJECTS, "answering runners");
    // Claims wait at the desk, which lets in no more than it has room for.
    let is_bounded_elsewhere = |verb: &Verb| *verb == Verb::Claim;
    let manner = Manner { who: "runners", requests_max, is_bounded_elsewhere };
    let answer = |asked| answer(runs.clone(), asked);
    serving::serve(service, arriving, manner, answer, broker, shutdown).await
}

async fn answer<S: RunnerStore>(runs: Runs<S>, asked: Asked<Verb>) {
    let subject = &asked.message().subject;
    let reply = match Verb::of_subject(subject) {
        Some((verb, organization)) => {
            runs.answer(verb, organization, &asked.message().payload).await
        }
        None => Err(serving::unknown(subject, Verb::ALL.map(Verb::as_str))),
    };
    asked.respond(reply).await;
}

async fn arriving(service: &Service, client: &Client) -> Result<Arriving<Verb>, async_nats::Error> {
    let mut arriving = serving::nothing();
    for verb in Verb::ALL {
        let mut subjects = vec![(verb.as_str().to_owned(), verb.subject())];
        if verb.may_be_of_an_organization() {
            let name = format!("{}-of-an-organization", verb.as_str());
            subjects.push((name, format!("{}.*", verb.subject())));
        }
        for (name, subject) in subjects {
            let documents = format!("runs-{}", verb.as_str());
            let endpoint = Endpoint { name, subject, group: ANY_WORKER, documents };
            listen(&mut arriving, service, verb, endpoint).await?;
        }
    }
    for beside in ["*", "*.*"] {
        let means_something = |subject: &str| Verb::of_subject(subject).is_some();
        let subject = format!("{SUBJECTS}.{beside}");
        listen_beside(&mut arriving, client, subject, means_something).await?;
    }
    Ok(arriving)
}
