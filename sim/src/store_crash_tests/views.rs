//! Snapshots on one disk: each keeps the address space of the volume, which goes on in the next.

use weft_core::store::{View, Views};
use weft_core::units::SPACE_SECTORS;

use super::bench::Bench;
use super::script::{SLOT, SLOTS};

impl Bench {
    /// A snapshot is taken.
    pub(super) fn snapshot(&mut self) {
        self.below.push(self.base);
        self.base += SPACE_SECTORS;
        self.emptied.clear();
        self.store.set_views(&self.views());
    }

    pub(super) fn views(&self) -> Views {
        let all = SLOTS * SLOT;
        let above = self.below.iter().skip(1).chain([&self.base]);
        let view = |(n, (above, below)): (usize, (&u64, &u64))| View {
            sectors: *above..*above + all,
            below: *below,
            merges: self.merges && n == 0,
            flattens: self.flattens && *above == self.base,
        };
        Views::new(above.zip(&self.below).enumerate().map(view).collect())
    }

    /// The first snapshot is merged, and forgotten. Says whether it came to that.
    pub(super) fn merged(&mut self) -> bool {
        for _ in 0..20 {
            self.checkpoint();
            if !self.rest() {
                return false;
            }
            if self.store.has_merged() {
                self.below.remove(0);
                self.merges = false;
                self.store.set_views(&self.views());
                self.keep_all();
                return true;
            }
        }
        panic!("it is never merged");
    }

    /// The volume is independent of its snapshots, which are deleted. Says whether it came to that.
    pub(super) fn flattened(&mut self) -> bool {
        for _ in 0..20 {
            self.checkpoint();
            if !self.rest() {
                return false;
            }
            if self.store.has_flattened() {
                self.below.clear();
                self.flattens = false;
                self.store.set_views(&self.views());
                self.keep_all();
                return true;
            }
        }
        panic!("it is never flattened");
    }

    pub(super) fn keep_all(&mut self) {
        let spaces = self.below.iter().chain([&self.base]);
        let kept: Vec<_> = spaces.map(|first| *first..*first + SLOTS * SLOT).collect();
        self.store.keep_only(&kept, 0);
    }
}
