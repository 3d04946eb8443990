//! One request → one reply.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;
use uuid::Uuid;

use super::cancel::{cancel, ended, unknown, withdraw};
use super::desk::{Desk, Source};
use super::documents::{
    CancelRequest, CancellationDocument, ClaimReply, ClaimRequest, FinishReply, FinishRequest,
    HeartbeatReply, HeartbeatRequest, StartReply, StartRequest, WithdrawRequest,
};
use super::line::Ask;
use super::verbs::Verb;
use super::work::Work;
use crate::clock::Clock;
use crate::control::body::read;
use crate::control::{ControlError, ErrorCode};
use crate::metrics::{ClaimAnswer, Metrics, RequestAnswer};
use crate::store::StoreError;
use crate::store::queue::{
    self as store, ClaimedRun, FinishAnswer, HeartbeatAnswer, Held, NotHeld, StartAnswer,
};
use crate::store::runners::RunnerStore;
use crate::wake::token::token;
use crate::wake::{OrganizationId, RunId};

/// Limits of what runners are answered.
#[derive(Debug, Clone, Copy)]
pub struct RunsOptions {
    /// The lease, where a request names none.
    pub lease: Duration,
    /// Longest that a claim waits.
    pub wait_max: Duration,
    /// How long a runner may take to confirm a cancellation.
    pub cancel_grace: Duration,
    /// Most runs under way.
    pub platform_active_max: u32,
    /// Most runs under way of one organization, where it has not set fewer itself.
    pub organization_active_max: u32,
}

/// What answers runners. Clones share everything.
#[derive(Debug, Clone)]
pub struct Runs<S> {
    store: S,
    desk: Desk<ClaimedRun>,
    clock: Clock,
    options: RunsOptions,
    /// Slots that are free, and what is to be told of runs.
    work: Work,
    told: Work,
    metrics: Metrics,
    ids: Arc<ClaimIds>,
}

/// What a [`Runs`] reports to.
#[derive(Debug, Clone)]
pub struct Reports {
    /// That a slot is free.
    pub work: Work,
    /// That there is something to be told of runs.
    pub told: Work,
    /// What is counted.
    pub metrics: Metrics,
}

impl<S: RunnerStore> Runs<S> {
    /// On a store of its own, and the desk that claims from it.
    #[must_use]
    pub fn new(
        store: S,
        desk: Desk<ClaimedRun>,
        clock: Clock,
        options: RunsOptions,
        reports: Reports,
    ) -> Self {
        let Reports { work, told, metrics } = reports;
        Self { store, desk, clock, options, work, told, metrics, ids: Arc::default() }
    }

    /// Answers a request; `organization` is the token behind the verb, if there is one.
    ///
    /// # Errors
    /// [`ControlError`] says why not, for programs and for people.
    pub async fn answer(
        &self,
        verb: Verb,
        organization: Option<&str>,
        body: &[u8],
    ) -> Result<Vec<u8>, ControlError> {
        let answer = match verb {
            Verb::Claim => self.claim(read_of(body, organization)).await,
            Verb::Start => self.start(read(body)).await,
            Verb::Heartbeat => self.heartbeat(read(body)).await,
            Verb::Finish => self.finish(read(body)).await,
            Verb::Withdraw => self.withdraw(read_of(body, organization)).await,
            Verb::Cancel => self.cancel(read_of(body, organization)).await,
        };
        self.metrics.run_requested(
            verb,
            match &answer {
                Ok(_) => RequestAnswer::Done,
                Err(error) if error.code == ErrorCode::Unavailable => RequestAnswer::Unavailable,
                Err(_) => RequestAnswer::Refused,
            },
        );
        answer
    }

    async fn claim(&self, request: Asked<ClaimRequest>) -> Answer {
        let runs = async {
            let request = request?;
            let ask = Ask {
                claim_id: request.claim_id.unwrap_or_else(|| self.ids.make()),
                runner: request.runner_id,
                runs_max: request.runs_max,
                organizations: request.organizations,
                lease: self.lease(request.lease_seconds),
            };
            let wait = Duration::from_secs(u64::from(request.wait_seconds));
            self.desk.claim(ask, wait.min(self.options.wait_max)).await
        };
        let runs = runs.await;
        let (answer, count) = match &runs {
            Ok(runs) if runs.is_empty() => (ClaimAnswer::Empty, 0),
            Ok(runs) => (ClaimAnswer::Served, runs.len()),
            Err(error) => match error.code {
                ErrorCode::Busy => (ClaimAnswer::Busy, 0),
                ErrorCode::Unavailable => (ClaimAnswer::Unavailable, 0),
                _ => (ClaimAnswer::Refused, 0),
            },
        };
        self.metrics.claimed(answer, count);
        if count > 0 {
            self.told.announce();
        }
        written(&ClaimReply { runs: runs?.into_iter().map(Into::into).collect() })
    }

    async fn start(&self, request: Asked<StartRequest>) -> Answer {
        let request = request?;
        let (run_id, fencing_token) = (request.run_id, request.fencing_token);
        let held = Held { run_id, fencing_token };
        let now = self.clock.now();
        let lease_until = now + self.lease(request.lease_seconds);
        let lease_expires_at = match self.store.start(&held, lease_until, now).await? {
            StartAnswer::Started { lease_expires_at } => lease_expires_at,
            StartAnswer::Cancelling => {
                let message = "it is to be cancelled: finish it as cancelled, it was not started";
                return Err(ControlError::new(ErrorCode::Cancelling, message));
            }
            StartAnswer::Lapsed => return Err(lapsed()),
            StartAnswer::NotHeld(not_held) => return Err(lost(run_id, not_held)),
        };
        self.told.announce();
        // Where this fails, the same request again finds the run started, and asks for it again.
        let held = self.store.held_run(&held).await?.ok_or_else(lapsed)?;
        written(&StartReply { run_id, payload: held.payload, lease_expires_at })
    }

    async fn heartbeat(&self, request: Asked<HeartbeatRequest>) -> Answer {
        let request = request?;
        let (run_id, fencing_token) = (request.run_id, request.fencing_token);
        let held = Held { run_id, fencing_token };
        let now = self.clock.now();
        let lease_until = now + self.lease(request.lease_seconds);
        match self.store.heartbeat(&held, lease_until, now).await? {
            HeartbeatAnswer::Held { lease_expires_at, cancelling } => {
                let cancel = if cancelling { self.cancellation(&held).await? } else { None };
                written(&HeartbeatReply { run_id, lease_expires_at, cancel })
            }
            HeartbeatAnswer::Lapsed => Err(lapsed()),
            HeartbeatAnswer::NotHeld(not_held) => Err(lost(run_id, not_held)),
        }
    }

    /// Who wants the run to end, and why.
    async fn cancellation(
        &self,
        held: &Held,
    ) -> Result<Option<CancellationDocument>, ControlError> {
        let run = self.store.held_run(held).await?.ok_or_else(lapsed)?;
        Ok(run.cancel.map(|cancel| CancellationDocument {
            requested_at: cancel.requested_at,
            actor: cancel.actor,
            reason: cancel.reason,
        }))
    }

    async fn finish(&self, request: Asked<FinishRequest>) -> Answer {
        let FinishRequest { run_id, fencing_token, status, reason } = request?;
        let held = Held { run_id, fencing_token };
        let now = self.clock.now();
        let request = store::FinishRequest { held, end: status.into(), reason, now };
        match self.store.finish(&request).await? {
            FinishAnswer::Finished => {}
            FinishAnswer::NotHeld(not_held) => return Err(lost(run_id, not_held)),
        }
        self.freed();
        written(&FinishReply { run_id, status })
    }

    async fn withdraw(&self, request: Asked<WithdrawRequest>) -> Answer {
        let reply = withdraw(&self.store, request?, self.clock.now()).await?;
        self.freed();
        written(&reply)
    }

    async fn cancel(&self, request: Asked<CancelRequest>) -> Answer {
        let reply = cancel(&self.store, request?, self.clock.now()).await?;
        self.freed();
        written(&reply)
    }

    /// A run has ended, or is to: there may be a slot for another, and there is something to tell.
    fn freed(&self) {
        self.work.announce();
        self.told.announce();
    }

    fn lease(&self, seconds: Option<u32>) -> Duration {
        seconds.map_or(self.options.lease, |seconds| Duration::from_secs(u64::from(seconds)))
    }
}

type Asked<T> = Result<T, ControlError>;
type Answer = Result<Vec<u8>, ControlError>;

/// A request that a subject may bind to an organization.
trait OfOrganization {
    /// Whether it is of one organization and no other, which the token is of.
    fn is_of(&self, organization: &str) -> Result<bool, ControlError>;
}

fn missing(field: &str) -> ControlError {
    let what = "is missing, and wanted where the subject names an organization";
    ControlError::of_field(ErrorCode::MissingField, field, what)
}

fn is_of(id: &OrganizationId, organization: &str) -> bool {
    token(id.as_str()) == organization
}

impl OfOrganization for ClaimRequest {
    fn is_of(&self, organization: &str) -> Result<bool, ControlError> {
        if self.organizations.is_empty() {
            return Err(missing("organizations"));
        }
        Ok(self.organizations.iter().all(|id| is_of(id, organization)))
    }
}

impl OfOrganization for WithdrawRequest {
    fn is_of(&self, organization: &str) -> Result<bool, ControlError> {
        Ok(is_of(&self.organization_id, organization))
    }
}

impl OfOrganization for CancelRequest {
    fn is_of(&self, organization: &str) -> Result<bool, ControlError> {
        let id = self.organization_id.as_ref().ok_or_else(|| missing("organization_id"))?;
        Ok(is_of(id, organization))
    }
}

/// Reads a request, and holds it to the organization that its subject names.
fn read_of<T>(body: &[u8], organization: Option<&str>) -> Asked<T>
where
    T: serde::de::DeserializeOwned + OfOrganization,
{
    let request: T = read(body)?;
    if let Some(organization) = organization
        && !request.is_of(organization)?
    {
        let message = "the subject is of another organization than the request";
        return Err(ControlError::new(ErrorCode::SubjectMismatch, message));
    }
    Ok(request)
}

fn lapsed() -> ControlError {
    let message = "the lease was over: the run is somebody else's, or goes back to the queue";
    ControlError::new(ErrorCode::LeaseLost, message)
}

/// The run is not the caller's.
fn lost(run_id: RunId, not_held: NotHeld) -> ControlError {
    match not_held.status {
        None => unknown(run_id),
        Some(status) if status.is_end() => ended(status),
        Some(status) => {
            let message = format!("the run is not this claim's any more: it is {status}");
            ControlError::of_run(ErrorCode::LeaseLost, status.as_str(), message)
        }
    }
}

fn written<T: Serialize>(reply: &T) -> Answer {
    serde_json::to_vec(reply)
        .map_err(|error| ControlError::new(ErrorCode::Unavailable, error.to_string()))
}

/// Makes ids of claims that no other process makes.
#[derive(Debug, Default)]
struct ClaimIds {
    // Keyed by the operating system's randomness for each process.
    keyed: (RandomState, RandomState),
    made: AtomicU64,
}

impl ClaimIds {
    fn make(&self) -> Uuid {
        let nth = self.made.fetch_add(1, Ordering::Relaxed);
        let (left, right) = (self.keyed.0.hash_one(nth), self.keyed.1.hash_one(nth));
        let bytes = (u128::from(left) << 64 | u128::from(right)).to_be_bytes();
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    }
}

/// Claims from a store, under the ceilings.
#[derive(Debug, Clone)]
pub struct Claims<S> {
    /// Which.
    pub store: S,
    /// When it is.
    pub clock: Clock,
    /// The ceilings.
    pub options: RunsOptions,
}

impl<S: RunnerStore> Source for Claims<S> {
    type Run = ClaimedRun;

    async fn claim(&self, asks: &[Ask]) -> Result<Vec<Vec<ClaimedRun>>, StoreError> {
        let now = self.clock.now();
        let requests: Vec<store::ClaimRequest> = asks
            .iter()
            .map(|ask| store::ClaimRequest {
                claim_id: ask.claim_id,
                runner: ask.runner.clone(),
                runs_max: ask.runs_max,
                organizations: ask.organizations.clone(),
                lease_until: now + ask.lease,
                now,
                platform_active_max: self.options.platform_active_max,
                organization_active_max: self.options.organization_active_max,
            })
            .collect();
        self.store.claim_each(&requests).await
    }
}
