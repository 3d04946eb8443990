//! What this worker says of itself: each component, since when, and why not.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use crate::admission::{GateName, Shadows};
use crate::clock::Clock;
use crate::shutdown::Shutdown;
use crate::wake::UtcMicros;

/// Something that must work, or wait in order, for the worker to be ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// The connection to nats-server.
    Nats,
    /// The database.
    Database,
    /// The streams and consumers, as declared.
    Streams,
    /// Publishing to the audit stream.
    Audit,
    /// One lane.
    Lane(u32),
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nats => f.write_str("nats"),
            Self::Database => f.write_str("database"),
            Self::Streams => f.write_str("streams"),
            Self::Audit => f.write_str("audit"),
            Self::Lane(lane) => write!(f, "lane-{lane}"),
        }
    }
}

impl Serialize for Component {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// How a component does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ComponentState {
    /// It works.
    Ok,
    /// It waits for something that is away; it will go on by itself.
    Waiting,
    /// It does not work and will not by itself.
    Failed,
    /// There is nothing for it to do here: another worker owns the lane, nothing to audit yet.
    Standby,
}

/// One component in a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ComponentReport {
    /// How it does.
    pub state: ComponentState,
    /// Since when it has been in this state.
    pub since: UtcMicros,
    /// Why it is not [`ComponentState::Ok`], or what an operator must learn although it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What `/readyz` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Whether the worker does its part.
    pub ready: bool,
    /// Whether it is ending.
    pub shutting_down: bool,
    /// The gates that are in shadow, and refuse nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gates_in_shadow: Vec<&'static str>,
    /// Each component, by name.
    pub components: BTreeMap<Component, ComponentReport>,
}

/// The health of one worker. Clones share it.
#[derive(Debug, Clone)]
pub struct Health {
    components: Arc<Mutex<BTreeMap<Component, ComponentReport>>>,
    clock: Clock,
    shutdown: Shutdown,
    shadows: Shadows,
}

impl Health {
    /// A worker that has just started: servers and streams are waited for, each lane stands by.
    #[must_use]
    pub fn new(clock: Clock, lanes: u32, shutdown: Shutdown) -> Self {
        let since = clock.now();
        let report =
            |state, reason: &str| ComponentReport { state, since, reason: Some(reason.to_owned()) };
        let waiting = || report(ComponentState::Waiting, "not reached yet");
        let mut components = BTreeMap::from([
            (Component::Nats, waiting()),
            (Component::Database, waiting()),
            (Component::Streams, report(ComponentState::Waiting, "not checked yet")),
            (Component::Audit, report(ComponentState::Standby, "nothing published yet")),
        ]);
        for lane in 0..lanes {
            let standby = report(ComponentState::Standby, "not owned by this worker");
            components.insert(Component::Lane(lane), standby);
        }
        let components = Arc::new(Mutex::new(components));
        Self { components, clock, shutdown, shadows: Shadows::default() }
    }

    /// The same, with gates in shadow. That takes nothing from readiness: it is as configured.
    #[must_use]
    pub fn with_shadows(self, shadows: Shadows) -> Self {
        Self { shadows, ..self }
    }

    /// A component works.
    pub fn ok(&self, component: Component) {
        self.set(component, ComponentState::Ok, None);
    }

    /// Notes how a component does. `since` moves only when the state changes; `reason` says why it
    /// is not ok and holds no secret.
    pub fn set(&self, component: Component, state: ComponentState, reason: Option<&str>) {
        let now = self.clock.now();
        let reason = reason.map(str::to_owned);
        let mut components = self.lock();
        let since = match components.get(&component) {
            Some(before) if before.state == state => before.since,
            _ => now,
        };
        components.insert(component, ComponentReport { state, since, reason });
    }

    /// Whether a component works.
    #[must_use]
    pub fn is_ok(&self, component: Component) -> bool {
        self.lock().get(&component).is_some_and(|report| report.state == ComponentState::Ok)
    }

    /// Whether the worker does its part: not shutting down, servers and streams answer, and no lane
    /// holds. A standby that owns no lane is ready.
    #[must_use]
    pub fn ready(&self) -> bool {
        !self.shutdown.is_requested()
            && self.lock().iter().all(|(component, report)| is_well(*component, report.state))
    }

    /// Everything, for `/readyz`.
    #[must_use]
    pub fn report(&self) -> Report {
        Report {
            ready: self.ready(),
            shutting_down: self.shutdown.is_requested(),
            gates_in_shadow: self.shadows.gates().map(GateName::as_str).collect(),
            components: self.lock().clone(),
        }
    }

    /// A panic while the lock is held leaves a whole map behind, so poisoning is nothing to die of.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Component, ComponentReport>> {
        self.components.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Only what may have nothing to do may stand by; a server that "stands by" is away.
fn is_well(component: Component, state: ComponentState) -> bool {
    match state {
        ComponentState::Ok => true,
        ComponentState::Standby => matches!(component, Component::Audit | Component::Lane(_)),
        ComponentState::Waiting | ComponentState::Failed => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ComponentState::{Failed, Ok, Standby, Waiting};

    fn worker(lanes: u32) -> (Health, Clock, Shutdown) {
        let clock = Clock::manual(UtcMicros::from_micros(1_000_000));
        let shutdown = Shutdown::new();
        (Health::new(clock.clone(), lanes, shutdown.clone()), clock, shutdown)
    }

    fn servers_answer(health: &Health) {
        for component in [Component::Nats, Component::Database, Component::Streams] {
            health.ok(component);
        }
    }

    #[test]
    fn a_standby_with_no_lane_is_ready_once_servers_and_streams_answer() {
        let (health, _, _) = worker(2);
        let path = [Component::Nats, Component::Database, Component::Streams];
        for component in path {
            assert!(!health.ready(), "before {component} answers");
            health.ok(component);
        }
        assert!(health.ready());
    }

    #[test]
    fn each_component_alone_takes_readiness_away() {
        for (component, state, ready) in [
            (Component::Nats, Waiting, false),
            (Component::Nats, Failed, false),
            (Component::Nats, Standby, false),
            (Component::Database, Waiting, false),
            (Component::Database, Standby, false),
            (Component::Streams, Failed, false),
            (Component::Audit, Ok, true),
            (Component::Audit, Standby, true),
            (Component::Audit, Waiting, false),
            (Component::Lane(1), Ok, true),
            (Component::Lane(1), Standby, true),
            (Component::Lane(1), Waiting, false),
            (Component::Lane(1), Failed, false),
        ] {
            let (health, _, _) = worker(2);
            servers_answer(&health);
            health.set(component, state, Some("because"));
            assert_eq!(health.ready(), ready, "{component} {state:?}");
            health.ok(component);
            assert!(health.ready(), "{component} is ok again");
        }
    }

    #[test]
    fn a_worker_that_shuts_down_is_not_ready() {
        let (health, _, shutdown) = worker(1);
        servers_answer(&health);
        shutdown.request();
        assert!(!health.ready());
        assert!(health.report().shutting_down);
    }

    #[test]
    fn since_moves_with_the_state_and_not_with_the_reason() {
        let (health, clock, _) = worker(1);
        let seconds = |s: i64| UtcMicros::from_micros(s * 1_000_000);
        let database = |health: &Health| health.report().components[&Component::Database].clone();
        clock.set(seconds(2));
        health.set(Component::Database, Waiting, Some("refused"));
        assert_eq!(database(&health).since, seconds(1), "it was waiting before");
        assert_eq!(database(&health).reason.as_deref(), Some("refused"));
        clock.set(seconds(3));
        health.ok(Component::Database);
        assert_eq!((database(&health).since, database(&health).reason), (seconds(3), None));
    }

    #[test]
    fn gates_in_shadow_are_told_and_take_nothing_from_readiness() {
        let (health, _, _) = worker(1);
        servers_answer(&health);
        let health = health.with_shadows(Shadows::of(&[GateName::Pause, GateName::AgentStatus]));
        assert!(health.ready());
        assert_eq!(health.report().gates_in_shadow, ["agent_status", "pause"]);
    }

    #[test]
    fn the_report_is_json_by_component_name() {
        let (health, _, _) = worker(1);
        servers_answer(&health);
        let json = serde_json::to_value(health.report()).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "ready": true,
                "shutting_down": false,
                "components": {
                    "nats": {"state": "ok", "since": "1970-01-01T00:00:01.000000Z"},
                    "database": {"state": "ok", "since": "1970-01-01T00:00:01.000000Z"},
                    "streams": {"state": "ok", "since": "1970-01-01T00:00:01.000000Z"},
                    "audit": {
                        "state": "standby",
                        "since": "1970-01-01T00:00:01.000000Z",
                        "reason": "nothing published yet"
                    },
                    "lane-0": {
                        "state": "standby",
                        "since": "1970-01-01T00:00:01.000000Z",
                        "reason": "not owned by this worker"
                    }
                }
            })
        );
    }
}
