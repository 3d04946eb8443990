//! wakegate turns wake events on NATS JetStream into runs.
//!
//! Every wake becomes one run, joins one, or is refused with a reason. Nothing is dropped silently
//! and nothing runs twice. The modules in reading order:
//!
//! - [`wake`]: identifiers, the wake, decoding (pure)
//! - [`admission`]: the gates and the engine (pure)
//! - [`store`]: what is durable; one implementation a dialect
//! - [`topology`]: the streams and consumers that `streams/*.json` declares
//! - [`broker`]: the connection to NATS
//! - [`audit`]: what operators subscribe to

pub mod admission;
pub mod audit;
pub mod broker;
pub mod clock;
pub mod outcome;
pub mod store;
pub mod topology;
pub mod wake;
