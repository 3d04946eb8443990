//! What is in flight follows what was granted: so many lanes, so many lanes' worth.

use crate::through_servers::stage::{Dialect, Setting, Stage};
use crate::through_servers::stall::Stall;
use crate::through_servers::story::assignment;

const WAKES: usize = 300;

/// Deliveries that a worker holds while its database records nothing, of each lane.
async fn in_flight(lanes: u32, batch_wakes_max: u32) -> Vec<usize> {
    let setting = Setting { partitions: lanes, batch_wakes_max, ..Setting::default() };
    let stage = Stage::with(Dialect::Postgres, setting).await;
    let worker = stage.worker().await;
    let stall = Stall::records(&stage).await;
    for nth in 0..WAKES {
        stage.publish(&assignment(&format!("t{nth}"), "a1", 1)).await;
    }
    let granted = 2 * batch_wakes_max as usize;
    let mut held = Vec::new();
    for lane in 0..lanes {
        let full = |info: &async_nats::jetstream::consumer::Info| info.num_ack_pending >= granted;
        stage.until_lane(lane, "the lane never filled", full).await;
        let info = stage.lane(lane).await;
        assert!(info.num_pending > 0, "the rest waits at the server");
        assert_eq!(info.config.max_ack_pending, i64::try_from(granted).unwrap());
        held.push(info.num_ack_pending);
    }
    stall.release().await;
    stage.settled().await;
    assert_eq!(stage.outside.run_count().await, i64::try_from(WAKES).unwrap(), "{}", worker.log());
    held
}

#[tokio::test(flavor = "multi_thread")]
async fn seed_004_two_lanes_granted_means_two_lanes_worth_in_flight() {
    for (lanes, batch) in [(1, 5), (2, 5), (4, 5), (2, 10)] {
        let worth = 2 * batch as usize;
        assert_eq!(in_flight(lanes, batch).await, vec![worth; lanes as usize], "{lanes} × {batch}");
    }
}
