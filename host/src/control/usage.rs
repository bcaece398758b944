//! How much of a range of a volume has content, found from its maps of holes, piece by piece.

use serde_json::{Value, json};
use weft_core::cluster::Volume;
use weft_core::node::HostOp;
use weft_core::plan::Range;

/// Bytes of a query.
const PIECE: u64 = 64 << 20;

/// The measured usage of the end of a volume.
#[derive(Clone, Debug)]
pub(crate) struct Usage {
    /// The volume as it was.
    pub(crate) volume: Volume,
    /// The offset up to which the holes are known.
    at: u64,
    /// Bytes with content.
    pub(crate) used: u64,
    /// The end of the last of them.
    pub(crate) last: u64,
}

impl Usage {
    /// Of the bytes from this offset to the end that hosts see.
    pub(crate) fn of(volume: Volume, from: u64) -> Usage {
        Usage { volume, at: from, used: 0, last: 0 }
    }

    /// The next query. None if all is known.
    pub(crate) fn request(&self) -> Option<HostOp> {
        let len = PIECE.min(self.volume.visible.saturating_sub(self.at));
        (len > 0).then_some(HostOp::Holes(Range { offset: self.at, len }))
    }

    /// The usage after this answer for the next piece: lengths, and whether each is a hole.
    pub(crate) fn with(mut self, found: &[(u64, bool)]) -> Usage {
        for (len, hole) in found {
            self.at += len;
            if !hole {
                self.used += len;
                self.last = self.at;
            }
        }
        self
    }

    /// The answer to the operator.
    pub(crate) fn answer(&self) -> Value {
        json!({
            "volume": self.volume.name,
            "size": self.volume.visible,
            "used": self.used,
            "stripe_bytes": self.volume.geometry.stripe_bytes(),
        })
    }
}
