//! A real Prometheus with the repository's rules, a real worker that it scrapes, and what is then
//! asked of it.

use std::collections::{BTreeMap, BTreeSet};

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
        scene.until("sum(wakegate_wakes_total)", 10.0).await;
        // What is recorded follows with the next evaluation, and a lane's owner with its next look.
        scene.until("count(job:wakegate_wakes_refused:ratio_rate5m)", 1.0).await;
        scene.until("sum(lane:wakegate_lane_owned:sum)", 1.0).await;
        scene
    }

    async fn until(&self, query: &str, wanted: f64) {
        let ask = async || {
            let number = self.prometheus.number(query).await?;
            (number == wanted).then_some(())
        };
        until_some(ask, || format!("{query} is never {wanted}; {}", self.prometheus.log())).await;
    }

    /// A query's answer, by one label.
    async fn by(&self, label: &str, query: &str) -> BTreeMap<String, f64> {
        let samples = self.prometheus.query(query).await;
        let samples = samples.iter().filter(|sample| sample.value != 0.0);
        samples.map(|sample| (sample.label(label).to_owned(), sample.value)).collect()
    }

    /// Names of the alerts in a state.
    async fn alerts(&self, state: &str) -> BTreeSet<String> {
        let alerts = self.prometheus.alerts().await;
        let alerts = alerts.iter().filter(|alert| alert["state"] == state);
        alerts.map(|alert| text(&alert["labels"], "alertname").to_owned()).collect()
    }
}

fn named<T>(pairs: &[(&str, T)]) -> BTreeMap<String, T>
where
    T: Copy,
{
    pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn prometheus_sees_what_became_of_each_event() {
    let scene = Scene::set().await;
    let (queued, refused) = (("queued", 5.0), ("refused", 2.0));
    let outcomes = scene.by("outcome", "sum by (outcome) (wakegate_wakes_total)").await;
    let others = [("deduplicated", 1.0), ("no_wake", 1.0), ("rejected", 1.0)];
    assert_eq!(outcomes, named(&[queued, refused, others[0], others[1], others[2]]));
    for (label, query, wanted) in [
        (
            "producer",
            "sum by (producer) (wakegate_wakes_total)",
            vec![("task_mutation", 9.0), ("onboarding", 1.0)],
        ),
        ("reason", "wakegate_refusals_total", vec![("allowance_exhausted", 2.0)]),
        ("reason", "wakegate_rejected_total", vec![("invalid_field", 1.0)]),
        ("reason", "wakegate_assignment_allowance_total", vec![("allowance_exhausted", 2.0)]),
        ("kind", "wakegate_dedup_total", vec![("windowed", 1.0)]),
        ("lane", "lane:wakegate_lane_owned:sum", vec![("0", 1.0)]),
        ("job", "count by (job) (up == 1)", vec![("wakegate", 1.0)]),
    ] {
        assert_eq!(scene.by(label, query).await, named(&wanted), "{query}");
    }
    let version = scene.by("version", "wakegate_build_info").await;
    assert_eq!(version, named(&[(env!("CARGO_PKG_VERSION"), 1.0)]));
    // Rates are over time: what was recorded is not exact, but a fifth of it was refused.
    let ratio = scene.prometheus.number("job:wakegate_wakes_refused:ratio_rate5m").await;
    assert!(ratio.is_some_and(|ratio| ratio > 0.1 && ratio < 0.3), "{ratio:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_alerts_that_this_traffic_calls_for_fire_and_no_others() {
    let scene = Scene::set().await;
    let called_for = ["WakegateAllowanceExhausted", "WakegateEventsRejected"].map(str::to_owned);
    let wanted = BTreeSet::from(called_for);
    // What waits for its time would be pending: nothing does.
    let ask = async || {
        let quiet = scene.alerts("pending").await.is_empty();
        (quiet && scene.alerts("firing").await == wanted).then_some(())
    };
    until_some(ask, || format!("not {wanted:?} alone; {}", scene.prometheus.log())).await;
    let alerts = scene.prometheus.alerts().await;
    let rejected = alerts.iter().find(|a| a["labels"]["alertname"] == "WakegateEventsRejected");
    let rejected = rejected.expect("it fired a moment ago");
    assert_eq!(rejected["labels"]["reason"], "invalid_field");
    assert_eq!(rejected["annotations"]["summary"], "Events are rejected, invalid_field");

    scene.worker.signal("KILL");
    let wanted: BTreeSet<String> =
        ["WakegateNoWorker", "WakegateWorkerDown"].map(str::to_owned).into();
    let ask = async || (scene.alerts("pending").await == wanted).then_some(());
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
            let series = scene.prometheus.query(&selector).await;
            assert!(!series.is_empty(), "{selector} of {expression} finds nothing");
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
            let series = scene.prometheus.query(&selector).await;
            assert!(!series.is_empty(), "{panel}: {selector} finds nothing");
        }
    }
    let of_panel = |title: &str| {
        let found = queries.iter().find(|(panel, _)| panel == title);
        found.map(|(_, query)| query.clone()).unwrap_or_else(|| panic!("no panel {title}"))
    };
    for (panel, wanted) in [("Workers", 1.0), ("Lanes without owner", 0.0), ("Wakes lost", 0.0)] {
        assert_eq!(scene.prometheus.number(&of_panel(panel)).await, Some(wanted), "{panel}");
    }
    let refusals = scene.by("reason", &of_panel("Refusals")).await;
    assert_eq!(refusals.keys().collect::<Vec<_>>(), ["allowance_exhausted"]);
    let outcomes = scene.by("outcome", &of_panel("Outcomes")).await;
    assert_eq!(outcomes.len(), 5, "{outcomes:?}");
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
