//! The events, and what has to become of each. All are mutations by an agent, so that every gate
//! has work to do; no key is shared between tasks; every id is as long as a UUID.

use std::fmt;

use bytes::Bytes;
use uuid::Uuid;

/// Events of a mixed group: 25 admit, 10 repeat a key, 10 coalesce, 5 find the allowance used up.
const GROUP: usize = 50;
/// Of every second group what follows comes this many groups later, hence mostly in a later batch
/// than the wake it depends on; of the others at once.
const FAR_GROUPS: usize = 100;
/// Tasks that the refused workload is about.
pub(crate) const EXHAUSTED_TASKS: usize = 1_000;
const ORGANIZATIONS: usize = 64;

/// What is asked of the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Workload {
    /// Half admit, a fifth repeat a key, a fifth coalesce, a tenth are refused.
    Mixed,
    /// Each is the first of its task.
    Admit,
    /// Each is of a task whose allowance was used up before.
    Refused,
    /// One task gets them all: half join one queued run, the rest use up the allowance and are
    /// refused.
    Hot,
}

/// What became, or has to become, of a workload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Outcomes {
    pub(crate) queued: u64,
    pub(crate) coalesced: u64,
    pub(crate) deduplicated: u64,
    pub(crate) refused: u64,
}

/// One message to publish.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) subject: String,
    pub(crate) message_id: String,
    pub(crate) body: Bytes,
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mixed => "mixed",
            Self::Admit => "admit",
            Self::Refused => "refused",
            Self::Hot => "hot",
        })
    }
}

impl Workload {
    pub(crate) const ALL: [Self; 4] = [Self::Mixed, Self::Admit, Self::Refused, Self::Hot];

    /// `count` events, to be published in this order; `count` is a multiple of 100. `salt`, a
    /// small number, makes ids that no other makes.
    pub(crate) fn events(self, count: usize, salt: u64) -> Vec<Event> {
        let mut events = Writer { salt, events: Vec::with_capacity(count) };
        match self {
            Self::Mixed => mixed(&mut events, count / GROUP),
            Self::Admit => (0..count).for_each(|n| events.write(n, n, 1)),
            Self::Refused => {
                (0..count).for_each(|n| events.write(n % EXHAUSTED_TASKS, n, n + 1));
            }
            Self::Hot => {
                (0..count).for_each(|n| events.write(0, if n % 2 == 0 { 0 } else { n }, n));
            }
        }
        assert_eq!(events.events.len(), count, "a multiple of 100 was asked for");
        events.events
    }

    /// What has to become of them.
    pub(crate) fn outcomes(self, count: usize) -> Outcomes {
        let count = count as u64;
        match self {
            Self::Mixed => Outcomes {
                queued: count / 2,
                coalesced: count / 5,
                deduplicated: count / 5,
                refused: count / 10,
            },
            Self::Admit => Outcomes { queued: count, ..Outcomes::default() },
            Self::Refused => Outcomes { refused: count, ..Outcomes::default() },
            Self::Hot => Outcomes {
                queued: 5,
                coalesced: count / 2 - 1,
                refused: count / 2 - 4,
                ..Outcomes::default()
            },
        }
    }
}

impl Outcomes {
    pub(crate) fn total(self) -> u64 {
        self.queued + self.coalesced + self.deduplicated + self.refused
    }

    /// What has come since.
    pub(crate) fn without(self, before: Self) -> Self {
        Self {
            queued: self.queued - before.queued,
            coalesced: self.coalesced - before.coalesced,
            deduplicated: self.deduplicated - before.deduplicated,
            refused: self.refused - before.refused,
        }
    }
}

fn mixed(events: &mut Writer, groups: usize) {
    for group in 0..groups {
        leaders(events, group);
        if group % 2 == 0 {
            followers(events, group);
        }
        if let Some(earlier) = group.checked_sub(FAR_GROUPS).filter(|earlier| earlier % 2 == 1) {
            followers(events, earlier);
        }
    }
    let left = groups.saturating_sub(FAR_GROUPS)..groups;
    left.filter(|group| group % 2 == 1).for_each(|group| followers(events, group));
}

/// Twenty tasks get their first wake, and one, from agent to agent, its first five.
fn leaders(events: &mut Writer, group: usize) {
    let first = group * 21;
    for n in 0..20 {
        events.write(first + n, first + n, 1);
    }
    for n in 0..5 {
        events.write(first + 20, (first + 20) * 10 + n, n + 1);
    }
}

/// Ten of the twenty get a wake for the same agent again, which joins the first; ten get the first
/// again; the last task gets five more than it may.
fn followers(events: &mut Writer, group: usize) {
    let first = group * 21;
    for n in 0..10 {
        events.write(first + n, first + n, 2);
        events.write(first + 10 + n, first + 10 + n, 1);
    }
    for n in 5..10 {
        events.write(first + 20, (first + 20) * 10 + n, n + 1);
    }
}

struct Writer {
    salt: u64,
    events: Vec<Event>,
}

impl Writer {
    /// An agent assigns a task to an agent.
    fn write(&mut self, task: usize, agent: usize, generation: usize) {
        let organization = organization(task);
        let task_id = id(self.salt, 't', task);
        let acting = id(self.salt, 'b', task);
        let agent = id(self.salt, 'a', agent);
        let body = format!(
            r#"{{"type":"task.mutated.v1","organization_id":"{organization}","project_id":"project-{:02}","task_id":"{task_id}","acting_agent_id":"{acting}","new_assignee_agent_profile_id":"{agent}","assignment_generation":{generation}}}"#,
            task % 100,
        );
        self.events.push(Event {
            subject: format!("wakes.task_mutation.{organization}.{task_id}"),
            message_id: format!("{organization}.{:x}-{:x}", self.salt, self.events.len()),
            body: Bytes::from(body),
        });
    }
}

/// The organization of a task.
pub(crate) fn organization(task: usize) -> String {
    format!("org-{:04}", task % ORGANIZATIONS)
}

/// The id of a task.
pub(crate) fn task_id(salt: u64, task: usize) -> String {
    id(salt, 't', task).to_string()
}

/// An id that looks random, so that neighbours in the stream are none in an index.
fn id(salt: u64, kind: char, number: usize) -> Uuid {
    let high = scatter((salt << 32) ^ (u64::from(u32::from(kind)) << 56) ^ number as u64);
    let low = scatter(high ^ number as u64);
    uuid::Builder::from_random_bytes(((u128::from(high) << 64) | u128::from(low)).to_be_bytes())
        .into_uuid()
}

/// `SplitMix64`'s last step: one to one, and every bit of the answer depends on every bit given.
fn scatter(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
