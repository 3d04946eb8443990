//! The queue as docs/queue.md tells it: a list of runs, looked through each time.

use std::collections::BTreeMap;

use wakegate::store::queue::{
    CancelAnswer, FinishAnswer, HeartbeatAnswer, NotHeld, RunEnd, RunStatus, StartAnswer,
};

use crate::queue_store::given::{Queued, at};

#[derive(Debug, Clone)]
pub struct Run {
    pub of: Queued,
    pub status: RunStatus,
    pub token: u64,
    pub claim: Option<u128>,
    /// Seconds, as everything here.
    pub lease: Option<i64>,
    pub asked: Option<i64>,
    pub ends: u32,
}

#[derive(Debug, Default, Clone, Copy)]
pub struct Own {
    pub weight: Option<u32>,
    pub active_max: Option<u32>,
}

#[derive(Debug, Default)]
pub struct Model {
    pub runs: BTreeMap<u128, Run>,
    pub own: BTreeMap<&'static str, Own>,
    pub paused: std::collections::BTreeSet<Option<&'static str>>,
    served: BTreeMap<&'static str, u64>,
    least_served: u64,
}

/// Whose right it is to cancel.
#[derive(Debug, Clone, Copy)]
pub enum Right {
    Initiator(&'static str),
    Organization(&'static str),
    Platform,
}

impl Run {
    fn is_active(&self) -> bool {
        matches!(self.status, RunStatus::Claimed | RunStatus::Running)
    }

    /// People first; then by instant, with what each class concedes; then by id.
    fn place(&self) -> (bool, i64, u128) {
        let people = self.of.actor_type == "user" && self.of.producer != "recovery_sweep";
        let concedes = match (self.of.producer, self.of.reason) {
            ("recovery_sweep", _) => 0,
            _ if people => 0,
            (_, "heartbeat") => 600,
            _ => 120,
        };
        (!people, self.of.at + concedes, self.of.id)
    }

    fn end(&mut self, status: RunStatus) {
        self.status = status;
        self.ends += 1;
    }

    fn lapsed(&self, now: i64) -> bool {
        self.lease.is_some_and(|lease| lease <= now)
    }
}

impl Model {
    fn active(&self, of: impl Fn(&Run) -> bool) -> u32 {
        u32::try_from(self.runs.values().filter(|run| run.is_active() && of(run)).count()).unwrap()
    }

    fn weight(&self, organization: &str) -> u64 {
        let own = self.own.get(organization).and_then(|own| own.weight);
        u64::from(own.unwrap_or(1))
    }

    fn served(&self, organization: &str) -> u64 {
        self.served.get(organization).copied().unwrap_or(0)
    }

    fn may_start(&self, run: &Run) -> bool {
        run.status == RunStatus::Queued
            && (run.of.project.is_none()
                || self.active(|other| {
                    (other.of.organization, other.of.project)
                        == (run.of.organization, run.of.project)
                }) == 0)
    }

    /// The first of the organization whose turn it is.
    fn next(&self, organizations: &[&'static str], active_max: u32) -> Option<u128> {
        let mut turn: Option<(u64, u64, u64, &str)> = None;
        for run in self.runs.values().filter(|run| self.may_start(run)) {
            let organization = run.of.organization;
            let active = self.active(|other| other.of.organization == organization);
            let own = self.own.get(organization).and_then(|own| own.active_max);
            if self.paused.contains(&Some(organization))
                || active >= active_max.min(own.unwrap_or(u32::MAX))
                || !(organizations.is_empty() || organizations.contains(&organization))
            {
                continue;
            }
            let weight = self.weight(organization);
            let mine = (u64::from(active), weight, self.served(organization), organization);
            // Fractions are compared crosswise.
            let before = turn.is_none_or(|(active, weight, served, name)| {
                (mine.0 * weight, mine.2, mine.3) < (active * mine.1, served, name)
            });
            if before {
                turn = Some(mine);
            }
        }
        let (_, _, _, organization) = turn?;
        let mut first: Option<&Run> = None;
        for run in self.runs.values().filter(|run| run.of.organization == organization) {
            // Only the first of its project can be next.
            let of_its_project = self.runs.values().filter(|other| {
                other.status == RunStatus::Queued
                    && (other.of.organization, other.of.project)
                        == (run.of.organization, run.of.project)
            });
            let is_first = of_its_project.map(Run::place).min() == Some(run.place());
            if self.may_start(run)
                && is_first
                && first.is_none_or(|first| run.place() < first.place())
            {
                first = Some(run);
            }
        }
        first.map(|run| run.of.id)
    }

    pub fn claim(
        &mut self,
        claim: u128,
        runs_max: u32,
        organizations: &[&'static str],
        (platform_max, organization_max): (u32, u32),
        now: i64,
    ) -> Vec<u128> {
        let had = |run: &&Run| run.claim == Some(claim) && run.status == RunStatus::Claimed;
        let mut before: Vec<&Run> = self.runs.values().filter(had).collect();
        if !before.is_empty() {
            before.sort_by_key(|run| run.place());
            return before.iter().map(|run| run.of.id).collect();
        }
        let mut taken = Vec::new();
        while !self.paused.contains(&None)
            && taken.len() < runs_max as usize
            && self.active(|_| true) < platform_max
        {
            let Some(id) = self.next(organizations, organization_max) else { break };
            let run = self.runs.get_mut(&id).unwrap();
            if run.of.expires.is_some_and(|expires| expires <= now) {
                run.end(RunStatus::Expired);
                continue;
            }
            run.status = RunStatus::Claimed;
            run.token += 1;
            run.claim = Some(claim);
            run.lease = Some(now + 60);
            self.serve(id);
            taken.push(id);
        }
        taken
    }

    /// Who is served goes on from where the least served are, by its weight's part of a turn.
    pub fn serve(&mut self, id: u128) {
        let organization = self.runs[&id].of.organization;
        self.least_served = self.least_served.max(self.served(organization));
        let turn = self.least_served + 1_000_000 / self.weight(organization);
        self.served.insert(organization, turn);
    }

    fn held(&mut self, id: u128, token: u64) -> Result<&mut Run, NotHeld> {
        let status = self.runs.get(&id).map(|run| run.status);
        match self.runs.get_mut(&id) {
            Some(run) if run.token == token => Ok(run),
            _ => Err(NotHeld { status }),
        }
    }

    pub fn start(&mut self, id: u128, token: u64, lease: i64, now: i64) -> StartAnswer {
        let run = match self.held(id, token) {
            Ok(run) => run,
            Err(not) => return StartAnswer::NotHeld(not),
        };
        match run.status {
            RunStatus::Claimed if run.asked.is_some() => StartAnswer::Cancelling,
            RunStatus::Claimed if run.lapsed(now) => StartAnswer::Lapsed,
            RunStatus::Claimed | RunStatus::Running => {
                if run.status == RunStatus::Claimed {
                    run.status = RunStatus::Running;
                    run.lease = run.lease.max(Some(lease));
                }
                let until = run.lease.map_or(i64::MAX, |lease| at(lease).micros());
                StartAnswer::Started {
                    lease_expires_at: wakegate::wake::UtcMicros::from_micros(until),
                }
            }
            status => StartAnswer::NotHeld(NotHeld { status: Some(status) }),
        }
    }

    pub fn heartbeat(&mut self, id: u128, token: u64, lease: i64, now: i64) -> HeartbeatAnswer {
        let run = match self.held(id, token) {
            Ok(run) => run,
            Err(not) => return HeartbeatAnswer::NotHeld(not),
        };
        match run.status {
            RunStatus::Claimed if run.lapsed(now) => HeartbeatAnswer::Lapsed,
            RunStatus::Claimed | RunStatus::Running => {
                run.lease = run.lease.max(Some(lease));
                HeartbeatAnswer::Held {
                    lease_expires_at: at(run.lease.unwrap()),
                    cancelling: run.asked.is_some(),
                }
            }
            status => HeartbeatAnswer::NotHeld(NotHeld { status: Some(status) }),
        }
    }

    pub fn finish(&mut self, id: u128, token: u64, end: RunEnd, now: i64) -> FinishAnswer {
        let run = match self.held(id, token) {
            Ok(run) => run,
            Err(not) => return FinishAnswer::NotHeld(not),
        };
        let ended = match end {
            RunEnd::Succeeded => RunStatus::Succeeded,
            RunEnd::Failed => RunStatus::Failed,
            RunEnd::Cancelled => RunStatus::Cancelled,
        };
        let may = run.status == RunStatus::Running
            || run.status == RunStatus::Claimed && end != RunEnd::Succeeded && !run.lapsed(now);
        if may {
            run.end(ended);
        } else if run.status != ended {
            return FinishAnswer::NotHeld(NotHeld { status: Some(run.status) });
        }
        FinishAnswer::Finished
    }

    pub fn cancel(&mut self, id: u128, right: Right, now: i64) -> CancelAnswer {
        let Some(run) = self.runs.get_mut(&id) else { return CancelAnswer::NotFound };
        match right {
            Right::Platform => {}
            Right::Organization(of) | Right::Initiator(of) if run.of.organization == of => {}
            _ => return CancelAnswer::NotFound,
        }
        match run.status {
            RunStatus::Queued => {
                run.end(RunStatus::Cancelled);
                CancelAnswer::Cancelled
            }
            RunStatus::Claimed | RunStatus::Running => {
                if matches!(right, Right::Initiator(_)) {
                    return CancelAnswer::UnderWay;
                }
                CancelAnswer::Requested { at: at(*run.asked.get_or_insert(now)) }
            }
            RunStatus::Cancelled => CancelAnswer::Cancelled,
            status => CancelAnswer::Ended(status),
        }
    }

    /// Moves every run for which `to` says so, and says which.
    pub fn keep(&mut self, to: impl Fn(&Run) -> Option<RunStatus>) -> Vec<(u128, RunStatus)> {
        let mut moved = Vec::new();
        for (id, run) in &mut self.runs {
            let Some(status) = to(run) else { continue };
            if status == RunStatus::Queued {
                (run.status, run.claim, run.lease) = (status, None, None);
            } else {
                run.end(status);
            }
            moved.push((*id, status));
        }
        moved
    }

    pub fn return_lapsed(&mut self, now: i64) -> Vec<(u128, RunStatus)> {
        self.keep(|run| {
            let back = if run.asked.is_some() { RunStatus::Cancelled } else { RunStatus::Queued };
            (run.status == RunStatus::Claimed && run.lapsed(now)).then_some(back)
        })
    }

    pub fn end_lapsed(&mut self, now: i64) -> Vec<(u128, RunStatus)> {
        self.keep(|run| {
            (run.status == RunStatus::Running && run.lapsed(now)).then_some(RunStatus::Failed)
        })
    }

    pub fn expire(&mut self, now: i64) -> Vec<(u128, RunStatus)> {
        self.keep(|run| {
            let over = run.of.expires.is_some_and(|expires| expires <= now);
            (run.status == RunStatus::Queued && over).then_some(RunStatus::Expired)
        })
    }

    pub fn end_unconfirmed(&mut self, asked_until: i64) -> Vec<(u128, RunStatus)> {
        self.keep(|run| {
            let asked = run.asked.is_some_and(|asked| asked <= asked_until);
            (run.is_active() && asked).then_some(RunStatus::Cancelled)
        })
    }
}
