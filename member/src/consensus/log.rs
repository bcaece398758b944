//! The log as the library reads it: the last snapshot and the entries after it, in memory. What
//! of it is durable is the business of [`super::Consensus`].

use raft::eraftpb::{ConfState, Entry, HardState, Snapshot};
use raft::{Error, GetEntriesContext, RaftState, Result, Storage, StorageError};

use crate::record::Stored;

pub(super) struct Log {
    hard: HardState,
    snapshot: Snapshot,
    /// Those after the snapshot, without gaps.
    entries: Vec<Entry>,
}

impl Log {
    pub fn new(stored: Stored) -> Log {
        let (mut hard, index) = (stored.hard, stored.snapshot.get_metadata().index);
        let last = index + stored.entries.len() as u64;
        hard.commit = hard.commit.clamp(index, last);
        Log { hard, snapshot: stored.snapshot, entries: stored.entries }
    }

    pub fn hard(&self) -> &HardState {
        &self.hard
    }

    pub fn set_hard(&mut self, hard: HardState) {
        self.hard = hard;
    }

    pub fn snapshot_ref(&self) -> &Snapshot {
        &self.snapshot
    }

    pub fn all_entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The index of the snapshot.
    pub fn base(&self) -> u64 {
        self.snapshot.get_metadata().index
    }

    /// The index of the last entry.
    pub fn last(&self) -> u64 {
        self.base() + self.entries.len() as u64
    }

    fn at(&self, index: u64) -> Option<&Entry> {
        self.entries.get(index.checked_sub(self.base() + 1)? as usize)
    }

    /// Checks that its entries follow the snapshot, and one another.
    pub fn check(&self) {
        let follow = self.entries.iter().zip(self.base() + 1..).all(|(e, n)| e.index == n);
        assert!(follow, "entries follow one another");
        let ascend = self.entries.iter().zip(self.entries.iter().skip(1));
        assert!(ascend.into_iter().all(|(a, b)| a.term <= b.term), "terms go forward");
    }

    /// Puts entries at the end, instead of any that are there with the same or higher numbers.
    pub fn append(&mut self, entries: &[Entry]) {
        let Some(first) = entries.first() else { return };
        let keep = first.index - self.base() - 1;
        self.entries.truncate(keep as usize);
        self.entries.extend_from_slice(entries);
    }

    /// A snapshot of the leader's instead of everything.
    pub fn restore(&mut self, snapshot: Snapshot) {
        self.hard.commit = self.hard.commit.max(snapshot.get_metadata().index);
        self.snapshot = snapshot;
        self.entries.clear();
    }

    /// What was applied up to `index` becomes the snapshot; its entries go.
    pub fn compact(&mut self, index: u64, conf: ConfState, data: Vec<u8>) {
        let Some(term) = self.at(index).map(|e| e.term) else { return };
        self.entries.drain(..(index - self.base()) as usize);
        self.snapshot.data = data.into();
        let metadata = self.snapshot.mut_metadata();
        metadata.index = index;
        metadata.term = term;
        metadata.set_conf_state(conf);
    }
}

impl Storage for Log {
    fn initial_state(&self) -> Result<RaftState> {
        let conf = self.snapshot.get_metadata().get_conf_state().clone();
        Ok(RaftState::new(self.hard.clone(), conf))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _: GetEntriesContext,
    ) -> Result<Vec<Entry>> {
        if low <= self.base() {
            return Err(Error::Store(StorageError::Compacted));
        }
        let range = (low - self.base() - 1) as usize..(high - self.base() - 1) as usize;
        let found = self.entries.get(range).ok_or(Error::Store(StorageError::Unavailable))?;
        let mut entries = found.to_vec();
        raft::util::limit_size(&mut entries, max_size.into());
        Ok(entries)
    }

    fn term(&self, index: u64) -> Result<u64> {
        if index == self.base() {
            return Ok(self.snapshot.get_metadata().term);
        }
        if index < self.base() {
            return Err(Error::Store(StorageError::Compacted));
        }
        self.at(index).map(|e| e.term).ok_or(Error::Store(StorageError::Unavailable))
    }

    fn first_index(&self) -> Result<u64> {
        Ok(self.base() + 1)
    }

    fn last_index(&self) -> Result<u64> {
        Ok(self.last())
    }

    fn snapshot(&self, request_index: u64, _to: u64) -> Result<Snapshot> {
        if self.base() < request_index {
            return Err(Error::Store(StorageError::SnapshotTemporarilyUnavailable));
        }
        Ok(self.snapshot.clone())
    }
}
