//! What the queue answers.

use std::fmt;

use serde::Serialize;

use super::DepthsOf;
use crate::admission::facts::Scoped;
use crate::wake::{OrganizationId, ProjectId, RunId, UtcMicros};

macro_rules! names {
    ($(#[$doc:meta])* $type:ident { $($(#[$of:meta])* $name:ident => $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $type {
            $($(#[$of])* $name,)+
        }

        impl $type {
            /// Every one.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// As the database says it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }

            /// The one with this name.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.as_str() == text)
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

names!(
    /// Where a run stands.
    RunStatus {
        /// It waits.
        Queued => "queued",
        /// A runner has it and has not begun.
        Claimed => "claimed",
        /// A runner has begun.
        Running => "running",
        /// It did what it was for.
        Succeeded => "succeeded",
        /// It did not.
        Failed => "failed",
        /// It was called off.
        Cancelled => "cancelled",
        /// It waited too long.
        Expired => "expired",
        /// It ran too long.
        TimedOut => "timed_out",
        /// It went over a limit.
        LimitExceeded => "limit_exceeded",
    }
);

names!(
    /// What happened to a run.
    RunEventKind {
        /// A runner took it.
        Claimed => "claimed",
        /// The runner began.
        Started => "started",
        /// The runner did not begin in time, and it waits again.
        Returned => "returned",
        /// Its runner was asked to stop.
        CancelRequested => "cancel_requested",
        /// It did what it was for.
        Succeeded => "succeeded",
        /// It did not.
        Failed => "failed",
        /// It was called off.
        Cancelled => "cancelled",
        /// It waited too long.
        Expired => "expired",
        /// It ran too long.
        TimedOut => "timed_out",
        /// It went over a limit.
        LimitExceeded => "limit_exceeded",
    }
);

impl RunStatus {
    /// Whether it has ended, for good.
    #[must_use]
    pub const fn is_end(self) -> bool {
        !matches!(self, Self::Queued | Self::Claimed | Self::Running)
    }
}

/// A run that a runner has been given. Rows may be written by others, so its texts are what they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClaimedRun {
    /// The run.
    pub run_id: RunId,
    /// The claim: to be shown with whatever is said about the run.
    pub fencing_token: u64,
    /// Until when it is to be started.
    pub lease_expires_at: UtcMicros,
    /// When it was claimed.
    pub claimed_at: UtcMicros,
    /// The tenant.
    pub organization_id: OrganizationId,
    /// The project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    /// The agent.
    pub agent_profile_id: String,
    /// Why.
    pub reason: String,
    /// What the run is to read.
    pub payload: String,
    /// The task that its payload names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// The kind of actor that its payload names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor_type: Option<String>,
    /// The actor that its payload names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor_id: Option<String>,
    /// Key of the wake that created it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// 1, and one more for each wake that joined it.
    pub coalesced_count: u32,
    /// Producer of the wake that created it.
    pub producer: String,
    /// What it is part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// Request instant of the wake that created it.
    pub requested_at: UtcMicros,
}

/// Why nothing was done about a run: the caller does not hold it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotHeld {
    /// Where the run stands; nothing where there is none.
    pub status: Option<RunStatus>,
}

/// What becomes of a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartAnswer {
    /// It runs, and is the caller's until then.
    Started {
        /// When the lease ends.
        lease_expires_at: UtcMicros,
    },
    /// It is to be cancelled: it was not started and is to be finished as cancelled.
    Cancelling,
    /// The lease was over: the run goes back to the queue.
    Lapsed,
    /// It is not the caller's.
    NotHeld(NotHeld),
}

/// What becomes of a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeartbeatAnswer {
    /// It is the caller's until then.
    Held {
        /// When the lease ends.
        lease_expires_at: UtcMicros,
        /// Whether it is to be stopped and finished as cancelled.
        cancelling: bool,
    },
    /// The lease was over before the run was started: it goes back to the queue.
    Lapsed,
    /// It is not the caller's.
    NotHeld(NotHeld),
}

/// What becomes of a finish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishAnswer {
    /// It has ended like this, now or when this was asked before.
    Finished,
    /// It is not the caller's, or has ended in another way.
    NotHeld(NotHeld),
}

/// What becomes of a cancellation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelAnswer {
    /// It has ended as cancelled, now or before.
    Cancelled,
    /// Its runner is asked to stop, since then.
    Requested {
        /// When it was first asked.
        at: UtcMicros,
    },
    /// It is under way, and who asks may withdraw only what is queued.
    UnderWay,
    /// It has ended otherwise.
    Ended(RunStatus),
    /// There is none in this scope.
    NotFound,
}

/// A run that a keeper has moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovedRun {
    /// The run.
    pub run_id: RunId,
    /// The tenant.
    pub organization_id: OrganizationId,
    /// Where it stands now.
    pub status: RunStatus,
}

/// How many runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Depth {
    /// That wait.
    pub queued: u64,
    /// That are claimed or running.
    pub active: u64,
}

/// How deep the queue is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueDepth {
    /// All of it.
    pub platform: Depth,
    /// Of each organization that was asked for and has something.
    pub organizations: DepthsOf<OrganizationId>,
    /// Of each project that was asked for and has something.
    pub projects: DepthsOf<Scoped<ProjectId>>,
}

/// Something that happened to a run and is to be published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunEvent {
    /// Greater than that of everything before it; for [`super::QueueStore::delete_events`].
    #[serde(skip)]
    pub id: i64,
    /// What.
    pub event: RunEventKind,
    /// When.
    pub at: UtcMicros,
    /// The run.
    pub run_id: RunId,
    /// The tenant.
    pub organization_id: OrganizationId,
    /// The project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    /// The task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// The agent.
    pub agent_profile_id: String,
    /// Why, where somebody said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The runner that had or has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runner_id: Option<String>,
    /// The claim it was part of; 0 before the first.
    pub fencing_token: u64,
    /// Who cancelled it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// What it is part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}

impl RunEvent {
    /// Names the event for whoever may see it twice.
    #[must_use]
    pub fn message_id(&self) -> String {
        format!("{}.{}.{}", self.run_id, self.event, self.id)
    }
}
