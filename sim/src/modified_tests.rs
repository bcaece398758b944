//! Read-modify-write requests of several hosts at several nodes at once; and requests that are sent again when the volume has
//! another policy.

use std::collections::BTreeMap;

use weft_core::Buffer;
use weft_core::cluster::PolicyChange;
use weft_core::node::{Bug, HostData, HostError, HostOp, Modification};
use weft_core::order::{Again, Asker, HostId, Origin, RequestId};
use weft_core::plan::Range;
use weft_core::policy::Policy;
use weft_core::units::{MILLIS, NodeId};

use crate::small_worlds::{NODES, VOLUME, is_ready, policy, world};
use crate::world::World;

/// Bytes that hosts compare and write, as a block of a disk.
const BLOCK: u64 = 512;

struct Sim {
    world: World,
    heard: BTreeMap<u64, Result<HostData, HostError>>,
    asked: u64,
}

impl Sim {
    fn new(seed: u64, policy: Policy, bug: Option<Bug>) -> Sim {
        let world = world(seed, policy, bug);
        let mut sim = Sim { world, heard: BTreeMap::new(), asked: 0 };
        sim.until(|sim| is_ready(&sim.world));
        sim
    }

    fn step(&mut self) {
        if self.world.step().is_none() {
            self.world.call_after(MILLIS, 0);
        }
        self.heard.extend(self.world.replies.drain(..));
    }

    fn until(&mut self, reached: impl Fn(&Sim) -> bool) {
        for _ in 0..2_000_000 {
            if reached(self) {
                return;
            }
            self.step();
        }
        panic!("it never came about");
    }

    fn ask(&mut self, node: u16, op: HostOp) -> u64 {
        let number = self.asked + 1;
        match op {
            HostOp::Read(_) => {
                self.asked = number;
                self.world.host(NodeId(node), number, VOLUME, op);
                number
            }
            op => self.ask_by_name(node, RequestId { host: HostId(node.into()), number }, None, op),
        }
    }

    fn ask_by_name(&mut self, node: u16, id: RequestId, again: Option<Again>, op: HostOp) -> u64 {
        self.asked += 1;
        let origin = Origin { asker: Asker { id, oldest: 1 }, again, permitted: 0 };
        self.world.host_by_name(NodeId(node), self.asked, VOLUME, origin, op);
        self.asked
    }

    fn answer(&mut self, number: u64) -> Result<(), HostError> {
        self.until(|sim| sim.heard.contains_key(&number));
        self.heard[&number].clone().map(|_| ())
    }

    /// Gives the volume another policy.
    fn choose(&mut self, to: Policy) {
        let was = self.world.map().volumes[&VOLUME].policy.settings();
        let changed = to.settings().into_iter().filter(|s| !was.contains(s));
        let change = PolicyChange { unordered_sharing: true, ..PolicyChange::to(changed) };
        self.world.set_policy(VOLUME, change);
        self.until(|sim| is_ready(&sim.world) && sim.world.map().volumes[&VOLUME].policy == to);
    }

    fn read(&mut self, node: u16) -> Vec<u8> {
        let number = self.ask(node, HostOp::Read(Range { offset: BLOCK, len: BLOCK }));
        self.until(|sim| sim.heard.contains_key(&number));
        let Ok(HostData::Bytes(pieces)) = &self.heard[&number] else { panic!("a read") };
        Buffer::join(pieces)
    }
}

/// A block that counts.
fn block(count: u32) -> Vec<u8> {
    count.to_le_bytes().repeat(BLOCK as usize / 4)
}

fn count_of(block: &[u8]) -> u32 {
    let count = u32::from_le_bytes(block[..4].try_into().unwrap());
    assert_eq!(block, self::block(count), "a block is written as a whole");
    count
}

fn add_one(count: u32) -> HostOp {
    let by = Modification::IfEqual(block(count).into());
    HostOp::Modify { offset: BLOCK, data: block(count + 1).into(), by }
}

/// How often hosts at three nodes count up, and by how much the block is too small in the end.
fn missing(seed: u64, policy: Policy, bug: Option<Bug>) -> (u32, i64) {
    let mut sim = Sim::new(seed, policy, bug);
    let (mut known, mut done, mut in_work) = ([0; 3], 0, BTreeMap::new());
    if seed.is_multiple_of(3) {
        // What is lost is solved for, and what comes back catches up.
        sim.world.kill(NodeId(3 + (seed % 2) as u16), false);
    }
    for turn in 0..60 {
        for (host, known) in known.iter_mut().enumerate() {
            let node = host as u16;
            let asked = in_work.get(&host).copied().unwrap_or(0);
            let result = sim.heard.get(&asked).cloned();
            let over = match result {
                None => asked == 0,
                Some(Ok(_)) => {
                    (done, *known) = (done + 1, *known + 1);
                    true
                }
                Some(Err(HostError::Differs { at })) => {
                    assert!(at < 4, "the count differs");
                    *known = count_of(&sim.read(node));
                    true
                }
                Some(Err(e)) => panic!("seed {seed}: {e}"),
            };
            if over {
                let number = sim.ask(node, add_one(*known));
                in_work.insert(host, number);
            }
        }
        for _ in 0..(seed + turn) % 60 {
            sim.step();
        }
    }
    for number in in_work.into_values() {
        sim.until(|sim| sim.heard.contains_key(&number));
        done += u32::from(sim.heard[&number].is_ok());
    }
    let count = count_of(&sim.read(1));
    (done, i64::from(done) - i64::from(count))
}

fn policies() -> Vec<Policy> {
    vec![
        policy(&[]),
        policy(&[("ordering", "lock-server")]),
        policy(&[("ordering", "callback-locks")]),
        policy(&[("ordering", "sequencer")]),
        policy(&[("redundancy", "deferred")]),
        policy(&[("strategy", "small")]),
    ]
}

#[test]
fn nothing_comes_between_what_is_read_and_what_is_written() {
    let mut all = 0;
    for policy in policies() {
        for seed in 0..40 {
            let (done, missing) = missing(seed, policy, None);
            assert_eq!(missing, 0, "seed {seed} of {policy:?}: {done} were done");
            all += done;
        }
    }
    assert!(all > 2_000, "{all} were done");
}

#[test]
fn what_is_written_at_a_later_time_is_found() {
    let found = |seed| missing(seed, Policy::default(), Some(Bug::WritesLater)).1 != 0;
    assert!((0..40).any(found));
}

#[test]
fn bits_of_several_hosts_are_all_there() {
    for policy in policies() {
        for seed in 0..20 {
            let mut sim = Sim::new(seed, policy, None);
            let bits: Vec<u64> = (0..8)
                .map(|bit| {
                    let data = vec![1_u8 << bit; 3 * BLOCK as usize].into();
                    let by = Modification::Or;
                    sim.ask(bit % NODES as u16, HostOp::Modify { offset: 0, data, by })
                })
                .collect();
            sim.until(|sim| bits.iter().all(|n| sim.heard.contains_key(n)));
            assert!(bits.iter().all(|n| sim.heard[n].is_ok()));
            assert_eq!(sim.read(2), vec![0xff; BLOCK as usize], "seed {seed} of {policy:?}");
        }
    }
}

#[test]
fn what_a_policy_does_not_allow_is_refused() {
    let refused = [
        policy(&[("ordering", "device-locks")]),
        policy(&[("ordering", "none")]),
        policy(&[("roles", "controller")]),
        policy(&[("commit", "none")]),
    ];
    for policy in refused {
        let mut sim = Sim::new(1, policy, None);
        let number = sim.ask(1, add_one(0));
        sim.until(|sim| sim.heard.contains_key(&number));
        assert!(matches!(sim.heard[&number], Err(HostError::NotOffered)), "{policy:?}");
    }
    // More than one transaction takes.
    let mut sim = Sim::new(1, Policy::default(), None);
    let long = vec![0; 1 << 20];
    let by = Modification::IfEqual(long.clone().into());
    let number = sim.ask(1, HostOp::Modify { offset: 0, data: long.into(), by });
    sim.until(|sim| sim.heard.contains_key(&number));
    assert!(sim.heard[&number].is_err());
}

#[test]
fn what_a_policy_does_not_allow_any_more_may_have_happened() {
    let forbidding: [&[_]; 3] = [
        &[("ordering", "none")],
        &[("ordering", "device-locks")],
        &[("commit", "limited"), ("dispatch", "commanded")],
    ];
    for settings in forbidding {
        let mut sim = Sim::new(1, Policy::default(), None);
        let since = sim.world.reading(NodeId(1));
        let again = Some(Again { since, epoch: sim.world.map().epoch });
        let name = |number| RequestId { host: HostId(9), number };
        let number = sim.ask_by_name(1, name(1), None, add_one(0));
        assert_eq!(sim.answer(number), Ok(()));

        sim.choose(policy(settings));
        let happened = sim.ask_by_name(2, name(1), again, add_one(0));
        let never = sim.ask_by_name(2, name(2), again, add_one(1));
        let expected = (Ok(()), Err(HostError::NotOffered));
        assert_eq!((sim.answer(happened), sim.answer(never)), expected, "{settings:?}");
        assert_eq!(count_of(&sim.read(0)), 1, "{settings:?}");
    }
}

#[test]
fn what_another_has_written_since_stays_when_votes_come_or_go() {
    let limited =
        || policy(&[("commit", "limited"), ("dispatch", "commanded"), ("journal", "off")]);
    let write = |byte| HostOp::Write(BLOCK, vec![byte; BLOCK as usize].into());
    let name = |host| RequestId { host: HostId(host), number: 1 };
    for (before, after, heard) in [
        (Policy::default(), limited(), Ok(())),
        (limited(), Policy::default(), Err(HostError::OutcomeUnknown)),
    ] {
        let mut sim = Sim::new(1, before, None);
        let again = Again { since: sim.world.reading(NodeId(1)), epoch: sim.world.map().epoch };
        for (node, byte) in [(1, 1), (3, 2)] {
            let number = sim.ask_by_name(node, name(node.into()), None, write(byte));
            assert_eq!(sim.answer(number), Ok(()));
        }
        sim.choose(after);
        let number = sim.ask_by_name(2, name(1), Some(again), write(1));
        assert_eq!(sim.answer(number), heard);
        assert_eq!(sim.read(0), vec![2; BLOCK as usize]);
    }
}

#[test]
fn what_its_host_has_left_does_not_begin_without_the_controller() {
    let mut sim = Sim::new(1, policy(&[("roles", "controller")]), None);
    let map = sim.world.map();
    let controller = map.volumes[&VOLUME].policy.controller.map(|_| map.up().next().unwrap());
    assert_eq!(controller, Some(NodeId(0)));
    sim.world.kill(NodeId(0), false);
    let id = RequestId { host: HostId(9), number: 1 };
    let data = vec![1; BLOCK as usize].into();
    let number = sim.ask_by_name(1, id, None, HostOp::Write(BLOCK, data));
    sim.world.host_gone(NodeId(1), number);
    sim.choose(Policy::default());
    assert_eq!(sim.answer(number), Err(HostError::Gone));
    assert_eq!(sim.read(2), vec![0; BLOCK as usize]);
}
