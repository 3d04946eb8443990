//! `[log]`: what is logged, and how it looks.

use super::{Kind, Setting};
use crate::config::LogFormat;
use crate::error_text::one_line;
use crate::telemetry::filter;

pub(super) const FORMAT: Setting = Setting {
    section: "log",
    key: "format",
    default: Some("auto"),
    kind: Kind::Text {
        accepts: "`auto`, `human` or `json`",
        set: |c, text| {
            c.log.format = match text.trim() {
                "auto" => LogFormat::Auto,
                "human" => LogFormat::Human,
                "json" => LogFormat::Json,
                _ => return Err("wants auto, human or json".to_owned()),
            };
            Ok(())
        },
        get: |c| {
            let format = match c.log.format {
                LogFormat::Auto => "auto",
                LogFormat::Human => "human",
                LogFormat::Json => "json",
            };
            Some(format.to_owned())
        },
    },
    doc: "How logs look on standard error: `auto` is `human` in a terminal and `json` \
          elsewhere.",
};

pub(super) const LEVEL: Setting = Setting {
    section: "log",
    key: "level",
    default: Some("info"),
    kind: Kind::Text {
        accepts: "a level, or a filter such as `info,sqlx=warn`",
        set: |c, text| {
            filter(text).map_err(|error| {
                format!("is no filter, such as info or info,sqlx=warn: {}", one_line(&error))
            })?;
            text.clone_into(&mut c.log.level);
            Ok(())
        },
        get: |c| Some(c.log.level.clone()),
    },
    doc: "What is logged: `error`, `warn`, `info`, `debug`, `trace`, or a level for each \
          target.",
};
