//! Which bytes are being changed.

use std::collections::BTreeMap;

/// Ranges that do not overlap, each found by its first byte.
#[derive(Debug, Default)]
pub(crate) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Whether none of `from..to` is among them.
    pub(crate) fn is_free(&self, from: u64, to: u64) -> bool {
        self.0.range(..to).next_back().is_none_or(|(_, end)| *end <= from)
    }

    /// Adds a free one.
    pub(crate) fn take(&mut self, from: u64, to: u64) {
        debug_assert!(self.is_free(from, to));
        self.0.insert(from, to);
    }

    /// Takes one out that was added.
    pub(crate) fn give_back(&mut self, from: u64) {
        self.0.remove(&from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_found_from_any_side() {
        let mut ranges = Ranges::default();
        let held = [(10, 20), (20, 30), (40, 41)];
        held.iter().for_each(|&(from, to)| ranges.take(from, to));
        for from in 0..50 {
            for to in from + 1..50 {
                let free = held.iter().all(|h| h.1 <= from || to <= h.0);
                assert_eq!(ranges.is_free(from, to), free, "{from}..{to}");
            }
        }
        ranges.give_back(20);
        assert!(ranges.is_free(20, 40));
    }
}
