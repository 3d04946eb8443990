//! A small queue: never more in it than may be, and nobody refused while there was room.
//!
//! What one lane sees of the queue depends on when it looks, so no serial model says what it must
//! answer. What is held is that a refusal was true at the look that its batch was decided from, and
//! that no commit leaves the queue over its ceiling. With the gate in shadow nobody is refused and no
//! commit stopped, and whoever is admitted to a queue that was full at that look is said to be.

use wakegate::admission::intake::{Admitted, Slot};
use wakegate::store::memory::RunStatus;
use wakegate::store::{BatchRecord, IntakeSpan, RecordError, RoomQuery, Store as _};
use wakegate::wake::producer::ProducerClass;
use wakegate::wake::{OrganizationId, UtcMicros};

use super::acts::at_once;
use super::mistakes::Mistake;
use super::oracle::{Invariant, Place};
use super::run::run_on;
use super::store::Attempt;
use super::world::Inside;
use crate::serial_model::play::overload;

const SEEDS: u64 = 600;
/// With every set of gates in shadow on every size of the queue ten times.
const SEEDS_WITH_SHADOWS: u64 = 640;
/// So few runs may wait: events are some dozens a seed, and runners take some of them.
const QUEUED_MAX: [u32; 4] = [1, 2, 5, 9];

fn queued_max(seed: u64) -> u32 {
    QUEUED_MAX[usize::try_from(seed).unwrap() % QUEUED_MAX.len()]
}

/// Capacity in shadow on half of the seeds, and the other gates in every way beside it.
fn in_shadow(seed: u64) -> [bool; 4] {
    // Each size of the queue meets all of them.
    let of = seed / QUEUED_MAX.len() as u64;
    [1, 2, 4, 8].map(|bit| of & bit > 0)
}

impl Inside {
    /// What the batch says was full for this wake, where it is refused for want of room, or would be.
    pub fn overload_of(&self, index: usize, batch: &BatchRecord) -> Option<(String, u64, u32)> {
        let id = self.oracle.id_of(index);
        let read = |record: &String| serde_json::from_str::<serde_json::Value>(record).unwrap();
        let refused = batch.refusals.iter().find(|refused| refused.wake.id == id);
        let refused = refused.and_then(|refused| overload(&read(&refused.record)));
        refused.or_else(|| {
            let shadowed = batch.shadowed.iter().find(|shadowed| shadowed.wake.id == id)?;
            let record = read(&shadowed.record);
            record["would_refuse"].as_array().unwrap().iter().find_map(overload)
        })
    }

    /// A refusal for want of room is true at the look that the batch was decided from: what was seen
    /// then, and what the batch itself had admitted before, fill the queue. So is what the gate says in
    /// shadow, and there it says it of everything that is admitted to a full queue.
    pub fn room_was_taken(&mut self, index: usize, batch: &BatchRecord, attempt: &Attempt) {
        let sequence = index as u64 + 1;
        let before = batch.runs.iter().filter(|run| run.wake.sequence < sequence).count() as u64;
        let seen = attempt.queued.map(|queued| queued + before);
        let Some((boundary, depth, capacity)) = self.overload_of(index, batch) else {
            let is_admitted = batch.runs.iter().any(|run| run.wake.sequence == sequence);
            let max = self.plan.queued_runs_max.filter(|_| self.plan.in_shadow[3]);
            if is_admitted && max.is_some_and(|max| seen.is_none_or(|seen| seen >= max.into())) {
                self.breach(Invariant::Room, || {
                    format!("event {index} is admitted to {seen:?} of {max:?} with nothing said")
                });
            }
            return;
        };
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
        let [.., is_in_shadow] = self.plan.in_shadow;
        let Some(max) = self.plan.queued_runs_max.filter(|_| !is_in_shadow) else { return };
        let queued =
            self.memory.runs().iter().filter(|run| run.status == RunStatus::Queued).count();
        if !batch.runs.is_empty() && queued > max as usize {
            self.breach(Invariant::Room, || format!("{queued} runs are queued, of {max} at most"));
        }
    }

    /// A ceiling whose gate is in shadow stops no record.
    pub fn room_is_no_bar(&mut self, error: &RecordError) {
        if self.plan.in_shadow[3] && matches!(error, RecordError::RoomTaken { .. }) {
            self.breach(Invariant::Room, || format!("in shadow, and a record is stopped: {error}"));
        }
    }

    /// What was admitted is counted for the intake rate, once and whether or not anything is in shadow.
    pub fn intake_is_counted(&mut self) {
        let always = (UtcMicros::from_micros(0), UtcMicros::from_micros(i64::MAX / 2));
        let spans = ["acme", ""].into_iter().flat_map(|organization| {
            ProducerClass::ALL.into_iter().map(move |producer| IntakeSpan {
                organization_id: OrganizationId::parse(organization).unwrap(),
                producer,
                first: Slot::of(always.0),
                last: Slot::of(always.1),
            })
        });
        let query = RoomQuery { intake: spans.collect(), ..RoomQuery::default() };
        let room = at_once(self.memory.read_room(&query)).unwrap();
        let slots = room.intake.values().flat_map(Admitted::slots);
        let counted: u64 = slots.map(|(_, wakes)| wakes).sum();
        let admitted = self.oracle.decided.values().filter(|of| of.place == Place::Run).count();
        if counted != admitted as u64 {
            self.breach(Invariant::EveryOutcome, || {
                format!("{counted} wakes are counted as admitted, {admitted} were")
            });
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

/// Everything that is said in shadow is on record once and told, as in every simulation.
#[test]
fn seed_004_a_small_queue_in_shadow_refuses_nobody_and_in_force_is_never_exceeded() {
    // Refused for want of room and admitted without it, in force and in shadow.
    let (mut refused, mut would_refuse) = ([0; 2], [0; 2]);
    for seed in 0..SEEDS_WITH_SHADOWS {
        let of = in_shadow(seed);
        let report = run_on(seed, None, false, |plan| {
            plan.queued_runs_max = Some(queued_max(seed));
            plan.in_shadow = of;
        });
        let first = report.breaches.first();
        let max = queued_max(seed);
        assert!(first.is_none(), "seed {seed}, {max} queued at most, {of:?} in shadow: {first:?}");
        let is = |reason: &&String| reason.ends_with("capacity_exhausted");
        refused[usize::from(of[3])] += report.outcomes.iter().filter(is).count();
        would_refuse[usize::from(of[3])] += report.would_refuse.iter().filter(is).count();
    }
    let told = format!("{refused:?} refused, {would_refuse:?} would be");
    assert!(refused[0] > 500 && would_refuse[0] == 0, "in force: {told}");
    assert!(refused[1] == 0 && would_refuse[1] > 500, "in shadow: {told}");
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
