//! Holds what is on record, and what is told, against what the model says.

use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use wakegate::store::BatchRecord;

use super::oracle::{Invariant, Place};
use super::shadowed::would_refuse;
use super::world::Inside;
use crate::serial_model::answer::{Answer, Row};
use crate::serial_model::play::{overload, told_of_shadows};

/// Whether what was committed is what the model answers.
pub fn as_expected(
    inside: &Inside,
    index: usize,
    place: Place,
    answer: &Answer,
    batch: &BatchRecord,
) -> Result<(), String> {
    let id = inside.oracle.id_of(index);
    let expected = match answer.outcome.as_str() {
        "queued" => Place::Run,
        "coalesced" => Place::Merged,
        "refused" => Place::Refused,
        _ => Place::Nowhere,
    };
    let differs = |what: String| Err(format!("expected {answer:?}, got {what}"));
    if place != expected {
        return differs(format!("{place:?}"));
    }
    let would_refuse = would_refuse(batch, id)?;
    if would_refuse != answer.would_refuse {
        return differs(format!("{would_refuse:?} of gates in shadow"));
    }
    match place {
        Place::Run => {
            let run = batch.runs.iter().find(|run| run.wake.id == id).unwrap();
            let degraded = run.degraded.map(|reason| reason.as_str().to_owned());
            if degraded != answer.degraded {
                return differs(format!("degraded {degraded:?}"));
            }
        }
        Place::Merged => {
            let merged = batch.merged_wakes.iter().find(|wake| wake.wake.id == id).unwrap();
            let run = inside.oracle.index_of(merged.run_id);
            if run != answer.run {
                return differs(format!("merged into {run:?}"));
            }
        }
        Place::Refused => {
            let refused = batch.refusals.iter().find(|wake| wake.wake.id == id).unwrap();
            let record: Value = serde_json::from_str(&refused.record).unwrap();
            let told = answer_of(inside, &record);
            if told != *answer {
                return differs(format!("{told:?}"));
            }
        }
        Place::Nowhere => {}
    }
    Ok(())
}

/// An outcome record as the model would say it.
pub fn answer_of(inside: &Inside, record: &Value) -> Answer {
    let text = |name: &str| record.get(name).and_then(Value::as_str).map(str::to_owned);
    let run = text("run_id").and_then(|id| inside.oracle.index_of_text(&id));
    let outcome = text("outcome").unwrap();
    Answer {
        reason: text("reason").filter(|_| outcome != "no_wake"),
        degraded: text("degraded_reason"),
        run,
        observed: record["observed_count"].as_u64(),
        retry_at: text("retry_at").map(|at| micros(&at)),
        pause: text("pause_id"),
        overload: overload(record),
        requested_at: micros(&text("requested_at").unwrap()),
        would_refuse: told_of_shadows(record),
        outcome,
    }
}

fn micros(text: &str) -> i64 {
    let nanos = OffsetDateTime::parse(text, &Rfc3339).unwrap().unix_timestamp_nanos();
    i64::try_from(nanos / 1_000).unwrap()
}

impl Inside {
    /// Somebody was told what became of an event.
    pub fn told(&mut self, index: usize, record: &str) {
        let record: serde_json::Value = serde_json::from_str(record).unwrap();
        let first = self.oracle.told.get(&index).cloned();
        let again = first.is_some();
        if let Err(what) = self.agrees(index, &record, first.as_ref()) {
            self.breach(Invariant::SameAnswer, || format!("event {index}: {what}"));
        }
        if !again {
            self.oracle.told.insert(index, record);
        }
    }

    /// Whether a record that was told says what was decided, and what was told before.
    pub fn agrees(
        &self,
        index: usize,
        record: &Value,
        first: Option<&Value>,
    ) -> Result<(), String> {
        let Some(decided) = self.oracle.decided.get(&index) else {
            return Err(format!("it was never decided, and is told {record}"));
        };
        let Some(expected) = &decided.answer else {
            let rejected = record["outcome"] == "rejected";
            // What the database refused may end the process when it is delivered again.
            let same = record["reason"] == "poison"
                || first.is_none_or(|first| first["reason"] == record["reason"]);
            let what = || Err(format!("it was rejected, and is told {record}"));
            return if rejected && same { Ok(()) } else { what() };
        };
        if decided.or_rejected && record["outcome"] == "rejected" {
            return Ok(());
        }
        // Of a duplicate no row says of which kind it was, nor whom it met first.
        let bare = |answer: Answer| {
            let again = answer.again();
            if again.outcome == "deduplicated" { Answer { run: None, ..again } } else { again }
        };
        let told = answer_of(self, record);
        if bare(told.clone()) != bare(expected.clone()) {
            return Err(format!("it was {expected:?}, and is told {record}"));
        }
        // What a gate in shadow would have refused is on record, whatever became of the wake.
        let derived = ["deduplicated", "no_wake"].contains(&told.outcome.as_str())
            && told.would_refuse.is_empty();
        if let Some(first) = first
            && !derived
            && first != record
        {
            return Err(format!("it was told {first}, and now {record}"));
        }
        Ok(())
    }

    /// What must be so once everything is settled.
    pub fn conclude(&mut self) {
        for lane in 0..self.oracle.lanes.len() {
            self.oracle.catch_up(lane, usize::MAX);
        }
        for index in 0..self.plan.events.len() {
            self.prove(index as u64 + 1, None);
        }
        self.shadows_are_kept();
        self.intake_is_counted();
        let (expected, actual) = (self.oracle.model.all_rows(), self.rows());
        if expected != actual {
            let differing =
                expected.iter().zip(&actual).find(|(expected, actual)| expected != actual);
            let what = match differing {
                Some((expected, actual)) => format!("expected {expected:?}\n  got {actual:?}"),
                None => format!("{} rows, expected {}", actual.len(), expected.len()),
            };
            self.breach(Invariant::EveryOutcome, || what);
        }
        let of = |place: Place| self.oracle.decided.values().filter(|of| of.place == place).count();
        let kept = (self.memory.merged_wakes().len(), self.memory.refused_wakes().len());
        let decided = (of(Place::Merged), of(Place::Refused));
        if kept != decided {
            self.breach(Invariant::EveryOutcome, || {
                format!("merged and refused: {kept:?} on record, {decided:?} decided")
            });
        }
    }

    fn rows(&self) -> Vec<Row> {
        let row = |run: wakegate::store::memory::MemoryRun| {
            let payload = run.payload.text();
            Some(Row {
                run: self.oracle.index_of(run.id)?,
                organization: run.organization_id.to_string(),
                agent: run.agent_profile_id.to_string(),
                status: run.status.as_str().to_owned(),
                payload: serde_json::from_str(payload).unwrap(),
                task: run.payload.task().task().map(ToString::to_string),
                actor_type: run.payload.actor_type().map(ToString::to_string),
                actor_id: run.payload.actor_id().map(ToString::to_string),
                key: run.idempotency_key.map(|key| key.to_string()),
                coalesced_count: i64::from(run.coalesced_count),
                degraded: run.degraded.map(|reason| reason.as_str().to_owned()),
                requested_at: run.requested_at.micros(),
            })
        };
        let mut rows: Vec<Row> = self.memory.runs().into_iter().filter_map(row).collect();
        rows.sort_by_key(|row| row.run);
        rows
    }
}
