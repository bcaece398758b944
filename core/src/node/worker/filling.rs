//! Filling the disk: which missed units it requests to be rebuilt next, and at which rate.

use std::collections::BTreeSet;

use super::Worker;
use crate::cluster::{ClusterMap, Volume};
use crate::node::Run;
use crate::node::background::{Background, Loop};
use crate::node::catchup::Aside;
use crate::node::task::joins;
use crate::plan::Span;
use crate::units::{Nanos, NodeId, SECTOR, VolumeId};

/// No more is rebuilt while more bytes than this wait to be written in place.
const MOST_HELD: u64 = 32 << 20;

/// This many parts of the units in progress must be done before more are searched: with many in progress, a search after
/// each would cost more than all other work for it here.
const PARTS: u64 = 8;

/// The most units that a column has in one stripe.
const MOST_UNITS: usize = 2;

/// Volume, stripe, seat.
type Unit = (VolumeId, u64, usize);

/// The units being rebuilt.
#[derive(Clone, Default, Hash)]
pub(super) struct Filling {
    /// The parts to request.
    asked: Vec<Run>,
    /// Stripes and seats of the requested parts.
    in_work: BTreeSet<Unit>,
    /// A request may have failed, and is made again.
    asks_again: bool,
    /// Units that count as begun at the limited rate, also if they are requested again.
    paced: BTreeSet<Unit>,
    /// The conditions at the last search for units to rebuild: how often the stale set had changed, whether there was
    /// space to hold more, and whether hosts used the disk. None if a search is due.
    looked: Aside<Option<(u64, (bool, bool))>>,
    /// Volumes whose last rebuild was refused because the disk had no space.
    without_space: BTreeSet<VolumeId>,
    put_back: u64,
}

impl Filling {
    /// Whether anything must be requested.
    pub fn has_asked(&self) -> bool {
        !self.asked.is_empty()
    }

    /// The requests since the last call.
    pub fn take_asked(&mut self) -> Vec<Run> {
        std::mem::take(&mut self.asked)
    }

    /// The run that a unit's part continues, if both together have at most this many bytes. In a column with two units
    /// in a stripe, the part between them is a run by itself.
    fn gone_on(&mut self, run: &Run, volume: &Volume, most: u64) -> Option<&mut Run> {
        let part = run.part;
        let goes_on = |last: &&mut Run| {
            let stripes = last.stripes + 1;
            **last == Run { stripe: last.stripe, stripes: last.stripes, ..*run }
                && last.stripe + last.stripes == run.stripe
                && stripes * part.len() <= most
                && joins(volume, last.stripe, stripes, run.seat, part)
        };
        self.asked.iter_mut().rev().take(MOST_UNITS).find(goes_on)
    }

    /// Requests a unit's part, together with that of the previous stripe if possible.
    fn ask(&mut self, run: Run, volume: &Volume, most: u64) {
        match self.gone_on(&run, volume, most) {
            Some(last) => last.stripes += 1,
            None => self.asked.push(run),
        }
    }

    /// The number of units that may be in progress now. They are begun in groups that are rebuilt together: if each
    /// were begun when another ends, each would be a run by itself. At most half of the permitted number is held back
    /// for this.
    fn up_to(&self, most: usize, together: u64, unit: u64) -> usize {
        let units = usize::try_from(together / unit).unwrap_or(usize::MAX);
        let (run, now) = (units.min(most / 2).max(1), self.in_work.len());
        now + most.saturating_sub(now) / run * run
    }

    /// Counts rebuilt sectors of a volume.
    pub fn put_back(&mut self, volume: VolumeId, sectors: u64) {
        self.put_back += sectors;
        self.without_space.remove(&volume);
    }

    /// A rebuild of a volume was refused for lack of space. It is tried again.
    pub fn lacks_space(&mut self, volume: VolumeId) {
        self.without_space.insert(volume);
    }

    /// The volumes that wait for space on this disk.
    pub fn without_space(&self) -> &BTreeSet<VolumeId> {
        &self.without_space
    }

    /// The number of sectors rebuilt since the node started.
    pub fn sectors_put_back(&self) -> u64 {
        self.put_back
    }

    /// A request may have failed: a search is due.
    pub fn look_anew(&mut self) {
        self.asks_again = true;
        self.looked = Aside(None);
    }
}

impl Worker {
    /// Requests the rebuild of a few stale units.
    pub(super) fn ask_rebuilds(&mut self, now: Nanos, background: &mut Background) {
        let has_room = self.store.held_bytes() < MOST_HELD;
        let (changes, state) = (self.catchup.changes(), (has_room, background.hosts_are_busy()));
        let enough = (self.filling.in_work.len() as u64 / PARTS).max(1);
        let looked = self.filling.looked.0;
        if looked.is_some_and(|(seen, was)| was == state && changes - seen < enough) {
            return;
        }
        self.filling.looked.0 = Some((changes, state));
        let (stale, map) = (self.catchup.stale(), self.map.clone());
        let is_stale = |unit: &Unit| stale_part(stale, &map, self.node, *unit).is_some();
        self.filling.in_work.retain(is_stale);
        self.filling.paced.retain(is_stale);
        let again = match std::mem::take(&mut self.filling.asks_again) {
            true => self.filling.in_work.clone(),
            false => BTreeSet::new(),
        };
        // Rebuilt content must be written in place eventually.
        let most = if has_room { background.most(Loop::Fill, now) } else { 0 };
        let homeless = self.ask_more(most, now, background);
        for unit in again {
            if let Some((run, _)) = stale_part(self.catchup.stale(), &map, self.node, unit) {
                self.filling.ask(run, &map.volumes[&unit.0], self.config.rebuilding.together);
            }
        }
        background.has_in_work(Loop::Fill, self.filling.in_work.len());
        // Sectors of volumes that have been deleted.
        homeless.into_iter().for_each(|s| self.catchup.forget(s));
    }

    /// Requests stale units that are not in progress, up to a number. Returns the stale sectors that no volume has.
    fn ask_more(&mut self, most: usize, now: Nanos, background: &mut Background) -> Vec<u64> {
        let (stale, map) = (self.catchup.stale(), self.map.clone());
        let together = self.config.rebuilding.together;
        let (mut from, mut homeless, mut up_to) = (0, Vec::new(), None);
        while let Some(&sector) = stale.range(from..).next() {
            let home = map.volumes.values().find_map(|v| {
                v.stripe_at(self.node, sector).map(|(stripe, seat, _)| (v, (v.id, stripe, seat)))
            });
            let Some((volume, unit)) = home else {
                homeless.push(sector);
                from = sector + 1;
                continue;
            };
            let (run, end) = stale_part(stale, &map, self.node, unit).expect("stale here");
            from = end;
            if self.filling.in_work.contains(&unit) {
                continue;
            }
            let bytes = volume.unit_sectors() * SECTOR;
            let up_to = *up_to.get_or_insert_with(|| self.filling.up_to(most, together, bytes));
            if self.filling.in_work.len() >= up_to {
                break;
            }
            if !self.filling.paced.contains(&unit) {
                let bytes = run.part.len();
                // A run is not divided.
                if self.filling.gone_on(&run, volume, together).is_some() {
                    background.begin_with_another(Loop::Fill, bytes);
                } else if !background.begin(Loop::Fill, bytes, now) {
                    break;
                }
                self.filling.paced.insert(unit);
            }
            self.filling.in_work.insert(unit);
            self.filling.ask(run, volume, together);
        }
        homeless
    }
}

/// The stale part of a unit on a node's disk, as a run of its own, and the sector after the unit. `None` if nothing is
/// stale, or the unit no longer exists: its stripe may have been cut off, and its space belong to another volume.
fn stale_part(
    stale: &BTreeSet<u64>,
    map: &ClusterMap,
    node: NodeId,
    (id, stripe, seat): Unit,
) -> Option<(Run, u64)> {
    let volume = map.volumes.get(&id).filter(|v| stripe < v.stripes())?;
    volume.seats_on(node, stripe).find(|s| *s == seat)?;
    let lo = volume.sector(stripe, seat);
    let hi = lo + volume.unit_sectors();
    let mut part = stale.range(lo..hi);
    let first = *part.next()?;
    let last = part.next_back().copied().unwrap_or(first);
    let part = Span::new((first - lo) * SECTOR, (last + 1 - lo) * SECTOR);
    Some((Run { volume: id, stripe, stripes: 1, seat, part }, hi))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cluster::Extent;
    use crate::layout::{Geometry, LayoutSpec};

    const VOLUME: VolumeId = VolumeId(1);

    /// Node 0 has stripes 2 and on at its sector 0, and since the volume was made smaller stripes 0 and 1 behind them.
    #[test]
    fn what_has_been_cut_off_is_not_stale_where_another_unit_is() {
        let spec: LayoutSpec = "raid5".parse().unwrap();
        let geometry = Geometry::new(spec.over(3).unwrap(), SECTOR);
        let column = |n: u16, first| (NodeId(n), first);
        let map = |stripes: u64| {
            let first = Extent::new(0, vec![column(0, 2), column(1, 0), column(2, 0)]);
            let last = Extent::new(2, vec![column(0, 0), column(1, 2), column(2, 2)]);
            let size = stripes * geometry.stripe_bytes();
            let volume = Volume::new(VOLUME, "v", size, &spec, geometry, vec![first, last]);
            let volumes = [(VOLUME, Arc::new(volume))].into();
            ClusterMap { volumes, ..ClusterMap::default() }
        };
        let stale = BTreeSet::from([2, 3]);
        let is_stale = |map: &ClusterMap, stripe| {
            let seat = map.volumes[&VOLUME].seats_on(NodeId(0), stripe).next().unwrap();
            stale_part(&stale, map, NodeId(0), (VOLUME, stripe, seat)).is_some()
        };
        let smaller = map(4);
        assert_eq!(
            [0, 1, 2, 3].map(|stripe| is_stale(&smaller, stripe)),
            [true, true, false, false]
        );
        assert!(!is_stale(&smaller, 4), "sector 2 was its own before");
    }
}
