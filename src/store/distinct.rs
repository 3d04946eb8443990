//! What a batch asks for, each once: it names few tasks, keys and agents, and many times.

use std::collections::HashSet;
use std::hash::Hash;

/// In the order of their first mention.
pub(super) fn distinct<T: Eq + Hash>(items: &[T]) -> Vec<&T> {
    let mut seen = HashSet::with_capacity(items.len());
    items.iter().filter(|item| seen.insert(*item)).collect()
}
