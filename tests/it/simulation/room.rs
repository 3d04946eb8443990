//! A small queue: never more in it than may be, and nobody refused while there was room.
//!
//! What one lane sees of the queue depends on when it looks, so no serial model says what it must
//! answer. What is held is that a refusal was true at the look that its batch was decided from, and
//! that no commit leaves the queue over its ceiling.

use wakegate::store::BatchRecord;
use wakegate::store::memory::RunStatus;

use super::mistakes::Mistake;
use super::oracle::Invariant;
use super::run::run_on;
use super::store::Attempt;
use super::verdict::answer_of;
use super::world::Inside;

const SEEDS: u64 = 600;
/// So few runs may wait: events are some dozens a seed, and runners take some of them.
const QUEUED_MAX: [u32; 4] = [1, 2, 5, 9];

fn queued_max(seed: u64) -> u32 {
    QUEUED_MAX[usize::try_from(seed).unwrap() % QUEUED_MAX.len()]
}

impl Inside {
    /// What the batch says was full for this wake, where it is refused for want of room.
    pub fn overload_of(&self, index: usize, batch: &BatchRecord) -> Option<(String, u64, u32)> {
        let id = self.oracle.id_of(index);
        let refused = batch.refusals.iter().find(|refused| refused.wake.id == id)?;
        answer_of(self, &serde_json::from_str(&refused.record).unwrap()).overload
    }

    /// A refusal for want of room is true at the look that the batch was decided from: what was seen
    /// then, and what the batch itself had admitted before, fill the queue.
    pub fn room_was_taken(&mut self, index: usize, batch: &BatchRecord, attempt: &Attempt) {
        let Some((boundary, depth, capacity)) = self.overload_of(index, batch) else { return };
        let sequence = index as u64 + 1;
        let before = batch.runs.iter().filter(|run| run.wake.sequence < sequence).count() as u64;
        let seen = attempt.queued.map(|queued| queued + before);
        let full = Some(capacity) == self.plan.queued_runs_max && depth >= u64::from(capacity);
        if boundary != "queued_runs.platform" || seen != Some(depth) || !full {
            self.breach(Invariant::Room, || {
                format!(
                    "event {index} is refused with {depth} of {capacity}, and {seen:?} were seen"
                )
            });
        }
    }

    /// What a batch adds stays within the ceiling.
    pub fn room_is_left(&mut self, batch: &BatchRecord) {
        let Some(max) = self.plan.queued_runs_max else { return };
        let queued =
            self.memory.runs().iter().filter(|run| run.status == RunStatus::Queued).count();
        if !batch.runs.is_empty() && queued > max as usize {
            self.breach(Invariant::Room, || format!("{queued} runs are queued, of {max} at most"));
        }
    }
}

#[test]
fn seed_004_a_small_queue_is_never_exceeded_and_holds_nobody_whatever_fails() {
    let (mut refused, mut queued) = (0, 0);
    for seed in 0..SEEDS {
        let report =
            run_on(seed, None, false, |plan| plan.queued_runs_max = Some(queued_max(seed)));
        let first = report.breaches.first();
        assert!(first.is_none(), "seed {seed}, {} queued at most: {first:?}", queued_max(seed));
        refused += report.outcomes.iter().filter(|of| *of == "refused:capacity_exhausted").count();
        queued += report.outcomes.iter().filter(|of| *of == "queued").count();
    }
    assert!(refused > 1_000 && queued > 1_000, "{refused} refused, {queued} queued");
}

/// Noticed within so many seeds: two lanes have to take the last room at once.
#[test]
fn a_record_that_does_not_look_at_the_room_again_is_noticed() {
    let exceeds = |seed: &u64| {
        let report = run_on(*seed, Some(Mistake::RoomNotHeld), false, |plan| {
            plan.queued_runs_max = Some(queued_max(*seed));
        });
        report.breaches.iter().any(|breach| breach.invariant == Invariant::Room)
    };
    let noticed = (0..SEEDS).find(exceeds);
    assert!(noticed.is_some(), "nothing was exceeded in {SEEDS} seeds");
}
