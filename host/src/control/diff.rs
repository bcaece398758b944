//! Changes of a volume since a snapshot, or all of its content, asked of the nodes piece by piece.

use serde_json::{Value, json};
use weft_core::cluster::Volume;
use weft_core::node::HostOp;
use weft_core::plan::Range;

/// Bytes of a query.
const PIECE: u64 = 4 << 30;

/// Bytes of a query for holes.
const PIECE_OF_HOLES: u64 = 256 << 20;

/// The most ranges of an answer. The next question continues at its end.
const MOST_RANGES: usize = 4096;

/// A comparison in progress.
#[derive(Clone, Debug)]
pub(crate) struct Diff {
    /// The volume or snapshot as it was.
    pub(crate) volume: Volume,
    /// The snapshot since which changes are listed. If open, content is.
    pub(crate) since: Option<Volume>,
    /// The offset up to which the changes are known.
    at: u64,
    found: Vec<Range>,
}

impl Diff {
    /// Of the bytes from this offset on.
    pub(crate) fn of(volume: Volume, since: Option<Volume>, from: u64) -> Diff {
        Diff { volume, since, at: from, found: Vec::new() }
    }

    /// The next query. None if all is known, or as much as an answer has.
    pub(crate) fn request(&self) -> Option<HostOp> {
        let piece = if self.since.is_some() { PIECE } else { PIECE_OF_HOLES };
        let len = piece.min(self.volume.visible.saturating_sub(self.at));
        let goes_on = len > 0 && self.found.len() < MOST_RANGES;
        let range = Range { offset: self.at, len };
        goes_on.then_some(match &self.since {
            Some(since) => HostOp::Changed(range, since.id),
            None => HostOp::Holes(range),
        })
    }

    /// The comparison after this answer for the next piece: lengths, and whether each may have changed, or has content.
    pub(crate) fn with(mut self, found: impl IntoIterator<Item = (u64, bool)>) -> Diff {
        for (len, changed) in found {
            let range = Range { offset: self.at, len };
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

    /// Whether no change has been found.
    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The answer to the operator. The cluster has this number.
    pub(crate) fn answer(&self, cluster: u128) -> Value {
        let identity =
            |volume: &Volume| volume.identity(cluster).map(|identity| identity.to_string());
        let range = |range: &Range| json!({ "offset": range.offset, "length": range.len });
        json!({
            "volume": self.volume.name,
            "identity": identity(&self.volume),
            "taken": self.volume.lineage.snapshot.map(|snapshot| snapshot.taken),
            "since": self.since.as_ref().map(|since| &since.name),
            "since_identity": self.since.as_ref().and_then(identity),
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
        let mut diff = Diff::of(volume(1, PIECE + 8192), Some(volume(2, 0)), 0);
        let Some(HostOp::Changed(range, since)) = diff.request() else { panic!() };
        assert_eq!((range, since), (Range { offset: 0, len: PIECE }, VolumeId(2)));
        diff = diff.with([(4096, true), (PIECE - 8192, false), (4096, true)]);
        assert!(matches!(diff.request(), Some(HostOp::Changed(range, _)) if range.len == 8192));
        diff = diff.with([(4096, true), (4096, false)]);
        assert!(diff.request().is_none());
        let answer = diff.answer(7);
        let ranges = json!([
            { "offset": 0, "length": 4096 },
            { "offset": PIECE - 4096, "length": 8192 },
        ]);
        assert_eq!((&answer["ranges"], &answer["next"]), (&ranges, &Value::Null));
        assert_eq!((&answer["since"], &answer["identity"]), (&json!("v2"), &Value::Null));
    }

    #[test]
    fn content_is_listed_without_an_earlier_snapshot() {
        let diff = Diff::of(volume(1, 8192), None, 4096);
        let Some(HostOp::Holes(range)) = diff.request() else { panic!() };
        assert_eq!(range, Range { offset: 4096, len: 4096 });
        let answer = diff.with([(4096, true)]).answer(7);
        assert_eq!(answer["ranges"], json!([{ "offset": 4096, "length": 4096 }]));
        assert_eq!((&answer["since"], &answer["since_identity"]), (&Value::Null, &Value::Null));
    }

    #[test]
    fn a_long_answer_says_where_the_next_begins() {
        let size = 3 * MOST_RANGES as u64 * 8192;
        let mut diff = Diff::of(volume(1, size), Some(volume(2, 0)), 0);
        let each = [(4096, true), (4096, false)].repeat(3 * MOST_RANGES);
        diff = diff.with(each);
        assert!(diff.request().is_none());
        let answer = diff.answer(7);
        assert_eq!(answer["ranges"].as_array().map(Vec::len), Some(MOST_RANGES));
        assert_eq!(answer["next"], MOST_RANGES as u64 * 8192);
    }
}
