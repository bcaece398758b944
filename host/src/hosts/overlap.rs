//! Which requests touch the same bytes.

use std::collections::BTreeMap;

use weft_core::node::HostOp;
use weft_core::plan::Range;
use weft_core::units::VolumeId;

/// The bytes that a request touches, and whether it changes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(super) volume: VolumeId,
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) changes: bool,
}

impl Claim {
    /// What a request touches; `None` if it is about no bytes in particular.
    pub(crate) fn of(volume: VolumeId, op: &HostOp) -> Option<Claim> {
        let (range, changes) = match op {
            HostOp::Read(range) | HostOp::Holes(range) => (*range, false),
            HostOp::Write(offset, data) | HostOp::Modify { offset, data, .. } => {
                (Range { offset: *offset, len: data.len() as u64 }, true)
            }
            HostOp::WriteZeroes(range) | HostOp::Accept(range) | HostOp::Trim(range) => {
                (*range, true)
            }
            HostOp::Flush | HostOp::Refresh(_) | HostOp::Lost(_) | HostOp::Exposed(_) => {
                return None;
            }
            // Whatever is under way counts as changed.
            HostOp::Changed(..) => return None,
            HostOp::Scrub { .. } => return None,
        };
        // A range past the end of all numbers is refused by the node; here it only must
        // not overflow.
        let to = range.offset.saturating_add(range.len);
        (range.len > 0).then_some(Claim { volume, from: range.offset, to, changes })
    }

    /// Whether it changes bytes.
    pub(crate) fn changes(&self) -> bool {
        self.changes
    }

    /// Whether the order of the two matters.
    pub(crate) fn conflicts(&self, other: &Claim) -> bool {
        let overlap = self.from < other.to && other.from < self.to;
        self.volume == other.volume && overlap && (self.changes || other.changes)
    }
}

/// The claims of the changes in work. No two of them overlap, so that each is found by its
/// first byte.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    taken: BTreeMap<(VolumeId, u64), u64>,
}

impl Claims {
    /// Whether no change in work touches any of these bytes.
    pub(crate) fn is_free(&self, claim: &Claim) -> bool {
        self.overlapping(claim) == 0
    }

    /// How many changes in work touch any of these bytes.
    pub(crate) fn overlapping(&self, claim: &Claim) -> usize {
        let before = self.taken.range((claim.volume, 0)..(claim.volume, claim.to));
        before.rev().take_while(|(_, to)| **to > claim.from).count()
    }

    /// Takes a change into work.
    pub(crate) fn take(&mut self, claim: &Claim) {
        debug_assert!(claim.changes && self.is_free(claim), "changes in work are apart: {claim:?}");
        self.taken.insert((claim.volume, claim.from), claim.to);
    }

    /// A change has happened, or never will.
    pub(crate) fn give_back(&mut self, claim: &Claim) {
        let was = self.taken.remove(&(claim.volume, claim.from));
        debug_assert_eq!(was, Some(claim.to), "it was taken: {claim:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(volume: u32, from: u64, to: u64, changes: bool) -> Claim {
        Claim { volume: VolumeId(volume), from, to, changes }
    }

    #[test]
    fn only_changes_to_the_same_bytes_conflict() {
        let write = claim(0, 10, 20, true);
        for (other, expected) in [
            (claim(0, 19, 30, false), true),
            (claim(0, 0, 11, true), true),
            (claim(0, 12, 13, true), true),
            (claim(0, 0, 100, false), true),
            (claim(0, 20, 30, true), false),
            (claim(0, 0, 10, true), false),
            (claim(1, 10, 20, true), false),
        ] {
            assert_eq!(write.conflicts(&other), expected, "{other:?}");
            assert_eq!(other.conflicts(&write), expected, "{other:?}");
        }
        assert!(!claim(0, 0, 9, false).conflicts(&claim(0, 0, 9, false)), "reads go side by side");
    }

    #[test]
    fn what_is_in_work_is_found_from_any_side() {
        let mut claims = Claims::default();
        let held = [claim(0, 10, 20, true), claim(0, 20, 30, true), claim(1, 0, u64::MAX, true)];
        held.iter().for_each(|c| claims.take(c));
        for from in 0..40 {
            for to in from + 1..40 {
                let asked = claim(0, from, to, false);
                let free = !held.iter().any(|h| h.conflicts(&asked));
                assert_eq!(claims.is_free(&asked), free, "{asked:?}");
                let count = held.iter().filter(|h| h.conflicts(&asked)).count();
                assert_eq!(claims.overlapping(&asked), count, "{asked:?}");
            }
        }
        held.iter().for_each(|c| claims.give_back(c));
        assert!(claims.is_free(&claim(0, 0, 40, true)));
    }

    #[test]
    fn nothing_and_too_much_do_no_harm() {
        let read = |offset, len| Claim::of(VolumeId(0), &HostOp::Read(Range { offset, len }));
        assert_eq!(read(5, 0), None);
        assert_eq!(read(u64::MAX, 2), Some(claim(0, u64::MAX, u64::MAX, false)));
        assert_eq!(Claim::of(VolumeId(0), &HostOp::Flush), None);
    }
}
