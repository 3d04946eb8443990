//! `[gates.…]`: whether a gate that refuses does.

use super::{Kind, Setting};
use crate::admission::GateName;

/// The section of a gate is `gates.` and its name.
const SECTIONS: &str = "gates.";

/// The setting of one gate that refuses.
macro_rules! mode {
    ($name:ident, $section:literal, $gate:ident, $doc:literal) => {
        pub(super) const $name: Setting = Setting {
            section: $section,
            key: "mode",
            default: Some("enforce"),
            kind: Kind::Text {
                accepts: "`enforce` or `shadow`",
                set: |c, text| {
                    shadow(text).map(|shadow| c.gates.shadows.set(GateName::$gate, shadow))
                },
                get: |c| Some(mode(c.gates.shadows.has(GateName::$gate)).to_owned()),
            },
            doc: $doc,
        };
    };
}

mode!(
    AGENT_STATUS,
    "gates.agent_status",
    AgentStatus,
    "`shadow`: wakes of agents that may not run are let through, and it is said that they would \
     have been refused ([gates](gates.md#shadow))."
);
mode!(
    PAUSE,
    "gates.pause",
    Pause,
    "`shadow`: **a pause stops nothing**, it is only said what it would have refused. Never on an \
     installation that anybody would pause."
);
mode!(
    ALLOWANCE,
    "gates.allowance",
    Allowance,
    "`shadow`: wakes over the allowance are let through, and count."
);

mode!(
    CAPACITY,
    "gates.capacity",
    Capacity,
    "`shadow`: wakes for which there is no room are let through, and wait in a queue that is longer \
     than its ceilings."
);

fn shadow(text: &str) -> Result<bool, String> {
    match text.trim() {
        "enforce" => Ok(false),
        "shadow" => Ok(true),
        _ => Err("wants enforce or shadow".to_owned()),
    }
}

const fn mode(shadow: bool) -> &'static str {
    if shadow { "shadow" } else { "enforce" }
}

/// What is wrong with a setting of a gate that refuses nothing. `name` is a section or a setting as
/// the file has it.
pub(in crate::config) fn refuses_nothing(name: &str) -> Option<String> {
    let gate = name.strip_prefix(SECTIONS)?.split('.').next()?;
    let gate = GateName::ALL.into_iter().find(|known| known.as_str() == gate)?;
    (!gate.refuses()).then(|| {
        let refusing = GateName::REFUSING.map(GateName::as_str).join(", ");
        let gate = gate.as_str();
        format!("gate {gate} refuses nothing, so it has no mode; those that refuse are {refusing}")
    })
}

/// The same of a variable.
pub(in crate::config) fn variable_refuses_nothing(variable: &str) -> Option<String> {
    let of = |gate: &GateName| format!("WAKEGATE_GATES_{}_", gate.as_str().to_ascii_uppercase());
    let gate = GateName::ALL.into_iter().find(|gate| variable.starts_with(&of(gate)))?;
    refuses_nothing(&format!("{SECTIONS}{}", gate.as_str()))
}
