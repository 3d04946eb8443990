//! Everything that can be asked, in one list.

use schemars::Schema;

use super::documents::{
    AgentKey, AgentListReply, AgentListRequest, AgentReply, AgentSetRequest, ConfigurationReply,
    ConfigurationRequest, CountsReply, CountsRequest, HealthReply, HealthRequest, LimitsGetRequest,
    LimitsReply, LimitsSetRequest, PauseReply, PauseRequest, PausesReply, PausesRequest,
    ResumeReply, ResumeRequest,
};
use super::error::ControlError;
use crate::schemas::{answered, asked};

/// What every subject begins with.
pub const SUBJECTS: &str = "wakegate.control";

/// What is asked. Its subject is the permission to ask it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Refuse new wakes.
    Pause,
    /// Decide them again.
    Resume,
    /// Which pauses are active.
    Pauses,
    /// Set an agent's status.
    AgentSet,
    /// Which it is.
    AgentGet,
    /// Which agents are known.
    AgentList,
    /// Which limits are in force, and how much of them is used.
    LimitsGet,
    /// Set what an organization lowers.
    LimitsSet,
    /// How much there is of what.
    Counts,
    /// How a worker does.
    Health,
    /// How a worker is configured.
    Configuration,
}

/// Who answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answers {
    /// Any one worker: it is about the database, which they share.
    AnyWorker,
    /// Every worker, on the verb's subject; or one, on that subject, `.` and the worker's id.
    EachWorker,
}

impl Verb {
    /// Every verb.
    pub const ALL: [Self; 11] = [
        Self::Pause,
        Self::Resume,
        Self::Pauses,
        Self::AgentSet,
        Self::AgentGet,
        Self::AgentList,
        Self::LimitsGet,
        Self::LimitsSet,
        Self::Counts,
        Self::Health,
        Self::Configuration,
    ];

    /// Its tokens behind [`SUBJECTS`].
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Pauses => "pauses",
            Self::AgentSet => "agent.set",
            Self::AgentGet => "agent.get",
            Self::AgentList => "agent.list",
            Self::LimitsGet => "limits.get",
            Self::LimitsSet => "limits.set",
            Self::Counts => "counts",
            Self::Health => "health",
            Self::Configuration => "configuration",
        }
    }

    /// Where it is asked.
    #[must_use]
    pub fn subject(self) -> String {
        format!("{SUBJECTS}.{}", self.as_str())
    }

    /// What it is called as an endpoint of the service, and in the names of its schemas.
    #[must_use]
    pub fn name(self) -> String {
        self.as_str().replace('.', "-")
    }

    /// Who answers.
    #[must_use]
    pub const fn answers(self) -> Answers {
        match self {
            Self::Health | Self::Configuration => Answers::EachWorker,
            _ => Answers::AnyWorker,
        }
    }

    /// The verb of a subject.
    #[must_use]
    pub fn of_subject(subject: &str) -> Option<Self> {
        let tokens = subject.strip_prefix(SUBJECTS)?.strip_prefix('.')?;
        Self::ALL.into_iter().find(|verb| verb.as_str() == tokens)
    }

    /// The schema of its request.
    #[must_use]
    pub fn request_schema(self) -> Schema {
        match self {
            Self::Pause => asked::<PauseRequest>(),
            Self::Resume => asked::<ResumeRequest>(),
            Self::Pauses => asked::<PausesRequest>(),
            Self::AgentSet => asked::<AgentSetRequest>(),
            Self::AgentGet => asked::<AgentKey>(),
            Self::AgentList => asked::<AgentListRequest>(),
            Self::LimitsGet => asked::<LimitsGetRequest>(),
            Self::LimitsSet => asked::<LimitsSetRequest>(),
            Self::Counts => asked::<CountsRequest>(),
            Self::Health => asked::<HealthRequest>(),
            Self::Configuration => asked::<ConfigurationRequest>(),
        }
    }

    /// The schema of its reply.
    #[must_use]
    pub fn reply_schema(self) -> Schema {
        match self {
            Self::Pause => answered::<PauseReply>(),
            Self::Resume => answered::<ResumeReply>(),
            Self::Pauses => answered::<PausesReply>(),
            Self::AgentSet | Self::AgentGet => answered::<AgentReply>(),
            Self::AgentList => answered::<AgentListReply>(),
            Self::LimitsGet | Self::LimitsSet => answered::<LimitsReply>(),
            Self::Counts => answered::<CountsReply>(),
            Self::Health => answered::<HealthReply>(),
            Self::Configuration => answered::<ConfigurationReply>(),
        }
    }
}

/// The schema of what is answered where a request is refused.
#[must_use]
pub fn error_schema() -> Schema {
    answered::<ControlError>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_has_its_verb_and_no_other_has_one() {
        for verb in Verb::ALL {
            assert_eq!(Verb::of_subject(&verb.subject()), Some(verb));
            assert!(verb.name().bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'));
        }
        for forged in [
            "wakegate.control",
            "wakegate.control.",
            "wakegate.control.pauze",
            "wakegate.control.pause.acme",
            "wakegate.controlpause",
            "wakegate.pause",
            "pause",
        ] {
            assert_eq!(Verb::of_subject(forged), None, "{forged}");
        }
    }
}
