//! The story: which events, in which order, and what the contract makes of each.

/// One step of it.
#[derive(Debug)]
pub(crate) struct Step {
    /// What happens.
    pub(crate) title: &'static str,
    /// What is to be seen.
    pub(crate) moral: &'static str,
    /// Where its events are.
    pub(crate) file: &'static str,
    /// The events, one a line.
    pub(crate) events: &'static str,
    /// The producer that publishes them.
    pub(crate) producer: &'static str,
    /// An organization that an operator pauses first.
    pub(crate) paused: Option<&'static str>,
    /// What the runner does meanwhile.
    pub(crate) runner: Runner,
    /// What must become of each event.
    pub(crate) outcomes: &'static [&'static str],
}

/// What the runner does between two events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runner {
    /// It claims each run at once.
    Quick,
    /// It is busy, and runs stay queued.
    Busy,
}

const MUTATIONS: &str = "task_mutation";

macro_rules! events {
    ($name:literal) => {
        (concat!("examples/demo/events/", $name), include_str!(concat!("events/", $name)))
    };
}

const fn step(
    title: &'static str,
    moral: &'static str,
    (file, events): (&'static str, &'static str),
    outcomes: &'static [&'static str],
) -> Step {
    let (producer, paused, runner) = (MUTATIONS, None, Runner::Quick);
    Step { title, moral, file, events, producer, paused, runner, outcomes }
}

/// From the first assignment to the broken event.
pub(crate) const STORY: [Step; 8] = [
    step(
        "A person assigns a task",
        "A wake becomes a run.",
        events!("1-a-person-assigns.jsonl"),
        &["queued"],
    ),
    step(
        "An agent assigns the task to itself, again and again",
        "Five such wakes a task in ten minutes; the sixth is refused.",
        events!("2-an-agent-loops.jsonl"),
        &["queued", "queued", "queued", "queued", "queued", "refused"],
    ),
    step(
        "The same task, its allowance used up",
        "A redelivery is still a duplicate, people are never limited, and\n\
         taking a task away wakes nobody.",
        events!("3-after-the-limit.jsonl"),
        &["deduplicated", "queued", "no_wake"],
    ),
    step(
        "Two agents hand a task to each other",
        "The allowance is the task's: taking turns does not double it.",
        events!("4-agents-alternate.jsonl"),
        &["queued", "queued", "queued", "queued", "queued", "refused"],
    ),
    Step {
        producer: "task_lifecycle",
        ..step(
            "A comment is delivered twice",
            "One key is one occurrence.",
            events!("5-a-duplicate.jsonl"),
            &["queued", "deduplicated"],
        )
    },
    Step {
        producer: "checks",
        runner: Runner::Busy,
        ..step(
            "Four checks finish while the runner is busy",
            "A queued run takes in what follows within five seconds.",
            events!("6-a-burst.jsonl"),
            &["queued", "coalesced", "coalesced", "coalesced"],
        )
    },
    Step {
        paused: Some("globex"),
        ..step(
            "Another organization is paused",
            "A pause refuses, and says which pause.",
            events!("7-a-paused-organization.jsonl"),
            &["refused"],
        )
    },
    step(
        "A broken event",
        "It costs only itself, and the audit stream keeps its body.",
        events!("8-a-broken-event.jsonl"),
        &["rejected"],
    ),
];
