//! What one worker says of itself: each answers for itself alone.

use std::sync::Arc;

use super::documents::{
    ComponentDocument, ConfigurationReply, HealthReply, LaneDocument, SettingDocument,
    WorkerDocument,
};
use crate::config::settings::SETTINGS;
use crate::config::{LimitsConfig, Loaded};
use crate::health::{Component, ComponentReport, Health};
use crate::metrics::Metrics;
use crate::wake::UtcMicros;

/// Where Linux says what the machine is called.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// What a worker knows of itself.
#[derive(Debug, Clone)]
pub struct Worker {
    /// What it was configured with.
    pub configuration: Arc<Loaded>,
    /// How it does.
    pub health: Health,
    /// What it has counted.
    pub metrics: Metrics,
    /// When it started.
    pub started_at: UtcMicros,
}

/// What the machine is called, as far as it says.
#[must_use]
pub fn host() -> String {
    std::fs::read_to_string(HOST_NAME)
        .map_or_else(|_| "unknown".to_owned(), |name| crate::error_text::sanitised(name.trim()))
}

impl Worker {
    /// The platform's ceilings, as this worker is configured.
    #[must_use]
    pub fn limits(&self) -> &LimitsConfig {
        &self.configuration.config.limits
    }

    /// Which worker it is; `id` is what it is as a NATS service.
    #[must_use]
    pub fn document(&self, id: &str) -> WorkerDocument {
        WorkerDocument {
            id: id.to_owned(),
            host: host(),
            process: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: self.started_at,
        }
    }

    /// How it does, and each of its lanes.
    #[must_use]
    pub fn health(&self, id: &str) -> HealthReply {
        let report = self.health.report();
        let mut reply = HealthReply {
            worker: self.document(id),
            ready: report.ready,
            shutting_down: report.shutting_down,
            gates_in_shadow: report.gates_in_shadow,
            components: std::collections::BTreeMap::new(),
            lanes: Vec::new(),
        };
        for (name, component) in report.components {
            let component = document(component);
            if let Component::Lane(lane) = name {
                reply.lanes.push(self.lane(lane, component));
            } else {
                reply.components.insert(name.to_string(), component);
            }
        }
        reply
    }

    fn lane(&self, lane: u32, component: ComponentDocument) -> LaneDocument {
        let seen = self.metrics.lane_seen(lane);
        let owned = seen.is_some_and(|seen| seen.owned);
        LaneDocument {
            lane,
            owned,
            component,
            pending: seen.filter(|_| owned).map(|seen| seen.pending),
            oldest_pending_seconds: seen.filter(|_| owned).map(|seen| seen.oldest_pending_seconds),
        }
    }

    /// What is in force, without secrets.
    #[must_use]
    pub fn configuration(&self, id: &str) -> ConfigurationReply {
        let loaded = &self.configuration;
        let settings = SETTINGS.iter().zip(&loaded.sources).map(|(setting, source)| {
            let value = setting.shown(&loaded.config);
            SettingDocument { name: setting.name(), value, source: source.to_string() }
        });
        ConfigurationReply { worker: self.document(id), settings: settings.collect() }
    }
}

fn document(report: ComponentReport) -> ComponentDocument {
    ComponentDocument { state: report.state, since: report.since, reason: report.reason }
}
