//! How much there is of what. Each count is asked on its own, so that one which takes too long, or
//! waits for a lock, costs only itself.

use std::collections::BTreeMap;
use std::time::Duration;

use super::documents::{CountsReply, CountsRequest, Refusals, Unanswered};
use crate::error_text::one_line;
use crate::store::StoreError;
use crate::store::control::CountStore;
use crate::wake::UtcMicros;

/// Counts. It does not fail: what is not answered is named.
pub async fn counts<S: CountStore>(
    store: &S,
    request: &CountsRequest,
    now: UtcMicros,
) -> CountsReply {
    let since = now - Duration::from_secs(u64::from(request.refusals_seconds));
    // In the order in which they get connections: the cheap ones first.
    let (pauses, agents, refusals, queued_runs) = tokio::join!(
        store.pauses_by_scope(),
        store.agents_by_status(),
        store.refusals_since(since),
        store.queued_runs(),
    );
    let mut unanswered = Vec::new();
    let mut note = Notes(&mut unanswered);
    CountsReply {
        pauses: note.answered("pauses", pauses).map(by_name),
        agents: note.answered("agents", agents).map(by_name),
        refusals: note
            .answered("refusals", refusals)
            .map(|counted| Refusals { since, by_reason: by_name(counted) }),
        queued_runs: note.answered("queued_runs", queued_runs),
        unanswered,
    }
}

struct Notes<'a>(&'a mut Vec<Unanswered>);

impl Notes<'_> {
    fn answered<T>(&mut self, count: &str, answer: Result<T, StoreError>) -> Option<T> {
        answer
            .map_err(|error| {
                self.0.push(Unanswered { count: count.to_owned(), error: one_line(&error) });
            })
            .ok()
    }
}

fn by_name(counted: Vec<(String, u64)>) -> BTreeMap<String, u64> {
    counted.into_iter().collect()
}
