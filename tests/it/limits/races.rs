//! A batch that loses every race is not tried for ever as one.

use std::sync::Mutex;

use serde_json::Value;
use wakegate::lane::process::RACE_ROUNDS_MAX;
use wakegate::store::{BatchRecord, RecordError};

use crate::harness::case;
use crate::harness::flaky::{Faults, Flaky};
use crate::harness::world::{T0, World, brief, mutation};

/// Every record of more than one wake loses a race.
#[derive(Default)]
struct LosesRaces {
    /// Wakes of each record, in order.
    tried: Mutex<Vec<usize>>,
}

impl Faults for LosesRaces {
    fn recording(&self, batch: &BatchRecord) -> Result<(), RecordError> {
        let wakes = batch.covers.len();
        self.tried.lock().unwrap().push(wakes);
        if wakes > 1 {
            return Err(RecordError::RaceLost { what: "the test" });
        }
        Ok(())
    }
}

#[tokio::test]
async fn after_so_many_lost_races_the_wakes_of_a_batch_go_one_by_one() {
    const WAKES: usize = 4;
    let case = case::sqlite().await;
    let store = Flaky::<_, LosesRaces>::new(case.world.bench.store.clone());
    let mut world = World::on_lane(store.clone(), 1).await;
    let events: Vec<_> =
        (0..WAKES).map(|nth| mutation(T0, &format!("t{nth}"), "", "a1", Value::from(1))).collect();
    let records = Box::pin(world.batch(&events)).await;
    assert!(records.iter().all(|record| brief(record) == "queued"), "{records:?}");
    let tried = store.faults.tried.lock().unwrap().clone();
    let rounds = RACE_ROUNDS_MAX as usize;
    assert_eq!(tried[..rounds], vec![WAKES; rounds], "as one, so many times");
    assert_eq!(tried[rounds], 1, "and then alone: {tried:?}");
    assert_eq!(tried.iter().filter(|wakes| **wakes == 1).count(), WAKES);
}
