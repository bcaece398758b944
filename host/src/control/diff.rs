//! Changes of a volume since a snapshot, asked of the nodes piece by piece.

use serde_json::{Value, json};
use weft_core::cluster::Volume;
use weft_core::node::HostOp;
use weft_core::plan::Range;

/// Bytes of a query.
const PIECE: u64 = 4 << 30;

/// The most ranges of an answer. The next question continues at its end.
const MOST_RANGES: usize = 4096;

/// A comparison in progress.
#[derive(Clone, Debug)]
pub(crate) struct Diff {
    /// The volume or snapshot as it was.
    pub(crate) volume: Volume,
    since: Volume,
    /// The offset up to which the changes are known.
    at: u64,
    found: Vec<Range>,
}

impl Diff {
    /// Of the bytes from this offset on.
    pub(crate) fn of(volume: Volume, since: Volume, from: u64) -> Diff {
        Diff { volume, since, at: from, found: Vec::new() }
    }

    /// The next query. None if all is known, or as much as an answer has.
    pub(crate) fn request(&self) -> Option<HostOp> {
        let len = PIECE.min(self.volume.visible.saturating_sub(self.at));
        let goes_on = len > 0 && self.found.len() < MOST_RANGES;
        goes_on.then_some(HostOp::Changed(Range { offset: self.at, len }, self.since.id))
    }

    /// The comparison after this answer for the next piece: lengths, and whether each may have changed.
    pub(crate) fn with(mut self, found: &[(u64, bool)]) -> Diff {
        for (len, changed) in found {
            let range = Range { offset: self.at, len: *len };
            let is_full = self.found.len() == MOST_RANGES;
            match self.found.last_mut() {
                _ if !changed => {}
                Some(last) if last.end() == range.offset => last.len += len,
                // The rest of the piece is asked for again.
                _ if is_full => return self,
                _ => self.found.push(range),
            }
            self.at += len;
        }
        self
    }

    /// The answer to the operator.
    pub(crate) fn answer(&self) -> Value {
        let range = |range: &Range| json!({ "offset": range.offset, "length": range.len });
        json!({
            "volume": self.volume.name,
            "since": self.since.name,
            "size": self.volume.visible,
            "ranges": self.found.iter().map(range).collect::<Vec<_>>(),
            "next": (self.at < self.volume.visible).then_some(self.at),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::layout::{Geometry, LayoutSpec};
    use weft_core::units::VolumeId;

    fn volume(id: u32, size: u64) -> Volume {
        let spec = LayoutSpec::default();
        let geometry = Geometry::new(spec.over(4).unwrap(), 64 << 10);
        Volume::new(VolumeId(id), &format!("v{id}"), size, &spec, geometry, Vec::new())
    }

    #[test]
    fn pieces_follow_one_another_and_ranges_that_touch_are_one() {
        let mut diff = Diff::of(volume(1, PIECE + 8192), volume(2, 0), 0);
        let Some(HostOp::Changed(range, since)) = diff.request() else { panic!() };
        assert_eq!((range, since), (Range { offset: 0, len: PIECE }, VolumeId(2)));
        diff = diff.with(&[(4096, true), (PIECE - 8192, false), (4096, true)]);
        assert!(matches!(diff.request(), Some(HostOp::Changed(range, _)) if range.len == 8192));
        diff = diff.with(&[(4096, true), (4096, false)]);
        assert!(diff.request().is_none());
        let answer = diff.answer();
        let ranges = json!([
            { "offset": 0, "length": 4096 },
            { "offset": PIECE - 4096, "length": 8192 },
        ]);
        assert_eq!((&answer["ranges"], &answer["next"]), (&ranges, &Value::Null));
    }

    #[test]
    fn a_long_answer_says_where_the_next_begins() {
        let size = 3 * MOST_RANGES as u64 * 8192;
        let mut diff = Diff::of(volume(1, size), volume(2, 0), 0);
        let each = [(4096, true), (4096, false)].repeat(3 * MOST_RANGES);
        diff = diff.with(&each);
        assert!(diff.request().is_none());
        let answer = diff.answer();
        assert_eq!(answer["ranges"].as_array().map(Vec::len), Some(MOST_RANGES));
        assert_eq!(answer["next"], MOST_RANGES as u64 * 8192);
    }
}
