//! The encoding of what nodes say to one another.

use weft_core::node::{
    Account, Ask, Body, Claim, DirtySector, Envelope, Header, Holder, HostError, Item, Key,
    LockMessage, LostRange, Notice, Recollection, Refusal, Run, SequenceMessage, SequenceReport,
    Stage, Standing, Task, Wanted, Wish,
};
use weft_core::order::sequencer::Reach;
use weft_core::order::{Again, Asker, Origin, Place, PlaceError, RequestId};

use weft_core::order::Lock;
use weft_core::plan::{Calculators, Part, Role, Waits};
use weft_core::store::Reached;

use weft_bytes::{BytesError, Read};

use super::code::{Reader, Wire, Writer, wire_enum, wire_struct};

wire_struct!(Envelope { from, to, epoch, hops, notices, reached, heard, body });

wire_struct!(Reached { disk, life, frame, sequence });

wire_struct!(Waits { parities, marked_since, must, copied });

wire_struct!(Header { ts, volume, avoid, waits, calculators, task, asker, holder });

wire_struct!(Holder { node, number, key });

wire_struct!(Asker { id, oldest });

wire_struct!(DirtySector { stripe, seat, within, version });

wire_struct!(LostRange { range, since });

wire_struct!(Run { volume, stripe, stripes, seat, part });

wire_struct!(Item { stripe, part, data });

wire_enum!(Notice, "notice" {
    1 = Commit(ts),
    2 = Abort(ts),
    3 = Ack(ts),
    4 = Release(ts),
    5 = Unlock(ts),
    6 = Awaited(ts),
});

wire_enum!(Task, "task" {
    1 = Write(range),
    2 = Rebuild { stripe, stripes, column, part },
    3 = Copy { stripe, column, part },
    4 = Lose { stripe, column, part },
    5 = Accept(range),
    6 = Refresh { stripe, part, parities },
    7 = Fold { range, of },
});

wire_enum!(Part, "part" {
    1 = New,
    2 = From(column),
    3 = Solved(unit),
    4 = NewOf(unit),
    5 = Result,
    6 = Sum { from, of },
});

wire_enum!(Role, "role" {
    1 = Column(column),
    2 = Source(column),
    3 = Calculator,
    4 = Endpoint,
    5 = Coordinator,
});

wire_enum!(Wanted, "wish of a read" {
    1 = Data,
    2 = Stripes,
    3 = Holes,
    4 = Used,
    5 = UsedBefore,
    6 = Placed,
    7 = Own,
    8 = UsedOwn,
});

wire_enum!(Refusal, "refusal" {
    1 = Late(ts),
    2 = Erased { column, parts, behind, marked, known },
    3 = Aborted,
    4 = Busy,
    5 = MustNotWait,
    6 = MarksAreGone,
    7 = Full,
    8 = NotCopied,
});

wire_enum!(Standing, "standing" {
    1 = Unknown,
    2 = Busy,
    3 = Prepared,
    4 = Committed { safe },
});

wire_enum!(Recollection, "recollection" {
    1 = Undecided,
    2 = All,
    3 = Untouched,
    4 = Touched,
});

wire_enum!(Body, "body" {
    1 = Read { ts, volume, range, avoid, calculators, wanted, holder },
    2 = ReadReply { ts, column, result },
    3 = Write { header, items },
    4 = Part { header, to, items },
    5 = Vote { ts, column, vote },
    6 = Ask { ts },
    7 = Answer { ts, standing },
    8 = Query { ts },
    9 = QueryReply { ts, waiting },
    10 = Flush { id },
    11 = Flushed { id },
    12 = Dirty { extents },
    13 = DirtyReply { found, marked, owed },
    14 = Lock(message),
    15 = Sequence(message),
    16 = Recall { id, request, since, volume, range },
    17 = Recalled { id, happened, recollection },
    18 = Refresh { id, volume, range },
    19 = Refreshed { id, left },
    20 = Lost { id, volume, range },
    21 = LostHere { id, bytes, found },
    22 = Request(ask),
    23 = Done { volume, number, result, counted },
    24 = Fetch { header, column },
    25 = Place { holder, ts, volume, range, avoid, calculators, column, pieces },
    26 = Show { ts, to, items },
    27 = Resend { volume, number },
    28 = Exposed { id, volume, range },
    29 = ExposedHere { id, until, found },
    30 = PutBack { runs },
});

wire_struct!(Ask { number, oldest, key, volume, wish, origin, after, stage });

wire_enum!(Stage, "stage of a request" {
    1 = New,
    2 = Repeated,
    3 = Abandoned,
});

wire_enum!(Wish, "wish of an endpoint" {
    1 = Read(range),
    2 = Write(range, data),
});

wire_struct!(Origin { asker, again, permitted });

wire_struct!(Again { since, epoch });

impl Wire for Key {
    fn put(&self, w: &mut Writer) {
        self.0.put(w);
    }
    fn take(r: &mut Reader<'_>) -> Read<Self> {
        Ok(Key(Wire::take(r)?))
    }
}

wire_enum!(HostError, "reason why a request failed" {
    1 = NoVolume,
    2 = TooManyLost,
    3 = NoProgress { attempts },
    4 = OutOfRange { offset, len, size },
    5 = Gone,
    6 = OutcomeUnknown,
    7 = NotServing,
    8 = Place(why),
    9 = ReadOnly,
    10 = Outdated,
    11 = Reserved,
    12 = Differs { at },
    13 = NotOffered,
    14 = NoSpace,
    15 = Unrelated,
});

wire_struct!(RequestId { host, number });

wire_struct!(Place { id, after, oldest });

wire_struct!(Reach { volume, range, writes });

wire_struct!(Claim { place, reach });

wire_struct!(Account { host, oldest, done, aborted });

wire_struct!(SequenceReport { claims, open, accounts });

wire_enum!(PlaceError, "reason for a refusal" {
    1 = AfterItself(id),
    2 = Cycle(id),
    3 = Reused(id),
    4 = TooLate(id),
    5 = TooFarAhead { id, oldest, bound },
    6 = TooManyUnissued { host, bound },
    7 = Aborted(id),
    8 = NeverIssued(id),
    9 = NotOrdered(id),
});

wire_enum!(SequenceMessage, "message of a sequencer" {
    1 = Issue { claim, rank },
    2 = Record { id, owner, oldest },
    3 = Recorded { id },
    4 = Begin { id },
    5 = Refuse { id, why },
    6 = Finished { id, oldest, done },
    7 = Close { id, done },
    8 = Closed { id },
    9 = Noted { id },
    10 = Tell { report, originates },
    11 = Told,
    12 = Take { report },
    13 = Taken,
    14 = Placed { id, rank, after, behind },
    15 = Join,
    16 = Joined { claims, clock },
});

wire_enum!(LockMessage, "message of the lock server" {
    1 = Ask { id, locks, back, keeps },
    2 = Grant { id, latest },
    3 = Back { ids, latest },
    4 = Call { ids },
    5 = Held { held },
    6 = Tell,
});

wire_struct!(Lock { disk, sectors, exclusive });

impl Wire for Calculators {
    fn put(&self, w: &mut Writer) {
        (self.columns().len() as u8).put(w);
        self.columns().iter().for_each(|column| column.put(w));
    }
    fn take(r: &mut Reader<'_>) -> Read<Self> {
        let count = u8::take(r)?;
        let columns = (0..count).map(|_| u8::take(r)).collect::<Read<Vec<u8>>>()?;
        let (what, value) = ("the number of calculators", count.into());
        Calculators::new(&columns).ok_or(BytesError::Bounds { what, value })
    }
}

impl Wire for std::ops::Range<u64> {
    fn put(&self, w: &mut Writer) {
        self.start.put(w);
        self.end.put(w);
    }
    fn take(r: &mut Reader<'_>) -> Read<Self> {
        let (start, end) = (u64::take(r)?, u64::take(r)?);
        if start > end {
            return Err(BytesError::Bounds {
                what: "the start of a range of sectors",
                value: start,
            });
        }
        Ok(start..end)
    }
}
