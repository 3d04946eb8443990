//! Gate 6 as the contract says it: counts over all runs, and over all admissions.

use super::{Model, SECOND, Wake};
use crate::serial_model::answer::Answer;
use crate::serial_model::trace::Tight;

/// A wake that was admitted, whatever became of its run.
#[derive(Clone)]
pub struct Admission {
    organization: String,
    producer: String,
    at: i64,
}

/// What is told of the room, where it is not counted.
#[derive(Debug, Clone)]
pub(super) enum Full {
    /// There is room.
    Nothing,
    /// This boundary has none: its depth and its capacity.
    Boundary(String, u64, u32),
}

/// Tokens that nobody knows are one producer.
fn known(producer: &str) -> &str {
    match producer {
        "task_mutation"
        | "task_lifecycle"
        | "onboarding"
        | "recovery_sweep"
        | "workflow_auto_start" => producer,
        _ => "other",
    }
}

impl Model {
    /// The first boundary that has no room for one more run.
    pub(super) fn full(&self, wake: &Wake) -> Option<Answer> {
        match self.told.clone() {
            Some(Full::Nothing) => return None,
            Some(Full::Boundary(boundary, depth, capacity)) => {
                let overload = Some((boundary, depth, capacity));
                return Some(Answer { overload, ..Answer::refused("capacity_exhausted", wake.at) });
            }
            None => {}
        }
        let tight: &Tight = self.tight.as_ref()?;
        let lowered = match wake.organization.as_str() {
            "acme" => tight.acme,
            _ => None,
        };
        let organization = lowered.map_or(tight.organization, |own| own.min(tight.organization));
        let queued = |whose: Option<&str>| {
            let counts = |organization: &str| whose.is_none_or(|whose| whose == organization);
            let queued = self.runs.iter().filter(|run| run.status == "queued");
            queued.filter(|run| counts(&run.organization)).count() as u64
        };
        for (boundary, depth, capacity) in [
            ("queued_runs.platform", queued(None), tight.platform),
            ("queued_runs.organization", queued(Some(&wake.organization)), organization),
            ("intake", self.busiest_minute(wake), tight.intake),
        ] {
            if depth >= u64::from(capacity) {
                return Some(Answer {
                    overload: Some((boundary.to_owned(), depth, capacity)),
                    ..Answer::refused("capacity_exhausted", wake.at)
                });
            }
        }
        None
    }

    /// A minute is six slots of ten seconds; of those that the wake's own slot lies in, the one with
    /// the most admissions.
    fn busiest_minute(&self, wake: &Wake) -> u64 {
        let slot = |at: i64| at.div_euclid(10 * SECOND);
        let own = slot(wake.at);
        let in_minute_from = |start: i64| {
            let counts = |admission: &&Admission| {
                admission.organization == wake.organization
                    && admission.producer == known(&wake.producer)
                    && (start..start + 6).contains(&slot(admission.at))
            };
            self.admissions.iter().filter(counts).count() as u64
        };
        (own - 5..=own).map(in_minute_from).max().unwrap_or(0)
    }

    pub(super) fn admitted(&mut self, wake: &Wake) {
        self.admissions.push(Admission {
            organization: wake.organization.clone(),
            producer: known(&wake.producer).to_owned(),
            at: wake.at,
        });
    }
}
