//! Which wakes are to be published again: refusals from the database, rejections, which leave no row,
//! from the audit stream.

use std::collections::{BTreeMap, HashMap, HashSet};

use async_nats::jetstream::Context;
use serde_json::Value;
use std::time::Duration;
use uuid::Uuid;

use super::Verdict;
use crate::audit::AuditClass;
use crate::audit::past::{PastError, past};
use crate::store::StoreError;
use crate::store::history::{HistoryStore, RefusedRow};
use crate::store::redrive::{Redrive, RedriveStore};
use crate::wake::instant::parse_rfc_3339;
use crate::wake::token::token;
use crate::wake::{OrganizationId, UtcMicros, WakeId};

/// Refusals that one statement reads.
const PAGE_ROWS: u32 = 500;
/// How far the clocks of the stream's servers may be apart: a rejection is looked for from so much
/// before its wake was stored.
const CLOCKS_APART_MAX: Duration = Duration::from_hours(1);

/// What is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choice {
    /// These wakes and no others; the rest below still holds. Empty is any.
    pub wakes: Vec<WakeId>,
    /// What became of them. Empty is either.
    pub verdicts: Vec<Verdict>,
    /// Why. Empty is whyever.
    pub reasons: Vec<String>,
    /// Whose.
    pub organization: Option<OrganizationId>,
    /// Requested at or after this.
    pub since: Option<UtcMicros>,
    /// Requested before this.
    pub until: Option<UtcMicros>,
    /// Also those that were published again already.
    pub again: bool,
    /// Most wakes; those that were published again already are none of them.
    pub wakes_max: usize,
}

/// A wake that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// The wake.
    pub wake_id: WakeId,
    /// What became of it.
    pub verdict: Verdict,
    /// Why.
    pub reason: String,
    /// Whose it is, where its body could be read.
    pub organization_id: Option<String>,
    /// Its task.
    pub task_id: Option<String>,
    /// When it was requested.
    pub requested_at: UtcMicros,
    /// Its sequence on the stream.
    pub sequence: u64,
}

/// A wake that is asked for, with its last redrive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The wake.
    pub chosen: Chosen,
    /// The last time it was published again, or was to be.
    pub last: Option<Redrive>,
}

impl Candidate {
    /// It was published again, and is not asked for again.
    #[must_use]
    pub fn is_done(&self, again: bool) -> bool {
        !again && self.last.as_ref().is_some_and(|last| last.published.is_some())
    }
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// In the order of the stream. Those that were published again already only where they were asked
    /// for by id.
    pub candidates: Vec<Candidate>,
    /// The others that were published again already, by what became of them and why.
    pub done: BTreeMap<(Verdict, String), u64>,
    /// Asked for by id, and neither refused nor rejected as far as is known.
    pub unknown: Vec<WakeId>,
    /// There are more than were asked for.
    pub more: bool,
    /// The audit stream holds more than one reading takes: rejections may be missing.
    pub unread: bool,
}

/// Why nothing could be chosen.
#[derive(Debug, thiserror::Error)]
pub enum ChooseError {
    /// The database does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The audit stream does not.
    #[error(transparent)]
    Audit(#[from] PastError),
}

impl Choice {
    fn takes(&self, wake: &Chosen) -> bool {
        let whose = match (&self.organization, &wake.organization_id) {
            (Some(wanted), Some(found)) => wanted.as_str() == found,
            // Told by the subject, which is all there is of a body that cannot be read.
            (_, None) | (None, _) => true,
        };
        whose
            && (self.wakes.is_empty() || self.wakes.contains(&wake.wake_id))
            && (self.verdicts.is_empty() || self.verdicts.contains(&wake.verdict))
            && (self.reasons.is_empty() || self.reasons.contains(&wake.reason))
            && self.since.is_none_or(|since| wake.requested_at >= since)
            && self.until.is_none_or(|until| wake.requested_at < until)
    }

    fn wants(&self, verdict: Verdict) -> bool {
        self.verdicts.is_empty() || self.verdicts.contains(&verdict)
    }
}

/// Finds what is asked for.
///
/// # Errors
/// A server does not answer.
pub async fn choose<S: HistoryStore + RedriveStore>(
    store: &S,
    context: &Context,
    choice: &Choice,
) -> Result<Found, ChooseError> {
    let mut found = Found::default();
    if choice.wants(Verdict::Refused) {
        if choice.wakes.is_empty() {
            refused(store, choice, &mut found).await?;
        } else {
            for id in &choice.wakes {
                let row = store.refused_wake(*id).await?;
                found.add(store, choice, row.and_then(of_row).into_iter().collect()).await?;
            }
        }
    }
    let known: HashSet<WakeId> = found.candidates.iter().map(|one| one.chosen.wake_id).collect();
    let missing: Vec<WakeId> =
        choice.wakes.iter().copied().filter(|id| !known.contains(id)).collect();
    if choice.wants(Verdict::Rejected) && (choice.wakes.is_empty() || !missing.is_empty()) {
        rejected(store, context, choice, &missing, &mut found).await?;
    }
    found.candidates.sort_by_key(|one| (one.chosen.sequence, one.chosen.wake_id));
    let known: HashSet<WakeId> = found.candidates.iter().map(|one| one.chosen.wake_id).collect();
    found.unknown = missing.into_iter().filter(|id| !known.contains(id)).collect();
    if found.candidates.len() > choice.wakes_max {
        found.candidates.truncate(choice.wakes_max);
        found.more = true;
    }
    Ok(found)
}

impl Found {
    /// Adds those that are asked for, with what is on record of them.
    async fn add<S: RedriveStore>(
        &mut self,
        store: &S,
        choice: &Choice,
        mut wakes: Vec<Chosen>,
    ) -> Result<(), StoreError> {
        wakes.retain(|wake| choice.takes(wake));
        let ids: Vec<WakeId> = wakes.iter().map(|wake| wake.wake_id).collect();
        let mut last: HashMap<WakeId, Redrive> = HashMap::new();
        // In order of ordinals, so that the last one stays.
        for redrive in store.redrives(&ids).await? {
            last.insert(redrive.wake_id, redrive);
        }
        for chosen in wakes {
            let last = last.remove(&chosen.wake_id);
            let candidate = Candidate { chosen, last };
            if candidate.is_done(choice.again) && choice.wakes.is_empty() {
                let Chosen { verdict, reason, .. } = candidate.chosen;
                *self.done.entry((verdict, reason)).or_default() += 1;
            } else {
                self.candidates.push(candidate);
            }
        }
        Ok(())
    }
}

/// Goes through the refusals in order of ids, which begin with the instant at which the stream stored
/// the wake, until there are enough.
async fn refused<S: RedriveStore>(
    store: &S,
    choice: &Choice,
    found: &mut Found,
) -> Result<(), StoreError> {
    // A request instant may be a lane's last one, later than the stream's own by less than a minute.
    let early = Duration::from_mins(1);
    let mut from = WakeId::first_at(choice.since.unwrap_or_default() - early);
    while found.candidates.len() <= choice.wakes_max {
        let page = store.refused_from(from, PAGE_ROWS).await?;
        let Some(last) = page.last() else { break };
        let (last, whole) = (last.wake_id, page.len() >= PAGE_ROWS as usize);
        found.add(store, choice, page.into_iter().filter_map(of_row).collect()).await?;
        let later = choice.until.is_some_and(|until| last >= WakeId::first_at(until));
        // The next id there can be.
        let Some(next) = last.uuid().as_u128().checked_add(1) else { break };
        if !whole || later {
            break;
        }
        from = WakeId::from(Uuid::from_u128(next));
    }
    Ok(())
}

async fn rejected<S: RedriveStore>(
    store: &S,
    context: &Context,
    choice: &Choice,
    missing: &[WakeId],
    found: &mut Found,
) -> Result<(), ChooseError> {
    let stored = missing.iter().filter_map(|id| id.stored_at()).min();
    let since = if missing.is_empty() { choice.since } else { stored };
    let organization = choice.organization.as_ref().map(|id| token(id.as_str()));
    // An event is published at least once.
    let mut wakes: BTreeMap<WakeId, Chosen> = BTreeMap::new();
    let read = past(
        context,
        Some(AuditClass::Rejected),
        organization.as_deref(),
        since.map(|since| since - CLOCKS_APART_MAX),
        |_, record| {
            if let Some(wake) = of_record(&record)
                && choice.takes(&wake)
            {
                wakes.insert(wake.wake_id, wake);
            }
        },
    );
    found.unread = !read.await?;
    let wakes: Vec<Chosen> = wakes.into_values().collect();
    for page in wakes.chunks(PAGE_ROWS as usize) {
        found.add(store, choice, page.to_vec()).await?;
    }
    Ok(())
}

fn of_row(row: RefusedRow) -> Option<Chosen> {
    let record: Value = serde_json::from_str(&row.record).ok()?;
    Some(Chosen {
        wake_id: row.wake_id,
        verdict: Verdict::Refused,
        reason: row.reason,
        organization_id: Some(row.organization_id),
        task_id: row.task_id,
        requested_at: row.requested_at,
        sequence: record["stream_sequence"].as_u64()?,
    })
}

fn of_record(record: &Value) -> Option<Chosen> {
    let text = |name: &str| record[name].as_str().map(str::to_owned);
    Some(Chosen {
        wake_id: text("wake_id")?.parse::<Uuid>().map(WakeId::from).ok()?,
        verdict: Verdict::Rejected,
        reason: text("reason")?,
        organization_id: text("organization_id"),
        task_id: text("task_id"),
        requested_at: parse_rfc_3339(record["requested_at"].as_str()?)?,
        sequence: record["stream_sequence"].as_u64()?,
    })
}
