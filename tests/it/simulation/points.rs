//! The await points of a lane, and at which of them something happens to its worker.

use rand::Rng as _;
use rand::rngs::StdRng;

use super::worker::Point;

/// At which await point something happens to a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PointAt {
    /// At the nth of all.
    Nth(u64),
    /// At the nth of one kind.
    Point(Point, u64),
}

/// Every call that a lane makes on its servers: each is an await point before it has its effect, and
/// one after.
const CALLS: [&str; 22] = [
    "open",
    "info",
    "stream",
    "next_after",
    "progress",
    "acknowledge",
    "give_back",
    "tell",
    "flush",
    "unpin",
    "lane_cursor",
    "read_identity",
    "read_shadowed",
    "read_agents",
    "read_pauses",
    "read_keys",
    "read_queued",
    "read_counted",
    "read_room",
    "record",
    "begin_isolated",
    "end_isolated",
];
/// See [`CALLS`]; on the audit stream.
const PUBLISH: &str = "publish";

/// Every await point.
pub fn points() -> impl Iterator<Item = Point> {
    let calls = CALLS.into_iter().chain([PUBLISH]);
    calls.flat_map(|call| [Point::Before(call), Point::After(call)])
}

/// Seeds from here on name the await point at which the first worker ends, in these bits.
const POINT_SHIFT: u32 = 32;

/// The nth seed whose first worker ends at one of [`points`], if it comes there.
pub fn seed_that_ends_at(point: usize, nth: u64) -> u64 {
    ((point as u64 + 1) << POINT_SHIFT) + nth
}

/// Which await point a seed names, if it does.
pub fn point_of_seed(seed: u64) -> Option<Point> {
    let number = usize::try_from(seed >> POINT_SHIFT).unwrap().checked_sub(1)?;
    points().nth(number)
}

impl PointAt {
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::Point(Point::Before(name) | Point::After(name), _) => Some(name),
            Self::Nth(_) => None,
        }
    }

    pub fn any(rng: &mut StdRng) -> Self {
        if rng.random_bool(0.5) {
            return Self::Nth(rng.random_range(1..=250));
        }
        let points: Vec<Point> = points().collect();
        let point = points[rng.random_range(0..points.len())];
        Self::nth_of(rng, point)
    }

    /// What is rare is met at its first time or never.
    pub fn nth_of(rng: &mut StdRng, point: Point) -> Self {
        let (Point::Before(name) | Point::After(name)) = point;
        let rare = ["give_back", "flush", "unpin", "begin_isolated", "end_isolated"];
        let nth_max = if rare.contains(&name) { 1 } else { 4 };
        Self::Point(point, rng.random_range(1..=nth_max))
    }
}
