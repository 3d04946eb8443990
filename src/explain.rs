//! Why: what would become of an event, told by the very gates that decide.
//!
//! The event is decoded by the worker's decoder, the facts are read by the worker's reader, and the
//! answer is the engine's. Nothing is written: no lane is asked for its cursor, for asking makes one.

pub mod event;
pub mod history;
pub mod json;
pub mod walk;
pub mod words;

use std::sync::Arc;

pub use self::event::message;
pub use self::walk::{Conclusion, GateLine, Walk, walk};
use crate::admission::Shadows;
use crate::admission::limits::{Ceilings, Dimension};
use crate::lane::facts::{Asking, load};
use crate::store::{LaneCursor, Store};
use crate::wake::decode::{
    BODY_BYTES_MAX, Content, Envelope, Message, NoWake, RejectReason, Rejection, decode_within,
};
use crate::wake::{UtcMicros, Wake};

/// What would become of an event at an instant.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// The instant at which it would be requested.
    pub at: UtcMicros,
    /// What holds for the event whatever its body says.
    pub envelope: Envelope,
    /// What its body says, and what follows.
    pub told: Told,
}

/// What follows from what an event says.
#[derive(Debug, Clone)]
pub enum Told {
    /// A wake, and its way through the gates.
    Wake {
        /// The wake.
        wake: Arc<Wake>,
        /// The gates, in order, and their answer.
        walk: Walk,
    },
    /// It wakes nobody; no gate is asked.
    NoWake(NoWake),
    /// It is at fault; no gate is asked.
    Rejected(Rejection),
}

impl Explanation {
    /// Whether there is an answer: where a gate cannot read what it needs, the worker would wait.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        !matches!(&self.told, Told::Wake { walk, .. } if walk.answer.is_err())
    }
}

/// Tells what would become of a message that is not on the stream yet ([`message`] makes one), if
/// the stream stored it at its instant, by a worker whose gates in shadow are these.
///
/// A read that fails is told as what the gate makes of it; nothing is retried beyond what the worker
/// retries itself.
pub async fn explain<S: Store>(
    store: &S,
    message: &Message,
    shadows: Shadows,
    ceilings: Option<Ceilings>,
) -> Explanation {
    let bytes_max = ceilings.map_or(BODY_BYTES_MAX, |of| of.of(Dimension::EventBytes) as usize);
    let event = decode_within(message, message.requested_at, bytes_max);
    let told = match event.content {
        Content::NoWake(no_wake) => Told::NoWake(no_wake),
        Content::Rejected(rejection) => Told::Rejected(rejection),
        Content::Wake(wake) => {
            let asking = Asking { doubtful: false, ceilings, told: true };
            // Nothing was decided of a message that does not exist, and any cursor is before it.
            let loaded = load(store, LaneCursor::default(), &[&*wake], asking).await;
            match loaded.data_fault {
                Some(fault) => Told::Rejected(Rejection {
                    reason: RejectReason::Unstorable,
                    fault,
                    body: message.body.clone(),
                }),
                None => Told::Wake { walk: walk(&loaded.facts, &wake, shadows), wake },
            }
        }
    };
    Explanation { at: event.envelope.requested_at, envelope: event.envelope, told }
}
