//! What is compared: the answer to each delivery, and the rows a trace leaves.

use serde_json::Value;

/// What became of one delivery, as far as the contract fixes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub outcome: String,
    /// Why it was refused, or the kind of duplicate.
    pub reason: Option<String>,
    pub degraded: Option<String>,
    /// The run it made or met, by the index of the event that created it.
    pub run: Option<usize>,
    pub observed: Option<u64>,
    pub retry_at: Option<i64>,
    pub pause: Option<String>,
    /// What was full, how much was there, and how much may be.
    pub overload: Option<(String, u64, u32)>,
    pub requested_at: i64,
    /// What gates in shadow would have refused, in words.
    pub would_refuse: Vec<String>,
}

impl Answer {
    pub fn of(outcome: &str, requested_at: i64) -> Self {
        Self {
            outcome: outcome.to_owned(),
            reason: None,
            degraded: None,
            run: None,
            observed: None,
            retry_at: None,
            pause: None,
            overload: None,
            requested_at,
            would_refuse: Vec::new(),
        }
    }

    pub fn refused(reason: &str, requested_at: i64) -> Self {
        Self { reason: Some(reason.to_owned()), ..Self::of("refused", requested_at) }
    }

    /// A refusal as a gate in shadow tells it.
    pub fn in_words(&self) -> String {
        let reason = self.reason.as_deref();
        let pause = self.pause.as_deref();
        words(reason, self.observed, self.retry_at, pause, self.overload.as_ref())
    }

    /// The answer to another delivery of the same wake. No row says of which kind a duplicate was,
    /// nor when what left none was requested.
    #[must_use]
    pub fn again(mut self) -> Self {
        if self.outcome == "deduplicated" || self.outcome == "no_wake" {
            self.reason = None;
            self.requested_at = 0;
        }
        self
    }
}

/// What a gate in shadow would have refused, in words that can be compared.
pub fn words(
    reason: Option<&str>,
    observed: Option<u64>,
    retry_at: Option<i64>,
    pause: Option<&str>,
    overload: Option<&(String, u64, u32)>,
) -> String {
    format!("{reason:?} {observed:?} {retry_at:?} {pause:?} {overload:?}")
}

/// A row of `runs`, its id by the index of the event that created it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub run: usize,
    pub organization: String,
    pub agent: String,
    pub status: String,
    pub payload: Value,
    pub task: Option<String>,
    pub actor_type: Option<String>,
    pub actor_id: Option<String>,
    pub key: Option<String>,
    pub coalesced_count: i64,
    pub degraded: Option<String>,
    pub requested_at: i64,
}

/// A trace's answers, one for each delivery (none where it must not be delivered again), and the
/// rows it leaves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Played {
    pub answers: Vec<Option<Answer>>,
    pub rows: Vec<Row>,
}
