//! Answers a host's question: which bytes of a volume are exposed by deferred parity on this disk.

use std::collections::BTreeSet;
use std::ops::Range;

use super::Worker;
use crate::cluster::Volume;
use crate::layout::ColumnRole;
use crate::node::Body;
use crate::node::outbox::Outbox;
use crate::plan;
use crate::units::{NodeId, SECTOR, VolumeId};

/// The most ranges of an answer, except for those of the last stripe.
const MOST_RANGES: usize = 1000;

/// The most marks that are searched.
const MOST_MARKS: usize = 1 << 16;

impl Worker {
    /// A node asks for the exposed part of a range. Until the disk has been searched it is unknown; the node will ask
    /// again.
    pub fn on_exposed(
        &mut self,
        from: NodeId,
        id: u64,
        volume: VolumeId,
        range: plan::Range,
        outbox: &mut Outbox,
    ) {
        if !self.knows_marks() {
            return;
        }
        let (until, found) = match self.map.volumes.get(&volume).cloned() {
            Some(volume) => self.exposed_of(&volume, range),
            None => (range.end(), Vec::new()),
        };
        outbox.send(from, Body::ExposedHere { id, until, found });
    }

    /// The exposed bytes of a range, in order, and the end of the searched part.
    fn exposed_of(&self, volume: &Volume, range: plan::Range) -> (u64, Vec<plan::Range>) {
        let stripes = range.stripes(&volume.geometry);
        let coming = self.marks_coming(volume);
        let mut found: Vec<plan::Range> = Vec::new();
        let mut marks = 0;
        let here = stripes.start..stripes.end.min(volume.stripes());
        for stripe in self.stripes_with_marks(volume, here, &coming) {
            if found.len() >= MOST_RANGES || marks >= MOST_MARKS {
                return (stripe * volume.geometry.stripe_bytes(), found);
            }
            let sectors = self.exposed_in(volume, stripe, &coming);
            marks += sectors.len();
            for sector in sectors {
                push(&mut found, plan::Range { offset: sector * SECTOR, len: SECTOR });
            }
        }
        (range.end(), found)
    }

    /// Sectors of this disk that a write in progress is about to mark: its host may have been answered.
    fn marks_coming(&self, volume: &Volume) -> Vec<Range<u64>> {
        let ours = self.txns.values().filter(|t| t.volume == volume.id);
        let ranges = ours.flat_map(|t| &t.ranges).filter(|r| r.kind.is_mark());
        ranges.map(|r| r.sectors.clone()).collect()
    }

    /// Those of these stripes that may have marked parity here, in order.
    fn stripes_with_marks(
        &self,
        volume: &Volume,
        stripes: Range<u64>,
        coming: &[Range<u64>],
    ) -> BTreeSet<u64> {
        let marked = self.exposure.of(volume.id).into_iter();
        let marked = marked.flat_map(|t| t.stripes(stripes.start));
        let marked = marked.take_while(|s| *s < stripes.end).take(MOST_MARKS + 1);
        let of_sector = |sector| volume.stripe_at(self.node, sector).map(|at| at.0);
        let coming = coming.iter().filter_map(|r| of_sector(r.start));
        marked.chain(coming.filter(|s| stripes.contains(s))).collect()
    }

    /// The volume's sectors that marked parity of a stripe covers.
    fn exposed_in(&self, volume: &Volume, stripe: u64, coming: &[Range<u64>]) -> BTreeSet<u64> {
        let g = &volume.geometry;
        let mut exposed = BTreeSet::new();
        for seat in volume.seats_on(self.node, stripe) {
            let ColumnRole::Parity(j) = g.layout.role(stripe, seat) else { continue };
            let first = volume.sector(stripe, seat);
            let unit = first..first + volume.unit_sectors();
            let marked = self.exposure.marked_since(unit.clone()).map(|(sector, _)| sector);
            let coming = coming.iter().flat_map(|r| r.start.max(unit.start)..r.end.min(unit.end));
            for within in marked.chain(coming).map(|sector| sector - first) {
                let data = |i: usize| stripe * g.stripe_bytes() + i as u64 * g.unit;
                exposed.extend(g.code.support(j).iter().map(|i| data(i) / SECTOR + within));
            }
        }
        exposed
    }
}

/// Joins adjacent ranges.
fn push(all: &mut Vec<plan::Range>, next: plan::Range) {
    match all.last_mut() {
        Some(last) if last.end() == next.offset => last.len += next.len,
        _ => all.push(next),
    }
}
