//! Lays the file over the defaults and the variables over the file, collecting every fault.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::settings::{SETTINGS, Setting, gates};
use super::{
    Config, ConfigError, DEFAULT_FILE, Fault, LimitsMode, Loaded, Source, VARIABLE_PREFIX,
};
use super::{file, suggest};
use crate::error_text::sanitised;

/// The table's defaults.
pub(super) fn defaults() -> Config {
    let mut config = Config::blank();
    for setting in &SETTINGS {
        if let Some(text) = setting.default {
            setting.apply(&mut config, text).expect("a test applies every default of the table");
        }
    }
    config
}

/// See [`Config::load`].
pub(super) fn load(
    named: Option<&Path>,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Loaded, ConfigError> {
    let mut layers = Layers {
        config: defaults(),
        sources: vec![Source::Default; SETTINGS.len()],
        faults: Vec::new(),
    };
    layers.file(named);
    layers.variables(variables);
    layers.ceilings();
    if layers.faults.is_empty() {
        layers.together();
    }
    if layers.faults.is_empty() {
        Ok(Loaded { config: layers.config, sources: layers.sources })
    } else {
        Err(ConfigError { faults: layers.faults })
    }
}

struct Layers {
    config: Config,
    sources: Vec<Source>,
    faults: Vec<Fault>,
}

impl Layers {
    fn file(&mut self, named: Option<&Path>) {
        let path = named.map_or_else(|| PathBuf::from(DEFAULT_FILE), Path::to_path_buf);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if named.is_none() && error.kind() == std::io::ErrorKind::NotFound => return,
            Err(error) => {
                let what = format!("cannot be read: {error}");
                self.faults.push(Fault { source: Source::File { path }, what });
                return;
            }
        };
        let (values, faults) = file::read(&path, &text);
        self.faults.extend(faults);
        for value in values {
            self.apply(value.setting, &value.text, value.source, &SETTINGS[value.setting].name());
        }
        self.faults.sort_by_key(|fault| match fault.source {
            Source::Line { line, .. } => line,
            Source::Default | Source::File { .. } | Source::Variable { .. } => 0,
        });
    }

    fn variables(&mut self, variables: impl IntoIterator<Item = (OsString, OsString)>) {
        let mut ours: Vec<(String, OsString)> = variables
            .into_iter()
            .map(|(name, value)| (name.to_string_lossy().into_owned(), value))
            .filter(|(name, _)| name.starts_with(VARIABLE_PREFIX))
            .collect();
        ours.sort();
        for (name, value) in ours {
            let source = Source::Variable { name: sanitised(&name) };
            let Some(index) = SETTINGS.iter().position(|setting| setting.variable() == name) else {
                let what = gates::variable_refuses_nothing(&name).unwrap_or_else(|| {
                    suggest::unknown("variable", &name, SETTINGS.iter().map(Setting::variable))
                });
                self.faults.push(Fault { source, what });
                continue;
            };
            let name = SETTINGS[index].name();
            match value.to_str() {
                None => self.faults.push(Fault { source, what: format!("{name}: is not UTF-8") }),
                // A variable that a template left empty must not quietly mean the default.
                Some("") => self.faults.push(Fault {
                    source,
                    what: format!("{name}: is empty; unset it to have the default"),
                }),
                Some(text) => self.apply(index, text, source, &name),
            }
        }
    }

    fn apply(&mut self, index: usize, text: &str, source: Source, name: &str) {
        match SETTINGS[index].apply(&mut self.config, text) {
            Ok(()) => self.sources[index] = source,
            Err(what) => self.faults.push(Fault { source, what: format!("{name}: {what}") }),
        }
    }

    /// In production no ceiling is left to a default. Asked also where other settings are at fault,
    /// so that all that is missing is named at once.
    fn ceilings(&mut self) {
        if self.config.limits.mode != LimitsMode::Production {
            return;
        }
        let source = self.source_of("limits", "mode").clone();
        for (index, setting) in SETTINGS.iter().enumerate() {
            let wanted =
                setting.section == "limits" && !["mode", "enforced"].contains(&setting.key);
            let name = setting.name();
            // What is there and wrong has a fault of its own, whoever found it.
            let of_it = |fault: &Fault| fault.what.starts_with(&format!("{name}: "));
            if wanted && self.sources[index] == Source::Default && !self.faults.iter().any(of_it) {
                let accepts = setting.accepts();
                let what =
                    format!("{name}: is missing, and has to be set in production: {accepts}");
                self.faults.push(Fault { source: source.clone(), what });
            }
        }
        if !self.config.limits.enforced {
            let source = self.source_of("limits", "enforced").clone();
            let what = "limits.enforced: has to be on in production".to_owned();
            self.faults.push(Fault { source, what });
        }
    }

    /// What holds between settings, asked only where each is valid alone.
    fn together(&mut self) {
        let lanes = &self.config.lanes;
        if lanes.hold_backoff_min > lanes.hold_backoff_max {
            let what = format!(
                "lanes.hold_backoff_ms_min: {} is over lanes.hold_backoff_ms_max, which is {} ({})",
                lanes.hold_backoff_min.as_millis(),
                lanes.hold_backoff_max.as_millis(),
                self.source_of("lanes", "hold_backoff_ms_max"),
            );
            let source = self.source_of("lanes", "hold_backoff_ms_min").clone();
            self.faults.push(Fault { source, what });
        }
        self.tls_together();
        self.databases_together();
    }

    /// Operators, runners and lanes are about the same database.
    fn databases_together(&mut self) {
        let wanted = self.config.database.url.dialect();
        for (section, url) in [
            ("control", &self.config.control.database_url),
            ("queue", &self.config.queue.database_url),
        ] {
            if url.as_ref().is_some_and(|url| url.dialect() != wanted) {
                let what = format!(
                    "{section}.database_url: is another kind of database than database.url, and has \
                     to be the same database"
                );
                let source = self.source_of(section, "database_url").clone();
                self.faults.push(Fault { source, what });
            }
        }
    }

    fn tls_together(&mut self) {
        let tls = &self.config.nats.tls;
        for (set, key, other, missing) in [
            (&tls.certificate_file, "tls_certificate_file", "tls_key_file", &tls.key_file),
            (&tls.key_file, "tls_key_file", "tls_certificate_file", &tls.certificate_file),
        ] {
            if set.is_some() && missing.is_none() {
                let what = format!("nats.{key}: is of no use without nats.{other}");
                self.faults.push(Fault { source: self.source_of("nats", key).clone(), what });
                return;
            }
        }
    }

    fn source_of(&self, section: &str, key: &str) -> &Source {
        let here = |setting: &Setting| setting.section == section && setting.key == key;
        let index = SETTINGS.iter().position(here);
        index.map_or(&Source::Default, |index| &self.sources[index])
    }
}
