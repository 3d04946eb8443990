//! `[queue]`: how runners are answered, and how the queue is kept in order.

use std::time::Duration;

use super::super::forms::{file, switch, switched};
use super::{Config, DatabaseUrl, Kind, NatsServers, Setting, millis, shown};

const fn setting(
    key: &'static str,
    default: Option<&'static str>,
    kind: Kind,
    doc: &'static str,
) -> Setting {
    Setting { section: "queue", key, default, kind, doc }
}

/// A number of something.
const fn number(
    key: &'static str,
    default: &'static str,
    (min, max): (u32, u32),
    set: fn(&mut Config, u32),
    get: fn(&Config) -> String,
    doc: &'static str,
) -> Setting {
    setting(key, Some(default), Kind::Whole { min, max, set, get }, doc)
}

pub(super) const ENABLED: Setting = setting(
    "enabled",
    Some("on"),
    Kind::Text {
        accepts: "`on` or `off`",
        set: |c, text| switch(text).map(|on| c.queue.enabled = on),
        get: |c| switched(c.queue.enabled),
    },
    "Whether this worker answers runners over NATS, ends what is overdue and publishes what becomes \
     of runs ([queue](queue.md)).",
);

pub(super) const NATS_URL: Setting = setting(
    "nats_url",
    None,
    Kind::Text {
        accepts: "as `nats.url`",
        set: |c, text| NatsServers::parse(text).map(|servers| c.queue.nats_url = Some(servers)),
        get: |c| c.queue.nats_url.as_ref().map(ToString::to_string),
    },
    "As `nats.url`, for the connection that answers runners, so that it has a user of its own; \
     `nats.url` and `nats.credentials_file` where it is not set.",
);

pub(super) const CREDENTIALS_FILE: Setting = setting(
    "credentials_file",
    None,
    Kind::Text {
        accepts: "path of a file",
        set: |c, text| file(text).map(|path| c.queue.credentials_file = Some(path)),
        get: |c| shown(c.queue.credentials_file.as_ref()),
    },
    "A `.creds` file for that connection.",
);

pub(super) const DATABASE_URL: Setting = setting(
    "database_url",
    None,
    Kind::Text {
        accepts: "as `database.url`",
        set: |c, text| DatabaseUrl::parse(text).map(|url| c.queue.database_url = Some(url)),
        get: |c| c.queue.database_url.as_ref().map(ToString::to_string),
    },
    "As `database.url`, for the requests of runners, so that they have a role of their own; it is \
     the same database. `database.url` where it is not set.",
);

pub(super) const CONNECTIONS_MAX: Setting = number(
    "connections_max",
    "6",
    (2, 64),
    |c, n| c.queue.connections_max = n,
    |c| c.queue.connections_max.to_string(),
    "Most database connections of this worker for the queue, opened when they are needed. SQLite \
     has one to read and one to write.",
);

pub(super) const DEADLINE: Setting = number(
    "deadline_ms",
    "2000",
    (100, 60_000),
    |c, n| c.queue.deadline = millis(n),
    |c| c.queue.deadline.as_millis().to_string(),
    "How long one question of the queue to the database may take, waiting for a connection included.",
);

pub(super) const REQUESTS_MAX: Setting = number(
    "requests_max",
    "256",
    (1, 4_096),
    |c, n| c.queue.requests_max = n,
    |c| c.queue.requests_max.to_string(),
    "Most requests of runners in work at once, waiting claims not counted; the next one is answered \
     `busy`.",
);

pub(super) const WAITERS_MAX: Setting = number(
    "waiters_max",
    "1024",
    (1, 16_384),
    |c, n| c.queue.waiters_max = n,
    |c| c.queue.waiters_max.to_string(),
    "Most claims that wait for work at this worker; the next one is answered `busy`.",
);

pub(super) const WAIT_SECONDS_MAX: Setting = number(
    "wait_seconds_max",
    "60",
    (1, 300),
    |c, n| c.queue.wait_max = seconds(n),
    |c| c.queue.wait_max.as_secs().to_string(),
    "Longest that a claim waits for work, whatever it asks for.",
);

pub(super) const LEASE_SECONDS: Setting = number(
    "lease_seconds",
    "30",
    (1, 3_600),
    |c, n| c.queue.lease = seconds(n),
    |c| c.queue.lease.as_secs().to_string(),
    "For how long a run is its runner's without a heartbeat, where the runner does not say. A run \
     whose lease ends goes back to its place if it was not started, else it has failed.",
);

pub(super) const CANCEL_GRACE_SECONDS: Setting = number(
    "cancel_grace_seconds",
    "60",
    (1, 86_400),
    |c, n| c.queue.cancel_grace = seconds(n),
    |c| c.queue.cancel_grace.as_secs().to_string(),
    "How long a runner may take to confirm that it has ended a run that is to be cancelled; then \
     the run ends all the same.",
);

pub(super) const KEEPER_INTERVAL: Setting = number(
    "keeper_interval_ms",
    "1000",
    (10, 60_000),
    |c, n| c.queue.keeper_interval = millis(n),
    |c| c.queue.keeper_interval.as_millis().to_string(),
    "How often leases, waiting times and cancellations that are over are looked for.",
);

pub(super) const LOOK_AGAIN: Setting = number(
    "look_again_ms",
    "1000",
    (10, 60_000),
    |c, n| c.queue.look_again = millis(n),
    |c| c.queue.look_again.as_millis().to_string(),
    "How often work is looked for while claims wait and nobody says that there is some: runs that \
     others insert, a pause that has ended, a signal that was lost.",
);

fn seconds(n: u32) -> Duration {
    Duration::from_secs(u64::from(n))
}
