//! What a process of the test's own says, line by line.

use std::io::{BufRead as _, BufReader, Read};
use std::sync::{Arc, Mutex};

/// The lines so far.
pub(crate) type Lines = Arc<Mutex<Vec<String>>>;

/// Collects lines until the process closes its end.
pub(crate) fn collect(output: impl Read + Send + 'static) -> Lines {
    let lines = Lines::default();
    let sink = Arc::clone(&lines);
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            sink.lock().unwrap().push(line);
        }
    });
    lines
}
