//! A job of an originator: a chunk of a host's request, a part to be put back, or a stripe to be verified.
//! Each attempt at it is a transaction of its own.

use super::locking::Locked;
use super::spent::Course;
use super::used::Then;
use crate::Buffer;
use crate::cluster::Volume;
use crate::node::{Modification, Trust};
use crate::order::Again;
use crate::plan::{Range, Span};
use crate::units::{ColumnSet, Epoch, NodeId, Timestamp, VolumeId};

/// What a job is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Purpose {
    Host(u64),
    Rebuild,
    /// A stripe may have been written in part: its parity is made to fit its data.
    Repair,
}

/// What a job does; each attempt is a transaction of its own.
#[derive(Clone, Debug, Hash)]
pub(super) enum What {
    Read(Range),
    Holes(Range),
    /// Which stripes are in use: what follows is done to these alone.
    Used(Range, Then),
    Write(Range, Buffer),
    /// Whether what stands there is what was to be written.
    Compare(Range, Buffer),
    /// A part of a column is put back, in adjacent stripes.
    Rebuild {
        stripe: u64,
        stripes: u64,
        column: usize,
        part: Span,
    },
    /// A part of a column is lost for good.
    Lose {
        stripe: u64,
        column: usize,
        part: Span,
    },
    Verify {
        stripe: u64,
        trust: Trust,
    },
}

/// A read-modify-write.
#[derive(Clone, Debug, Hash)]
pub(super) struct Modifies {
    pub by: Modification,
    /// The bytes that it brings along.
    pub data: Buffer,
    /// This attempt has read, and `what` has the new content.
    pub has_read: bool,
}

/// An attempt in doubt.
#[derive(Clone, Debug, Hash)]
pub(super) struct Doubt {
    pub again: Again,
    /// Who took part. What they remember of it is true, though they have no say in it.
    pub participants: Vec<NodeId>,
}

#[derive(Clone, Debug, Hash)]
pub(super) struct Job {
    pub purpose: Purpose,
    pub volume: VolumeId,
    pub what: What,
    /// Columns found unreadable on the way.
    pub avoid: ColumnSet,
    /// Those of them whose disks have lost it for good, and those of these that have marked it.
    pub bad: ColumnSet,
    pub marked: ColumnSet,
    /// The parities, counted from 0, that are computed in one go from the data: the one that it puts back, and others.
    pub with: ColumnSet,
    /// All its parity waits, since it cannot be computed now; no parity of it may.
    pub must_wait: bool,
    pub must_not_wait: bool,
    /// It writes only where something is lost for good.
    pub accepts: bool,
    pub attempts: u32,
    /// Its claim to go before others, if it was passed over often.
    pub claim: Option<u64>,
    /// How often it has forgotten which columns to avoid.
    pub fresh_looks: u32,
    /// Whether a rebuild is to be computed even where it could be copied.
    pub computes: bool,
    /// Columns from which a rebuild is not to be computed, because they are wrong themselves.
    pub mistrusts: ColumnSet,
    /// What it has of the lock server.
    pub locked: Option<Locked>,
    /// It is known that it has not happened before.
    pub recalled: bool,
    /// An attempt at it that may have happened, in which nobody has a say any more.
    pub in_doubt: Option<Box<Doubt>>,
    /// Columns that it goes round though they are there, once that is decided, and how often it has begun again for that.
    pub detour: Option<ColumnSet>,
    pub hedges: u8,
    /// A read-modify-write: an attempt reads before it writes.
    pub modifies: Option<Box<Modifies>>,
    /// Its bytes count as in work.
    pub has_room: bool,
    /// Where its time goes.
    pub course: Course,
}

impl Modifies {
    /// The same for a part of the range.
    pub fn part(&self, at: usize, len: usize) -> Modifies {
        let data = self.data.slice(at, at + len);
        let by = match &self.by {
            Modification::IfEqual(expected) => Modification::IfEqual(expected.slice(at, at + len)),
            Modification::Or => Modification::Or,
        };
        Modifies { by, data, has_read: false }
    }

    /// Whether the content that was found may be its own result; `wanted` are the bytes of the request.
    pub fn may_have_left(&self, wanted: &[u8], found: &[u8]) -> bool {
        match self.by {
            Modification::IfEqual(_) => wanted == found,
            Modification::Or => wanted.iter().zip(found).all(|(bits, byte)| byte & bits == *bits),
        }
    }
}

impl Job {
    pub fn new(purpose: Purpose, volume: VolumeId, what: What) -> Job {
        Job {
            purpose,
            volume,
            what,
            avoid: ColumnSet::EMPTY,
            bad: ColumnSet::EMPTY,
            marked: ColumnSet::EMPTY,
            with: ColumnSet::EMPTY,
            must_wait: false,
            must_not_wait: false,
            accepts: false,
            attempts: 0,
            claim: None,
            fresh_looks: 0,
            computes: false,
            mistrusts: ColumnSet::EMPTY,
            locked: None,
            recalled: false,
            in_doubt: None,
            detour: None,
            hedges: 0,
            modifies: None,
            has_room: false,
            course: Course::default(),
        }
    }

    /// Whether an attempt at it is to read before it writes.
    pub fn reads_first(&self) -> bool {
        self.modifies.as_ref().is_some_and(|m| !m.has_read) && matches!(self.what, What::Write(..))
    }

    /// The next attempt reads anew.
    pub fn is_to_read(&mut self) {
        if let (Some(m), What::Write(_, data)) = (&mut self.modifies, &mut self.what) {
            m.has_read = false;
            debug_assert_eq!(m.data.len(), data.len(), "it is of the same part");
            *data = m.data.clone();
        }
    }

    /// Nobody has a say any more in an attempt at it that began before this epoch.
    pub fn doubts(&mut self, ts: Timestamp, now: Epoch, participants: Vec<NodeId>) {
        let again = Again { since: ts, epoch: now - 1 };
        self.in_doubt = Some(Box::new(Doubt { again, participants }));
        self.recalled = false;
    }

    /// Whether something is lost for good is found out anew: it is put back if it can be.
    pub fn doubts_loss(&mut self) -> bool {
        let What::Lose { stripe, column, part } = self.what else { return false };
        self.what = What::Rebuild { stripe, stripes: 1, column, part };
        self.look_anew();
        true
    }

    /// It looks again at which columns can be used.
    pub fn look_anew(&mut self) {
        (self.avoid, self.bad, self.marked) =
            (ColumnSet::EMPTY, ColumnSet::EMPTY, ColumnSet::EMPTY);
    }

    /// The stripes of a rebuild of several.
    pub fn joined(&self) -> Option<std::ops::Range<u64>> {
        match self.what {
            What::Rebuild { stripe, stripes: stripes @ 2.., .. } => Some(stripe..stripe + stripes),
            _ => None,
        }
    }

    /// Bytes that it holds while in work.
    pub fn bytes(&self) -> u64 {
        match &self.what {
            What::Read(range) | What::Write(range, _) | What::Compare(range, _) => range.len,
            What::Used(..) => super::used::COST,
            _ => 0,
        }
    }
}

impl What {
    /// What it writes of a host's.
    pub fn written(&self) -> Option<(Range, &Buffer)> {
        match self {
            What::Write(range, data) => Some((*range, data)),
            _ => None,
        }
    }

    pub fn stripes(&self, volume: &Volume) -> std::ops::Range<u64> {
        match self {
            What::Read(r)
            | What::Holes(r)
            | What::Used(r, _)
            | What::Write(r, _)
            | What::Compare(r, _) => r.stripes(&volume.geometry),
            What::Rebuild { stripe, stripes, .. } => *stripe..*stripe + *stripes,
            What::Lose { stripe, .. } | What::Verify { stripe, .. } => *stripe..*stripe + 1,
        }
    }

    pub fn first_stripe(&self, volume: &Volume) -> u64 {
        self.stripes(volume).start
    }

    pub fn offset(&self) -> u64 {
        match self {
            What::Read(r)
            | What::Holes(r)
            | What::Used(r, _)
            | What::Write(r, _)
            | What::Compare(r, _) => r.offset,
            What::Rebuild { .. } | What::Lose { .. } | What::Verify { .. } => 0,
        }
    }
}
