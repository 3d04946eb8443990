//! Statements over many rows.
//!
//! Values are bound as what they are, never through JSON: `json_each` calls a whole batch malformed
//! for one payload it dislikes.

use std::sync::{Arc, OnceLock};

use sqlx::query::Query;
use sqlx::sqlite::{Sqlite, SqliteArguments};
use sqlx::{AssertSqlSafe, query};

use crate::wake::{ActorId, ActorType, Payload, TaskField, TaskId};

/// A statement with its arguments.
pub(super) type Prepared = Query<'static, Sqlite, SqliteArguments>;

/// Rows a statement: few sizes, so that each statement's few texts stay prepared. The widest row has
/// 19 columns, and SQLite binds 32,766 values at most.
const SIZES: [usize; 5] = [1, 4, 16, 64, 256];
const ROWS_MAX: usize = SIZES[SIZES.len() - 1];

/// A statement whose text, as its file has it, is that for one row: `VALUES (?, …)`. It is run with
/// as many rows as the next larger size has; what is not bound is null, and rows of nulls match
/// nothing and are not inserted.
pub(super) struct Statement {
    text: &'static str,
    over: [OnceLock<Arc<str>>; SIZES.len()],
}

impl Statement {
    pub(super) const fn new(text: &'static str) -> Self {
        Self { text, over: [const { OnceLock::new() }; SIZES.len()] }
    }

    /// The statement over the first items, which `bind` binds one at a time, and the rest of them.
    pub(super) fn over<'a, T>(
        &self,
        items: &'a [T],
        mut bind: impl FnMut(Prepared, &T) -> Prepared,
    ) -> (Prepared, &'a [T]) {
        let (now, later) = items.split_at(items.len().min(ROWS_MAX));
        let size = size_of(now.len());
        let text = self.over[size].get_or_init(|| Arc::from(over_rows(self.text, SIZES[size])));
        // Made of a file's text and question marks only.
        let mut statement = query(AssertSqlSafe(Arc::clone(text)));
        for item in now {
            statement = bind(statement, item);
        }
        (statement, later)
    }

    /// As [`Statement::over`], with one value that is bound after the rows.
    pub(super) fn over_with<'a, T>(
        &self,
        items: &'a [T],
        bind: impl FnMut(Prepared, &T) -> Prepared,
        last: i64,
    ) -> (Prepared, &'a [T]) {
        let (mut statement, later) = self.over(items, bind);
        let rows = items.len() - later.len();
        let columns = self.text.matches('?').count() - 1;
        for _ in 0..(SIZES[size_of(rows)] - rows) * columns {
            statement = statement.bind(None::<i64>);
        }
        (statement.bind(last), later)
    }
}

/// Which of the sizes holds so many rows.
fn size_of(rows: usize) -> usize {
    SIZES.iter().position(|size| *size >= rows).unwrap_or(SIZES.len() - 1)
}

fn over_rows(text: &str, rows: usize) -> String {
    let Some(start) = text.find("VALUES (").map(|at| at + "VALUES ".len()) else {
        return text.to_owned();
    };
    let Some(end) = text[start..].find(')').map(|at| start + at + 1) else {
        return text.to_owned();
    };
    let row = &text[start..end];
    let mut whole = String::with_capacity(text.len() + rows * (row.len() + 2));
    whole.push_str(&text[..end]);
    for _ in 1..rows {
        whole.push_str(", ");
        whole.push_str(row);
    }
    whole.push_str(&text[end..]);
    whole
}

/// Binds `payload, task_id, task_unusable, actor_type, actor_id`: a payload and the columns read
/// from it, in insert and merge alike, so that no column can say what its payload does not.
pub(super) fn bind_run_payload(query: Prepared, payload: &Payload) -> Prepared {
    query
        .bind(payload.text().to_owned())
        .bind(payload.task().task().map(TaskId::shared))
        .bind(*payload.task() == TaskField::Unusable)
        .bind(payload.actor_type().map(ActorType::shared))
        .bind(payload.actor_id().map(ActorId::shared))
}

/// Binds `payload, actor_type, actor_id`: the same of a merged wake.
pub(super) fn bind_merged_payload(query: Prepared, payload: &Payload) -> Prepared {
    query
        .bind(payload.text().to_owned())
        .bind(payload.actor_type().map(ActorType::shared))
        .bind(payload.actor_id().map(ActorId::shared))
}

#[cfg(test)]
mod tests {
    use sqlx::{Arguments as _, Execute as _};

    use super::*;

    static INSERT: Statement =
        Statement::new("INSERT INTO t (a, b) SELECT * FROM (VALUES (?, ?)) WHERE column1 NOT NULL");

    #[test]
    fn every_item_is_bound_once_and_in_order() {
        for count in [1_usize, 2, 5, 255, 256, 257, 512, 513, 1_300] {
            let items: Vec<usize> = (0..count).collect();
            let (mut seen, mut left) = (Vec::new(), items.as_slice());
            while !left.is_empty() {
                let before = seen.len();
                let (mut statement, later) = INSERT.over(left, |query, item| {
                    seen.push(*item);
                    query.bind(1_i64).bind(2_i64)
                });
                let bound = statement.take_arguments().unwrap().unwrap();
                assert_eq!(bound.len(), 2 * (seen.len() - before));
                let rows = statement.sql().as_str().matches("(?, ?)").count();
                assert!(SIZES.contains(&rows) && rows >= seen.len() - before, "{count}: {rows}");
                left = later;
            }
            assert_eq!(seen, items);
        }
    }

    #[test]
    fn a_last_value_comes_after_every_row() {
        static READ: Statement =
            Statement::new("WITH w (a, b) AS (VALUES (?, ?)) SELECT 1 LIMIT ?");
        for count in [1, 3, 4, 200] {
            let items = vec![(); count];
            let (mut statement, later) =
                READ.over_with(&items, |q, ()| q.bind(1_i64).bind(2_i64), 7);
            assert!(later.is_empty());
            let bound = statement.take_arguments().unwrap().unwrap().len();
            assert_eq!(statement.sql().as_str().matches('?').count(), bound, "{count}");
        }
    }

    #[test]
    fn the_row_of_a_statement_is_repeated() {
        assert_eq!(
            over_rows("INSERT INTO t (a, b) VALUES (?, ?) ON CONFLICT DO NOTHING", 3),
            "INSERT INTO t (a, b) VALUES (?, ?), (?, ?), (?, ?) ON CONFLICT DO NOTHING"
        );
        assert_eq!(over_rows("SELECT 1", 3), "SELECT 1");
    }
}
