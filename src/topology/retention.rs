//! How far back a wake can be delivered again, as the server has it.

use std::time::Duration;

use async_nats::jetstream::Context;

use super::declared::kept;
use super::{Topology, TopologyError, WAKES, api};
use crate::wake::UtcMicros;
use crate::wake::instant::parse_rfc_3339;

/// What the server says of `WAKES`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// How long it keeps a wake; nothing where it keeps it for ever.
    pub kept: Option<Duration>,
    /// When the first wake that it holds was stored; nothing where it holds none.
    pub first_stored_at: Option<UtcMicros>,
}

impl Topology {
    /// What the server says of `WAKES`, or nothing where it has no such stream.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn retention(context: &Context) -> Result<Option<Retention>, TopologyError> {
        let Some(info) = api::stream_info(context, WAKES).await? else { return Ok(None) };
        let holds_any = info["state"]["messages"].as_u64().is_some_and(|messages| messages > 0);
        let first = info["state"]["first_ts"].as_str().and_then(parse_rfc_3339);
        Ok(Some(Retention {
            kept: kept(&info["config"]),
            first_stored_at: first.filter(|_| holds_any),
        }))
    }
}
