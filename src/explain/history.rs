//! What became of wakes and runs, in order, of what the tables and the audit stream hold.

mod redriven;
mod shadows;

use std::collections::HashSet;
use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;

use crate::store::StoreError;
use crate::store::history::{HistoryStore, KeyRow, MergedRow, RefusedRow, RunRow, TaskKey};
use crate::wake::instant::parse_rfc_3339;
use crate::wake::{RunId, TASK_ASSIGNED, UtcMicros, WakeId};

/// Something that happened to a wake or a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Entry {
    /// When: of a wake, its request instant.
    pub at: UtcMicros,
    /// What.
    pub what: What,
    /// The wake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wake_id: Option<WakeId>,
    /// The run that it made, or met.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// The tenant.
    pub organization_id: String,
    /// The task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Why it was refused, rejected or degraded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The rest in words.
    pub detail: String,
    /// The outcome record, where one is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<Value>,
    /// Where it is on record.
    pub from: Source,
}

/// What can happen; of equal instants in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A key was seen first.
    KeyTaken,
    /// A wake made a run.
    Admitted,
    /// A wake joined a run.
    Coalesced,
    /// A gate declined a wake.
    Refused,
    /// A wake was admitted though a gate could not do its work.
    Degraded,
    /// A gate in shadow would have declined a wake.
    WouldRefuse,
    /// An event was no wake.
    Rejected,
    /// Wakes were removed from the stream undecided.
    Lost,
    /// An operator had a wake published again.
    Redriven,
    /// A runner took the run.
    Claimed,
    /// The run ended.
    Ended,
}

impl What {
    /// As printed.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::KeyTaken => "key taken",
            Self::Admitted => "admitted",
            Self::Coalesced => "coalesced",
            Self::Refused => "refused",
            Self::Degraded => "degraded",
            Self::WouldRefuse => "would refuse",
            Self::Rejected => "rejected",
            Self::Lost => "lost",
            Self::Redriven => "redriven",
            Self::Claimed => "claimed",
            Self::Ended => "ended",
        }
    }

    /// By the class of an audit event.
    fn of_class(class: &str) -> Option<Self> {
        [Self::Refused, Self::Degraded, Self::WouldRefuse, Self::Rejected, Self::Lost]
            .into_iter()
            .find(|what| what.as_str().replace(' ', "_") == class)
    }
}

/// Where something is on record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// `runs`
    Runs,
    /// `merged_wakes`
    MergedWakes,
    /// `refused_wakes`
    RefusedWakes,
    /// `shadowed_wakes`
    ShadowedWakes,
    /// `wake_keys`
    WakeKeys,
    /// `redrives`
    Redrives,
    /// `WAKE_AUDIT`
    Audit,
}

/// What was found.
#[derive(Debug, Clone, Default)]
pub struct History {
    entries: Vec<Entry>,
    /// What was cut off at the limit.
    pub cut: Vec<Source>,
}

impl History {
    /// Everything found, in order.
    #[must_use]
    pub fn entries(mut self) -> Vec<Entry> {
        self.entries.sort_by_key(|entry| (entry.at, entry.what, entry.wake_id));
        self.entries
    }

    /// Whether nothing was found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What the tables hold of a wake or run: the run itself and the newest `limit` wakes that
    /// joined it, or the wake, with the run that it joined.
    ///
    /// # Errors
    /// The database cannot be asked.
    pub async fn of_id(
        store: &impl HistoryStore,
        id: WakeId,
        limit: u32,
    ) -> Result<Self, StoreError> {
        let mut history = Self::default();
        if let Some(run) = store.run(id).await? {
            history.joined(store, &run, limit).await?;
            history.run(&run);
        } else if let Some(merged) = store.merged_wake(id).await? {
            let run = store.run(merged.run_id).await?;
            history.merged(&merged, run.as_ref());
            if let Some(run) = run {
                history.run(&run);
            }
        } else if let Some(refused) = store.refused_wake(id).await? {
            history.refused(refused);
        }
        // Of a duplicate that is all there is.
        history.would_refuse(store, Some(id)).await?;
        Ok(history)
    }

    /// What the tables hold of a task: the newest `limit` of its runs, of the wakes that joined each,
    /// and of its refusals; and the keys derived for it whose runs are gone.
    ///
    /// # Errors
    /// The database cannot be asked.
    pub async fn of_task(
        store: &impl HistoryStore,
        task: &TaskKey,
        limit: u32,
    ) -> Result<Self, StoreError> {
        let mut history = Self::default();
        let runs = store.runs_of_task(task, None, limit).await?;
        history.cut_at(limit, runs.len(), Source::Runs);
        for run in &runs {
            history.joined(store, run, limit).await?;
            history.run(run);
        }
        let refusals = store.refused_of_task(task, limit).await?;
        history.cut_at(limit, refusals.len(), Source::RefusedWakes);
        for refusal in refusals {
            history.refused(refusal);
        }
        history.would_refuse(store, None).await?;
        let (from, to) = derived_keys(&task.task_id);
        let keys = store.keys_between(&task.organization_id, &from, &to, limit).await?;
        history.cut_at(limit, keys.len(), Source::WakeKeys);
        let known: HashSet<RunId> = runs.iter().map(|run| run.id).collect();
        for key in keys {
            if !known.contains(&key.run_id) && store.run(key.run_id).await?.is_none() {
                history.key(key, task);
            }
        }
        Ok(history)
    }

    /// Adds an event of the audit stream, unless the tables say the same of its wake.
    pub fn audited(&mut self, class: &str, record: Value) {
        let Some(what) = What::of_class(class) else { return };
        let text = |name: &str| record.get(name).and_then(Value::as_str).map(str::to_owned);
        let instant = |name: &str| text(name).and_then(|text| parse_rfc_3339(&text));
        let wake_id =
            text("wake_id").and_then(|id| id.parse::<uuid::Uuid>().ok()).map(WakeId::from);
        // A degraded admission is the run's own column, where there is the run.
        let same = |entry: &Entry| {
            entry.wake_id == wake_id
                && (entry.what == what || (entry.what, what) == (What::Admitted, What::Degraded))
        };
        if self.entries.iter().any(same) {
            return;
        }
        let entry = Entry {
            at: instant("requested_at").or_else(|| instant("decided_at")).unwrap_or_default(),
            what,
            wake_id,
            run_id: text("run_id").and_then(|id| id.parse::<uuid::Uuid>().ok()).map(RunId::from),
            organization_id: text("organization_id").unwrap_or_default(),
            task_id: text("task_id"),
            reason: match what {
                What::WouldRefuse => shadows::reasons(&record),
                _ => text("degraded_reason").or_else(|| text("reason")),
            },
            detail: of_record(&record),
            record: Some(record),
            from: Source::Audit,
        };
        self.entries.push(entry);
    }

    async fn joined(
        &mut self,
        store: &impl HistoryStore,
        run: &RunRow,
        limit: u32,
    ) -> Result<(), StoreError> {
        // The count says whether there is anything to look for.
        if run.coalesced_count > 1 {
            let merged = store.merged_into(run.id, limit).await?;
            self.cut_at(limit, merged.len(), Source::MergedWakes);
            for wake in &merged {
                self.merged(wake, Some(run));
            }
        }
        Ok(())
    }

    fn cut_at(&mut self, limit: u32, found: usize, source: Source) {
        if found >= limit as usize && !self.cut.contains(&source) {
            self.cut.push(source);
        }
    }

    fn run(&mut self, run: &RunRow) {
        let mut detail = format!(
            "agent \"{}\", reason \"{}\", now {}",
            run.agent_profile_id, run.reason, run.status
        );
        if let Some(key) = &run.idempotency_key {
            let _ = write!(detail, ", key \"{key}\"");
        }
        let blank = Entry {
            at: run.requested_at,
            what: What::Admitted,
            wake_id: Some(run.id),
            run_id: Some(run.id),
            organization_id: run.organization_id.clone(),
            task_id: run.task_id.clone(),
            reason: run.degraded_reason.clone(),
            detail,
            record: None,
            from: Source::Runs,
        };
        if let Some(at) = run.claimed_at {
            let detail = "by a runner".to_owned();
            let (what, wake_id, reason) = (What::Claimed, None, None);
            self.entries.push(Entry { at, what, wake_id, reason, detail, ..blank.clone() });
        }
        if let Some(at) = run.finished_at {
            let (what, wake_id, reason) = (What::Ended, None, None);
            let detail = run.status.clone();
            self.entries.push(Entry { at, what, wake_id, reason, detail, ..blank.clone() });
        }
        self.entries.push(blank);
    }

    fn merged(&mut self, wake: &MergedRow, run: Option<&RunRow>) {
        let mut detail = format!("into run {}", wake.run_id);
        if run.is_none() {
            detail += ", whose row is gone";
        }
        if let Some(key) = &wake.idempotency_key {
            let _ = write!(detail, ", key \"{key}\"");
        }
        self.entries.push(Entry {
            at: wake.requested_at,
            what: What::Coalesced,
            wake_id: Some(wake.wake_id),
            run_id: Some(wake.run_id),
            organization_id: wake.organization_id.clone(),
            // Only a wake of the run's own task joins it.
            task_id: run.and_then(|run| run.task_id.clone()),
            reason: None,
            detail,
            record: None,
            from: Source::MergedWakes,
        });
    }

    fn refused(&mut self, row: RefusedRow) {
        let record: Option<Value> = serde_json::from_str(&row.record).ok();
        self.entries.push(Entry {
            at: row.requested_at,
            what: What::Refused,
            wake_id: Some(row.wake_id),
            run_id: None,
            organization_id: row.organization_id,
            task_id: row.task_id,
            reason: Some(row.reason),
            detail: record.as_ref().map(of_record).unwrap_or_default(),
            record,
            from: Source::RefusedWakes,
        });
    }

    fn key(&mut self, row: KeyRow, task: &TaskKey) {
        self.entries.push(Entry {
            at: row.requested_at,
            what: What::KeyTaken,
            wake_id: None,
            run_id: Some(row.run_id),
            organization_id: row.organization_id,
            task_id: Some(task.task_id.clone()),
            reason: None,
            detail: format!("key \"{}\"; the run's row is gone", row.idempotency_key),
            record: None,
            from: Source::WakeKeys,
        });
    }
}

/// The bounds of the keys that are derived from a task's assignments: `;` follows `:`.
fn derived_keys(task_id: &str) -> (String, String) {
    let task = crate::wake::escaped_for_key(task_id);
    (format!("{TASK_ASSIGNED}:{task}:"), format!("{TASK_ASSIGNED}:{task};"))
}

/// What a record adds to its outcome and reason.
#[must_use]
pub fn of_record(record: &Value) -> String {
    let names = [
        ("agent_profile_id", "agent"),
        ("observed_count", "counted"),
        ("retry_at", "the next fits at"),
        ("pause_id", "pause"),
        ("fault", "fault"),
        ("idempotency_key", "key"),
    ];
    let parts = names.iter().filter_map(|(field, words)| {
        let value = record.get(*field)?;
        let quoted = ["agent_profile_id", "pause_id", "idempotency_key"].contains(field);
        Some(match value.as_str() {
            Some(text) if quoted => format!("{words} \"{text}\""),
            Some(text) => format!("{words} {text}"),
            None => format!("{words} {value}"),
        })
    });
    parts.collect::<Vec<_>>().join(", ")
}
