//! A reply has to fit into a message, whatever the rows hold.

use serde::Serialize;

/// Most bytes of the rows of one reply; nats-server takes messages of 1 MiB unless told otherwise.
const ROWS_BYTES_MAX: usize = 512 * 1_024;

/// The rows that are answered.
pub(super) struct Page<T> {
    pub(super) rows: Vec<T>,
    /// Whether there are more behind them.
    pub(super) more: bool,
}

/// As many of the rows as are asked for and fit, and at least one.
pub(super) fn within_bytes<T: Serialize>(mut rows: Vec<T>, limit: u32) -> Page<T> {
    let mut bytes = 0;
    let fit = rows.iter().take(limit as usize).take_while(|row| {
        bytes += serde_json::to_string(row).map_or(0, |json| json.len() + 1);
        bytes <= ROWS_BYTES_MAX
    });
    let shown = fit.count().max(1).min(rows.len());
    let more = shown < rows.len();
    rows.truncate(shown);
    Page { rows, more }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_at_its_limit_or_where_a_message_would() {
        let row = "a".repeat(1_000);
        for (rows, limit, shown, more) in
            [(0, 5, 0, false), (5, 5, 5, false), (6, 5, 5, true), (1_000, 900, 522, true)]
        {
            let page = within_bytes(vec![row.clone(); rows], limit);
            assert_eq!((page.rows.len(), page.more), (shown, more), "{rows} {limit}");
        }
        let page = within_bytes(vec!["a".repeat(2 * ROWS_BYTES_MAX); 2], 5);
        assert_eq!((page.rows.len(), page.more), (1, true), "a page is never empty");
    }
}
