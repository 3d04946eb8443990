//! Compares text with a file of the repository. `BLESS=1 cargo test --test it` writes the files
//! anew; the difference is then for a reviewer to see.

use std::path::{Path, PathBuf};

/// The repository.
pub(crate) fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Compares `actual` with `tests/golden/<name>`.
pub(crate) fn check(name: &str, actual: &str) {
    check_file(&Path::new("tests/golden").join(name), actual);
}

/// Compares `actual` with a file of the repository.
pub(crate) fn check_file(path: &Path, actual: &str) {
    let file = repository().join(path);
    if std::env::var_os("BLESS").is_some() {
        std::fs::create_dir_all(file.parent().expect("it is in the repository"))
            .expect("a directory of the repository");
        std::fs::write(&file, actual).expect("a file of the repository");
        return;
    }
    let expected = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        expected == actual,
        "{} is not current; if the change is meant, run `BLESS=1 cargo test --test it`\n\
         --- it says\n{expected}\n--- it would now say\n{actual}",
        path.display()
    );
}
