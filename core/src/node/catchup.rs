//! Catching up: what a disk missed while its node was away, or has yet to get of extents that
//! came to it, sector by sector.
//!
//! The version table of every disk is the durable record of writes and their times. A node
//! that is behind asks the others which sectors of the stripes it shares with them were
//! written since it left; of those, the ones that its own table does not show at that
//! version are stale. Of an extent that came to it, everything written before counts as missed.
//! Stale sectors answer like sectors that cannot be read: reads decode them from the others
//! and writes that need them first have them rebuilt. Meanwhile the node takes part in every
//! new write, so the list only shrinks.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::cluster::TimeAway;
use crate::units::{ColumnSet, NodeId, Timestamp, VolumeId};

/// An extent: volume, and number in the stripe map.
pub(crate) type Place = (VolumeId, usize);

/// An extent where this disk missed writes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Behind {
    /// The sectors of this disk that hold its column.
    pub sectors: Range<u64>,
    /// The first timestamp that may have been missed.
    pub since: Timestamp,
    /// What this disk has from before this time is of no use: another extent left it there.
    pub from: Timestamp,
    /// Whether it is copied from another disk. Then this one has missed nothing since `from`, and
    /// what it has from after that is newer than what it could be given.
    pub copied: bool,
    /// Whether what it has lost of it was lost before it came, because the node has run since.
    pub runs_since: bool,
    /// When its node was away.
    pub times_away: Vec<TimeAway>,
    /// Where this disk has the same extent of deleted snapshots that are merged into the volume, from the upper to the lower.
    pub merged: Vec<Merged>,
}

/// An extent of a deleted snapshot on a disk, merged into a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Merged {
    /// The first sector.
    pub first: u64,
    /// How many.
    pub count: u64,
    /// Whether the disk may lack content that hides it: of the volume, or of a snapshot between. Then its versions mean
    /// nothing: a copy has a later version than the writes that hide it.
    pub is_hidden: bool,
}

/// The version of hidden content: older than all writes.
pub(crate) const HIDDEN: Timestamp = Timestamp(1);

impl Behind {
    /// Since when this disk may have been given what others have: since its column came here, or since its node was back
    /// for the first time.
    fn put_back_since(&self) -> Option<Timestamp> {
        match self.from > Timestamp::ZERO {
            true => Some(self.from),
            false => self.times_away.first().and_then(|first| first.until),
        }
    }

    /// The version that parity of this disk must show if others have marked a write: any later one, or that write, if it
    /// is the first that the disk may have missed. `None` if it cannot have missed it.
    pub fn needed_for(&self, marked: Timestamp) -> Option<Timestamp> {
        match marked == self.since {
            true => Some(marked),
            false => (marked > self.since).then_some(Timestamp(u64::MAX)),
        }
    }

    /// What a version that this disk shows counts as beside the others'. What it shows as written while it was away
    /// was there before.
    fn counts_as(&self, version: Timestamp) -> Timestamp {
        self.times_away.iter().fold(version, |version, a| a.as_of_its_leaving(version))
    }
}

/// The version that a scan for [`crate::store::Scan::Since`] gives sectors that are lost.
pub(crate) const LOST: Timestamp = Timestamp(u64::MAX);

/// How a disk stands.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Catchup {
    /// The extents whose missed writes it knows.
    known: BTreeMap<Place, Behind>,
    /// The stale sectors of those.
    stale: BTreeSet<u64>,
    /// Those where this disk had newer content than the disk to copy from, and has lost it.
    lost: BTreeSet<u64>,
    /// Those whose missed writes it does not know yet.
    asking: Option<Asking>,
    /// Volumes that are behind and asleep: writes to them are not known, perhaps for long.
    asleep: BTreeSet<VolumeId>,
    /// The volumes that this disk has reported as caught up.
    reported: BTreeSet<VolumeId>,
    /// Writes that brought stale sectors up to date and may not be in place yet.
    freshening: BTreeSet<Timestamp>,
    /// Counts changes of stale sectors.
    changes: Aside<u64>,
}

/// What only saves looking again: states that differ only in it are one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Aside<T>(pub T);

impl<T> std::hash::Hash for Aside<T> {
    fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
}

/// Finding missed writes. Until that is known everything counts as stale but what has
/// been written since.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Asking {
    /// The extents.
    pub extents: BTreeMap<Place, Behind>,
    /// Nodes that have yet to answer.
    pub waiting: BTreeSet<NodeId>,
    /// What they said: for sectors of this disk, writes to their stripe's row.
    pub listed: BTreeMap<u64, Listed>,
    /// Written since.
    pub fresh: BTreeSet<u64>,
    /// The columns whose disks have said all that was written to them.
    pub witnesses: BTreeMap<Place, ColumnSet>,
    /// What this disk has, of the extents that it has looked at.
    pub own: BTreeMap<u64, Timestamp>,
    /// Sectors that it has yet to look at, from the last on: the extent's own, or those of a deleted snapshot that is merged into
    /// it. `None` before it begins.
    pub to_look_at: Option<Vec<(Place, Merged)>>,
}

/// What others have written to the row of a sector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Listed {
    /// The newest version that this disk must have.
    pub version: Timestamp,
    /// The seats that were written.
    pub by: ColumnSet,
    /// Those in which it is marked as out of date, on disks that have missed nothing.
    pub marked: ColumnSet,
    /// The latest write that was to change this sector, and that others remember.
    pub owed: Timestamp,
    /// Those that were written since the column came here, or may have been.
    pub since_it_came: ColumnSet,
}

impl Listed {
    /// The disk must have this version too, if it must have one.
    pub fn needs(&mut self, version: Option<Timestamp>) {
        self.version = self.version.max(version.unwrap_or_default());
    }
}

impl Catchup {
    /// A new map says in which extents this disk missed writes, and which volumes are asleep. Returns whether there is
    /// something to ask about.
    pub fn enter(&mut self, behind: BTreeMap<Place, Behind>, asleep: BTreeSet<VolumeId>) -> bool {
        self.changes.0 += 1;
        self.asleep = asleep;
        self.known.retain(|place, b| behind.get(place) == Some(b));
        let known = &self.known;
        self.stale.retain(|s| known.values().any(|b| b.sectors.contains(s)));
        let stale = &self.stale;
        self.lost.retain(|s| stale.contains(s));
        self.reported.clear();
        let before = self.asking.take().unwrap_or_default();
        let unknown: BTreeMap<Place, Behind> =
            behind.into_iter().filter(|(place, _)| !self.known.contains_key(place)).collect();
        if unknown.is_empty() {
            return false;
        }
        let kept = |s: &u64| {
            let same = |(place, b): (&Place, &Behind)| {
                b.sectors.contains(s) && before.extents.get(place) == Some(b)
            };
            unknown.iter().any(same)
        };
        let fresh = before.fresh.iter().filter(|s| kept(s)).copied().collect();
        self.asking = Some(Asking { extents: unknown, fresh, ..Asking::default() });
        self.will_know()
    }

    /// What it is finding out, if it is.
    pub fn asking(&mut self) -> Option<&mut Asking> {
        self.asking.as_mut()
    }

    /// Whether some missed writes are not known yet.
    pub fn is_asking(&self) -> bool {
        self.asking.is_some()
    }

    /// Whether some missed writes of a volume are not known yet.
    pub fn is_asking_about(&self, volume: VolumeId) -> bool {
        self.asking.as_ref().is_some_and(|a| a.extents.keys().any(|place| place.0 == volume))
    }

    /// Whether it asks for missed writes. It does not for volumes that are asleep.
    pub fn will_know(&self) -> bool {
        self.asked_about().next().is_some()
    }

    /// The extents whose missed writes it asks for.
    pub fn asked_about(&self) -> impl Iterator<Item = (&Place, &Behind)> {
        let all = self.asking.iter().flat_map(|asking| &asking.extents);
        all.filter(|((id, _), _)| !self.asleep.contains(id))
    }

    /// Whether anything is behind that the authority has not been told is whole again.
    pub fn is_behind(&self) -> bool {
        self.is_asking() || self.known.keys().any(|(id, _)| !self.reported.contains(id))
    }

    /// The volumes that cannot catch up for now: they are asleep, or wait for space. `None` while any other volume has stale
    /// or unknown sectors.
    pub fn left_behind(&self, without_space: &BTreeSet<VolumeId>) -> Option<BTreeSet<VolumeId>> {
        let is_stuck = |id: &VolumeId| self.asleep.contains(id) || without_space.contains(id);
        let none_is_stuck = self.asleep.is_empty() && without_space.is_empty();
        if self.will_know() || (none_is_stuck && !self.stale.is_empty()) {
            return None;
        }
        let is_stale = |b: &Behind| self.stale.range(b.sectors.clone()).next().is_some();
        let stale = self.known.iter().filter(|(_, b)| is_stale(b)).map(|(place, _)| place);
        let unknown = self.asking.iter().flat_map(|asking| asking.extents.keys());
        let left: BTreeSet<VolumeId> = stale.chain(unknown).map(|(id, _)| *id).collect();
        left.iter().all(is_stuck).then_some(left)
    }

    /// The volumes that were behind and have not been reported as caught up.
    pub fn unreported(&self) -> BTreeSet<VolumeId> {
        let all = self.known.keys().map(|(id, _)| *id);
        all.filter(|id| !self.reported.contains(id)).collect()
    }

    /// A write brought stale sectors up to date. It may not be in place yet.
    pub fn freshened_by(&mut self, ts: Timestamp) {
        self.freshening.insert(ts);
    }

    /// Whether all writes that brought stale sectors up to date are in place: those that are not are `open`.
    pub fn is_fresh_for_good(&mut self, open: impl Fn(&Timestamp) -> bool) -> bool {
        self.freshening.retain(open);
        self.freshening.is_empty()
    }

    /// These volumes have been reported as caught up.
    pub fn reported(&mut self, volumes: impl IntoIterator<Item = VolumeId>) {
        self.reported.extend(volumes);
    }

    /// The sectors known to be stale.
    pub fn stale(&self) -> &BTreeSet<u64> {
        &self.stale
    }

    /// Whether a sector is stale, and what another disk has of it would be too old.
    pub fn is_lost(&self, sector: u64) -> bool {
        self.lost.contains(&sector) && self.stale.contains(&sector)
    }

    /// How often stale sectors have changed.
    pub fn changes(&self) -> u64 {
        self.changes.0
    }

    /// The bug: the last stale sector is forgotten.
    pub fn miss_one(&mut self) {
        self.stale.pop_last();
        self.changes.0 += 1;
    }

    /// This sector belongs to no volume any more.
    pub fn forget(&mut self, sector: u64) {
        self.stale.remove(&sector);
        self.changes.0 += 1;
    }

    /// Whether any sector may be stale.
    pub fn lacks_any(&self) -> bool {
        !self.stale.is_empty() || self.is_asking()
    }

    /// Whether a sector in the range is stale.
    pub fn is_stale(&self, range: Range<u64>) -> bool {
        if self.stale.range(range.clone()).next().is_some() {
            return true;
        }
        let Some(a) = &self.asking else { return false };
        let missed = |s: u64| a.extents.values().any(|b| b.sectors.contains(&s));
        range.into_iter().any(|s| missed(s) && !a.fresh.contains(&s))
    }

    /// Sectors in the range have new content. Returns how many were known to be stale.
    pub fn wrote(&mut self, range: Range<u64>) -> u64 {
        if let Some(a) = &mut self.asking {
            let missed = |s: &u64| a.extents.values().any(|b| b.sectors.contains(s));
            a.fresh.extend(range.clone().filter(missed));
        }
        if self.stale.is_empty() {
            return 0;
        }
        let fresh = range.into_iter().map(|s| u64::from(self.stale.remove(&s))).sum();
        self.changes.0 += u64::from(fresh > 0);
        fresh
    }

    /// All answers, once nothing more is expected. The extents of volumes that are asleep are asked for later.
    fn take_heard(&mut self) -> Option<Asking> {
        let heard = self.asking.as_ref().filter(|a| a.waiting.is_empty())?;
        if !heard.to_look_at.as_ref()?.is_empty() || !self.will_know() {
            return None;
        }
        let mut heard = self.asking.take().expect("just seen");
        let is_asleep = |place: &Place, _: &mut Behind| self.asleep.contains(&place.0);
        let extents: BTreeMap<Place, Behind> = heard.extents.extract_if(.., is_asleep).collect();
        if !extents.is_empty() {
            let is_left = |s: &&u64| extents.values().any(|b| b.sectors.contains(s));
            let fresh = heard.fresh.iter().filter(is_left).copied().collect();
            self.asking = Some(Asking { extents, fresh, ..Asking::default() });
        }
        Some(heard)
    }

    /// When everything has been heard, the stale sectors of volumes that are awake are known. `is_unchanged` says of a sector of
    /// this disk, columns that have said all, and seats that have been written, whether this sector cannot have been:
    /// whatever changes a data unit changes all parity that covers it, so a unit is as it was if
    /// parity that covers it is. `is_exposed` says that of listed sectors, too, where parity is deferred. `is_covered`
    /// says of a
    /// data sector, columns that have said all, and seats that have been written, whether one of both is parity that covers it.
    pub fn conclude(
        &mut self,
        is_unchanged: impl Fn(Place, u64, ColumnSet, ColumnSet) -> bool,
        is_exposed: impl Fn(Place, u64, &Listed) -> bool,
        is_covered: impl Fn(Place, u64, ColumnSet, ColumnSet) -> bool,
    ) {
        let Some(a) = self.take_heard() else { return };
        for (place, behind) in &a.extents {
            let has = |s: &u64| behind.counts_as(a.own.get(s).copied().unwrap_or_default());
            let useless = |v: Timestamp| v > Timestamp::ZERO && v < behind.from;
            let witnesses = a.witnesses.get(place).copied().unwrap_or_default();
            // A disk that has lost what it promised may show what another extent left there, even if it
            // was cleared since: only what others have as well is believed.
            let forgot = behind.since == Timestamp::ZERO && behind.from == Timestamp::ZERO;
            let listed = a.listed.range(behind.sectors.clone());
            // A write that relied on marks of parity is known to this disk alone. If it has forgotten such a write, what it
            // shows may be older than that. Since it is back, no write has relied on marks.
            let may_be_older = |s: &u64, l: &Listed| {
                forgot
                    && is_exposed(*place, *s, l)
                    && behind.put_back_since().is_none_or(|back| has(s) < back)
            };
            // Content here that is newer than all that parity knows was rebuilt, with its timestamp. An earlier write
            // may have come later where nobody was asked: to all columns but those from which it was put back. Had this disk
            // stayed, the write would have failed; it left, and the write was decided without it.
            let may_lack = |s: &u64, l: &Listed| {
                has(s) > l.version
                    && behind.put_back_since().is_some_and(|since| l.version >= since)
                    && is_covered(*place, *s, witnesses, l.by)
                    && !is_exposed(*place, *s, l)
            };
            let misses = |s: &u64, l: &Listed| match behind.copied {
                true => has(s) < behind.from,
                false => {
                    // Nothing else is here, and nobody has written to this column since.
                    // Parity that is marked shows nothing of what has been written.
                    let written = l.by.union(l.marked);
                    let as_it_was = || is_unchanged(*place, *s, witnesses, written);
                    let differs =
                        has(s) < l.version || (forgot && has(s) > l.version) || may_be_older(s, l);
                    // One that has lost what it had cannot tell what it has.
                    let keeps = behind.since > Timestamp::ZERO && is_exposed(*place, *s, l);
                    let differs = differs && !keeps;
                    useless(has(s))
                        || has(s) < l.owed
                        || may_lack(s, l)
                        || (differs && !(has(s) == Timestamp::ZERO && as_it_was()))
                }
            };
            if behind.copied {
                let own = a.own.range(behind.sectors.clone());
                let lost = own.filter(|(s, v)| **v == LOST && !a.fresh.contains(s));
                let lost: Vec<u64> = lost.map(|(s, _)| *s).collect();
                self.stale.extend(&lost);
                let unchanged = |s: u64| {
                    let listed = a.listed.get(&s);
                    let written = listed.map(|l| l.since_it_came.union(l.marked));
                    let written = written.unwrap_or_default();
                    is_unchanged(*place, s, witnesses, written)
                };
                if !behind.runs_since {
                    self.lost.extend(lost.into_iter().filter(|s| !unchanged(*s)));
                }
            }
            let missed = listed.filter(|(s, l)| misses(s, l)).map(|(s, _)| *s);
            let left = a.own.range(behind.sectors.clone()).filter(|(s, v)| {
                useless(**v) || (forgot && **v > Timestamp::ZERO && !a.listed.contains_key(s))
            });
            let stale = missed.chain(left.map(|(s, _)| *s)).filter(|s| !a.fresh.contains(s));
            self.stale.extend(stale);
        }
        self.known.extend(a.extents);
        self.changes.0 += 1;
    }

    /// How many sectors are stale, if known.
    pub fn stale_sectors(&self) -> Option<u64> {
        (!self.is_asking()).then_some(self.stale.len() as u64)
    }
}

#[cfg(test)]
mod tests;
