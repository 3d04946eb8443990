//! Which spans a batch makes.

use serde_json::json;
use tokio::sync::mpsc::Receiver;
use wakegate::metrics::Metrics;
use wakegate::store::memory::MemoryStore;
use wakegate::traces::{LINKS_MAX, Span, Tracer, WAKE_SPANS_MAX};

use crate::harness::collector::{attribute, hex};
use crate::harness::world::{Published, SECOND, T0, World, brief, mutation, series};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// A traceparent with a span id of the test's own.
fn traceparent(span: usize, flags: &str) -> String {
    format!("00-{TRACE}-{:016x}-{flags}", span + 1)
}

fn assignment(index: usize, flags: Option<&str>) -> Published {
    let at = T0 + i64::try_from(index).unwrap();
    let event = mutation(at, &format!("t{index}"), "", "builder", json!(index));
    Published { traceparent: flags.map(|flags| traceparent(index, flags)), ..event }
}

async fn traced(sample_ratio: f64) -> (World<MemoryStore>, Receiver<Span>) {
    let mut world = World::new(MemoryStore::new()).await;
    let (tracer, spans) = Tracer::with_queue(1_000, sample_ratio, world.bench.metrics.clone());
    world.bench.tracer = tracer;
    (world, spans)
}

fn taken(queue: &mut Receiver<Span>) -> Vec<Span> {
    std::iter::from_fn(|| queue.try_recv().ok()).collect()
}

#[tokio::test]
async fn a_sampled_wake_has_a_span_within_its_trace_and_its_batch_one_that_is_linked() {
    let (mut world, mut queue) = traced(0.0).await;
    let events = [assignment(0, None), assignment(1, Some("01")), assignment(2, Some("00"))];
    let mut deliveries = world.stored(&events);
    deliveries[1].message.tracestate = Some("vendor=a,other=b".into());
    world.bench.clock.set(wakegate::wake::UtcMicros::from_micros(T0 + SECOND));
    let records = world.work(&deliveries).await;

    let spans = taken(&mut queue);
    assert_eq!(spans.len(), 2, "{spans:#?}");
    let (batch, wake) = (&spans[0], &spans[1]);
    assert_eq!((batch.name.as_str(), wake.name.as_str()), ("wakegate.batch", "wakegate.wake"));
    assert_eq!(hex(&wake.trace_id), TRACE);
    assert_eq!(hex(&wake.parent_span_id), "0000000000000002");
    assert_eq!(wake.span_id.len(), 8);
    assert_eq!(wake.trace_state, "vendor=a,other=b");
    assert_eq!(wake.flags & 0xff, 1);
    assert_eq!(wake.start_time_unix_nano, u64::try_from((T0 + 1) * 1_000).unwrap());
    assert_eq!(wake.end_time_unix_nano, u64::try_from((T0 + SECOND) * 1_000).unwrap());
    let of_wake = |key: &str| attribute(&wake.attributes, key);
    assert_eq!(of_wake("wakegate.wake_id").as_deref(), records[1]["wake_id"].as_str());
    assert_eq!(of_wake("wakegate.outcome").as_deref(), Some("queued"));
    assert_eq!(of_wake("wakegate.stream_sequence").as_deref(), Some("2"));
    let to_batch: Vec<_> = wake.links.iter().map(|link| &link.span_id).collect();
    assert_eq!(to_batch, [&batch.span_id]);

    assert_ne!(hex(&batch.trace_id), TRACE, "a batch belongs to no publisher's trace");
    assert!(batch.parent_span_id.is_empty());
    let linked: Vec<String> = batch.links.iter().map(|link| hex(&link.span_id)).collect();
    assert_eq!(linked, ["0000000000000002", "0000000000000003"]);
    assert!(batch.links.iter().all(|link| hex(&link.trace_id) == TRACE));
    let of_batch = |key: &str| attribute(&batch.attributes, key);
    assert_eq!(of_batch("messaging.batch.message_count").as_deref(), Some("3"));
    assert_eq!(of_batch("wakegate.outcomes.queued").as_deref(), Some("3"));
    assert_eq!(of_batch("wakegate.lane").as_deref(), Some("0"));

    // The context goes on with the run and the record.
    assert_eq!(records[1]["traceparent"], traceparent(1, "01"));
    assert_eq!(records[1]["tracestate"], "vendor=a,other=b");
    assert_eq!(records[0].get("traceparent"), None);
    let run = world.bench.store.runs();
    let of_run = run.iter().find(|run| run.id.to_string() == records[1]["run_id"]).unwrap();
    assert_eq!(of_run.traceparent.as_deref(), Some(traceparent(1, "01").as_str()));
}

#[tokio::test]
async fn a_refusal_says_its_reason_in_its_span_and_its_context_in_its_audit_event() {
    let (mut world, mut queue) = traced(0.0).await;
    world.bench.store.pause(None, "p1");
    let record = world.send(assignment(0, Some("01"))).await;
    assert_eq!(brief(&record), "refused:platform_paused");
    let audited = world.audited();
    let audited: serde_json::Value = serde_json::from_str(&audited[0].record).unwrap();
    assert_eq!(audited["traceparent"], traceparent(0, "01"));
    let spans = taken(&mut queue);
    let reason = attribute(&spans[1].attributes, "wakegate.reason");
    assert_eq!(reason.as_deref(), Some("platform_paused"));
}

#[tokio::test]
async fn without_a_sampled_wake_a_batch_has_a_span_by_the_ratio_alone() {
    for (ratio, flags, expected) in [
        (0.0, None, 0),
        (0.0, Some("00"), 0),
        (1.0, None, 1),
        (1.0, Some("00"), 1),
        (1.0, Some("01"), 2),
    ] {
        let (mut world, mut queue) = traced(ratio).await;
        world.send(assignment(0, flags)).await;
        let spans = taken(&mut queue);
        assert_eq!(spans.len(), expected, "{ratio} {flags:?}: {spans:#?}");
    }
}

#[tokio::test]
async fn links_and_spans_of_one_batch_are_bounded_and_what_is_left_out_is_said() {
    let (mut world, mut queue) = traced(0.0).await;
    let many = WAKE_SPANS_MAX + 36;
    let events: Vec<_> = (0..many).map(|index| assignment(index, Some("01"))).collect();
    world.batch(&events).await;
    let spans = taken(&mut queue);
    assert_eq!(spans.len(), 1 + WAKE_SPANS_MAX);
    let batch = &spans[0];
    assert_eq!(batch.links.len(), LINKS_MAX);
    assert_eq!(batch.dropped_links_count as usize, many - LINKS_MAX);
    let left_out = attribute(&batch.attributes, "wakegate.wake_spans_left_out");
    assert_eq!(left_out.as_deref(), Some("36"));
}

#[tokio::test]
async fn what_repeats_has_no_second_span() {
    let (mut world, mut queue) = traced(0.0).await;
    let deliveries = world.stored(&[assignment(0, Some("01"))]);
    world.work(&deliveries).await;
    assert_eq!(taken(&mut queue).len(), 2);
    world.work(&deliveries).await;
    assert!(taken(&mut queue).is_empty());
}

#[tokio::test]
async fn a_full_queue_drops_and_counts_and_decides_all_the_same() {
    let metrics = Metrics::new(8);
    let mut world = World::new(MemoryStore::new()).await;
    let (tracer, mut queue) = Tracer::with_queue(3, 1.0, metrics.clone());
    world.bench.tracer = tracer;
    let events: Vec<_> = (0..10).map(|index| assignment(index, Some("01"))).collect();
    assert_eq!(world.outcomes(&events).await, ["queued"; 10]);
    assert_eq!(taken(&mut queue).len(), 3);
    assert_eq!(series(&metrics, "wakegate_trace_spans_total{result=\"queue_full\"}"), 17);
    drop(queue);
    world.send(assignment(11, Some("01"))).await;
    assert_eq!(series(&metrics, "wakegate_trace_spans_total{result=\"queue_full\"}"), 19);
}
