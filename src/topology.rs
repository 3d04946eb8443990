//! The streams and consumers that wakegate needs, as `streams/*.json` declares them.
//!
//! The files are compiled in; a directory may replace them one by one. They are the JetStream API's
//! own JSON: what a file says is what the server is sent. [`Topology::apply`] makes the server match,
//! [`Topology::check`] lists what differs, and [`Topology::verify`] is what a worker asks before it
//! starts: it refuses where a difference would change what it does, and lets an operator's choices
//! pass (description, metadata, placement, compression, replicas, `max_bytes`, and limits that are
//! more generous than declared).

pub(crate) mod api;
mod apply;
mod compare;
mod declared;
mod retention;
mod rewind;
mod waiting;

use std::path::PathBuf;
use std::sync::Arc;

use async_nats::jetstream::Context;

pub use self::apply::{Change, Report};
pub use self::compare::{Difference, Effect, FieldDifference, How, Object, render};
pub use self::declared::Topology;
pub use self::retention::Retention;
pub use self::rewind::{Rewind, Standing};
use crate::wake::UtcMicros;

/// The intake stream.
pub const WAKES: &str = "WAKES";
/// The audit stream.
pub const WAKE_AUDIT: &str = "WAKE_AUDIT";
/// What becomes of runs.
pub const RUN_EVENTS: &str = "RUN_EVENTS";
/// The one priority group of a lane's consumer; every pull and every unpin names it.
pub const LANE_GROUP: &str = "lane";
/// Most partitions: each is a consumer, a pull and a database connection's worth of work.
pub const PARTITIONS_MAX: u32 = 256;

/// The durable name of a lane's consumer.
#[must_use]
pub fn lane_consumer(lane: u32) -> String {
    format!("lane-{lane}")
}

/// What a worker learns from a server that is as declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamFacts {
    /// Name of the intake stream.
    pub stream: Arc<str>,
    /// When it was created; part of a lane's key.
    pub created: UtcMicros,
    /// Number of lanes.
    pub partitions: u32,
}

/// Why the server cannot be used or changed.
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    /// A declaration is malformed: correct the file.
    #[error("{}: {fault}", .file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What is wrong with it, and where.
        fault: String,
    },
    /// Retry: the connection is down.
    #[error("not connected to NATS")]
    NotConnected,
    /// Retry, and look at the permissions: the server does not answer what a user may not ask.
    #[error(
        "no answer to $JS.API.{request}: the server is too slow, or this user may not publish there"
    )]
    NoAnswer {
        /// The request without the API's prefix.
        request: String,
    },
    /// Configure the server.
    #[error(
        "this NATS server or account has no JetStream: enable it (`jetstream {{}}` in the server's \
         configuration)"
    )]
    NoJetStream,
    /// The server declined a request.
    #[error("the server refuses $JS.API.{request}: {error} ({code})")]
    Refused {
        /// The request without the API's prefix.
        request: String,
        /// JetStream's `err_code`.
        code: u64,
        /// The server's words.
        error: String,
    },
    /// A request could not be made.
    #[error("$JS.API.{request} failed: {error}")]
    Request {
        /// The request without the API's prefix.
        request: String,
        /// The cause.
        error: String,
    },
    /// The worker must not start.
    #[error("the server is not as declared\n{}", render(.0))]
    Differs(Vec<Difference>),
    /// `apply` changed nothing, for it could not have changed all.
    #[error("nothing was changed\n{}", render(.0))]
    Unchangeable(Vec<Difference>),
    /// `apply` changed nothing: wakes already stored would be left behind or overtaken.
    #[error(
        "the partitions of {WAKES} cannot change from {from} to {to}: {why}. Stop the publishers, \
         let every lane run dry with the old number (wakegate run --until-caught-up), stop the \
         workers, then run: wakegate streams apply"
    )]
    PartitionsInUse {
        /// What the server has.
        from: String,
        /// What is declared.
        to: u32,
        /// What is in the way.
        why: String,
    },
}

impl TopologyError {
    /// Whether the same request may succeed later with nothing changed by anybody.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::NotConnected | Self::NoAnswer { .. } | Self::Request { .. } => true,
            Self::Refused { code, .. } => *code == api::JETSTREAM_NOT_AVAILABLE,
            Self::File { .. }
            | Self::NoJetStream
            | Self::Differs(_)
            | Self::Unchangeable(_)
            | Self::PartitionsInUse { .. } => false,
        }
    }
}

impl Topology {
    /// What the worker asks before it starts, with `CONSUMER.INFO` and `STREAM.INFO` only.
    ///
    /// # Errors
    /// [`TopologyError::Differs`] names every difference that would change what the worker does,
    /// and what to run; a server that cannot be asked is the other errors.
    pub async fn verify(
        &self,
        context: &Context,
        batch_wakes_max: u32,
    ) -> Result<StreamFacts, TopologyError> {
        let survey = apply::Survey::take(context, self.partitions()).await?;
        let mut differences = survey.differences(self, batch_wakes_max);
        differences.retain(Difference::changes_behaviour);
        if !differences.is_empty() {
            return Err(TopologyError::Differs(differences));
        }
        Ok(StreamFacts {
            stream: Arc::from(WAKES),
            created: survey.created()?,
            partitions: self.partitions(),
        })
    }

    /// Every difference between the declarations and the server, those included that a worker
    /// tolerates, and the consumers of lanes that are no longer declared.
    ///
    /// # Errors
    /// When the server cannot be asked.
    pub async fn check(
        &self,
        context: &Context,
        batch_wakes_max: u32,
    ) -> Result<Vec<Difference>, TopologyError> {
        let mut survey = apply::Survey::take(context, self.partitions()).await?;
        survey.look_for_strays(context, self.partitions()).await?;
        Ok(survey.differences(self, batch_wakes_max))
    }
}
