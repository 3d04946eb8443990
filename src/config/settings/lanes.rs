//! Of `[lanes]`, what is no number.

use super::super::forms::switch;
use super::{Kind, Setting};

pub(super) const SPREAD: Setting = Setting {
    section: "lanes",
    key: "spread",
    default: Some("on"),
    kind: Kind::Text {
        accepts: "`on` or `off`",
        set: |c, text| switch(text).map(|on| c.lanes.spread = on),
        get: |c| Some(if c.lanes.spread { "on" } else { "off" }.to_owned()),
    },
    doc: "Whether this worker shares the lanes evenly with the other replicas that it hears; \
          `off`, a lane stays with whoever pulled it first.",
};
