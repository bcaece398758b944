//! Disks whose file systems are full for a while: hosts see errors for writes, and a refused write leaves nothing.

use weft_core::Buffer;
use weft_core::node::{HostData, HostError, HostOp};
use weft_core::plan::Range;
use weft_core::policy::{Commit, Dispatch, Policy};
use weft_core::units::{MILLIS, NodeId, SECTOR};

use crate::small_worlds::{NODES, VOLUME, is_ready, world};
use crate::world::World;

/// Bytes of a write.
const PIECE: u64 = SECTOR;
/// Such writes to a stripe.
const STRIPE: u64 = 12;

/// The content that a read found.
type Answer = Result<Vec<u8>, HostError>;

/// A write is done.
const DONE: Option<Answer> = Some(Ok(Vec::new()));

fn content(data: HostData) -> Vec<u8> {
    match data {
        HostData::Bytes(parts) => Buffer::join(&parts),
        _ => Vec::new(),
    }
}

struct Array {
    world: World,
    asked: u64,
    answers: Vec<(u64, Answer)>,
}

impl Array {
    fn new(seed: u64, policy: Policy) -> Array {
        let mut world = world(seed, policy, None);
        while !is_ready(&world) {
            world.step().expect("time goes on");
        }
        Array { world, asked: 0, answers: Vec::new() }
    }

    /// Asks a node that has a disk with room.
    fn ask(&mut self, op: HostOp) -> u64 {
        self.asked += 1;
        self.world.host(NodeId(NODES as u16 - 1), self.asked, VOLUME, op);
        self.asked
    }

    fn write(&mut self, at: u64, byte: u8) -> u64 {
        self.ask(HostOp::Write(at * PIECE, Buffer::from(vec![byte; PIECE as usize])))
    }

    /// The answer to a request, if it comes soon.
    fn answer(&mut self, request: u64) -> Option<Answer> {
        let until = self.world.now() + 500 * MILLIS;
        loop {
            let replies = std::mem::take(&mut self.world.replies);
            self.answers.extend(replies.into_iter().map(|(n, r)| (n, r.map(content))));
            if let Some(at) = self.answers.iter().position(|(r, _)| *r == request) {
                return Some(self.answers.remove(at).1);
            }
            if self.world.now() > until {
                return None;
            }
            self.world.step().expect("time goes on");
        }
    }

    fn reads(&mut self, at: u64, byte: u8) {
        let asked = self.ask(HostOp::Read(Range { offset: at * PIECE, len: PIECE }));
        let is = self.answer(asked);
        assert!(is == Some(Ok(vec![byte; PIECE as usize])), "at {at}: other than {byte}");
    }
}

#[test]
fn a_full_disk_serves_reads_and_refuses_what_hosts_write() {
    for seed in 0..20 {
        let mut array = Array::new(seed, Policy::default());
        // The second stripe; the first is that of the write that waits, and others there wait for its outcome.
        let all = STRIPE..2 * STRIPE;
        for at in (0..1).chain(all.clone()) {
            let asked = array.write(at, 1);
            assert_eq!(array.answer(asked), DONE);
        }
        // Half of the columns of a stripe, so that each write needs some.
        let full = [NodeId(0), NodeId(1), NodeId(2)];
        full.into_iter().for_each(|node| array.world.fill(node));
        let waiting = array.write(0, 2);
        assert_eq!(array.answer(waiting), None, "it waits for room");
        full.into_iter().for_each(|node| array.world.tell_full(node));
        for at in all.clone() {
            let asked = array.write(at, 3);
            assert_eq!(array.answer(asked), Some(Err(HostError::NoSpace)), "seed {seed}, at {at}");
            array.reads(at, 1);
        }
        assert_eq!(array.answer(waiting), None, "it still waits");
        full.into_iter().for_each(|node| array.world.has_room(node));
        assert_eq!(array.answer(waiting), DONE);
        full.into_iter().for_each(|node| array.world.tell_full(node));
        array.reads(0, 2);
        for at in all.clone() {
            array.reads(at, 1);
            let asked = array.write(at, 4);
            assert_eq!(array.answer(asked), DONE);
            array.reads(at, 4);
        }
    }
}

/// Others may have written their parts when a disk would refuse: the write would be applied in part.
#[test]
fn a_write_without_votes_waits_for_room() {
    let (commit, dispatch) = (Commit::Limited, Dispatch::Commanded);
    let policy = Policy { commit, dispatch, ..Policy::default() };
    for seed in 0..20 {
        let mut array = Array::new(seed, policy);
        let full = [NodeId(0), NodeId(1), NodeId(2)];
        full.into_iter().for_each(|node| array.world.fill(node));
        full.into_iter().for_each(|node| array.world.tell_full(node));
        let waiting = array.write(0, 1);
        assert_eq!(array.answer(waiting), None, "seed {seed}");
        full.into_iter().for_each(|node| array.world.has_room(node));
        assert_eq!(array.answer(waiting), DONE, "seed {seed}");
        array.reads(0, 1);
    }
}
