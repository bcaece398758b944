//! The encoding of what the roles that order requests say to one another.

use weft_core::node::{Account, Claim, SequenceMessage, SequenceReport};
use weft_core::order::sequencer::Reach;
use weft_core::order::{Place, PlaceError, RequestId};

use super::code::{wire_enum, wire_struct};

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
    1 = Issue { claim },
    2 = Record { id, owner, oldest },
    3 = Recorded { id },
    4 = Begin { id },
    5 = Refuse { id, why },
    6 = Finished { id, done },
    7 = Close { id, done },
    8 = Closed { id },
    9 = Noted { id },
    10 = Tell { report },
    11 = Told,
    12 = Take { report },
    13 = Taken,
});
