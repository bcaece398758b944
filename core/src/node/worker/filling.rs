//! Filling the disk: which units that it has missed it asks to have put back next, and how fast.

use std::collections::BTreeSet;

use super::{Run, Worker};
use crate::cluster::{ClusterMap, Volume};
use crate::node::background::{Background, Loop};
use crate::node::catchup::Aside;
use crate::node::task::joins;
use crate::plan::Span;
use crate::units::{Nanos, NodeId, SECTOR, VolumeId};

/// Bytes that wait to be put in place above which no more is rebuilt.
const MOST_HELD: u64 = 32 << 20;

/// Of the units in work so many parts must be done before it is looked for more to rebuild: with many
/// in work, looking after each would cost more than all else that is done for it here.
const PARTS: u64 = 8;

/// Most units that a column has in one stripe.
const MOST_UNITS: usize = 2;

/// Volume, stripe, seat.
type Unit = (VolumeId, u64, usize);

/// What is being put back.
#[derive(Clone, Default, Hash)]
pub(super) struct Filling {
    /// What is to be asked for.
    asked: Vec<Run>,
    /// Stripes and seats of what has been asked for.
    in_work: BTreeSet<Unit>,
    /// It may have failed, and is to be asked for again.
    asks_again: bool,
    /// Those that count as begun at the rate that is kept to, also if they are asked for again.
    paced: BTreeSet<Unit>,
    /// What it looked like when it was last looked what is to be rebuilt: how often what is stale had
    /// changed, whether there was room to hold more, whether hosts used the disk. Open if it is to be
    /// looked at anew.
    looked: Aside<Option<(u64, (bool, bool))>>,
    put_back: u64,
}

impl Filling {
    /// Whether anything is to be asked for.
    pub fn has_asked(&self) -> bool {
        !self.asked.is_empty()
    }

    /// What is to be asked for since this was last called.
    pub fn take_asked(&mut self) -> Vec<Run> {
        std::mem::take(&mut self.asked)
    }

    /// The run that a unit's part goes on, if both are at most so many bytes together. Of a column with two units in a stripe,
    /// what comes between is a run by itself.
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

    /// A unit's part is to be asked for, together with that of the stripe before if it can be.
    fn ask(&mut self, run: Run, volume: &Volume, most: u64) {
        match self.gone_on(&run, volume, most) {
            Some(last) => last.stripes += 1,
            None => self.asked.push(run),
        }
    }

    /// How many units may be in work now. They are begun as many at a time as are put back together: were each begun when
    /// another is done, each would be a run by itself. At least half of all that may be in work are not waited for.
    fn up_to(&self, most: usize, together: u64, unit: u64) -> usize {
        let units = usize::try_from(together / unit).unwrap_or(usize::MAX);
        let (run, now) = (units.min(most / 2).max(1), self.in_work.len());
        now + most.saturating_sub(now) / run * run
    }

    /// So many sectors have been put back.
    pub fn put_back(&mut self, sectors: u64) {
        self.put_back += sectors;
    }

    /// How many sectors have been put back since the node started.
    pub fn sectors_put_back(&self) -> u64 {
        self.put_back
    }

    /// What has been asked for may have failed: it is to be looked at anew.
    pub fn look_anew(&mut self) {
        self.asks_again = true;
        self.looked = Aside(None);
    }
}

impl Worker {
    /// Asks for the rebuilding of a few stale units.
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
        // What has been rebuilt must come into place some time.
        let most = if has_room { background.most(Loop::Fill, now) } else { 0 };
        let homeless = self.ask_more(most, now, background);
        for unit in again {
            if let Some((run, _)) = stale_part(self.catchup.stale(), &map, self.node, unit) {
                self.filling.ask(run, &map.volumes[&unit.0], self.config.rebuilt_together);
            }
        }
        background.has_in_work(Loop::Fill, self.filling.in_work.len());
        // Sectors of volumes that have been deleted since.
        homeless.into_iter().for_each(|s| self.catchup.forget(s));
    }

    /// Asks for stale units that are not in work, until so many are at most. Returns the stale sectors that are no volume's.
    fn ask_more(&mut self, most: usize, now: Nanos, background: &mut Background) -> Vec<u64> {
        let (stale, map) = (self.catchup.stale(), self.map.clone());
        let together = self.config.rebuilt_together;
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

/// What of a unit is stale on a node's disk, as a run of its own, and the sector after the unit. `None` if nothing is, or
/// the unit is not there: its stripe may have been cut off, and its room be another's.
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
