//! Gate 6: is there room for one more run?

use super::{Gate, GateName, Posture, Verdict};
use crate::admission::decision::{Decision, Overload, Refusal, Retry};
use crate::admission::facts::{Drain, Facts, ReadFailure, Room};
use crate::admission::intake::{Admitted, SLOTS, Slot};
use crate::admission::limits::{Ceilings, Dimension, Effective};
use crate::admission::sight::Sight;
use crate::wake::Wake;

/// Hold: a queue that nobody could look at may be full already.
pub const GATE: Gate = Gate { name: GateName::Capacity, posture: Posture::Hold, check, sight };

/// What a wake would need room in, the widest first: of several that are full the first is named.
pub const BOUNDARIES: [Dimension; 6] = [
    Dimension::QueuedPlatform,
    Dimension::QueuedOrganization,
    Dimension::QueuedProject,
    Dimension::Waiting,
    Dimension::Intake,
    Dimension::EventBytes,
];

/// A retry that is further away than this is not worth announcing: until then anything may happen.
const RETRY_AFTER_SECONDS_MAX: u32 = 3_600;

/// What joins a run or was seen before never meets a ceiling: it takes no room. Of that only a key
/// that has aged comes here, on its way to gate 7. Nothing that is queued is ever dropped for a wake.
fn check(facts: &Facts, wake: &Wake) -> Result<Verdict, ReadFailure> {
    let Some(ceilings) = &facts.ceilings else { return Ok(Verdict::Pass) };
    if is_known(facts, wake)? {
        return Ok(Verdict::Pass);
    }
    let room = facts.room.as_ref().map_err(Clone::clone)?;
    let full = BOUNDARIES.into_iter().find_map(|boundary| {
        let look = Look::at(boundary, ceilings, room, wake)?;
        look.is_full().then(|| look.overload(room, wake))
    });
    Ok(match full {
        Some(overload) => Verdict::Conclude(Decision::Refuse(Refusal::CapacityExhausted(overload))),
        None => Verdict::Pass,
    })
}

/// Whether gate 7 will find the wake's key.
fn is_known(facts: &Facts, wake: &Wake) -> Result<bool, ReadFailure> {
    let Some(key) = wake.occurrence.key() else { return Ok(false) };
    let keys = facts.keys.as_ref().map_err(Clone::clone)?;
    Ok(keys.contains_key(&(wake.organization_id.clone(), key.clone())))
}

/// One boundary as a wake meets it.
struct Look {
    boundary: Dimension,
    limit: Effective,
    /// How much is there; of an event, how large it is.
    depth: u64,
}

impl Look {
    /// Nothing where the boundary is none of this wake's.
    fn at(boundary: Dimension, ceilings: &Ceilings, room: &Room, wake: &Wake) -> Option<Self> {
        let organization = &wake.organization_id;
        let depth = match boundary {
            Dimension::QueuedPlatform => room.queued_platform,
            Dimension::QueuedOrganization => {
                room.queued_organizations.get(organization).copied().unwrap_or(0)
            }
            Dimension::QueuedProject => {
                let project = (organization.clone(), wake.project_id.clone()?);
                room.queued_projects.get(&project).copied().unwrap_or(0)
            }
            Dimension::Intake => room
                .intake
                .get(&(organization.clone(), wake.producer.class()))
                .map_or(0, |admitted| admitted.busiest_minute(Slot::of(wake.requested_at))),
            Dimension::EventBytes => u64::from(wake.body_bytes),
            Dimension::Waiting => 0,
            Dimension::ActivePlatform | Dimension::ActiveOrganization => return None,
        };
        let limit = Effective::of(boundary, ceilings, room.limits.get(organization));
        Some(Self { boundary, limit, depth })
    }

    fn is_full(&self) -> bool {
        match self.boundary {
            // The event is there already: it is measured, and not one more.
            Dimension::EventBytes => self.depth > u64::from(self.limit.max),
            _ => self.depth >= u64::from(self.limit.max),
        }
    }

    fn overload(&self, room: &Room, wake: &Wake) -> Overload {
        Overload {
            boundary: self.boundary,
            layer: self.limit.layer,
            depth: self.depth,
            capacity: self.limit.max,
            retry: self.retry(room, wake),
        }
    }

    /// Said only where something justifies it: for the rate the slots tell exactly, for a queue the
    /// rate at which it was seen to drain.
    fn retry(&self, room: &Room, wake: &Wake) -> Option<Retry> {
        if self.limit.max == 0 {
            return None;
        }
        let organization = &wake.organization_id;
        match self.boundary {
            Dimension::Intake => {
                let admitted = room.intake.get(&(organization.clone(), wake.producer.class()))?;
                let slot = admitted.fits_in(Slot::of(wake.requested_at), self.limit.max)?;
                Some(Retry::At(slot.start()))
            }
            Dimension::QueuedPlatform => self.drained(room.drains.get(&None)?),
            Dimension::QueuedOrganization => {
                self.drained(room.drains.get(&Some(organization.clone()))?)
            }
            _ => None,
        }
    }

    fn drained(&self, drain: &Drain) -> Option<Retry> {
        let leaving = self.depth - u64::from(self.limit.max) + 1;
        let millis = leaving.saturating_mul(drain.millis).div_ceil(u64::from(drain.runs.max(1)));
        let seconds = u32::try_from(millis.div_ceil(1_000).max(1)).ok()?;
        (seconds <= RETRY_AFTER_SECONDS_MAX).then_some(Retry::After { seconds })
    }
}

fn sight(facts: &Facts, wake: &Wake) -> Result<Sight, ReadFailure> {
    let Some(ceilings) = &facts.ceilings else {
        return Ok(Sight::of("the ceilings", "none are enforced"));
    };
    if is_known(facts, wake)? {
        return Ok(Sight::of("whether the wake takes room", "none: its key is known to gate 7"));
    }
    let room = facts.room.as_ref().map_err(Clone::clone)?;
    let looked_at = format!(
        "how full the queue is for organization \"{}\"{}, and what was admitted of producer {} in \
         the minutes around {}",
        wake.organization_id,
        wake.project_id
            .as_ref()
            .map(|project| format!(" and project \"{project}\""))
            .unwrap_or_default(),
        wake.producer.class().as_str(),
        wake.requested_at,
    );
    let looks: Vec<Look> = BOUNDARIES
        .into_iter()
        .filter_map(|boundary| Look::at(boundary, ceilings, room, wake))
        .collect();
    let saw = looks.iter().map(|look| {
        let name = look.boundary.as_str();
        let (depth, max, layer) = (look.depth, look.limit.max, look.limit.layer.as_str());
        match look.boundary {
            Dimension::Waiting => format!("{name}: at most {max} seconds ({layer})"),
            _ => format!("{name}: {depth} of {max} ({layer})"),
        }
    });
    let saw = saw.collect::<Vec<_>>().join("; ");
    let mut sight = Sight::of(looked_at, saw);
    for look in &looks {
        if look.boundary != Dimension::Waiting {
            sight = sight.with(&format!("{}.depth", look.boundary.as_str()), look.depth);
        }
        sight = sight
            .with(&format!("{}.max", look.boundary.as_str()), look.limit.max)
            .with(&format!("{}.layer", look.boundary.as_str()), look.limit.layer.as_str());
    }
    let producer = (wake.organization_id.clone(), wake.producer.class());
    let slots = room.intake.get(&producer).into_iter().flat_map(Admitted::slots);
    // A slot that holds something comes into the minutes of a wake, is its own, and leaves them.
    let edges = slots.flat_map(|(slot, _)| {
        [slot.near().0, slot, slot.later(1), slot.later(SLOTS)].map(Slot::start)
    });
    Ok(sight.changing_at(edges))
}
