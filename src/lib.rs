//! wakegate turns wake events on NATS JetStream into runs.
//!
//! Every wake becomes one run, joins one, or is refused with a reason. Nothing is dropped silently
//! and nothing runs twice. The modules in reading order:
//!
//! - [`wake`]: identifiers, the wake, decoding (pure)
//! - [`admission`]: the gates and the engine (pure)
//! - [`outcome`]: the record of what became of an event (pure)
//! - [`store`]: what is durable; one implementation a dialect
//! - [`audit`]: what operators subscribe to
//! - [`intake`]: deliveries and their acknowledgement
//! - [`lane`]: one lane's loop, from deliveries to acknowledgements
//! - [`traces`]: the spans of a batch, and exporting them
//! - [`explain`]: what would become of an event, told by the gates themselves
//! - [`redrive`]: refused and rejected wakes, published again
//! - [`topology`]: the streams and consumers that `streams/*.json` declares
//! - [`broker`]: the connection to NATS
//! - [`worker`]: every lane, from start to shutdown
//! - [`control`]: what operators ask and do, beside the lanes
//! - [`schemas`]: events and outcomes as JSON Schema
//! - [`queue`]: the other half: runners that claim, what is overdue, what becomes of runs
//! - [`cli`]: the command; [`config`], [`telemetry`], [`metrics`], [`health`], [`http`],
//!   [`shutdown`], [`clock`] and [`error_text`] are what every process needs

pub mod admission;
pub mod audit;
pub mod broker;
pub mod cli;
pub mod clock;
pub mod config;
pub mod control;
pub mod error_text;
pub mod explain;
pub mod health;
pub mod http;
pub mod intake;
pub mod lane;
pub mod metrics;
pub mod outcome;
pub mod queue;
pub mod redrive;
pub mod schemas;
pub mod shutdown;
pub mod store;
pub mod telemetry;
pub mod topology;
pub mod traces;
pub mod wake;
pub mod worker;
