//! Wakes that the stream removed while nobody worked it.
//!
//! A stream numbers what it stores without gaps, so a number that is missing is a message that was
//! removed. Beyond the furthest cursor of all lanes nothing was decided, so what is missing there was
//! lost, whichever lane it was of. At or below that cursor a missing number may as well be a wake of
//! a lane that had decided it: nothing is claimed of those.

use crate::audit::AuditLog;
use crate::health::Health;
use crate::intake::jetstream::JetStreamLane;
use crate::intake::{BrokerError, LaneConsumer as _};
use crate::lane::hold::Delays;
use crate::lane::lost;
use crate::lane::process::{BatchEnd, Bench};
use crate::lane::watch::Lost;
use crate::store::{LaneCursor, Store, StoreError};

/// Why it could not be told; to be tried again.
#[derive(Debug, thiserror::Error)]
enum Untold {
    #[error(transparent)]
    Broker(#[from] BrokerError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What there is to report, and where every lane stands.
struct Found {
    lost: Lost,
    cursors: Vec<LaneCursor>,
    /// Everything up to here is gone, and every cursor may move past it.
    gone_up_to: u64,
}

/// Looks before the lanes begin, and reports. Where another worker has pulls waiting nothing is done:
/// it watches its lanes, and what is missing may be in its hands.
///
/// # Errors
/// What waiting cannot mend: the stream is gone, or another one.
pub(super) async fn account<S: Store, A: AuditLog>(
    benches: &[Bench<S, A, JetStreamLane>],
    health: &Health,
    mut delays: Delays,
) -> Result<(), BrokerError> {
    loop {
        match look(benches).await {
            Ok(None) => return Ok(()),
            Ok(Some(found)) => {
                lost::note(health, found.lost);
                if report(benches, found).await {
                    return Ok(());
                }
            }
            Err(Untold::Broker(
                error @ (BrokerError::Gone { .. } | BrokerError::Recreated { .. }),
            )) => return Err(error),
            Err(error) => tracing::warn!(%error, "waiting to see what the stream has removed"),
        }
        tokio::time::sleep(delays.next_delay()).await;
    }
}

async fn look<S: Store, A: AuditLog>(
    benches: &[Bench<S, A, JetStreamLane>],
) -> Result<Option<Found>, Untold> {
    let Some(first) = benches.first() else { return Ok(None) };
    let mut cursors = Vec::new();
    let mut delivered = false;
    for bench in benches {
        let info = bench.consumer.info().await?;
        let cursor = bench.store.lane_cursor(&bench.lane).await?;
        // A database that is behind says nothing about what was decided.
        let behind = bench.forgotten(cursor, info.ack_floor, &[]).await?.is_some();
        if info.waiting > 0 || behind {
            return Ok(None);
        }
        delivered |= info.last_delivery > 0;
        cursors.push(cursor);
    }
    let furthest = cursors.iter().map(|cursor| cursor.decided_sequence).max().unwrap_or(0);
    if furthest == 0 && delivered {
        // An empty database on a stream that was worked with another one.
        return Ok(None);
    }
    let stream = first.consumer.stream().await?;
    let gone_up_to = stream.first_sequence.saturating_sub(1);
    let removed = first.consumer.removed_from(furthest + 1).await?;
    let wakes = gone_up_to.saturating_sub(furthest) + removed.len() as u64;
    let up_to = removed.last().copied().unwrap_or(gone_up_to);
    Ok((wakes > 0).then_some(Found {
        lost: Lost { lane: None, after: furthest, up_to, wakes },
        cursors,
        gone_up_to,
    }))
}

/// Reports once, by the first lane; the cursors of the others move so that none is counted again.
/// False where it is to be looked at again: the database is away, or another worker has begun.
async fn report<S: Store, A: AuditLog>(
    benches: &[Bench<S, A, JetStreamLane>],
    found: Found,
) -> bool {
    let mut reported = false;
    for (bench, cursor) in benches.iter().zip(found.cursors) {
        let decided_sequence = cursor.decided_sequence.max(found.gone_up_to);
        let to = LaneCursor { decided_sequence, ..cursor };
        let end = if reported {
            bench.pass_over(cursor, to).await
        } else {
            bench.lose(cursor, found.lost, to).await
        };
        if !reported && !matches!(end, BatchEnd::Settled { .. }) {
            return false;
        }
        reported = true;
    }
    true
}
