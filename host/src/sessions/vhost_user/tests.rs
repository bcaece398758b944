//! Queues as no driver should write them: whatever is in the memory, a queue goes on or breaks, and nothing else.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use mio::{Poll, Token};
use proptest::prelude::*;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use vhost::vhost_user::message::{FrontendReq, VhostUserInflight, VhostUserMemoryRegion};
use vm_memory::{Bytes, GuestAddress};
use weft_core::Buffer;
use weft_core::cluster::ClusterMap;
use weft_core::node::{HostData, HostOp};

use super::chain::{Broken, Chain};
use super::inflight::{self, Inflight, QueueInflight};
use super::memory::{Guest, Memory, Segment};
use super::request::{Parts, Status, Wish};
use super::ring::Ring;
use super::{AT_ONCE, Arrival, Room, Said, Session, State, Turn, VhostUser, lock};
use crate::sessions::budget::{Budget, Use};
use crate::sessions::door::Door;
use crate::socket::{Stream, Watch, Watched};
use crate::volumes::Exports;

/// Two regions with a gap between them; a queue of 16 in the first.
const REGIONS: [(u64, u64); 2] = [(0x1000, 0x8000), (0xa000, 0x4000)];
const USER: u64 = 0x7000_0000;
const ENTRIES: u16 = 16;
const PLACES: [u64; 3] = [0x1000, 0x2000, 0x3000];

fn memory() -> Memory {
    let mut memory = Memory::default();
    for (at, len) in REGIONS {
        let file = File::from(memfd_create("m", MemfdFlags::CLOEXEC).unwrap());
        ftruncate(&file, len).unwrap();
        memory.add(&VhostUserMemoryRegion::new(at, len, USER + at, 0), file).unwrap();
    }
    memory
}

fn watched(fd: OwnedFd) -> (Poll, Watched) {
    let poll = Poll::new().unwrap();
    let registry = Arc::new(poll.registry().try_clone().unwrap());
    let watched = Watch::new(registry, Token(1)).add(File::from(fd)).unwrap();
    (poll, watched)
}

fn started(memory: &Memory) -> (Poll, Ring) {
    started_with(memory, None)
}

fn started_with(memory: &Memory, inflight: Option<QueueInflight>) -> (Poll, Ring) {
    let (poll, kick) = watched(eventfd(0, EventfdFlags::CLOEXEC).unwrap());
    let mut ring = Ring::new();
    ring.set_entries(ENTRIES.into()).unwrap();
    ring.set_places(PLACES.map(|at| USER + at), memory).unwrap();
    ring.start(kick, memory.guest(), (true, inflight)).unwrap();
    ring.enable(true);
    (poll, ring)
}

/// The session of a front end that has set up one queue, and the front end's socket.
fn session(memory: Memory, ring: Ring, budget: &Arc<Budget>) -> (VhostUser, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    theirs.set_nonblocking(true).unwrap();
    let mut session = VhostUser::new(Arrival {
        stream: Stream::Unix(mio::net::UnixStream::from_std(ours)),
        peer: String::new(),
        node: 0,
        memory: Use::new(budget),
        portals: Vec::new(),
        elsewhere: Vec::new(),
        door: Door::default(),
        volume: None,
        watch: None,
    });
    session.state = State::In;
    let device = session.device.clone();
    let mut device = lock(&device);
    device.memory = memory;
    device.rings[0] = ring;
    (session, theirs)
}

/// What a session asks for when it looks at its messages and queues.
fn asked(session: &mut VhostUser) -> usize {
    let (map, mut said, mut room) = (ClusterMap::default(), Vec::new(), Room::new(0));
    let turn = Turn { conn: 0, room: &mut room, most: usize::MAX };
    assert!(session.receive(Exports::of(&map), &mut said, turn).is_ok());
    assert!(said.iter().all(|said| matches!(said, Said::Ask(_))));
    said.len()
}

/// The flags of descriptors.
const NEXT: u16 = 1;
const FILLED: u16 = 2;

fn describe(guest: &Guest, index: u16, (at, len, flags, next): (u64, u32, u16, u16)) {
    let place = |field| GuestAddress(PLACES[0] + 16 * u64::from(index) + field);
    guest.write_obj(at, place(0)).unwrap();
    guest.write_obj(len, place(8)).unwrap();
    guest.write_obj(flags, place(12)).unwrap();
    guest.write_obj(next, place(14)).unwrap();
}

fn offer(guest: &Guest, heads: &[u16], index: u16) {
    for (n, head) in heads.iter().enumerate() {
        guest.write_obj(*head, GuestAddress(PLACES[1] + 4 + 2 * n as u64)).unwrap();
    }
    guest.write_obj(index, GuestAddress(PLACES[1] + 2)).unwrap();
}

/// Serves a queue as a session does. Says how many requests there were.
fn serve(ring: &mut Ring, guest: &Guest) -> Result<usize, Broken> {
    let mut count = 0;
    while count < AT_ONCE
        && let Some((head, chain)) = ring.next(guest)?
    {
        count += 1;
        let (parts, header) = Parts::of(guest, chain)?;
        let wish = header.ok_or(Status::Failed).and_then(|header| parts.wish(guest, &header));
        let (status, filled) = match wish {
            Ok(Wish::Name) => {
                (Status::Done, parts.name(guest, "a name that is a little too long").unwrap())
            }
            Ok(wish) => match parts.op(guest, wish).unwrap() {
                HostOp::Read(range) => {
                    let data = HostData::Bytes(vec![Buffer::Zero(range.len as usize)]);
                    (Status::Done, parts.fill(guest, &data).unwrap())
                }
                _ => (Status::Done, 0),
            },
            Err(status) => (status, 0),
        };
        parts.end(guest, status)?;
        ring.answer(guest, head, filled + 1)?;
    }
    Ok(count)
}

fn numbers() -> impl Strategy<Value = (u64, u32, u16, u16)> {
    let near =
        REGIONS.map(|(at, len)| prop_oneof![at..at + len, Just(at + len - 1), Just(at + len)]);
    let [first, second] = near;
    let at = prop_oneof![4 => first, 2 => second, 1 => any::<u64>(), 1 => Just(u64::MAX - 3)];
    let len = prop_oneof![
        4 => prop::sample::select(vec![0_u32, 1, 15, 16, 17, 32, 512, 513, 1024, 4096]),
        1 => any::<u32>(),
        1 => Just(u32::MAX),
    ];
    (
        at,
        len,
        prop_oneof![8 => 0..4_u16, 1 => any::<u16>()],
        prop_oneof![8 => 0..ENTRIES, 1 => any::<u16>()],
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_ring_does_more_than_break(
        descriptors in prop::collection::vec(numbers(), usize::from(ENTRIES)),
        heads in prop::collection::vec(prop_oneof![8 => 0..ENTRIES, 1 => any::<u16>()], usize::from(ENTRIES)),
        kinds in prop::collection::vec((0..16_u32, any::<u64>()), 8),
        index in prop_oneof![8 => 0..=ENTRIES, 1 => any::<u16>()],
    ) {
        let memory = memory();
        let guest = memory.guest().clone();
        // Headers of requests, wherever descriptors find them.
        for (n, (kind, sector)) in kinds.iter().cycle().take(0x400).enumerate() {
            let at = 0x4000 + 16 * n as u64;
            guest.write_obj(*kind, GuestAddress(at)).unwrap();
            guest.write_obj(*sector, GuestAddress(at + 8)).unwrap();
        }
        for (n, descriptor) in descriptors.iter().enumerate() {
            describe(&guest, n as u16, *descriptor);
        }
        let (_poll, mut ring) = started(&memory);
        offer(&guest, &heads, index);
        match serve(&mut ring, &guest) {
            // An answer may be written over the ring of requests, which then has more of them.
            Ok(count) => prop_assert!(count <= AT_ONCE),
            Err(why) => {
                ring.break_off(why);
                prop_assert!(matches!(ring.next(&guest), Ok(None)), "it is not looked at any more");
            }
        }
    }
}

#[test]
fn wrong_descriptors_break_a_queue_and_right_ones_do_not() {
    const TABLE: u16 = 4;
    let memory = memory();
    let guest = memory.guest();
    let walk = |all: &[(u64, u32, u16, u16)]| {
        for (n, descriptor) in all.iter().enumerate() {
            describe(guest, n as u16, *descriptor);
        }
        Chain::walk(guest, GuestAddress(PLACES[0]), ENTRIES, 0)
    };
    let header = (0x4000, 16, NEXT, 1);
    let status = (0x5000, 1, FILLED, 0);
    let good = walk(&[header, status]).unwrap();
    assert_eq!(good.to_read, [Segment { at: GuestAddress(0x4000), len: 16 }]);
    assert_eq!(good.to_fill, [Segment { at: GuestAddress(0x5000), len: 1 }]);
    // A table of the same two.
    for (n, descriptor) in [header, status].into_iter().enumerate() {
        describe(guest, 8 + n as u16, descriptor);
    }
    assert_eq!(walk(&[(PLACES[0] + 8 * 16, 32, TABLE, 0)]), Ok(good));
    for (wrong, why) in [
        (vec![(0x4000, 16, NEXT, 16)], "beyond the table"),
        (vec![(0x4000, 16, NEXT, 0)], "loop"),
        (vec![(0x8ff8, 16, NEXT, 1), status], "outside"),
        (vec![(0x9000, 1, NEXT, 1), status], "outside"),
        (vec![(u64::MAX - 3, 16, NEXT, 1), status], "outside"),
        (vec![(0x4000, u32::MAX, NEXT, 1), status], "outside"),
        (vec![(0x5000, 1, FILLED | NEXT, 1), (0x4000, 16, 0, 0)], "after the buffer"),
        (vec![(0x1000, 24, TABLE, 0)], "malformed"),
        (vec![(0x1000, 0, TABLE, 0)], "malformed"),
        (vec![(0x1000, 32, TABLE | NEXT, 1), status], "malformed"),
        (vec![(0x1000, 16 * 129, TABLE, 0)], "too long"),
        (vec![(0x9000, 32, TABLE, 0)], "is outside"),
        (vec![(0x1000, 32, TABLE, 0), status], "at an invalid place"),
        (vec![header, (0x1000, 32, TABLE, 0)], "at an invalid place"),
    ] {
        let said = walk(&wrong).unwrap_err();
        assert!(said.0.contains(why), "{wrong:x?}: {said}");
    }
}

/// A driver has as many segments as it was told. A turn does not walk over more.
#[test]
fn a_request_has_a_header_its_segments_and_a_status_at_most() {
    const QUEUE: u16 = 256;
    let memory = memory();
    let guest = memory.guest();
    let walk = |segments: u16| {
        describe(guest, 0, (0x4000, 16, NEXT, 1));
        for n in 1..=segments {
            describe(guest, n, (0x4800, 16, NEXT, n + 1));
        }
        describe(guest, segments + 1, (0x5000, 1, FILLED, 0));
        Chain::walk(guest, GuestAddress(PLACES[0]), QUEUE, 0)
    };
    assert_eq!(walk(126).unwrap().to_read.len(), 127);
    assert!(walk(127).unwrap_err().0.contains("too many descriptors"));
}

#[test]
fn memory_is_mapped_where_its_file_has_it() {
    let mut memory = memory();
    let file = File::from(memfd_create("m", MemfdFlags::CLOEXEC).unwrap());
    ftruncate(&file, 0x2000).unwrap();
    let mut add = |at: u64, len: u64, user: u64, offset: u64| {
        let region = VhostUserMemoryRegion::new(at, len, user, offset);
        memory.add(&region, file.try_clone().unwrap())
    };
    assert!(add(0x20000, 0x2001, USER, 0).is_err(), "the file is shorter");
    assert!(add(0x20000, 0x1000, USER, 0x1001).is_err());
    assert!(add(0x20000, 0x1000, USER, u64::MAX).is_err());
    assert!(add(u64::MAX - 0xfff, 0x2000, USER, 0).is_err(), "it goes beyond all addresses");
    assert!(add(0x20000, 0x1000, u64::MAX, 0).is_err());
    assert!(add(0x8000, 0x1000, USER, 0).is_err(), "there is another");
    assert!(add(0x20000, 0x1000, USER, 0x1000).is_ok());
}

#[test]
fn a_queue_that_goes_round_more_than_once_breaks() {
    let memory = memory();
    let (_poll, mut ring) = started(&memory);
    offer(memory.guest(), &[0; 16], 17);
    assert!(ring.next(memory.guest()).is_err());
}

#[test]
fn a_queue_whose_memory_is_taken_away_breaks_and_others_do_not_start() {
    let mut memory = memory();
    let (_poll, mut ring) = started(&memory);
    let first = VhostUserMemoryRegion::new(REGIONS[0].0, REGIONS[0].1, USER + REGIONS[0].0, 0);
    memory.remove(&first).unwrap();
    assert!(memory.remove(&first).is_err() && memory.address(USER + 0x1000).is_none());
    ring.move_to(&memory);
    assert!(matches!(ring.next(memory.guest()), Ok(None)));
    assert!(Ring::new().set_places(PLACES.map(|at| USER + at), &memory).is_err());
    let (_poll, kick) = watched(eventfd(0, EventfdFlags::CLOEXEC).unwrap());
    assert!(Ring::new().start(kick, memory.guest(), (false, None)).is_err(), "it has no places");
    for entries in [0, 3, 2048, 1 << 16] {
        assert!(Ring::new().set_entries(entries).is_err(), "{entries}");
    }
}

/// A flush, in two descriptors from `head` on.
fn describe_flush(guest: &Guest, head: u16) {
    const FLUSH: u32 = 4;
    guest.write_obj(FLUSH, GuestAddress(0x4000)).unwrap();
    describe(guest, head, (0x4000, 16, NEXT, head + 1));
    describe(guest, head + 1, (0x5000, 1, FILLED, 0));
}

/// How many requests have been answered.
fn answered(guest: &Guest) -> u16 {
    guest.read_obj(GuestAddress(PLACES[2] + 2)).unwrap()
}

/// A driver that was not told of an answer waits forever: the bell may have been another when it was given.
#[test]
fn a_queue_rings_whenever_its_driver_may_not_have_been_told() {
    let memory = memory();
    let guest = memory.guest();
    let bell = File::from(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap());
    let has_rung = || rustix::io::read(&bell, &mut [0; 8]).is_ok();
    let (_poll, mut ring) = started(&memory);
    describe_flush(guest, 0);
    offer(guest, &[0, 0], 2);
    assert_eq!(ring.next(guest).unwrap().map(|(head, _)| head), Some(0));
    ring.answer(guest, 0, 1).unwrap();
    ring.tell(guest);
    ring.set_call(Some(bell.try_clone().unwrap()));
    assert!(has_rung(), "the bell is new");
    ring.next(guest).unwrap();
    ring.answer(guest, 0, 1).unwrap();
    ring.stop();
    assert!(has_rung() && !has_rung(), "nobody was told before it stopped");
    let (_poll, kick) = watched(eventfd(0, EventfdFlags::CLOEXEC).unwrap());
    ring.start(kick, guest, (true, None)).unwrap();
    assert!(has_rung(), "another process may have answered");
}

#[test]
fn a_queue_goes_on_when_its_memory_is_back() {
    let mut memory = memory();
    let (_poll, mut ring) = started(&memory);
    describe_flush(memory.guest(), 0);
    offer(memory.guest(), &[0, 0], 1);
    assert!(ring.next(memory.guest()).unwrap().is_some());
    let (at, len) = REGIONS[0];
    let first = VhostUserMemoryRegion::new(at, len, USER + at, 0);
    memory.remove(&first).unwrap();
    ring.move_to(&memory);
    ring.answer(memory.guest(), 0, 1).expect("the answer is kept");
    assert!(matches!(ring.next(memory.guest()), Ok(None)));
    let file = File::from(memfd_create("m", MemfdFlags::CLOEXEC).unwrap());
    ftruncate(&file, len).unwrap();
    memory.add(&first, file).unwrap();
    describe_flush(memory.guest(), 0);
    offer(memory.guest(), &[0, 0], 2);
    ring.move_to(&memory);
    assert_eq!(answered(memory.guest()), 1);
    assert!(ring.next(memory.guest()).unwrap().is_some());
    // One that is broken for another reason stays so.
    ring.break_off(Broken("of something else"));
    memory.remove(&first).unwrap();
    ring.move_to(&memory);
    ring.move_to(&self::memory());
    assert!(matches!(ring.next(self::memory().guest()), Ok(None)));
}

/// The front end gives the requests of a stopped queue to nobody else.
#[test]
fn a_queue_stops_when_it_has_answered_what_was_in_work_before_it_started() {
    let memory = memory();
    let guest = memory.guest().clone();
    describe_flush(&guest, 0);
    describe_flush(&guest, 2);
    let (said, file) = inflight::create(&VhostUserInflight::new(0, 0, 1, ENTRIES)).unwrap();
    let inflight = || {
        let all = Inflight::open(&said, file.try_clone().unwrap()).unwrap();
        all.queue(0, ENTRIES).unwrap()
    };
    let mut before = inflight();
    before.recover(0);
    before.begin(0);
    let (_poll, ring) = started_with(&memory, Some(inflight()));
    offer(&guest, &[0, 2], 2);
    let (mut session, mut front_end) = session(memory, ring, &Budget::new(1 << 20));
    let stop = [FrontendReq::GET_VRING_BASE as u32, 1, 8, 0, 0];
    front_end.write_all(&stop.map(u32::to_ne_bytes).concat()).unwrap();
    assert_eq!(asked(&mut session), 1, "what came later is not begun");
    assert!(front_end.read(&mut [0; 20]).is_err());
    session.answer(1, Ok(HostData::Done));
    assert!(session.wants_to_receive() && answered(&guest) == 1);
    assert_eq!(asked(&mut session), 0);
    let mut reply = [0; 20];
    front_end.read_exact(&mut reply).unwrap();
    assert_eq!(reply[16..], 1_u32.to_ne_bytes());
}

/// The budget may be used up again between the look at it and the request's turn.
#[test]
fn a_request_that_waits_for_memory_keeps_its_turn() {
    const LONG: u64 = 9 * 0x8000;
    let memory = memory();
    let guest = memory.guest().clone();
    describe(&guest, 0, (0x4000, 16, NEXT, 1));
    (1..10).for_each(|n| describe(&guest, n, (0x1000, 0x8000, FILLED | NEXT, n + 1)));
    describe(&guest, 10, (0x5000, 1, FILLED, 0));
    offer(&guest, &[0], 1);
    let (_poll, ring) = started(&memory);
    let budget = Budget::new(1 << 20);
    let mut other = Use::new(&budget);
    let (mut session, _front_end) = session(memory, ring, &budget);
    for _ in 0..2 {
        other.is((1 << 20) + (256 << 10));
        assert_eq!((asked(&mut session), session.waits_for_memory()), (0, Some(true)));
        assert!(!session.wants_to_receive());
        other.is((1 << 20) + (512 << 10) - LONG);
        assert!(session.wants_to_receive());
    }
    assert_eq!((asked(&mut session), session.waits_for_memory()), (1, None));
}
