//! Bounds of the exposure by deferred parity (AFRAID 2): how much of them this disk's parity uses.
//!
//! Without a controller no node knows a volume's total exposure. Each disk keeps to its share of a bound: at the bound
//! its parity is computed under any load, at twice the bound parity is immediate. With one, the controller keeps the
//! account (`node/account`), and no disk decides by its share.

use std::collections::BTreeSet;

use super::Worker;
use crate::cluster::{Area, Volume};
use crate::policy::Redundancy;
use crate::units::{SECTOR, Timestamp};

/// Stripes and bytes.
pub(in crate::node) type Amount = (u64, u64);

/// The part of a volume's bounds that an account keeps to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::node) enum Part {
    /// All of it: it has the parity of all disks.
    All,
    /// The share of a disk that holds some of the parity.
    Disk { parities: u64, width: u64 },
}

impl Part {
    /// That of one disk of a volume.
    pub fn of_disk(volume: &Volume) -> Part {
        let parities = volume.geometry.code.parity_columns().max(1) as u64;
        Part::Disk { parities, width: volume.geometry.layout.width() as u64 }
    }

    /// That part of a bound.
    pub fn of(self, bound: u64) -> u64 {
        match (self, bound) {
            (_, Redundancy::UNBOUNDED) | (Part::All, _) => bound,
            (Part::Disk { parities, width }, _) => (bound.saturating_mul(parities) / width).max(1),
        }
    }

    /// Whether this much is at least this many times that part of one of the bounds.
    pub fn is_used_up(self, (stripes, bytes): Amount, bounds: &Redundancy, times: u64) -> bool {
        let at = |bound: u64| self.of(bound.saturating_mul(times));
        stripes >= at(bounds.exposed_stripes) || bytes >= at(bounds.exposed_bytes)
    }
}

impl Worker {
    /// Whether this disk's share of one of an area's bounds is exposed.
    pub(super) fn exceeds(&self, volume: &Volume, area: Area, bounds: &Redundancy) -> bool {
        Part::of_disk(volume).is_used_up(self.exposed_in_area(volume, area), bounds, 1)
    }

    /// Whether this disk's share of twice one of an area's bounds is exposed before a write, counting all other writes
    /// in progress that will mark something.
    pub(super) fn would_exceed(
        &self,
        ts: Timestamp,
        volume: &Volume,
        area: Area,
        bounds: &Redundancy,
    ) -> bool {
        if !self.config.heeds_bounds() {
            return false;
        }
        let now = self.exposed_in_area(volume, area);
        // A search of all writes in progress is seldom needed.
        let (stripes, bytes) = self.most_by_a_write(volume);
        let others = self.txns.len() as u64;
        let most = (
            now.0.saturating_add(others.saturating_mul(stripes)),
            now.1.saturating_add(others.saturating_mul(bytes)),
        );
        let part = Part::of_disk(volume);
        if !part.is_used_up(most, bounds, 2) {
            return false;
        }
        let more = self.coming(ts, volume, area);
        part.is_used_up((now.0 + more.0, now.1 + more.1), bounds, 2)
    }

    /// The exposure of an area that can be computed. Unrecoverable parity does not count: no refresh would help it, and
    /// writes that could do without it would wait forever.
    fn exposed_in_area(&self, volume: &Volume, area: Area) -> Amount {
        self.exposure.in_area(volume.id, area).map_or((0, 0), |tally| tally.recoverable())
    }

    /// The most that a write may mark on this disk, which may have all parities of a stripe.
    fn most_by_a_write(&self, volume: &Volume) -> Amount {
        let stripe = volume.geometry.stripe_bytes();
        let stripes = self.config.max_chunk / stripe + 2;
        let parities = volume.geometry.code.parity_columns() as u64;
        (stripes, stripes.saturating_mul(stripe).saturating_mul(parities))
    }

    /// The further exposure of an area by other writes that will mark something.
    fn coming(&self, ts: Timestamp, volume: &Volume, area: Area) -> Amount {
        let tally = self.exposure.in_area(volume.id, area);
        let (mut stripes, mut bytes) = (BTreeSet::new(), 0);
        let others = self.txns.iter().filter(|(other, t)| **other != ts && t.volume == volume.id);
        let marks = others.flat_map(|(_, t)| &t.ranges).filter(|r| r.kind.is_mark());
        for sectors in marks.map(|r| r.sectors.clone()) {
            let Some(unit) = self.unit_at(sectors.start) else { continue };
            if area != Area::Whole && unit.area != Some(area) {
                continue;
            }
            let marked = self.exposure.marked_since(sectors.clone()).count() as u64;
            bytes += (sectors.end - sectors.start - marked) * unit.covers.unwrap_or(0) * SECTOR;
            if tally.is_none_or(|t| t.stripes(unit.stripe).next() != Some(unit.stripe)) {
                stripes.insert(unit.stripe);
            }
        }
        (stripes.len() as u64, bytes)
    }

    /// This disk's share of a bound.
    pub(super) fn share_of(&self, volume: &Volume, bound: u64) -> u64 {
        Part::of_disk(volume).of(bound)
    }
}
