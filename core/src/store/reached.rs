//! How far a disk has got: what it has promised, in numbers that only grow. Others hear of it with every
//! message and keep it on their own disks, so that a disk which opens behind what it had promised is found out
//! (docs/internals/disk-format.md, "What others know of a disk").

use std::collections::BTreeMap;

use crate::units::{Epoch, NodeId};

/// How far a disk had got at some moment. Everything that it had promised by then was durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reached {
    /// The disk's incarnation; 0 of a node without a disk, of which nothing is known.
    pub disk: u64,
    /// The last epoch that it had entered when it wrote: within one, the numbers below only grow.
    pub life: Epoch,
    /// The number of its last durable journal frame.
    pub frame: u64,
    /// The sequence of its last durable superblock.
    pub sequence: u64,
}

impl Reached {
    /// Both of what is known: of the same disk, the later.
    pub fn merge(self, other: Reached) -> Reached {
        if self.disk != other.disk || self.life != other.life {
            return if other.disk != 0 && (self.disk != other.disk || other.life > self.life) {
                other
            } else {
                self
            };
        }
        let (frame, sequence) = (self.frame.max(other.frame), self.sequence.max(other.sequence));
        Reached { frame, sequence, ..self }
    }

    /// Whether a disk that was `found` like this has lost something of what was heard of it. What it has
    /// promised since it entered an epoch after it was opened, at `began` (0 if it has not entered one), is no
    /// evidence.
    pub fn shows_loss(self, found: Reached, began: Epoch) -> bool {
        if self.disk != found.disk || self.disk == 0 {
            return false;
        }
        match self.life == found.life {
            true => self.frame > found.frame || self.sequence > found.sequence,
            false => self.life > found.life && (began == 0 || self.life < began),
        }
    }
}

/// What a node has heard of other nodes' disks.
pub type Heard = BTreeMap<NodeId, Reached>;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(life: Epoch, frame: u64, sequence: u64) -> Reached {
        Reached { disk: 7, life, frame, sequence }
    }

    #[test]
    fn what_is_later_counts_and_nothing_is_known_of_no_disk() {
        assert_eq!(at(2, 5, 9).merge(at(2, 7, 3)), at(2, 7, 9));
        assert_eq!(at(2, 5, 9).merge(at(3, 1, 1)), at(3, 1, 1));
        assert_eq!(at(3, 1, 1).merge(at(2, 5, 9)), at(3, 1, 1));
        assert_eq!(at(3, 1, 1).merge(Reached::default()), at(3, 1, 1));
        let another = Reached { disk: 8, ..at(1, 1, 1) };
        assert_eq!(at(3, 1, 1).merge(another), another);
    }

    #[test]
    fn a_disk_that_opens_behind_what_was_heard_has_lost_something() {
        let found = at(4, 100, 9);
        assert!(!at(4, 100, 9).shows_loss(found, 0) && !at(3, 500, 99).shows_loss(found, 0));
        assert!(at(4, 101, 9).shows_loss(found, 0) && at(4, 99, 10).shows_loss(found, 0));
        assert!(at(5, 1, 1).shows_loss(found, 0), "it had entered an epoch that it forgot");
        assert!(!at(6, 200, 20).shows_loss(found, 6), "that is what it has done since");
        assert!(at(5, 1, 1).shows_loss(found, 6));
        assert!(!Reached { disk: 8, ..at(9, 9, 9) }.shows_loss(found, 0), "another disk");
    }
}
