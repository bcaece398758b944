//! The writes that a store knows of, and the life of each: prepared, decided, placed, released.

use super::format::{Entry, Redirect};
use super::{Change, ChangeKind, Changed, Event, JournalStore, Timestamp};

/// A write between prepare and release.
#[derive(Clone, Debug, Hash)]
pub(super) struct Write {
    /// What the worker said of it.
    pub meta: Vec<u8>,
    /// Whether the journal has it. Otherwise it is safe when it is in place, and not before.
    pub journaled: bool,
    /// The frame that holds its changes, as long as it must stay in the journal: until they
    /// are in place, and until a later frame says that the write is known.
    pub frame: Option<u64>,
    /// Whether that frame carries it: whole slots of its content were safe before.
    pub is_carried: bool,
    /// How far it is.
    pub life: Life,
}

/// How far a write is. It goes forward only, and ends by being forgotten: an undecided one when it aborts, a released
/// one when it is in place.
#[derive(Clone, Debug, Hash)]
pub(super) enum Life {
    /// Its prepare is on its way into the journal.
    Preparing {
        /// What it is to change.
        changes: Vec<Change>,
        /// Where whole slots of its content are.
        redirects: Vec<Redirect>,
    },
    /// It will survive. Whether it takes effect is undecided.
    Prepared {
        /// What it is to change.
        changes: Vec<Change>,
        /// Where whole slots of its content are.
        redirects: Vec<Redirect>,
        /// Sectors in which it has no effect: the journal says that later content overtook it there.
        overtaken: Vec<u64>,
    },
    /// It has taken effect, and other participants may not know.
    Committed {
        /// Its sectors that are not in place.
        unplaced: u64,
    },
    /// All participants know that it has. It is remembered until it is in place.
    Released {
        /// Its sectors that are not in place: one at least.
        unplaced: u64,
    },
}

impl Write {
    /// A write that is being prepared, in the journal or without it.
    pub fn new(
        meta: Vec<u8>,
        (changes, redirects): (Vec<Change>, Vec<Redirect>),
        journaled: bool,
    ) -> Write {
        let life = match journaled {
            true => Life::Preparing { changes, redirects },
            false => Life::Prepared { changes, redirects, overtaken: Vec::new() },
        };
        Write { meta, journaled, frame: None, is_carried: false, life }
    }

    /// A write whose prepare is found in a frame of the journal.
    pub fn found(
        meta: Vec<u8>,
        (changes, redirects): (Vec<Change>, Vec<Redirect>),
        frame: u64,
    ) -> Write {
        let life = Life::Prepared { changes, redirects, overtaken: Vec::new() };
        Write { meta, journaled: true, frame: Some(frame), is_carried: false, life }
    }

    /// A write of which the journal says that it has committed, and that is in place.
    pub fn known(meta: Vec<u8>) -> Write {
        let life = Life::Committed { unplaced: 0 };
        Write { meta, journaled: true, frame: None, is_carried: false, life }
    }

    /// Whether it is undecided.
    pub fn is_undecided(&self) -> bool {
        matches!(self.life, Life::Preparing { .. } | Life::Prepared { .. })
    }

    /// Whether it has committed, and other participants may not know.
    pub fn is_unreleased(&self) -> bool {
        matches!(self.life, Life::Committed { .. })
    }

    /// Whether the journal must go on saying that it has committed.
    pub fn is_to_be_known(&self) -> bool {
        self.journaled && self.is_unreleased()
    }

    /// What it is to change, if that is undecided.
    pub fn changes(&self) -> &[Change] {
        match &self.life {
            Life::Preparing { changes, .. } | Life::Prepared { changes, .. } => changes,
            Life::Committed { .. } | Life::Released { .. } => &[],
        }
    }

    /// Where whole slots of its content are, if it is undecided.
    pub fn redirects(&self) -> &[Redirect] {
        match &self.life {
            Life::Preparing { redirects, .. } | Life::Prepared { redirects, .. } => redirects,
            Life::Committed { .. } | Life::Released { .. } => &[],
        }
    }

    /// Sectors in which it has no effect, if that is known and it is undecided.
    pub fn overtaken(&self) -> &[u64] {
        match &self.life {
            Life::Prepared { overtaken, .. } => overtaken,
            Life::Preparing { .. } | Life::Committed { .. } | Life::Released { .. } => &[],
        }
    }

    /// Which sectors it is to change, and how. A slot has so many.
    pub fn changed(&self, slot: u64) -> Vec<Changed> {
        let of = |redirect: &Redirect| Changed {
            sectors: redirect.slot * slot..(redirect.slot + 1) * slot,
            kind: ChangeKind::Content,
        };
        let changes = self.changes().iter().map(Change::changed);
        changes.chain(self.redirects().iter().map(of)).collect()
    }

    /// How many of its sectors are not in place, if it has committed.
    pub fn unplaced(&self) -> Option<u64> {
        match self.life {
            Life::Preparing { .. } | Life::Prepared { .. } => None,
            Life::Committed { unplaced } | Life::Released { unplaced } => Some(unplaced),
        }
    }

    /// Its prepare is safe.
    pub fn prepared(&mut self) {
        if let Life::Preparing { changes, redirects } = &mut self.life {
            let (changes, redirects) = (std::mem::take(changes), std::mem::take(redirects));
            self.life = Life::Prepared { changes, redirects, overtaken: Vec::new() };
        }
    }

    /// The journal says that it has no effect in these sectors.
    pub fn overtaken_in(&mut self, sectors: Vec<u64>) {
        if let Life::Prepared { overtaken, .. } = &mut self.life {
            *overtaken = sectors;
        }
    }

    /// Nor has it any in these, if it is prepared and undecided.
    pub fn overtaken_also_in(&mut self, sectors: Vec<u64>) {
        if let Life::Prepared { overtaken, .. } = &mut self.life {
            overtaken.extend(sectors);
        }
    }

    /// It commits: returns what takes effect, and the sectors in which it has none.
    fn commit(&mut self) -> (Vec<Change>, Vec<Redirect>, Vec<u64>) {
        match std::mem::replace(&mut self.life, Life::Committed { unplaced: 0 }) {
            Life::Prepared { changes, redirects, overtaken } => (changes, redirects, overtaken),
            Life::Preparing { .. } => panic!("a write commits before it is prepared"),
            Life::Committed { .. } | Life::Released { .. } => panic!("a write is decided twice"),
        }
    }

    /// One more of its sectors is in place, or superseded. Says whether that was the last.
    fn place_one(&mut self) -> bool {
        match &mut self.life {
            Life::Committed { unplaced } | Life::Released { unplaced } => {
                *unplaced = unplaced.checked_sub(1).expect("it has sectors that are not in place");
                *unplaced == 0
            }
            life => panic!("a sector of an undecided write is in place: {life:?}"),
        }
    }

    /// All participants know the outcome. Says whether it need not be remembered any more.
    pub fn release(&mut self) -> bool {
        match self.life {
            Life::Committed { unplaced } | Life::Released { unplaced } if unplaced > 0 => {
                self.life = Life::Released { unplaced };
                false
            }
            _ => true,
        }
    }
}

impl JournalStore {
    /// Prepares a write. With `journal` it says [`Event::Prepared`] once durable, otherwise
    /// at once. `meta` is kept with it and handed back by recovery.
    pub fn prepare(&mut self, ts: Timestamp, meta: Vec<u8>, changes: Vec<Change>, journal: bool) {
        assert!(!self.writes.contains_key(&ts), "prepared twice: {ts}");
        self.superblock.latest = self.superblock.latest.max(ts);
        if !self.config.keeps_copies() {
            self.drop_copies_early(ts, &changes);
        }
        let part = match journal {
            true => self.redirect(ts, changes),
            false => (changes, Vec::new()),
        };
        if journal {
            self.journal.add_prepare(ts, &meta, &part.0, &part.1);
        }
        self.keep_write(ts, Write::new(meta, part, journal));
        self.expect_places(ts);
        if journal {
            self.pump();
        } else {
            self.events.push_back(Event::Prepared(ts));
        }
    }

    /// Keeps an undecided write.
    pub(super) fn keep_write(&mut self, ts: Timestamp, write: Write) {
        self.copies.comes(ts, write.changes());
        self.writes.insert(ts, write);
    }

    /// Commits or aborts a prepared write. Its changes are visible (or gone) at once; that
    /// the outcome is safe is said later.
    pub fn outcome(&mut self, ts: Timestamp, commit: bool) {
        if !commit && self.journal.withdraw(ts) {
            // It never came into the journal, so nothing has to be said there.
            self.places_decided(ts, false);
            let write = self.writes.remove(&ts);
            self.copies.decided(ts);
            let redirects = write.map_or(Vec::new(), |w| w.redirects().to_vec());
            self.slots.abort(ts, redirects, true);
            self.pump();
            return;
        }
        let write = self.writes.get(&ts).expect("an outcome is for a prepared write");
        let journaled = write.journaled;
        let overtaken = self.decide(ts, commit);
        if journaled {
            if !overtaken.is_empty() {
                self.journal.add(Entry::Overtaken { ts, sectors: overtaken });
            }
            self.journal.add_outcome(ts, commit);
        }
    }

    /// Returns the sectors in which it has no effect, because later content is there. That must be kept: what is
    /// later may have been prepared first, and be gone from the journal when this is found there.
    pub(super) fn decide(&mut self, ts: Timestamp, commit: bool) -> Vec<u64> {
        self.places_decided(ts, commit);
        let write = self.writes.get_mut(&ts).expect("an outcome is for a prepared write");
        if !commit {
            assert!(write.is_undecided(), "decided twice: {ts}");
            let write = self.writes.remove(&ts).expect("just seen");
            self.copies.decided(ts);
            self.journal.unpin(write.frame);
            self.slots.abort(ts, write.redirects().to_vec(), false);
            return Vec::new();
        }
        let journaled = write.journaled;
        let (changes, redirects, mut overtaken) = write.commit();
        self.copies.decided(ts);
        if !journaled {
            self.unlogged += 1;
        }
        let mut superseded = Vec::new();
        let mut unplaced =
            self.take_effect(ts, &changes, journaled, &mut superseded, &mut overtaken);
        for redirect in &redirects {
            let first = |slot| self.slots.sectors_of(slot).start;
            let places = (first(redirect.slot), first(redirect.place));
            let by_now = &mut overtaken;
            let taken = self.overlay.add_slot(ts, places, &redirect.crcs, &mut superseded, by_now);
            self.slots.commit(ts, redirect, taken > 0);
            unplaced += taken;
        }
        self.writes.get_mut(&ts).expect("just seen").life = Life::Committed { unplaced };
        self.unpin_all(superseded);
        if unplaced == 0 {
            self.placed(ts);
        }
        overtaken
    }

    /// Changes of a write that has committed are visible from now on. Returns in how many sectors they count; what they supersede
    /// is appended. In `overtaken` they have no effect.
    pub(super) fn take_effect(
        &mut self,
        ts: Timestamp,
        changes: &[Change],
        journaled: bool,
        superseded: &mut Vec<Timestamp>,
        overtaken: &mut Vec<u64>,
    ) -> u64 {
        let mut unplaced = 0;
        for change in changes {
            unplaced += match change.kind {
                ChangeKind::Copy(kept) => self.add_copies(ts, change, kept, superseded, overtaken),
                ChangeKind::Fold(unit) => {
                    superseded.extend(self.fold(ts, change.sectors(), unit));
                    0
                }
                ChangeKind::Content | ChangeKind::Delta | ChangeKind::Mark => {
                    self.overlay.add(ts, change, !journaled, superseded, overtaken)
                }
            };
        }
        unplaced
    }

    /// Whether a write is prepared or committed here and not yet released.
    pub fn knows(&self, ts: Timestamp) -> bool {
        self.writes.contains_key(&ts)
    }

    /// The timestamps of writes that are prepared and undecided.
    pub fn undecided(&self) -> impl Iterator<Item = Timestamp> + '_ {
        self.writes.iter().filter(|(_, w)| w.is_undecided()).map(|(ts, _)| *ts)
    }

    /// All participants know the outcome: the write need not be remembered.
    pub fn release(&mut self, ts: Timestamp) {
        let Some(write) = self.writes.get(&ts) else { return };
        assert!(!write.is_undecided(), "released before it was decided: {ts}");
        if write.journaled {
            self.journal.add_released(ts);
        }
        self.released(ts);
    }

    /// A write that is released is forgotten, if it is in place.
    pub(super) fn released(&mut self, ts: Timestamp) {
        let Some(write) = self.writes.get_mut(&ts) else { return };
        if write.release() {
            self.journal.unpin(write.frame.take());
            self.writes.remove(&ts);
        }
    }

    /// Sectors of committed changes are in place or superseded.
    pub(super) fn unpin_all(&mut self, gone: Vec<Timestamp>) {
        for ts in gone {
            let write = self.writes.get_mut(&ts).expect("remembered while not in place");
            if write.place_one() {
                self.placed(ts);
            }
        }
    }

    fn placed(&mut self, ts: Timestamp) {
        let write = self.writes.get_mut(&ts).expect("remembered while not in place");
        if !write.journaled {
            self.unlogged -= 1;
            match &mut self.checkpoint {
                // Only the superblock shows, to who has heard of it, that the disk has this.
                Some(checkpoint) => checkpoint.placed(ts),
                None => self.events.push_back(Event::Placed(ts)),
            }
        }
        if matches!(write.life, Life::Released { .. }) {
            self.journal.unpin(write.frame.take());
            self.writes.remove(&ts);
        }
    }
}
