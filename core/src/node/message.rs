//! What nodes say to one another. docs/internals/messages.md shows them in sequence.

mod facts;

use super::{Ask, Holder, HostError, LostRange, SequenceMessage};
use crate::Buffer;
use crate::order::{Asker, Lock, RequestId};
use crate::plan::{Calculators, Part, Range, Role, Span, Waits};
use crate::store::Reached;
use crate::units::{ColumnSet, Epoch, NodeId, Timestamp, VolumeId};

/// A message on its way, with the notices that ride along.
#[derive(Clone, Debug, Hash)]
pub struct Envelope {
    /// Who sends it.
    pub from: NodeId,
    /// Who gets it.
    pub to: NodeId,
    /// The sender's epoch; a message of another epoch is not acted on.
    pub epoch: Epoch,
    /// How many messages, one after the other, led to this one since the host's request.
    pub hops: u8,
    /// What became of writes.
    pub notices: Vec<Notice>,
    /// How far the sender's disk has got.
    pub reached: Reached,
    /// The positions of others' disks that the sender knows.
    pub heard: Vec<(NodeId, Reached)>,
    /// The message itself; notices may travel alone.
    pub body: Option<Body>,
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Notice {
    /// Originator, or who knows of it, to participants: it happened.
    Commit(Timestamp),
    /// Anyone who knows to participants: it did not happen.
    Abort(Timestamp),
    /// Participant to who told it: the outcome is safe here.
    Ack(Timestamp),
    /// Originator to participants: everyone knows, it can be forgotten.
    Release(Timestamp),
    /// Originator to a worker that serves locks: this transaction has read what it read.
    Unlock(Timestamp),
    /// Worker to O: something waits here until it is known what becomes of this write.
    Awaited(Timestamp),
}

impl Notice {
    /// The write that it is about.
    pub fn ts(self) -> Timestamp {
        match self {
            Notice::Commit(ts)
            | Notice::Abort(ts)
            | Notice::Ack(ts)
            | Notice::Release(ts)
            | Notice::Unlock(ts)
            | Notice::Awaited(ts) => ts,
        }
    }
}

/// What a write is: enough for every worker to derive its own part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Its name and place in the order.
    pub ts: Timestamp,
    /// The volume.
    pub volume: VolumeId,
    /// The columns that are not used.
    pub avoid: ColumnSet,
    /// The parities that wait: they are marked, if they are not already, and computed later.
    pub waits: Waits,
    /// The columns that calculate, where the plan leaves that to one of them for each stripe.
    pub calculators: Calculators,
    /// The operation.
    pub task: Task,
    /// Whose request it is part of, if that has a name.
    pub asker: Option<Asker>,
    /// The endpoint that holds its bytes, if that is not who coordinates.
    pub holder: Option<Holder>,
}

/// The kinds of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Task {
    /// A host's data.
    Write(Range),
    /// Computing these parities, counted from 0, of a stripe from its data.
    Refresh {
        /// The stripe.
        stripe: u64,
        /// The bytes of their units, whole sectors.
        part: Span,
        /// Which.
        parities: ColumnSet,
    },
    /// Putting back a column's part of adjacent stripes.
    Rebuild {
        /// The first stripe.
        stripe: u64,
        /// How many stripes.
        stripes: u64,
        /// The column; of a second unit, which is alone, its seat.
        column: usize,
        /// The bytes of each unit, whole sectors.
        part: Span,
    },
    /// A column's part of a stripe is permanently lost: what it is made of is out of date.
    Lose {
        /// The stripe.
        stripe: u64,
        /// The column.
        column: usize,
        /// The bytes of the unit, whole sectors.
        part: Span,
    },
    /// Putting copies in place, and into parity: these bytes, whole sectors in one stripe unit.
    Fold {
        /// The bytes.
        range: Range,
        /// The write that was copied. If there is a later copy nothing is done.
        of: Timestamp,
    },
    /// Permanently lost ones of these bytes, whole sectors in one stripe unit, are zeros from now on. What a host has
    /// written there meanwhile stays.
    Accept(Range),
    /// Copying a column's part of a stripe from the disk that the column leaves.
    Copy {
        /// The stripe.
        stripe: u64,
        /// The column.
        column: usize,
        /// The bytes of the unit, whole sectors.
        part: Span,
    },
}

/// Data that a cell of a plan gets.
#[derive(Clone, Debug, Hash)]
pub struct Item {
    /// The stripe.
    pub stripe: u64,
    /// What it is to the cell that gets it; its place in the unit follows from the plan.
    pub part: Part,
    /// The bytes.
    pub data: Buffer,
}

/// What a read asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wanted {
    /// The data of the range.
    Data,
    /// Every unit of the stripes of the range, parity too: for verifying.
    Stripes,
    /// Which of the range is holes.
    Holes,
    /// Which stripes of the range, which are whole, have anything in use: runs of them.
    Used,
    /// The same, and no write before this read may come later to those that have not.
    UsedBefore,
    /// Which of these stripes have ever been written, by the places on this column's disk.
    Placed,
    /// Which of the range was written in this volume since it lies over others: neither holes nor the content below count.
    Own,
    /// Which stripes of the range, which are whole, have any of that: runs of them.
    UsedOwn,
}

/// Why a worker cannot do its part.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// It comes too late; a timestamp above this one would do.
    Late(Timestamp),
    /// Content of this column is lost, in these stripes and bytes of the unit.
    Erased {
        /// The column.
        column: usize,
        /// Where.
        parts: Vec<(u64, Span)>,
        /// Whether the disk has yet to get it, rather than having lost it.
        behind: bool,
        /// Whether all of it is marked as out of date: deferred parity, or permanently lost content.
        marked: bool,
        /// Whether it is known that the disk has not got it and that no other has it in its place: else it may be there
        /// by and by.
        known: bool,
    },
    /// Too much parity waits already: this write's must not.
    MustNotWait,
    /// The marks that it relies on may be gone: parity that covers this column has been computed since.
    MarksAreGone,
    /// It was aborted.
    Aborted,
    /// A lock was not to be had in time; two may be waiting for each other.
    Busy,
    /// The disk has no free slots for it.
    Full,
    /// The copies that it folds are not there any more.
    NotCopied,
}

/// What a participant knows of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// Nothing, and it will not take part in it any more.
    Unknown,
    /// It is being made durable; ask again.
    Busy,
    /// It is prepared.
    Prepared,
    /// It has happened; `safe` if that is durable.
    Committed {
        /// Whether the outcome is durable.
        safe: bool,
    },
}

/// What a worker remembers of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Recollection {
    /// Something that is or may be part of it is undecided, or it is finding out what it has: ask again.
    Undecided,
    /// All that became of it here.
    All,
    /// It does not remember that far back. Nothing that it would have changed here has been written since.
    Untouched,
    /// It does not remember that far back, and what it would have changed may have been written since.
    Touched,
}

/// A part of a column's unit that its disk lacks, in adjacent stripes, to be rebuilt together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// The volume.
    pub volume: VolumeId,
    /// The first stripe.
    pub stripe: u64,
    /// How many stripes.
    pub stripes: u64,
    /// The unit's seat in them.
    pub seat: usize,
    /// The bytes of each unit.
    pub part: Span,
}

/// A sector that one disk has written or marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DirtySector {
    /// The stripe.
    pub stripe: u64,
    /// The seat of its unit in the stripe.
    pub seat: usize,
    /// Sectors of the unit before it.
    pub within: u64,
    /// The write that wrote it last, or marked it.
    pub version: Timestamp,
}

/// The messages. O is an originator, W a worker.
#[derive(Clone, Debug, Hash)]
pub enum Body {
    /// O to W: send your part of this range.
    Read {
        /// Its name and place in the order.
        ts: Timestamp,
        /// The volume.
        volume: VolumeId,
        /// The range.
        range: Range,
        /// The columns that are not used.
        avoid: ColumnSet,
        /// The columns that solve for lost ones, where the plan assigns that to one of them for each stripe.
        calculators: Calculators,
        /// The requested operation.
        wanted: Wanted,
        /// The endpoint where the content goes, if it is not the sender.
        holder: Option<Holder>,
    },
    /// W to W: what lost data of a read is solved from.
    Show {
        /// The read.
        ts: Timestamp,
        /// Whose cell.
        to: Role,
        /// The data.
        items: Vec<Item>,
    },
    /// W to O: the part, a piece for each stripe.
    ReadReply {
        /// The read.
        ts: Timestamp,
        /// The column that answers.
        column: usize,
        /// Stripes and bytes, in order.
        result: Result<Vec<(u64, Buffer)>, Refusal>,
    },
    /// O to W: take part in this write.
    Write {
        /// The write.
        header: Header,
        /// Data for the worker.
        items: Vec<Item>,
    },
    /// W to W, W to O, O to W: data that cells wait for.
    Part {
        /// The write.
        header: Header,
        /// Whose cells.
        to: Role,
        /// The data.
        items: Vec<Item>,
    },
    /// W to O: prepared, or cannot.
    Vote {
        /// The write.
        ts: Timestamp,
        /// The column that votes.
        column: usize,
        /// The vote.
        vote: Result<(), Refusal>,
    },
    /// W to a controller: lead the rebuild of these parts of my column.
    PutBack {
        /// The parts.
        runs: Vec<Run>,
    },
    /// Anyone to a participant: what do you know of this write?
    Ask {
        /// The write.
        ts: Timestamp,
    },
    /// The answer.
    Answer {
        /// The write.
        ts: Timestamp,
        /// The known outcome.
        standing: Standing,
    },
    /// W to O: do you still wait to hear of this write?
    Query {
        /// The write.
        ts: Timestamp,
    },
    /// The answer.
    QueryReply {
        /// The write.
        ts: Timestamp,
        /// Whether it does.
        waiting: bool,
    },
    /// O to W: make what you have written safe.
    Flush {
        /// To tell answers apart.
        id: u64,
    },
    /// W to O: it is.
    Flushed {
        /// See [`Body::Flush`].
        id: u64,
    },
    /// O to W: compute the parity of this range that waits on your disk, and put none off there meanwhile.
    Refresh {
        /// To tell answers apart.
        id: u64,
        /// The volume.
        volume: VolumeId,
        /// The bytes of it.
        range: Range,
    },
    /// W to O: it is done, except for what cannot be computed.
    Refreshed {
        /// See [`Body::Refresh`].
        id: u64,
        /// Sectors of parity that are left: what they are computed from is away or lost.
        left: u64,
    },
    /// O to W: what became of this request, which is asked for again?
    Recall {
        /// The originator's number for the question.
        id: u64,
        /// The request.
        request: RequestId,
        /// No attempt at it has an earlier timestamp.
        since: Timestamp,
        /// The volume.
        volume: VolumeId,
        /// The part of it that is asked about.
        range: Range,
    },
    /// The answer.
    Recalled {
        /// See [`Body::Recall`].
        id: u64,
        /// What has happened of the request.
        happened: Vec<Range>,
        /// What that is worth.
        recollection: Recollection,
    },
    /// Between originators and the lock server.
    Lock(LockMessage),
    /// A node that is behind to the others: which writes may it have missed?
    Dirty {
        /// The extents: volume, and number in its stripe map.
        extents: Vec<(VolumeId, usize)>,
    },
    /// The answer: for each volume the sectors.
    DirtyReply {
        /// Volumes and their sectors.
        found: Vec<(VolumeId, Vec<DirtySector>)>,
        /// Sectors marked there as stale, whenever that was: of whom has been away it says nothing.
        marked: Vec<(VolumeId, Vec<DirtySector>)>,
        /// What the asker was to write, of writes that have happened and are remembered for its sake.
        owed: Vec<(VolumeId, Vec<DirtySector>)>,
    },
    /// Between the roles that order requests.
    Sequence(SequenceMessage),
    /// O to W: which parts of this range are permanently lost on your disk?
    Lost {
        /// To tell answers apart.
        id: u64,
        /// The volume.
        volume: VolumeId,
        /// The bytes of it.
        range: Range,
    },
    /// The answer.
    LostHere {
        /// See [`Body::Lost`].
        id: u64,
        /// How many bytes are.
        bytes: u64,
        /// The first ranges of them.
        found: Vec<LostRange>,
    },
    /// O to W: what of this range does parity expose that waits on your disk?
    Exposed {
        /// To tell answers apart.
        id: u64,
        /// The volume.
        volume: VolumeId,
        /// The bytes of it.
        range: Range,
    },
    /// The answer.
    ExposedHere {
        /// See [`Body::Exposed`].
        id: u64,
        /// Up to where that was looked for: more was not listed.
        until: u64,
        /// The exposed bytes before that, in order.
        found: Vec<Range>,
    },
    /// Endpoint to controller: carry this out.
    Request(Ask),
    /// Controller to endpoint: what became of it.
    Done {
        /// The volume.
        volume: VolumeId,
        /// The endpoint's number.
        number: u64,
        /// The content read, in adjacent pieces, if it passes the controller.
        result: Result<Vec<Buffer>, HostError>,
        /// The attempts whose pieces count that were placed at the endpoint. Of a write: the content there may be the
        /// new one, or its outcome is unknown.
        counted: Vec<Timestamp>,
    },
    /// Controller to endpoint: I do not know, or no longer know, the request repeated here. Send it again, whole.
    Resend {
        /// The volume.
        volume: VolumeId,
        /// The endpoint's number.
        number: u64,
    },
    /// W to endpoint: what my cells get of you, please; take note of the attempt.
    Fetch {
        /// The attempt.
        header: Header,
        /// The column that asks.
        column: usize,
    },
    /// W to endpoint: the content read.
    Place {
        /// By what it is known to be asked for.
        holder: Holder,
        /// The attempt.
        ts: Timestamp,
        /// The volume.
        volume: VolumeId,
        /// The range.
        range: Range,
        /// The columns that are not used.
        avoid: ColumnSet,
        /// The columns that solve for lost ones.
        calculators: Calculators,
        /// The column that places it.
        column: usize,
        /// Stripes and bytes, in order.
        pieces: Vec<(u64, Buffer)>,
    },
}

/// What originators (O) and the lock server (S) say to each other (shared storage, 4.2).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LockMessage {
    /// O to S: these locks, please.
    Ask {
        /// The originator's number for them.
        id: u64,
        /// All that a transaction needs.
        locks: Vec<Lock>,
        /// Numbers that it gives back on the way.
        back: Vec<u64>,
        /// Whether it keeps them until they are called back.
        keeps: bool,
    },
    /// S to O: they are granted.
    Grant {
        /// The number.
        id: u64,
        /// A timestamp that none who had them before has gone beyond.
        latest: Timestamp,
    },
    /// O to S: these are given back, or not wanted any more.
    Back {
        /// The numbers.
        ids: Vec<u64>,
        /// The latest timestamp that the originator knows.
        latest: Timestamp,
    },
    /// S to O: others want the content kept under these numbers.
    Call {
        /// The numbers.
        ids: Vec<u64>,
    },
    /// O to S, in a new epoch: what it holds.
    Held {
        /// Numbers, locks, and whether they are kept.
        held: Vec<(u64, Vec<Lock>, bool)>,
    },
    /// S to O: it has not said what it holds.
    Tell,
}

impl LockMessage {
    fn name(&self) -> &'static str {
        match self {
            LockMessage::Ask { .. } => "LockAsk",
            LockMessage::Grant { .. } => "LockGrant",
            LockMessage::Back { .. } => "LockBack",
            LockMessage::Call { .. } => "LockCall",
            LockMessage::Held { .. } => "LockHeld",
            LockMessage::Tell => "LockTell",
        }
    }
}
