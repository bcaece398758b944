//! Parity that waits (AFRAID 2 and 3): which sectors of this disk are marked as out of date, and having them computed
//! when there is time for it.
//!
//! The record is the store's: a mark lives with the parity that it is about, so it is needed just where that parity would be
//! used, and shares its fate. What is here only saves looking for it: it is found again by a scan when the disk
//! has been opened. Until that is done no change of parity is prepared: it must not go on top of a mark. Refreshing
//! and what is shown go by it too.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::{Cell, Changed, Rebuild, Ticket, Worker};
use crate::cluster::Volume;
use crate::layout::ColumnRole;
use crate::node::background::{Background, Loop};
use crate::plan::Span;
use crate::policy::{Policy, Refresh, Timing};
use crate::store::{ChangeKind, Scan};
use crate::units::{Nanos, SECTOR, Timestamp, VolumeId};

/// The marked sectors of a disk, as far as they are known.
#[derive(Clone, Default, Hash)]
pub(super) struct Exposure {
    /// Each with the write that marked it last, and when this worker saw that.
    marks: BTreeMap<u64, (Timestamp, Nanos)>,
    /// Marked sectors that cannot be computed, since data that they cover is lost for good.
    hopeless: BTreeSet<u64>,
    /// Whether the disk has been searched for marks since it was opened: not yet, under way, done.
    search: Search,
    /// Units that are being computed, or could not be, and since when. They are asked for again after a while.
    asked: BTreeMap<(VolumeId, u64), Nanos>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Search {
    #[default]
    ToBegin,
    UnderWay,
    Done,
}

impl Exposure {
    /// A write has happened that changes these sectors.
    pub fn changed(&mut self, ts: Timestamp, changed: &Changed, now: Nanos) {
        self.hopeless.retain(|s| !changed.sectors.contains(s));
        match changed.kind {
            ChangeKind::Delta => {}
            ChangeKind::Mark => changed.sectors.clone().for_each(|s| self.mark(s, ts, now)),
            ChangeKind::Content => {
                let here = self.marks.range(changed.sectors.clone());
                let older = here.filter(|(_, mark)| mark.0 < ts).map(|(s, _)| *s);
                for sector in older.collect::<Vec<u64>>() {
                    self.marks.remove(&sector);
                }
            }
        }
    }

    fn mark(&mut self, sector: u64, ts: Timestamp, now: Nanos) {
        let mark = self.marks.entry(sector).or_insert((ts, now));
        mark.0 = mark.0.max(ts);
    }

    /// Whether any of these sectors is marked.
    pub fn has(&self, sectors: Range<u64>) -> bool {
        self.marks.range(sectors).next().is_some()
    }

    /// Marked sectors.
    pub fn sectors(&self) -> u64 {
        self.marks.len() as u64
    }

    /// What it has, in words.
    pub fn in_words(&self) -> String {
        let Exposure { marks, hopeless, asked, .. } = self;
        format!(
            "{} sectors marked, {} of them for good, {} asked for",
            marks.len(),
            hopeless.len(),
            asked.len()
        )
    }

    /// The map, or an operator, has changed something: what could not be computed is tried again.
    pub fn look_anew(&mut self) {
        self.asked.clear();
        self.hopeless.clear();
    }
}

/// A unit with marked sectors: which bytes of it, and since when the oldest is marked.
struct Marked {
    unit: (VolumeId, u64),
    column: usize,
    part: Span,
    since: Nanos,
    policy: Policy,
}

impl Worker {
    /// Once the disk is open and the node is in an epoch it is searched for marks.
    pub(super) fn search_marks(&mut self) {
        if self.exposure.search != Search::ToBegin {
            return;
        }
        if self.store.data_sectors() == 0 || !self.store.has_marks() {
            self.exposure.search = Search::Done;
            return;
        }
        self.exposure.search = Search::UnderWay;
        let (ticket, all) = (self.ticket(Ticket::Marks), self.store.data_sectors());
        self.store.scan(ticket, 0, all, Scan::Marked);
    }

    pub(super) fn marks_found(&mut self, found: Vec<(u64, Timestamp)>, now: Nanos) {
        self.exposure.search = Search::Done;
        found.into_iter().for_each(|(sector, version)| self.exposure.mark(sector, version, now));
        self.wake = true;
    }

    /// Whether it is not known yet which of the parity is marked that a write is to change.
    pub(super) fn must_know_marks(&self, ts: Timestamp) -> bool {
        let changes = |c: &Cell| c.writes().any(|w| w.kind.is_delta());
        self.exposure.search != Search::Done && self.txns[&ts].cells.iter().any(changes)
    }

    /// Whether parity waits here that is to be computed without anybody asking for it.
    pub(super) fn has_to_refresh(&self) -> bool {
        let waits = |v: &Volume| v.policy.redundancy.timing != Timing::Never;
        let here = |v: &Volume| v.extents.iter().any(|e| e.column_of(self.node).is_some());
        !self.exposure.marks.is_empty()
            && self.map.volumes.values().any(|v| here(v) && waits(v) && !self.map.is_asleep(v))
            && self.next_marked(0).is_some()
    }

    /// Whether a write may leave the parity of these sectors behind: not if so much waits already that twice the bound
    /// is reached.
    pub(super) fn may_wait(&self, volume: &Volume) -> bool {
        let bounded = volume.policy.redundancy.timing != Timing::Never;
        self.store.has_marks()
            && (!bounded
                || self.exposed_bytes(volume) < self.exposed_share(volume).saturating_mul(2))
    }

    /// Bytes of data in exposed stripes, as far as this disk's parity goes; that of its other volumes counts as well.
    fn exposed_bytes(&self, volume: &Volume) -> u64 {
        self.exposure.sectors() * SECTOR * volume.geometry.data_columns() as u64
    }

    /// This disk's share of the volume's bound.
    fn exposed_share(&self, volume: &Volume) -> u64 {
        let (bound, g) = (volume.policy.redundancy.exposed_bytes, &volume.geometry);
        let parities = g.code.parity_columns().max(1) as u64;
        bound.saturating_mul(parities) / g.layout.width() as u64
    }

    /// Asks for parity to be computed that waits, if there is time for it, or it has waited for too long.
    pub(super) fn ask_refresh(&mut self, background: &mut Background, now: Nanos) {
        let patience = self.config.patience;
        self.exposure.asked.retain(|_, since| now.saturating_sub(*since) < patience);
        let mut in_work = self.units_in_work();
        let mut from = 0;
        let most = background.most(Loop::Refresh, now);
        while in_work < most
            && let Some((marked, next)) = self.next_marked(from)
        {
            from = next;
            if !self.is_due(&marked, now) || self.exposure.asked.contains_key(&marked.unit) {
                continue;
            }
            if !background.begin(Loop::Refresh, marked.part.len(), now) {
                break;
            }
            self.exposure.asked.insert(marked.unit, now);
            in_work += 1;
            let (volume, stripe) = marked.unit;
            self.filling.ask((volume, stripe, marked.column, marked.part));
        }
        background.has_in_work(Loop::Refresh, in_work);
    }

    /// Of a part of this disk's column it is known that it cannot be computed.
    pub fn is_hopeless(&mut self, (id, stripe, column, part): Rebuild) {
        let Some(volume) = self.map.volumes.get(&id) else { return };
        if volume.extent(stripe).column_of(self.node) == Some(column) {
            let first = volume.sector(stripe, column);
            let sectors = first + part.lo / SECTOR..first + part.hi / SECTOR;
            self.exposure.hopeless.extend(sectors);
            self.exposure.asked.remove(&(id, stripe));
        }
    }

    /// How many of the units that were asked for are still marked.
    fn units_in_work(&self) -> usize {
        let marked = |(id, stripe): &(VolumeId, u64)| {
            let volume = self.map.volumes.get(id)?;
            let column = volume.extent(*stripe).column_of(self.node)?;
            let first = volume.sector(*stripe, column);
            self.exposure.has(first..first + volume.unit_sectors()).then_some(())
        };
        self.exposure.asked.keys().filter_map(marked).count()
    }

    /// The next unit with marked sectors from this sector on, and the sector from which to look for the one after it.
    fn next_marked(&self, from: u64) -> Option<(Marked, u64)> {
        let mut from = from;
        loop {
            let hopeful =
                |(s, _): &(&u64, &(Timestamp, Nanos))| !self.exposure.hopeless.contains(s);
            let (&sector, _) = self.exposure.marks.range(from..).find(hopeful)?;
            let volumes = self.map.volumes.values();
            let place = |v: &std::sync::Arc<Volume>| {
                let (stripe, column, _) = v.stripe_at(self.node, sector)?;
                // A column that leaves this disk is computed where it goes.
                let is_here = v.extent(stripe).column_of(self.node) == Some(column);
                is_here.then(|| (v.clone(), stripe, column))
            };
            let Some((volume, stripe, column)) = volumes.filter_map(place).next() else {
                from = sector + 1;
                continue;
            };
            let first = volume.sector(stripe, column);
            let end = first + volume.unit_sectors();
            let role = volume.geometry.layout.role(stripe, column);
            if matches!(role, ColumnRole::Data(_)) || self.map.is_asleep(&volume) {
                from = end;
                continue;
            }
            let here = || self.exposure.marks.range(sector..end).filter(hopeful);
            let last = *here().next_back().expect("one is marked").0;
            let part = Span::new((sector - first) * SECTOR, (last + 1 - first) * SECTOR);
            let since = here().map(|(_, mark)| mark.1).min().expect("one is marked");
            let unit = (volume.id, stripe);
            return Some((Marked { unit, column, part, since, policy: volume.policy }, end));
        }
    }

    /// Whether a unit's parity is to be computed now.
    fn is_due(&self, marked: &Marked, now: Nanos) -> bool {
        let redundancy = &marked.policy.redundancy;
        let Some(volume) = self.map.volumes.get(&marked.unit.0) else { return false };
        match redundancy.timing {
            Timing::Immediate => return true,
            Timing::Never => return false,
            Timing::Deferred => {}
        }
        let is_idle = self.load.quiet_since(now) >= redundancy.idle;
        let is_old = now.saturating_sub(marked.since) >= redundancy.exposed_for;
        let is_much = self.exposed_bytes(volume) >= self.exposed_share(volume);
        match redundancy.refresh {
            Refresh::Idle => is_idle || is_old || is_much,
            Refresh::Busy | Refresh::First => true,
        }
    }

    /// Of a write's parity that is to take in a change, what is marked: there the change has nothing to go on top of. It
    /// is asked before the write is begun and before it is prepared: a mark may have come between.
    pub(super) fn marked_part(&self, cell: &Cell) -> Option<(u64, Span)> {
        let changes =
            cell.writes().find(|c| c.kind.is_delta() && self.exposure.has(c.sectors.clone()))?;
        Some((cell.row.stripe, cell.span_of(changes.sectors)))
    }
}
