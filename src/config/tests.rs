//! The table of settings, held against itself and against what it fills in.

mod production;

use std::collections::BTreeSet;
use std::ffi::OsString;

use super::settings::{Kind, SETTINGS};
use super::{Config, DatabaseUrl, Dialect, Loaded, NatsServers, SecretUrl, Source, document};
use crate::admission::GateName;

/// With a file of these contents and these variables; never the file of the working directory.
fn load(file: &str, variables: &[(&str, &str)]) -> Loaded {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("some.toml");
    std::fs::write(&path, file).unwrap();
    let variables = variables.iter().map(|(n, v)| (OsString::from(n), OsString::from(v)));
    Config::load(Some(&path), variables).unwrap()
}

#[test]
fn every_default_of_the_table_is_valid_and_shown_as_it_is_written() {
    let config = Config::default();
    for setting in &SETTINGS {
        let shown = setting.shown(&config).map(|text| text.trim_matches('"').to_owned());
        assert_eq!(shown.as_deref(), setting.default, "{}", setting.name());
    }
}

#[test]
fn names_are_unique_and_sections_stand_together() {
    let variables: BTreeSet<String> =
        SETTINGS.iter().map(super::settings::Setting::variable).collect();
    assert_eq!(variables.len(), SETTINGS.len());
    let mut sections: Vec<&str> = SETTINGS.iter().map(|setting| setting.section).collect();
    sections.dedup();
    let distinct: BTreeSet<&str> = sections.iter().copied().collect();
    assert_eq!(distinct.len(), sections.len());
    for (key, variable) in [
        ("nats.url", "WAKEGATE_NATS_URL"),
        ("database.url", "WAKEGATE_DATABASE_URL"),
        ("http.addr", "WAKEGATE_HTTP_ADDR"),
        ("lanes.batch_wakes_max", "WAKEGATE_LANES_BATCH_WAKES_MAX"),
    ] {
        let setting = SETTINGS.iter().find(|setting| setting.name() == key).unwrap();
        assert_eq!(setting.variable(), variable);
    }
}

#[test]
fn both_ends_of_every_range_are_accepted_and_what_is_beyond_is_not() {
    for setting in &SETTINGS {
        let Kind::Whole { min, max, .. } = setting.kind else { continue };
        for (number, accepted) in [
            (i64::from(min) - 1, false),
            (i64::from(min), true),
            (i64::from(max), true),
            (i64::from(max) + 1, false),
        ] {
            let mut config = Config::default();
            let applied = setting.apply(&mut config, &number.to_string());
            assert_eq!(applied.is_ok(), accepted, "{} = {number}", setting.name());
            if accepted {
                assert_eq!(setting.shown(&config), Some(number.to_string()), "{}", setting.name());
            }
        }
    }
}

#[test]
fn a_certificate_and_its_key_are_set_together() {
    let directory = tempfile::tempdir().unwrap();
    let (certificate, key) = (directory.path().join("c.pem"), directory.path().join("k.pem"));
    std::fs::write(&certificate, "").unwrap();
    std::fs::write(&key, "").unwrap();
    let variables = [
        ("WAKEGATE_NATS_TLS_CERTIFICATE_FILE", certificate.to_str().unwrap()),
        ("WAKEGATE_NATS_TLS_KEY_FILE", key.to_str().unwrap()),
    ];
    let tls = load("", &variables).config.nats.tls;
    assert_eq!(tls.certificate_file.as_ref(), Some(&certificate));
    assert_eq!(tls.key_file.as_ref(), Some(&key));
    for (name, value) in variables {
        let alone = [(OsString::from(name), OsString::from(value))];
        let empty = directory.path().join("empty.toml");
        std::fs::write(&empty, "").unwrap();
        let error = Config::load(Some(&empty), alone).unwrap_err().to_string();
        assert!(error.contains(&format!("{name}: nats.tls_")), "{error}");
        assert!(error.contains("is of no use without nats.tls_"), "{error}");
    }
}

/// No setting is kept in another's place: each, set alone, changes what is shown of itself only.
#[test]
fn each_setting_is_kept_where_it_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let creds = directory.path().join("a.creds");
    std::fs::write(&creds, "").unwrap();
    let (creds, folder) = (creds.to_str().unwrap(), directory.path().to_str().unwrap());
    for (index, setting) in SETTINGS.iter().enumerate() {
        let number;
        let value = match (setting.kind, setting.name().as_str()) {
            (Kind::Whole { max, .. }, "lanes.hold_backoff_ms_min") => {
                number = (max / 60).to_string();
                number.as_str()
            }
            // The most is the default.
            (Kind::Whole { .. }, "limits.event_bytes_max") => "1",
            (Kind::Whole { max, .. }, _) => {
                number = max.to_string();
                number.as_str()
            }
            (_, "nats.url" | "control.nats_url" | "queue.nats_url") => "tls://example:4333",
            (
                _,
                "nats.credentials_file"
                | "nats.tls_ca_file"
                | "control.credentials_file"
                | "queue.credentials_file",
            ) => creds,
            (_, "control.database_url" | "queue.database_url") => "sqlite://the-same.db",
            (_, "nats.inbox_prefix") => "_INBOX_worker.a",
            // Only together: see the test of the pair, and those of production. Of protocols there is
            // but one.
            (
                _,
                "nats.tls_certificate_file"
                | "nats.tls_key_file"
                | "traces.protocol"
                | "limits.mode",
            ) => continue,
            (_, "limits.version") => "2026-11-30",
            (_, "database.url") => "postgres://example/wakes",
            (_, "http.addr") => "[::]:1",
            (_, "streams.directory") => folder,
            (_, "lanes.spread" | "control.enabled" | "queue.enabled" | "limits.enforced") => "off",
            (
                _,
                "gates.agent_status.mode"
                | "gates.pause.mode"
                | "gates.allowance.mode"
                | "gates.capacity.mode",
            ) => "shadow",
            (_, "traces.endpoint") => "https://otlp.example:4318/v1/traces",
            (_, "traces.headers") => "authorization=secret",
            (_, "traces.sample_ratio") => "0.5",
            (_, "log.format") => "json",
            (_, "log.level") => "warn,sqlx=off",
            (_, name) => panic!("no sample for {name}"),
        };
        let by_variable = load("", &[(&setting.variable(), value)]);
        let toml = match setting.kind {
            Kind::Whole { .. } => value.to_owned(),
            Kind::Text { .. } => format!("{value:?}"),
        };
        let by_file = load(&format!("\n[{}]\n{} = {toml}\n", setting.section, setting.key), &[]);
        let default = Config::default();
        for loaded in [&by_variable, &by_file] {
            assert_ne!(
                setting.shown(&loaded.config),
                setting.shown(&default),
                "{}",
                setting.name()
            );
            for (other, _) in SETTINGS.iter().enumerate().filter(|(other, _)| *other != index) {
                let other = &SETTINGS[other];
                assert_eq!(
                    other.shown(&loaded.config),
                    other.shown(&default),
                    "{}",
                    setting.name()
                );
            }
        }
        assert_eq!(by_variable.sources[index], Source::Variable { name: setting.variable() });
        assert!(matches!(by_file.sources[index], Source::Line { line: 3, .. }));
        assert!(document::effective(&by_file).contains("some.toml:3\n"));
    }
}

#[test]
fn only_gates_that_refuse_have_a_mode() {
    let toml = "[gates.pause]\nmode = \"shadow\"\n[gates.allowance]\nmode = \"enforce\"\n";
    let loaded = load(toml, &[("WAKEGATE_GATES_AGENT_STATUS_MODE", "shadow")]);
    let shadows: Vec<&str> = loaded.config.gates.shadows.gates().map(GateName::as_str).collect();
    assert_eq!(shadows, ["agent_status", "pause"]);
    let printed: toml::Table = document::effective(&loaded).parse().unwrap();
    assert_eq!(printed["gates"]["pause"]["mode"].as_str(), Some("shadow"));
    assert_eq!(printed["gates"]["allowance"]["mode"].as_str(), Some("enforce"));

    let refuses_nothing = "refuses nothing, so it has no mode; those that refuse are \
                           agent_status, pause, allowance, capacity";
    for (file, variable, fault) in [
        ("[gates.duplicate]\nmode = \"shadow\"\n", "", format!("gate duplicate {refuses_nothing}")),
        ("gates.coalesce.mode = \"enforce\"\n", "", format!("gate coalesce {refuses_nothing}")),
        ("", "WAKEGATE_GATES_IDENTITY_MODE", format!("gate identity {refuses_nothing}")),
        ("", "WAKEGATE_GATES_PAUSE_MODUS", "did you mean WAKEGATE_GATES_PAUSE_MODE?".to_owned()),
        ("[gates.pauses]\nmode = \"shadow\"\n", "", "did you mean gates.pause?".to_owned()),
        ("[gates.pause]\nmodes = \"shadow\"\n", "", "did you mean gates.pause.mode?".to_owned()),
        ("[gates.pause]\nmode = \"off\"\n", "", "wants enforce or shadow".to_owned()),
        ("[gates]\npause = \"shadow\"\n", "", "wants a section, [gates.pause]".to_owned()),
        ("gates = \"shadow\"\n", "", "gates: wants sections, is a string".to_owned()),
    ] {
        let written = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(written.path(), file).unwrap();
        let variables = [(OsString::from(variable), OsString::from("shadow"))];
        let error = Config::load(Some(written.path()), variables).unwrap_err().to_string();
        assert!(error.contains(&fault), "{file}{variable}: {error}");
    }
}

#[test]
fn variables_override_the_file() {
    let loaded = load(
        "[lanes]\nbatch_wakes_max = 7\n",
        &[("WAKEGATE_LANES_BATCH_WAKES_MAX", "9"), ("PATH", "x"), ("WAKEGATEX", "x")],
    );
    assert_eq!(loaded.config.lanes.batch_wakes_max, 9);
}

#[test]
fn a_variable_that_is_no_text_is_a_fault() {
    use std::os::unix::ffi::OsStringExt as _;
    let file = tempfile::NamedTempFile::new().unwrap();
    let variables = [("WAKEGATE_LOG_LEVEL".into(), OsString::from_vec(vec![0xff]))];
    let error = Config::load(Some(file.path()), variables).unwrap_err();
    assert_eq!(error.faults[0].to_string(), "WAKEGATE_LOG_LEVEL: log.level: is not UTF-8");
}

#[test]
fn urls_are_shown_without_what_could_be_a_secret() {
    for (url, shown) in [
        ("nats://h:4222", "nats://h:4222"),
        ("nats://token@h", "nats://***@h"),
        ("tls://u:p@h", "tls://***@h"),
        ("postgres://u:p@h:5432/d", "postgres://***@h:5432/d"),
        ("postgres://u:p/q@r@h/d", "postgres://***@h/d"),
        ("postgres://u:p?q@h/d", "postgres://***"),
        ("postgres://u:p#q@h/d", "postgres://***"),
        ("postgres://h/d?password=p@q", "postgres://***"),
        ("postgres://h/d?password=p&q=r", "postgres://h/d?password=***&***"),
        (
            "postgres://h/d?sslmode=require&password=p",
            "postgres://h/d?sslmode=require&password=***",
        ),
        ("postgres://h/d?options=-c%20x", "postgres://h/d?options=***"),
        ("postgres://h/d?lonely", "postgres://h/d?***"),
        ("postgres://h/d#piece", "postgres://h/d?***"),
        ("sqlite:///data/@home/w.db?mode=rwc", "sqlite:///data/@home/w.db?mode=rwc"),
        ("u:p@h", "***@h"),
    ] {
        let url = SecretUrl::from(url.to_owned());
        assert_eq!(url.to_string(), shown);
        assert_eq!(format!("{url:?}"), format!("SecretUrl({shown})"));
    }
}

#[test]
fn secrets_are_taken_out_of_what_others_say() {
    for (url, said, left) in [
        ("postgres://u:pw1@h/d", "no pw1 for u", "no *** for u"),
        ("postgres://u:p%40w@h/d", "tried p@w and p%40w", "tried *** and ***"),
        ("postgres://h/d?password=pw1&sslmode=odd", "pw1 odd", "*** odd"),
        ("nats://tok@h", "tok is wrong", "*** is wrong"),
        ("postgres://h/d?password=pw1@pw2", "pw1@pw2, pw2", "***@***, ***"),
        ("nats://h", "all is well", "all is well"),
    ] {
        assert_eq!(SecretUrl::from(url.to_owned()).scrub(said), left, "{url}");
    }
    let servers = NatsServers::parse("nats://one1@a,nats://two2@b").unwrap();
    assert_eq!(servers.scrub("two2 one1"), "*** ***");
}

#[test]
fn a_configuration_prints_without_secrets() {
    let loaded = load(
        "[database]\nurl = \"postgres://u:s3cr3t@h/d\"\n",
        &[("WAKEGATE_NATS_URL", "nats://s3cr3t@h,nats://u:s3cr3t@i")],
    );
    assert!(!format!("{loaded:?}").contains("s3cr3t"));
    assert_eq!(loaded.config.database.url.url().expose(), "postgres://u:s3cr3t@h/d");
    let exposed = loaded.config.nats.url.expose();
    assert_eq!(exposed.split(',').count(), 2);
    assert!(exposed.contains("s3cr3t"), "for those who connect with it");
}

#[test]
fn the_dialect_follows_from_the_scheme() {
    for (url, dialect) in [
        ("sqlite://wakegate.db", Dialect::Sqlite),
        ("sqlite:///var/lib/wakegate.db?mode=rwc", Dialect::Sqlite),
        ("postgres://h/d", Dialect::Postgres),
        ("postgresql://u@h:5432/d?sslmode=disable&options[statement_timeout]=1", Dialect::Postgres),
    ] {
        assert_eq!(DatabaseUrl::parse(url).unwrap().dialect(), dialect, "{url}");
    }
}

proptest::proptest! {
    /// Wherever a password stands, and whatever it holds: it is not shown, valid or not.
    #[test]
    fn no_password_is_ever_shown(
        before in "[a-z0-9:/?#@&=%. -]{0,8}",
        after in "[a-z0-9:/?#@&=%. -]{0,8}",
        form in 0_usize..6,
    ) {
        let password = format!("{before}S3CR3T{after}");
        let url = match form {
            0 => format!("postgres://user:{password}@host/database"),
            1 => format!("postgres://host/database?password={password}"),
            2 => format!("postgres://user:{password}@host/database?sslmode=require"),
            3 => format!("nats://{password}@host:4222"),
            4 => format!("nats://user:{password}@host"),
            _ => format!("user:{password}@host"),
        };
        let shown = SecretUrl::from(url.clone());
        let mut seen = vec![shown.to_string(), format!("{shown:?}")];
        seen.push(match DatabaseUrl::parse(&url) {
            Ok(parsed) => format!("{parsed} {parsed:?}"),
            Err(fault) => fault,
        });
        seen.push(match NatsServers::parse(&url) {
            Ok(parsed) => format!("{parsed} {parsed:?}"),
            Err(fault) => fault,
        });
        for text in seen {
            proptest::prop_assert!(!text.to_uppercase().contains("S3CR3T"), "{url} is shown as {text}");
        }
    }
}

#[test]
fn whatever_a_value_holds_what_is_printed_is_toml() {
    for level in ["info,a\u{7f}=warn".to_owned(), format!("info,{}=warn", "a".repeat(70_000))] {
        let loaded = load("", &[("WAKEGATE_LOG_LEVEL", &level)]);
        let printed: toml::Table = document::effective(&loaded).parse().unwrap();
        assert_eq!(printed["log"]["level"].as_str(), Some(level.as_str()));
    }
}
