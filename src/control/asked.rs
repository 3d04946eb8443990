//! A request that has arrived, and how it is answered: by the protocol of NATS services, with a typed
//! error in a header. What answers operators and what answers runners share it.

use async_nats::service::error::Error as ServiceError;
use async_nats::service::{NATS_SERVICE_ERROR, NATS_SERVICE_ERROR_CODE, Request};
use async_nats::{Client, HeaderMap, HeaderValue, Message};

use super::error::ControlError;
use crate::error_text::{one_line, sanitised};

/// The header with a [`ControlError`] in it, as JSON.
pub const ERROR_HEADER: &str = "Wakegate-Error";
/// Where replies may go: inboxes, and what a server makes of an inbox of another account. Whoever may
/// ask must not borrow this connection's permissions to publish elsewhere.
const INBOXES: [&str; 2] = ["_INBOX", "_R_."];

/// A request, and how it is answered.
pub(crate) struct Asked<V> {
    /// None of a subject that means nothing.
    pub(crate) verb: Option<V>,
    via: Via,
}

enum Via {
    Endpoint(Request),
    /// Beside the service: tools are not to see it as one of its endpoints.
    Elsewhere(Client, Message),
}

impl<V> Asked<V> {
    /// Of an endpoint.
    pub(crate) fn of_endpoint(verb: V, request: Request) -> Self {
        Self { verb: Some(verb), via: Via::Endpoint(request) }
    }

    /// On a subject that means nothing.
    pub(crate) fn elsewhere(client: Client, message: Message) -> Self {
        Self { verb: None, via: Via::Elsewhere(client, message) }
    }

    pub(crate) fn message(&self) -> &Message {
        match &self.via {
            Via::Endpoint(request) => &request.message,
            Via::Elsewhere(_, message) => message,
        }
    }

    /// Whether there is somebody to answer. Nothing is done for a request that cannot be told what
    /// became of it.
    pub(crate) fn may_be_answered(&self) -> bool {
        let message = self.message();
        let reply = message.reply.as_deref();
        let may = reply.is_some_and(|reply| INBOXES.iter().any(|inbox| reply.starts_with(inbox)));
        if !may {
            tracing::warn!(
                subject = sanitised(&message.subject),
                reply = reply.map(sanitised),
                "a request names no inbox for its reply: nothing was done"
            );
        }
        may
    }

    pub(crate) async fn respond(&self, reply: Result<Vec<u8>, ControlError>) {
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
            tracing::warn!(error = one_line(&error), "a request was not answered");
        }
    }
}

/// Notes a request that ended by a panic.
pub(crate) fn note(done: Result<(), tokio::task::JoinError>) {
    if let Err(error) = done {
        tracing::error!(error = one_line(&error), "a request ended by a panic");
    }
}

/// Text for a header, which a person reads.
fn ascii(text: &str) -> String {
    sanitised(text).chars().map(|c| if c.is_ascii() { c } else { '?' }).collect()
}
