//! How much waits in a lane, whoever has it, and whether anybody has.

use async_nats::jetstream::Context;

use super::declared::Topology;
use super::{TopologyError, WAKES, api, lane_consumer};

impl Topology {
    /// Messages of a lane that are still to be delivered or acknowledged; nothing where its consumer
    /// is not there.
    ///
    /// # Errors
    /// When the server cannot be asked.
    pub async fn waiting(context: &Context, lane: u32) -> Result<Option<u64>, TopologyError> {
        let info = api::consumer_info(context, WAKES, &lane_consumer(lane)).await?;
        Ok(info.map(|info| {
            let number = |name: &str| info[name].as_u64().unwrap_or(0);
            number("num_pending") + number("num_ack_pending")
        }))
    }
}
