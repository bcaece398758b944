//! What the journal says of a write when it carries it: the write's first frame may go.

use weft_bytes::{BytesError, Read, Reader, Writer};

use super::frame::{
    Bounds, CHANGE_BYTES, ChangeHead, REDIRECT_LEAST_BYTES, Redirect, decode_change,
    decode_redirect, encode_change, encode_redirect,
};
use crate::units::Timestamp;

/// A write that was prepared in an earlier frame. If that frame is gone, this entry stands for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Carried {
    /// The write.
    pub ts: Timestamp,
    /// What the worker said of it.
    pub meta: Vec<u8>,
    /// How far it is.
    pub standing: Standing,
    /// Its changes; if it has committed, those that are not in place.
    pub changes: Vec<ChangeHead>,
    /// Where whole slots of its content are, if it is undecided.
    pub redirects: Vec<Redirect>,
    /// Sectors in which it has no effect, if it is undecided.
    pub overtaken: Vec<u64>,
}

/// How far a write is that is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Standing {
    /// It is prepared.
    Undecided,
    /// It has committed, and other participants may not know.
    Committed,
    /// All participants know that it has.
    Released,
}

impl Carried {
    /// What must hold of every such entry on a disk of these bounds.
    pub fn check(&self, bounds: Bounds) -> Read<()> {
        bounds.part(&self.changes, &self.redirects)?;
        self.overtaken.iter().try_for_each(|sector| bounds.sector(*sector))?;
        let is_decided = self.standing != Standing::Undecided;
        match self.redirects.len() + self.overtaken.len() {
            0 => Ok(()),
            value if is_decided => Err(BytesError::Bounds {
                what: "an undecided part of a committed write",
                value: value as u64,
            }),
            _ => Ok(()),
        }
    }

    pub(super) fn encode(&self, w: &mut Writer) {
        w.u64(self.ts.0);
        w.u8(match self.standing {
            Standing::Undecided => 0,
            Standing::Committed => 1,
            Standing::Released => 2,
        });
        w.bytes(&self.meta);
        w.list(self.changes.iter(), encode_change);
        w.list(self.redirects.iter(), encode_redirect);
        w.list(self.overtaken.iter(), |w, sector| w.u64(*sector));
    }

    pub(super) fn decode(r: &mut Reader) -> Read<Carried> {
        let ts = Timestamp(r.u64()?);
        let standing = match r.u8()? {
            0 => Standing::Undecided,
            1 => Standing::Committed,
            2 => Standing::Released,
            value => return Err(BytesError::Unknown { what: "standing of a write", value }),
        };
        Ok(Carried {
            ts,
            standing,
            meta: r.bytes()?.to_vec(),
            changes: r.list(CHANGE_BYTES, decode_change)?,
            redirects: r.list(REDIRECT_LEAST_BYTES, decode_redirect)?,
            overtaken: r.list(8, Reader::u64)?,
        })
    }
}
