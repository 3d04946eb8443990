//! What `wakegate redrive` tells: a line a wake, and counts.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use crate::cli::table::{Form, Side, Table, json_line, seconds, shown, wrapped};
use crate::redrive::{Candidate, Chosen, Found, Posted, Verdict};
use crate::store::redrive::Redrive;
use crate::wake::{UtcMicros, WakeId};

/// What becomes of a wake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Of a preview: it is published again.
    WouldPublish,
    /// Of a preview: a redrive of it was cut short, and is finished.
    WouldFinish,
    /// It was published again.
    Published,
    /// It was on the stream again already, of a redrive that was cut short.
    Finished,
    /// It was published again before, and is not now.
    Already,
    /// The stream has it no longer.
    Gone,
    /// It cannot be published.
    Unusable,
}

impl State {
    const ALL: [Self; 7] = [
        Self::WouldPublish,
        Self::WouldFinish,
        Self::Published,
        Self::Finished,
        Self::Already,
        Self::Gone,
        Self::Unusable,
    ];

    /// For people.
    const fn words(self) -> &'static str {
        match self {
            Self::WouldPublish => "would be published",
            Self::WouldFinish => "would be finished",
            Self::Published => "published",
            Self::Finished => "finished",
            Self::Already => "already published",
            Self::Gone => "gone",
            Self::Unusable => "unusable",
        }
    }
}

/// One wake.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// The wake.
    pub wake_id: WakeId,
    /// `refused` or `rejected`.
    pub outcome: &'static str,
    /// Why it was.
    pub outcome_reason: String,
    /// Whose it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub organization_id: Option<String>,
    /// Its task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// When it was requested.
    pub requested_at: UtcMicros,
    /// Where it is, or was, on the stream.
    pub stream_sequence: u64,
    /// What becomes of it.
    pub state: State,
    /// Why it cannot be published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// Its redrive, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redrive: Option<Record>,
    #[serde(skip)]
    verdict: Verdict,
}

/// A redrive as it is printed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Record {
    /// How many times the wake was to be published again, this one included.
    pub ordinal: u32,
    /// Who.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// When it began.
    pub created_at: UtcMicros,
    /// The new wake; absent where the redrive was cut short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published_wake_id: Option<WakeId>,
    /// Its sequence on the stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published_sequence: Option<u64>,
    /// When it was known to be there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published_at: Option<UtcMicros>,
}

impl From<&Redrive> for Record {
    fn from(redrive: &Redrive) -> Self {
        Self {
            ordinal: redrive.ordinal,
            actor: redrive.actor.clone(),
            reason: redrive.reason.clone(),
            created_at: redrive.created_at,
            published_wake_id: redrive.published.map(|published| published.wake_id),
            published_sequence: redrive.published.map(|published| published.sequence),
            published_at: redrive.published.map(|published| published.at),
        }
    }
}

impl Line {
    /// A wake in this state, with its last redrive.
    #[must_use]
    pub fn of(candidate: &Candidate, state: State) -> Self {
        let Chosen { wake_id, verdict, reason, organization_id, task_id, requested_at, sequence } =
            candidate.chosen.clone();
        Self {
            wake_id,
            outcome: verdict.as_str(),
            outcome_reason: reason,
            organization_id,
            task_id,
            requested_at,
            stream_sequence: sequence,
            state,
            fault: None,
            redrive: candidate.last.as_ref().map(Record::from),
            verdict,
        }
    }

    /// A wake of which this became.
    #[must_use]
    pub fn posted(candidate: &Candidate, posted: Posted) -> Self {
        let (state, redrive, fault) = match posted {
            Posted::Published { redrive, before: false } => (State::Published, Some(redrive), None),
            Posted::Published { redrive, before: true } => (State::Finished, Some(redrive), None),
            Posted::Already(redrive) => (State::Already, Some(redrive), None),
            Posted::Gone => (State::Gone, candidate.last.clone(), None),
            Posted::Unusable(why) => (State::Unusable, candidate.last.clone(), Some(why)),
        };
        let redrive = redrive.as_ref().map(Record::from);
        Self { fault, redrive, ..Self::of(candidate, state) }
    }

    /// As text or JSON.
    #[must_use]
    pub fn written(&self, form: Form) -> String {
        let Form::Table { width } = form else { return json_line(self) };
        let mut text = String::new();
        let reason = shown(&self.outcome_reason);
        let head = format!("{}  {:<8}  {reason}", self.wake_id, self.outcome);
        let _ = writeln!(text, "{}", wrapped(&head, 4, width));
        let task =
            self.task_id.as_ref().map_or("no task".to_owned(), |id| format!("task \"{id}\""));
        let organization = self.organization_id.as_ref();
        let whose = organization.map_or_else(String::new, |id| format!(", organization \"{id}\""));
        let mut detail = format!(
            "{}: requested {}, {task}{whose}",
            self.state.words(),
            seconds(self.requested_at)
        );
        if self.state == State::Gone {
            let _ = write!(detail, "; the stream has no sequence {} of it", self.stream_sequence);
        }
        if let Some(fault) = &self.fault {
            let _ = write!(detail, "; {fault}");
        }
        if let Some(redrive) = &self.redrive {
            let _ = match redrive.published_wake_id {
                Some(id) => write!(
                    detail,
                    "; by \"{}\" at {} as wake {id}: {}",
                    redrive.actor,
                    seconds(redrive.created_at),
                    redrive.reason
                ),
                None => write!(
                    detail,
                    "; begun by \"{}\" at {}: {}",
                    redrive.actor,
                    seconds(redrive.created_at),
                    redrive.reason
                ),
            };
        }
        let _ = writeln!(text, "    {}", wrapped(&shown(&detail), 4, width));
        text
    }
}

/// How many wakes came to what, by what became of them before and why.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    counts: BTreeMap<(Verdict, String), BTreeMap<State, u64>>,
}

impl Tally {
    /// With what was published again already and is told of by its number only.
    #[must_use]
    pub fn of(found: &Found) -> Self {
        let mut tally = Self::default();
        for ((verdict, reason), wakes) in &found.done {
            tally.count(*verdict, reason, State::Already, *wakes);
        }
        tally
    }

    /// Counts a line.
    pub fn add(&mut self, line: &Line) {
        self.count(line.verdict, &line.outcome_reason, line.state, 1);
    }

    fn count(&mut self, verdict: Verdict, reason: &str, state: State, wakes: u64) {
        let states = self.counts.entry((verdict, reason.to_owned())).or_default();
        *states.entry(state).or_default() += wakes;
    }

    fn total(&self, states: &[State]) -> u64 {
        self.counts.values().flat_map(|by| states.iter().filter_map(|state| by.get(state))).sum()
    }

    /// Those that would be published.
    #[must_use]
    pub fn would(&self) -> u64 {
        self.total(&[State::WouldPublish, State::WouldFinish])
    }

    /// Those that were asked for and cannot be published.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.total(&[State::Gone, State::Unusable])
    }

    /// The counts, in a table with a column for each state that there is.
    #[must_use]
    pub fn table(&self, width: u16, colours: bool) -> String {
        if self.counts.is_empty() {
            return "nothing is to be published again\n".to_owned();
        }
        let states: Vec<State> =
            State::ALL.into_iter().filter(|state| self.total(&[*state]) > 0).collect();
        let mut columns = vec![("outcome", Side::Left), ("reason", Side::Left)];
        columns.extend(states.iter().map(|state| (state.words(), Side::Right)));
        let mut table = Table::new(&columns);
        for ((verdict, reason), by) in &self.counts {
            let numbers =
                states.iter().map(|state| by.get(state).copied().unwrap_or(0).to_string());
            table.row([verdict.as_str().to_owned(), reason.clone()].into_iter().chain(numbers));
        }
        table.render(width, colours)
    }
}
