//! A real Prometheus with the repository's rules, a real worker that it scrapes, and what is then
//! asked of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use serde_json::{Value, json};

use super::expressions::{alerts, dashboard, dashboard_queries, list, rules, selectors, text};
use crate::harness::prometheus::Prometheus;
use crate::harness::until_some;
use crate::harness::worker::Worker;
use crate::harness::world::{Published, mutation};
use crate::through_servers::stage::{Dialect, Stage};

/// A worker with some traffic behind it, and a Prometheus that has seen it before and after.
struct Scene {
    prometheus: Prometheus,
    worker: Worker,
    stage: Stage,
}

impl Scene {
    /// Two agents assign a task to each other until the allowance refuses: five are admitted, two
    /// refused. One wake is a duplicate, one event is broken, one changes nobody's work.
    async fn set() -> Self {
        let stage = Stage::set(Dialect::Sqlite).await;
        let worker = stage.worker().await;
        let prometheus = Prometheus::scraping(worker.addr()).await;
        let scene = Self { prometheus, worker, stage };
        // A counter that is first scraped after it moved has not moved for Prometheus.
        scene.until("sum(wakegate_wakes_total)", 0.0).await;
        let stage = &scene.stage;
        for wake in 0..7 {
            let agent = format!("agent-{wake}");
            stage
                .publish_for_outcome(&mutation(0, "looping", "planner", &agent, json!(wake)))
                .await;
        }
        stage.publish_for_outcome(&mutation(0, "looping", "planner", "agent-0", json!(0))).await;
        stage.publish_for_outcome(&mutation(0, "quiet", "", "", Value::Null)).await;
        let broken = json!({ "type": "task.mutated.v1", "organization_id": "acme", "task_id": 7 });
        let broken = Published::of("onboarding", "acme", "t", &broken, 0);
        stage.publish_for_outcome(&broken).await;
        crate::runs::asking::claim(&stage.nats.client().await, 1, 0).await;
        scene.until("sum(wakegate_wakes_total)", 10.0).await;
        // What is recorded follows with the next evaluation, and a lane's owner with its next look.
        scene.until("count(job:wakegate_wakes_refused:ratio_rate5m)", 1.0).await;
        scene.until("sum(lane:wakegate_lane_owned:sum)", 1.0).await;
        scene
    }

    async fn until(&self, query: &str, wanted: f64) {
        let ask = async || {
            let number = self.prometheus.number(query).await?;
            ((number - wanted).abs() < f64::EPSILON).then_some(())
        };
        until_some(ask, || format!("{query} is never {wanted}; {}", self.prometheus.log())).await;
    }

    /// Waits until a query answers as wanted, by one label, zeros left out. A scrape that a busy machine
    /// missed leaves nothing to see until the next one.
    async fn until_by(&self, label: &str, query: &str, wanted: &[(&str, f64)]) {
        let wanted: BTreeMap<&str, f64> = wanted.iter().copied().collect();
        let last = Mutex::new(Vec::new());
        let ask = async || {
            let samples = self.prometheus.query(query).await;
            let seen = samples.iter().filter(|sample| sample.value != 0.0);
            let seen: BTreeMap<&str, f64> =
                seen.map(|sample| (sample.label(label), sample.value)).collect();
            let as_wanted = seen == wanted;
            *last.lock().unwrap() = samples;
            as_wanted.then_some(())
        };
        until_some(ask, || format!("{query}: {:?}, not {wanted:?}", last.lock().unwrap())).await;
    }

    /// Waits until an expression finds series.
    async fn until_found(&self, expression: &str, where_it_is: &str) {
        let ask = async || (!self.prometheus.query(expression).await.is_empty()).then_some(());
        until_some(ask, || format!("{expression} of {where_it_is} finds nothing")).await;
    }

    /// Names of the alerts in a state.
    async fn alerts(&self, state: &str) -> BTreeSet<String> {
        let alerts = self.prometheus.alerts().await;
        let alerts = alerts.iter().filter(|alert| alert["state"] == state);
        alerts.map(|alert| text(&alert["labels"], "alertname").to_owned()).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn prometheus_sees_what_became_of_each_event() {
    let scene = Scene::set().await;
    for (label, query, wanted) in [
        (
            "outcome",
            "sum by (outcome) (wakegate_wakes_total)",
            &[
                ("queued", 5.0),
                ("refused", 2.0),
                ("deduplicated", 1.0),
                ("no_wake", 1.0),
                ("rejected", 1.0),
            ][..],
        ),
        (
            "producer",
            "sum by (producer) (wakegate_wakes_total)",
            &[("task_mutation", 9.0), ("onboarding", 1.0)],
        ),
        ("reason", "wakegate_refusals_total", &[("allowance_exhausted", 2.0)]),
        ("reason", "wakegate_rejected_total", &[("invalid_field", 1.0)]),
        ("reason", "wakegate_assignment_allowance_total", &[("allowance_exhausted", 2.0)]),
        ("kind", "wakegate_dedup_total", &[("windowed", 1.0)]),
        ("lane", "lane:wakegate_lane_owned:sum", &[("0", 1.0)]),
        ("job", "count by (job) (up == 1)", &[("wakegate", 1.0)]),
        ("version", "wakegate_build_info", &[(env!("CARGO_PKG_VERSION"), 1.0)]),
    ] {
        scene.until_by(label, query, wanted).await;
    }
    // Rates are over time: what was recorded is not exact, but a fifth of it was refused.
    scene.until("count(job:wakegate_wakes_refused:ratio_rate5m > 0.1 < 0.3)", 1.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_alerts_that_this_traffic_calls_for_fire_and_no_others() {
    let scene = Scene::set().await;
    let called_for = ["WakegateAllowanceExhausted", "WakegateEventsRejected"].map(str::to_owned);
    let wanted = BTreeSet::from(called_for);
    let ask = async || (scene.alerts("firing").await == wanted).then_some(());
    until_some(ask, || format!("not {wanted:?} alone; {}", scene.prometheus.log())).await;
    let alerts = scene.prometheus.alerts().await;
    let rejected = alerts.iter().find(|a| a["labels"]["alertname"] == "WakegateEventsRejected");
    let rejected = rejected.expect("it fired a moment ago");
    assert_eq!(rejected["labels"]["reason"], "invalid_field");
    assert_eq!(rejected["annotations"]["summary"], "Events are rejected, invalid_field");

    scene.worker.signal("KILL");
    let wanted: BTreeSet<String> =
        ["WakegateNoWorker", "WakegateWorkerDown"].map(str::to_owned).into();
    let ask = async || scene.alerts("pending").await.is_superset(&wanted).then_some(());
    until_some(ask, || "nobody notices that the worker is gone".to_owned()).await;
}

/// A label value that is mistyped selects nothing and never fires: each selector of a rule has to
/// find the series of a worker, whose label values are all there from the start.
#[tokio::test(flavor = "multi_thread")]
async fn every_rule_is_evaluated_and_every_selector_finds_series() {
    let scene = Scene::set().await;
    let healthy = async || {
        let rules = scene.prometheus.rules().await;
        rules.iter().all(|rule| rule["health"] == "ok").then_some(rules.len())
    };
    let evaluated = until_some(healthy, || scene.prometheus.log()).await;
    assert_eq!(evaluated, rules().len());
    assert!(alerts().len() >= 10, "the alerts have moved");
    for rule in rules() {
        let expression = text(&rule, "expr");
        let found = selectors(expression);
        assert!(!found.is_empty(), "{expression} asks for nothing of wakegate's");
        for selector in found {
            scene.until_found(&selector, expression).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_panel_of_the_dashboard_shows_something() {
    let scene = Scene::set().await;
    let queries = dashboard_queries();
    assert!(queries.len() > 20, "the panels have moved");
    for (panel, query) in &queries {
        // What is a quotient has a value once both its sides have moved within the window.
        let shown = async || {
            let series = scene.prometheus.query(query).await;
            let numbers = !series.is_empty() && series.iter().any(|one| one.value.is_finite());
            numbers.then_some(())
        };
        until_some(shown, || format!("{panel}: {query} shows nothing")).await;
        for selector in selectors(query) {
            scene.until_found(&selector, panel).await;
        }
    }
    let of_panel = |title: &str| {
        let found = queries.iter().find(|(panel, _)| panel == title);
        found.map_or_else(|| panic!("no panel {title}"), |(_, query)| query.clone())
    };
    for (panel, wanted) in [("Workers", 1.0), ("Lanes without owner", 0.0), ("Wakes lost", 0.0)] {
        scene.until(&of_panel(panel), wanted).await;
    }
    for (panel, kinds) in [("Refusals", 1.0), ("Outcomes", 5.0)] {
        scene.until(&format!("count({} > 0)", of_panel(panel)), kinds).await;
    }
}

/// Grafana finds a dashboard again by its uid, and must not be tied to somebody's data source.
#[test]
fn the_dashboard_can_be_imported_anywhere() {
    let dashboard = dashboard();
    assert_eq!(dashboard["uid"], "wakegate-overview");
    assert_eq!(dashboard["id"], Value::Null);
    let mut ids = BTreeSet::new();
    let mut ended = (0, 0);
    for panel in list(&dashboard["panels"]) {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "an id twice: {panel}");
        let at = |name: &str| panel["gridPos"][name].as_u64().unwrap();
        let place = (at("y"), at("x"));
        assert!(place >= ended && at("x") + at("w") <= 24, "panels overlap: {panel}");
        ended = (at("y"), at("x") + at("w"));
        for part in list(&panel["targets"]).iter().chain([&panel]) {
            if panel["type"] != "row" {
                assert_eq!(part["datasource"]["uid"], "${datasource}", "{part}");
            }
        }
    }
    assert!(dashboard["__inputs"].is_null(), "an export for sharing asks questions at each import");
}
