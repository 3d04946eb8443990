//! Shadow mode: a gate decides as ever, what it would have refused is told, and the wake goes on to
//! the next gate.

use super::decision::Refusal;
use super::gates::GateName;

/// Which gates are in shadow. By default none: every gate that refuses does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shadows(u8);

impl Shadows {
    /// These, of those that refuse; the others have nothing that could be let through.
    #[must_use]
    pub fn of(gates: &[GateName]) -> Self {
        let mut shadows = Self::default();
        for gate in gates {
            shadows.set(*gate, true);
        }
        shadows
    }

    /// Puts a gate that refuses in shadow, or out of it.
    pub fn set(&mut self, gate: GateName, shadow: bool) {
        if !gate.refuses() {
            return;
        }
        let bit = 1 << gate.number();
        self.0 = if shadow { self.0 | bit } else { self.0 & !bit };
    }

    /// Whether a gate is in shadow.
    #[must_use]
    pub const fn has(self, gate: GateName) -> bool {
        self.0 & (1 << gate.number()) != 0
    }

    /// Those in shadow, in the order of the gates.
    pub fn gates(self) -> impl Iterator<Item = GateName> {
        GateName::REFUSING.into_iter().filter(move |gate| self.has(*gate))
    }
}

/// What is on record of a wake that gates in shadow would have refused: it repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shadowed {
    /// What they would have refused it for, as in [`Refusal::as_str`], in the order of the gates.
    pub reasons: Vec<String>,
    /// The outcome record, JSON.
    pub record: String,
}

/// What gates in shadow would have refused of a batch: of which of its wakes, in order.
pub type WouldRefuse = Vec<(usize, Refusal)>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_gates_that_refuse_are_ever_in_shadow() {
        for gate in GateName::READING.into_iter().chain([GateName::Insert]) {
            let mut shadows = Shadows::of(&[gate]);
            assert_eq!(shadows.has(gate), gate.refuses(), "{gate:?}");
            assert_eq!(shadows.gates().count(), usize::from(gate.refuses()));
            shadows.set(gate, false);
            assert_eq!(shadows, Shadows::default());
        }
    }
}
