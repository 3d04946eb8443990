//! Starts the real servers that the tests run against, and stands in for everybody else.

pub mod case;
pub mod certificates;
pub mod cluster;
pub mod collector;
pub mod command;
pub mod flaky;
pub mod golden;
pub mod http;
pub mod lines;
pub mod logs;
pub mod nats;
pub mod outside;
pub mod postgres;
pub mod prometheus;
pub mod proxy;
pub mod schema;
pub mod sqlite;
pub mod statements;
pub mod terminal;
pub mod tools;
pub mod worker;
pub mod world;

use std::time::Duration;

/// Longest that a test waits for an event; far above what any takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// Waits until a condition holds, looking every few milliseconds.
///
/// # Panics
/// After [`PATIENCE`].
pub async fn until(condition: impl FnMut() -> bool) {
    until_or(condition, || "the condition never held".to_owned()).await;
}

/// As [`until`]; `explain` says what was there instead.
pub async fn until_or(mut condition: impl FnMut() -> bool, explain: impl Fn() -> String) {
    let mut looks = tokio::time::interval(Duration::from_millis(2));
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !condition() {
        assert!(tokio::time::Instant::now() < deadline, "{}", explain());
        looks.tick().await;
    }
}

/// Asks somebody until there is an answer, looking every few milliseconds; `explain` says what was
/// there instead.
///
/// # Panics
/// After [`PATIENCE`].
pub async fn until_some<T>(
    mut ask: impl AsyncFnMut() -> Option<T>,
    explain: impl Fn() -> String,
) -> T {
    let mut looks = tokio::time::interval(Duration::from_millis(10));
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        looks.tick().await;
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(tokio::time::Instant::now() < deadline, "{}", explain());
    }
}
