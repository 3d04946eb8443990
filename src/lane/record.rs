//! Turns decisions into what the store writes and what becomes known of them. Pure.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;

use crate::admission::decision::PriorOutcome;
use crate::admission::limits::{Dimension, Limits};
use crate::admission::{Decided, Decision, Refusal, Shadowed};
use crate::audit::{AuditClass, AuditEvent};
use crate::outcome::{OutcomeKind, OutcomeRecord};
use crate::store::{
    BatchRecord, LaneCursor, LaneKey, MergedRun, MergedWake, NewKey, NewRun, RefusedWake,
    RoomClaim, ShadowedWake,
};
use crate::wake::decode::{Content, Event, Rejection};
use crate::wake::token::token;
use crate::wake::{RunId, UtcMicros, Wake, WakeId};

/// Most bytes of a rejected body that its audit event carries.
pub const AUDIT_BODY_BYTES_MAX: usize = 64 * 1_024;

/// Who decided, when, and under which limits.
#[derive(Debug, Clone, Copy)]
pub struct By<'a> {
    /// What the worker is called.
    pub component: &'a Arc<str>,
    /// When.
    pub at: UtcMicros,
    /// The limits, where there are any.
    pub limits: Option<Limits<'a>>,
    /// Whether gate 6 refuses for them, or is in shadow.
    pub enforced: bool,
}

/// What became of one event.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Label of `wakegate_wakes_total`.
    pub kind: OutcomeKind,
    /// For a wake, what the gates concluded.
    pub decision: Option<Decision>,
    /// The outcome record as JSON, where somebody will read it.
    pub record: Option<String>,
    /// What operators must learn of it.
    pub audit: Option<AuditEvent>,
    /// What gates in shadow would have refused, where they would.
    pub shadow: Option<Box<Shadow>>,
    /// This only repeats what an earlier delivery decided: it moves no metric.
    pub repeat: bool,
}

/// What gates in shadow would have refused a wake for.
#[derive(Debug, Clone, Default)]
pub struct Shadow {
    /// Now; nothing where it is on record from before.
    pub refusals: Vec<Refusal>,
    /// What operators must learn of it, now or again.
    pub audit: Vec<AuditEvent>,
}

impl Outcome {
    /// What operators must learn of it; once.
    pub fn take_audit(&mut self) -> impl Iterator<Item = AuditEvent> + use<> {
        let shadow = self.shadow.as_mut().map(|shadow| std::mem::take(&mut shadow.audit));
        self.audit.take().into_iter().chain(shadow.unwrap_or_default())
    }
}

/// Drafts one transaction for the first events of a batch, with one decision for each wake among
/// them, and says what became of each event. `shadowed` is what is on record of gates in shadow.
///
/// # Panics
/// When there are fewer decisions than wakes, which the caller's prefix rules out.
#[must_use]
pub(crate) fn draft(
    lane: &LaneKey,
    from: LaneCursor,
    events: &[&Event],
    decided: Decided,
    shadowed: HashMap<WakeId, Shadowed>,
    by: &By<'_>,
) -> (BatchRecord, Vec<Outcome>) {
    let mut draft = Draft::new(lane, from, *by);
    let decided_at = by.at;
    draft.shadowed = shadowed;
    let mut decisions = decided.decisions.into_iter().enumerate();
    let mut would_refuse = decided.would_refuse.into_iter().peekable();
    let mut outcomes = Vec::with_capacity(events.len());
    for event in events {
        draft.advance(event);
        outcomes.push(match &event.content {
            Content::Wake(wake) => {
                let (index, decision) =
                    decisions.next().expect("one decision for each wake of the prefix");
                let mut refusals = Vec::new();
                while let Some((_, refusal)) = would_refuse.next_if(|(of, _)| *of == index) {
                    refusals.push(refusal);
                }
                draft.wake(event, wake, decision, refusals)
            }
            Content::NoWake(no_wake) => Outcome {
                kind: OutcomeKind::NoWake,
                decision: None,
                record: event
                    .envelope
                    .outcome_to
                    .is_some()
                    .then(|| OutcomeRecord::of_no_wake(&event.envelope, no_wake, decided_at))
                    .map(|record| record.to_json()),
                audit: None,
                shadow: None,
                repeat: is_past(from, event),
            },
            Content::Rejected(rejection) => {
                rejected(event, rejection, decided_at, is_past(from, event))
            }
        });
    }
    (draft.batch, outcomes)
}

/// What is no wake leaves no row; that it was decided is told by the cursor being past it.
fn is_past(from: LaneCursor, event: &Event) -> bool {
    event.envelope.sequence <= from.decided_sequence
}

struct Draft<'a> {
    batch: BatchRecord,
    by: By<'a>,
    /// Where a run that wakes of this batch joined is written.
    targets: HashMap<RunId, Target>,
    /// What is on record of gates in shadow, by wake.
    shadowed: HashMap<WakeId, Shadowed>,
}

#[derive(Clone, Copy)]
enum Target {
    Inserted(usize),
    Updated(usize),
}

impl<'a> Draft<'a> {
    fn new(lane: &LaneKey, from: LaneCursor, by: By<'a>) -> Self {
        let batch = BatchRecord::new(lane, from, from);
        Self { batch, by, targets: HashMap::new(), shadowed: HashMap::new() }
    }

    /// The fence never runs back: a redelivery of what is decided leaves it where it is.
    fn advance(&mut self, event: &Event) {
        self.batch.covers.push(event.envelope.id);
        if event.envelope.sequence > self.batch.to.decided_sequence {
            self.batch.to = LaneCursor {
                decided_sequence: event.envelope.sequence,
                decided_instant: event.envelope.requested_at,
                known_sequence: self.batch.to.known_sequence,
            };
        }
    }

    fn wake(
        &mut self,
        event: &Event,
        wake: &Arc<Wake>,
        decision: Decision,
        would_refuse: Vec<Refusal>,
    ) -> Outcome {
        match &decision {
            Decision::Admit { degraded } => {
                self.targets.insert(wake.id, Target::Inserted(self.batch.runs.len()));
                self.take_key(wake, wake.id);
                let expires_at = self.take_room(wake);
                self.batch.runs.push(NewRun {
                    wake: Arc::clone(wake),
                    payload: wake.payload.clone(),
                    coalesced_count: 1,
                    degraded: degraded.as_ref().map(crate::admission::Degraded::reason),
                    decided_at: self.by.at,
                    expires_at,
                });
            }
            Decision::Merge { run_id, takes_key } => {
                if *takes_key {
                    self.take_key(wake, *run_id);
                }
                self.join(wake, *run_id);
            }
            Decision::Repeat(_) | Decision::Deduplicate { .. } | Decision::Refuse(_) => {}
        }
        let before = self.shadowed.remove(&wake.id);
        let is_new = before.is_none();
        let mut outcome = describe(event, wake, decision, would_refuse, before, &self.by);
        if is_new && let (Some(shadow), Some(record)) = (&outcome.shadow, &outcome.record) {
            let reasons = shadow.refusals.iter().map(Refusal::as_str).collect();
            let (wake, record) = (Arc::clone(wake), record.clone());
            self.batch.shadowed.push(ShadowedWake { wake, reasons, record });
        }
        if let Some(Decision::Refuse(refusal)) = &outcome.decision {
            let reason = refusal.as_str();
            // Nobody else reads it where nobody asked: a batch of refusals is held once less.
            let record = match event.envelope.outcome_to {
                Some(_) => outcome.record.clone(),
                None => outcome.record.take(),
            };
            let record = record.expect("a refusal is audited, and so has a record");
            self.batch.refusals.push(RefusedWake { wake: Arc::clone(wake), reason, record });
        }
        outcome
    }

    /// Claims the room for a run, and says when the run will have waited too long.
    fn take_room(&mut self, wake: &Wake) -> Option<UtcMicros> {
        let limits = self.by.limits.as_ref()?;
        let claim = self.batch.room.get_or_insert_with(|| RoomClaim::new(limits, self.by.enforced));
        claim.admit(wake, limits);
        let waiting = limits.effective(&wake.organization_id, Dimension::Waiting).max;
        // None may wait, and yet it was let through: then there is no telling for how long.
        (waiting > 0 || self.by.enforced)
            .then(|| self.by.at + Duration::from_secs(u64::from(waiting)))
    }

    fn take_key(&mut self, wake: &Wake, run_id: RunId) {
        if let Some(key) = wake.occurrence.key() {
            self.batch.keys.push(NewKey {
                organization_id: wake.organization_id.clone(),
                idempotency_key: key.clone(),
                run_id,
                requested_at: wake.requested_at,
            });
        }
    }

    /// Folds a merge into the one write of its run.
    fn join(&mut self, wake: &Arc<Wake>, run_id: RunId) {
        self.batch.merged_wakes.push(MergedWake {
            wake: Arc::clone(wake),
            run_id,
            decided_at: self.by.at,
        });
        match self.targets.get(&run_id) {
            Some(&Target::Inserted(index)) => {
                let run = &mut self.batch.runs[index];
                run.payload = wake.payload.clone();
                run.coalesced_count += 1;
            }
            Some(&Target::Updated(index)) => {
                let run = &mut self.batch.merges[index];
                run.payload = wake.payload.clone();
                run.joined += 1;
            }
            None => {
                self.targets.insert(run_id, Target::Updated(self.batch.merges.len()));
                let payload = wake.payload.clone();
                self.batch.merges.push(MergedRun { run_id, payload, joined: 1 });
            }
        }
    }
}

/// A record is made only where somebody will read it: an audit event, or whoever asked. `before` is
/// what is on record of gates in shadow: it is told again as it was, whatever they say now.
fn describe(
    event: &Event,
    wake: &Wake,
    decision: Decision,
    would_refuse: Vec<Refusal>,
    before: Option<Shadowed>,
    by: &By<'_>,
) -> Outcome {
    let kind = kind_of(&decision);
    let audit = audit_of(&decision);
    let in_shadow = before.is_some() || !would_refuse.is_empty();
    let is_read = audit.is_some() || in_shadow || event.envelope.outcome_to.is_some();
    let record = is_read.then(|| match (&decision, &before) {
        (Decision::Repeat(_), Some(before)) => before.record.clone(),
        (Decision::Repeat(PriorOutcome::Refused { record, .. }), None) => record.clone(),
        _ => OutcomeRecord::of_wake(&event.envelope, wake, &decision, &would_refuse, by.at)
            .decided_by(by.component)
            .to_json(),
    });
    let event_of = |class, reason, record: &String| AuditEvent {
        wake_id: wake.id,
        class,
        reason,
        organization_token: token(wake.organization_id.as_str()).into_owned(),
        record: record.clone(),
    };
    let shadow = record.as_ref().filter(|_| in_shadow).map(|record| {
        let event = |reason| event_of(AuditClass::WouldRefuse, reason, record);
        Box::new(match before {
            Some(before) => Shadow {
                refusals: Vec::new(),
                audit: before.reasons.into_iter().map(event).collect(),
            },
            None => Shadow {
                audit: would_refuse.iter().map(|r| event(r.as_str().to_owned())).collect(),
                refusals: would_refuse,
            },
        })
    });
    let audit =
        audit.zip(record.as_ref()).map(|((class, reason), record)| event_of(class, reason, record));
    let repeat = matches!(decision, Decision::Repeat(_));
    Outcome { kind, decision: Some(decision), record, audit, shadow, repeat }
}

fn kind_of(decision: &Decision) -> OutcomeKind {
    match decision {
        Decision::Admit { .. } | Decision::Repeat(PriorOutcome::Queued { .. }) => {
            OutcomeKind::Queued
        }
        Decision::Merge { .. } | Decision::Repeat(PriorOutcome::Coalesced { .. }) => {
            OutcomeKind::Coalesced
        }
        Decision::Deduplicate { .. } | Decision::Repeat(PriorOutcome::Deduplicated { .. }) => {
            OutcomeKind::Deduplicated
        }
        Decision::Refuse(_) | Decision::Repeat(PriorOutcome::Refused { .. }) => {
            OutcomeKind::Refused
        }
    }
}

/// A repeat is published again: the process may have ended between commit and publication, and the
/// stream drops what it has by message id.
fn audit_of(decision: &Decision) -> Option<(AuditClass, String)> {
    match decision {
        Decision::Admit { degraded: Some(degraded) } => {
            Some((AuditClass::Degraded, degraded.reason().as_str().to_owned()))
        }
        Decision::Repeat(PriorOutcome::Queued { degraded: Some(reason), .. }) => {
            Some((AuditClass::Degraded, reason.as_str().to_owned()))
        }
        Decision::Refuse(refusal) => {
            Some((AuditClass::Refused, Refusal::as_str(refusal).to_owned()))
        }
        Decision::Repeat(PriorOutcome::Refused { reason, .. }) => {
            Some((AuditClass::Refused, reason.clone()))
        }
        Decision::Admit { degraded: None }
        | Decision::Merge { .. }
        | Decision::Deduplicate { .. }
        | Decision::Repeat(
            PriorOutcome::Queued { degraded: None, .. }
            | PriorOutcome::Coalesced { .. }
            | PriorOutcome::Deduplicated { .. },
        ) => None,
    }
}

fn rejected(event: &Event, rejection: &Rejection, decided_at: UtcMicros, repeat: bool) -> Outcome {
    let mut record = OutcomeRecord::of_rejection(&event.envelope, rejection, decided_at);
    let reply = record.to_json();
    let body = &rejection.body[..rejection.body.len().min(AUDIT_BODY_BYTES_MAX)];
    record.body_base64 = Some(base64::engine::general_purpose::STANDARD.encode(body));
    Outcome {
        kind: OutcomeKind::Rejected,
        decision: None,
        record: Some(reply),
        audit: Some(AuditEvent {
            wake_id: event.envelope.id,
            class: AuditClass::Rejected,
            reason: rejection.reason.as_str().to_owned(),
            organization_token: event.envelope.organization_token.to_string(),
            record: record.to_json(),
        }),
        shadow: None,
        repeat,
    }
}
