//! Copying a range of a volume to the same place of another: content is read and written piece by piece, one request of
//! the node after the other, and holes are zeroed. The bytes pass no host.

use std::collections::VecDeque;

use serde_json::{Value, json};
use weft_core::Buffer;
use weft_core::cluster::Volume;
use weft_core::node::{HostData, HostOp};
use weft_core::plan::Range;
use weft_core::units::VolumeId;

use crate::error::{Result, fail};
use crate::size::exactly;

/// Bytes of a query for holes.
const LOOK: u64 = 64 << 20;
/// Approximate bytes of a read and of a write.
const PIECE: u64 = 4 << 20;

/// The copy of a range.
#[derive(Clone, Debug)]
pub(crate) struct Copying {
    source: VolumeId,
    destination: VolumeId,
    /// Bytes of a piece: whole stripes of the destination.
    piece: u64,
    /// The part whose holes are unknown.
    rest: Range,
    /// The next parts, and whether each is a hole.
    found: VecDeque<(Range, bool)>,
    step: Step,
    copied: u64,
    zeroed: u64,
}

/// The request in flight.
#[derive(Clone, Debug)]
enum Step {
    /// A query for holes.
    Look,
    /// A read of the source.
    Read(Range),
    /// A write of this content, at this offset of the destination.
    Write(u64, Buffer),
    /// A range of the destination is zeroed.
    Zero(Range),
    /// A flush of the destination.
    Flush,
    /// None: the copy is complete.
    Done,
}

impl Copying {
    /// The copy of this range, if it is possible.
    pub(crate) fn of(source: &Volume, destination: &Volume, range: Range) -> Result<Copying> {
        check(source, destination)?;
        let size = source.visible;
        if range.offset >= size || range.len == 0 || range.len > size - range.offset {
            return fail(format!(
                "volume '{}' ends at {}; give a range within it",
                source.name,
                exactly(size)
            ));
        }
        let stripe = destination.geometry.stripe_bytes();
        let mut copying = Copying {
            source: source.id,
            destination: destination.id,
            piece: (PIECE / stripe).max(1) * stripe,
            rest: range,
            found: VecDeque::new(),
            step: Step::Look,
            copied: 0,
            zeroed: 0,
        };
        copying.plan();
        Ok(copying)
    }

    /// The next request, and its volume. None if the copy is complete.
    pub(crate) fn request(&self) -> Option<(VolumeId, HostOp)> {
        Some(match &self.step {
            Step::Look => (self.source, HostOp::Holes(self.next_look())),
            Step::Read(range) => (self.source, HostOp::Read(*range)),
            Step::Write(offset, data) => (self.destination, HostOp::Write(*offset, data.clone())),
            Step::Zero(range) => (self.destination, HostOp::WriteZeroes(*range)),
            Step::Flush => (self.destination, HostOp::Flush),
            Step::Done => return None,
        })
    }

    /// The copy after this answer of the nodes.
    pub(crate) fn with(mut self, answer: HostData) -> Copying {
        match (std::mem::replace(&mut self.step, Step::Done), answer) {
            (Step::Look, HostData::Extents(found)) => {
                self.takes(&found);
                self.plan();
            }
            (Step::Read(range), HostData::Bytes(bytes)) => {
                self.step = match joined(range.len as usize, &bytes) {
                    Buffer::Zero(_) => Step::Zero(range),
                    data => Step::Write(range.offset, data),
                };
            }
            (Step::Write(_, data), _) => {
                self.copied += data.len() as u64;
                self.plan();
            }
            (Step::Zero(range), _) => {
                self.zeroed += range.len;
                self.plan();
            }
            (Step::Flush | Step::Done, _) => {}
            (step, answer) => unreachable!("{step:?} is answered by {answer:?}"),
        }
        self
    }

    /// A description of the failed step, for the error message.
    pub(crate) fn doing(&self) -> String {
        match &self.step {
            Step::Look => format!("the source could not be read at {}", exactly(self.rest.offset)),
            Step::Read(range) => {
                format!("the source could not be read at {}", exactly(range.offset))
            }
            Step::Write(offset, _) | Step::Zero(Range { offset, .. }) => {
                format!("the destination could not be written at {}", exactly(*offset))
            }
            Step::Flush | Step::Done => "the destination could not be flushed".to_string(),
        }
    }

    /// The answer to the operator.
    pub(crate) fn answer(&self) -> Value {
        json!({ "copied": self.copied, "zeroed": self.zeroed })
    }

    fn next_look(&self) -> Range {
        Range { offset: self.rest.offset, len: self.rest.len.min(LOOK) }
    }

    /// Takes the holes at the beginning of the rest: lengths, and whether each is a hole.
    fn takes(&mut self, found: &[(u64, bool)]) {
        for (len, hole) in found {
            let len = (*len).min(self.rest.len);
            let range = Range { offset: self.rest.offset, len };
            self.rest = Range { offset: range.offset + len, len: self.rest.len - len };
            match self.found.back_mut() {
                _ if len == 0 => {}
                Some((last, is_hole)) if is_hole == hole => last.len += len,
                _ => self.found.push_back((range, *hole)),
            }
        }
    }

    /// Chooses the next step.
    fn plan(&mut self) {
        self.step = match self.found.pop_front() {
            Some((range, true)) => Step::Zero(range),
            Some((range, false)) => {
                // Pieces end where stripes do.
                let end = (range.offset / self.piece + 1) * self.piece;
                let len = range.len.min(end - range.offset);
                let left = Range { offset: range.offset + len, len: range.len - len };
                if left.len > 0 {
                    self.found.push_front((left, false));
                }
                Step::Read(Range { offset: range.offset, len })
            }
            None if self.rest.len > 0 => Step::Look,
            None => Step::Flush,
        };
    }
}

/// Checks that a volume can be copied to another.
pub(crate) fn check(source: &Volume, destination: &Volume) -> Result<()> {
    let (from, to) = (&source.name, &destination.name);
    if source.id == destination.id {
        return fail(format!("volume '{from}' cannot be copied to itself; give another volume"));
    }
    if destination.is_snapshot() {
        return fail(format!(
            "'{to}' is a snapshot, which does not change; copy to another volume"
        ));
    }
    if destination.visible < source.visible {
        return fail(format!(
            "volume '{to}' has {}, less than the {} of volume '{from}'; grow it with `weft volume resize {to} {}`",
            exactly(destination.visible),
            exactly(source.visible),
            source.visible
        ));
    }
    if destination.reservations.reservation.is_some() || destination.reservations.hold.is_some() {
        return fail(format!(
            "volume '{to}' is reserved by a host; end that first (`weft volume unreserve {to}`)"
        ));
    }
    Ok(())
}

/// Joins buffers; zeros stay zeros.
fn joined(len: usize, buffers: &[Buffer]) -> Buffer {
    if buffers.iter().all(Buffer::is_zero) {
        return Buffer::Zero(len);
    }
    let mut all = vec![0; len];
    let mut rest = &mut all[..];
    for buffer in buffers {
        let (its, others) = rest.split_at_mut(buffer.len());
        buffer.copy_to(its);
        rest = others;
    }
    all.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::cluster::Extent;
    use weft_core::layout::{Geometry, LayoutSpec};
    use weft_core::units::NodeId;

    fn volume(id: u32, size: u64) -> Volume {
        let spec: LayoutSpec = "raid5".parse().unwrap();
        let geometry = Geometry::new(spec.over(4).unwrap(), 64 << 10);
        let columns = (0..4).map(|n| (NodeId(n), 0)).collect();
        let extents = vec![Extent::new(0, columns)];
        Volume::new(VolumeId(id), &format!("v{id}"), size, &spec, geometry, extents)
    }

    /// Runs a copy of a source with these holes. Returns the requests and the answer.
    fn run(mut copying: Copying, is_hole: impl Fn(u64) -> bool) -> (Vec<String>, Value) {
        let mut asked = Vec::new();
        while let Some((volume, op)) = copying.request() {
            let mib = |n: u64| n as f64 / f64::from(1 << 20);
            let answer = match op {
                HostOp::Holes(range) => {
                    let blocks = (range.offset >> 20)..((range.offset + range.len) >> 20);
                    HostData::Extents(blocks.map(|n| (1 << 20, is_hole(n))).collect())
                }
                HostOp::Read(range) => {
                    assert_eq!(volume, VolumeId(1));
                    asked.push(format!("read {} {}", mib(range.offset), mib(range.len)));
                    // The second half of a piece reads as zeros, or all of it at 40 MiB.
                    let half = range.len as usize / 2;
                    let zeros = Buffer::Zero(range.len as usize - half);
                    let first = match range.offset >> 20 {
                        40 => Buffer::Zero(half),
                        _ => vec![7; half].into(),
                    };
                    HostData::Bytes(vec![first, zeros])
                }
                HostOp::Write(offset, data) => {
                    assert_eq!(volume, VolumeId(2));
                    assert!(data.to_bytes().contains(&7));
                    asked.push(format!("write {} {}", mib(offset), mib(data.len() as u64)));
                    HostData::Done
                }
                HostOp::WriteZeroes(range) => {
                    asked.push(format!("zero {} {}", mib(range.offset), mib(range.len)));
                    HostData::Done
                }
                HostOp::Flush => {
                    asked.push("flush".to_string());
                    HostData::Done
                }
                op => panic!("{op:?}"),
            };
            copying = copying.with(answer);
        }
        (asked, copying.answer())
    }

    #[test]
    fn content_is_copied_in_pieces_of_stripes_and_holes_are_zeroed() {
        // A stripe has 192 KiB, a piece 21 of them.
        let piece = 21 * (192 << 10);
        let (source, destination) = (volume(1, 50 << 20), volume(2, 60 << 20));
        let range = Range { offset: 1 << 20, len: 41 << 20 };
        let copying = Copying::of(&source, &destination, range).unwrap();
        assert_eq!(copying.piece, piece);
        let (asked, answer) = run(copying, |mib| (5..40).contains(&mib));
        assert_eq!(
            asked,
            [
                "read 1 2.9375",
                "write 1 2.9375",
                "read 3.9375 1.0625",
                "write 3.9375 1.0625",
                "zero 5 35",
                "read 40 2",
                "zero 40 2",
                "flush",
            ]
        );
        assert_eq!(answer, json!({ "copied": 4 << 20, "zeroed": 37 << 20 }));
    }

    #[test]
    fn a_range_may_be_longer_than_one_look() {
        let (source, destination) = (volume(1, 200 << 20), volume(2, 200 << 20));
        let whole = Range { offset: 0, len: 200 << 20 };
        let copying = Copying::of(&source, &destination, whole).unwrap();
        let (asked, _) = run(copying, |_| true);
        assert_eq!(asked, ["zero 0 64", "zero 64 64", "zero 128 64", "zero 192 8", "flush"]);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let (small, large) = (volume(1, 50 << 20), volume(2, 60 << 20));
        let all = |volume: &Volume| Range { offset: 0, len: volume.visible };
        let refused = |source: &Volume, destination: &Volume, range| {
            Copying::of(source, destination, range).map(|_| ()).unwrap_err().to_string()
        };
        assert!(refused(&small, &small, all(&small)).contains("to itself"));
        assert!(refused(&large, &small, all(&large)).contains("weft volume resize v1 62914560"));
        assert!(refused(&small, &large, all(&large)).contains("ends at 50 MiB"));
        assert!(refused(&small, &large, Range { offset: 50 << 20, len: 1 }).contains("ends at"));
    }
}
