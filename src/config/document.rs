//! What people read of the table of settings: `docs/configuration.md`, and what
//! `wakegate config check` prints.

use std::fmt::Write as _;

use super::Loaded;
use super::settings::{SETTINGS, Setting};

const HEAD: &str = "\
# Configuration

This file is generated from the table in `src/config/settings.rs`; a test checks that it is current.

`wakegate` reads a TOML file and lays environment variables over it. The file is the one that
`--config` names, which has to be there, or else `wakegate.toml` in the working directory, if it is
there. Every setting has a default, so none is needed to start on one machine.

A variable's name is `WAKEGATE_`, the section, `_` and the key, in capitals:
`lanes.batch_wakes_max` is `WAKEGATE_LANES_BATCH_WAKES_MAX`. A setting or a `WAKEGATE_` variable that
is not in this list is a fault, and so is a variable that is set but empty.

`wakegate config check` prints the configuration in force and where each value comes from. A wrong
one is refused at the start: every fault is named at once with its file and line, or its variable,
and the exit code is 2. What stands before the `@` of a URL, and every parameter that could be a
secret, is shown as `***`, here and in logs and errors.
";

/// Widest column of values; what is longer has its source right behind it.
const COLUMN_CHARS_MAX: usize = 512;

/// `docs/configuration.md`.
#[must_use]
pub fn markdown() -> String {
    let mut page = HEAD.to_owned();
    let mut section = "";
    for setting in &SETTINGS {
        if setting.section != section {
            section = setting.section;
            let _ = write!(
                page,
                "\n## `[{section}]`\n\n| key | variable | default | accepts | what it does |\n\
                 | --- | --- | --- | --- | --- |\n"
            );
        }
        let default = setting.default.map_or("none".to_owned(), |text| format!("`{text}`"));
        let _ = writeln!(
            page,
            "| `{}` | `{}` | {default} | {} | {} |",
            setting.key,
            setting.variable(),
            setting.accepts(),
            setting.doc,
        );
    }
    page
}

/// The configuration in force as a TOML file, the source of each value beside it. Secrets are
/// hidden, so a URL that has one cannot be copied from it.
#[must_use]
pub fn effective(loaded: &Loaded) -> String {
    let line = |setting: &Setting| match setting.shown(&loaded.config) {
        Some(value) => format!("{} = {value}", setting.key),
        None => format!("# {} is not set", setting.key),
    };
    let width = SETTINGS.iter().map(|setting| line(setting).chars().count()).max().unwrap_or(0);
    // A value may be longer than a column can be wide.
    let width = width.min(COLUMN_CHARS_MAX);
    let mut text = String::new();
    let mut section = "";
    for (setting, source) in SETTINGS.iter().zip(&loaded.sources) {
        if setting.section != section {
            let gap = if section.is_empty() { "" } else { "\n" };
            section = setting.section;
            let _ = writeln!(text, "{gap}[{section}]");
        }
        let line = line(setting);
        let _ = writeln!(text, "{line:width$}  # {source}");
    }
    text
}
