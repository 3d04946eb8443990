//! What this replica does about each lane, from what it hears and what it sees. No input and no
//! output: instants arrive as arguments.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use super::announcement::Announcement;
use super::plan::{Standing, plan};
use super::rest::Rest;
use super::roster::Roster;
use crate::lane::LaneOptions;
use crate::lane::place::Stance;

/// Looks in a row that find a lane waiting with nobody pinned, after which it is pulled.
const OWNERLESS_LOOKS: u32 = 2;
/// Longest that a lane is not given up again, or is declined.
const REST_MAX: Duration = Duration::from_hours(1);
/// Longest between two announcements.
const ANNOUNCE_EVERY_MAX: Duration = Duration::from_secs(1);

/// Every time of the spreading, from the lanes' two.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// Between two announcements.
    pub(super) announce_every: Duration,
    /// A replica that is silent for as long is gone. Well within the pin's time-out: whoever gets
    /// its lanes pulls them before the server lets go of them.
    silent_for: Duration,
    /// A replica has to be steady for as long before a lane is given up to it.
    steady_for: Duration,
    /// Between two looks at the lanes that are left to others.
    pub(super) look_every: Duration,
    /// A lane that was given up is not given up again for as long.
    rest: Duration,
    /// A lane that was pulled because nobody had it is left again after as long without a wake.
    caretaking: Duration,
    /// A lane that holds for as long is declined.
    held_for: Duration,
    /// A lane that is declined is declined for as long.
    declined_for: Duration,
}

impl Times {
    pub(super) fn of(options: &LaneOptions) -> Self {
        let pin = options.pin_timeout;
        let announce_every = (pin / 8).min(ANNOUNCE_EVERY_MAX);
        Self {
            announce_every,
            silent_for: announce_every * 4,
            steady_for: pin,
            look_every: pin / 4,
            rest: pin * 2,
            caretaking: pin * 2,
            held_for: options.store_away_give_up,
            declined_for: options.store_away_give_up * 10,
        }
    }
}

/// What the worker knows of one of its lanes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// It is pinned to this worker.
    pub(super) owned: bool,
    /// It waits for a server.
    pub(super) holding: bool,
}

/// What is remembered of one lane.
#[derive(Debug, Clone, Copy)]
struct Place {
    stance: Stance,
    seen: Seen,
    holding_since: Option<Instant>,
    given_up: Rest,
    declined: Rest,
    ownerless_looks: u32,
    caretaker_since: Option<Instant>,
}

/// This replica among the others.
#[derive(Debug)]
pub(super) struct Spreading {
    replica: String,
    stream: String,
    since: i64,
    times: Times,
    roster: Roster,
    places: Vec<Place>,
    database_away_since: Option<Instant>,
    mine: BTreeSet<u32>,
}

impl Spreading {
    /// Alone, and on every lane.
    pub(super) fn new(
        replica: String,
        stream: String,
        since: i64,
        lanes: u32,
        times: Times,
    ) -> Self {
        let place = Place {
            stance: Stance::Pull,
            seen: Seen::default(),
            holding_since: None,
            given_up: Rest::default(),
            declined: Rest::default(),
            ownerless_looks: 0,
            caretaker_since: None,
        };
        let places = vec![place; lanes as usize];
        let roster = Roster::default();
        let mine = BTreeSet::new();
        Self { replica, stream, since, times, roster, places, database_away_since: None, mine }
    }

    /// Takes in what a replica says. True where it has to be answered, for it is new.
    pub(super) fn hear(&mut self, said: &Announcement, now: Instant) -> bool {
        said.replica != self.replica && self.roster.hear(said, now)
    }

    pub(super) fn is_own(&self, said: &Announcement) -> bool {
        said.replica == self.replica
    }

    /// Nobody can be heard just now.
    pub(super) fn deaf(&mut self, now: Instant) {
        self.roster.deaf(now);
    }

    /// How many there are, this one included.
    pub(super) fn replicas(&self) -> usize {
        self.roster.others().count() + 1
    }

    /// Takes in how the worker does.
    pub(super) fn see(&mut self, seen: &[Seen], database_ok: bool, now: Instant) {
        let Times { held_for, declined_for, .. } = self.times;
        if database_ok {
            self.database_away_since = None;
        } else {
            self.database_away_since.get_or_insert(now);
        }
        for (place, seen) in self.places.iter_mut().zip(seen) {
            place.seen = *seen;
            if seen.owned {
                place.caretaker_since = None;
            }
            // While the database is away everything holds, and that is said of the whole worker.
            if !seen.holding || !database_ok {
                place.holding_since = None;
            } else if now.duration_since(*place.holding_since.get_or_insert(now)) >= held_for
                && place.declined.is_over(now)
            {
                place.declined.begin(declined_for, REST_MAX, now);
            }
        }
    }

    /// Takes in whether the lanes that are left to others have wakes waiting and nobody pinned.
    pub(super) fn looked(&mut self, looks: &[(u32, bool)], now: Instant) {
        for (lane, ownerless) in looks {
            let Some(place) = self.places.get_mut(*lane as usize) else { continue };
            place.ownerless_looks = if *ownerless { place.ownerless_looks + 1 } else { 0 };
            if place.ownerless_looks >= OWNERLESS_LOOKS {
                place.ownerless_looks = 0;
                place.caretaker_since = Some(now);
                // Whoever it was left to has not come; it may not come the next time either.
                place.given_up.begin(self.times.rest, REST_MAX, now);
            }
        }
    }

    /// Lanes to be looked at: those left to others.
    pub(super) fn left(&self) -> Vec<u32> {
        let lanes = (0..).zip(&self.places);
        lanes.filter(|(_, place)| place.stance == Stance::StandBy).map(|(lane, _)| lane).collect()
    }

    /// Decides about every lane. Returns those that are given up now.
    pub(super) fn decide(&mut self, now: Instant) -> Vec<u32> {
        self.roster.forget(self.times.silent_for, now);
        let standing = self.standing(now);
        let mut replicas = vec![((self.since, self.replica.as_str()), &standing, None)];
        replicas.extend(
            self.roster.others().map(|other| (other.order(), &other.standing, Some(other))),
        );
        replicas.sort_by_key(|(order, _, _)| *order);
        let standings: Vec<&Standing> = replicas.iter().map(|(_, standing, _)| *standing).collect();
        let lanes = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
        let plan = plan(lanes, &standings);

        let steady_for = self.times.steady_for;
        let unable = self.unable_for(now).is_some_and(|time| time >= steady_for);
        let mut mine = BTreeSet::new();
        let mut given_up = Vec::new();
        for ((lane, place), taker) in (0..).zip(&mut self.places).zip(plan) {
            let Some(other) = replicas[taker].2 else {
                mine.insert(lane);
                place.stance = Stance::Pull;
                continue;
            };
            let works = place.stance == Stance::Pull && place.seen.owned;
            // Only to one that pulls it, and that can be expected to go on doing so.
            let comes = other.standing.wants.contains(&lane)
                && now.duration_since(other.steady_since) >= steady_for;
            let may_go = if standing.declines.contains(&lane) {
                // Where all are in the same trouble they say so by then, and nothing has to move.
                unable || place.is_declined_for(steady_for, now)
            } else {
                place.may_be_left(now)
            };
            let keeps = works && !(comes && may_go);
            let pulls = keeps || place.is_cared_for(self.times.caretaking, now);
            place.stance = if pulls { Stance::Pull } else { Stance::StandBy };
            if works && place.stance == Stance::StandBy {
                place.given_up.begin(self.times.rest, REST_MAX, now);
                given_up.push(lane);
            }
        }
        self.mine = mine;
        given_up
    }

    /// What is done about each lane.
    pub(super) fn stances(&self) -> impl Iterator<Item = Stance> {
        self.places.iter().map(|place| place.stance)
    }

    /// The lanes that this one takes for its own.
    pub(super) fn mine(&self) -> &BTreeSet<u32> {
        &self.mine
    }

    /// What this one says of itself.
    pub(super) fn announcement(&self, now: Instant) -> Announcement {
        let Standing { owns, wants, declines } = self.standing(now);
        let (replica, stream) = (self.replica.clone(), self.stream.clone());
        let since = self.since;
        Announcement { replica, stream, since, owns, wants, declines, leaving: false }
    }

    /// That it is here, and pulls nothing yet.
    pub(super) fn hello(&self, now: Instant) -> Announcement {
        let none = BTreeSet::new();
        let declines = self.every_lane();
        Announcement { owns: none.clone(), wants: none, declines, ..self.announcement(now) }
    }

    /// That it is about to end.
    pub(super) fn farewell(&self, now: Instant) -> Announcement {
        Announcement { leaving: true, ..self.hello(now) }
    }

    fn standing(&self, now: Instant) -> Standing {
        let lanes = || (0..).zip(&self.places);
        let owns = lanes().filter(|(_, place)| place.seen.owned).map(|(lane, _)| lane).collect();
        let some = lanes().filter(|(_, place)| !place.declined.is_over(now));
        let declines = match self.unable_for(now) {
            Some(_) => self.every_lane(),
            None => some.map(|(lane, _)| lane).collect(),
        };
        Standing { owns, wants: self.mine.clone(), declines }
    }

    /// How long the database has been away beyond what is waited for.
    fn unable_for(&self, now: Instant) -> Option<Duration> {
        now.duration_since(self.database_away_since?).checked_sub(self.times.held_for)
    }

    fn every_lane(&self) -> BTreeSet<u32> {
        (0..).zip(&self.places).map(|(lane, _)| lane).collect()
    }
}

impl Place {
    /// Whether it is declined, and has been for this long.
    fn is_declined_for(&self, time: Duration, now: Instant) -> bool {
        let begun = self.declined.begun().filter(|_| !self.declined.is_over(now));
        begun.is_some_and(|begun| now.duration_since(begun) >= time)
    }

    /// Whether it was pulled lately because nobody had it.
    fn is_cared_for(&self, time: Duration, now: Instant) -> bool {
        self.caretaker_since.is_some_and(|since| now.duration_since(since) < time)
    }

    /// Whether a lane that works here may go for the sake of equal shares: not one that holds, for
    /// its wakes would be delivered once more for nothing, and not one that was given up just now.
    fn may_be_left(&self, now: Instant) -> bool {
        !self.seen.holding && self.given_up.is_over(now)
    }
}

#[cfg(test)]
mod tests;
