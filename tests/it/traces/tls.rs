//! A collector that is reached over HTTPS is believed by its certificate only.

use crate::harness::certificates::Certificates;
use crate::harness::collector::{Collector, Manner, attribute};
use crate::harness::world::brief;
use crate::harness::{until, until_some};
use crate::through_servers::stage::{Dialect, Stage};
use crate::through_servers::story::assignment;

const EXPORTED: &str = "wakegate_trace_spans_total{result=\"exported\"}";
const FAILED: &str = "wakegate_trace_spans_total{result=\"failed\"}";

/// Variables of a worker that samples everything, and trusts these authorities alone.
fn variables<'a>(url: &'a str, trusted: &'a str) -> [(&'static str, &'a str); 5] {
    [
        ("WAKEGATE_TRACES_ENDPOINT", url),
        ("WAKEGATE_TRACES_HEADERS", "authorization=Bearer s3cr3t"),
        ("WAKEGATE_TRACES_SAMPLE_RATIO", "1"),
        ("SSL_CERT_FILE", trusted),
        // Its certificates would be trusted beside those of the file.
        ("SSL_CERT_DIR", ""),
    ]
}

#[tokio::test]
async fn spans_arrive_over_tls_where_the_authority_of_the_collector_is_trusted() {
    let certificates = Certificates::make();
    let collector = Collector::start_tls(&certificates, "server").await;
    let stage = Stage::set(Dialect::Sqlite).await;
    let trusted = certificates.path("ca.pem").display().to_string();
    let worker = stage.worker_with(&variables(&collector.url(), &trusted)).await;
    let record = stage.publish_for_outcome(&assignment("t1", "a1", 1)).await;
    assert_eq!(brief(&record), "queued");
    let batches = collector.until("wakegate.batch", 1).await;
    let queued = attribute(&batches[0].attributes, "wakegate.outcomes.queued");
    assert_eq!(queued.as_deref(), Some("1"));
    assert_eq!(collector.headers()[0]["authorization"], "Bearer s3cr3t");
    let exported = async || (worker.scrape().await[EXPORTED] >= 1.0).then_some(());
    until_some(exported, || worker.told("spans are not counted")).await;
    let counted = worker.moved(&["wakegate_trace_spans_total"]).await;
    assert!(counted.keys().all(|name| name == EXPORTED), "{counted:?}");
    assert_eq!(collector.hung_up(), Vec::<String>::new());
}

/// Signed by another authority, made out to another host, or no TLS at all: every wake is decided,
/// nothing is said to the collector, and what was not exported is counted and told in the log.
#[tokio::test]
async fn a_collector_whose_certificate_is_none_is_told_nothing_and_costs_no_wake() {
    let certificates = Certificates::make();
    for (name, authority, says) in [
        (Some("server"), "other-ca.pem", "invalid peer certificate: UnknownIssuer"),
        (Some("elsewhere"), "ca.pem", "invalid peer certificate: certificate not valid for name"),
        (None, "ca.pem", "received corrupt message"),
    ] {
        let collector = match name {
            Some(name) => Collector::start_tls(&certificates, name).await,
            None => Collector::start(Manner::Takes).await,
        };
        let url = collector.url().replace("http://", "https://");
        let stage = Stage::set(Dialect::Sqlite).await;
        let trusted = certificates.path(authority).display().to_string();
        let worker = stage.worker_with(&variables(&url, &trusted)).await;
        for index in 0..3 {
            let record =
                stage.publish_for_outcome(&assignment(&format!("t{index}"), "a1", 1)).await;
            assert_eq!(brief(&record), "queued", "{name:?}");
        }
        worker.until_logged("traces cannot be exported and are dropped").await;
        assert!(worker.log().contains(says), "{}", worker.told(says));
        let failed = async || (worker.scrape().await[FAILED] >= 3.0).then_some(());
        until_some(failed, || worker.told("spans are not counted")).await;
        let counted = worker.moved(&["wakegate_trace_spans_total"]).await;
        assert!(counted.keys().all(|name| name == FAILED), "{name:?}: {counted:?}");
        assert!(worker.moved(&["wakegate_lane_holds_total"]).await.is_empty(), "{name:?}");
        assert_eq!(stage.outside.run_count().await, 3, "{name:?}");
        assert!(collector.headers().is_empty(), "{name:?}");
        if name.is_some() {
            until(|| !collector.hung_up().is_empty()).await;
        }
        assert!(!worker.log().contains("s3cr3t"), "{}", worker.told("the log has the secret"));
    }
}
