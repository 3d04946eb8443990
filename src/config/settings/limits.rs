//! `[limits]`: the platform's ceilings. Organizations may set lower ones of their own (docs/limits.md).

use super::super::forms::{switch, switched};
use super::{Kind, Setting};
use crate::admission::limits::Dimension;
use crate::config::{Config, LimitsMode};
use crate::wake::decode::BODY_BYTES_MAX;

const _: () = assert!(BODY_BYTES_MAX == 262_144, "no event is larger than the decoder takes");

const fn setting(
    key: &'static str,
    default: Option<&'static str>,
    kind: Kind,
    doc: &'static str,
) -> Setting {
    Setting { section: "limits", key, default, kind, doc }
}

/// Ceilings that production has to set, and their unit is in their name.
const fn ceiling(
    dimension: Dimension,
    default: &'static str,
    max: u32,
    set: fn(&mut Config, u32),
    get: fn(&Config) -> String,
    doc: &'static str,
) -> Setting {
    setting(dimension.key(), Some(default), Kind::Whole { min: 0, max, set, get }, doc)
}

macro_rules! ceilings {
    ($($name:ident: $dimension:ident = $default:literal up to $max:expr, $doc:expr;)+) => {
        $(pub(super) const $name: Setting = ceiling(
            Dimension::$dimension,
            $default,
            $max,
            |c, n| c.limits.ceilings = c.limits.ceilings.with(Dimension::$dimension, n),
            |c| c.limits.ceilings.of(Dimension::$dimension).to_string(),
            $doc,
        );)+
    };
}

pub(super) const MODE: Setting = setting(
    "mode",
    Some("development"),
    Kind::Text {
        accepts: "`development` or `production`",
        set: |c, text| {
            c.limits.mode = match text.trim() {
                "development" => LimitsMode::Development,
                "production" => LimitsMode::Production,
                _ => return Err("wants development or production".to_owned()),
            };
            Ok(())
        },
        get: |c| Some(c.limits.mode.as_str().to_owned()),
    },
    "In `production` the version and every ceiling below have to be set: one that is missing ends \
     the start and is named. In `development` the defaults hold.",
);

pub(super) const VERSION: Setting = setting(
    "version",
    None,
    Kind::Text {
        accepts: "1 to 64 bytes of text",
        set: |c, text| {
            let text = text.trim();
            if text.is_empty() || text.len() > 64 {
                return Err("wants 1 to 64 bytes of text".to_owned());
            }
            c.limits.version = Some(text.to_owned());
            Ok(())
        },
        get: |c| c.limits.version.clone(),
    },
    "What this set of ceilings is called, such as `2026-11-30`; it is shown wherever they are.",
);

pub(super) const ENFORCED: Setting = setting(
    "enforced",
    Some("on"),
    Kind::Text {
        accepts: "`on` or `off`",
        set: |c, text| switch(text).map(|on| c.limits.enforced = on),
        get: |c| switched(c.limits.enforced),
    },
    "Whether admission asks gate 6 at all; `off` is for measuring what it costs, and no choice in \
     `production`.",
);

ceilings! {
    QUEUED_PLATFORM: QueuedPlatform = "10000000" up to u32::MAX,
        "Most runs that wait to be started, of all organizations together.";
    QUEUED_ORGANIZATION: QueuedOrganization = "1000000" up to u32::MAX,
        "Most runs of one organization that wait to be started.";
    QUEUED_PROJECT: QueuedProject = "1000000" up to u32::MAX,
        "Most runs of one project that wait to be started; runs that name none have no project.";
    WAITING: Waiting = "604800" up to 31_536_000,
        "How long a run may wait to be started, from its admission; then it expires and is never \
         started. With 0 none may wait, and none is admitted.";
    ACTIVE_PLATFORM: ActivePlatform = "10000" up to u32::MAX,
        "Most runs that are claimed or running, of all organizations together.";
    ACTIVE_ORGANIZATION: ActiveOrganization = "1000" up to u32::MAX,
        "Most runs of one organization that are claimed or running.";
    INTAKE: Intake = "6000000" up to u32::MAX,
        "Most runs that the events of one producer may make in one organization in any 60 seconds \
         of the stream's clock.";
    EVENT_BYTES: EventBytes = "262144" up to 262_144,
        "Most bytes of one event's body; a larger one is rejected as `too_large`.";
}
