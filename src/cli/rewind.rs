//! `wakegate streams rewind`.

use std::fmt::Write as _;

use async_nats::jetstream::Context;

use super::servers::{AnyStore, store, topology_failure};
use super::{Exit, Failure, print};
use crate::config::Config;
use crate::error_text::one_line;
use crate::store::{LaneKey, Store, StoreError};
use crate::topology::{Rewind, StreamFacts, Topology, TopologyError};

pub(super) const AFTER_HELP: &str = "\
For a database that was restored from a backup: what was decided since is acknowledged and would not
be delivered again, and the worker holds such lanes. Each is delivered again from where the database
stands; wakes that it knows are recognised by their ids. What the stream no longer keeps cannot come
again. Lanes that are not behind are left alone, so it may be run twice.

Examples:
  wakegate streams rewind";

/// Rewinds every lane that is behind.
pub(super) async fn execute(
    config: &Config,
    topology: &Topology,
    context: &Context,
) -> Result<Exit, Failure> {
    let batch_wakes_max = config.lanes.batch_wakes_max;
    let streams = topology.verify(context, batch_wakes_max).await;
    let streams = streams.map_err(|error| topology_failure(&error))?;
    let mut standings = Vec::new();
    for lane in 0..streams.partitions {
        let standing = Topology::standing(context, lane).await;
        standings.push(standing.map_err(|error| topology_failure(&error))?);
    }
    let decided = match store(config)? {
        AnyStore::Postgres(store) => decided(&store, &streams).await,
        AnyStore::Sqlite(store) => decided(&store, &streams).await,
    };
    let decided = decided.map_err(|error| {
        Failure::new(config.database.url.url().scrub(&one_line(&error)))
            .remedy("nothing was changed; WAKEGATE_DATABASE_URL says which database")
    })?;
    let mut text = String::new();
    for ((lane, standing), decided) in (0_u32..).zip(standings).zip(decided) {
        let rewound: Result<Rewind, TopologyError> =
            topology.rewind(context, batch_wakes_max, standing, decided).await;
        let rewound = rewound.map_err(|error| topology_failure(&error))?;
        let _ = writeln!(text, "lane-{lane}: {rewound}");
    }
    print(&text)?;
    Ok(Exit::Done)
}

/// Where the database stands, lane by lane; asked of all before anything is changed.
async fn decided<S: Store>(store: &S, streams: &StreamFacts) -> Result<Vec<u64>, StoreError> {
    let mut decided = Vec::new();
    for lane in 0..streams.partitions {
        let key =
            LaneKey { stream: streams.stream.clone(), stream_created_at: streams.created, lane };
        decided.push(store.lane_cursor(&key).await?.decided_sequence);
    }
    Ok(decided)
}
