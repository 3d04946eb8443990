//! `[control]`: how operators are answered.

use super::super::forms::{file, switch, switched};
use super::{DatabaseUrl, Kind, NatsServers, Setting, millis, shown};

const fn setting(
    key: &'static str,
    default: Option<&'static str>,
    kind: Kind,
    doc: &'static str,
) -> Setting {
    Setting { section: "control", key, default, kind, doc }
}

pub(super) const ENABLED: Setting = setting(
    "enabled",
    Some("on"),
    Kind::Text {
        accepts: "`on` or `off`",
        set: |c, text| switch(text).map(|on| c.control.enabled = on),
        get: |c| switched(c.control.enabled),
    },
    "Whether this worker answers operators over NATS ([control](control.md)).",
);

pub(super) const NATS_URL: Setting = setting(
    "nats_url",
    None,
    Kind::Text {
        accepts: "as `nats.url`",
        set: |c, text| NatsServers::parse(text).map(|servers| c.control.nats_url = Some(servers)),
        get: |c| c.control.nats_url.as_ref().map(ToString::to_string),
    },
    "As `nats.url`, for the connection that answers operators, so that it has a user of its own; \
     `nats.url` and `nats.credentials_file` where it is not set.",
);

pub(super) const CREDENTIALS_FILE: Setting = setting(
    "credentials_file",
    None,
    Kind::Text {
        accepts: "path of a file",
        set: |c, text| file(text).map(|path| c.control.credentials_file = Some(path)),
        get: |c| shown(c.control.credentials_file.as_ref()),
    },
    "A `.creds` file for that connection.",
);

pub(super) const DATABASE_URL: Setting = setting(
    "database_url",
    None,
    Kind::Text {
        accepts: "as `database.url`",
        set: |c, text| DatabaseUrl::parse(text).map(|url| c.control.database_url = Some(url)),
        get: |c| c.control.database_url.as_ref().map(ToString::to_string),
    },
    "As `database.url`, for the requests of operators, so that they have a role of their own; it \
     is the same database. `database.url` where it is not set. Commands of operators use it too.",
);

pub(super) const CONNECTIONS_MAX: Setting = setting(
    "connections_max",
    Some("3"),
    Kind::Whole {
        min: 2,
        max: 16,
        set: |c, n| c.control.connections_max = n,
        get: |c| c.control.connections_max.to_string(),
    },
    "Most database connections of this process for the requests of operators, opened when they are \
     needed. SQLite has one to read and one to write.",
);

pub(super) const DEADLINE: Setting = setting(
    "deadline_ms",
    Some("2000"),
    Kind::Whole {
        min: 100,
        max: 60_000,
        set: |c, n| c.control.deadline = millis(n),
        get: |c| c.control.deadline.as_millis().to_string(),
    },
    "How long one question of an operator to the database may take, waiting for a connection \
     included.",
);

pub(super) const REQUESTS_MAX: Setting = setting(
    "requests_max",
    Some("32"),
    Kind::Whole {
        min: 1,
        max: 1_024,
        set: |c, n| c.control.requests_max = n,
        get: |c| c.control.requests_max.to_string(),
    },
    "Most requests of operators in work at once; the next one is answered `busy`.",
);
