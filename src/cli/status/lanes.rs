//! The lanes: who has each, and how much waits in it.

use serde::Serialize;
use serde_json::Value;

use super::Status;
use crate::broker::Broker;
use crate::topology::Topology;

/// A lane, as every worker and the server see it together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LaneStatus {
    /// Which.
    pub lane: u32,
    /// The worker that has it, by its id; nobody, where none says so.
    pub owner: Option<String>,
    /// Messages still to be delivered or acknowledged, as the server says.
    pub pending: Option<u64>,
    /// How long the oldest of them has been waiting, in seconds, as its owner says.
    pub oldest_pending_seconds: Option<f64>,
    /// Why it does not go on.
    pub held: Option<String>,
}

/// Lays together what the workers said, and asks the server how much waits.
pub(super) async fn fill(broker: &Broker, partitions: u32, status: &mut Status) {
    let context = broker.jetstream();
    let asked = (0..partitions).map(|lane| Topology::waiting(&context, lane));
    let waiting = futures_util::future::join_all(asked).await;
    let mut fault = None;
    for (lane, waiting) in (0..).zip(waiting) {
        let pending = waiting.unwrap_or_else(|error| {
            fault.get_or_insert(error.to_string());
            None
        });
        status.lanes.push(together(&status.workers, lane, pending));
    }
    // The same for every lane: said once.
    status.unanswered.extend(fault.map(|fault| format!("what waits in the lanes: {fault}")));
}

fn together(workers: &[Value], lane: u32, pending: Option<u64>) -> LaneStatus {
    let mut status =
        LaneStatus { lane, owner: None, pending, oldest_pending_seconds: None, held: None };
    for worker in workers {
        let lanes = worker["lanes"].as_array().map(Vec::as_slice).unwrap_or_default();
        let Some(said) = lanes.iter().find(|said| said["lane"].as_u64() == Some(lane.into()))
        else {
            continue;
        };
        let owned = said["owned"] == true;
        if owned {
            status.owner = worker["worker"]["id"].as_str().map(str::to_owned);
            status.oldest_pending_seconds = said["oldest_pending_seconds"].as_f64();
            status.pending = status.pending.or_else(|| said["pending"].as_u64());
        }
        let held = !matches!(said["state"].as_str(), Some("ok" | "standby"));
        if held && (owned || status.held.is_none()) {
            status.held = said["reason"].as_str().map(str::to_owned);
        }
    }
    status
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_lane_is_what_its_owner_says_and_what_the_server_says() {
        let worker = |id: &str, owned: bool, state: &str, reason: Option<&str>| {
            json!({
                "worker": {"id": id},
                "lanes": [{
                    "lane": 0, "owned": owned, "state": state, "reason": reason,
                    "pending": 9, "oldest_pending_seconds": 1.5,
                }],
            })
        };
        let standby = worker("a", false, "standby", Some("not owned"));
        let owner = worker("b", true, "waiting", Some("the database is away"));
        let lane = together(&[standby.clone(), owner], 0, Some(7));
        assert_eq!(
            lane,
            LaneStatus {
                lane: 0,
                owner: Some("b".to_owned()),
                pending: Some(7),
                oldest_pending_seconds: Some(1.5),
                held: Some("the database is away".to_owned()),
            }
        );
        let alone = together(&[standby], 0, None);
        assert_eq!((alone.owner, alone.pending, alone.held), (None, None, None));
        let behind = worker("c", false, "waiting", Some("behind"));
        assert_eq!(together(&[behind], 0, None).held.as_deref(), Some("behind"));
        assert_eq!(together(&[], 3, Some(1)).pending, Some(1));
    }
}
