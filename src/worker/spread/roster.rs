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
    since: i64,
    replica: String,
    pub(super) standing: Standing,
    /// Since when it can do all that it can do now.
    pub(super) steady_since: Instant,
    heard: Instant,
}

impl Other {
    /// Its place in the order that all agree on.
    pub(super) fn order(&self) -> (i64, &str) {
        (self.since, &self.replica)
    }
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
        let (since, replica) = (said.since, said.replica.clone());
        let other = Other { since, replica, standing, steady_since, heard: now };
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn said(replica: usize, declines: &[u32], leaving: bool) -> Announcement {
        Announcement {
            replica: replica.to_string(),
            stream: "WAKES".to_owned(),
            since: 0,
            owns: BTreeSet::new(),
            wants: BTreeSet::new(),
            declines: declines.iter().copied().collect(),
            leaving,
        }
    }

    #[test]
    fn no_more_replicas_are_remembered_than_can_be() {
        let (mut roster, now) = (Roster::default(), Instant::now());
        for replica in 0..REPLICAS_MAX {
            assert!(roster.hear(&said(replica, &[], false), now), "{replica} is new");
            assert!(!roster.hear(&said(replica, &[], false), now), "{replica} is known");
        }
        assert!(!roster.hear(&said(REPLICAS_MAX, &[], false), now));
        assert_eq!(roster.others().count(), REPLICAS_MAX);
        assert!(!roster.hear(&said(0, &[], true), now));
        assert!(roster.hear(&said(REPLICAS_MAX, &[], false), now), "one has left");
    }

    #[test]
    fn who_is_silent_is_gone_unless_nobody_could_be_heard() {
        let (mut roster, now) = (Roster::default(), Instant::now());
        let second = Duration::from_secs(1);
        roster.hear(&said(1, &[], false), now);
        roster.deaf(now + second);
        roster.forget(second, now + second);
        assert_eq!(roster.others().count(), 1);
        roster.forget(second, now + second * 2);
        assert_eq!(roster.others().count(), 0);
    }

    #[test]
    fn who_becomes_able_to_work_a_lane_has_to_be_so_for_a_while() {
        let (mut roster, now) = (Roster::default(), Instant::now());
        let second = Duration::from_secs(1);
        for (after, declines, steady_since) in
            [(0, &[1_u32, 2][..], 0), (1, &[1], 1), (2, &[1], 1), (3, &[1, 2, 3], 1), (4, &[], 4)]
        {
            roster.hear(&said(1, declines, false), now + second * after);
            let steady = roster.others().next().unwrap().steady_since;
            assert_eq!(steady, now + second * steady_since, "after {after} s");
        }
    }
}
