//! `[traces]`: where spans are exported to.

use super::{Kind, Setting, millis};
use crate::traces::{Endpoint, TraceHeaders};

/// The one protocol there is.
const PROTOCOL: &str = "http/protobuf";

const fn setting(
    key: &'static str,
    default: Option<&'static str>,
    kind: Kind,
    doc: &'static str,
) -> Setting {
    Setting { section: "traces", key, default, kind, doc }
}

pub(super) const ENDPOINT: Setting = setting(
    "endpoint",
    None,
    Kind::Text {
        accepts: "`http://` or `https://` URL",
        set: |c, text| Endpoint::parse(text).map(|endpoint| c.traces.endpoint = Some(endpoint)),
        get: |c| c.traces.endpoint.as_ref().map(ToString::to_string),
    },
    "The collector that traces are exported to over OTLP ([tracing](tracing.md)); port 4318 (443 \
     with `https`) and the path `/v1/traces` where it names none. Not set, there are no traces.",
);

pub(super) const PROTOCOL_OF_IT: Setting = setting(
    "protocol",
    Some(PROTOCOL),
    Kind::Text {
        accepts: "`http/protobuf`",
        set: |_, text| match text.trim() {
            PROTOCOL => Ok(()),
            _ => Err(format!("wants {PROTOCOL}; a collector has it at port 4318")),
        },
        get: |_| Some(PROTOCOL.to_owned()),
    },
    "How it is spoken to.",
);

pub(super) const HEADERS: Setting = setting(
    "headers",
    None,
    Kind::Text {
        accepts: "`<name>=<value>`, separated by commas",
        set: |c, text| TraceHeaders::parse(text).map(|headers| c.traces.headers = headers),
        get: |c| Some(c.traces.headers.to_string()).filter(|shown| !shown.is_empty()),
    },
    "What the collector asks for, such as `authorization=Bearer …`. Values are secrets; a comma in \
     one is `%2C`, a per cent sign `%25`.",
);

pub(super) const SAMPLE_RATIO: Setting = setting(
    "sample_ratio",
    Some("0.01"),
    Kind::Text {
        accepts: "0 to 1",
        set: |c, text| {
            let ratio = text.trim().parse::<f64>().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
            c.traces.sample_ratio = ratio.ok_or("wants a number from 0 to 1, such as 0.01")?;
            Ok(())
        },
        get: |c| Some(c.traces.sample_ratio.to_string()),
    },
    "Share of batches that have a span though the context of none of their wakes is sampled. Those \
     with a sampled wake always have one.",
);

pub(super) const TIMEOUT: Setting = setting(
    "timeout_ms",
    Some("5000"),
    Kind::Whole {
        min: 100,
        max: 60_000,
        set: |c, n| c.traces.timeout = millis(n),
        get: |c| c.traces.timeout.as_millis().to_string(),
    },
    "How long one request to the collector may take; its spans are dropped then.",
);

pub(super) const QUEUE_SPANS_MAX: Setting = setting(
    "queue_spans_max",
    Some("2048"),
    Kind::Whole {
        min: 64,
        max: 65_536,
        set: |c, n| c.traces.queue_spans_max = n as usize,
        get: |c| c.traces.queue_spans_max.to_string(),
    },
    "Most spans that wait to be exported; more are dropped and counted.",
);
