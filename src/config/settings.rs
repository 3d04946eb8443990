//! The table of settings: file keys, variables, defaults, ranges, help and documents all come from
//! here. A new setting is one entry here and one field in [`Config`].

mod control;
pub(super) mod gates;
mod lanes;
mod limits;
mod log;
mod queue;
mod traces;

use std::path::PathBuf;
use std::time::Duration;

use super::forms::{directory, file, quoted, subject};
use super::{Config, DatabaseUrl, NatsServers, VARIABLE_PREFIX};

/// One setting.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// The TOML table it is in.
    pub section: &'static str,
    /// Its key there; its unit comes last.
    pub key: &'static str,
    /// Its default, as a variable would say it; none where it is not set.
    pub default: Option<&'static str>,
    /// What it accepts.
    pub kind: Kind,
    /// What it does, in a sentence or two.
    pub doc: &'static str,
}

/// What a setting accepts, and where it is kept.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// A whole number within a range, both ends included.
    Whole {
        /// Least.
        min: u32,
        /// Greatest.
        max: u32,
        /// Keeps it.
        set: fn(&mut Config, u32),
        /// Its value, for display.
        get: fn(&Config) -> String,
    },
    /// Text of some form.
    Text {
        /// The form, in words.
        accepts: &'static str,
        /// Checks and keeps it; the error is what is wrong, without secrets.
        set: fn(&mut Config, &str) -> Result<(), String>,
        /// Its value for display, without secrets; none where it is not set.
        get: fn(&Config) -> Option<String>,
    },
}

impl Setting {
    /// `section.key`
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}.{}", self.section, self.key)
    }

    /// The variable that overrides it.
    #[must_use]
    pub fn variable(&self) -> String {
        let section = self.section.replace('.', "_");
        format!("{VARIABLE_PREFIX}{section}_{}", self.key).to_ascii_uppercase()
    }

    /// What it accepts, in words.
    #[must_use]
    pub fn accepts(&self) -> String {
        match self.kind {
            Kind::Whole { min, max, .. } => format!("{min} to {max}"),
            Kind::Text { accepts, .. } => accepts.to_owned(),
        }
    }

    /// Its value in TOML, without secrets; none where it is not set.
    #[must_use]
    pub fn shown(&self, config: &Config) -> Option<String> {
        match self.kind {
            Kind::Whole { get, .. } => Some(get(config)),
            Kind::Text { get, .. } => get(config).map(|text| quoted(&text)),
        }
    }

    /// Takes a value as a variable says it.
    pub(super) fn apply(&self, config: &mut Config, text: &str) -> Result<(), String> {
        match self.kind {
            Kind::Whole { min, max, set, .. } => {
                let number: i128 = text
                    .trim()
                    .parse()
                    .map_err(|_| format!("is no whole number; {min} to {max} are accepted"))?;
                let value = u32::try_from(number).ok().filter(|n| (min..=max).contains(n));
                set(
                    config,
                    value.ok_or_else(|| {
                        format!("{number} is out of range; {min} to {max} are accepted")
                    })?,
                );
                Ok(())
            }
            Kind::Text { set, .. } => set(config, text),
        }
    }
}

/// Every setting, by section.
pub const SETTINGS: [Setting; 63] = [
    Setting {
        section: "nats",
        key: "url",
        default: Some("nats://127.0.0.1:4222"),
        kind: Kind::Text {
            accepts: "`nats://` or `tls://` URLs, separated by commas",
            set: |c, text| NatsServers::parse(text).map(|servers| c.nats.url = servers),
            get: |c| Some(c.nats.url.to_string()),
        },
        doc: "The servers of one nats-server cluster; any one of them that answers is enough. \
              User and password, or a token, may stand before an `@`; a comma within is `%2C`.",
    },
    nats_file(
        "credentials_file",
        |c, text| file(text).map(|path| c.nats.credentials_file = Some(path)),
        |c| shown(c.nats.credentials_file.as_ref()),
        "A `.creds` file (JWT and seed) to connect with.",
    ),
    nats_file(
        "tls_ca_file",
        |c, text| file(text).map(|path| c.nats.tls.ca_file = Some(path)),
        |c| shown(c.nats.tls.ca_file.as_ref()),
        "PEM certificates to trust instead of the system's. Set, it also means that no connection \
         is made without TLS, as a `tls://` URL does.",
    ),
    nats_file(
        "tls_certificate_file",
        |c, text| file(text).map(|path| c.nats.tls.certificate_file = Some(path)),
        |c| shown(c.nats.tls.certificate_file.as_ref()),
        "PEM certificate to show to a server that asks for one; wants `tls_key_file` too.",
    ),
    nats_file(
        "tls_key_file",
        |c, text| file(text).map(|path| c.nats.tls.key_file = Some(path)),
        |c| shown(c.nats.tls.key_file.as_ref()),
        "PEM key of that certificate.",
    ),
    Setting {
        section: "nats",
        key: "inbox_prefix",
        default: Some("_INBOX"),
        kind: Kind::Text {
            accepts: "subject tokens of letters, digits, `_` and `-`",
            set: |c, text| subject(text).map(|prefix| c.nats.inbox_prefix = prefix),
            get: |c| Some(c.nats.inbox_prefix.clone()),
        },
        doc: "Where answers to this program arrive, so that its user may subscribe there and \
              nobody else.",
    },
    Setting {
        section: "nats",
        key: "request_timeout_ms",
        default: Some("5000"),
        kind: Kind::Whole {
            min: 100,
            max: 60_000,
            set: |c, n| c.nats.request_timeout = millis(n),
            get: |c| c.nats.request_timeout.as_millis().to_string(),
        },
        doc: "How long any request to nats-server may take before it counts as unanswered.",
    },
    Setting {
        section: "database",
        key: "url",
        default: Some("sqlite://wakegate.db"),
        kind: Kind::Text {
            accepts: "`sqlite://<path>` or `postgres://…`",
            set: |c, text| DatabaseUrl::parse(text).map(|url| c.database.url = url),
            get: |c| Some(c.database.url.to_string()),
        },
        doc: "The database. A SQLite file is created if it is missing; several workers need \
              PostgreSQL.",
    },
    Setting {
        section: "database",
        key: "connections_max",
        default: Some("16"),
        kind: Kind::Whole {
            min: 2,
            max: 500,
            set: |c, n| c.database.connections_max = n,
            get: |c| c.database.connections_max.to_string(),
        },
        doc: "Most connections to the database that this worker opens.",
    },
    Setting {
        section: "database",
        key: "read_deadline_ms",
        default: Some("2000"),
        kind: Kind::Whole {
            min: 100,
            max: 60_000,
            set: |c, n| c.database.read_deadline = millis(n),
            get: |c| c.database.read_deadline.as_millis().to_string(),
        },
        doc: "How long one read may take before it counts as failed.",
    },
    Setting {
        section: "database",
        key: "record_deadline_ms",
        default: Some("5000"),
        kind: Kind::Whole {
            min: 100,
            max: 60_000,
            set: |c, n| c.database.record_deadline = millis(n),
            get: |c| c.database.record_deadline.as_millis().to_string(),
        },
        doc: "How long the transaction of one batch may take before it counts as failed.",
    },
    Setting {
        section: "http",
        key: "addr",
        default: Some("127.0.0.1:9464"),
        kind: Kind::Text {
            accepts: "IP address and port",
            set: |c, text| {
                c.http.addr = text.trim().parse().map_err(|_| {
                    "wants an IP address and a port, such as 127.0.0.1:9464 or [::]:9464".to_owned()
                })?;
                Ok(())
            },
            get: |c| Some(c.http.addr.to_string()),
        },
        doc: "Where `/metrics`, `/livez` and `/readyz` are served; port 0 takes any free one.",
    },
    Setting {
        section: "streams",
        key: "directory",
        default: None,
        kind: Kind::Text {
            accepts: "path of a directory",
            set: |c, text| {
                c.streams.directory = Some(directory(text)?);
                Ok(())
            },
            get: |c| c.streams.directory.as_ref().map(|path| path.display().to_string()),
        },
        doc: "Declarations of streams and consumers to use instead of those compiled in.",
    },
    Setting {
        section: "lanes",
        key: "batch_wakes_max",
        default: Some("500"),
        kind: Kind::Whole {
            min: 1,
            max: 2_000,
            set: |c, n| c.lanes.batch_wakes_max = n,
            get: |c| c.lanes.batch_wakes_max.to_string(),
        },
        doc: "Most wakes in one batch. A batch is never waited for: at low load it is one wake.",
    },
    Setting {
        section: "lanes",
        key: "batch_bytes_max",
        default: Some("8388608"),
        kind: Kind::Whole {
            min: 1_048_576,
            max: 67_108_864,
            set: |c, n| c.lanes.batch_bytes_max = n as usize,
            get: |c| c.lanes.batch_bytes_max.to_string(),
        },
        doc: "Most bytes of bodies in one batch.",
    },
    Setting {
        section: "lanes",
        key: "hold_backoff_ms_min",
        default: Some("50"),
        kind: Kind::Whole {
            min: 1,
            max: 60_000,
            set: |c, n| c.lanes.hold_backoff_min = millis(n),
            get: |c| c.lanes.hold_backoff_min.as_millis().to_string(),
        },
        doc: "How long a lane that holds waits before its first new attempt; it then waits longer \
              each time.",
    },
    Setting {
        section: "lanes",
        key: "hold_backoff_ms_max",
        default: Some("5000"),
        kind: Kind::Whole {
            min: 1,
            max: 60_000,
            set: |c, n| c.lanes.hold_backoff_max = millis(n),
            get: |c| c.lanes.hold_backoff_max.as_millis().to_string(),
        },
        doc: "How long a lane that holds waits between attempts at most.",
    },
    Setting {
        section: "lanes",
        key: "store_away_give_up_ms",
        default: Some("30000"),
        kind: Kind::Whole {
            min: 1_000,
            max: 3_600_000,
            set: |c, n| c.lanes.store_away_give_up = millis(n),
            get: |c| c.lanes.store_away_give_up.as_millis().to_string(),
        },
        doc: "How long the database may be away before this worker gives its lanes up to a \
              standby.",
    },
    lanes::SPREAD,
    gates::AGENT_STATUS,
    gates::PAUSE,
    gates::ALLOWANCE,
    gates::CAPACITY,
    limits::MODE,
    limits::VERSION,
    limits::ENFORCED,
    limits::QUEUED_PLATFORM,
    limits::QUEUED_ORGANIZATION,
    limits::QUEUED_PROJECT,
    limits::WAITING,
    limits::ACTIVE_PLATFORM,
    limits::ACTIVE_ORGANIZATION,
    limits::INTAKE,
    limits::EVENT_BYTES,
    control::ENABLED,
    control::NATS_URL,
    control::CREDENTIALS_FILE,
    control::DATABASE_URL,
    control::CONNECTIONS_MAX,
    control::DEADLINE,
    control::REQUESTS_MAX,
    queue::ENABLED,
    queue::NATS_URL,
    queue::CREDENTIALS_FILE,
    queue::DATABASE_URL,
    queue::CONNECTIONS_MAX,
    queue::DEADLINE,
    queue::REQUESTS_MAX,
    queue::WAITERS_MAX,
    queue::WAIT_SECONDS_MAX,
    queue::LEASE_SECONDS,
    queue::CANCEL_GRACE_SECONDS,
    queue::KEEPER_INTERVAL,
    queue::LOOK_AGAIN,
    traces::ENDPOINT,
    traces::PROTOCOL_OF_IT,
    traces::HEADERS,
    traces::SAMPLE_RATIO,
    traces::TIMEOUT,
    traces::QUEUE_SPANS_MAX,
    Setting {
        section: "shutdown",
        key: "deadline_ms",
        default: Some("20000"),
        kind: Kind::Whole {
            min: 100,
            max: 600_000,
            set: |c, n| c.shutdown.deadline = millis(n),
            get: |c| c.shutdown.deadline.as_millis().to_string(),
        },
        doc: "How long a graceful shutdown may take; what is not settled by then is delivered \
              again.",
    },
    log::FORMAT,
    log::LEVEL,
];

/// A file that `[nats]` may name.
const fn nats_file(
    key: &'static str,
    set: fn(&mut Config, &str) -> Result<(), String>,
    get: fn(&Config) -> Option<String>,
    doc: &'static str,
) -> Setting {
    let kind = Kind::Text { accepts: "path of a file", set, get };
    Setting { section: "nats", key, default: None, kind, doc }
}

fn shown(path: Option<&PathBuf>) -> Option<String> {
    path.map(|path| path.display().to_string())
}

fn millis(n: u32) -> Duration {
    Duration::from_millis(u64::from(n))
}
