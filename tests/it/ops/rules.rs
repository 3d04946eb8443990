//! The rules by themselves, as `promtool` judges them.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use super::expressions::{RULES, alerts, list, rules, text};
use crate::harness::golden::repository;
use crate::harness::tools::{of_prometheus, printed, yaml};

const TESTS: [&str; 2] = ["ops/prometheus/tests/recording.yml", "ops/prometheus/tests/alerts.yml"];

fn promtool(arguments: &[&str], files: &[&str]) -> String {
    let mut command = Command::new(of_prometheus("promtool"));
    printed(command.args(arguments).args(files).current_dir(repository()))
}

#[test]
fn configuration_and_rules_are_without_fault() {
    let checked = promtool(&["check", "config"], &["ops/prometheus/prometheus.yml"]);
    assert!(checked.contains("2 rule files found"), "the configuration finds the rules: {checked}");
    promtool(&["check", "rules", "--lint=all", "--lint-fatal"], &RULES);
}

#[test]
fn the_rules_pass_their_tests() {
    let tested = promtool(&["test", "rules"], &TESTS);
    assert_eq!(tested.matches("SUCCESS").count(), TESTS.len(), "{tested}");
}

/// An alert that is only ever seen in one state is not tested.
#[test]
fn each_alert_is_tested_firing_and_not_firing() {
    let cases: Vec<Value> = list(&yaml(TESTS[1])[0]["tests"])
        .iter()
        .flat_map(|test| list(&test["alert_rule_test"]))
        .collect();
    for alert in alerts() {
        let name = text(&alert, "alert");
        let of_it = || cases.iter().filter(|case| case["alertname"] == name);
        let fires = |case: &Value| !list(&case["exp_alerts"]).is_empty();
        assert!(of_it().any(fires), "{name} is tested firing");
        assert!(of_it().any(|case| !fires(case)), "{name} is tested not firing");
    }
}

#[test]
fn each_recorded_series_is_tested() {
    let tested: BTreeSet<String> = list(&yaml(TESTS[0])[0]["tests"])
        .iter()
        .flat_map(|test| list(&test["promql_expr_test"]))
        .map(|case| text(&case, "expr").to_owned())
        .collect();
    let recorded: BTreeSet<String> =
        rules().iter().filter_map(|rule| rule["record"].as_str()).map(str::to_owned).collect();
    assert_eq!(tested, recorded);
}
