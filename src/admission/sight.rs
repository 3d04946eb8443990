//! What a gate looked at and saw, in words and values, for whoever asks why. Deciding makes none.
//!
//! Each gate says it in its own file, of the very facts that its check reads.

use serde_json::{Map, Value};

use crate::wake::UtcMicros;

/// One look of one gate at one wake.
#[derive(Debug, Clone, PartialEq)]
pub struct Sight {
    /// What it looked at, in words.
    pub looked_at: String,
    /// What was there, in words.
    pub saw: String,
    /// The same as values, by name.
    pub values: Map<String, Value>,
    /// Instants at which it may see something else though nothing else happens, in no order.
    ///
    /// Whether its answer is then another one is told by asking the gate again, so one too many
    /// costs nothing; one too few is an answer that changes unannounced.
    pub edges: Vec<UtcMicros>,
}

impl Sight {
    /// A look that no passing of time changes.
    #[must_use]
    pub fn of(looked_at: impl Into<String>, saw: impl Into<String>) -> Self {
        Self { looked_at: looked_at.into(), saw: saw.into(), values: Map::new(), edges: Vec::new() }
    }

    /// With a value.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.values.insert(name.to_owned(), value.into());
        self
    }

    /// With a value, where there is one.
    #[must_use]
    pub fn with_some(self, name: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// With the instants at which it may see something else.
    #[must_use]
    pub fn changing_at(mut self, edges: impl IntoIterator<Item = UtcMicros>) -> Self {
        self.edges.extend(edges);
        self
    }
}
