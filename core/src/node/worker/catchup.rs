//! Catching up at a worker: it tells other nodes of writes, asks them, and requests the rebuild of content that this
//! disk missed.

use super::*;
use crate::layout::ColumnRole;
use crate::node::background::{Background, Loop};
use crate::node::catchup::{Behind, HIDDEN, Listed, Merged, Place};
use crate::node::{DirtySector, MemberReport};
use crate::store::Scan;
use crate::units::ColumnSet;

/// The search for content that a stale node has missed.
#[derive(Clone, Hash)]
struct DirtyScan {
    to: NodeId,
    /// The sectors being scanned (the last) and later ones.
    queue: Vec<Sought>,
    found: BTreeMap<VolumeId, Vec<DirtySector>>,
    marked: BTreeMap<VolumeId, Vec<DirtySector>>,
}

/// Sectors that are scanned.
#[derive(Clone, Copy, Hash)]
struct Sought {
    volume: VolumeId,
    /// Where the volume has them on this disk.
    at: u64,
    /// The first that is scanned: the same, or those of a deleted snapshot that is merged into the volume.
    first: u64,
    count: u64,
    what: Scan,
}

impl Sought {
    /// The same with deleted snapshots that are merged into the volume, from the upper to the lower. The last is scanned first,
    /// so the lowest is: merging moves slots upwards meanwhile.
    fn with_merged(self, merged: Vec<Merged>) -> Vec<Sought> {
        let below = merged.into_iter().map(|m| Sought { first: m.first, count: m.count, ..self });
        [self, Sought { what: Scan::Marked, ..self }].into_iter().chain(below).collect()
    }
}

/// Answers to stale nodes about writes in their absence.
#[derive(Clone, Default, Hash)]
pub(super) struct Telling {
    /// The nodes that have asked, with their extents.
    asked: BTreeMap<NodeId, Vec<(VolumeId, usize)>>,
    scan: Option<DirtyScan>,
}

impl Telling {
    /// A node asks. If it is being answered already, that answer suffices.
    fn ask(&mut self, from: NodeId, extents: Vec<(VolumeId, usize)>) {
        if self.scan.as_ref().is_none_or(|s| s.to != from) {
            self.asked.insert(from, extents);
        }
    }

    /// Whether any node waits for an answer.
    pub fn is_busy(&self) -> bool {
        self.scan.is_some() || !self.asked.is_empty()
    }

    /// Whether the next one can be answered.
    fn can_begin(&self) -> bool {
        self.scan.is_none() && !self.asked.is_empty()
    }

    /// The nodes that have asked ask again.
    pub fn forget_asked(&mut self) {
        self.asked.clear();
    }
}

impl Worker {
    /// A stale node asks for the writes to extents since a time.
    pub fn on_dirty(&mut self, from: NodeId, extents: Vec<(VolumeId, usize)>) {
        self.telling.ask(from, extents);
    }

    /// Whether a write from an earlier epoch is undecided here and can be decided.
    pub(super) fn has_undecided(&self) -> bool {
        let epoch = self.map.epoch;
        let open = |p: Phase| matches!(p, Phase::Prepared | Phase::Preparing);
        let awake = |v: &VolumeId| self.map.volumes.get(v).is_some_and(|v| !self.map.is_asleep(v));
        self.txns.values().any(|t| t.epoch < epoch && open(t.phase) && awake(&t.volume))
    }

    pub(super) fn run_dirty(&mut self) {
        if !self.telling.can_begin() || self.has_undecided() {
            return;
        }
        // A node that catches up relies on decisions. If this node restarted and had forgotten an abort, it might be
        // the only one left to decide, and commit.
        let unsafe_abort = self.store.oldest_abort().is_some_and(|ts| ts <= self.entered.floor());
        if unsafe_abort && self.config.waits_for_safe_aborts() {
            self.store.flush_outcomes();
            return;
        }
        let (to, extents) = self.telling.asked.pop_first().expect("not empty");
        let mut queue = Vec::new();
        for (id, n) in extents {
            let Some(volume) = self.map.volumes.get(&id).filter(|v| n < v.extents.len()) else {
                continue;
            };
            if !self.config.catches_up_on(volume) {
                continue;
            }
            let since = self.map.lacks_since(volume, n, to);
            // Also for a column that leaves this disk: the others may not know its content.
            if let (Some((_, first)), Some(since)) = (volume.extents[n].place_on(self.node), since)
            {
                let count = volume.extent_sectors(n);
                let own = Sought { volume: id, at: first, first, count, what: Scan::Since(since) };
                queue.extend(own.with_merged(self.merged_into(volume, n)));
            }
        }
        self.telling.scan =
            Some(DirtyScan { to, queue, found: BTreeMap::new(), marked: BTreeMap::new() });
        self.scan_dirty();
    }

    /// Where this disk has an extent of the deleted snapshots that are merged into a volume.
    fn merged_into(&self, volume: &Volume, n: usize) -> Vec<Merged> {
        let lacks = |volume: &Volume| self.map.behind_since(volume, n, self.node).is_some();
        let mut is_hidden = lacks(volume);
        let mut merged = Vec::new();
        for (below, first, count) in self.map.merged_on(volume, n, self.node) {
            let is_believed = !self.config.doubts_what_is_hidden();
            merged.push(Merged { first, count, is_hidden: is_hidden && !is_believed });
            is_hidden |= lacks(below);
        }
        merged
    }

    fn scan_dirty(&mut self) {
        let next = self.telling.scan.as_ref().and_then(|s| s.queue.last()).copied();
        let (first, count, what) =
            next.map_or((0, 0, Scan::Marked), |sought| (sought.first, sought.count, sought.what));
        let ticket = self.tickets.issue(Ticket::Dirty);
        self.store.scan(ticket, first, count, what);
    }

    pub(super) fn dirty_done(&mut self, found: Vec<(u64, Timestamp)>, outbox: &mut Outbox) {
        let Some(scan) = &mut self.telling.scan else { return };
        if let Some(Sought { volume: id, at, first, what, .. }) = scan.queue.pop()
            && let Some(volume) = self.map.volumes.get(&id)
        {
            let place = |(sector, version)| {
                let (stripe, seat, within) = volume.stripe_at(self.node, at + (sector - first))?;
                Some(DirtySector { stripe, seat, within, version })
            };
            let into = if what == Scan::Marked { &mut scan.marked } else { &mut scan.found };
            into.entry(id).or_default().extend(found.into_iter().filter_map(place));
        }
        if !scan.queue.is_empty() {
            self.scan_dirty();
            return;
        }
        let scan = self.telling.scan.take().expect("just seen");
        let (found, marked) = (scan.found.into_iter().collect(), scan.marked.into_iter().collect());
        let owed = self.owed_to(scan.to);
        outbox.send(scan.to, Body::DirtyReply { found, marked, owed });
    }

    /// The answer of another node about writes.
    pub fn on_dirty_reply(
        &mut self,
        from: NodeId,
        found: Vec<(VolumeId, Vec<DirtySector>)>,
        marked: Vec<(VolumeId, Vec<DirtySector>)>,
        owed: Vec<(VolumeId, Vec<DirtySector>)>,
    ) {
        let Some(asking) = self.catchup.asking() else { return };
        if !asking.waiting.remove(&from) {
            return;
        }
        for place in asking.extents.keys() {
            let Some(volume) = self.map.volumes.get(&place.0) else { continue };
            let column = volume.extents[place.1].column_of(from);
            let whole = self.map.lacks_since(volume, place.1, from).is_none();
            if let Some(column) = column.filter(|_| whole) {
                asking.witnesses.entry(*place).or_default().insert(column);
            }
        }
        for (id, sectors) in marked {
            let Some(volume) = self.map.volumes.get(&id) else { continue };
            for DirtySector { stripe, seat, within, version } in sectors {
                // A write that others have marked may have changed data that no node shows now. Then any node whose
                // parity covers this data has missed that write as well.
                let place = (id, volume.extent_of(stripe));
                let needed = asking.extents.get(&place).and_then(|b| b.needed_for(version));
                for own in volume.seats_on(self.node, stripe).filter(|_| needed.is_some()) {
                    if let ColumnRole::Parity(_) = volume.geometry.layout.role(stripe, own) {
                        let sector = volume.sector(stripe, own) + within;
                        asking.listed.entry(sector).or_default().needs(needed);
                    }
                }
                // The marks of a node that was away itself may have been cleared by writes that it missed.
                let extent = volume.extent_of(stripe);
                if self.map.lacks_since(volume, extent, from).is_some() {
                    continue;
                }
                let by = seat_of(volume, from, stripe, seat);
                for seat in volume.seats_on(self.node, stripe) {
                    let sector = volume.sector(stripe, seat) + within;
                    let listed = asking.listed.entry(sector).or_default();
                    listed.marked = listed.marked.union(by);
                }
            }
        }
        for (id, sectors) in owed {
            let Some(volume) = self.map.volumes.get(&id) else { continue };
            for DirtySector { stripe, seat, within, version } in sectors {
                if volume.seats_on(self.node, stripe).any(|s| s == seat) {
                    let sector = volume.sector(stripe, seat) + within;
                    let listed = asking.listed.entry(sector).or_default();
                    listed.owed = listed.owed.max(version);
                }
            }
        }
        for (id, sectors) in found {
            let Some(volume) = self.map.volumes.get(&id) else { continue };
            for DirtySector { stripe, seat, within, version } in sectors {
                let place = (id, volume.extent_of(stripe));
                let since_it_came =
                    asking.extents.get(&place).is_some_and(|b| b.copied && version >= b.from);
                // A node that its column has left is no witness, but its answer still counts.
                let by = seat_of(volume, from, stripe, seat);
                for seat in volume.seats_on(self.node, stripe) {
                    let sector = volume.sector(stripe, seat) + within;
                    // A data unit at that version is complete. Parity is not: changes are added in any order, so one
                    // may be missing below a later one.
                    let version = match volume.geometry.layout.role(stripe, seat) {
                        ColumnRole::Data(_) => version,
                        ColumnRole::Parity(_) => Timestamp(u64::MAX),
                    };
                    let listed = asking.listed.entry(sector).or_default();
                    listed.version = listed.version.max(version);
                    listed.by = listed.by.union(by);
                    if since_it_came {
                        listed.since_it_came = listed.since_it_came.union(by);
                    }
                }
            }
        }
    }

    /// The map says whether this disk has missed anything.
    pub(super) fn enter_catchup(&mut self, outbox: &mut Outbox) {
        self.telling.scan = None;
        self.tickets.forget_scans();
        let mut behind: BTreeMap<Place, Behind> = BTreeMap::new();
        let mut asleep = BTreeSet::new();
        // What a disk lacks of a snapshot that is being merged it lacks of the volume over it.
        let is_shown = |volume: &&Arc<Volume>| self.map.shown_in(volume.id) == volume.id;
        for volume in self.map.volumes.values().filter(is_shown) {
            for (n, extent) in volume.extents.iter().enumerate() {
                let Some(sectors) = sectors_of(volume, n, self.node) else { continue };
                let Some(since) = self.map.lacks_since(volume, n, self.node) else { continue };
                let from = extent.filling_on(self.node).unwrap_or_default();
                let column = extent.column_of(self.node);
                let copied = column.is_some_and(|c| extent.leaving.contains_key(&c));
                let runs_since = from >= self.entered.first();
                let times_away = match self.config.looks_at_times_away() {
                    true => self.map.times_away(volume.id, self.node).to_vec(),
                    false => Vec::new(),
                };
                let merged = self.merged_into(volume, n);
                let missed =
                    Behind { sectors, since, from, copied, runs_since, times_away, merged };
                behind.insert((volume.id, n), missed);
                let mut merged = self.map.merged_below(volume.id);
                if self.map.is_asleep(volume) || merged.any(|below| self.map.is_asleep(below)) {
                    asleep.insert(volume.id);
                }
            }
        }
        if !self.catchup.enter(behind, asleep) {
            return;
        }
        let waiting: BTreeSet<NodeId> = self.map.up().filter(|n| *n != self.node).collect();
        let asking = self.catchup.asking().expect("there is something to ask");
        asking.waiting = waiting;
        self.ask_dirty(outbox);
    }

    /// Asks the nodes that have not answered yet.
    pub(super) fn ask_dirty(&mut self, outbox: &mut Outbox) {
        let extents: Vec<Place> = self.catchup.asked_about().map(|(place, _)| *place).collect();
        let Some(a) = self.catchup.asking() else { return };
        for node in &a.waiting {
            outbox.send(*node, Body::Dirty { extents: extents.clone() });
        }
    }

    pub(super) fn run_catchup(&mut self, background: &mut Background, outbox: &mut Outbox) {
        if !self.catchup.will_know() {
            return self.go_on_catching_up(background, outbox);
        }
        let undecided = self.has_undecided();
        let begins = self.catchup.asking().is_some_and(|asking| asking.to_look_at.is_none());
        if begins && !undecided {
            let all = self.catchup.asked_about().flat_map(|(place, behind)| {
                let Range { start, end } = behind.sectors;
                let own = Merged { first: start, count: end - start, is_hidden: false };
                let all = behind.merged.iter().rev().copied().chain([own]);
                all.map(|merged| (*place, merged))
            });
            // The last is looked at first: what the volume has itself counts.
            let all = all.collect();
            self.catchup.asking().expect("just seen").to_look_at = Some(all);
            self.look_at_own();
        }
        let map = &self.map;
        let any = !self.config.believes_covering_parity_only();
        let is_unchanged = |(id, _): Place, sector: u64, witnesses, written| {
            // A disk that was behind while a thin volume's row was discarded has no record of that, so its parity
            // looks unwritten.
            let volume = map.volumes.get(&id).filter(|v| !v.is_thin());
            let Some(volume) = volume else { return false };
            let Some((stripe, seat, _)) = volume.stripe_at(self.node, sector) else {
                return false;
            };
            let g = &volume.geometry;
            let same = g.seats_of(stripe, witnesses).minus(written);
            let (unit, same) = (g.code_column(stripe, seat), g.code_columns(stripe, same));
            let parity =
                ColumnSet::first(g.code.columns()).minus(ColumnSet::first(g.data_columns()));
            any && !same.intersection(parity).is_empty() || g.code.is_unchanged(unit, same)
        };
        let is_exposed = |(id, _): Place, sector: u64, listed: &Listed| {
            map.volumes.get(&id).is_some_and(|v| is_exposed(v, self.node, sector, listed))
        };
        let doubts = self.config.doubts_what_was_put_back();
        let is_covered = |(id, _): Place, sector: u64, witnesses, written| {
            let volume = map.volumes.get(&id).filter(|_| doubts);
            volume.is_some_and(|v| is_covered(v, self.node, sector, witnesses, written))
        };
        self.catchup.conclude(is_unchanged, is_exposed, is_covered);
        if !self.config.catches_up_on_all() && !self.catchup.will_know() {
            self.catchup.miss_one();
        }
        if !self.catchup.will_know() {
            self.stalled.wake();
        }
    }

    /// All missed writes that can be known are known. Rebuilds them, and reports volumes that have caught up.
    fn go_on_catching_up(&mut self, background: &mut Background, outbox: &mut Outbox) {
        if !self.catchup.is_behind() {
            return background.has_in_work(Loop::Fill, 0);
        }
        let whole = self.volumes_caught_up_on();
        if !whole.is_empty() {
            // The content that brought it up to date must be durable first.
            let txns = &self.txns;
            let open = |ts: &Timestamp| {
                txns.get(ts).is_some_and(|t| t.phase == Phase::Committed { safe: false })
            };
            // While a volume waits for the disk as it was, others must not rely on this one: nobody would know what it lacks
            // that comes in its place.
            let is_the_disk = !self.store.forgot() && !self.store.is_forgiving();
            if self.catchup.is_fresh_for_good(open) && is_the_disk {
                self.catchup.reported(whole.iter().copied());
                let (epoch, volumes) = (self.map.epoch, whole.into_iter().collect());
                outbox.report(MemberReport::CaughtUp { epoch, volumes });
            }
        }
        if !self.catchup.stale().is_empty() {
            self.ask_rebuilds(outbox.now, background);
        }
    }

    /// The volumes that this disk has caught up on, once the others must wait: they are asleep, or the disk has no space
    /// for them. Volumes that lie over one another catch up together.
    fn volumes_caught_up_on(&self) -> BTreeSet<VolumeId> {
        let Some(left) = self.catchup.left_behind(self.filling.without_space()) else {
            return BTreeSet::new();
        };
        let lowest = |id: VolumeId| self.map.all_below(id).last().map_or(id, |below| below.id);
        let left: BTreeSet<VolumeId> = left.into_iter().map(lowest).collect();
        let is_whole = |id: &VolumeId| !left.contains(&lowest(*id));
        if !self.catchup.unreported().iter().any(is_whole) {
            return BTreeSet::new();
        }
        // Deleted snapshots that are merged into a volume are caught up on with it.
        self.map.volumes.keys().copied().filter(is_whole).collect()
    }

    /// Compares with this disk's own content of the next extent.
    fn look_at_own(&mut self) {
        let Some(a) = self.catchup.asking() else { return };
        let next = a.to_look_at.as_ref().and_then(|l| l.last()).copied();
        let Some((place, Merged { first, count, .. })) = next else { return };
        let Behind { since, copied, .. } = a.extents[&place];
        // Content that was written after the column came, and is lost, cannot be copied from the other disk.
        let what = if copied { Scan::Since(since) } else { Scan::Kept(since) };
        let ticket = self.tickets.issue(Ticket::Own);
        self.store.scan(ticket, first, count, what);
    }

    pub(super) fn own_done(&mut self, found: Vec<(u64, Timestamp)>) {
        let Some(a) = self.catchup.asking() else { return };
        if let Some((place, merged)) = a.to_look_at.as_mut().and_then(Vec::pop) {
            let Merged { first, is_hidden, .. } = merged;
            let at = a.extents[&place].sectors.start;
            for (sector, version) in found {
                let version = if is_hidden { HIDDEN } else { version };
                a.own.entry(at + (sector - first)).or_insert(version);
            }
        }
        self.look_at_own();
        self.stalled.wake();
    }
}

/// The seat for which a node answers, if the column is its own; a node that its column has left answers for none.
fn seat_of(volume: &Volume, node: NodeId, stripe: u64, seat: usize) -> ColumnSet {
    let its = volume.seats_on(node, stripe).any(|s| s == seat);
    if its { ColumnSet::of(seat) } else { ColumnSet::EMPTY }
}

/// Whether the disk's content of a data sector is current although others of its row were written in its absence:
/// parity that covers it is marked. Writes in progress at its departure are excepted, and others remember those. A
/// write that lacks a data column defers no parity that covers it: it computes all of it and clears its marks.
fn is_exposed(volume: &Volume, node: NodeId, sector: u64, listed: &Listed) -> bool {
    let covering = covering(volume, node, sector);
    covering.is_some_and(|(_, parity)| !parity.intersection(listed.marked).is_empty())
}

/// Whether parity that covers a data sector is on one of the `witnesses`, and has been written.
fn is_covered(
    volume: &Volume,
    node: NodeId,
    sector: u64,
    witnesses: ColumnSet,
    written: ColumnSet,
) -> bool {
    let Some((stripe, parity)) = covering(volume, node, sector) else { return false };
    let known = volume.geometry.seats_of(stripe, witnesses).intersection(written);
    !parity.intersection(known).is_empty()
}

/// The stripe of a data sector of a node's disk, and the seats of the parity that covers it.
fn covering(volume: &Volume, node: NodeId, sector: u64) -> Option<(u64, ColumnSet)> {
    let (stripe, seat, _) = volume.stripe_at(node, sector)?;
    let g = &volume.geometry;
    let ColumnRole::Data(i) = g.layout.role(stripe, seat) else { return None };
    let parity = g.code.parities_of(i).iter().map(|j| g.layout.parity_seat(stripe, j));
    Some((stripe, parity.collect()))
}

/// The sectors of a node's disk that hold its column of an extent.
fn sectors_of(volume: &Volume, extent: usize, node: NodeId) -> Option<Range<u64>> {
    let column = volume.extents[extent].column_of(node)?;
    let first = volume.extents[extent].columns[column].1;
    Some(first..first + volume.extent_sectors(extent))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slot that changes hands between two scans moves from a lower space to one that is scanned later.
    #[test]
    fn what_is_merged_meanwhile_is_found_in_one_space_or_the_other() {
        let what = Scan::Since(Timestamp(5));
        let own = Sought { volume: VolumeId(1), at: 300, first: 300, count: 10, what };
        let merged = [200, 100].map(|first| Merged { first, count: 10, is_hidden: false });
        let scanned = own.with_merged(merged.to_vec()).into_iter().rev();
        let firsts: Vec<u64> = scanned.map(|sought| sought.first).collect();
        assert_eq!(firsts, [100, 200, 300, 300], "from the lowest space upwards");
    }
}
