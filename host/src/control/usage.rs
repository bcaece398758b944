//! How much of a volume has content, found from its maps of holes, piece by piece.

use serde_json::{Value, json};
use weft_core::cluster::Volume;
use weft_core::node::HostOp;
use weft_core::plan::Range;
use weft_core::units::VolumeId;

/// Bytes of a query.
const PIECE: u64 = 64 << 20;

/// A volume whose usage is being measured.
#[derive(Clone, Debug)]
pub(crate) struct Usage {
    /// The volume.
    pub(crate) volume: VolumeId,
    name: String,
    size: u64,
    stripe_bytes: u64,
    /// The offset up to which the holes are known.
    at: u64,
    used: u64,
}

impl Usage {
    /// Of this volume.
    pub(crate) fn of(volume: &Volume) -> Usage {
        Usage {
            volume: volume.id,
            name: volume.name.clone(),
            size: volume.visible,
            stripe_bytes: volume.geometry.stripe_bytes(),
            at: 0,
            used: 0,
        }
    }

    /// The next query. None if all is known.
    pub(crate) fn request(&self) -> Option<HostOp> {
        let len = PIECE.min(self.size - self.at);
        (len > 0).then_some(HostOp::Holes(Range { offset: self.at, len }))
    }

    /// The usage after this answer for the next piece: lengths, and whether each is a hole.
    pub(crate) fn with(mut self, found: &[(u64, bool)]) -> Usage {
        for (len, hole) in found {
            let len = (*len).min(self.size - self.at);
            self.at += len;
            self.used += if *hole { 0 } else { len };
        }
        self
    }

    /// The answer to the operator.
    pub(crate) fn answer(&self) -> Value {
        json!({
            "volume": self.name,
            "size": self.size,
            "used": self.used,
            "stripe_bytes": self.stripe_bytes,
        })
    }
}
