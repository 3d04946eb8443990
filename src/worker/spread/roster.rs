//! The other replicas, as they are heard.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::announcement::Announcement;
use super::plan::Standing;

/// Most replicas that are remembered; more than these share no lanes with this one.
const REPLICAS_MAX: usize = 128;

/// Another replica.
#[derive(Debug, Clone)]
pub(super) struct Other {
    /// Its place in the order that all agree on.
    pub(super) order: (i64, String),
    pub(super) standing: Standing,
    /// Since when it can do all that it can do now.
    pub(super) steady_since: Instant,
    heard: Instant,
}

/// Who is there beside this replica.
#[derive(Debug, Default)]
pub(super) struct Roster(BTreeMap<String, Other>);

impl Roster {
    /// Takes in what one says. True where it was not known: it does not know this one either.
    pub(super) fn hear(&mut self, said: &Announcement, now: Instant) -> bool {
        if said.leaving {
            self.0.remove(&said.replica);
            return false;
        }
        let before = self.0.get(&said.replica);
        if before.is_none() && self.0.len() >= REPLICAS_MAX {
            return false;
        }
        let standing = said.standing();
        // Whoever has just come, or has just become able to work a lane, may not stay so.
        let steady_since = before
            .filter(|before| standing.declines.is_superset(&before.standing.declines))
            .map_or(now, |before| before.steady_since);
        let order = (said.since, said.replica.clone());
        let other = Other { order, standing, steady_since, heard: now };
        self.0.insert(said.replica.clone(), other).is_none()
    }

    /// Forgets who has not been heard for this long.
    pub(super) fn forget(&mut self, silent_for: Duration, now: Instant) {
        self.0.retain(|_, other| now.duration_since(other.heard) < silent_for);
    }

    /// Nobody can be heard just now, which says nothing of anybody.
    pub(super) fn deaf(&mut self, now: Instant) {
        for other in self.0.values_mut() {
            other.heard = now;
        }
    }

    pub(super) fn others(&self) -> impl Iterator<Item = &Other> {
        self.0.values()
    }
}
