//! The page mapping: which slot holds each logical page, and greedy garbage collection.
//!
//! Slots are physical pages, `per_superblock` of them in each superblock. Hosts' writes fill one superblock and copies
//! another, as in MQSim. When the hosts' superblock is full, superblocks are collected until the reserve is free
//! again: each time the closed one with the fewest valid pages.

use std::collections::VecDeque;

use crate::spec::{Collection, Flash, Sizes};

/// In place of a slot: the page is nowhere. In place of a page: the slot holds none.
pub(super) const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Erased.
    Free,
    /// Being filled.
    Open,
    /// Full.
    Closed,
}

/// The superblock that is being filled, if any, and how many slots of it are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Frontier {
    pub block: Option<u32>,
    pub used: u32,
}

/// What garbage collection did, in tracked pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Collected {
    /// Pages copied.
    pub copied: u64,
    /// Slots that hosts' writes can use since then.
    pub gained: u64,
    /// Superblocks erased.
    pub erased: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Pages {
    pub per_superblock: u32,
    pub reserve: usize,
    /// The slot of each logical page.
    pub slot_of: Vec<u32>,
    /// The page that was last written to each slot. It is valid if `slot_of` says so too.
    pub page_in: Vec<u32>,
    /// Valid pages of each superblock.
    pub valid: Vec<u32>,
    pub states: Vec<State>,
    pub free: VecDeque<u32>,
    pub host: Frontier,
    pub copies: Frontier,
}

impl Pages {
    /// An empty drive.
    pub fn new(spec: &Flash, collection: &Collection) -> Pages {
        let sizes = Sizes::of(spec, collection);
        let superblocks = sizes.superblocks as usize;
        Pages {
            per_superblock: sizes.per_superblock as u32,
            reserve: collection.reserve_superblocks as usize,
            slot_of: vec![NONE; sizes.logical as usize],
            page_in: vec![NONE; superblocks * sizes.per_superblock as usize],
            valid: vec![0; superblocks],
            states: vec![State::Free; superblocks],
            free: (0..superblocks as u32).collect(),
            host: Frontier::default(),
            copies: Frontier::default(),
        }
    }

    /// Writes a page; answers what had to be collected for it.
    pub fn write(&mut self, page: u32) -> Collected {
        let collected = self.make_room();
        self.discard(page);
        self.put_in_host(page);
        debug_assert!(self.free.len() >= self.reserve, "{} superblocks are free", self.free.len());
        collected
    }

    /// The page is not needed any more.
    pub fn discard(&mut self, page: u32) {
        let slot = std::mem::replace(&mut self.slot_of[page as usize], NONE);
        if slot != NONE {
            self.valid[(slot / self.per_superblock) as usize] -= 1;
        }
    }

    /// Sees to it that there is a slot for a host's write, and that the reserve is free.
    pub fn make_room(&mut self) -> Collected {
        let mut collected = Collected::default();
        if self.host.block.is_some() && self.host.used < self.per_superblock {
            return collected;
        }
        self.close(self.host);
        self.host = self.open();
        while self.free.len() < self.reserve {
            self.collect(&mut collected);
        }
        collected
    }

    /// Collects the closed superblock with the fewest valid pages, of equals the first.
    fn collect(&mut self, collected: &mut Collected) {
        let closed = (0..self.valid.len()).filter(|&b| self.states[b] == State::Closed);
        let victim = closed.min_by_key(|&b| self.valid[b]).expect("a closed superblock") as u32;
        let copied = self.valid[victim as usize];
        assert!(copied < self.per_superblock, "nothing is gained from a superblock of valid pages");
        let first = victim * self.per_superblock;
        for slot in first..first + self.per_superblock {
            let page = self.page_in[slot as usize];
            if page != NONE && self.slot_of[page as usize] == slot {
                self.copy(page);
            }
            self.page_in[slot as usize] = NONE;
        }
        debug_assert_eq!(self.valid[victim as usize], 0);
        self.states[victim as usize] = State::Free;
        self.free.push_back(victim);
        collected.copied += u64::from(copied);
        collected.gained += u64::from(self.per_superblock - copied);
        collected.erased += 1;
    }

    fn copy(&mut self, page: u32) {
        if self.copies.block.is_none() || self.copies.used == self.per_superblock {
            self.close(self.copies);
            self.copies = self.open();
        }
        self.discard(page);
        let mut copies = self.copies;
        self.put(page, &mut copies);
        self.copies = copies;
    }

    fn put_in_host(&mut self, page: u32) {
        let mut host = self.host;
        self.put(page, &mut host);
        self.host = host;
    }

    fn put(&mut self, page: u32, frontier: &mut Frontier) {
        let block = frontier.block.expect("an open superblock");
        let slot = block * self.per_superblock + frontier.used;
        frontier.used += 1;
        self.page_in[slot as usize] = page;
        self.slot_of[page as usize] = slot;
        self.valid[block as usize] += 1;
    }

    fn open(&mut self) -> Frontier {
        let block = self.free.pop_front().expect("the reserve");
        self.states[block as usize] = State::Open;
        Frontier { block: Some(block), used: 0 }
    }

    fn close(&mut self, frontier: Frontier) {
        if let Some(block) = frontier.block {
            self.states[block as usize] = State::Closed;
        }
    }

    /// Whether all that must hold does: each page is in at most one slot, valid pages are counted rightly, what is
    /// free is empty, and the reserve is free.
    #[cfg(test)]
    pub fn check(&self) {
        let mut valid = vec![0; self.valid.len()];
        for (page, &slot) in self.slot_of.iter().enumerate().filter(|(_, slot)| **slot != NONE) {
            // So no two pages have one slot.
            assert_eq!(self.page_in[slot as usize], page as u32);
            valid[(slot / self.per_superblock) as usize] += 1;
        }
        assert_eq!(valid, self.valid);
        let free = (0..self.states.len()).filter(|&b| self.states[b] == State::Free);
        let free: Vec<u32> = free.map(|b| b as u32).collect();
        let mut listed = Vec::from(self.free.clone());
        listed.sort_unstable();
        assert_eq!(free, listed);
        assert!(free.iter().all(|&b| valid[b as usize] == 0));
        let open = self.states.iter().filter(|s| **s == State::Open).count();
        assert_eq!(open, [self.host, self.copies].iter().filter(|f| f.block.is_some()).count());
        assert!(free.len() >= self.reserve);
    }
}
