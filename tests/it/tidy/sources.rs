//! Rules that the sources keep.

use super::{assert_none, files, rust_files, text};

/// Files over the limit, each with what keeps it whole.
const LONG_FILES: [(&str, &str); 0] = [];
const LINES_MAX: usize = 400;

/// What a pure module has no business with.
const EDGES: [&str; 9] = [
    "tokio",
    "sqlx",
    "async_nats",
    "tracing",
    "std::env",
    "std::fs",
    "std::net",
    "std::thread",
    "SystemTime",
];

/// Lines of a file without comments, numbered from 1.
fn code_lines(file: &str) -> Vec<(usize, String)> {
    let code = |line: &str| line.split("//").next().unwrap_or_default().to_owned();
    text(file).lines().map(code).enumerate().map(|(at, line)| (at + 1, line)).collect()
}

/// `file:line` of each line that holds `needle`, comments included.
fn lines_with(file: &str, needle: &str) -> Vec<String> {
    let contents = text(file);
    let hits = contents.lines().enumerate().filter(|(_, line)| line.contains(needle));
    hits.map(|(at, line)| format!("{file}:{}: {}", at + 1, line.trim())).collect()
}

#[test]
fn the_core_imports_nothing_of_the_shell() {
    let core: Vec<String> = files("src", "rs")
        .into_iter()
        .filter(|file| file.starts_with("src/wake") || file.starts_with("src/admission"))
        .collect();
    assert!(core.len() > 10, "the core has moved: {core:?}");
    let mut found = Vec::new();
    for file in core {
        for (at, line) in code_lines(&file) {
            let words = |edge: &&&str| {
                line.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').any(|word| {
                    word == **edge || word.starts_with(&format!("{edge}::")) || {
                        word.ends_with(&format!("::{edge}"))
                    }
                })
            };
            let edges = EDGES.iter().filter(words);
            found.extend(edges.map(|edge| format!("{file}:{at} uses {edge}")));
        }
    }
    assert_none("wake and admission decide in values only", &found);
}

#[test]
fn files_are_short_enough_to_read() {
    let long: Vec<String> = rust_files()
        .into_iter()
        .filter(|file| LONG_FILES.iter().all(|(exception, _)| exception != file))
        .map(|file| (text(&file).lines().count(), file))
        .filter(|(lines, _)| *lines > LINES_MAX)
        .map(|(lines, file)| format!("{file} has {lines} lines"))
        .collect();
    assert_none(&format!("files over {LINES_MAX} lines"), &long);
}

#[test]
fn no_test_is_left_out() {
    let needle = concat!("#[ign", "ore");
    let found: Vec<String> =
        rust_files().iter().flat_map(|file| lines_with(file, needle)).collect();
    assert_none("tests that do not run", &found);
}

/// Time is injected, and what is awaited is an event with a deadline.
#[test]
fn tp_20_no_test_sleeps() {
    let needle = concat!("sle", "ep(");
    let found: Vec<String> = files("tests", "rs")
        .iter()
        .chain(&files("benches", "rs"))
        .flat_map(|file| lines_with(file, needle))
        .collect();
    assert_none("tests that wait for time instead of an event", &found);
}

#[test]
fn nothing_is_left_unfinished() {
    let marks = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("XX", "X"),
        concat!("to", "do!"),
        concat!("unimple", "mented!"),
    ];
    let found: Vec<String> = rust_files()
        .iter()
        .flat_map(|file| marks.iter().flat_map(move |mark| lines_with(file, mark)))
        .collect();
    assert_none("unfinished code", &found);
}

/// AC-OFFICE-ASSIGN-RATE-002.6: N and W are stated in one place, which tests share.
#[test]
fn ac_002_06_the_constants_of_the_windows_are_declared_once() {
    for name in ["ALLOWANCE_WAKES_MAX", "ALLOWANCE_WINDOW", "COALESCE_WINDOW", "DUPLICATE_WINDOW"] {
        let declaration = format!("const {name}:");
        let found: Vec<String> =
            rust_files().iter().flat_map(|file| lines_with(file, &declaration)).collect();
        assert!(
            found.len() == 1 && found[0].starts_with("src/admission.rs:"),
            "{name} is declared in {found:?}, wanted once and in src/admission.rs"
        );
    }
}

#[test]
fn exceptions_from_lints_say_why() {
    let mut found = Vec::new();
    for file in rust_files() {
        let contents = text(&file);
        for mark in [concat!("#[al", "low("), concat!("#[exp", "ect(")] {
            for (at, _) in contents.match_indices(mark) {
                let attribute = &contents[at..];
                let end = attribute.find(")]").unwrap_or(attribute.len());
                if !attribute[..end].contains("reason") {
                    let line = contents[..at].lines().count() + 1;
                    found.push(format!("{file}:{line}"));
                }
            }
        }
    }
    assert_none("exceptions without a reason", &found);
}

#[test]
fn migrations_are_paired_and_carried() {
    let names = |dialect: &str| -> Vec<String> {
        let directory = format!("migrations/{dialect}/");
        files(&directory, "sql")
            .into_iter()
            .map(|file| file.strip_prefix(&directory).unwrap().to_owned())
            .collect()
    };
    let postgres = names("postgres");
    assert!(!postgres.is_empty(), "no migrations for PostgreSQL");
    assert_eq!(postgres, names("sqlite"), "each migration exists in both dialects");
    let listed = text("src/store/migrations.rs");
    let is_listed =
        |file: &&String| listed.contains(&format!("\"{}\",", file.trim_end_matches(".sql")));
    let left_out: Vec<String> = postgres.iter().filter(|file| !is_listed(file)).cloned().collect();
    assert_none("migrations that src/store/migrations.rs does not list", &left_out);
}
