//! A TOML file becomes values of settings, each with its line.

use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::settings::{Kind, SETTINGS, Setting, gates};
use super::{Fault, Source, suggest};
use crate::error_text::sanitised;

/// One value of the file.
#[derive(Debug)]
pub(super) struct FileValue {
    /// Index in [`SETTINGS`].
    pub(super) setting: usize,
    /// As a variable would say it.
    pub(super) text: String,
    /// Its line.
    pub(super) source: Source,
}

/// Reads a file. Where its syntax is broken only that is told of it: what a recovering parser makes
/// of the rest would be blamed for faults that it does not have.
pub(super) fn read(path: &Path, text: &str) -> (Vec<FileValue>, Vec<Fault>) {
    let (document, errors) = DeTable::parse_recoverable(text);
    let mut reading = Reading { path, text, values: Vec::new(), faults: Vec::new() };
    for error in &errors {
        let source = match error.span() {
            Some(span) => reading.line(span.start),
            None => Source::File { path: path.to_path_buf() },
        };
        // The error's `Display` would quote the line, and the line may hold a password.
        reading.faults.push(Fault { source, what: sanitised(error.message()) });
    }
    if errors.is_empty() {
        reading.document(document.get_ref());
    }
    (reading.values, reading.faults)
}

struct Reading<'a> {
    path: &'a Path,
    text: &'a str,
    values: Vec<FileValue>,
    faults: Vec<Fault>,
}

impl Reading<'_> {
    fn document(&mut self, document: &DeTable<'_>) {
        for (name, value) in document {
            let source = self.line(name.span().start);
            let name: &str = name.get_ref();
            if is_family(name) {
                self.family(name, source, value.get_ref());
                continue;
            }
            if !SETTINGS.iter().any(|setting| setting.section == name) {
                // A key that stands in front of every section is looked for in all of them.
                let known = SETTINGS.iter().find(|setting| setting.key == name);
                let what = match known.filter(|_| !value.get_ref().is_table()) {
                    Some(setting) => format!(
                        "{} stands outside of a section; it belongs below [{}]",
                        setting.key, setting.section
                    ),
                    None => suggest::unknown(
                        "section",
                        name,
                        SETTINGS.iter().map(|setting| outermost(setting.section).to_owned()),
                    ),
                };
                self.faults.push(Fault { source, what });
                continue;
            }
            self.named(name, source, value.get_ref());
        }
    }

    fn named(&mut self, name: &str, source: Source, value: &DeValue<'_>) {
        match value {
            DeValue::Table(section) => self.section(name, section),
            other => {
                let what = format!("{name}: wants a section, [{name}], is a {}", other.type_str());
                self.faults.push(Fault { source, what });
            }
        }
    }

    /// Sections that stand in one: `[gates.pause]`.
    fn family(&mut self, family: &str, source: Source, value: &DeValue<'_>) {
        let DeValue::Table(sections) = value else {
            let what = format!("{family}: wants sections, is a {}", value.type_str());
            self.faults.push(Fault { source, what });
            return;
        };
        for (name, value) in sections {
            let source = self.line(name.span().start);
            let name = format!("{family}.{}", name.get_ref());
            if SETTINGS.iter().any(|setting| setting.section == name) {
                self.named(&name, source, value.get_ref());
                continue;
            }
            let what = gates::refuses_nothing(&name).unwrap_or_else(|| {
                let sections = SETTINGS.iter().map(|setting| setting.section.to_owned());
                suggest::unknown("section", &name, sections)
            });
            self.faults.push(Fault { source, what });
        }
    }

    fn section(&mut self, section: &str, keys: &DeTable<'_>) {
        for (key, value) in keys {
            let source = self.line(key.span().start);
            let name = format!("{section}.{}", key.get_ref());
            match SETTINGS.iter().position(|setting| setting.name() == name) {
                None => {
                    let what =
                        suggest::unknown("setting", &name, SETTINGS.iter().map(Setting::name));
                    self.faults.push(Fault { source, what });
                }
                Some(setting) => match as_text(&SETTINGS[setting].kind, value.get_ref()) {
                    Ok(text) => self.values.push(FileValue { setting, text, source }),
                    Err(what) => {
                        self.faults.push(Fault { source, what: format!("{name}: {what}") });
                    }
                },
            }
        }
    }

    fn line(&self, offset: usize) -> Source {
        let before = self.text.as_bytes().get(..offset).unwrap_or(self.text.as_bytes());
        let line = before.split(|byte| *byte == b'\n').count();
        Source::Line { path: self.path.to_path_buf(), line }
    }
}

/// Whether sections stand in a section of this name.
fn is_family(name: &str) -> bool {
    SETTINGS.iter().any(|setting| setting.section != name && outermost(setting.section) == name)
}

fn outermost(section: &str) -> &str {
    section.split('.').next().unwrap_or(section)
}

/// A value of the right type as a variable would say it. The value itself is never named: it may be
/// a secret that was put in the wrong place.
fn as_text(kind: &Kind, value: &DeValue<'_>) -> Result<String, String> {
    match (kind, value) {
        (Kind::Whole { min, max, .. }, DeValue::Integer(number)) => {
            i128::from_str_radix(number.as_str(), number.radix())
                .map(|number| number.to_string())
                .map_err(|_| format!("is out of range; {min} to {max} are accepted"))
        }
        (Kind::Whole { .. }, other) => {
            Err(format!("wants a whole number without quotes, is a {}", other.type_str()))
        }
        (Kind::Text { .. }, DeValue::String(text)) if text.is_empty() => {
            Err("is empty; leave it out to have the default".to_owned())
        }
        (Kind::Text { .. }, DeValue::String(text)) => Ok(text.to_string()),
        (Kind::Text { .. }, other) => {
            Err(format!("wants a string in quotes, is a {}", other.type_str()))
        }
    }
}
