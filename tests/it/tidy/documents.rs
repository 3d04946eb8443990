//! What the documents claim.

use std::collections::BTreeSet;

use super::{assert_none, files, root, text};
use wakegate::admission::{GATES, Posture};

/// Criteria of each requirement, as seed 001 numbers them.
const CRITERIA: [(u32, u32); 3] = [(1, 13), (2, 6), (3, 6)];
/// Lines of seed 000's test plan.
const PLAN_LINES: u32 = 20;

/// Every Markdown file that readers meet.
fn documents() -> Vec<String> {
    let top = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];
    top.into_iter().map(str::to_owned).chain(files("docs", "md")).collect()
}

/// What stands between backticks, outside of fenced blocks.
fn code_spans(document: &str) -> Vec<String> {
    let mut fenced = false;
    let mut spans = Vec::new();
    for line in text(document).lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            spans.extend(line.split('`').skip(1).step_by(2).map(str::to_owned));
        }
    }
    spans
}

/// `wakegate_…` at the start of a text, or nothing.
fn metric_name(span: &str) -> Option<String> {
    let name: String = span
        .chars()
        .take_while(|c| c.is_ascii_lowercase() || *c == '_' || c.is_ascii_digit())
        .collect();
    (name.starts_with("wakegate_") && name.len() > "wakegate_".len()).then_some(name)
}

#[test]
fn links_lead_somewhere() {
    let mut broken = Vec::new();
    for document in documents() {
        let contents = text(&document);
        let directory = root().join(&document).parent().unwrap().to_owned();
        for link in contents.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = link.split('#').next().unwrap_or_default();
            let elsewhere = target.is_empty() || target.contains("://");
            if !elsewhere && !directory.join(target).exists() {
                broken.push(format!("{document} links to {target}"));
            }
        }
    }
    assert_none("links to files that do not exist", &broken);
}

/// Paths in running text, so that a reader who is sent somewhere finds it.
#[test]
fn paths_named_in_documents_exist() {
    let tops =
        ["src/", "tests/", "docs/", "streams/", "migrations/", "ops/", "examples/", "scripts/"];
    let mut missing = Vec::new();
    for document in documents() {
        for span in code_spans(&document) {
            let is_path = tops.iter().any(|top| span.starts_with(top))
                && !span.contains(|c: char| c.is_whitespace() || "*<>{}".contains(c));
            if is_path && !root().join(&span).exists() {
                missing.push(format!("{document} names {span}"));
            }
        }
    }
    assert_none("paths that do not exist", &missing);
}

/// `docs/delivery.md` names a test for what it claims; a name that no test has shows nothing.
#[test]
fn tests_named_in_the_tables_of_delivery_exist() {
    let mut named = 0;
    let mut missing = Vec::new();
    for span in code_spans("docs/delivery.md") {
        let parts: Vec<&str> = span.split("::").collect();
        let [module @ .., name] = parts.as_slice() else { continue };
        let word = |part: &&str| part.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        if module.is_empty() || !parts.iter().all(word) {
            continue;
        }
        named += 1;
        let file = format!("tests/it/{}.rs", module.join("/"));
        let found = root().join(&file).exists() && text(&file).contains(&format!("fn {name}("));
        if !found {
            missing.push(format!("{span}, looked for in {file}"));
        }
    }
    assert!(named > 30, "the tables have moved");
    assert_none("tests that do not exist", &missing);
}

#[test]
fn the_gates_are_documented_in_their_order() {
    let documented: Vec<(String, String)> = text("docs/gates.md")
        .lines()
        .filter(|line| line.starts_with("| ") && line.as_bytes()[2].is_ascii_digit())
        .map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            (cells[2].trim_matches('`').to_owned(), cells[cells.len() - 2].to_owned())
        })
        .collect();
    let built: Vec<(String, String)> = GATES
        .iter()
        .map(|gate| {
            let posture = match gate.posture {
                Posture::Hold => "hold",
                Posture::Closed => "closed",
                Posture::Open => "open",
            };
            (gate.name.as_str().to_owned(), posture.to_owned())
        })
        .collect();
    assert_eq!(documented, built, "docs/gates.md lists gate and posture as src/admission/gates.rs");
}

#[test]
fn the_metrics_are_documented() {
    let documented: BTreeSet<String> =
        code_spans("docs/metrics.md").iter().filter_map(|span| metric_name(span)).collect();
    let mut sources = files("src/metrics", "rs");
    sources.push("src/metrics.rs".to_owned());
    let registered: BTreeSet<String> = sources
        .iter()
        .flat_map(|file| {
            let contents = text(file);
            contents.split('"').filter_map(metric_name).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(documented, registered, "docs/metrics.md lists what src/metrics.rs registers");
}

/// Names of functions in the tests and the sources, for documents that say what shows a claim.
#[test]
fn tests_named_for_a_claim_exist() {
    let sources: String =
        files("tests/it", "rs").iter().chain(&files("src", "rs")).map(|file| text(file)).collect();
    let mut missing = Vec::new();
    let mut named = 0;
    for document in ["docs/limits.md", "docs/security.md"] {
        for span in code_spans(document) {
            // A test's name is a promise: a sentence of many words.
            let sentence = span.matches('_').count() >= 4
                && span.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
            named += usize::from(sentence);
            if sentence && !sources.contains(&format!("fn {span}")) {
                missing.push(format!("{document} names {span}"));
            }
        }
    }
    assert!(named > 40, "the documents name what shows their claims: {named}");
    assert_none("tests that do not exist", &missing);
}

/// A row without its test is a claim that nobody checks.
#[test]
fn every_limit_names_its_test() {
    let rows = text("docs/limits.md");
    let rows: Vec<&str> =
        rows.lines().filter(|l| l.starts_with("| ") && !l.starts_with("| ---")).collect();
    assert!(rows.len() > 30, "the tables have moved");
    let unshown = rows.iter().filter(|row| !row.ends_with(" test |") && !row.ends_with("` |"));
    let unshown: Vec<String> = unshown.map(|row| (*row).to_owned()).collect();
    assert_none("limits without a test", &unshown);
}

#[test]
fn decisions_are_indexed_and_numbered_without_gaps() {
    let index = text("docs/decisions/README.md");
    let names: Vec<String> = files("docs/decisions", "md")
        .into_iter()
        .map(|file| file.strip_prefix("docs/decisions/").unwrap().to_owned())
        .filter(|name| name != "README.md")
        .collect();
    assert!(!names.is_empty(), "no decisions");
    for (at, name) in names.iter().enumerate() {
        assert!(name.starts_with(&format!("{:04}-", at + 1)), "{name} is out of line");
        assert!(index.contains(&format!("]({name})")), "{name} is not in the index");
    }
}

/// One row of docs/criteria.md: its id and the prefixes of its tests.
fn criteria_rows() -> Vec<(String, Vec<String>)> {
    text("docs/criteria.md")
        .lines()
        .filter(|line| line.starts_with("| AC-") || line.starts_with("| TP-"))
        .map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let tests = cells[cells.len() - 2];
            let prefixes = tests.split('`').skip(1).step_by(2).map(str::to_owned).collect();
            (cells[1].to_owned(), prefixes)
        })
        .collect()
}

/// What a test's name carries: `ac_001_04_tp_05_what_it_shows` carries both.
fn carried(name: &str) -> impl Iterator<Item = &str> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    (0..name.len()).filter_map(move |at| {
        let rest = &name[at..];
        let starts = at == 0 || name.as_bytes()[at - 1] == b'_';
        let numbers = match rest.get(..3)? {
            "ac_" => 2,
            "tp_" => 1,
            _ => return None,
        };
        let words: Vec<&str> = rest.split('_').skip(1).take(numbers).collect();
        let length = 3 + words.iter().map(|word| word.len() + 1).sum::<usize>();
        (starts && words.len() == numbers && words.into_iter().all(is_number))
            .then(|| &rest[..length.min(rest.len())])
    })
}

/// The criteria and lines of the test plan that names of functions carry.
fn tests_by_criterion() -> Vec<String> {
    let mut names = Vec::new();
    for file in files("tests/it", "rs").iter().chain(&files("src", "rs")) {
        for rest in text(file).split("fn ").skip(1) {
            let name: String =
                rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
            names.extend(carried(&name).map(str::to_owned));
        }
    }
    names
}

#[test]
fn every_criterion_and_every_line_of_the_test_plan_is_listed_once_in_order() {
    let criteria = CRITERIA.iter().flat_map(|&(requirement, last)| {
        (1..=last).map(move |number| format!("AC-OFFICE-ASSIGN-RATE-{requirement:03}.{number}"))
    });
    let plan = (1..=PLAN_LINES).map(|line| format!("TP-{line:02}"));
    let wanted: Vec<String> = criteria.chain(plan).collect();
    let listed: Vec<String> = criteria_rows().into_iter().map(|(id, _)| id).collect();
    assert_eq!(listed, wanted);
}

#[test]
fn every_criterion_has_its_tests_and_every_such_test_its_criterion() {
    let rows = criteria_rows();
    let names = tests_by_criterion();
    let mut faults = Vec::new();
    for (id, prefixes) in &rows {
        if prefixes.is_empty() {
            faults.push(format!("{id} lists no test"));
        }
        for prefix in prefixes {
            if !names.contains(prefix) {
                faults.push(format!("{id}: no test's name carries {prefix}"));
            }
        }
    }
    for name in &names {
        let listed = |(_, prefixes): &(String, Vec<String>)| prefixes.contains(name);
        if !rows.iter().any(listed) {
            faults.push(format!("{name} is not listed in docs/criteria.md"));
        }
    }
    assert_none("docs/criteria.md and the tests differ", &faults);
}
