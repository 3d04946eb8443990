//! Ceilings that production has to set.

use super::super::Config;
use super::super::settings::{Kind, SETTINGS};
use super::load;
use crate::admission::limits::Dimension;

/// What production has to set.
fn production() -> impl Iterator<Item = &'static super::super::settings::Setting> {
    let own = |setting: &&super::super::settings::Setting| {
        setting.section == "limits" && !["mode", "enforced"].contains(&setting.key)
    };
    SETTINGS.iter().filter(own)
}

#[test]
fn seed_003_in_production_every_ceiling_that_is_missing_or_invalid_is_named_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("some.toml");
    let faults = |file: &str| {
        std::fs::write(&path, format!("[limits]\nmode = \"production\"\n{file}")).unwrap();
        let error = Config::load(Some(&path), []).unwrap_err();
        error.faults.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let missing = faults("");
    assert_eq!(
        missing.len(),
        Dimension::ALL.len() + 1,
        "each ceiling, and the version: {missing:?}"
    );
    for dimension in Dimension::ALL {
        let name = format!("some.toml:2: limits.{}: is missing", dimension.key());
        assert!(missing.iter().any(|fault| fault.contains(&name)), "{name} in {missing:?}");
    }
    // Those that are there and wrong are named with their own fault, beside those that are missing.
    let wrong = faults("queued_runs_platform_max = -1\nwaiting_seconds_max = \"soon\"\n");
    assert_eq!(wrong.len(), missing.len(), "{wrong:?}");
    for (line, fault) in [
        (3, "limits.queued_runs_platform_max: -1 is out of range"),
        (4, "limits.waiting_seconds_max: wants a whole number"),
    ] {
        let named = wrong.iter().filter(|said| said.contains(fault)).collect::<Vec<_>>();
        assert_eq!(named.len(), 1, "{fault} in {wrong:?}");
        assert!(named[0].contains(&format!("some.toml:{line}: ")), "{named:?}");
    }
    // Faults elsewhere hide none of it.
    let both = faults("[lanes]\nbatch_wakes_max = 0\n");
    assert_eq!(both.len(), missing.len() + 1, "{both:?}");
}

#[test]
fn seed_003_production_starts_with_every_ceiling_set_and_enforced() {
    let set: String = production()
        .map(|setting| match setting.kind {
            Kind::Whole { .. } => format!("{} = 0\n", setting.key),
            Kind::Text { .. } => format!("{} = \"7\"\n", setting.key),
        })
        .collect();
    let loaded = load(&format!("[limits]\nmode = \"production\"\n{set}"), &[]);
    assert_eq!(loaded.config.limits.enforced(), Some(crate::admission::Ceilings::all(0)));
    assert_eq!(loaded.config.limits.version.as_deref(), Some("7"));
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = format!("[limits]\nmode = \"production\"\nenforced = \"off\"\n{set}");
    std::fs::write(file.path(), text).unwrap();
    let error = Config::load(Some(file.path()), []).unwrap_err().to_string();
    assert!(error.contains("limits.enforced: has to be on in production"), "{error}");
}

#[test]
fn seed_003_in_development_there_are_ceilings_too() {
    let limits = Config::default().limits;
    let ceilings = limits.enforced().expect("they are enforced");
    for dimension in Dimension::ALL {
        assert!(ceilings.of(dimension) > 0, "{dimension:?} has a default, and none is unlimited");
        let setting = production().find(|setting| setting.key == dimension.key());
        assert!(setting.is_some(), "{dimension:?} has a setting");
    }
}
