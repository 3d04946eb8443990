//! TLS to both servers, with certificates made for the test: a server is believed only if its
//! certificate is, and nothing is said to one that speaks no TLS where TLS is wanted.

use std::path::{Path, PathBuf};

use crate::harness::certificates::Certificates;
use crate::harness::command::{Ended, ended, wakegate};
use crate::harness::nats::{JetStream, Nats};
use crate::harness::postgres::OwnServer;
use crate::harness::sqlite;
use crate::harness::worker::Worker;

/// A nats-server that speaks TLS only, as `name`, and may want to see a certificate.
async fn nats_as(certificates: &Certificates, name: &str, verify: bool) -> Nats {
    let file = |name: String| certificates.path(&name).display().to_string();
    let tls = format!(
        "tls {{ cert_file: \"{}\", key_file: \"{}\", ca_file: \"{}\", verify: {verify} }}\n\
         authorization {{ user: worker, password: s3cret }}",
        file(format!("{name}.pem")),
        file(format!("{name}.key")),
        file("ca.pem".to_owned()),
    );
    Nats::start_with(JetStream::On, &tls).await
}

/// `wakegate` with a server by this scheme, and files by their settings.
fn command(
    directory: &Path,
    nats: &Nats,
    scheme: &str,
    files: &[(&str, PathBuf)],
    arguments: &[&str],
) -> std::process::Command {
    let url = nats.url().replace("nats://", &format!("{scheme}://worker:s3cret@"));
    let mut command = wakegate(directory, arguments);
    command.env("WAKEGATE_NATS_URL", url).env("WAKEGATE_NATS_REQUEST_TIMEOUT_MS", "5000");
    for (setting, file) in files {
        command.env(format!("WAKEGATE_NATS_TLS_{setting}"), file);
    }
    command
}

fn refused(ended: &Ended) -> bool {
    ended.code == Some(1) && ended.stderr.contains("cannot connect to NATS")
}

#[tokio::test]
async fn nats_is_believed_by_its_certificate_only() {
    let certificates = Certificates::make();
    let directory = tempfile::tempdir().unwrap();
    let nats = nats_as(&certificates, "server", false).await;
    let ours = [("CA_FILE", certificates.path("ca.pem"))];
    let others = [("CA_FILE", certificates.path("other-ca.pem"))];
    let apply = |nats: &Nats, scheme: &str, files: &[(&str, PathBuf)]| {
        ended(&mut command(directory.path(), nats, scheme, files, &["streams", "apply"]))
    };
    for scheme in ["tls", "nats"] {
        let applied = apply(&nats, scheme, &ours);
        assert_eq!(applied.code, Some(0), "{scheme}: {}", applied.stderr);
        for files in [&others[..], &[]] {
            let applied = apply(&nats, scheme, files);
            assert!(refused(&applied), "{scheme} {files:?}: {}", applied.stderr);
        }
    }
    let elsewhere = nats_as(&certificates, "elsewhere", false).await;
    let applied = apply(&elsewhere, "tls", &ours);
    assert!(refused(&applied), "a certificate for another address: {}", applied.stderr);

    // Whoever wants TLS says nothing to a server without, its password included.
    let plain = Nats::start_with(JetStream::On, "debug: true, trace: true").await;
    for (scheme, files) in [("tls", &[][..]), ("tls", &ours[..]), ("nats", &ours[..])] {
        let applied = apply(&plain, scheme, files);
        assert!(refused(&applied), "{scheme} {files:?}: {}", applied.stderr);
    }
    assert!(!plain.log().contains("CONNECT"), "{}", plain.log());
}

#[tokio::test]
async fn nats_may_want_to_see_a_certificate() {
    let certificates = Certificates::make();
    let directory = tempfile::tempdir().unwrap();
    let nats = nats_as(&certificates, "server", true).await;
    let ca = ("CA_FILE", certificates.path("ca.pem"));
    let apply = |files: &[(&str, PathBuf)]| {
        ended(&mut command(directory.path(), &nats, "tls", files, &["streams", "apply"]))
    };
    let without = apply(std::slice::from_ref(&ca));
    assert!(refused(&without), "{}", without.stderr);
    let with = apply(&[
        ca,
        ("CERTIFICATE_FILE", certificates.path("client.pem")),
        ("KEY_FILE", certificates.path("client.key")),
    ]);
    assert_eq!(with.code, Some(0), "{}", with.stderr);
}

#[tokio::test]
async fn a_file_that_holds_no_certificate_is_named_at_once() {
    let certificates = Certificates::make();
    let directory = tempfile::tempdir().unwrap();
    let nats = nats_as(&certificates, "server", false).await;
    let (_database, url) = sqlite::database().await;
    certificates.write("empty.pem", "s3cr3t key\n");
    let empty = [("CA_FILE", certificates.path("empty.pem"))];
    for arguments in [&["run"][..], &["streams", "check"]] {
        let mut command = command(directory.path(), &nats, "tls", &empty, arguments);
        command.env("WAKEGATE_DATABASE_URL", &url).env("WAKEGATE_HTTP_ADDR", "127.0.0.1:0");
        let ended = ended(&mut command);
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains("empty.pem: holds nothing in PEM form"), "{}", ended.stderr);
        assert!(!ended.stderr.contains("s3cr3t"), "{}", ended.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_works_over_tls_to_both_servers() {
    let certificates = Certificates::make();
    let directory = tempfile::tempdir().unwrap();
    let nats = nats_as(&certificates, "server", false).await;
    // PostgreSQL runs as another user, and takes its files with it.
    let theirs = Certificates::make();
    let ca = certificates.path("postgres-ca.pem");
    std::fs::copy(theirs.path("ca.pem"), &ca).unwrap();
    let other_ca = certificates.path("postgres-other-ca.pem");
    std::fs::copy(theirs.path("other-ca.pem"), &other_ca).unwrap();
    let setting = |name: &str, file: &str| format!("{name}={}", theirs.path(file).display());
    let settings = [
        "ssl=on".to_owned(),
        setting("ssl_cert_file", "server.pem"),
        setting("ssl_key_file", "server.key"),
    ];
    let server = OwnServer::start(&settings, theirs.directory.path());
    let database = |ca: &Path| {
        let ca = ca.display();
        let address = server.address();
        format!("postgres://postgres@{address}/postgres?sslmode=verify-full&sslrootcert={ca}")
    };
    let files = [("CA_FILE", certificates.path("ca.pem"))];
    let wakegate = |database: &str, arguments: &[&str]| {
        let mut command = command(directory.path(), &nats, "tls", &files, arguments);
        command.env("WAKEGATE_DATABASE_URL", database);
        command
    };
    let stranger = ended(&mut wakegate(&database(&other_ca), &["migrate"]));
    assert_eq!(stranger.code, Some(1), "{}", stranger.stderr);
    assert!(stranger.stderr.contains("certificate"), "{}", stranger.stderr);

    for arguments in [&["migrate"][..], &["streams", "apply"]] {
        let done = ended(&mut wakegate(&database(&ca), arguments));
        assert_eq!(done.code, Some(0), "{arguments:?}: {}", done.stderr);
    }
    let worker = Worker::spawn(wakegate(&database(&ca), &["run"])).await;
    worker.ready().await;
    let event = directory.path().join("event.json");
    let body = r#"{"type":"task.mutated.v1","task_id":"t","new_assignee_agent_profile_id":"a"}"#;
    std::fs::write(&event, body).unwrap();
    let event = event.to_str().unwrap();
    let told = ended(&mut wakegate(&database(&ca), &["publish", "--outcome", event]));
    assert_eq!(told.code, Some(0), "{}", told.stderr);
    assert!(told.stdout.contains(r#""outcome":"queued""#), "{}", told.stdout);

    let watch = sqlx::PgPool::connect(&database(&ca)).await.unwrap();
    let plain = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
                 WHERE application_name = 'wakegate' AND ssl = ";
    let count = async |ssl: &str| -> i64 {
        let sql = sqlx::AssertSqlSafe(format!("{plain}{ssl}"));
        sqlx::query_scalar(sql).fetch_one(&watch).await.unwrap()
    };
    assert!(count("true").await > 0, "{}", worker.log());
    assert_eq!(count("false").await, 0);
}
