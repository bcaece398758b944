//! Filling the disk: which units that it has missed it asks to have put back next, and how fast.

use std::collections::BTreeSet;

use super::{Run, Worker};
use crate::cluster::Volume;
use crate::node::background::{Background, Loop};
use crate::node::catchup::Aside;
use crate::node::task::joins;
use crate::plan::Span;
use crate::units::{Nanos, SECTOR, VolumeId};

/// Bytes that wait to be put in place above which no more is rebuilt.
const MOST_HELD: u64 = 32 << 20;

/// Of the units in work so many parts must be done before it is looked for more to rebuild: with many
/// in work, looking after each would cost more than all else that is done for it here.
const PARTS: u64 = 8;

/// Most units that a column has in one stripe.
const MOST_UNITS: usize = 2;

/// What is being put back.
#[derive(Clone, Default, Hash)]
pub(super) struct Filling {
    /// What is to be asked for.
    asked: Vec<Run>,
    /// Stripes and seats of what has been asked for since the last tick.
    in_work: BTreeSet<(VolumeId, u64, usize)>,
    /// Those that count as begun at the rate that is kept to, also if they are asked for again.
    paced: BTreeSet<(VolumeId, u64, usize)>,
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

    /// A unit's part is to be asked for: together with that of the stripe before, if both are at most so many bytes. Of a column
    /// with two units in a stripe, what comes between is asked for by itself.
    fn ask(&mut self, run: Run, volume: &Volume, most: u64) {
        let part = run.part;
        let goes_on = |last: &&mut Run| {
            let stripes = last.stripes + 1;
            **last == Run { stripe: last.stripe, stripes: last.stripes, ..run }
                && last.stripe + last.stripes == run.stripe
                && stripes * part.len() <= most
                && joins(volume, last.stripe, stripes, run.seat, part)
        };
        match self.asked.iter_mut().rev().take(MOST_UNITS).find(goes_on) {
            Some(last) => last.stripes += 1,
            None => self.asked.push(run),
        }
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
        self.in_work.clear();
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
        let stale = self.catchup.stale();
        let map = &self.map;
        let unit = |id: &VolumeId, stripe: u64, seat: usize| {
            let volume = map.volumes.get(id)?;
            volume.seats_on(self.node, stripe).find(|s| *s == seat)?;
            let first = volume.sector(stripe, seat);
            Some((first, first + volume.unit_sectors()))
        };
        let is_stale = |(id, stripe, seat): &(VolumeId, u64, usize)| {
            unit(id, *stripe, *seat).is_some_and(|(lo, hi)| stale.range(lo..hi).next().is_some())
        };
        self.filling.in_work.retain(is_stale);
        self.filling.paced.retain(is_stale);
        let mut from = 0;
        let mut homeless = Vec::new();
        // What has been rebuilt must come into place some time.
        let most = if has_room { background.most(Loop::Fill, now) } else { 0 };
        while self.filling.in_work.len() < most {
            let Some(&sector) = stale.range(from..).next() else { break };
            let home = map.volumes.values().find_map(|v| {
                v.stripe_at(self.node, sector).map(|(stripe, seat, _)| (v.id, stripe, seat))
            });
            let Some((id, stripe, seat)) = home else {
                homeless.push(sector);
                from = sector + 1;
                continue;
            };
            let (lo, hi) = unit(&id, stripe, seat).expect("a place in a volume");
            let part = stale.range(lo..hi);
            let (first, last) = (part.clone().next(), part.last());
            let (first, last) = (first.expect("stale here"), last.expect("stale here"));
            if !self.filling.paced.contains(&(id, stripe, seat)) {
                if !background.begin(Loop::Fill, (last + 1 - first) * SECTOR, now) {
                    break;
                }
                self.filling.paced.insert((id, stripe, seat));
            }
            if self.filling.in_work.insert((id, stripe, seat)) {
                let span = Span::new((first - lo) * SECTOR, (last + 1 - lo) * SECTOR);
                let run = Run { volume: id, stripe, stripes: 1, seat, part: span };
                self.filling.ask(run, &map.volumes[&id], self.config.rebuilt_together);
            }
            from = hi;
        }
        background.has_in_work(Loop::Fill, self.filling.in_work.len());
        // Sectors of volumes that have been deleted since.
        homeless.into_iter().for_each(|s| self.catchup.forget(s));
    }
}
