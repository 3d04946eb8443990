//! Asks as an operator's program would.

use async_nats::{Client, Message, RequestErrorKind};
use serde_json::Value;
use wakegate::control::Verb;

use crate::harness::schema::hold;
use crate::harness::until_some;

/// What a request was refused with.
#[derive(Debug, Clone, PartialEq)]
pub struct Refused {
    /// `Nats-Service-Error-Code`.
    pub number: String,
    /// `Nats-Service-Error`.
    pub text: String,
    /// `Wakegate-Error`.
    pub error: Value,
}

impl Refused {
    pub fn code(&self) -> &str {
        self.error["code"].as_str().expect("an error has a code")
    }
}

/// What a message answers.
pub fn answer(message: &Message) -> Result<Value, Refused> {
    let header = |name: &str| {
        let value = message.headers.as_ref().and_then(|headers| headers.get(name));
        value.map(|value| value.as_str().to_owned())
    };
    let Some(number) = header("Nats-Service-Error-Code") else {
        return Ok(serde_json::from_slice(&message.payload).expect("a reply is JSON"));
    };
    assert!(message.payload.is_empty(), "an error is in the headers: {message:?}");
    Err(Refused {
        number,
        text: header("Nats-Service-Error").expect("tools show a text"),
        error: serde_json::from_str(&header("Wakegate-Error").expect("programs read this"))
            .expect("it is JSON"),
    })
}

/// The name of a verb, also of one that is asked of one worker.
fn named(verb: &str) -> String {
    let found = Verb::ALL.into_iter().find(|known| {
        let rest = verb.strip_prefix(known.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    });
    found.expect("a verb is answered").name()
}

/// Asks with bytes. Whatever is answered is held against its schema.
pub async fn ask_bytes(client: &Client, verb: &str, body: Vec<u8>) -> Result<Value, Refused> {
    let subject = format!("wakegate.control.{verb}");
    let message = client.request(subject, body.into()).await;
    let answered = answer(&message.unwrap_or_else(|error| panic!("{verb}: {error}")));
    let name = match &answered {
        Ok(_) => format!("control-{}-reply", named(verb)),
        Err(_) => "control-error".to_owned(),
    };
    let said = answered.as_ref().unwrap_or_else(|refused| &refused.error);
    hold(&name, said);
    answered
}

/// Asks.
pub async fn ask(client: &Client, verb: &str, body: Value) -> Result<Value, Refused> {
    ask_bytes(client, verb, body.to_string().into_bytes()).await
}

/// Waits until somebody answers.
pub async fn until_answering(client: &Client) {
    let looks = async || match client.request("wakegate.control.health", "".into()).await {
        Ok(_) => Some(()),
        Err(error) if error.kind() == RequestErrorKind::NoResponders => None,
        Err(error) => panic!("{error}"),
    };
    until_some(looks, || "nobody ever answered operators".to_owned()).await;
}
