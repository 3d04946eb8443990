//! Refused and rejected wakes, published again from the stream as new occurrences.
//!
//! - [`mod@choose`]: which, of `refused_wakes` and the audit stream
//! - [`stored`]: messages as the stream has them
//! - [`post`]: one wake, published again once
//!
//! A redrive is exact, whatever ends a process or how many operators ask at once:
//!
//! 1. Before anything is published, a row of `redrives` says so, one for each wake and time that it is
//!    asked for. It has the message id, which nobody can guess, and the last sequence on the wake's
//!    subject, read before the row was written: what is published for it comes behind that.
//! 2. The message is published under that id, and only if nothing came onto its subject since what was
//!    looked through for it: `Nats-Expected-Last-Subject-Sequence`, which the server checks as it
//!    stores. A copy that somebody else published for the same row, or this process before it ended,
//!    was found in looking, or has the server refuse this one. Its duplicate window, which is over
//!    after two minutes, is not relied upon.
//! 3. The row says as what it was published.
//!
//! A row without that is finished by whoever chooses the wake next: they look behind its sequence for
//! its message id and publish only if it is not there.

pub mod choose;
pub mod post;
pub mod stored;

pub use self::choose::{Candidate, Choice, Chosen, Found, choose};
pub use self::post::{Begun, Post, PostError, Posted};
pub use self::stored::{Original, StoredMessage};

/// The stream that wakes are on.
const STREAM: &str = "WAKES";

/// What became of a wake that can be published again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// A gate declined it.
    Refused,
    /// It was no wake.
    Rejected,
}

impl Verdict {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Refused, Self::Rejected];

    /// As in outcome records.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Rejected => "rejected",
        }
    }
}
