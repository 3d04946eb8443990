//! Admission: the gates, in one list, and the engine that walks it.
//!
//! Architecture Invariant: nothing in `admission` imports tokio, sqlx, async-nats or tracing. A
//! gate takes facts and a wake and returns a verdict; time and the world arrive as arguments.

pub mod decision;
pub mod engine;
pub mod facts;
pub mod gates;
pub mod intake;
pub mod limits;
pub mod shadow;
pub mod sight;

use std::time::Duration;

pub use self::decision::{Decision, Degraded, DuplicateKind, Refusal};
pub use self::engine::{Decided, Hold, decide_batch};
pub use self::facts::Facts;
pub use self::gates::{GATES, Gate, GateName, Posture, Verdict};
pub use self::limits::{Ceilings, Dimension, Layer, Limits, OrganizationLimits};
pub use self::shadow::{Shadowed, Shadows};
pub use self::sight::Sight;

/// N: agent-initiated assignment wakes that one task may have admitted in one window
/// (AC-OFFICE-ASSIGN-RATE-002.6: fixed, at least 1).
pub const ALLOWANCE_WAKES_MAX: u32 = 5;
/// W: the allowance's rolling window, `(t − W, t]` (AC-OFFICE-ASSIGN-RATE-001.11).
pub const ALLOWANCE_WINDOW: Duration = Duration::from_mins(10);
/// A queued run takes a wake in while it is younger than this, `(t − 5 s, t]`.
pub const COALESCE_WINDOW: Duration = Duration::from_secs(5);
/// A key was seen recently within this, `(t − 24 h, t]`.
pub const DUPLICATE_WINDOW: Duration = Duration::from_hours(24);
/// Highest count that the allowance reads and reports; a larger one is reported as this. It keeps
/// a read bounded after the gate has stood open.
pub const OBSERVED_COUNT_MAX: u32 = 100;

const _: () = assert!(ALLOWANCE_WAKES_MAX >= 1, "AC-OFFICE-ASSIGN-RATE-002.6: 0 would refuse all");
const _: () = assert!(ALLOWANCE_WAKES_MAX < OBSERVED_COUNT_MAX, "a refusal must be observable");
