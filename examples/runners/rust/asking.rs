//! One request to wakegate, repeated until it is answered: each is safe to repeat.

use std::fmt;
use std::time::Duration;

use async_nats::{Client, Message, Request, RequestErrorKind};
use serde_json::Value;

use super::Fault;

/// Longer than a claim waits: an answer that is late is lost.
const ANSWER_WITHIN: Duration = Duration::from_mins(1);
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// What a request was refused with: `code` is for programs, and keeps its meaning.
#[derive(Debug)]
pub(crate) struct Refused(Value);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl std::error::Error for Refused {}

/// Whether it is this that a request was refused with.
pub(crate) fn refused(fault: &Fault, code: &str) -> bool {
    fault.downcast_ref::<Refused>().is_some_and(|refused| refused.0["code"] == code)
}

/// Asks until there is an answer that is not to be asked for again.
pub(crate) async fn ask(client: &Client, verb: &str, body: &Value) -> Result<Value, Fault> {
    loop {
        let request = Request::new().payload(body.to_string().into()).timeout(Some(ANSWER_WITHIN));
        match client.send_request(format!("wakegate.runs.{verb}"), request).await {
            Ok(message) => match read(&message)? {
                Err(refused) if refused.0["code"] == "busy" => {}
                Err(refused) if refused.0["code"] == "unavailable" => {}
                Err(refused) => return Err(refused.into()),
                Ok(answer) => return Ok(answer),
            },
            // Lost on its way, or no worker is there just now.
            Err(error) if error.kind() == RequestErrorKind::TimedOut => {}
            Err(error) if error.kind() == RequestErrorKind::NoResponders => {}
            Err(error) => return Err(error.into()),
        }
        tokio::time::sleep(ASK_AGAIN).await;
    }
}

/// An error has no body, and says what it is in a header.
fn read(message: &Message) -> Result<Result<Value, Refused>, Fault> {
    let headers = message.headers.as_ref();
    match headers.and_then(|headers| headers.get("Wakegate-Error")) {
        Some(error) => Ok(Err(Refused(serde_json::from_str(error.as_str())?))),
        None => Ok(Ok(serde_json::from_slice(&message.payload)?)),
    }
}
