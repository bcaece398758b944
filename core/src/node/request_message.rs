//! What endpoints and the controller say to each other (TPT-RAID, section 3).

use super::Key;
use crate::Buffer;
use crate::order::Origin;
use crate::plan::Range;
use crate::units::{NodeId, Timestamp, VolumeId};

/// Who holds the bytes of a request, or is to have them, and by what those who act for it show that they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Holder {
    /// The endpoint.
    pub node: NodeId,
    /// Its number of the request.
    pub number: u64,
    /// Good for this request alone.
    pub key: Key,
}

/// A request, or a part of one, as an endpoint asks the controller to carry it out. It is repeated without bytes until
/// it is answered; in a new epoch it goes to the controller of that.
#[derive(Clone, Debug, Hash)]
pub struct Ask {
    /// Its number. Each endpoint counts those of each volume.
    pub number: u64,
    /// The oldest number of the volume's that the endpoint has not heard the end of.
    pub oldest: u64,
    /// By which those who act for it are known to the endpoint.
    pub key: Key,
    /// The volume.
    pub volume: VolumeId,
    /// What is to be done.
    pub wish: Wish,
    /// Whose request it is, and whether it has been asked for before.
    pub origin: Origin,
    /// The endpoint's clock: attempts have later timestamps.
    pub after: Timestamp,
    /// What the controller may know of it.
    pub stage: Stage,
}

/// What the controller may know of a request that an endpoint asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// It may know nothing: it has not been asked in this epoch, or asks for it anew. The wish is whole.
    New,
    /// It has been asked, and has not answered for long. A write comes without bytes.
    Repeated,
    /// The host is gone: nothing of it is to begin any more. A write comes without bytes.
    Abandoned,
}

/// What is to be done.
#[derive(Clone, Debug, Hash)]
pub enum Wish {
    /// The range is read.
    Read(Range),
    /// The range is written: with these bytes, with those that the endpoint keeps, or with those that came before.
    Write(Range, Option<Buffer>),
}

impl Wish {
    /// The bytes of the volume.
    pub fn range(&self) -> Range {
        match self {
            Wish::Read(range) | Wish::Write(range, _) => *range,
        }
    }

    /// Whether it changes anything.
    pub fn writes(&self) -> bool {
        matches!(self, Wish::Write(..))
    }

    /// Bytes that travel with it.
    pub fn payload(&self) -> u64 {
        match self {
            Wish::Read(_) | Wish::Write(_, None) => 0,
            Wish::Write(_, Some(data)) => data.len() as u64,
        }
    }
}
