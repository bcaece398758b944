//! A job of an originator: a chunk of a host's request, a part to rebuild, or a stripe to verify. Each attempt at it is
//! a transaction of its own.

use super::locking::Locked;
use super::spent::Course;
use super::used::Then;
use crate::Buffer;
use crate::cluster::Volume;
use crate::node::assembly::Pieces;
use crate::node::{Modification, Trust};
use crate::order::Again;
use crate::plan::{Range, Span};
use crate::store::Kept;
use crate::units::{ColumnSet, Epoch, NodeId, Timestamp, VolumeId};

/// The purpose of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Purpose {
    Host(u64),
    Rebuild,
    /// A stripe may have been written in part: its parity is made to fit its data.
    Repair,
    /// Copies of this write of a data unit are put in place, and into parity.
    Fold(Timestamp, Kept),
}

/// The operation of a job; each attempt is a transaction of its own.
#[derive(Clone, Debug, Hash)]
pub(super) enum What {
    Read(Range),
    Holes(Range),
    /// Which of the range was written in its own volume.
    Own(Range),
    /// Which stripes are in use: the following steps are done to these alone.
    Used(Range, Then),
    Write(Range, Buffer),
    /// Whether the present content equals the content to write.
    Compare(Range, Buffer),
    /// Rebuild a part of a column, in adjacent stripes.
    Rebuild {
        stripe: u64,
        stripes: u64,
        column: usize,
        part: Span,
    },
    /// Mark a part of a column as permanently lost.
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
    /// The data of the request.
    pub data: Buffer,
    /// It fits one transaction, or need not.
    pub is_whole: bool,
    /// This attempt has read, and `what` has the new content.
    pub has_read: bool,
}

/// An attempt in doubt.
#[derive(Clone, Debug, Hash)]
pub(super) struct Doubt {
    pub again: Again,
    /// The participants. Their memory of it is valid, although they have no say in it.
    pub participants: Vec<NodeId>,
}

#[derive(Clone, Debug, Hash)]
pub(super) struct Job {
    pub purpose: Purpose,
    pub volume: VolumeId,
    pub what: What,
    /// The rest of a range whose use is unknown: asked about after this part.
    pub rest: Option<Range>,
    /// Columns found unreadable during the job.
    pub avoid: ColumnSet,
    /// Those of them whose disks have lost the content permanently, and those of these that have marked it.
    pub bad: ColumnSet,
    pub marked: ColumnSet,
    /// The parities, counted from 0, that are computed together from the data: the one that it rebuilds, and others.
    pub with: ColumnSet,
    /// Whether all its parity is deferred, since it cannot be computed now, or none may be.
    pub must_wait: bool,
    pub must_not_wait: bool,
    /// It writes only permanently lost content.
    pub accepts: bool,
    pub attempts: u32,
    /// Its claim to precedence, if others overtook it often.
    pub claim: Option<u64>,
    /// How often it has forgotten the columns to avoid.
    pub fresh_looks: u32,
    /// Whether a rebuild must be computed even where it could be copied.
    pub computes: bool,
    /// Columns that a rebuild must not be computed from, because they are wrong themselves.
    pub mistrusts: ColumnSet,
    /// Its locks of the lock server.
    pub locked: Option<Locked>,
    /// It is known not to have happened before.
    pub recalled: bool,
    /// An attempt that may have happened, in which no node has a say any more.
    pub in_doubt: Option<Box<Doubt>>,
    /// Columns that it goes round though they are there, once that is decided, and how often it has begun again for that.
    pub detour: Option<ColumnSet>,
    pub hedges: u8,
    /// What its first attempt has read: only with a deliberate bug.
    pub kept: Pieces,
    /// A read-modify-write: an attempt reads before it writes.
    pub modifies: Option<Box<Modifies>>,
    /// Its bytes count as in progress.
    pub has_room: bool,
    /// Its time by cause.
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
        Modifies { by, data, is_whole: self.is_whole, has_read: false }
    }

    /// Whether the content found may be its own result; `wanted` are the bytes of the request.
    pub fn may_have_left(&self, wanted: &[u8], found: &[u8]) -> bool {
        match self.by {
            Modification::IfEqual(_) => wanted == found,
            Modification::Or => wanted.iter().zip(found).all(|(bits, byte)| byte & bits == *bits),
        }
    }
}

impl Job {
    /// Whether an earlier attempt at it may have been prepared, here or at another node.
    pub fn may_be_prepared(&self) -> bool {
        self.attempts > 0 || self.recalled
    }

    pub fn new(purpose: Purpose, volume: VolumeId, what: What) -> Job {
        Job {
            purpose,
            volume,
            what,
            rest: None,
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
            kept: Pieces::new(),
            modifies: None,
            has_room: false,
            course: Course::default(),
        }
    }

    /// The write whose copies it folds, if it does.
    pub fn folds(&self) -> Option<Timestamp> {
        match self.purpose {
            Purpose::Fold(of, _) => Some(of),
            Purpose::Host(_) | Purpose::Rebuild | Purpose::Repair => None,
        }
    }

    /// Whether an attempt at it must read before it writes.
    pub fn reads_first(&self) -> bool {
        self.modifies.as_ref().is_some_and(|m| !m.has_read) && matches!(self.what, What::Write(..))
    }

    /// Whether it can do without a column's content if the others determine it. One that reads before it writes cannot:
    /// it writes that column, too.
    pub fn can_avoid_columns(&self) -> bool {
        match self.what {
            What::Read(_)
            | What::Holes(_)
            | What::Own(_)
            | What::Compare(..)
            | What::Rebuild { .. } => true,
            What::Used(..) | What::Write(..) | What::Lose { .. } | What::Verify { .. } => false,
        }
    }

    /// Whether it goes round columns that are there.
    pub fn takes_detour(&self) -> bool {
        self.detour.is_some_and(|columns| !columns.is_empty())
    }

    /// The next attempt reads again.
    pub fn is_to_read(&mut self) {
        if let (Some(m), What::Write(_, data)) = (&mut self.modifies, &mut self.what) {
            m.has_read = false;
            debug_assert_eq!(m.data.len(), data.len(), "it is of the same part");
            *data = m.data.clone();
        }
    }

    /// No node has a say any more in an attempt at it that began before this epoch.
    pub fn doubts(&mut self, ts: Timestamp, now: Epoch, participants: Vec<NodeId>) {
        let again = Again { since: ts, epoch: now - 1 };
        self.in_doubt = Some(Box::new(Doubt { again, participants }));
        self.recalled = false;
    }

    /// Whether content is permanently lost is determined again: it is rebuilt if possible.
    pub fn doubts_loss(&mut self) -> bool {
        let What::Lose { stripe, column, part } = self.what else { return false };
        self.what = What::Rebuild { stripe, stripes: 1, column, part };
        self.look_anew();
        true
    }

    /// It determines the usable columns again.
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

    /// The bytes that it holds while in progress.
    pub fn bytes(&self) -> u64 {
        match &self.what {
            What::Read(range) | What::Write(range, _) | What::Compare(range, _) => range.len,
            What::Used(..) => super::used::COST,
            _ => 0,
        }
    }
}

impl What {
    /// The host's bytes that it writes.
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
            | What::Own(r)
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
            | What::Own(r)
            | What::Used(r, _)
            | What::Write(r, _)
            | What::Compare(r, _) => r.offset,
            What::Rebuild { .. } | What::Lose { .. } | What::Verify { .. } => 0,
        }
    }
}
