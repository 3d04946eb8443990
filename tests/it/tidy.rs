//! What the project's sources and documents promise about themselves.
//!
//! These tests read files only. Words that other checks look for are written in two halves here, so
//! that this file does not find itself.

mod documents;
mod operations;
mod sources;

use std::fs;
use std::path::{Path, PathBuf};

/// The checkout.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The text of a file of the checkout.
fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every file below `directory` with this extension, as path from the root, sorted. A missing
/// directory holds none.
fn files(directory: &str, extension: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Vec<PathBuf> = vec![root().join(directory)];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten() {
            let path = entry.expect("a directory that can be listed").path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                let path = path.strip_prefix(root()).expect("a path below the root");
                found.push(path.to_str().expect("file names are UTF-8").to_owned());
            }
        }
    }
    found.sort();
    found
}

/// Rust files of the library, the command, the tests, the examples and the benchmarks.
fn rust_files() -> Vec<String> {
    let found: Vec<String> =
        ["src", "tests", "examples", "benches"].iter().flat_map(|top| files(top, "rs")).collect();
    assert!(found.iter().any(|file| file == "src/lib.rs"), "no sources under {}", root().display());
    found
}

/// Asserts that nothing was found, and lists what was.
fn assert_none(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{what}:\n  {}", found.join("\n  "));
}
