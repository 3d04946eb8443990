//! What runners and keepers ask beside [`super::queue`]: what a run is to read, who wants it to end,
//! and which runs a pause of mode `stop_now` is to end.

use std::future::Future;

use super::StoreError;
use super::queue::{ClaimRequest, ClaimedRun, Held, MovedRun, QueueStore};
use crate::wake::UtcMicros;

/// A run as whoever holds it may see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldRun {
    /// What it is to read.
    pub payload: String,
    /// That it is to end.
    pub cancel: Option<Cancellation>,
}

/// That a run is to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cancellation {
    /// Since when.
    pub requested_at: UtcMicros,
    /// Who wants it to.
    pub actor: Option<String>,
    /// Why.
    pub reason: Option<String>,
}

/// The queue, for those who answer runners.
pub trait RunnerStore: QueueStore {
    /// Claims for several requests, in order. What one claims is not there for the next.
    ///
    /// It may answer for fewer than it was asked for, the first ones; and nothing is claimed any more
    /// where a request without organizations has got less than it wanted, for there is nothing left.
    ///
    /// # Errors
    /// Nothing was claimed for anybody, as far as this knows.
    fn claim_each(
        &self,
        requests: &[ClaimRequest],
    ) -> impl Future<Output = Result<Vec<Vec<ClaimedRun>>, StoreError>> + Send {
        async move {
            let mut given: Vec<Vec<ClaimedRun>> = Vec::with_capacity(requests.len());
            let mut exhausted = false;
            for request in requests {
                if exhausted {
                    given.push(Vec::new());
                    continue;
                }
                match self.claim(request).await {
                    Ok(runs) => {
                        let wanted = request.runs_max as usize;
                        exhausted = request.organizations.is_empty() && runs.len() < wanted;
                        given.push(runs);
                    }
                    // What was claimed for the others is theirs.
                    Err(error) if given.is_empty() => return Err(error),
                    Err(_) => break,
                }
            }
            Ok(given)
        }
    }

    /// A run that is held by this claim, claimed or running; nothing where it is not.
    fn held_run(
        &self,
        held: &Held,
    ) -> impl Future<Output = Result<Option<HeldRun>, StoreError>> + Send;

    /// Asks the runners of at most `runs_max` runs to end them that are under way although they are
    /// stopped: their organization, or the platform, is paused with mode `stop_now`.
    fn cancel_stopped(
        &self,
        now: UtcMicros,
        runs_max: u32,
    ) -> impl Future<Output = Result<Vec<MovedRun>, StoreError>> + Send;
}
