//! That alerts and runbooks belong together.

use std::collections::BTreeSet;

use super::{assert_none, text};

const ALERTS: &str = "ops/prometheus/rules/alerts.yml";
const RUNBOOKS: &str = "docs/operations.md";
const SEVERITIES: [&str; 3] = ["critical", "warning", "info"];

/// One alert of the rules: its name, severity and runbook.
struct Alert {
    name: String,
    severity: String,
    runbook: String,
}

/// As the file has them, a line each.
fn alerts() -> Vec<Alert> {
    let contents = text(ALERTS);
    let blocks = contents.split("- alert: ").skip(1);
    let field = |block: &str, mark: &str| {
        let rest = block.split(mark).nth(1).unwrap_or_default();
        rest.split(['\n', ' ', '}']).next().unwrap_or_default().to_owned()
    };
    let alert = |block: &str| Alert {
        name: block.lines().next().unwrap_or_default().trim().to_owned(),
        severity: field(block, "severity: "),
        runbook: field(block, "runbook: "),
    };
    blocks.map(alert).collect()
}

/// The text below each heading of a runbook, with its name.
fn runbooks() -> Vec<(String, String)> {
    let contents = text(RUNBOOKS);
    let (_, alerts) = contents.split_once("\n## Alerts\n").expect("a section for the alerts");
    let alerts = alerts.split("\n## ").next().unwrap_or_default();
    let section = |section: &str| {
        let (name, body) = section.split_once('\n').unwrap_or_default();
        (name.trim().to_owned(), body.trim().to_owned())
    };
    alerts.split("\n### ").skip(1).map(section).collect()
}

#[test]
fn each_alert_has_its_runbook_and_each_runbook_its_alert() {
    let names: Vec<String> = alerts().into_iter().map(|alert| alert.name).collect();
    assert!(names.len() > 10, "the alerts have moved");
    let there: Vec<String> = runbooks().into_iter().map(|(name, _)| name).collect();
    assert_eq!(there, names, "the sections of {RUNBOOKS} are the alerts, in the order of {ALERTS}");
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "a name twice");
}

#[test]
fn each_alert_leads_to_its_runbook_and_says_how_urgent_it_is() {
    let runbooks = runbooks();
    let mut faults = Vec::new();
    for Alert { name, severity, runbook } in alerts() {
        let anchor = format!("{RUNBOOKS}#{}", name.to_lowercase());
        if runbook != anchor {
            faults.push(format!("{name} names {runbook}, wanted {anchor}"));
        }
        if !SEVERITIES.contains(&severity.as_str()) {
            faults.push(format!("{name} has severity {severity}"));
        }
        let body = runbooks.iter().find(|(found, _)| *found == name).map(|(_, body)| body);
        let said =
            body.is_some_and(|body| body.to_lowercase().starts_with(&format!("*{severity}.*")));
        if !said {
            faults.push(format!("the runbook of {name} does not begin with its severity"));
        }
        if !body.is_some_and(|body| body.contains("\n1. ")) {
            faults.push(format!("the runbook of {name} says nothing to do"));
        }
    }
    assert_none("alerts and runbooks", &faults);
}

/// Anchors of this page and of others, so that who is woken up by an alert gets to where it says.
#[test]
fn links_within_documents_lead_to_headings() {
    let anchor = |heading: &str| -> String {
        let kept = |c: &char| c.is_alphanumeric() || *c == ' ' || *c == '-' || *c == '_';
        heading.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")
    };
    let mut broken = Vec::new();
    for document in ["docs/operations.md", "docs/publishing.md", "docs/metrics.md"] {
        for link in text(document).split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let Some((file, wanted)) = link.split_once('#') else { continue };
            let target = if file.is_empty() { document } else { &format!("docs/{file}") };
            let headings = text(target);
            let mut headings = headings.lines().filter(|line| line.starts_with('#'));
            if !headings.any(|line| anchor(line.trim_start_matches('#').trim()) == wanted) {
                broken.push(format!("{document} links to {link}"));
            }
        }
    }
    assert_none("links to headings that do not exist", &broken);
}
