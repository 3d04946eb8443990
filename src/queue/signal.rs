//! That there is work, told to the other replicas: a message on core NATS that may be lost, late or
//! doubled, and then costs a look at the queue too few or too many.

use async_nats::Client;
use bytes::Bytes;
use futures_util::StreamExt as _;

use super::desk::Signals;
use crate::error_text::one_line;
use crate::shutdown::Shutdown;

/// Where it is told.
pub const SUBJECT: &str = "run-work";

/// Tells the others what is announced here, and here what the others announce, until the end.
///
/// # Errors
/// The client was closed.
pub async fn exchange(
    client: Client,
    signals: Signals,
    shutdown: Shutdown,
) -> Result<(), async_nats::Error> {
    let me = Bytes::from(client.new_inbox());
    let mut heard = client.subscribe(SUBJECT).await?;
    let mut here = signals.here.listen();
    loop {
        tokio::select! {
            biased;
            () = shutdown.requested() => return Ok(()),
            Ok(()) = here.changed() => {
                // What is announced while this is on its way is one signal more.
                if let Err(error) = client.publish(SUBJECT, me.clone()).await {
                    tracing::debug!(error = one_line(&error), "other replicas hear of no work");
                }
            }
            message = heard.next() => match message {
                Some(message) if message.payload == me => {}
                Some(_) => signals.elsewhere.announce(),
                None => return Ok(()),
            },
        }
    }
}
