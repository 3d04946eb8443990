//! The other half of the queue: runners that claim runs, what is overdue, and what is told of runs.
//!
//! Which run is next and how many may be under way is the store's business
//! ([`crate::store::queue`]). Here is what asks it, over NATS and now and then. In reading order:
//!
//! - [`documents`]: every request and reply, of which `docs/schemas` is made
//! - [`verbs`]: the list of all of it
//! - [`cancel`]: what keeps a run from running, for the service and for a command
//! - [`answers`]: one request → one reply
//! - [`mod@line`]: who waits for work, in the order of their coming (pure)
//! - [`desk`]: where claims wait, and are served several at a time
//! - [`work`], [`signal`]: that there is work, told within a worker and to the others
//! - [`keepers`]: leases, waiting times and cancellations that are over
//! - [`events`]: what became of runs, published
//! - [`service`]: the NATS service
//!
//! Architecture Invariant: nothing here imports `crate::lane`, and of it only `work` is known there.
//! The queue has a connection to NATS and a pool of connections to the database of its own, so that
//! runners are answered while the lanes' are all stuck.

pub mod answers;
pub mod cancel;
pub mod desk;
pub mod documents;
pub mod events;
pub mod keepers;
pub mod line;
pub mod service;
pub mod signal;
pub mod verbs;
pub mod work;

pub use self::answers::Runs;
pub use self::verbs::Verb;
