//! One seed: what is done, to the store and to the model.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};
use wakegate::store::queue::{
    CancelScope, ClaimRequest, Held, MovedRun, QueueStore as _, RunEnd, RunEventKind, RunStatus,
};
use wakegate::wake::ActorId;

use super::database::Queue;
use super::model::{Model, Own, Right, Run};
use crate::queue_store::given::{
    Queued, asking, at, cancelling, finishing, id, number, numbers, organization,
};

const ORGANIZATIONS: [&str; 4] = ["a", "b", "c", ""];
const PROJECTS: [Option<&str>; 3] = [None, Some("p"), Some("q")];
const STEPS: u32 = 70;

struct Drive {
    seed: u64,
    rng: StdRng,
    queue: Queue,
    model: Model,
    now: i64,
    next_run: u128,
    next_claim: u128,
    /// The last claim, which may be repeated.
    last: Option<ClaimRequest>,
    ceilings: (u32, u32),
    told: Vec<String>,
}

/// Runs a seed; panics at the first difference, with all that was done.
pub async fn keep(seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let ceilings = (rng.random_range(1..8), rng.random_range(1..5));
    let mut drive = Drive {
        seed,
        rng,
        queue: Queue::open().await,
        model: Model::default(),
        now: 0,
        next_run: 1,
        next_claim: 1,
        last: None,
        ceilings,
        told: Vec::new(),
    };
    for _ in 0..STEPS {
        drive.step().await;
        drive.look().await;
    }
    drive.assert_each_ended_once().await;
}

impl Drive {
    fn same<T: PartialEq + std::fmt::Debug>(&self, found: T, expected: T) {
        assert!(
            found == expected,
            "seed {}: {found:?} and not {expected:?} after\n{}\ntell it again: make simulate \
             SEED={}",
            self.seed,
            self.told.join("\n"),
            self.seed,
        );
    }

    fn tell(&mut self, what: String) {
        self.told.push(format!("{:>4} s  {what}", self.now));
    }

    async fn step(&mut self) {
        match self.rng.random_range(0..100) {
            0..22 => self.insert().await,
            22..40 => self.claim().await,
            40..50 => self.start().await,
            50..55 => self.heartbeat().await,
            55..67 => self.finish().await,
            67..73 => self.cancel().await,
            73..80 => self.keepers().await,
            80..85 => self.pause().await,
            85..89 => self.limit().await,
            89..94 => self.outside().await,
            // Clocks step back too.
            _ => {
                self.now += self.rng.random_range(-20..90);
                self.tell("it is later, or earlier".to_owned());
            }
        }
    }

    async fn look(&mut self) {
        let expected: Vec<_> =
            self.model.runs.iter().map(|(id, run)| (*id, run.status, run.token)).collect();
        self.same(self.queue.runs().await, expected);
        self.queue.assert_counts(&format!("seed {}, {:?}", self.seed, self.told)).await;
    }

    async fn insert(&mut self) {
        let mut runs = Vec::new();
        for _ in 0..self.rng.random_range(1..6) {
            let run = Queued {
                id: self.next_run,
                organization: ORGANIZATIONS.choose(&mut self.rng).unwrap(),
                project: *PROJECTS.choose(&mut self.rng).unwrap(),
                status: "queued",
                actor_type: if self.rng.random_ratio(1, 5) { "user" } else { "agent" },
                producer: if self.rng.random_ratio(1, 5) { "recovery_sweep" } else { "other" },
                reason: if self.rng.random_ratio(1, 5) { "heartbeat" } else { "task_assigned" },
                at: self.now - self.rng.random_range(0..400),
                expires: self
                    .rng
                    .random_ratio(1, 2)
                    .then(|| self.now + self.rng.random_range(0..120)),
            };
            self.next_run += 1;
            runs.push(run);
        }
        self.tell(format!("insert {runs:?}"));
        self.queue.insert(&runs).await;
        for run in runs {
            let run = Run {
                of: run,
                status: RunStatus::Queued,
                token: 0,
                claim: None,
                lease: None,
                asked: None,
                ends: 0,
            };
            self.model.runs.insert(run.of.id, run);
        }
    }

    async fn claim(&mut self) {
        let repeated = self.last.clone().filter(|_| self.rng.random_ratio(1, 8));
        let some: Vec<&'static str> =
            ORGANIZATIONS.into_iter().filter(|_| self.rng.random_ratio(1, 8)).collect();
        let request = repeated.unwrap_or_else(|| ClaimRequest {
            organizations: some.iter().map(|of| organization(of)).collect(),
            platform_active_max: self.ceilings.0,
            organization_active_max: self.ceilings.1,
            ..asking(self.next_claim, self.rng.random_range(0..4), self.now)
        });
        self.next_claim += 1;
        let of: Vec<&'static str> = ORGANIZATIONS
            .into_iter()
            .filter(|of| request.organizations.contains(&organization(of)))
            .collect();
        self.tell(format!("claim {request:?}"));
        let found = numbers(&self.queue.store.claim(&request).await.unwrap());
        let now = (request.now.micros() - at(0).micros()) / 1_000_000;
        let expected =
            self.model.claim(request.claim_id.as_u128(), request.runs_max, &of, self.ceilings, now);
        self.last = Some(request);
        self.same(found, expected);
    }

    /// A run, most likely one under way, and a token, most likely its own.
    fn some_run(&mut self) -> Held {
        let active: Vec<u128> = self
            .model
            .runs
            .iter()
            .filter(|(_, run)| matches!(run.status, RunStatus::Claimed | RunStatus::Running))
            .map(|(id, _)| *id)
            .collect();
        let any = self.rng.random_range(1..=self.next_run);
        let run = match active.choose(&mut self.rng) {
            Some(active) if self.rng.random_ratio(7, 8) => *active,
            _ => any,
        };
        let token = self.model.runs.get(&run).map_or(0, |run| run.token);
        let stale = u64::from(self.rng.random_ratio(1, 10));
        Held { run_id: id(run), fencing_token: token.saturating_sub(stale) }
    }

    async fn start(&mut self) {
        let held = self.some_run();
        let lease = self.now + self.rng.random_range(1..100);
        self.tell(format!("start {held:?} until {lease}"));
        let found = self.queue.store.start(&held, at(lease), at(self.now)).await.unwrap();
        let run = number(held.run_id);
        let expected = self.model.start(run, held.fencing_token, lease, self.now);
        self.same(found, expected);
    }

    async fn heartbeat(&mut self) {
        let held = self.some_run();
        let lease = self.now + self.rng.random_range(1..100);
        self.tell(format!("heartbeat {held:?} until {lease}"));
        let found = self.queue.store.heartbeat(&held, at(lease), at(self.now)).await.unwrap();
        let run = number(held.run_id);
        let expected = self.model.heartbeat(run, held.fencing_token, lease, self.now);
        self.same(found, expected);
    }

    async fn finish(&mut self) {
        let held = self.some_run();
        let end = *RunEnd::ALL.choose(&mut self.rng).unwrap();
        self.tell(format!("finish {held:?} {end:?}"));
        let request = finishing(held, end, self.now);
        let found = self.queue.store.finish(&request).await.unwrap();
        let run = number(held.run_id);
        let expected = self.model.finish(run, held.fencing_token, end, self.now);
        self.same(found, expected);
    }

    async fn cancel(&mut self) {
        let run = self.rng.random_range(1..=self.next_run);
        let of = *ORGANIZATIONS.choose(&mut self.rng).unwrap();
        let of = self.model.runs.get(&run).map_or(of, |run| run.of.organization);
        let (right, scope) = match self.rng.random_range(0..4) {
            0 => {
                let ann = ActorId::parse("ann").unwrap();
                (Right::Initiator(of), CancelScope::Initiator(organization(of), ann))
            }
            1 => (Right::Organization(of), CancelScope::Organization(organization(of))),
            2 => (Right::Organization("z"), CancelScope::Organization(organization("z"))),
            _ => (Right::Platform, CancelScope::Platform),
        };
        self.tell(format!("cancel {run} by {right:?}"));
        let request = cancelling(run, scope, self.now);
        let found = self.queue.store.cancel(&request).await.unwrap();
        let expected = self.model.cancel(run, right, self.now);
        self.same(found, expected);
    }

    async fn keepers(&mut self) {
        let (store, now) = (self.queue.store.clone(), self.now);
        let (what, found, expected) = match self.rng.random_range(0..4) {
            0 => {
                let found = store.return_lapsed(at(now), 100).await;
                ("return what has lapsed", found, self.model.return_lapsed(now))
            }
            1 => {
                let found = store.end_lapsed(at(now), 100).await;
                ("end what has lapsed", found, self.model.end_lapsed(now))
            }
            2 => ("expire", store.expire(at(now), 100).await, self.model.expire(now)),
            _ => {
                let found = store.end_unconfirmed(at(now - 30), at(now), 100).await;
                ("end what is unconfirmed", found, self.model.end_unconfirmed(now - 30))
            }
        };
        self.tell(what.to_owned());
        let mut found: Vec<_> = found
            .unwrap()
            .iter()
            .map(|MovedRun { run_id, status, .. }| (number(*run_id), *status))
            .collect();
        found.sort_unstable();
        self.same(found, expected);
    }

    async fn pause(&mut self) {
        let mut of: Vec<Option<&'static str>> = ORGANIZATIONS.into_iter().map(Some).collect();
        of.push(None);
        let of = *of.choose(&mut self.rng).unwrap();
        let (scope, name) = of.map_or(("platform", ""), |of| ("organization", of));
        let sql = if self.model.paused.remove(&of) {
            format!(
                "UPDATE pauses SET released_at = 1 WHERE scope = '{scope}' \
                 AND organization_id = '{name}' AND released_at IS NULL"
            )
        } else {
            self.model.paused.insert(of);
            format!(
                "INSERT INTO pauses (id, scope, organization_id) \
                     VALUES (lower(hex(randomblob(8))), '{scope}', '{name}')"
            )
        };
        self.tell(sql.clone());
        self.queue.execute(&sql).await;
    }

    async fn limit(&mut self) {
        let of = *ORGANIZATIONS.choose(&mut self.rng).unwrap();
        let own = Own {
            weight: self.rng.random_ratio(2, 3).then(|| self.rng.random_range(1..5)),
            active_max: self.rng.random_ratio(1, 2).then(|| self.rng.random_range(0..4)),
        };
        let text = |value: Option<u32>| value.map_or("NULL".to_owned(), |value| value.to_string());
        let mut sql = format!("DELETE FROM organization_limits WHERE organization_id = '{of}'");
        self.model.own.remove(of);
        if self.rng.random_ratio(3, 4) {
            sql = format!(
                "INSERT INTO organization_limits (organization_id, weight, active_runs_max) \
                 VALUES ('{of}', {}, {}) ON CONFLICT (organization_id) DO UPDATE SET \
                 weight = excluded.weight, active_runs_max = excluded.active_runs_max",
                text(own.weight),
                text(own.active_max),
            );
            self.model.own.insert(of, own);
        }
        self.tell(sql.clone());
        self.queue.execute(&sql).await;
    }

    /// Somebody who knows nothing of the queue changes a run or removes it.
    async fn outside(&mut self) {
        let run = self.rng.random_range(1..=self.next_run);
        let sql = if self.rng.random_ratio(1, 3) {
            self.model.runs.remove(&run);
            format!("DELETE FROM runs WHERE id = '{}'", id(run))
        } else {
            // Takes it as runners did before there were claims.
            let queued = self.model.runs.get(&run).is_some_and(|r| r.status == RunStatus::Queued);
            if queued {
                self.model.serve(run);
                self.model.runs.get_mut(&run).unwrap().status = RunStatus::Claimed;
            }
            format!(
                "UPDATE runs SET status = 'claimed' WHERE id = '{}' AND status = 'queued'",
                id(run)
            )
        };
        self.tell(sql.clone());
        self.queue.execute(&sql).await;
    }

    async fn assert_each_ended_once(&self) {
        let events = self.queue.store.take_events(100_000).await.unwrap();
        for run in self.model.runs.values() {
            let ends = events.iter().filter(|event| {
                number(event.run_id) == run.of.id
                    && !matches!(
                        event.event,
                        RunEventKind::Claimed
                            | RunEventKind::Started
                            | RunEventKind::Returned
                            | RunEventKind::CancelRequested
                    )
            });
            self.same((run.of.id, ends.count()), (run.of.id, usize::from(run.status.is_end())));
            self.same((run.of.id, run.ends), (run.of.id, u32::from(run.status.is_end())));
        }
    }
}
