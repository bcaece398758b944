//! Changes of a volume since a snapshot of it.
//!
//! The volume and the snapshot lie over a common volume, directly or not. Each sector that differs was written in a
//! volume between that and one of the two. So the disks are asked for the sectors written in each of these volumes. The
//! work depends on the sectors written since, and no content is read or compared.
//!
//! What lies beyond the end of the snapshot is always a change, though nobody may have written there: whoever follows the
//! changes may have other content there, of a time when the volume was larger before.
//!
//! The volume that lies lowest is asked first. A deleted snapshot may be merged into the one above it meanwhile: its
//! sectors are found there then. For the same reason the volumes are looked up again before each question.

use super::used::Then;
use super::{Job, Originator, Purpose, requests::joined};
use crate::cluster::ClusterMap;
use crate::node::outbox::Outbox;
use crate::node::{HostData, HostError};
use crate::plan::Range;
use crate::units::VolumeId;

/// The question, and the answer so far.
#[derive(Clone, Debug, Hash)]
pub(super) struct Changes {
    volume: VolumeId,
    since: VolumeId,
    range: Range,
    /// The volumes whose disks were asked.
    asked: Vec<VolumeId>,
    /// The parts that may have changed, in no order.
    found: Vec<Range>,
}

impl Changes {
    pub fn new(volume: VolumeId, since: VolumeId, range: Range, map: &ClusterMap) -> Changes {
        // A snapshot that is gone is an error in the first step.
        let size = map.volumes.get(&since).map_or(0, |since| since.size);
        let found = beyond(size, range).into_iter().collect();
        Changes { volume, since, range, asked: Vec::new(), found }
    }

    /// The next volume to ask, and what of it; nothing if all were asked.
    fn next(&self, map: &ClusterMap) -> Result<Option<(VolumeId, Range)>, HostError> {
        let between = map.between(self.since, self.volume).ok_or(HostError::Unrelated)?;
        let parts = between.into_iter().filter(|id| !self.asked.contains(id)).filter_map(|id| {
            let end = self.range.end().min(map.volumes[&id].size);
            let len = end.checked_sub(self.range.offset).filter(|len| *len > 0)?;
            Some((id, Range { offset: self.range.offset, len }))
        });
        Ok(parts.into_iter().next())
    }

    /// What a disk says: lengths from an offset on, and whether nothing was written there.
    pub fn take(&mut self, mut offset: u64, parts: &[(u64, bool)]) {
        for (len, is_hole) in parts {
            self.found.extend((!is_hole).then_some(Range { offset, len: *len }));
            offset += len;
        }
    }

    pub fn answer(mut self) -> HostData {
        self.found.sort_unstable_by_key(|range| range.offset);
        let (mut at, mut parts) = (self.range.offset, Vec::new());
        for found in self.found {
            let from = found.offset.max(at);
            if found.end() > at {
                parts.extend([(from - at, false), (found.end() - from, true)]);
                at = found.end();
            }
        }
        parts.push((self.range.end() - at, false));
        HostData::Changed(joined(parts.into_iter().filter(|(len, _)| *len > 0)))
    }
}

/// The part of a range that lies beyond a size.
fn beyond(size: u64, range: Range) -> Option<Range> {
    let offset = size.max(range.offset);
    let len = range.end().checked_sub(offset).filter(|len| *len > 0)?;
    Some(Range { offset, len })
}

impl Originator {
    /// Asks for the next volume of a request, or answers it.
    pub(super) fn step_changed(&mut self, id: u64, outbox: &mut Outbox) {
        let map = self.map.clone();
        loop {
            let Some(request) = self.requests.get_mut(&id) else { return };
            let Some(changes) = request.answer.changes() else { return };
            let (next, range) = match changes.next(&map) {
                Ok(Some(next)) if request.error.is_none() && !request.gone => next,
                Ok(_) => return self.answer_request(id, outbox),
                Err(error) => {
                    request.error = Some(error);
                    return self.answer_request(id, outbox);
                }
            };
            changes.asked.push(next);
            let volume = map.volumes[&next].clone();
            let what = self.with_care(&volume, range, Then::Changed);
            if what.is_empty() {
                continue;
            }
            let Some(request) = self.requests.get_mut(&id) else { return };
            request.left = what.len();
            let course = super::spent::Course::new(outbox.now);
            let job = |what| Job { course, ..Job::new(Purpose::Host(id), next, what) };
            return self.jobs.queue(what.into_iter().map(job));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cluster::Volume;
    use crate::layout::{Geometry, LayoutSpec};

    /// Of a range since a snapshot of this size.
    fn changes(size: u64, range: Range) -> Changes {
        let spec = LayoutSpec::default();
        let geometry = Geometry::new(spec.over(3).unwrap(), 4096);
        let since = Volume::new(VolumeId(2), "v@s", size, &spec, geometry, Vec::new());
        let volumes = [(since.id, Arc::new(since))].into();
        let map = ClusterMap { volumes, ..ClusterMap::default() };
        Changes::new(VolumeId(1), VolumeId(2), range, &map)
    }

    #[test]
    fn what_was_written_in_any_volume_may_have_changed() {
        let range = Range { offset: 100, len: 100 };
        let mut changes = changes(200, range);
        changes.take(100, &[(10, true), (5, false), (85, true)]);
        changes.take(100, &[(12, true), (8, false), (70, true), (10, false)]);
        changes.take(113, &[(1, false)]);
        let HostData::Changed(parts) = changes.answer() else { panic!() };
        assert_eq!(parts, [(10, false), (10, true), (70, false), (10, true)]);
    }

    #[test]
    fn what_lies_beyond_the_snapshot_has_changed() {
        let range = Range { offset: 100, len: 100 };
        let parts = |size: u64| match changes(size, range).answer() {
            HostData::Changed(parts) => parts,
            other => panic!("{other:?}"),
        };
        assert_eq!(parts(200), [(100, false)]);
        assert_eq!(parts(1000), [(100, false)]);
        assert_eq!(parts(150), [(50, false), (50, true)]);
        assert_eq!(parts(100), [(100, true)]);
        assert_eq!(parts(10), [(100, true)]);
    }
}
