//! What surrounds the work: metrics, health, HTTP and signals.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use tokio::task::JoinSet;
use wakegate::admission::{DuplicateKind, GateName, Refusal};
use wakegate::clock::Clock;
use wakegate::health::{Component, ComponentState, Health};
use wakegate::http;
use wakegate::metrics::{AllowanceReason, HoldCause, Metrics, Stage, Violation};
use wakegate::outcome::OutcomeKind;
use wakegate::shutdown::{self, Shutdown};
use wakegate::wake::decode::RejectReason;
use wakegate::wake::{KeylessCause, Producer, UtcMicros};

use crate::harness::golden;
use crate::harness::http::{get, request};

/// Ids that would break a label, a line or a scrape, were they to get there.
const HOSTILE: [&str; 6] = ["a\"b", "x}\n# TYPE y counter", "*", ">", "\u{202e}", "{lane=\"9\"}"];

/// The rendered text without numbers: every name, type, help, label name and label value.
fn shape(text: &str) -> BTreeSet<String> {
    text.lines()
        .map(|line| match line.strip_prefix('#') {
            Some(_) => line.to_owned(),
            None => line.rsplit_once(' ').expect("a series and its value").0.to_owned(),
        })
        .collect()
}

fn version_hidden(text: &str) -> String {
    text.replace(&format!("version=\"{}\"", env!("CARGO_PKG_VERSION")), "version=\"<version>\"")
}

#[test]
fn a_fresh_worker_shows_every_metric_with_every_label_value() {
    golden::check("metrics.txt", &version_hidden(&Metrics::new(2).render()));
}

/// Everything that can be counted, with what hostile publishers can influence.
fn traffic(metrics: &Metrics) {
    for hostile in HOSTILE {
        for outcome in OutcomeKind::ALL {
            let producer = Producer::parse(hostile).expect("any text may be a producer");
            metrics.wakes(outcome, producer.class(), 1);
        }
        let pause_id = hostile.to_owned();
        metrics.refused(&Refusal::PlatformPaused { pause_id: pause_id.clone() });
        metrics.refused(&Refusal::OrganizationPaused { pause_id });
    }
    let retry_at = UtcMicros::from_micros(0);
    metrics.refused(&Refusal::AllowanceExhausted { observed_count: 5, retry_at });
    for reason in RejectReason::ALL {
        metrics.rejected(reason);
    }
    for reason in AllowanceReason::ALL {
        metrics.allowance_acted(*reason);
    }
    metrics.deduplicated(DuplicateKind::Windowed);
    metrics.deduplicated(DuplicateKind::Durable);
    metrics.keyless(KeylessCause::Unresolved);
    metrics.keyless(KeylessCause::ByDesign);
    for kind in Violation::ALL {
        metrics.contract_violation(*kind);
    }
    for gate in GateName::READING {
        metrics.gate_error(gate);
    }
    metrics.gate_error(GateName::Insert);
    for cause in HoldCause::ALL {
        metrics.lane_hold(*cause);
    }
    for stage in Stage::ALL {
        metrics.batch_stage(*stage, Duration::from_millis(3));
    }
    metrics.batch_wakes(17);
    let latencies = metrics.wake_latencies();
    latencies.observe(0.012);
    latencies.flush();
    metrics.redelivered(3);
    metrics.wakes_lost(2);
    metrics.audit_publish_failed();
    for lane in [0, 1, 2, u32::MAX] {
        metrics.set_lane_pending(lane, 41);
        metrics.set_lane_oldest_pending(lane, Duration::from_millis(1_500));
        metrics.set_lane_owned(lane, true);
    }
    metrics.lane_handed_over();
    metrics.set_replicas(3);
}

#[test]
fn ac_003_02_no_traffic_adds_a_series() {
    let metrics = Metrics::new(2);
    let before = shape(&metrics.render());
    traffic(&metrics);
    assert_eq!(shape(&metrics.render()), before);
}

#[test]
fn what_is_counted_is_what_is_scraped() {
    let metrics = Metrics::new(2);
    traffic(&metrics);
    let text = metrics.render();
    for line in [
        "wakegate_wakes_total{outcome=\"no_wake\",producer=\"other\"} 6",
        "wakegate_wakes_total{outcome=\"queued\",producer=\"task_mutation\"} 0",
        "wakegate_refusals_total{reason=\"platform_paused\"} 6",
        "wakegate_refusals_total{reason=\"allowance_exhausted\"} 1",
        "wakegate_refusals_total{reason=\"capacity_exhausted\"} 0",
        "wakegate_rejected_total{reason=\"poison\"} 1",
        "wakegate_assignment_allowance_total{reason=\"task_unattributed\"} 1",
        "wakegate_dedup_total{kind=\"durable\"} 1",
        "wakegate_keyless_total{cause=\"by_design\"} 1",
        "wakegate_contract_violations_total{kind=\"outcome_subject\"} 1",
        "wakegate_gate_errors_total{gate=\"allowance\"} 1",
        "wakegate_gate_errors_total{gate=\"duplicate\"} 2",
        "wakegate_lane_holds_total{cause=\"broker\"} 1",
        "wakegate_batch_seconds_count{stage=\"settle\"} 1",
        "wakegate_batch_wakes_sum 17",
        "wakegate_wake_latency_seconds_sum 0.012",
        "wakegate_redeliveries_total 3",
        "wakegate_wakes_lost_total 2",
        "wakegate_audit_publish_failures_total 1",
        "wakegate_lane_pending{lane=\"1\"} 41",
        "wakegate_lane_oldest_pending_seconds{lane=\"0\"} 1.5",
        "wakegate_lane_owned{lane=\"1\"} 1",
        "wakegate_lane_hand_overs_total 1",
        "wakegate_replicas 3",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
}

#[test]
fn workers_of_one_process_count_apart_and_clones_together() {
    let (one, other) = (Metrics::new(1), Metrics::new(1));
    one.clone().redelivered(4);
    assert!(one.render().contains("wakegate_redeliveries_total 4\n"));
    assert!(other.render().contains("wakegate_redeliveries_total 0\n"));
}

/// A worker's surroundings over a real socket.
struct Served {
    addr: SocketAddr,
    metrics: Metrics,
    health: Health,
    shutdown: Shutdown,
    serving: JoinSet<std::io::Result<()>>,
}

async fn served() -> Served {
    let shutdown = Shutdown::new();
    let clock = Clock::manual(UtcMicros::from_micros(1_000_000));
    let health = Health::new(clock, 2, shutdown.clone());
    let metrics = Metrics::new(2);
    let listener = http::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.expect("any free port");
    let addr = listener.local_addr().expect("it is bound");
    let mut serving = JoinSet::new();
    serving.spawn(http::serve(listener, metrics.clone(), health.clone(), shutdown.clone()));
    Served { addr, metrics, health, shutdown, serving }
}

#[tokio::test]
async fn readiness_is_false_while_servers_are_waited_for_and_says_for_which() {
    let worker = served().await;
    worker.health.ok(Component::Nats);
    worker.health.set(Component::Database, ComponentState::Waiting, Some("connection refused"));
    let waiting = get(worker.addr, "/readyz").await;
    assert_eq!(waiting.status, 503);
    assert!(waiting.headers.contains("content-type: application/json"));
    let json = waiting.json();
    assert_eq!(json["ready"], false);
    assert_eq!(json["components"]["nats"]["state"], "ok");
    assert_eq!(json["components"]["database"]["state"], "waiting");
    assert_eq!(json["components"]["database"]["reason"], "connection refused");
    assert_eq!(json["components"]["database"]["since"], "1970-01-01T00:00:01.000000Z");
    assert_eq!(json["components"]["lane-1"]["state"], "standby");

    assert_eq!(get(worker.addr, "/livez").await.status, 200, "waiting is no reason to restart it");

    worker.health.ok(Component::Database);
    worker.health.ok(Component::Streams);
    assert_eq!(get(worker.addr, "/readyz").await.status, 200, "a standby is ready");
    worker.health.set(Component::Lane(1), ComponentState::Waiting, Some("the database is away"));
    assert_eq!(get(worker.addr, "/readyz").await.status, 503, "a lane holds");
}

#[tokio::test]
async fn readiness_goes_false_first_and_answers_until_the_work_has_ended() {
    let mut worker = served().await;
    for component in [Component::Nats, Component::Database, Component::Streams] {
        worker.health.ok(component);
    }
    assert_eq!(get(worker.addr, "/readyz").await.status, 200);
    worker.shutdown.request();
    let ending = get(worker.addr, "/readyz").await;
    assert_eq!((ending.status, &ending.json()["shutting_down"]), (503, &true.into()));
    assert_eq!(get(worker.addr, "/livez").await.status, 200);
    worker.shutdown.finish();
    worker.serving.join_next().await.unwrap().unwrap().unwrap();
    assert!(request(worker.addr, "GET", "/readyz").await.is_err(), "nobody listens any more");
}

#[tokio::test]
async fn metrics_are_scraped_as_prometheus_reads_them() {
    let worker = served().await;
    worker.metrics.redelivered(7);
    let scraped = get(worker.addr, "/metrics").await;
    assert_eq!(scraped.status, 200);
    assert!(scraped.headers.contains("content-type: text/plain; version=0.0.4"));
    assert!(scraped.body.contains("\nwakegate_redeliveries_total 7\n"), "{}", scraped.body);
    assert_eq!(scraped.body, worker.metrics.render());
}

#[tokio::test]
async fn other_paths_and_methods_are_declined() {
    let worker = served().await;
    let elsewhere = get(worker.addr, "/").await;
    assert_eq!(elsewhere.status, 404);
    assert!(elsewhere.body.contains("/readyz"), "it says what there is");
    let posted = request(worker.addr, "POST", "/metrics").await.unwrap();
    assert_eq!(posted.status, 405);
}

#[tokio::test]
async fn an_address_that_is_taken_is_named() {
    let worker = served().await;
    let error = http::bind(worker.addr).await.unwrap_err();
    assert_eq!(error.error.kind(), std::io::ErrorKind::AddrInUse);
    assert!(error.to_string().contains(&worker.addr.to_string()));
}

const SIGNALLED: &str = "SHELL_TEST_SIGNALLED";
const SIGNAL_TEST: &str = "shell::the_first_signal_ends_in_order_and_the_second_at_once";

/// The process to be signalled is this test, started again: it says what it sees, and never ends by
/// itself once it was asked to.
async fn signalled() {
    let shutdown = Shutdown::new();
    let mut listening = JoinSet::new();
    listening.spawn(shutdown::signals(&shutdown).expect("handlers"));
    say("listening");
    shutdown.requested().await;
    assert!(shutdown.is_requested());
    say("requested");
    std::future::pending::<()>().await;
}

fn say(word: &str) {
    use std::io::Write as _;
    writeln!(std::io::stdout().lock(), "saw: {word}").expect("standard output");
}

#[tokio::test]
async fn the_first_signal_ends_in_order_and_the_second_at_once() {
    if std::env::var_os(SIGNALLED).is_some() {
        return signalled().await;
    }
    for (signal, code) in [("TERM", 143), ("INT", 130)] {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", SIGNAL_TEST, "--nocapture", "--test-threads=1"])
            .env(SIGNALLED, "1")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut wait_for = |word: &str| {
            let seen =
                said.any(|line| line.is_ok_and(|line| line.ends_with(&format!("saw: {word}"))));
            assert!(seen, "the process ended before it saw {word}");
        };
        let pid = process.id().to_string();
        let send = || {
            let sent = Command::new("sh").args(["-c", &format!("kill -{signal} {pid}")]).status();
            assert!(sent.unwrap().success(), "kill -{signal} {pid}");
        };
        wait_for("listening");
        send();
        wait_for("requested");
        assert!(process.try_wait().unwrap().is_none(), "the first {signal} lets it finish");
        send();
        assert_eq!(process.wait().unwrap().code(), Some(code), "the second {signal}");
    }
}
