//! Of `[lanes]`, what is no number.

use super::super::forms::{switch, switched};
use super::{Kind, Setting};

pub(super) const SPREAD: Setting = Setting {
    section: "lanes",
    key: "spread",
    default: Some("on"),
    kind: Kind::Text {
        accepts: "`on` or `off`",
        set: |c, text| switch(text).map(|on| c.lanes.spread = on),
        get: |c| switched(c.lanes.spread),
    },
    doc: "Whether this worker shares the lanes evenly with the other replicas that it hears; \
          `off`, a lane stays with whoever pulled it first.",
};
