//! What operators ask and do: pauses, agents, counts, health, configuration.
//!
//! Each is a plain function over the traits of [`crate::store::control`], for the commands, which ask
//! the database themselves, and for [`service`], which answers over NATS. In reading order:
//!
//! - [`documents`]: every request and reply, of which `docs/schemas` is made
//! - [`body`]: a request's bytes → its document, or what is wrong with them
//! - [`error`]: what is refused, with a stable code
//! - [`pauses`], [`agents`], [`limits`], [`counts`], [`worker`]: what is done
//! - [`verbs`]: the list of all of it, and who answers what
//! - [`answers`]: one request → one reply
//! - `asked`: a request over NATS and how it is answered
//! - `serving`: a NATS service, of which there are two: that for operators, [`service`], and that for
//!   runners in [`crate::queue`]
//!
//! Architecture Invariant: nothing here imports `crate::lane`. Control has a connection to NATS, a
//! pool of connections to the database and a queue of its own, so that it answers while the lanes'
//! are all stuck.

pub mod agents;
pub mod answers;
pub(crate) mod asked;
pub mod body;
pub mod counts;
pub mod documents;
pub mod error;
pub mod limits;
mod pages;
pub mod pauses;
pub mod service;
pub(crate) mod serving;
pub mod verbs;
pub mod worker;

pub use self::answers::Control;
pub use self::asked::ERROR_HEADER;
pub use self::error::{ControlError, ErrorCode};
pub use self::verbs::Verb;
