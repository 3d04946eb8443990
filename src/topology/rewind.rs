//! Delivering again what is acknowledged and was decided in a database that is no longer there.

use std::fmt;

use async_nats::jetstream::Context;
use serde_json::{Value, json};

use super::declared::Topology;
use super::{TopologyError, WAKES, api, lane_consumer};

/// What became of one lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rewind {
    /// Nothing is acknowledged that the database does not know.
    NotBehind,
    /// Its consumer was made anew.
    Rewound {
        /// The database has decided up to here.
        decided: u64,
        /// The consumer had been delivered up to here.
        delivered: u64,
        /// It is delivered from here on.
        from: u64,
    },
}

impl fmt::Display for Rewind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBehind => f.write_str("not behind"),
            Self::Rewound { decided, delivered, from } => write!(
                f,
                "delivered again from sequence {from}: the database has decided up to {decided}, \
                 the consumer was at {delivered}"
            ),
        }
    }
}

/// Where a lane's consumer stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    lane: u32,
    floor: u64,
    delivered: u64,
    unacknowledged: u64,
}

impl Topology {
    /// Asks where a lane's consumer stands; to be asked before the database is, so that a worker that
    /// goes on meanwhile is not taken for one that is behind.
    ///
    /// # Errors
    /// When the server cannot be asked.
    pub async fn standing(context: &Context, lane: u32) -> Result<Standing, TopologyError> {
        let info = api::consumer_info(context, WAKES, &lane_consumer(lane)).await?;
        let info = info.unwrap_or_default();
        let number = |value: &Value| value.as_u64().unwrap_or(0);
        Ok(Standing {
            lane,
            floor: number(&info["ack_floor"]["stream_seq"]),
            delivered: number(&info["delivered"]["stream_seq"]),
            unacknowledged: number(&info["num_ack_pending"]),
        })
    }

    /// Makes the consumer of a lane anew where wakes beyond `decided`, the lane's cursor in the
    /// database, are acknowledged, so that they are delivered again. What is at or below the cursor
    /// and not acknowledged comes again too, and is recognised.
    ///
    /// # Errors
    /// When the server cannot be asked, or declines.
    pub async fn rewind(
        &self,
        context: &Context,
        batch_wakes_max: u32,
        standing: Standing,
        decided: u64,
    ) -> Result<Rewind, TopologyError> {
        if !is_behind(context, standing, decided).await? {
            return Ok(Rewind::NotBehind);
        }
        let Standing { lane, floor, delivered, .. } = standing;
        let from = decided.min(floor) + 1;
        let name = lane_consumer(lane);
        let mut config = self.lane_consumer_config(lane, batch_wakes_max);
        config["deliver_policy"] = json!("by_start_sequence");
        config["opt_start_seq"] = json!(from);
        api::delete_consumer(context, WAKES, &name).await?;
        api::put_consumer(context, WAKES, &name, &config).await?;
        Ok(Rewind::Rewound { decided, delivered, from })
    }
}

/// Whether a wake beyond the cursor is acknowledged: one at or below the floor, or more beyond it
/// than can be unacknowledged. Where some at or below the cursor may be unacknowledged too, that
/// cannot be told of the last few, and they are taken for acknowledged: they come again, and are
/// decided once all the same.
async fn is_behind(
    context: &Context,
    standing: Standing,
    decided: u64,
) -> Result<bool, TopologyError> {
    let Standing { lane, floor, delivered, unacknowledged } = standing;
    let subject = format!("wakes.{lane}.>");
    let (mut open_beyond, mut after) = (unacknowledged, floor);
    while open_beyond > 0
        && let Some(sequence) = api::next_message(context, WAKES, &subject, after).await?
        && sequence <= decided
    {
        open_beyond -= 1;
        after = sequence;
    }
    after = decided;
    while let Some(sequence) = api::next_message(context, WAKES, &subject, after).await?
        && sequence <= delivered
    {
        if sequence <= floor || open_beyond == 0 {
            return Ok(true);
        }
        open_beyond -= 1;
        after = sequence;
    }
    Ok(false)
}
