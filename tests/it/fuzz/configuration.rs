//! Configuration from files and variables: it is valid and prints as TOML, or every fault is a line
//! of its own; and a password is shown neither way.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use wakegate::config::{Config, DatabaseUrl, NatsServers, document};

const SECRET: &str = "S3CRETx9";

/// See the module.
pub fn target(bytes: &[u8]) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("fuzz.toml");
    std::fs::write(&file, bytes).unwrap();
    judge(Config::load(Some(&file), []));

    std::fs::write(&file, "").unwrap();
    let value = OsString::from_vec(bytes.to_vec());
    for variable in ["NATS_URL", "DATABASE_URL", "HTTP_ADDR", "LANES_BATCH_WAKES_MAX", "LOG_LEVEL"]
    {
        let variable = OsString::from(format!("WAKEGATE_{variable}"));
        judge(Config::load(Some(&file), [(variable, value.clone())]));
    }
    let mut name = OsString::from("WAKEGATE_");
    name.push(&value);
    judge(Config::load(Some(&file), [(name, OsString::from("1"))]));

    let text = String::from_utf8_lossy(bytes);
    assert_hidden(&text);
}

fn judge(loaded: Result<wakegate::config::Loaded, wakegate::config::ConfigError>) {
    match loaded {
        Ok(loaded) => {
            let printed = document::effective(&loaded);
            printed.parse::<toml::Table>().unwrap_or_else(|error| panic!("{printed}: {error}"));
        }
        Err(error) => {
            assert!(!error.faults.is_empty());
            let text = error.to_string();
            assert_eq!(text.lines().count(), error.faults.len() + 1, "{text:?}");
            assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
        }
    }
}

/// A password in front of anything, within the one part where it may stand.
fn assert_hidden(rest: &str) {
    for url in [format!("nats://u:{SECRET}@{rest}"), format!("tls://{SECRET}@{rest}")] {
        let said = match NatsServers::parse(&url) {
            Ok(servers) => format!("{servers} {servers:?}"),
            Err(error) => error,
        };
        assert!(!said.contains(SECRET), "{url:?}: {said}");
    }
    for url in [
        format!("postgres://u:{SECRET}@{rest}"),
        format!("postgres://h/d?password={SECRET}&{rest}"),
    ] {
        let said = match DatabaseUrl::parse(&url) {
            Ok(database) => format!("{} {database:?}", database.url()),
            Err(error) => error,
        };
        assert!(!said.contains(SECRET), "{url:?}: {said}");
    }
}
