//! Deferred parity on this disk (AFRAID 2 and 3): the sectors marked as out of date, and the resulting exposure of each
//! volume, now and so far.
//!
//! The store has the record: a mark is stored with its parity, so it is read just where that parity would be used, and
//! shares its fate. The copy here only saves searching: a scan rebuilds it when the disk has been opened. Until then no
//! change of parity is prepared, because it must not go on top of a mark. Refreshing (`refreshing.rs`) and the status
//! use it too.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::{Changed, Outbox, Rebuild, Worker};
use crate::cluster::Area;
use crate::layout::ColumnRole;
use crate::node::Exposed;
use crate::store::ChangeKind;
use crate::units::{Nanos, SECTOR, Timestamp, VolumeId};

/// The subject of a count: a volume, and which part of it.
pub(in crate::node) type Counted = (VolumeId, Area);

/// The known marked sectors of a disk.
#[derive(Clone, Default, Hash)]
pub(in crate::node) struct Exposure {
    /// Each with the latest write that marked it, and when this worker first saw the mark.
    pub(in crate::node) marks: BTreeMap<u64, (Timestamp, Nanos)>,
    /// Marked sectors that cannot be computed, because data that they cover is permanently lost.
    unrecoverable: BTreeSet<u64>,
    /// The counts of each volume, and of the areas of volumes with ranges.
    tallies: BTreeMap<Counted, Tally>,
    /// Measurements from before this node's life, until the volumes on the disk are known.
    before: BTreeMap<Counted, Exposed>,
    /// Marks were removed, or became unrecoverable, since the last query.
    has_shrunk: bool,
    /// Sectors that got content while the disk was searched, with its time. The search may have seen their marks before.
    replaced: BTreeMap<u64, Timestamp>,
    /// Content of writes without journal that is not in place yet. Should the node restart, the marks under it are back.
    unplaced: BTreeMap<Timestamp, Vec<Changed>>,
}

/// The exposure of a volume by this disk's parity.
#[derive(Clone, Default, Hash)]
pub(in crate::node) struct Tally {
    /// Stripes with marked parity here: the number of sectors in each.
    stripes: BTreeMap<u64, u32>,
    /// Those of these sectors that cannot be computed, by stripe, and the bytes that they cover.
    unrecoverable: BTreeMap<u64, u32>,
    unrecoverable_bytes: u64,
    /// When the oldest of them was marked, or earlier.
    oldest: Nanos,
    /// Now and so far.
    pub exposed: Exposed,
    /// The time up to which durations have been counted.
    counted: Nanos,
    /// The time measured before this node's life.
    watched_before: Nanos,
}

/// The unit of a volume with a sector of the disk.
#[derive(Clone, Debug)]
pub(in crate::node) struct Unit {
    pub volume: VolumeId,
    /// The area in which its stripe is counted, besides the whole volume.
    pub area: Option<Area>,
    pub stripe: u64,
    /// Its sectors on the disk.
    pub sectors: Range<u64>,
    /// For parity, the number of data columns that it covers.
    pub covers: Option<u64>,
}

impl Unit {
    /// The counts that include it.
    fn counted(&self) -> impl Iterator<Item = Counted> + use<> {
        let volume = self.volume;
        [Some(Area::Whole), self.area].into_iter().flatten().map(move |area| (volume, area))
    }
}

impl Exposure {
    /// A write that changes these sectors has happened.
    pub fn changed(
        &mut self,
        ts: Timestamp,
        changed: &Changed,
        now: Nanos,
        unit_at: impl Fn(u64) -> Option<Unit>,
    ) {
        if !changed.kind.replaces() || (!changed.kind.is_mark() && !self.has(&changed.sectors)) {
            return;
        }
        for (sectors, unit) in by_unit(&changed.sectors, unit_at) {
            self.retry(unit.as_ref(), &sectors);
            match changed.kind {
                ChangeKind::Delta | ChangeKind::Copy(_) | ChangeKind::Fold(_) => {}
                ChangeKind::Mark => sectors.for_each(|s| self.mark(unit.as_ref(), s, ts, now)),
                ChangeKind::Content => {
                    let older = self.marks.range(sectors).filter(|(_, mark)| mark.0 < ts);
                    for sector in older.map(|(s, _)| *s).collect::<Vec<u64>>() {
                        self.has_shrunk = true;
                        self.marks.remove(&sector);
                        self.count(unit.as_ref(), false, now);
                    }
                }
            }
        }
    }

    /// These sectors got content while the disk is searched for marks.
    fn replaced(&mut self, ts: Timestamp, sectors: &Range<u64>) {
        for sector in sectors.clone() {
            let latest = self.replaced.entry(sector).or_default();
            *latest = ts.max(*latest);
        }
    }

    /// The content of these sectors is gone, and their marks with it.
    fn dropped(&mut self, all: &[Range<u64>], now: Nanos, unit_at: impl Fn(u64) -> Option<Unit>) {
        for (sectors, unit) in all.iter().flat_map(|sectors| by_unit(sectors, &unit_at)) {
            self.retry(unit.as_ref(), &sectors);
            let marked = self.marks.range(sectors).map(|(sector, _)| *sector);
            for sector in marked.collect::<Vec<u64>>() {
                self.has_shrunk = true;
                self.marks.remove(&sector);
                self.count(unit.as_ref(), false, now);
            }
        }
    }

    /// The scan of the disk has found marks.
    pub fn found(
        &mut self,
        found: Vec<(u64, Timestamp)>,
        now: Nanos,
        unit_at: impl Fn(u64) -> Option<Unit>,
    ) {
        let replaced = std::mem::take(&mut self.replaced);
        // Of parity the search has seen this content, and no mark under it.
        let is_parity = |sector: u64| unit_at(sector).is_some_and(|unit| unit.covers.is_some());
        let hidden = self.unplaced_sectors().filter(|sector| is_parity(*sector));
        let hidden: Vec<_> = hidden.map(|sector| (sector, Timestamp::ZERO)).collect();
        for (sector, ts) in found.into_iter().chain(hidden) {
            if replaced.get(&sector).is_some_and(|content| *content > ts) {
                continue;
            }
            let unit = unit_at(sector);
            self.retry(unit.as_ref(), &(sector..sector + 1));
            self.mark(unit.as_ref(), sector, ts, now);
        }
    }

    fn mark(&mut self, unit: Option<&Unit>, sector: u64, ts: Timestamp, now: Nanos) {
        if let Some(mark) = self.marks.get_mut(&sector) {
            mark.0 = mark.0.max(ts);
            return;
        }
        self.marks.insert(sector, (ts, now));
        self.count(unit, true, now);
    }

    /// A sector of a unit gets a mark, or loses it.
    fn count(&mut self, unit: Option<&Unit>, more: bool, now: Nanos) {
        for counted in unit.into_iter().flat_map(Unit::counted) {
            self.tallies.entry(counted).or_default().count(unit.expect("it is one's"), more, now);
        }
    }

    /// Volumes may have moved: the marks are counted again. Measurements so far stay.
    pub fn recount(&mut self, now: Nanos, unit_at: impl Fn(u64) -> Option<Unit>) {
        for tally in self.tallies.values_mut() {
            tally.pass(now);
            tally.stripes.clear();
            let Exposed { stripes, bytes, lost_bytes, .. } = &mut tally.exposed;
            (*stripes, *bytes, *lost_bytes) = (0, 0, 0);
        }
        let Some((&first, _)) = self.marks.first_key_value() else { return };
        let mut from = first;
        while let Some((&sector, _)) = self.marks.range(from..).next() {
            let unit = unit_at(sector);
            from = unit.as_ref().map_or(sector + 1, |u| u.sectors.end);
            let here: Vec<Nanos> = self.marks.range(sector..from).map(|(_, m)| m.1).collect();
            for since in here {
                self.count(unit.as_ref(), true, now);
                for counted in unit.iter().flat_map(Unit::counted) {
                    let oldest = &mut self.tallies.get_mut(&counted).expect("just counted").oldest;
                    *oldest = since.min(*oldest);
                }
            }
        }
    }

    /// Measurements of this disk from earlier lives of the node. They are added to later ones.
    pub fn measured_before(&mut self, before: impl IntoIterator<Item = (Counted, Exposed)>) {
        self.before.extend(before);
    }

    /// The volumes and areas on the disk, whose exposure is counted; others are no longer counted.
    pub fn keep(&mut self, all: impl Iterator<Item = Counted>, now: Nanos) {
        let mut tallies = std::mem::take(&mut self.tallies);
        for counted in all {
            let known = tallies.remove(&counted);
            let before = self.before.remove(&counted);
            self.tallies.insert(counted, known.unwrap_or_else(|| Tally::new(before, now)));
        }
        // A range that was removed and is made again starts with a new count.
        self.before.retain(|(volume, _), _| !self.tallies.contains_key(&(*volume, Area::Whole)));
    }

    /// Whether any of these sectors is marked.
    pub fn has(&self, sectors: &Range<u64>) -> bool {
        self.marks.range(sectors.clone()).next().is_some()
    }

    /// The marked ones of these sectors, each with the latest write that marked it.
    pub fn marked_since(&self, sectors: Range<u64>) -> impl Iterator<Item = (u64, Timestamp)> + '_ {
        self.marks.range(sectors).map(|(sector, mark)| (*sector, mark.0))
    }

    /// The range from the first to the last marked one of these sectors.
    pub fn marked_in(&self, sectors: Range<u64>) -> Option<Range<u64>> {
        let mut marked = self.marks.range(sectors).map(|(sector, _)| *sector);
        let first = marked.next()?;
        Some(first..marked.next_back().unwrap_or(first) + 1)
    }

    /// Sectors with content of writes without journal that is committed, and not in place yet.
    fn unplaced_sectors(&self) -> impl Iterator<Item = u64> + '_ {
        self.unplaced.values().flatten().flat_map(|changed| changed.sectors.clone())
    }

    /// Whether a sector of data is marked, and no content of it is committed.
    pub fn lacks_content(&self, sector: u64) -> bool {
        let has = |changed: &Changed| changed.sectors.contains(&sector);
        self.marks.contains_key(&sector) && !self.unplaced.values().flatten().any(has)
    }

    /// Whether all of these sectors are marked.
    pub fn has_all(&self, sectors: &Range<u64>) -> bool {
        self.marks.range(sectors.clone()).count() as u64 == sectors.end - sectors.start
    }

    /// Stripes and bytes of a volume that are exposed now.
    pub fn now(&self, volume: VolumeId) -> (u64, u64) {
        self.of(volume).map_or((0, 0), |tally| (tally.exposed.stripes, tally.exposed.bytes))
    }

    /// Whether there may be less to compute than at the last query.
    pub fn has_shrunk(&mut self) -> bool {
        std::mem::take(&mut self.has_shrunk)
    }

    /// Whether anything is marked.
    pub fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// The first and the last of a unit's marked sectors that can be computed, and the time of the oldest mark.
    pub fn recoverable(&self, sectors: Range<u64>) -> Option<(u64, u64, Nanos)> {
        let recoverable = |(s, _): &(&u64, &(Timestamp, Nanos))| !self.unrecoverable.contains(s);
        let mut here = self.marks.range(sectors).filter(recoverable);
        let (&first, &(_, since)) = here.next()?;
        let past = |(_, last, since), (&s, m): (&u64, &(Timestamp, Nanos))| {
            (first, s.max(last), m.1.min(since))
        };
        Some(here.fold((first, first, since), past))
    }

    /// Marked sectors of a unit that cannot be computed.
    pub fn unrecoverable_in(&self, sectors: Range<u64>) -> u64 {
        self.unrecoverable.range(sectors).count() as u64
    }

    /// It is known that these sectors of a unit cannot be computed.
    pub fn give_up(&mut self, unit: &Unit, sectors: Range<u64>) {
        for sector in sectors {
            let more = self.unrecoverable.insert(sector) && self.marks.contains_key(&sector);
            self.has_shrunk |= more;
            for counted in unit.counted().filter(|_| more) {
                if let Some(tally) = self.tallies.get_mut(&counted) {
                    tally.give_up(unit);
                }
            }
        }
    }

    /// These sectors of a unit may be recoverable again.
    fn retry(&mut self, unit: Option<&Unit>, sectors: &Range<u64>) {
        let given_up = self.unrecoverable.range(sectors.clone()).copied().collect::<Vec<u64>>();
        for sector in given_up {
            self.unrecoverable.remove(&sector);
            let Some(unit) = unit.filter(|_| self.marks.contains_key(&sector)) else { continue };
            for counted in unit.counted() {
                if let Some(tally) = self.tallies.get_mut(&counted) {
                    tally.retry(unit);
                }
            }
        }
    }

    /// Unrecoverable sectors are tried again.
    pub fn look_anew(&mut self) {
        self.unrecoverable.clear();
        for tally in self.tallies.values_mut() {
            tally.unrecoverable.clear();
            tally.unrecoverable_bytes = 0;
        }
    }

    /// All marks of an area were checked; the oldest is from this time.
    pub fn oldest_is(&mut self, counted: Counted, since: Nanos) {
        if let Some(tally) = self.tallies.get_mut(&counted) {
            tally.oldest = since;
        }
    }

    /// The counts of a volume.
    pub fn of(&self, volume: VolumeId) -> Option<&Tally> {
        self.in_area(volume, Area::Whole)
    }

    /// The counts of some of its stripes.
    pub fn in_area(&self, volume: VolumeId, area: Area) -> Option<&Tally> {
        self.tallies.get(&(volume, area))
    }

    /// The exposure of each volume on the disk, and of each area of volumes with ranges, now and so far.
    pub fn all(&self, now: Nanos) -> impl Iterator<Item = (Counted, Exposed)> + '_ {
        self.tallies.iter().map(move |(counted, tally)| (*counted, tally.so_far(now)))
    }

    /// A description for messages.
    pub fn in_words(&self) -> String {
        let (marked, unrecoverable) = (self.marks.len(), self.unrecoverable.len());
        format!("{marked} sectors marked, {unrecoverable} of them permanently")
    }

    /// The invariants that are cheap to see: stripes are counted as they are known.
    pub fn check(&self) {
        for tally in self.tallies.values() {
            assert_eq!(tally.exposed.stripes, tally.stripes.len() as u64, "exposed stripes");
        }
    }

    /// The invariants that take a walk over all marks: each is counted once, where a volume has its sector.
    pub fn check_sums(&self) {
        for tally in self.tallies.values() {
            assert!(tally.stripes.values().all(|n| *n > 0), "a stripe is exposed by no mark");
            let marked = |(stripe, n): (&u64, &u32)| tally.stripes.get(stripe) >= Some(n);
            assert!(tally.unrecoverable.iter().all(marked), "more is given up than is marked");
        }
        for (volume, whole) in
            self.tallies.iter().filter(|t| t.0.1 == Area::Whole).map(|t| (t.0.0, t.1))
        {
            let areas = self.tallies.range((volume, Area::Rest)..=(volume, Area::Range(u64::MAX)));
            let counted: Vec<u64> = areas.map(|(_, tally)| tally.sectors()).collect();
            let sum: u64 = counted.iter().sum();
            assert!(
                counted.is_empty() || sum == whole.sectors(),
                "{sum} in the areas of {volume:?}"
            );
        }
        let whole = self.tallies.iter().filter(|t| t.0.1 == Area::Whole);
        let counted: u64 = whole.map(|t| t.1.sectors()).sum();
        assert!(counted <= self.marks.len() as u64, "{counted} marks of {}", self.marks.len());
    }
}

impl Tally {
    /// Starts with earlier measurements. The present exposure is found on the disk.
    fn new(before: Option<Exposed>, now: Nanos) -> Tally {
        let Exposed { most_bytes, watched, unprotected, byte_time, .. } =
            before.unwrap_or_default();
        let exposed = Exposed { most_bytes, watched, unprotected, byte_time, ..Exposed::default() };
        Tally { exposed, counted: now, watched_before: watched, ..Tally::default() }
    }

    /// The time measured in this node's life.
    pub fn watched_now(&self, now: Nanos) -> Nanos {
        self.so_far(now).watched - self.watched_before
    }

    /// The exposure now and so far.
    pub fn so_far(&self, now: Nanos) -> Exposed {
        let age = self.oldest().map_or(0, |oldest| now.saturating_sub(oldest));
        Exposed { age, ..self.exposed.after(now.saturating_sub(self.counted)) }
    }

    /// The exposed stripes from this one on.
    pub fn stripes(&self, from: u64) -> impl Iterator<Item = u64> + '_ {
        self.stripes.range(from..).map(|(stripe, _)| *stripe)
    }

    /// The time of the oldest mark, or earlier.
    pub fn oldest(&self) -> Option<Nanos> {
        (!self.stripes.is_empty()).then_some(self.oldest)
    }

    /// The known stripes with marked parity that can be computed, and the bytes that it covers.
    pub fn recoverable(&self) -> (u64, u64) {
        let all = |(stripe, n): &(&u64, &u32)| self.stripes.get(stripe) == Some(n);
        let lost = self.unrecoverable.iter().filter(all).count() as u64;
        (self.exposed.stripes - lost, self.exposed.bytes - self.unrecoverable_bytes)
    }

    /// A marked sector of a unit cannot be computed.
    fn give_up(&mut self, unit: &Unit) {
        let Some(covers) = unit.covers else { return };
        *self.unrecoverable.entry(unit.stripe).or_default() += 1;
        self.unrecoverable_bytes += covers * SECTOR;
    }

    /// It may be recoverable again.
    fn retry(&mut self, unit: &Unit) {
        let Some(covers) = unit.covers else { return };
        let Some(left) = self.unrecoverable.get_mut(&unit.stripe) else { return };
        *left -= 1;
        if *left == 0 {
            self.unrecoverable.remove(&unit.stripe);
        }
        self.unrecoverable_bytes -= covers * SECTOR;
    }

    /// Marked sectors of parity and of data.
    fn sectors(&self) -> u64 {
        let parity: u64 = self.stripes.values().map(|n| u64::from(*n)).sum();
        parity + self.exposed.lost_bytes / SECTOR
    }

    /// Adds the time since the last change.
    fn pass(&mut self, now: Nanos) {
        self.exposed = self.exposed.after(now.saturating_sub(self.counted));
        self.counted = self.counted.max(now);
    }

    fn count(&mut self, unit: &Unit, more: bool, now: Nanos) {
        self.pass(now);
        let Some(covers) = unit.covers else {
            let lost = &mut self.exposed.lost_bytes;
            *lost = if more { *lost + SECTOR } else { *lost - SECTOR };
            return;
        };
        let bytes = covers * SECTOR;
        match more {
            true => {
                if self.stripes.is_empty() {
                    self.oldest = now;
                }
                *self.stripes.entry(unit.stripe).or_default() += 1;
                self.exposed.bytes += bytes;
            }
            false => {
                let left = self.stripes.get_mut(&unit.stripe).expect("it was counted");
                *left -= 1;
                if *left == 0 {
                    self.stripes.remove(&unit.stripe);
                }
                self.exposed.bytes -= bytes;
            }
        }
        let exposed = &mut self.exposed;
        exposed.stripes = self.stripes.len() as u64;
        exposed.most_bytes = exposed.most_bytes.max(exposed.bytes);
    }
}

/// Sectors, cut where units end; sectors that no volume has are single.
fn by_unit(
    sectors: &Range<u64>,
    unit_at: impl Fn(u64) -> Option<Unit>,
) -> Vec<(Range<u64>, Option<Unit>)> {
    let mut pieces = Vec::new();
    let mut from = sectors.start;
    while from < sectors.end {
        let unit = unit_at(from);
        let end = unit.as_ref().map_or(from + 1, |u| u.sectors.end.min(sectors.end));
        pieces.push((from..end, unit));
        from = end;
    }
    pieces
}

impl Worker {
    /// The unit in which a sector of this disk lies. A column that leaves the disk does not count: it is computed at
    /// its new disk.
    pub(super) fn unit_at(&self, sector: u64) -> Option<Unit> {
        self.map.volumes.values().find_map(|volume| {
            let (stripe, seat, within) = volume.stripe_at(self.node, sector)?;
            volume.seats_on(self.node, stripe).find(|s| *s == seat)?;
            let first = sector - within;
            let covers = match volume.geometry.layout.role(stripe, seat) {
                ColumnRole::Data(_) => None,
                ColumnRole::Parity(j) => Some(volume.geometry.code.support(j).len() as u64),
            };
            let sectors = first..first + volume.unit_sectors();
            let area = volume.area_of(stripe);
            Some(Unit { volume: volume.id, area, stripe, sectors, covers })
        })
    }

    /// Measurements, from before this node's life, of the present content of this disk.
    pub fn measured_before(&mut self, before: impl IntoIterator<Item = (Counted, Exposed)>) {
        self.exposure.measured_before(before);
    }

    /// The exposure of each volume, and of each area of volumes with ranges, by deferred parity on this disk.
    pub fn exposed(&self, now: Nanos) -> impl Iterator<Item = (Counted, Exposed)> + '_ {
        self.exposure.all(now)
    }

    /// Stripes and bytes of a volume that deferred parity on this disk exposes now.
    pub fn exposed_now(&self, volume: VolumeId) -> (u64, u64) {
        self.exposure.now(volume)
    }

    /// The map has changed, and with it perhaps the exposure.
    pub(super) fn recount_exposed(&mut self, now: Nanos) {
        self.load.begins(now);
        self.set_targets();
        let here = |v: &&std::sync::Arc<crate::cluster::Volume>| {
            v.extents.iter().any(|e| e.column_of(self.node).is_some())
        };
        let areas = |v: &std::sync::Arc<crate::cluster::Volume>| {
            let in_ranges = v.areas().into_iter().map(|a| a.area).filter(|a| *a != Area::Whole);
            let all: Vec<Area> = [Area::Whole].into_iter().chain(in_ranges).collect();
            let id = v.id;
            all.into_iter().map(move |area| (id, area))
        };
        let all = self.map.volumes.values().filter(here).flat_map(areas);
        let mut exposure = std::mem::take(&mut self.exposure);
        exposure.look_anew();
        exposure.keep(all, now);
        exposure.recount(now, |sector| self.unit_at(sector));
        self.exposure = exposure;
    }

    /// A write has happened. Its content is safe when the journal has it; otherwise marks under it stay until
    /// [it is in place](Worker::count_placed), since a change on top of it, or who relies on it, would be lost with it.
    pub(super) fn count_exposed(
        &mut self,
        ts: Timestamp,
        changed: &Changed,
        is_safe: bool,
        now: Nanos,
    ) {
        let may_have_marks = || self.is_searched_for_marks() || self.exposure.has(&changed.sectors);
        if !is_safe && changed.kind == ChangeKind::Content && may_have_marks() {
            self.exposure.unplaced.entry(ts).or_default().push(changed.clone());
            return;
        }
        if self.is_searched_for_marks() && changed.kind == ChangeKind::Content {
            self.exposure.replaced(ts, &changed.sectors);
        }
        if self.exposure.is_empty() && !changed.kind.is_mark() {
            return;
        }
        let mut exposure = std::mem::take(&mut self.exposure);
        exposure.changed(ts, changed, now, |sector| self.unit_at(sector));
        self.exposure = exposure;
    }

    /// Content of a write without journal is in place.
    pub(super) fn count_placed(&mut self, ts: Timestamp, outbox: &mut Outbox) {
        let Some(all) = self.exposure.unplaced.remove(&ts) else { return };
        for changed in all {
            self.count_exposed(ts, &changed, true, outbox.now);
        }
        outbox.want_soon();
    }

    /// Sectors belonged to no volume, and the store has dropped them. A search under way may have seen their marks.
    pub(super) fn marks_are_dropped(&mut self, all: &[Range<u64>], now: Nanos) {
        let mut exposure = std::mem::take(&mut self.exposure);
        if self.is_searched_for_marks() {
            all.iter().for_each(|sectors| exposure.replaced(Timestamp(u64::MAX), sectors));
        }
        if !exposure.is_empty() {
            exposure.dropped(all, now, |sector| self.unit_at(sector));
        }
        self.exposure = exposure;
    }

    /// It is known that a part of this disk's column cannot be computed.
    pub fn note_unrecoverable(&mut self, (id, stripe, seat, part): Rebuild) {
        let Some(volume) = self.map.volumes.get(&id) else { return };
        if volume.seats_on(self.node, stripe).any(|s| s == seat) {
            let first = volume.sector(stripe, seat);
            if let Some(unit) = self.unit_at(first) {
                self.exposure.give_up(&unit, first + part.lo / SECTOR..first + part.hi / SECTOR);
            }
            self.refreshing.is_over((id, stripe, seat));
        }
    }
}

#[cfg(test)]
mod tests;
