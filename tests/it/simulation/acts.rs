//! What operators, runners and the machines do meanwhile.

use futures_util::FutureExt as _;
use wakegate::admission::facts::AgentStatus;
use wakegate::store::memory::{MemoryRun, RunStatus};
use wakegate::wake::{AgentId, OrganizationId, RunId};

use super::plan::Act;
use super::worker::Order;
use super::world::Inside;

impl Inside {
    /// Arranges everything that the plan says.
    pub fn arrange(&mut self) {
        let plan = std::sync::Arc::clone(&self.plan);
        for (index, at) in plan.published_ms.iter().enumerate() {
            self.at(*at, move |inside| inside.publish(index));
        }
        for (at, act) in &plan.acts {
            let act = act.clone();
            self.at(*at, move |inside| inside.act(&act));
        }
        for worker in 0..plan.workers {
            self.orders.push(Order::Start(worker));
        }
        self.at(plan.faults_until_ms, Self::calm_down);
    }

    /// From here on nothing fails.
    pub fn calm_down(&mut self) {
        if self.calm {
            return;
        }
        self.note(|| "nothing fails from here on".to_owned());
        self.calm = true;
        for worker in &mut self.workers {
            worker.crash_at = None;
            worker.stall_at = None;
        }
    }

    fn publish(&mut self, index: usize) {
        // One publisher: the stream's order is that of the plan.
        assert_eq!(self.oracle.published, index);
        self.oracle.published += 1;
        let lane = self.plan.events[index].lane as usize;
        self.note(|| format!("event {index} is stored as {} in lane {lane}", index + 1));
        self.servers[lane].store(index as u64 + 1);
        self.look_after(lane);
    }

    fn act(&mut self, act: &Act) {
        match act {
            Act::Pause { organization } => {
                let id = format!("pause-{}", self.now);
                let scope = organization.map(|name| OrganizationId::parse(name).unwrap());
                self.memory.pause(scope, &id);
                self.note(|| format!("{organization:?} is paused"));
                let scope = organization.map(str::to_owned);
                let since = self.oracle.pauses.get(&scope).map_or(self.now, |(_, since)| *since);
                self.oracle.pauses.insert(scope, (id, since));
            }
            Act::Resume { organization } => {
                let scope = organization.map(|name| OrganizationId::parse(name).unwrap());
                self.memory.resume(scope.as_ref());
                self.note(|| format!("{organization:?} is resumed"));
                self.oracle.pauses.remove(&organization.map(str::to_owned));
            }
            Act::Agent { organization, agent, status } => {
                let known = AgentStatus::parse(status).unwrap();
                let id =
                    (OrganizationId::parse(organization).unwrap(), AgentId::parse(agent).unwrap());
                self.memory.set_agent(id, known);
                self.note(|| format!("{agent} is {status}"));
                let agent = ((*organization).to_owned(), (*agent).to_owned());
                self.oracle.agents.insert(agent, (status, self.now));
            }
            Act::Claim(nth) => self.move_run(RunStatus::Queued, *nth, "claimed"),
            Act::Move { nth, status } => self.move_run(RunStatus::Claimed, *nth, status),
            Act::BrokerRestart { crashed, away_ms } => self.restart_broker(*crashed, *away_ms),
            Act::LinkBreak { worker, away_ms } => self.break_link(*worker, *away_ms),
            Act::Unpin => {
                self.note(|| "the lanes are unpinned".to_owned());
                for lane in 0..self.servers.len() {
                    self.servers[lane].unpin();
                    self.look_after(lane);
                }
            }
            Act::Crash { worker } => self.crash(*worker),
            Act::Stop { worker } => {
                self.note(|| format!("w{worker} is told to end"));
                if let Some(shutdown) = &self.workers[*worker].shutdown {
                    shutdown.request();
                }
            }
            Act::Stall { worker, for_ms } => self.stall(*worker, *for_ms),
        }
    }

    /// A runner moves the nth newest run of a status.
    fn move_run(&mut self, from: RunStatus, nth: usize, to: &'static str) {
        let mut runs: Vec<MemoryRun> = self.memory.runs();
        runs.retain(|run| run.status == from);
        runs.sort_by_key(|run| std::cmp::Reverse((run.requested_at, run.id)));
        if let Some(run) = runs.get(nth) {
            self.set_status(run.id, to);
        }
    }

    /// Somebody from outside moves a run, if it is there.
    pub fn set_status(&mut self, run: RunId, to: &'static str) {
        let status = RunStatus::ALL.into_iter().find(|status| status.as_str() == to).unwrap();
        let Some(index) = self.oracle.index_of(run) else { return };
        if !self.memory.set_status(run, status) {
            return;
        }
        self.note(|| format!("the run of event {index} is {to}"));
        let lane = self.plan.events[index].lane;
        self.oracle.changed(lane, index, to);
    }
}

/// Runs something that does not wait.
pub fn at_once<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("memory does not wait")
}
