//! One wake's way through the gates, and when it would be another one.
//!
//! No rule is written here: what a gate concludes is its own check's answer, what it saw its own
//! sight, and an instant counts as a change only where the gate itself answers differently then.

use crate::admission::decision::{Decision, Degraded, Refusal};
use crate::admission::engine::{self, Hold, decide_batch};
use crate::admission::facts::{Facts, ReadFailure};
use crate::admission::gates::{GATES, Gate, GateName, Posture, Verdict};
use crate::admission::shadow::Shadows;
use crate::admission::sight::Sight;
use crate::wake::{UtcMicros, Wake};

/// A wake's way through the gates.
#[derive(Debug, Clone)]
pub struct Walk {
    /// Every gate, in order.
    pub gates: Vec<GateLine>,
    /// What is decided, or why nothing is.
    pub answer: Result<Decision, Hold>,
    /// What gates in shadow would refuse it for, in their order.
    pub would_refuse: Vec<Refusal>,
    /// The first instant after the wake's at which, nothing else happening, the answer is another
    /// one: another outcome, reason or run. How many are counted is no part of it.
    pub changes_at: Option<UtcMicros>,
}

/// One gate.
#[derive(Debug, Clone)]
pub struct GateLine {
    /// Which.
    pub gate: GateName,
    /// It refuses nothing, and says what it would refuse.
    pub in_shadow: bool,
    /// What it looked at and saw; nothing where it was not reached, or could not read.
    pub sight: Option<Sight>,
    /// What it concluded.
    pub conclusion: Conclusion,
    /// As [`Walk::changes_at`], of this gate's answer alone.
    pub changes_at: Option<UtcMicros>,
}

/// What a gate concluded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Conclusion {
    /// The next gate is asked.
    Passes,
    /// The next gate is asked, and an admission carries a note.
    PassesDegraded(Degraded),
    /// Decided here.
    Concludes(Decision),
    /// It is in shadow and would refuse: the next gate is asked all the same.
    WouldRefuse(Refusal),
    /// It could not read and is open: the next gate is asked, and an admission carries a note.
    CannotRead(ReadFailure),
    /// It could not read and is not open: the lane waits.
    Holds(Hold),
    /// An earlier gate decided.
    NotReached,
}

/// Walks the gates for one wake.
///
/// # Panics
/// Never: a batch of one is decided or held.
#[must_use]
pub fn walk(facts: &Facts, wake: &Wake, shadows: Shadows) -> Walk {
    let mut gates = Vec::with_capacity(GATES.len());
    let mut reached = true;
    for gate in GATES {
        let in_shadow = shadows.has(gate.name);
        let line = if reached {
            look(&gate, facts, wake, in_shadow)
        } else {
            GateLine::not_reached(gate.name, in_shadow)
        };
        reached &= !matches!(line.conclusion, Conclusion::Concludes(_) | Conclusion::Holds(_));
        gates.push(line);
    }
    let mut decided = decide_batch(&mut facts.clone(), &[wake], shadows);
    let answer = match (decided.decisions.pop(), decided.held) {
        (Some(decision), _) => Ok(decision),
        (None, held) => Err(held.expect("a batch of one is decided or held")),
    };
    // Also of gates that were not reached: they answer once the one that concluded does not.
    let edges = GATES.iter().filter_map(|gate| (gate.sight)(facts, wake).ok());
    let edges = edges.flat_map(|sight| sight.edges).collect();
    let changes_at = match &answer {
        Err(_) => None,
        Ok(now) => first_change(wake, edges, |later| {
            engine::decide(facts, later, shadows)
                .is_ok_and(|(decision, _)| same_decision(now, &decision))
        }),
    };
    let would_refuse = decided.would_refuse.into_iter().map(|(_, refusal)| refusal).collect();
    Walk { gates, answer, would_refuse, changes_at }
}

impl GateLine {
    fn not_reached(gate: GateName, in_shadow: bool) -> Self {
        let conclusion = Conclusion::NotReached;
        Self { gate, in_shadow, sight: None, conclusion, changes_at: None }
    }
}

fn look(gate: &Gate, facts: &Facts, wake: &Wake, in_shadow: bool) -> GateLine {
    let verdict = (gate.check)(facts, wake);
    let sight = (gate.sight)(facts, wake).ok();
    let edges = sight.iter().flat_map(|sight| sight.edges.iter().copied()).collect();
    let changes_at =
        first_change(wake, edges, |later| same_verdict(&verdict, &(gate.check)(facts, later)));
    let conclusion = match verdict {
        Ok(Verdict::Pass) => Conclusion::Passes,
        Ok(Verdict::PassDegraded(note)) => Conclusion::PassesDegraded(note),
        Ok(Verdict::Conclude(Decision::Refuse(refusal))) if in_shadow => {
            Conclusion::WouldRefuse(refusal)
        }
        Ok(Verdict::Conclude(decision)) => Conclusion::Concludes(decision),
        Err(failure) => match gate.posture {
            Posture::Open => Conclusion::CannotRead(failure),
            posture @ (Posture::Hold | Posture::Closed) => {
                Conclusion::Holds(Hold { gate: gate.name, posture, failure })
            }
        },
    };
    GateLine { gate: gate.name, in_shadow, sight, conclusion, changes_at }
}

/// The first of these instants, after the wake's own, at which it is not the same.
fn first_change(
    wake: &Wake,
    mut edges: Vec<UtcMicros>,
    same: impl Fn(&Wake) -> bool,
) -> Option<UtcMicros> {
    edges.retain(|edge| *edge > wake.requested_at);
    edges.sort_unstable();
    edges.dedup();
    let mut later = wake.clone();
    edges.into_iter().find(|edge| {
        later.requested_at = *edge;
        !same(&later)
    })
}

fn same_verdict(one: &Result<Verdict, ReadFailure>, other: &Result<Verdict, ReadFailure>) -> bool {
    match (one, other) {
        (Ok(Verdict::Conclude(one)), Ok(Verdict::Conclude(other))) => same_decision(one, other),
        (one, other) => one == other,
    }
}

/// Whether two decisions are one answer.
#[must_use]
pub fn same_decision(one: &Decision, other: &Decision) -> bool {
    match (one, other) {
        (Decision::Refuse(one), Decision::Refuse(other)) => match (one, other) {
            (Refusal::AllowanceExhausted { .. }, Refusal::AllowanceExhausted { .. }) => true,
            (Refusal::CapacityExhausted(one), Refusal::CapacityExhausted(other)) => {
                (one.boundary, one.layer) == (other.boundary, other.layer)
            }
            (one, other) => one == other,
        },
        (one, other) => one == other,
    }
}
