//! Wrong and right configurations, as the command meets them.

use std::path::Path;

use wakegate::config::document;

use super::run_in;
use crate::harness::golden;

/// A password that must never be seen again.
const SECRET: &str = "s3cr3t";

/// Variable, value, and what is said of it.
const WRONG_VARIABLES: &[(&str, &str, &str)] = &[
    (
        "WAKEGATE_NATS_URL",
        "http://x",
        "nats.url: wants nats://<host>:<port> or tls://<host>:<port>",
    ),
    ("WAKEGATE_NATS_URL", "a,,b", "nats.url: server 2: "),
    (
        "WAKEGATE_NATS_URL",
        "nats://h:x",
        "nats.url: NATS server URL is invalid: invalid port number",
    ),
    (
        "WAKEGATE_NATS_CREDENTIALS_FILE",
        "none.creds",
        "nats.credentials_file: \"none.creds\" is no file",
    ),
    ("WAKEGATE_NATS_TLS_CA_FILE", "none.pem", "nats.tls_ca_file: \"none.pem\" is no file"),
    ("WAKEGATE_NATS_INBOX_PREFIX", "_INBOX.>", "nats.inbox_prefix: wants tokens of letters"),
    ("WAKEGATE_NATS_INBOX_PREFIX", "a..b", "nats.inbox_prefix: wants tokens of letters"),
    (
        "WAKEGATE_NATS_REQUEST_TIMEOUT_MS",
        "99",
        "nats.request_timeout_ms: 99 is out of range; 100 to 60000 are accepted",
    ),
    ("WAKEGATE_DATABASE_URL", "mysql://h/d", "database.url: wants sqlite://<path> or postgres://"),
    ("WAKEGATE_DATABASE_URL", "wakegate.db", "database.url: wants sqlite://<path> or postgres://"),
    ("WAKEGATE_DATABASE_URL", "sqlite://", "database.url: names no file"),
    (
        "WAKEGATE_DATABASE_URL",
        "sqlite://:memory:",
        "database.url: a database in memory is durable for nobody",
    ),
    (
        "WAKEGATE_DATABASE_URL",
        "sqlite://a?mode=memory",
        "database.url: a database in memory is durable for nobody",
    ),
    ("WAKEGATE_DATABASE_URL", "sqlite://a?mode=odd", "database.url: "),
    (
        "WAKEGATE_DATABASE_URL",
        "postgres://h/d?passwrd=x",
        "database.url: has a parameter after the ? that is not known",
    ),
    ("WAKEGATE_DATABASE_URL", "postgres://h:port/d", "database.url: "),
    ("WAKEGATE_CONTROL_ENABLED", "yes", "control.enabled: wants on or off"),
    ("WAKEGATE_CONTROL_NATS_URL", "http://x", "control.nats_url: wants nats://<host>:<port>"),
    ("WAKEGATE_CONTROL_CREDENTIALS_FILE", "none", "control.credentials_file: \"none\" is no file"),
    (
        "WAKEGATE_CONTROL_DATABASE_URL",
        "postgres://h/d",
        "control.database_url: is another kind of database than database.url",
    ),
    ("WAKEGATE_DATABASE_CONNECTIONS_MAX", "0", "database.connections_max: 0 is out of range"),
    (
        "WAKEGATE_DATABASE_READ_DEADLINE_MS",
        "2s",
        "database.read_deadline_ms: is no whole number; 100 to 60000 are accepted",
    ),
    (
        "WAKEGATE_DATABASE_RECORD_DEADLINE_MS",
        "-1",
        "database.record_deadline_ms: -1 is out of range",
    ),
    (
        "WAKEGATE_HTTP_ADDR",
        "localhost",
        "http.addr: wants an IP address and a port, such as 127.0.0.1:9464",
    ),
    ("WAKEGATE_STREAMS_DIRECTORY", "none", "streams.directory: \"none\" is no directory"),
    (
        "WAKEGATE_LANES_BATCH_WAKES_MAX",
        "2001",
        "lanes.batch_wakes_max: 2001 is out of range; 1 to 2000 are accepted",
    ),
    (
        "WAKEGATE_LANES_BATCH_WAKES_MAX",
        "99999999999999999999",
        "lanes.batch_wakes_max: 99999999999999999999 is out of range",
    ),
    ("WAKEGATE_LANES_BATCH_BYTES_MAX", "1", "lanes.batch_bytes_max: 1 is out of range"),
    (
        "WAKEGATE_LANES_HOLD_BACKOFF_MS_MIN",
        "6000",
        "lanes.hold_backoff_ms_min: 6000 is over lanes.hold_backoff_ms_max, which is 5000 (default)",
    ),
    ("WAKEGATE_LANES_HOLD_BACKOFF_MS_MAX", "0", "lanes.hold_backoff_ms_max: 0 is out of range"),
    ("WAKEGATE_LANES_STORE_AWAY_GIVE_UP_MS", "1", "lanes.store_away_give_up_ms: 1 is out of range"),
    ("WAKEGATE_LANES_SPREAD", "true", "lanes.spread: wants on or off"),
    ("WAKEGATE_SHUTDOWN_DEADLINE_MS", "x", "shutdown.deadline_ms: is no whole number"),
    ("WAKEGATE_LOG_FORMAT", "xml", "log.format: wants auto, human or json"),
    ("WAKEGATE_LOG_LEVEL", "a=loud", "log.level: is no filter"),
    ("WAKEGATE_LOG_LEVEL", "", "log.level: is empty; unset it to have the default"),
    (
        "WAKEGATE_NATS_URI",
        "x",
        "there is no variable WAKEGATE_NATS_URI; did you mean WAKEGATE_NATS_URL?",
    ),
    (
        "WAKEGATE_COLOUR",
        "x",
        "there is no variable WAKEGATE_COLOUR; `wakegate config check` lists them all",
    ),
];

#[test]
fn each_fault_of_a_variable_is_named_with_its_variable() {
    let directory = tempfile::tempdir().unwrap();
    for (name, value, says) in WRONG_VARIABLES.iter().copied() {
        let wrong = run_in(directory.path(), &["config", "check"], &[(name, value)]);
        assert_eq!((wrong.code, wrong.stdout.as_str()), (Some(2), ""), "{name}={value}");
        assert!(wrong.stderr.contains("has 1 fault\n"), "{name}={value}: {}", wrong.stderr);
        assert!(
            wrong.stderr.contains(&format!("  {name}: {says}")),
            "{name}={value}: {}",
            wrong.stderr
        );
    }
}

#[test]
fn each_fault_of_a_file_is_named_with_its_line() {
    let directory = tempfile::tempdir().unwrap();
    for (text, says) in [
        ("[lanes]\nbatch_wakes_max = 0\n", "2: lanes.batch_wakes_max: 0 is out of range"),
        ("[lanes]\nbatch_wakes_max = -0x1\n", "2: "),
        (
            "[lanes]\nbatch_wakes_max = \"5\"\n",
            "2: lanes.batch_wakes_max: wants a whole number without quotes, is a string",
        ),
        (
            "[lanes]\n\n# more\nbatch_wake_max = 5\n",
            "4: there is no setting lanes.batch_wake_max; did you mean lanes.batch_wakes_max?",
        ),
        ("[lane]\nbatch_wakes_max = 5\n", "1: there is no section lane; did you mean lanes?"),
        (
            "[colours]\n",
            "1: there is no section colours; there are nats, database, http, streams, lanes, gates, limits, control, queue, traces, shutdown, log",
        ),
        (
            "batch_wakes_max = 5\n",
            "1: batch_wakes_max stands outside of a section; it belongs below [lanes]",
        ),
        ("lanes = 5\n", "1: lanes: wants a section, [lanes], is a integer"),
        ("[http]\naddr = 9464\n", "2: http.addr: wants a string in quotes, is a integer"),
        ("[log]\nlevel = \"\"\n", "2: log.level: is empty; leave it out to have the default"),
        ("[nats]\nurl = \"nats://a\"\nurl = \"nats://b\"\n", "3: duplicate key"),
        ("[nats]\nurl = \"nats://a\n", "2: "),
    ] {
        std::fs::write(directory.path().join("wakegate.toml"), text).unwrap();
        let wrong = run_in(directory.path(), &["config", "check"], &[]);
        assert_eq!((wrong.code, wrong.stdout.as_str()), (Some(2), ""), "{text}");
        assert!(wrong.stderr.contains("has 1 fault\n"), "{text}: {}", wrong.stderr);
        assert!(
            wrong.stderr.contains(&format!("  wakegate.toml:{says}")),
            "{text}: {}",
            wrong.stderr
        );
    }
}

#[test]
fn every_fault_of_file_and_variables_is_reported_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let file = "[nats]\nurl = \"ftp://h\"\n[lanes]\nbatch_wakes_max = 0\nbatch_wakes = 7\n";
    std::fs::write(directory.path().join("my.toml"), file).unwrap();
    let variables = [
        ("WAKEGATE_HTTP_ADDR", "nowhere"),
        // It overrides the file's value, whose fault is told all the same.
        ("WAKEGATE_LANES_BATCH_WAKES_MAX", "9999"),
        ("WAKEGATE_LOG_LEVLE", "info"),
    ];
    for command in
        [&["config", "check"][..], &["run"], &["migrate"], &["streams", "check"], &["publish"]]
    {
        let arguments = [&["--config", "my.toml"], command].concat();
        let wrong = run_in(directory.path(), &arguments, &variables);
        assert_eq!((wrong.code, wrong.stdout.as_str()), (Some(2), ""), "{command:?}");
        golden::check("config-faults.txt", &wrong.stderr);
    }
}

#[test]
fn a_file_that_is_named_has_to_be_there_and_the_default_one_does_not() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(run_in(directory.path(), &["config", "check"], &[]).code, Some(0));
    let missing = run_in(directory.path(), &["config", "check", "--config", "none.toml"], &[]);
    assert_eq!(missing.code, Some(2));
    assert!(
        missing.stderr.contains("  none.toml: cannot be read: No such file"),
        "{}",
        missing.stderr
    );
}

#[test]
fn the_configuration_in_force_is_printed_with_the_source_of_each_value() {
    let directory = tempfile::tempdir().unwrap();
    let file = "[database]\nurl = \"postgres://wakegate:s3cr3t@db.example:5432/wakegate?sslmode=require&password=s3cr3t\"\n\
                [lanes]\nbatch_wakes_max = 1_000\n";
    std::fs::write(directory.path().join("wakegate.toml"), file).unwrap();
    let variables = [
        ("WAKEGATE_NATS_URL", "nats://s3cr3t@a.example,tls://user:s3cr3t@b.example:4223"),
        ("WAKEGATE_LANES_HOLD_BACKOFF_MS_MIN", "100"),
    ];
    let checked = run_in(directory.path(), &["config", "check"], &variables);
    assert_eq!((checked.code, checked.stderr.as_str()), (Some(0), ""));
    golden::check("config-check.txt", &checked.stdout);
    checked.stdout.parse::<toml::Table>().expect("what is printed is a TOML file");
}

#[test]
fn secrets_are_never_shown_whether_the_setting_is_right_or_wrong() {
    let directory = tempfile::tempdir().unwrap();
    for (name, value) in [
        ("WAKEGATE_NATS_URL", "nats://user:s3cr3t@h:4222"),
        ("WAKEGATE_NATS_URL", "nats://s3cr3t@h"),
        ("WAKEGATE_NATS_URL", "user:s3cr3t@h"),
        ("WAKEGATE_NATS_URL", "nats://user:s3cr3t@h:port"),
        ("WAKEGATE_NATS_URL", "nats://user:s3cr3t@"),
        ("WAKEGATE_NATS_URL", "nats://a,http://user:s3cr3t@h"),
        ("WAKEGATE_NATS_URL", "nats://user:p/s3cr3t@h"),
        ("WAKEGATE_DATABASE_URL", "postgres://user:s3cr3t@h/d"),
        ("WAKEGATE_DATABASE_URL", "postgres://user:a@b/c?s3cr3t@h/d"),
        ("WAKEGATE_DATABASE_URL", "postgres://h/d?password=s3cr3t"),
        ("WAKEGATE_DATABASE_URL", "postgres://h/d?passwd=s3cr3t"),
        ("WAKEGATE_DATABASE_URL", "postgres://h/d?passwd=s3cr3t@x"),
        ("WAKEGATE_DATABASE_URL", "postgres://h/d?pass%77d=s3cr3t"),
        ("WAKEGATE_DATABASE_URL", "postgres://user:s3cr3t@h:port/d"),
        ("WAKEGATE_DATABASE_URL", "postgres://user:s3cr3t@h/d?sslmode=odd"),
        ("WAKEGATE_DATABASE_URL", "postgres:/user:s3cr3t@h/d"),
        ("WAKEGATE_DATABASE_URL", "mysql://user:s3cr3t@h/d"),
        ("WAKEGATE_HTTP_ADDR", "nats://user:s3cr3t@h"),
        ("WAKEGATE_LOG_FORMAT", "s3cr3t"),
        ("WAKEGATE_DATABASE_CONNECTIONS_MAX", "s3cr3t"),
    ] {
        let seen = run_in(directory.path(), &["config", "check"], &[(name, value)]);
        assert!(matches!(seen.code, Some(0 | 2)), "{name}={value}");
        assert!(!seen.stdout.contains(SECRET), "{name}={value}: {}", seen.stdout);
        assert!(!seen.stderr.contains(SECRET), "{name}={value}: {}", seen.stderr);
    }
    for text in [
        "[database]\nurl = \"postgres://user:s3cr3t@h/d\n",
        "[database]\nurl = postgres://user:s3cr3t@h/d\n",
        "[database]\nurl = [\"postgres://user:s3cr3t@h/d\"]\n",
    ] {
        std::fs::write(directory.path().join("wakegate.toml"), text).unwrap();
        let wrong = run_in(directory.path(), &["config", "check"], &[]);
        assert_eq!(wrong.code, Some(2), "{text}");
        assert!(!wrong.stderr.contains(SECRET), "{text}: {}", wrong.stderr);
    }
}

#[test]
fn the_document_of_the_configuration_is_current() {
    golden::check_file(Path::new("docs/configuration.md"), &document::markdown());
}
