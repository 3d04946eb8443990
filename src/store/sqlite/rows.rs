//! Statements over many rows.
//!
//! Values are bound as what they are, never through JSON: `json_each` calls a whole batch malformed
//! for one payload it dislikes.

use sqlx::query::Query;
use sqlx::sqlite::{Sqlite, SqliteArguments};
use sqlx::{AssertSqlSafe, query};

use crate::wake::{ActorId, ActorType, Payload, TaskField, TaskId};

/// A statement with its arguments.
pub(super) type Prepared = Query<'static, Sqlite, SqliteArguments>;

/// Rows a statement: few sizes, so that each statement's few texts stay prepared. The widest row has
/// 17 columns, and SQLite binds 32,766 values at most.
const SIZES: [usize; 5] = [256, 64, 16, 4, 1];

/// Splits items into statements' worths.
pub(super) fn chunks<T>(mut items: &[T]) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let size = SIZES.into_iter().find(|size| *size <= items.len())?;
        let (chunk, rest) = items.split_at(size);
        items = rest;
        Some(chunk)
    })
}

/// A statement whose text, as the file has it, is that for one row: `VALUES (?, …)`.
pub(super) fn over_rows(text: &'static str, rows: usize) -> Prepared {
    let Some(start) = text.find("VALUES (").map(|at| at + "VALUES ".len()) else {
        return query(text);
    };
    let Some(end) = text[start..].find(')').map(|at| start + at + 1) else {
        return query(text);
    };
    let row = &text[start..end];
    let mut whole = String::with_capacity(text.len() + rows * (row.len() + 2));
    whole.push_str(&text[..end]);
    for _ in 1..rows {
        whole.push_str(", ");
        whole.push_str(row);
    }
    whole.push_str(&text[end..]);
    // Made of a file's text and question marks only.
    query(AssertSqlSafe(whole))
}

/// Binds `payload, task_id, task_unusable, actor_type, actor_id`: a payload and the columns read
/// from it, in insert and merge alike, so that no column can say what its payload does not.
pub(super) fn bind_run_payload(query: Prepared, payload: &Payload) -> Prepared {
    query
        .bind(payload.text().to_owned())
        .bind(payload.task().task().map(TaskId::to_string))
        .bind(*payload.task() == TaskField::Unusable)
        .bind(payload.actor_type().map(ActorType::to_string))
        .bind(payload.actor_id().map(ActorId::to_string))
}

/// Binds `payload, actor_type, actor_id`: the same of a merged wake.
pub(super) fn bind_merged_payload(query: Prepared, payload: &Payload) -> Prepared {
    query
        .bind(payload.text().to_owned())
        .bind(payload.actor_type().map(ActorType::to_string))
        .bind(payload.actor_id().map(ActorId::to_string))
}

#[cfg(test)]
mod tests {
    use sqlx::Execute as _;

    use super::*;

    #[test]
    fn chunks_cover_every_item_once_and_in_order() {
        for count in [0, 1, 5, 255, 256, 600] {
            let items: Vec<usize> = (0..count).collect();
            let chunked: Vec<usize> = chunks(&items).flatten().copied().collect();
            assert_eq!(chunked, items);
            assert!(chunks(&items).all(|chunk| SIZES.contains(&chunk.len())));
        }
    }

    #[test]
    fn the_row_of_a_statement_is_repeated() {
        let text = "INSERT INTO t (a, b) VALUES (?, ?) ON CONFLICT DO NOTHING";
        let three = over_rows(text, 3).sql();
        assert_eq!(
            three.as_str(),
            "INSERT INTO t (a, b) VALUES (?, ?), (?, ?), (?, ?) ON CONFLICT DO NOTHING"
        );
        assert_eq!(over_rows(text, 1).sql().as_str(), text);
    }
}
