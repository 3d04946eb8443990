//! The real worker and a collector: what arrives there, and what a collector that is slow, away or
//! unwilling costs.

use std::time::{Duration, Instant};

use async_nats::{HeaderMap, HeaderValue};

use crate::harness::collector::{Collector, Manner, attribute, hex};
use crate::harness::world::brief;
use crate::through_servers::on_both_databases;
use crate::through_servers::stage::{Dialect, Setting, Stage};
use crate::through_servers::story::assignment;

on_both_databases!(the_context_of_an_event_goes_from_its_headers_to_the_run_and_the_collector,);

const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const FULL: &str = "wakegate_trace_spans_total{result=\"queue_full\"}";
const FAILED: &str = "wakegate_trace_spans_total{result=\"failed\"}";
const EXPORTED: &str = "wakegate_trace_spans_total{result=\"exported\"}";
const REJECTED: &str = "wakegate_trace_spans_total{result=\"rejected\"}";

fn context() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("traceparent", TRACEPARENT.parse::<HeaderValue>().unwrap());
    headers.insert("tracestate", "vendor=opaque".parse::<HeaderValue>().unwrap());
    headers
}

async fn the_context_of_an_event_goes_from_its_headers_to_the_run_and_the_collector(
    dialect: Dialect,
) {
    let collector = Collector::start(Manner::Takes).await;
    let stage = Stage::set(dialect).await;
    stage.outside.set_agent("acme", "stopped", "stopped").await;
    let worker = stage
        .worker_with(&[
            ("WAKEGATE_TRACES_ENDPOINT", &collector.url()),
            ("WAKEGATE_TRACES_HEADERS", "authorization=Bearer s3cr3t"),
        ])
        .await;
    stage.send(&assignment("t1", "a1", 1), context()).await;
    stage.send(&assignment("t2", "stopped", 1), context()).await;
    stage.publish_for_outcome(&assignment("t3", "a1", 1)).await;
    let wakes = collector.until("wakegate.wake", 2).await;
    let batches = collector.until("wakegate.batch", 1).await;
    for wake in &wakes {
        assert_eq!(hex(&wake.trace_id), TRACE);
        assert_eq!(hex(&wake.parent_span_id), "00f067aa0ba902b7");
        assert_eq!(wake.trace_state, "vendor=opaque");
        assert!(wake.start_time_unix_nano <= wake.end_time_unix_nano);
        assert!(batches.iter().any(|batch| batch.span_id == wake.links[0].span_id));
    }
    let outcomes: Vec<_> =
        wakes.iter().map(|wake| attribute(&wake.attributes, "wakegate.outcome").unwrap()).collect();
    assert_eq!(outcomes, ["queued", "refused"]);
    let linked: usize = batches.iter().map(|batch| batch.links.len()).sum();
    assert_eq!(linked, 2);

    let run = attribute(&wakes[0].attributes, "wakegate.wake_id").unwrap();
    let rows = stage.rows().await;
    let row = rows.iter().find(|row| row.starts_with("runs") && row.contains(&run)).unwrap();
    assert!(row.contains(TRACEPARENT), "{row}");
    let audited = stage.audited().await;
    assert_eq!(audited[0].record["traceparent"], TRACEPARENT);
    assert_eq!(audited[0].record["tracestate"], "vendor=opaque");

    for headers in collector.headers() {
        assert_eq!(headers["content-type"], "application/x-protobuf");
        assert_eq!(headers["authorization"], "Bearer s3cr3t");
    }
    let resource = &collector.resources()[0];
    assert_eq!(attribute(resource, "service.name").as_deref(), Some("wakegate"));
    assert!(attribute(resource, "service.instance.id").is_some());
    assert!(!worker.log().contains("s3cr3t"), "{}", worker.told("the log has the secret"));
    let counted = async || worker.moved(&["wakegate_trace_spans_total"]).await;
    assert!(counted().await.keys().all(|name| name == EXPORTED), "{:?}", counted().await);
}

/// Away, unwilling or silent: every wake is decided, and what was not exported is counted.
#[tokio::test]
async fn a_collector_that_fails_costs_spans_and_nothing_else() {
    for manner in [None, Some(Manner::Answers(503)), Some(Manner::Hangs)] {
        let collector = Collector::start(manner.unwrap_or(Manner::Takes)).await;
        let url = collector.url();
        let collector = manner.map(|_| collector);
        let stage = Stage::set(Dialect::Sqlite).await;
        let worker = stage
            .worker_with(&[
                ("WAKEGATE_TRACES_ENDPOINT", &url),
                ("WAKEGATE_TRACES_TIMEOUT_MS", "100"),
                ("WAKEGATE_TRACES_QUEUE_SPANS_MAX", "64"),
                ("WAKEGATE_TRACES_SAMPLE_RATIO", "1"),
            ])
            .await;
        for index in 0..5 {
            let task = format!("t{index}");
            let record = stage.publish_for_outcome(&assignment(&task, "a1", 1)).await;
            assert_eq!(brief(&record), "queued", "{manner:?}");
        }
        worker.until_logged("traces cannot be exported and are dropped").await;
        let all_failed = async || {
            let series = worker.scrape().await;
            (series[FAILED] >= 5.0).then_some(())
        };
        crate::harness::until_some(all_failed, || worker.told("spans are not counted")).await;
        assert!(worker.moved(&["wakegate_lane_holds_total"]).await.is_empty());
        if let (Some(collector), Some(Manner::Answers(_))) = (&collector, manner) {
            collector.answers(Manner::Rejects(1));
            stage.publish_for_outcome(&assignment("later", "a1", 1)).await;
            worker.until_logged("the collector takes traces again").await;
            assert!(worker.scrape().await[REJECTED] >= 1.0);
        }
    }
}

/// Nothing of a burst waits for a collector that does not answer; what finds the queue full is
/// dropped and counted.
#[tokio::test]
async fn a_queue_that_is_full_stops_nobody() {
    let collector = Collector::start(Manner::Hangs).await;
    // Two spans a wake, however many have arrived.
    let setting = Setting { batch_wakes_max: 1, ..Setting::default() };
    let stage = Stage::with(Dialect::Sqlite, setting).await;
    let worker = stage
        .worker_with(&[
            ("WAKEGATE_TRACES_ENDPOINT", &collector.url()),
            ("WAKEGATE_TRACES_TIMEOUT_MS", "60000"),
            ("WAKEGATE_TRACES_QUEUE_SPANS_MAX", "64"),
        ])
        .await;
    stage.send(&assignment("first", "a1", 1), context()).await;
    collector.until("wakegate.wake", 1).await;
    for index in 0..200 {
        stage.send(&assignment(&format!("t{index}"), "a1", 1), context()).await;
    }
    stage.settled().await;
    assert_eq!(stage.outside.run_count().await, 201);
    let series = worker.scrape().await;
    assert!(series[FULL] >= 336.0, "{}", series[FULL]);
}

#[tokio::test]
async fn what_is_queued_is_exported_at_sigterm() {
    let collector = Collector::start(Manner::Takes).await;
    let stage = Stage::set(Dialect::Sqlite).await;
    let mut worker = stage.worker_with(&[("WAKEGATE_TRACES_ENDPOINT", &collector.url())]).await;
    for index in 0..20 {
        stage.send(&assignment(&format!("t{index}"), "a1", 1), context()).await;
    }
    stage.settled().await;
    worker.signal("TERM");
    assert!(worker.ended().await.success());
    let wakes = collector.spans().into_iter().filter(|span| span.name == "wakegate.wake");
    assert_eq!(wakes.count(), 20);
}

#[tokio::test]
async fn a_collector_that_hangs_does_not_keep_the_worker_beyond_its_deadline() {
    let collector = Collector::start(Manner::Hangs).await;
    let stage = Stage::set(Dialect::Sqlite).await;
    let mut worker = stage
        .worker_with(&[
            ("WAKEGATE_TRACES_ENDPOINT", &collector.url()),
            ("WAKEGATE_TRACES_TIMEOUT_MS", "60000"),
            ("WAKEGATE_SHUTDOWN_DEADLINE_MS", "2000"),
        ])
        .await;
    stage.send(&assignment("t1", "a1", 1), context()).await;
    collector.until("wakegate.wake", 1).await;
    let asked = Instant::now();
    worker.signal("TERM");
    assert!(worker.ended().await.success());
    assert!(asked.elapsed() < Duration::from_secs(8), "{:?}", asked.elapsed());
    worker.until_logged("traces not exported are dropped").await;
}

#[tokio::test]
async fn the_secret_of_the_collector_is_shown_nowhere() {
    let stage = Stage::set(Dialect::Sqlite).await;
    let mut command = stage.command(&["config", "check"]);
    command
        .env("WAKEGATE_TRACES_ENDPOINT", "https://otlp.example")
        .env("WAKEGATE_TRACES_HEADERS", "authorization=Bearer s3cr3t,x-scope=s3cr3t");
    let checked = crate::harness::command::ended(&mut command);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    assert!(checked.stdout.contains("authorization=***,x-scope=***"), "{}", checked.stdout);
    assert!(!checked.stdout.contains("s3cr3t"));
    for (name, value, says) in [
        ("WAKEGATE_TRACES_ENDPOINT", "grpc://h:4317", "traces.endpoint: wants http://"),
        ("WAKEGATE_TRACES_ENDPOINT", "http://u:s3cr3t@h", "traces.endpoint: holds a user"),
        ("WAKEGATE_TRACES_HEADERS", "s3cr3t", "traces.headers: header 1: wants <name>=<value>"),
        ("WAKEGATE_TRACES_PROTOCOL", "grpc", "traces.protocol: wants http/protobuf"),
        ("WAKEGATE_TRACES_SAMPLE_RATIO", "1.1", "traces.sample_ratio: wants a number from 0 to 1"),
        ("WAKEGATE_TRACES_SAMPLE_RATIO", "NaN", "traces.sample_ratio: wants a number from 0 to 1"),
    ] {
        let mut command = stage.command(&["config", "check"]);
        let wrong = crate::harness::command::ended(command.env(name, value));
        assert_eq!(wrong.code, Some(2), "{name}");
        assert!(wrong.stderr.contains(says), "{}", wrong.stderr);
        assert!(!wrong.stderr.contains("s3cr3t"), "{}", wrong.stderr);
    }
}
