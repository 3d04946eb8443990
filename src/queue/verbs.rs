//! What runners ask, and whoever wants a run not to run, in one list.

use schemars::Schema;

use super::documents::{
    CancelReply, CancelRequest, ClaimReply, ClaimRequest, FinishReply, FinishRequest,
    HeartbeatReply, HeartbeatRequest, StartReply, StartRequest, WithdrawReply, WithdrawRequest,
};
use crate::schemas::{answered, asked};

/// What every subject begins with.
pub const SUBJECTS: &str = "wakegate.runs";

/// What is asked. Its subject is the permission to ask it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Runs, to be run.
    Claim,
    /// A run begins.
    Start,
    /// It goes on.
    Heartbeat,
    /// It has ended.
    Finish,
    /// It is not wanted any more by whoever asked for it.
    Withdraw,
    /// It is not to run, or to end.
    Cancel,
}

impl Verb {
    /// Every verb.
    pub const ALL: [Self; 6] =
        [Self::Claim, Self::Start, Self::Heartbeat, Self::Finish, Self::Withdraw, Self::Cancel];

    /// Its token behind [`SUBJECTS`].
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Start => "start",
            Self::Heartbeat => "heartbeat",
            Self::Finish => "finish",
            Self::Withdraw => "withdraw",
            Self::Cancel => "cancel",
        }
    }

    /// Where it is asked.
    #[must_use]
    pub fn subject(self) -> String {
        format!("{SUBJECTS}.{}", self.as_str())
    }

    /// Whether it may be asked with an organization's token behind its subject, so that a user may
    /// be let ask it for that organization alone.
    #[must_use]
    pub const fn may_be_of_an_organization(self) -> bool {
        matches!(self, Self::Claim | Self::Withdraw | Self::Cancel)
    }

    /// The verb of a subject, and the organization's token behind it.
    #[must_use]
    pub fn of_subject(subject: &str) -> Option<(Self, Option<&str>)> {
        let tokens = subject.strip_prefix(SUBJECTS)?.strip_prefix('.')?;
        let (verb, organization) = match tokens.split_once('.') {
            Some((verb, organization)) => (verb, Some(organization)),
            None => (tokens, None),
        };
        let verb = Self::ALL.into_iter().find(|known| known.as_str() == verb)?;
        let fits = organization.is_none_or(|token| {
            verb.may_be_of_an_organization() && !token.is_empty() && !token.contains('.')
        });
        fits.then_some((verb, organization))
    }

    /// The schema of its request.
    #[must_use]
    pub fn request_schema(self) -> Schema {
        match self {
            Self::Claim => asked::<ClaimRequest>(),
            Self::Start => asked::<StartRequest>(),
            Self::Heartbeat => asked::<HeartbeatRequest>(),
            Self::Finish => asked::<FinishRequest>(),
            Self::Withdraw => asked::<WithdrawRequest>(),
            Self::Cancel => asked::<CancelRequest>(),
        }
    }

    /// The schema of its reply.
    #[must_use]
    pub fn reply_schema(self) -> Schema {
        match self {
            Self::Claim => answered::<ClaimReply>(),
            Self::Start => answered::<StartReply>(),
            Self::Heartbeat => answered::<HeartbeatReply>(),
            Self::Finish => answered::<FinishReply>(),
            Self::Withdraw => answered::<WithdrawReply>(),
            Self::Cancel => answered::<CancelReply>(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_has_its_verb_and_no_other_has_one() {
        for verb in Verb::ALL {
            let subject = verb.subject();
            assert_eq!(Verb::of_subject(&subject), Some((verb, None)));
            let scoped = format!("{subject}.acme");
            let expected = verb.may_be_of_an_organization().then_some((verb, Some("acme")));
            assert_eq!(Verb::of_subject(&scoped), expected, "{scoped}");
        }
        for forged in [
            "wakegate.runs",
            "wakegate.runs.",
            "wakegate.runs.claims",
            "wakegate.runs.claim.",
            "wakegate.runs.claim.a.b",
            "wakegate.runs.start.acme",
            "wakegate.runsclaim",
            "wakegate.control.claim",
        ] {
            assert_eq!(Verb::of_subject(forged), None, "{forged}");
        }
    }
}
