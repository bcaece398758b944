//! Round trips of arbitrary messages, and what bad bytes come to.

mod fixed;
mod header;
mod images;
mod requests;
mod volume;

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use weft_core::Buffer;
use weft_core::cluster::{
    Access, Attendance, Certificate, ClusterMap, Deletion, Extent, Hold, Home, Import, KnownHost,
    Lineage, NodeInfo, NodeKind, PolicyRange, Registrant, Removal, Reservation, ReservationKind,
    ReservationOutcome, Reservations, SealedSecret, Settings, Snapshot, Source, TimeAway, Volume,
};
use weft_core::layout::{Geometry, Grid, Layout, Local, Placement, Rotating};
use weft_core::node::{
    Account, Ask, Body, Claim, DirtySector, Envelope, Header, Holder, HostError, Item, Key,
    LockMessage, LostRange, MapMessage, MemberReport, Memory, Notice, Recollection, Refusal, Run,
    SequenceMessage, SequenceReport, Stage, Standing, Task, Undescribed, Wanted, Wish,
};
use weft_core::order::sequencer::Reach;
use weft_core::order::{Again, Asker, HostId, Lock, Origin, Place, PlaceError, RequestId};
use weft_core::plan::{Calculators, Part, Range, Role, Span, Waits};
use weft_core::policy::{CHOICES, Choice, Every, Policy};
use weft_core::store::Reached;
use weft_core::units::{ColumnSet, NodeId, SECTOR, Timestamp, VolumeId};

use weft_bytes::BytesError;

use requests::{asked, asker, done, holder};

use header::{calculators, header};
use volume::{times_away, volume};

use super::{MAX_BULK, Message, VERSION, WireError};

fn ts() -> impl Strategy<Value = Timestamp> {
    any::<u64>().prop_map(Timestamp)
}

fn node() -> impl Strategy<Value = NodeId> {
    (0..4096u16).prop_map(NodeId)
}

fn volume_id() -> impl Strategy<Value = VolumeId> {
    any::<u32>().prop_map(VolumeId)
}

fn buffer() -> impl Strategy<Value = Buffer> {
    prop_oneof![
        vec(any::<u8>(), 0..200).prop_map(Buffer::from),
        (0..100_000usize).prop_map(Buffer::Zero),
    ]
}

fn range() -> impl Strategy<Value = Range> {
    (any::<u64>(), any::<u64>())
        .prop_map(|(offset, len)| Range { offset, len: len.min(u64::MAX - offset) })
}

fn span() -> impl Strategy<Value = Span> {
    (any::<u64>(), any::<u64>()).prop_map(|(a, b)| Span { lo: a.min(b), hi: a.max(b) })
}

fn run() -> impl Strategy<Value = Run> {
    let stripes = (any::<u64>(), any::<u64>());
    (volume_id(), stripes, 0..32usize, span()).prop_map(
        |(volume, (stripe, stripes), seat, part)| Run { volume, stripe, stripes, seat, part },
    )
}

fn items() -> impl Strategy<Value = Vec<Item>> {
    let part = prop_oneof![
        Just(Part::New),
        (0..32usize).prop_map(Part::From),
        (0..32usize).prop_map(Part::Solved),
        (0..32usize).prop_map(Part::NewOf),
        Just(Part::Result),
        (0..32usize, 0..32usize).prop_map(|(from, of)| Part::Sum { from, of }),
    ];
    let item = (any::<u64>(), part, buffer());
    vec(item.prop_map(|(stripe, part, data)| Item { stripe, part, data }), 0..4)
}

fn role() -> impl Strategy<Value = Role> {
    prop_oneof![
        (0..32usize).prop_map(Role::Column),
        (0..32usize).prop_map(Role::Source),
        Just(Role::Calculator),
        Just(Role::Endpoint),
        Just(Role::Coordinator),
    ]
}

fn refusal() -> impl Strategy<Value = Refusal> {
    prop_oneof![
        ts().prop_map(Refusal::Late),
        (0..32usize, vec((any::<u64>(), span()), 0..4)).prop_map(|(column, parts)| {
            let (behind, marked) = (column % 2 == 0, column % 3 == 0);
            Refusal::Erased { column, parts, behind, marked, known: column % 5 == 0 }
        }),
        Just(Refusal::Aborted),
        Just(Refusal::Busy),
        Just(Refusal::MustNotWait),
        Just(Refusal::Full),
        Just(Refusal::NotCopied),
        Just(Refusal::MarksAreGone),
    ]
}

fn vote() -> impl Strategy<Value = Result<(), Refusal>> {
    prop_oneof![Just(Ok(())), refusal().prop_map(Err)]
}

fn body() -> BoxedStrategy<Body> {
    let wanted = select(vec![
        Wanted::Data,
        Wanted::Stripes,
        Wanted::Holes,
        Wanted::Used,
        Wanted::UsedBefore,
        Wanted::Placed,
    ]);
    let pieces = vec((any::<u64>(), buffer()), 0..4);
    let placed = vec((any::<u64>(), buffer()), 0..4);
    let result = prop_oneof![pieces.prop_map(Ok), refusal().prop_map(Err)];
    let standing = prop_oneof![
        Just(Standing::Unknown),
        Just(Standing::Busy),
        Just(Standing::Prepared),
        any::<bool>().prop_map(|safe| Standing::Committed { safe }),
    ];
    let dirty = (any::<u64>(), 0..32usize, any::<u64>(), ts())
        .prop_map(|(stripe, seat, within, version)| DirtySector { stripe, seat, within, version });
    let found = vec((volume_id(), vec(dirty, 0..4)), 0..3);
    let recollections = {
        use Recollection::*;
        vec![Undecided, All, Untouched, Touched]
    };
    prop_oneof![
        (ts(), volume_id(), range(), any::<u32>(), calculators(), wanted, option::of(holder()))
            .prop_map(|(ts, volume, range, avoid, calculators, wanted, holder)| Body::Read {
                ts,
                volume,
                range,
                avoid: ColumnSet(avoid),
                calculators,
                wanted,
                holder
            }),
        (ts(), role(), items()).prop_map(|(ts, to, items)| Body::Show { ts, to, items }),
        (ts(), 0..32usize, result).prop_map(|(ts, column, result)| Body::ReadReply {
            ts,
            column,
            result
        }),
        (header(), items()).prop_map(|(header, items)| Body::Write { header, items }),
        (header(), role(), items()).prop_map(|(header, to, items)| Body::Part {
            header,
            to,
            items
        }),
        (ts(), 0..32usize, vote()).prop_map(|(ts, column, vote)| Body::Vote { ts, column, vote }),
        ts().prop_map(|ts| Body::Ask { ts }),
        (ts(), standing).prop_map(|(ts, standing)| Body::Answer { ts, standing }),
        ts().prop_map(|ts| Body::Query { ts }),
        vec(run(), 0..3).prop_map(|runs| Body::PutBack { runs }),
        (ts(), any::<bool>()).prop_map(|(ts, waiting)| Body::QueryReply { ts, waiting }),
        any::<u64>().prop_map(|id| Body::Flush { id }),
        any::<u64>().prop_map(|id| Body::Flushed { id }),
        (any::<u64>(), volume_id(), range()).prop_map(|(id, volume, range)| Body::Refresh {
            id,
            volume,
            range
        }),
        any::<(u64, u64)>().prop_map(|(id, left)| Body::Refreshed { id, left }),
        (any::<u64>(), volume_id(), range()).prop_map(|(id, volume, range)| Body::Lost {
            id,
            volume,
            range
        }),
        (any::<(u64, u64)>(), vec((range(), ts()), 0..4)).prop_map(|((id, bytes), found)| {
            let lost = |(range, since)| LostRange { range, since };
            Body::LostHere { id, bytes, found: found.into_iter().map(lost).collect() }
        }),
        (any::<u64>(), volume_id(), range()).prop_map(|(id, volume, range)| Body::Exposed {
            id,
            volume,
            range
        }),
        (any::<(u64, u64)>(), vec(range(), 0..4))
            .prop_map(|((id, until), found)| Body::ExposedHere { id, until, found }),
        (any::<u64>(), request(), ts(), volume_id(), range()).prop_map(
            |(id, request, since, volume, range)| Body::Recall {
                id,
                request,
                since,
                volume,
                range
            }
        ),
        (any::<u64>(), vec(range(), 0..4), select(recollections))
            .prop_map(|(id, happened, recollection)| Body::Recalled { id, happened, recollection }),
        vec((volume_id(), 0..9usize), 0..4).prop_map(|extents| Body::Dirty { extents }),
        vec(found, 3).prop_map(|mut found| Body::DirtyReply {
            owed: found.pop().expect("three"),
            marked: found.pop().expect("three"),
            found: found.pop().expect("three"),
        }),
        lock_message().prop_map(Body::Lock),
        sequence().prop_map(Body::Sequence),
        asked().prop_map(Body::Request),
        (volume_id(), any::<u64>(), done(), vec(ts(), 0..3)).prop_map(
            |(volume, number, result, counted)| Body::Done { volume, number, result, counted }
        ),
        (volume_id(), any::<u64>()).prop_map(|(volume, number)| Body::Resend { volume, number }),
        (header(), 0..32usize).prop_map(|(header, column)| Body::Fetch { header, column }),
        (holder(), ts(), volume_id(), (range(), any::<u32>(), calculators()), 0..32usize, placed)
            .prop_map(|(holder, ts, volume, (range, avoid, calculators), column, pieces)| {
                let avoid = ColumnSet(avoid);
                Body::Place { holder, ts, volume, range, avoid, calculators, column, pieces }
            }),
    ]
    .boxed()
}

fn locks() -> impl Strategy<Value = Vec<Lock>> {
    let sectors = (any::<u32>(), any::<u32>());
    let lock = (0..64u16, sectors, any::<bool>()).prop_map(|(disk, (from, len), exclusive)| Lock {
        disk: NodeId(disk),
        sectors: u64::from(from)..u64::from(from) + u64::from(len),
        exclusive,
    });
    vec(lock, 0..4)
}

fn lock_message() -> impl Strategy<Value = LockMessage> {
    let ids = || vec(any::<u64>(), 0..4);
    prop_oneof![
        (any::<u64>(), locks(), ids(), any::<bool>())
            .prop_map(|(id, locks, back, keeps)| LockMessage::Ask { id, locks, back, keeps }),
        (any::<u64>(), ts()).prop_map(|(id, latest)| LockMessage::Grant { id, latest }),
        (ids(), ts()).prop_map(|(ids, latest)| LockMessage::Back { ids, latest }),
        ids().prop_map(|ids| LockMessage::Call { ids }),
        vec((any::<u64>(), locks(), any::<bool>()), 0..3)
            .prop_map(|held| LockMessage::Held { held }),
        Just(LockMessage::Tell),
    ]
}

fn request() -> impl Strategy<Value = RequestId> {
    (any::<u64>(), any::<u64>()).prop_map(|(host, number)| RequestId { host: HostId(host), number })
}

fn claim() -> impl Strategy<Value = Claim> {
    let reach = (volume_id(), range(), any::<bool>()).prop_map(|(volume, range, writes)| Reach {
        volume,
        range,
        writes,
    });
    let place = (request(), vec(request(), 0..4), any::<u64>())
        .prop_map(|(id, after, oldest)| Place { id, after, oldest });
    (place, option::of(reach)).prop_map(|(place, reach)| Claim { place, reach })
}

fn report() -> impl Strategy<Value = SequenceReport> {
    let runs = vec((any::<u64>(), any::<u64>()), 0..3);
    let account = (any::<u64>(), any::<u64>(), runs, vec(any::<u64>(), 0..3)).prop_map(
        |(host, oldest, done, aborted)| Account { host: HostId(host), oldest, done, aborted },
    );
    let claims = vec((claim(), any::<bool>()), 0..3);
    (claims, vec((request(), node()), 0..3), vec(account, 0..3))
        .prop_map(|(claims, open, accounts)| SequenceReport { claims, open, accounts })
}

fn place_error() -> impl Strategy<Value = PlaceError> {
    (request(), 0..9u8, any::<u64>(), 0..100_000usize).prop_map(|(id, n, oldest, bound)| match n {
        0 => PlaceError::AfterItself(id),
        1 => PlaceError::Cycle(id),
        2 => PlaceError::Reused(id),
        3 => PlaceError::TooLate(id),
        4 => PlaceError::TooFarAhead { id, oldest, bound: oldest },
        5 => PlaceError::TooManyUnissued { host: oldest, bound },
        6 => PlaceError::Aborted(id),
        7 => PlaceError::NeverIssued(id),
        _ => PlaceError::NotOrdered(id),
    })
}

fn sequence() -> impl Strategy<Value = SequenceMessage> {
    let done = any::<bool>;
    let requests = || vec(request(), 0..3);
    prop_oneof![
        (claim(), any::<u64>()).prop_map(|(claim, rank)| SequenceMessage::Issue { claim, rank }),
        (request(), node(), any::<u64>()).prop_map(|(id, owner, oldest)| SequenceMessage::Record {
            id,
            owner,
            oldest
        }),
        request().prop_map(|id| SequenceMessage::Recorded { id }),
        request().prop_map(|id| SequenceMessage::Begin { id }),
        (request(), place_error()).prop_map(|(id, why)| SequenceMessage::Refuse { id, why }),
        (request(), any::<u64>(), done())
            .prop_map(|(id, oldest, done)| SequenceMessage::Finished { id, oldest, done }),
        (request(), any::<u64>(), requests(), requests()).prop_map(|(id, rank, after, behind)| {
            SequenceMessage::Placed { id, rank, after, behind }
        }),
        Just(SequenceMessage::Join),
        (vec((claim(), any::<u64>()), 0..3), any::<u64>())
            .prop_map(|(claims, clock)| SequenceMessage::Joined { claims, clock }),
        (request(), done()).prop_map(|(id, done)| SequenceMessage::Close { id, done }),
        request().prop_map(|id| SequenceMessage::Closed { id }),
        request().prop_map(|id| SequenceMessage::Noted { id }),
        (report(), any::<bool>())
            .prop_map(|(report, originates)| SequenceMessage::Tell { report, originates }),
        Just(SequenceMessage::Told),
        report().prop_map(|report| SequenceMessage::Take { report }),
        Just(SequenceMessage::Taken),
    ]
}

fn envelope() -> impl Strategy<Value = Envelope> {
    let notice = (0..6, ts()).prop_map(|(n, ts)| match n {
        0 => Notice::Commit(ts),
        1 => Notice::Abort(ts),
        2 => Notice::Ack(ts),
        3 => Notice::Release(ts),
        4 => Notice::Unlock(ts),
        _ => Notice::Awaited(ts),
    });
    let head = (node(), node(), any::<u64>(), any::<u8>(), reached(), heard());
    (head, vec(notice, 0..5), option::of(body())).prop_map(
        |((from, to, epoch, hops, reached, heard), notices, body)| Envelope {
            from,
            to,
            epoch,
            hops,
            notices,
            reached,
            heard,
            body,
        },
    )
}

fn reached() -> impl Strategy<Value = Reached> {
    any::<(u64, u64, u64, u64)>().prop_map(|(disk, life, frame, sequence)| Reached {
        disk,
        life,
        frame,
        sequence,
    })
}

fn heard() -> impl Strategy<Value = Vec<(NodeId, Reached)>> {
    vec((node(), reached()), 0..3)
}

fn memory() -> impl Strategy<Value = Memory> {
    let of = (reached(), reached(), any::<u64>(), any::<bool>());
    of.prop_map(|(found, reached, began, forgot)| Memory { found, reached, began, forgot })
}

fn geometry() -> impl Strategy<Value = Geometry> {
    let placement = prop_oneof![
        Just(Placement::Fixed),
        Just(Placement::LeftSymmetric),
        Just(Placement::LeftAsymmetric),
        Just(Placement::RightSymmetric),
        Just(Placement::RightAsymmetric),
    ];
    let rotating = (1..8usize, 0..4usize, placement).prop_map(|(data, parity, placement)| {
        Layout::Rotating(Rotating { data, parity, placement })
    });
    let local = (2..4usize, 2..4usize, 0..4usize).prop_map(|(groups, n, globals)| {
        Layout::Local(Local { data: groups * n, groups, globals })
    });
    let grid =
        (2..4usize, 2..5usize).prop_map(|(rows, across)| Layout::Grid(Grid { rows, across }));
    let layout = prop_oneof![rotating, local, grid, Just(Layout::DrNet)];
    (layout, 1..256u64).prop_map(|(layout, sectors)| Geometry::new(layout, sectors * SECTOR))
}

fn policy() -> impl Strategy<Value = Policy> {
    let parse = |choice: &'static Choice| {
        choice.values().into_iter().map(|v| choice.parse(v.word).expect("a word of the table"))
    };
    let choices: Vec<_> = CHOICES.iter().map(|c| select(parse(c).collect::<Vec<_>>())).collect();
    (choices, any::<u64>())
        .prop_map(|(chosen, lost_wait)| Policy { lost_wait, ..Policy::default().with(chosen) })
}

fn extent() -> impl Strategy<Value = Extent> {
    let columns = vec((node(), any::<u64>()), 32);
    let filling = btree_map(0..12usize, ts(), 0..3);
    let leaving = btree_map(0..32usize, (node(), any::<u64>()), 0..2);
    (columns, filling, leaving).prop_map(|(columns, filling, leaving)| Extent {
        first: 0,
        columns,
        filling,
        leaving,
    })
}

/// Has an extent begin at a stripe and cuts it to so many columns.
fn cut(mut extent: Extent, first: u64, width: usize) -> Extent {
    extent.first = first;
    extent.columns.truncate(width);
    extent.filling.retain(|column, _| *column < width);
    extent.leaving.retain(|column, _| *column < width);
    extent
}

fn node_info() -> impl Strategy<Value = NodeInfo> {
    let labels = btree_map("[a-z]{1,5}", "[a-z0-9]{1,5}", 0..3);
    let home = ("[a-z]{1,9}", "[0-9.:]{0,20}", labels, option::of(any::<u128>()))
        .prop_map(|(name, address, labels, key)| Arc::new(Home { name, address, labels, key }));
    let home = (option::of(home), option::of((0..100u16).prop_map(NodeId)));
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<(bool, bool)>());
    let disk = (any::<u64>(), any::<u64>(), reached());
    (flags, disk, home).prop_map(
        |((up, given_up, draining, (is_host, removed)), disk, (home, process))| NodeInfo {
            up,
            given_up,
            disk: disk.0,
            sectors: disk.1,
            reached: disk.2,
            draining,
            suspect: disk.1 % 3 == 1,
            kind: if is_host { NodeKind::Host } else { NodeKind::Disk },
            removed,
            home,
            process,
        },
    )
}

fn known_host(n: u64) -> KnownHost {
    let certificate = |more| Certificate { key: u128::from(n) << 60, until: n + more };
    let secret = SealedSecret { key: n, mutual: n.is_multiple_of(4), bytes: vec![n as u8; 45] };
    KnownHost {
        certificates: (0..n % 4).map(certificate).collect(),
        secret: (!n.is_multiple_of(3)).then_some(secret),
    }
}

fn map() -> impl Strategy<Value = ClusterMap> {
    let attendance = (
        btree_set(node(), 0..4),
        btree_map(node(), ts(), 0..4),
        btree_map(node(), ts(), 0..4),
        btree_set(node(), 0..4),
        btree_map(node(), vec((ts(), option::of(ts())), 0..3), 0..4),
    )
        .prop_map(|(away, stale_since, counts_from, forgot, times)| Attendance {
            away,
            stale_since,
            counts_from,
            forgot,
            times_away: times.into_iter().map(|(node, times)| (node, times_away(times))).collect(),
        });
    (
        any::<u64>(),
        vec(node_info(), 0..6),
        btree_map(volume_id(), volume().prop_map(Arc::new), 0..4),
        any::<u32>(),
        btree_map(volume_id(), attendance, 0..4),
        option::of(any::<u64>()),
    )
        .prop_map(|(epoch, nodes, volumes, next_volume, attendance, give_up_after)| {
            ClusterMap {
                epoch,
                next_volume,
                room_used: next_volume % 2 == 0,
                rebalancing: next_volume % 3 == 0,
                nodes,
                volumes,
                attendance,
                settings: Settings {
                    give_up_after,
                    rebuild_floor: give_up_after.filter(|n| n % 2 == 0),
                    rebuild_ceiling: give_up_after.filter(|n| n % 3 == 0),
                },
                hosts: give_up_after
                    .iter()
                    .map(|n| (format!("host-{n}"), known_host(*n)))
                    .collect(),
            }
        })
}

/// What a node says that has stopped.
fn frozen(
    epoch: u64,
    (oldest, clock, written): (Timestamp, Timestamp, Timestamp),
    busy: bool,
    memory: Memory,
    (heard, undescribed): (Vec<(NodeId, Reached)>, Undescribed),
) -> MemberReport {
    MemberReport::Frozen { epoch, oldest, clock, written, busy, memory, heard, undescribed }
}

fn undescribed() -> impl Strategy<Value = Undescribed> {
    let volumes = || vec(volume_id(), 0..3);
    (volumes(), volumes(), volumes()).prop_map(|(exposed, refreshing, copied)| Undescribed {
        exposed,
        refreshing,
        copied,
    })
}

fn message() -> impl Strategy<Value = Message> {
    let enter =
        (map(), ts()).prop_map(|(map, floor)| MapMessage::Enter { map: Arc::new(map), floor });
    prop_oneof![
        6 => envelope().prop_map(Message::Envelope),
        1 => any::<u64>().prop_map(|epoch| Message::Map(MapMessage::Freeze { epoch })),
        2 => enter.prop_map(Message::Map),
        1 => (any::<u64>(), ts(), ts(), ts(), any::<bool>(), memory(), heard(), undescribed()).prop_map(
            |(epoch, oldest, clock, written, busy, memory, heard, undescribed)| {
                let heard = (heard, undescribed);
                Message::Report(frozen(epoch, (oldest, clock, written), busy, memory, heard))
            }
        ),
        1 => (any::<u64>(), vec(volume_id(), 0..3)).prop_map(|(epoch, volumes)| {
            Message::Report(MemberReport::CaughtUp { epoch, volumes })
        }),
        1 => any::<u64>().prop_map(|epoch| Message::Report(MemberReport::Wake { epoch })),
        1 => (any::<u64>(), vec(volume_id(), 0..3)).prop_map(|(epoch, volumes)| {
            Message::Report(MemberReport::ParityDone { epoch, volumes })
        }),
        1 => (any::<u64>(), any::<bool>(), any::<bool>()).prop_map(|(epoch, merged, flattened)| {
            Message::Report(MemberReport::Merged { epoch, merged, flattened })
        }),
    ]
}

/// The payload in one piece, as it arrives.
fn frame(message: &Message) -> Bytes {
    let mut all = BytesMut::new();
    message.encode().into_iter().for_each(|chunk| all.put(chunk));
    all.freeze()
}

/// `Debug` shows everything there is, and tells runs of zeros from zero bytes.
fn assert_same(a: &Message, b: &Message) {
    assert_eq!(format!("{a:?}"), format!("{b:?}"));
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(message in message()) {
        assert_same(&Message::decode(&frame(&message)).unwrap(), &message);
    }

    #[test]
    fn every_part_of_a_message_is_refused(message in message()) {
        let good = frame(&message);
        for len in 0..good.len() {
            prop_assert!(Message::decode(&good.slice(..len)).is_err(), "the first {len} bytes");
        }
        let mut longer = good.to_vec();
        longer.push(0);
        prop_assert!(Message::decode(&longer.into()).is_err());
    }

    #[test]
    fn arbitrary_bytes_do_no_harm(bytes in vec(any::<u8>(), 0..300), kind in 0..4u8) {
        let _ = Message::decode(&bytes.clone().into());
        // As a head of the right length, so that more of it is looked at.
        let mut framed = vec![VERSION, 0];
        framed.extend((bytes.len() as u32 + 1).to_le_bytes());
        framed.push(kind);
        framed.extend(bytes);
        let _ = Message::decode(&framed.into());
    }

    #[test]
    fn spoiled_messages_do_no_harm(
        message in message(), at in any::<prop::sample::Index>(), to in any::<u8>(),
    ) {
        let mut bytes = frame(&message).to_vec();
        let at = at.index(bytes.len());
        bytes[at] = to;
        let _ = Message::decode(&bytes.into());
    }
}
