//! Permanently lost data: data on this disk that nothing determined when it was searched. Marks record it; reads of
//! them fail, and content of a later write replaces them.

use super::Worker;
use crate::cluster::Volume;
use crate::layout::ColumnRole;
use crate::node::outbox::Outbox;
use crate::node::{Body, LostRange, MOST_LOST};
use crate::plan;
use crate::store::Changed;
use crate::units::{NodeId, SECTOR, VolumeId};

impl Worker {
    /// A node asks for the lost part of a range on this disk. Until the disk has been searched it is unknown; the node
    /// will ask again.
    pub fn on_lost(
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
        let mut all = match self.map.volumes.get(&volume).cloned() {
            Some(volume) => self.lost_of(&volume, range),
            None => Vec::new(),
        };
        if !self.config.lists_all_losses() {
            all.pop();
        }
        let bytes = all.iter().map(|l| l.range.len).sum();
        all.truncate(MOST_LOST);
        outbox.send(from, Body::LostHere { id, bytes, found: all });
    }

    /// The lost part of a volume's range on this disk, in order.
    fn lost_of(&self, volume: &Volume, range: plan::Range) -> Vec<LostRange> {
        let mut all: Vec<LostRange> = Vec::new();
        for n in 0..volume.extents.len() {
            let Some((_, first)) = volume.extents[n].place_on(self.node) else { continue };
            let here = first..first + volume.extent_sectors(n);
            for (sector, since) in self.exposure.marked_since(here) {
                if let Some(bytes) = self.data_at(volume, sector).and_then(|b| within(b, range)) {
                    all.push(LostRange { range: bytes, since });
                }
            }
        }
        all.sort_by_key(|l| l.range.offset);
        joined(all)
    }

    /// The bytes of a volume whose data this disk's sector holds, if it does.
    fn data_at(&self, volume: &Volume, sector: u64) -> Option<plan::Range> {
        let (stripe, seat, within) = volume.stripe_at(self.node, sector)?;
        volume.seats_on(self.node, stripe).find(|s| *s == seat)?;
        let ColumnRole::Data(i) = volume.geometry.layout.role(stripe, seat) else { return None };
        let unit = stripe * volume.geometry.stripe_bytes() + i as u64 * volume.geometry.unit;
        let offset = unit + within * SECTOR;
        let len = SECTOR.min(volume.size.saturating_sub(offset));
        (len > 0).then_some(plan::Range { offset, len })
    }

    /// Logs that content is about to be marked as lost, if it is the first of its volume on this disk: a lost disk may
    /// have had very much.
    pub(super) fn log_lost(&self, changed: &Changed, outbox: &mut Outbox) {
        let unit = changed.kind.is_mark().then(|| self.unit_at(changed.sectors.start)).flatten();
        let Some(volume) = unit.and_then(|u| self.map.volumes.get(&u.volume)) else { return };
        let is_first = self.exposure.of(volume.id).is_none_or(|t| t.exposed.lost_bytes == 0);
        if let Some(bytes) = self.data_at(volume, changed.sectors.start).filter(|_| is_first) {
            let (name, offset) = (&volume.name, bytes.offset);
            outbox.log(format!(
                "content of volume '{name}' is lost, from byte {offset} and perhaps more: the \
                 remaining columns do not determine it. Reads of it fail until it is written; \
                 `weft volume lost {name}` lists lost ranges"
            ));
        }
    }
}

/// The part of some bytes within a range.
fn within(bytes: plan::Range, range: plan::Range) -> Option<plan::Range> {
    let (from, to) = (bytes.offset.max(range.offset), bytes.end().min(range.end()));
    (from < to).then(|| plan::Range { offset: from, len: to - from })
}

/// Joins adjacent ranges; the result has been lost since the earlier time.
pub(in crate::node) fn joined(all: Vec<LostRange>) -> Vec<LostRange> {
    let mut out: Vec<LostRange> = Vec::new();
    for lost in all {
        match out.last_mut() {
            Some(last) if last.range.end() == lost.range.offset => {
                last.range.len += lost.range.len;
                last.since = last.since.min(lost.since);
            }
            _ => out.push(lost),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Timestamp;

    #[test]
    fn neighbours_are_joined_and_date_from_the_first() {
        let lost = |offset, len, since| LostRange {
            range: plan::Range { offset, len },
            since: Timestamp(since),
        };
        let all = vec![lost(0, 4096, 7), lost(4096, 4096, 5), lost(12288, 4096, 9)];
        assert_eq!(joined(all), [lost(0, 8192, 5), lost(12288, 4096, 9)]);
        assert!(joined(Vec::new()).is_empty());
    }
}
