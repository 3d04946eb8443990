//! Queries of rules and dashboards, taken apart as far as the tests need it.

use serde_json::Value;

use crate::harness::golden::repository;
use crate::harness::tools::yaml;

/// Files of rules, from the root.
pub const RULES: [&str; 2] =
    ["ops/prometheus/rules/recording.yml", "ops/prometheus/rules/alerts.yml"];
/// The dashboard.
const DASHBOARD: &str = "ops/grafana/wakegate-overview.json";

/// Every rule of the files.
pub fn rules() -> Vec<Value> {
    let groups = RULES.iter().flat_map(|file| yaml(file)).flat_map(|file| list(&file["groups"]));
    groups.flat_map(|group| list(&group["rules"])).collect()
}

/// Every alert's rule.
pub fn alerts() -> Vec<Value> {
    rules().into_iter().filter(|rule| rule["alert"].is_string()).collect()
}

/// The items of a list; an absent one holds none.
pub fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

/// A text of a document.
pub fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("no {field}: {value}"))
}

/// The dashboard, as Grafana imports it.
pub fn dashboard() -> Value {
    let text = std::fs::read_to_string(repository().join(DASHBOARD)).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Every query of the dashboard with the title of its panel, as Grafana sends it: with its variables
/// replaced, `$job` by what "All" stands for.
pub fn dashboard_queries() -> Vec<(String, String)> {
    let dashboard = dashboard();
    let all = list(&dashboard["templating"]["list"])
        .iter()
        .find(|variable| variable["name"] == "job")
        .map(|variable| text(variable, "allValue").to_owned())
        .expect("jobs can be chosen");
    let mut queries = Vec::new();
    for panel in list(&dashboard["panels"]) {
        let targets = list(&panel["targets"]);
        assert!(panel["type"] == "row" || !targets.is_empty(), "a panel without query: {panel}");
        for target in targets {
            let query = text(&target, "expr").replace("$__rate_interval", "5m");
            let query = query.replace("$job", &all);
            assert!(!query.contains('$'), "a variable that is not replaced: {query}");
            queries.push((text(&panel, "title").to_owned(), query));
        }
    }
    queries
}

/// The selectors of an expression, such as `up{job="x"}`: what begins with a name that wakegate or
/// Prometheus itself gives to series.
pub fn selectors(expression: &str) -> Vec<String> {
    let in_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let mut found = Vec::new();
    let mut rest = expression;
    while let Some(start) = rest.find(in_name) {
        rest = &rest[start..];
        let end = rest.find(|c| !in_name(c)).unwrap_or(rest.len());
        let name = &rest[..end];
        let labels = match rest[end..].strip_prefix('{') {
            Some(after) => end + 2 + after.find('}').expect("a selector ends"),
            None => end,
        };
        if name == "up" || name.contains("wakegate_") {
            found.push(rest[..labels].to_owned());
        }
        rest = &rest[labels..];
    }
    found
}

#[test]
fn selectors_are_found_with_their_labels() {
    assert_eq!(
        selectors("sum by (job) (rate(wakegate_a_total{x=\"1\"}[5m])) / lane:wakegate_b:max > 2"),
        ["wakegate_a_total{x=\"1\"}", "lane:wakegate_b:max"]
    );
    assert_eq!(selectors("absent(up{job=~\"wakegate.*\"} == 1)"), ["up{job=~\"wakegate.*\"}"]);
}
