//! Plays a trace on a store, in batches, and says where it differs from the model.

use std::collections::HashMap;

use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use wakegate::admission::limits::Dimension;
use wakegate::admission::{GateName, Shadows};
use wakegate::intake::Delivery;
use wakegate::store::Store;
use wakegate::wake::UtcMicros;

use super::answer::{Answer, Played, Row, words};
use super::hands::{Hands, payload};
use super::model::Model;
use super::trace::{Step, Trace};
use crate::harness::world::{MINUTE, T0, World};

/// Where batches end, beside the places where somebody else acts: after the nth delivery if the
/// nth is true, over and over.
#[derive(Debug, Clone)]
pub struct Cuts(pub Vec<bool>);

impl Cuts {
    /// Every wake alone.
    pub fn everywhere() -> Self {
        Self(vec![true])
    }

    /// Batches as large as they can be.
    pub fn nowhere() -> Self {
        Self(vec![false])
    }

    /// The nth of the 2^(n−1) ways to split n events.
    pub fn numbered(number: u32) -> Self {
        Self((0..32).map(|bit| number >> bit & 1 == 1).collect())
    }

    fn after(&self, delivery: usize) -> bool {
        self.0[delivery % self.0.len()]
    }
}

/// A trace under way on a store.
pub struct Play<'a, S, H> {
    pub world: World<S>,
    hands: &'a H,
    trace: &'a Trace,
    pub deliveries: Vec<Delivery>,
    /// Events by the ids of their wakes.
    by_id: HashMap<String, usize>,
    /// Records of first deliveries, by event.
    pub records: Vec<Option<Value>>,
    batches: i64,
    /// Called before each batch.
    pub disturb: Box<dyn FnMut() + 'a>,
}

impl<'a, S: Store, H: Hands> Play<'a, S, H> {
    pub async fn new(store: S, hands: &'a H, trace: &'a Trace) -> Self {
        hands.purge().await;
        let mut world = World::new(store).await;
        world.bench.shadows = shadows(trace.in_shadow);
        if let Some(tight) = &trace.tight {
            hands.lower(tight.acme).await;
            let ceilings = world.bench.options.ceilings.expect("worlds have ceilings");
            let tight = ceilings
                .with(Dimension::QueuedPlatform, tight.platform)
                .with(Dimension::QueuedOrganization, tight.organization)
                .with(Dimension::Intake, tight.intake);
            world.bench.options.ceilings = Some(tight);
        }
        let published: Vec<_> = trace.events.iter().map(super::trace::Event::published).collect();
        let deliveries = world.stored(&published);
        let by_id = deliveries
            .iter()
            .enumerate()
            .map(|(index, delivery)| (delivery.wake_id().to_string(), index))
            .collect();
        let records = vec![None; deliveries.len()];
        Self {
            world,
            hands,
            trace,
            deliveries,
            by_id,
            records,
            batches: 0,
            disturb: Box::new(|| {}),
        }
    }

    /// What the model makes of the trace.
    pub fn expected(&self) -> Played {
        let ids = self.deliveries.iter().map(|delivery| delivery.wake_id().uuid().as_u128());
        Model::play(self.trace, ids.collect())
    }

    /// Plays the trace. What the model has no answer to is not delivered again.
    pub async fn run(&mut self, expected: &Played, cuts: &Cuts) -> Result<Played, String> {
        let mut answers = Vec::new();
        let mut batch: Vec<usize> = Vec::new();
        for step in &self.trace.steps {
            match step {
                Step::Event(index) => batch.push(*index),
                Step::Redeliver(index) => {
                    // What comes again was worked before, and comes before what is new.
                    if batch.iter().any(|of| self.records[*of].is_none() || of == index) {
                        self.work(&mut batch, &mut answers).await?;
                    }
                    if expected.answers[answers.len() + batch.len()].is_none() {
                        self.work(&mut batch, &mut answers).await?;
                        answers.push(None);
                        continue;
                    }
                    batch.push(*index);
                }
                Step::Control(control) => {
                    self.work(&mut batch, &mut answers).await?;
                    self.hands.apply(control).await;
                    continue;
                }
            }
            if cuts.after(answers.len() + batch.len() - 1) {
                self.work(&mut batch, &mut answers).await?;
            }
        }
        self.work(&mut batch, &mut answers).await?;
        Ok(Played { answers, rows: self.rows().await })
    }

    /// Delivers what was played again, everything and then some of it, and holds that nothing
    /// changes. A wake whose run was deleted is too old to be delivered again.
    pub async fn run_again(&mut self, played: &Played, cuts: &Cuts) -> Result<(), String> {
        let counters = self.counters();
        let has_run = |index: &usize| played.rows.iter().any(|row| row.run == *index);
        let created = |index: &usize| {
            self.records[*index].as_ref().is_some_and(|record| record["outcome"] == "queued")
        };
        let kept: Vec<usize> =
            (0..self.deliveries.len()).filter(|index| has_run(index) || !created(index)).collect();
        let some = kept.iter().copied().enumerate().filter(|(place, _)| !cuts.after(*place));
        let some: Vec<usize> = some.map(|(_, index)| index).collect();
        let mut batch = Vec::new();
        for (place, index) in kept.into_iter().enumerate() {
            batch.push(index);
            if cuts.after(place) {
                self.work(&mut batch, &mut Vec::new()).await?;
            }
        }
        for mut batch in [batch, some] {
            self.work(&mut batch, &mut Vec::new()).await?;
        }
        let rows = Played { answers: Vec::new(), rows: played.rows.clone() };
        difference(&rows, &Played { answers: Vec::new(), rows: self.rows().await })?;
        if self.counters() != counters {
            return Err(format!("counted twice: {counters:#?} {:#?}", self.counters()));
        }
        Ok(())
    }

    async fn work(
        &mut self,
        batch: &mut Vec<usize>,
        answers: &mut Vec<Option<Answer>>,
    ) -> Result<(), String> {
        if batch.is_empty() {
            return Ok(());
        }
        (self.disturb)();
        // The worker's clock has no part in any decision; let it show in the records.
        self.batches += 1;
        self.world.bench.clock.set(UtcMicros::from_micros(T0 + self.batches * MINUTE));
        let deliveries: Vec<_> = batch.iter().map(|of| self.deliveries[*of].clone()).collect();
        let records = self.world.work(&deliveries).await;
        for (index, record) in batch.drain(..).zip(records) {
            let mut answer = self.answer(&record);
            if let Some(first) = &self.records[index] {
                // Of these nothing is on record.
                let derived = answer.outcome == "deduplicated" || answer.outcome == "no_wake";
                answer = answer.again();
                if first["outcome"] != record["outcome"] || (!derived && *first != record) {
                    return Err(format!("event {index}, first {first}\n  then {record}"));
                }
            } else {
                self.records[index] = Some(record);
            }
            answers.push(Some(answer));
        }
        Ok(())
    }

    /// Every counter of outcomes, as rendered.
    fn counters(&self) -> Vec<String> {
        let rendered = self.world.bench.metrics.render();
        let of_outcomes = |line: &&str| {
            [
                "wakes",
                "refusals",
                "would_refuse",
                "rejected",
                "assignment_allowance",
                "dedup",
                "keyless",
            ]
            .iter()
            .any(|family| line.starts_with(&format!("wakegate_{family}_total")))
        };
        rendered.lines().filter(of_outcomes).map(str::to_owned).collect()
    }

    fn answer(&self, record: &Value) -> Answer {
        let text = |name: &str| record.get(name).map(|value| value.as_str().unwrap().to_owned());
        let outcome = text("outcome").unwrap();
        let bounded = text("degraded_reason").is_some()
            || record.get("reason").is_some_and(|reason| reason == "allowance_exhausted");
        let limits = (record["allowance"].as_u64(), record["window_seconds"].as_u64());
        assert_eq!(limits, if bounded { (Some(5), Some(600)) } else { (None, None) }, "{record}");
        Answer {
            reason: text("reason").filter(|_| outcome != "no_wake"),
            outcome,
            degraded: text("degraded_reason"),
            run: text("run_id").map(|id| self.by_id[&id]),
            observed: record["observed_count"].as_u64(),
            retry_at: text("retry_at").map(|at| micros(&at)),
            pause: text("pause_id"),
            overload: overload(record),
            requested_at: micros(&text("requested_at").unwrap()),
            would_refuse: told_of_shadows(record),
        }
    }

    /// Every run, in order of the events that made them.
    pub async fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = self
            .hands
            .rows()
            .await
            .into_iter()
            .map(|row| Row {
                run: self.by_id[&row.id],
                organization: row.organization_id,
                agent: row.agent_profile_id,
                status: row.status,
                payload: payload(&row.payload),
                task: row.task_id,
                actor_type: row.actor_type,
                actor_id: row.actor_id,
                key: row.idempotency_key,
                coalesced_count: row.coalesced_count,
                degraded: row.degraded_reason,
                requested_at: row.requested_at,
            })
            .collect();
        rows.sort_by_key(|row| row.run);
        rows
    }
}

/// Agent status, pause, allowance, capacity.
pub fn shadows(in_shadow: [bool; 4]) -> Shadows {
    let mut shadows = Shadows::default();
    let gates = [GateName::AgentStatus, GateName::Pause, GateName::Allowance, GateName::Capacity];
    for (gate, in_shadow) in gates.into_iter().zip(in_shadow) {
        shadows.set(gate, in_shadow);
    }
    shadows
}

/// What gates in shadow would have refused, as a record tells it.
pub fn told_of_shadows(record: &Value) -> Vec<String> {
    let told = record.get("would_refuse").map(|told| told.as_array().unwrap().clone());
    let in_words = |told: &Value| {
        let limits = (told["allowance"].as_u64(), told["window_seconds"].as_u64());
        let bounded = told["gate"] == "allowance";
        assert_eq!(limits, if bounded { (Some(5), Some(600)) } else { (None, None) }, "{told}");
        let retry_at = told["retry_at"].as_str().map(micros);
        let (reason, pause) = (told["reason"].as_str(), told["pause_id"].as_str());
        let (observed, overload) = (told["observed_count"].as_u64(), overload(told));
        words(reason, observed, retry_at, pause, overload.as_ref())
    };
    told.unwrap_or_default().iter().map(in_words).collect()
}

/// What a refusal says was full, how much was there, and how much may be.
pub fn overload(refusal: &Value) -> Option<(String, u64, u32)> {
    let overload = refusal.get("overload")?;
    let number = |name: &str| overload[name].as_u64().unwrap();
    let capacity = u32::try_from(number("capacity")).unwrap();
    Some((overload["boundary"].as_str().unwrap().to_owned(), number("depth"), capacity))
}

pub fn micros(text: &str) -> i64 {
    let nanos = OffsetDateTime::parse(text, &Rfc3339).unwrap().unix_timestamp_nanos();
    i64::try_from(nanos / 1_000).unwrap()
}

/// Where a play differs from what was expected of it, in words.
pub fn difference(expected: &Played, actual: &Played) -> Result<(), String> {
    for (place, (expected, actual)) in expected.answers.iter().zip(&actual.answers).enumerate() {
        if expected != actual {
            return Err(format!(
                "delivery {place}\n  expected {expected:?}\n       got {actual:?}"
            ));
        }
    }
    if expected.answers.len() != actual.answers.len() {
        return Err(format!("{} answers", actual.answers.len()));
    }
    for (expected, actual) in expected.rows.iter().zip(&actual.rows) {
        if expected != actual {
            return Err(format!("a row\n  expected {expected:?}\n       got {actual:?}"));
        }
    }
    if expected.rows.len() != actual.rows.len() {
        return Err(format!(
            "{} rows where {} were expected",
            actual.rows.len(),
            expected.rows.len()
        ));
    }
    Ok(())
}
