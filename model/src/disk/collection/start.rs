//! A drive that was filled and then overwritten at random until it was in its steady state.
//!
//! Simulating that takes several times the drive's capacity of writes. The steady state is known instead: under
//! uniformly random writes greedy collection takes superblocks about in the order in which they were written, and each
//! loses its valid pages exponentially (Desnoyers, SYSTOR 2012; Xiang and Kurkoski, arXiv:1110.4245). So the valid
//! pages of the superblocks, from the youngest to the oldest, are a geometric series that adds up to all pages.

use super::pages::{Pages, State};

impl Pages {
    /// Puts all pages of an empty drive where they are in the steady state. Which are where is drawn.
    pub(super) fn precondition(&mut self, chance: &mut fastrand::Rng) {
        let mut pages: Vec<u32> = (0..self.slot_of.len() as u32).collect();
        chance.shuffle(&mut pages);
        let closed = self.states.len() - self.reserve;
        let ratio = ratio(closed, self.per_superblock, pages.len());
        let (mut expected, mut share, mut next) = (0.0, f64::from(self.per_superblock), 0);
        for block in 0..closed {
            expected += share;
            share *= ratio;
            // What rounding leaves goes to the last, which has the fewest.
            let until = (expected.round() as usize).min(pages.len());
            let until = if block + 1 == closed { pages.len() } else { until };
            self.fill(block as u32, &pages[next..until]);
            next = until;
        }
        self.free.retain(|&block| block as usize >= closed);
    }

    fn fill(&mut self, block: u32, pages: &[u32]) {
        let first = block * self.per_superblock;
        for (slot, &page) in (first..).zip(pages) {
            self.page_in[slot as usize] = page;
            self.slot_of[page as usize] = slot;
        }
        self.valid[block as usize] = pages.len() as u32;
        self.states[block as usize] = State::Closed;
    }
}

/// The ratio at which `blocks` terms of a geometric series from `per_superblock` on add up to `pages`. Found by
/// halving, with no function that differs between machines.
fn ratio(blocks: usize, per_superblock: u32, pages: usize) -> f64 {
    let sum = |ratio: f64| (0..blocks).fold(0.0, |sum, _| sum * ratio + f64::from(per_superblock));
    let (mut least, mut most) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = (least + most) / 2.0;
        if sum(middle) < pages as f64 {
            least = middle;
        } else {
            most = middle;
        }
    }
    (least + most) / 2.0
}
