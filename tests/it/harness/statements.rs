//! The statements of a dialect, as files.

use std::path::Path;

/// Name and text of every `.sql` file of a dialect in this part of its directory, in order of their
/// names; `""` is what is in no part.
pub fn statements(dialect: &str, part: &str) -> Vec<(String, String)> {
    let directory =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store").join(dialect).join(part);
    let mut found: Vec<(String, String)> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sql"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read_to_string(&path).unwrap())
        })
        .collect();
    found.sort();
    found
}
