//! Catching up, as a worker does it: telling the others what was written, asking them, and
//! having rebuilt what this disk missed.

use super::*;
use crate::layout::ColumnRole;
use crate::node::catchup::Asking;
use crate::node::{DirtySector, MemberReport};
use crate::store::Scan;

/// Looking for what a returning node missed.
pub(super) struct DirtyScan {
    to: NodeId,
    /// Volume and extent being scanned, and those to come.
    queue: Vec<(VolumeId, u64, u64, Timestamp)>,
    found: BTreeMap<VolumeId, Vec<DirtySector>>,
}

impl Worker {
    /// A returning node asks what was written since it left.
    pub fn on_dirty(&mut self, from: NodeId, since: Timestamp) {
        if !self.dirty_asked.contains(&(from, since)) {
            self.dirty_asked.push((from, since));
        }
    }

    /// Whether a write from before this epoch is undecided here and can be decided.
    pub(super) fn has_undecided(&self) -> bool {
        let epoch = self.map.epoch;
        let open = |p: Phase| matches!(p, Phase::Prepared | Phase::Preparing);
        let awake = |v: &VolumeId| self.map.volumes.get(v).is_some_and(|v| !self.map.is_asleep(v));
        self.txns.values().any(|t| t.epoch < epoch && open(t.phase) && awake(&t.volume))
    }

    pub(super) fn run_dirty(&mut self) {
        if self.dirty_scan.is_some() || self.dirty_asked.is_empty() || self.has_undecided() {
            return;
        }
        let (to, since) = self.dirty_asked.remove(0);
        let mut queue = Vec::new();
        for volume in self.map.volumes.values() {
            for (n, first, count) in extents_of(volume, self.node) {
                if volume.extents[n].column_of(to).is_some() {
                    queue.push((volume.id, first, count, since));
                }
            }
        }
        self.dirty_scan = Some(DirtyScan { to, queue, found: BTreeMap::new() });
        let ticket = self.ticket(Ticket::Dirty);
        match self.dirty_scan.as_ref().and_then(|s| s.queue.last()) {
            Some(&(_, first, count, since)) => {
                self.store.scan(ticket, first, count, Scan::Since(since));
            }
            None => self.store.scan(ticket, 0, 0, Scan::Since(since)),
        }
    }

    pub(super) fn dirty_done(&mut self, found: Vec<(u64, Timestamp)>, outbox: &mut Outbox) {
        let Some(scan) = &mut self.dirty_scan else { return };
        if let Some((id, ..)) = scan.queue.pop()
            && let Some(volume) = self.map.volumes.get(&id)
        {
            let place = |(sector, version)| {
                let (stripe, _, within) = volume.stripe_at(self.node, sector)?;
                Some((stripe, within, version))
            };
            scan.found.entry(id).or_default().extend(found.into_iter().filter_map(place));
        }
        if let Some(&(_, first, count, since)) = scan.queue.last() {
            let ticket = self.ticket(Ticket::Dirty);
            self.store.scan(ticket, first, count, Scan::Since(since));
            return;
        }
        let scan = self.dirty_scan.take().expect("just seen");
        let found = scan.found.into_iter().collect();
        outbox.send(scan.to, Body::DirtyReply { found });
    }

    /// What the others have written.
    pub fn on_dirty_reply(
        &mut self,
        from: NodeId,
        found: Vec<(VolumeId, Vec<DirtySector>)>,
        _outbox: &mut Outbox,
    ) {
        let Catchup::Asking(asking) = &mut self.catchup else { return };
        if !asking.waiting.remove(&from) {
            return;
        }
        for (id, sectors) in found {
            let Some(volume) = self.map.volumes.get(&id) else { continue };
            if self.map.stale_since(id, self.node).is_none() {
                continue;
            }
            for (stripe, within, version) in sectors {
                let Some(column) = volume.extent(stripe).column_of(self.node) else { continue };
                let sector = volume.sector(stripe, column) + within;
                // A data unit at that version has it all. Parity does not: changes add up in
                // any order, so one may be missing below a later one.
                let version = match volume.geometry.layout.role(stripe, column) {
                    ColumnRole::Data(_) => version,
                    ColumnRole::Parity(_) => Timestamp(u64::MAX),
                };
                let newest = asking.listed.entry(sector).or_default();
                *newest = (*newest).max(version);
            }
        }
    }

    /// The map says whether this disk has missed anything.
    pub(super) fn enter_catchup(&mut self, outbox: &mut Outbox) {
        self.dirty_scan = None;
        self.tickets.retain(|_, t| !matches!(t, Ticket::Dirty | Ticket::Own));
        let missed = |v: &&Arc<Volume>| self.map.stale_since(v.id, self.node).is_some();
        let missed: Vec<Arc<Volume>> = self.map.volumes.values().filter(missed).cloned().collect();
        let since = missed.iter().filter_map(|v| self.map.stale_since(v.id, self.node)).min();
        let Some(since) = since else {
            self.catchup = Catchup::Fresh;
            return;
        };
        if let Catchup::Known { reported, .. } = &mut self.catchup {
            *reported = false;
            return;
        }
        let fresh = match &mut self.catchup {
            Catchup::Asking(a) => std::mem::take(&mut a.fresh),
            _ => BTreeSet::new(),
        };
        let ask: BTreeSet<NodeId> = self.map.up().filter(|n| *n != self.node).collect();
        for node in &ask {
            outbox.send(*node, Body::Dirty { since });
        }
        let behind = missed
            .iter()
            .flat_map(|v| extents_of(v, self.node).map(|(_, first, count)| first..first + count));
        let asking = Asking {
            since,
            behind: behind.collect(),
            asleep: missed.iter().any(|v| self.map.is_asleep(v)),
            waiting: ask,
            fresh,
            ..Asking::default()
        };
        self.catchup = Catchup::Asking(asking);
    }

    /// Asks again those who have not said what was written meanwhile.
    pub(super) fn repeat_dirty(&self, outbox: &mut Outbox) {
        let Catchup::Asking(a) = &self.catchup else { return };
        for node in &a.waiting {
            outbox.send(*node, Body::Dirty { since: a.since });
        }
    }

    pub(super) fn run_catchup(&mut self, outbox: &mut Outbox) {
        let undecided = matches!(self.catchup, Catchup::Asking(_)) && self.has_undecided();
        match &mut self.catchup {
            Catchup::Fresh => {}
            Catchup::Asking(a) => {
                if !a.looking && !undecided {
                    a.looking = true;
                    self.look_at_own();
                }
                self.catchup.conclude();
            }
            Catchup::Known { stale, reported } => {
                if stale.is_empty() {
                    // What brought it up to date must outlive this process.
                    let txns = &self.txns;
                    let open = |ts: &Timestamp| {
                        txns.get(ts).is_some_and(|t| t.phase == Phase::Committed { safe: false })
                    };
                    self.freshening.retain(open);
                    if !*reported && self.freshening.is_empty() {
                        *reported = true;
                        outbox.report(MemberReport::CaughtUp { epoch: self.map.epoch });
                    }
                    return;
                }
                self.ask_rebuilds();
            }
        }
    }

    /// Looks at what this disk itself has written since it left.
    pub(super) fn look_at_own(&mut self) {
        let Catchup::Asking(a) = &self.catchup else { return };
        let since = a.since;
        let total = self.store.data_sectors();
        let ticket = self.ticket(Ticket::Own);
        self.store.scan(ticket, 0, total, Scan::Kept(since));
    }

    /// Asks for the rebuilding of a few stale units.
    pub(super) fn ask_rebuilds(&mut self) {
        let Catchup::Known { stale, .. } = &self.catchup else { return };
        let map = &self.map;
        let unit = |id: &VolumeId, stripe: u64| {
            let volume = map.volumes.get(id)?;
            let column = volume.extent(stripe).column_of(self.node)?;
            let first = volume.sector(stripe, column);
            Some((column, first, first + volume.unit_sectors()))
        };
        self.rebuilding.retain(|(id, stripe)| {
            unit(id, *stripe).is_some_and(|(_, lo, hi)| stale.range(lo..hi).next().is_some())
        });
        let mut from = 0;
        let mut homeless = Vec::new();
        while self.rebuilding.len() < self.config.rebuilds {
            let Some(&sector) = stale.range(from..).next() else { break };
            let home = map
                .volumes
                .values()
                .find_map(|v| v.stripe_at(self.node, sector).map(|(stripe, _, _)| (v.id, stripe)));
            let Some((id, stripe)) = home else {
                homeless.push(sector);
                from = sector + 1;
                continue;
            };
            let (column, lo, hi) = unit(&id, stripe).expect("a place in a volume");
            let part = stale.range(lo..hi);
            let (first, last) = (part.clone().next(), part.last());
            let (first, last) = (first.expect("stale here"), last.expect("stale here"));
            if self.rebuilding.insert((id, stripe)) {
                let span = Span::new((first - lo) * SECTOR, (last + 1 - lo) * SECTOR);
                self.rebuilds.push((id, stripe, column, span));
            }
            from = hi;
        }
        if let Catchup::Known { stale, .. } = &mut self.catchup {
            // Sectors of volumes that have been deleted since.
            homeless.iter().for_each(|s| {
                stale.remove(s);
            });
        }
    }
}
