//! The intake rate: how many runs one producer's events made in one organization, slot by slot.
//!
//! A minute is six slots of ten seconds of the stream's clock. The rate is kept where no six
//! consecutive slots hold more admitted wakes than allowed. Lanes come to the same slots in any
//! order, and a backlog is decided beside the present, so a wake is held against every minute that
//! its own slot lies in: those before it and those after it. What is counted are admissions by their
//! request instant, so the answer is the same whenever it is asked, and a wake that was decided
//! before counts once.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::wake::UtcMicros;

/// How long a slot is.
pub const SLOT: Duration = Duration::from_secs(10);
/// Slots of a minute.
pub const SLOTS: i64 = 6;

const SLOT_MICROS: i64 = 10_000_000;
const _: () = assert!(SLOT.as_micros() == SLOT_MICROS as u128, "one length, in two units");

/// A slot, by its number since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(i64);

impl Slot {
    /// The slot of an instant.
    #[must_use]
    pub const fn of(at: UtcMicros) -> Self {
        Self(at.micros().div_euclid(SLOT_MICROS))
    }

    /// When it begins.
    #[must_use]
    pub const fn start(self) -> UtcMicros {
        UtcMicros::from_micros(self.0.saturating_mul(SLOT_MICROS))
    }

    /// So many slots later, or, where negative, earlier.
    #[must_use]
    pub const fn later(self, slots: i64) -> Self {
        Self(self.0.saturating_add(slots))
    }

    /// The slots that may share a minute with this one, both ends included.
    #[must_use]
    pub const fn near(self) -> (Self, Self) {
        (self.later(1 - SLOTS), self.later(SLOTS - 1))
    }
}

/// Admitted wakes by slot.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Admitted(BTreeMap<Slot, u64>);

impl Admitted {
    /// Counts so many more in a slot.
    pub fn add(&mut self, slot: Slot, wakes: u64) {
        *self.0.entry(slot).or_default() += wakes;
    }

    /// Slots and their counts, in order.
    pub fn slots(&self) -> impl Iterator<Item = (Slot, u64)> {
        self.0.iter().map(|(slot, wakes)| (*slot, *wakes))
    }

    /// The most that any minute holds which this slot lies in.
    #[must_use]
    pub fn busiest_minute(&self, slot: Slot) -> u64 {
        // A minute that ends with an empty slot holds no more than the one that ends with the last
        // slot before it that holds something, or with this one.
        let ends = self.0.range(slot..=slot.near().1).map(|(end, _)| *end).chain([slot]);
        ends.map(|end| self.within(end.near().0, end)).max().unwrap_or(0)
    }

    /// The first slot, not before this one, in which another wake fits, with nothing else admitted.
    #[must_use]
    pub fn fits_in(&self, slot: Slot, max: u32) -> Option<Slot> {
        if max == 0 {
            return None;
        }
        let fits = |at: &Slot| self.busiest_minute(*at) < u64::from(max);
        // Room appears only where a slot that holds something leaves the last minute.
        let leaving = self.0.keys().map(|held| held.later(SLOTS)).filter(|at| *at > slot);
        std::iter::once(slot).chain(leaving).find(fits)
    }

    fn within(&self, first: Slot, last: Slot) -> u64 {
        self.0.range(first..=last).map(|(_, wakes)| *wakes).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn admitted(slots: &[(i64, u64)]) -> Admitted {
        let mut admitted = Admitted::default();
        for (slot, wakes) in slots {
            admitted.add(Slot(*slot), *wakes);
        }
        admitted
    }

    /// Every minute, one after the other.
    fn plainly(admitted: &Admitted, slot: i64) -> u64 {
        let minute = |start: i64| {
            let within = |at: &Slot| at.0 >= start && at.0 < start + 6;
            admitted.slots().filter(|(at, _)| within(at)).map(|(_, wakes)| wakes).sum()
        };
        (slot - 5..=slot).map(minute).max().unwrap()
    }

    proptest! {
        #[test]
        fn the_busiest_minute_is_that_of_all_minutes(
            slots in prop::collection::vec((0_i64..30, 1_u64..4), 0..20),
            slot in 0_i64..30,
        ) {
            let admitted = admitted(&slots);
            prop_assert_eq!(admitted.busiest_minute(Slot(slot)), plainly(&admitted, slot));
        }

        #[test]
        fn the_first_slot_that_fits_is_the_first(
            slots in prop::collection::vec((0_i64..30, 1_u64..4), 0..20),
            slot in 0_i64..30,
            max in 1_u32..8,
        ) {
            let admitted = admitted(&slots);
            let fits = (slot..slot + 100).find(|at| plainly(&admitted, *at) < u64::from(max)).map(Slot);
            prop_assert_eq!(admitted.fits_in(Slot(slot), max), fits);
        }

        /// In whatever order slots are come to, no minute ever holds more than allowed.
        #[test]
        fn no_minute_is_exceeded_in_whatever_order_slots_are_come_to(
            order in prop::collection::vec(0_i64..24, 0..120),
            max in 0_u32..6,
        ) {
            let mut admitted = Admitted::default();
            for slot in order.into_iter().map(Slot) {
                if admitted.busiest_minute(slot) < u64::from(max) {
                    admitted.add(slot, 1);
                }
            }
            for start in -6..30 {
                prop_assert!(admitted.within(Slot(start), Slot(start + 5)) <= u64::from(max));
            }
        }
    }

    #[test]
    fn a_slot_of_an_instant_is_whole_also_before_the_epoch() {
        for (micros, slot) in [(0, 0), (9_999_999, 0), (10_000_000, 1), (-1, -1), (-10_000_000, -1)]
        {
            assert_eq!(Slot::of(UtcMicros::from_micros(micros)), Slot(slot));
        }
        assert_eq!(Slot(3).start().micros(), 30_000_000);
        assert_eq!(Admitted::default().fits_in(Slot(7), 0), None, "0 is none, now and later");
    }
}
