//! What of a volume is lost for good, as an operator asks for it; and having it be zeros from now on.
//!
//! What is lost is listed by all disks. To accept it, each range of the list is written, but only where it is still
//! lost; then it is listed anew, since a list has an end.

use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};
use weft_core::cluster::Volume;
use weft_core::node::{HostOp, LostRange, MOST_LOST};
use weft_core::plan::Range;
use weft_core::units::VolumeId;

use crate::log::stamp;

/// A question about what is lost.
pub(crate) struct Losses {
    pub(crate) volume: VolumeId,
    name: String,
    size: u64,
    /// Whether it is to be zeros.
    accepts: bool,
    /// What of the last list is yet to be accepted.
    left: Vec<Range>,
    /// Bytes that were lost at the first list, and at the last one.
    first: Option<u64>,
    last: u64,
}

/// What comes next.
pub(crate) enum Next {
    /// A request to the nodes.
    Ask(Box<Losses>),
    Answer(Value),
}

impl Losses {
    pub(crate) fn of(volume: &Volume, accepts: bool) -> Losses {
        let (name, size, id) = (volume.name.clone(), volume.size, volume.id);
        Losses { volume: id, name, size, accepts, left: Vec::new(), first: None, last: u64::MAX }
    }

    /// The next request.
    pub(crate) fn request(&mut self) -> HostOp {
        match self.left.pop() {
            Some(range) => HostOp::Accept(range),
            None => HostOp::Lost(Range { offset: 0, len: self.size }),
        }
    }

    /// Takes a list: it is the answer, or what is to be accepted next. Of what did not become less no more is.
    pub(crate) fn listed(mut self: Box<Losses>, bytes: u64, found: &[LostRange]) -> Next {
        let first = *self.first.get_or_insert(bytes);
        if self.accepts && bytes > 0 && bytes < self.last {
            self.left = found.iter().map(|l| l.range).collect();
            self.last = bytes;
            return Next::Ask(self);
        }
        let range = |l: &LostRange| {
            json!({
                "offset": l.range.offset,
                "length": l.range.len,
                "found": stamp(UNIX_EPOCH + Duration::from_micros(l.since.micros())),
            })
        };
        Next::Answer(json!({
            "volume": self.name,
            "bytes_lost": bytes,
            "bytes_accepted": first - bytes.min(first),
            "listed_all": found.len() < MOST_LOST,
            "ranges": found.iter().map(range).collect::<Vec<_>>(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::units::{NodeId, Timestamp};

    fn lost(offset: u64) -> LostRange {
        let since = Timestamp::new(1_500_000, NodeId(1));
        LostRange { range: Range { offset, len: 4096 }, since }
    }

    fn losses(accepts: bool) -> Box<Losses> {
        let (name, left) = ("v".to_string(), Vec::new());
        let volume = VolumeId(1);
        Box::new(Losses { volume, name, size: 65536, accepts, left, first: None, last: u64::MAX })
    }

    #[test]
    fn a_list_is_the_answer() {
        let mut asked = losses(false);
        assert!(matches!(asked.request(), HostOp::Lost(Range { offset: 0, len: 65536 })));
        let Next::Answer(answer) = asked.listed(4096, &[lost(8192)]) else { panic!("an answer") };
        assert_eq!(answer["bytes_lost"], 4096);
        assert_eq!(answer["bytes_accepted"], 0);
        assert_eq!(
            answer["ranges"],
            json!([{ "offset": 8192, "length": 4096, "found": "1970-01-01T00:00:01.500Z" }])
        );
    }

    #[test]
    fn what_is_accepted_is_listed_until_it_becomes_no_less() {
        let asked = losses(true);
        let Next::Ask(mut asked) = asked.listed(8192, &[lost(0), lost(8192)]) else {
            panic!("it is to be accepted")
        };
        let accepted = |op: HostOp| match op {
            HostOp::Accept(range) => Some(range.offset),
            _ => None,
        };
        assert_eq!(accepted(asked.request()), Some(8192));
        assert_eq!(accepted(asked.request()), Some(0));
        assert!(matches!(asked.request(), HostOp::Lost(_)));
        let Next::Ask(asked) = asked.listed(4096, &[lost(0)]) else { panic!("some are left") };
        let Next::Answer(answer) = asked.listed(4096, &[lost(0)]) else { panic!("no less") };
        assert_eq!(
            (&answer["bytes_lost"], &answer["bytes_accepted"]),
            (&json!(4096), &json!(4096))
        );
    }
}
