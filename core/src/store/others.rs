//! What the disk's store knows of other disks, and they of it: how far each has got, and whether this one
//! has forgotten what it promised (docs/internals/disk-format.md, "What others know of a disk").

use super::format;
use super::{JournalStore, Reached};
use crate::units::{Epoch, NodeId};

/// How far it is with writing that it is forgiven.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Forgiving {
    Wanted,
    /// The superblock that says so is being written.
    Writing,
    Done,
}

/// Nothing has been promised since the disk was opened.
pub(super) const NOTHING_PROMISED: (u64, u64) = (u64::MAX, u64::MAX);

impl JournalStore {
    /// Whether it keeps what it hears of others, and says how far it has got itself.
    pub(super) fn keeps_heard(&self) -> bool {
        self.config.keeps_heard
    }

    /// Its node enters an epoch: what is promised from now on is promised in it.
    pub fn begin_life(&mut self, epoch: Epoch) {
        self.journal.abort_doubted();
        if self.keeps_heard() && epoch > self.superblock.life {
            if self.unpromised == NOTHING_PROMISED {
                self.unpromised = (self.journal.last_frame(), self.superblock.sequence);
            }
            self.superblock.life = epoch;
            self.life_to_write = Some(epoch);
        }
        self.go_on_in_epoch();
    }

    /// Whether its node has entered no epoch since it was opened, in which it promised anything.
    pub(super) fn has_promised_nothing(&self) -> bool {
        self.keeps_heard() && self.unpromised == NOTHING_PROMISED
    }

    /// Others have found that it has forgotten what it promised, and cannot do without it. It says so itself from
    /// now on, also when it is opened again.
    pub fn forgotten(&mut self) {
        if self.keeps_heard() && !self.superblock.forgot {
            self.superblock.forgot = true;
            self.life_to_write = Some(format::FORGOT);
        }
        self.go_on_in_epoch();
    }

    /// Others know that it had forgotten what it promised, and it is made whole. That is written, even if nothing
    /// else is: it would be found to have forgotten again when it is opened next.
    pub fn forgiven(&mut self) {
        if std::mem::take(&mut self.superblock.forgot) {
            self.forgiving = Forgiving::Wanted;
            self.verifying.mend = self.verifying.mend.max(1);
        }
    }

    /// Whether the disk still says that it has forgotten, though it is forgiven.
    pub fn is_forgiving(&self) -> bool {
        self.forgiving != Forgiving::Done
    }

    /// How far another disk has got. It is kept with the next frame, and from then on in the superblock.
    pub fn hear(&mut self, node: NodeId, reached: Reached) {
        if !self.keeps_heard() || reached.disk == 0 || node.0 == self.superblock.disk {
            return;
        }
        let before = self.superblock.heard.get(&node).copied().unwrap_or_default();
        let now = before.merge(reached);
        if now == before {
            return;
        }
        self.superblock.heard.insert(node, now);
        self.heard_since.insert(node, now);
        if self.superblock.heard.len() > format::MOST_HEARD {
            let own = self.superblock.disk;
            let farthest = |n: &&NodeId| n.0.wrapping_sub(own);
            let farthest = *self.superblock.heard.keys().max_by_key(farthest).expect("not empty");
            self.superblock.heard.remove(&farthest);
            self.heard_since.remove(&farthest);
        }
    }
}
