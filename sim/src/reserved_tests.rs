//! Reservations while writes are in work: what a change forbids does not take effect once the change has been answered.

use weft_core::Buffer;
use weft_core::cluster::{
    Registrant, ReservationAction, ReservationChange, ReservationKind, ReservationOutcome,
};
use weft_core::node::{Bug, HostData, HostError, HostOp};
use weft_core::order::{Asker, HostId, Origin, RequestId};
use weft_core::plan::Range;
use weft_core::policy::Policy;
use weft_core::units::{NodeId, SECTOR};

use crate::small_worlds::{VOLUME, is_ready, policy, world};
use crate::world::World;

/// Sectors that both hosts write to.
const SECTORS: u64 = 24;

const LOSER: u64 = 1;
const WINNER: u64 = 2;

struct Sim {
    world: World,
    heard: Vec<(u64, Result<HostData, HostError>)>,
}

impl Sim {
    fn new(seed: u64, policy: Policy, bug: Option<Bug>) -> Sim {
        let world = world(seed, policy, bug);
        let mut sim = Sim { world, heard: Vec::new() };
        sim.until(|sim| is_ready(&sim.world));
        sim
    }

    fn until(&mut self, reached: impl Fn(&Sim) -> bool) {
        for _ in 0..1_000_000 {
            if reached(self) {
                return;
            }
            self.world.step().expect("time goes on");
            self.heard.append(&mut self.world.replies);
        }
        panic!("it never came about: {} answers", self.heard.len());
    }

    /// A host writes a byte to a sector, as it was permitted to under these reservations.
    fn write(&mut self, node: u16, host: u64, sector: u64, byte: u8, permitted: u64) -> u64 {
        let number = self.heard.len() as u64 + 1_000 * host + sector + u64::from(byte) * 10_000;
        let id = RequestId { host: HostId(host), number };
        let origin = Origin { asker: Asker { id, oldest: 1 }, again: None, permitted };
        let op = HostOp::Write(sector * SECTOR, vec![byte; SECTOR as usize].into());
        self.world.host_by_name(NodeId(node), number, VOLUME, origin, op);
        number
    }

    fn answer(&self, number: u64) -> Option<&Result<HostData, HostError>> {
        self.heard.iter().find(|h| h.0 == number).map(|h| &h.1)
    }

    /// A change of reservations, until it is answered.
    fn change(&mut self, stamp: u64, action: ReservationAction) {
        let who = Registrant { host: "winner".into(), port: 1 };
        self.world.reserve(ReservationChange { volume: VOLUME, who, action, stamp });
        self.until(|sim| {
            let outcome = sim.world.map().volumes[&VOLUME].reservations.outcome(stamp);
            outcome == Some(ReservationOutcome::Done) && sim.world.is_settled()
        });
    }
}

/// Whether what the loser had in work, or asks for late, comes over what the winner writes after it has reserved the volume.
fn is_overwritten(seed: u64, policy: Policy, bug: Option<Bug>) -> bool {
    let mut sim = Sim::new(seed, policy, bug);
    sim.change(1, ReservationAction::Register { key: 0, new: 7, ignores: false });
    let before = sim.world.map().volumes[&VOLUME].reservations.version;
    for sector in 0..SECTORS {
        sim.write(0, LOSER, sector, b'l', before);
        for _ in 0..seed % 7 {
            sim.world.step();
        }
    }
    if seed.is_multiple_of(3) {
        sim.world.kill(NodeId(4), false);
    }
    let kind = ReservationKind::WriteExclusive;
    sim.change(2, ReservationAction::Reserve { key: 7, kind });
    let now = sim.world.map().volumes[&VOLUME].reservations.version;
    let wins: Vec<u64> = (0..SECTORS).map(|s| sim.write(1, WINNER, s, b'w', now)).collect();
    // Sent before, and come late.
    let late: Vec<u64> = (0..4).map(|s| sim.write(2, LOSER, s, b'L', before)).collect();
    sim.until(|sim| wins.iter().chain(&late).all(|n| sim.answer(*n).is_some()));
    for n in &wins {
        assert!(
            matches!(sim.answer(*n), Some(Ok(_))),
            "seed {seed} of {policy:?}: {:?}",
            sim.answer(*n)
        );
    }
    let outdated = |n: &u64| matches!(sim.answer(*n), Some(Err(HostError::Outdated)));
    assert!(bug.is_some() || late.iter().all(outdated));
    sim.world.host(NodeId(3), 5, VOLUME, HostOp::Read(Range { offset: 0, len: SECTORS * SECTOR }));
    sim.until(|sim| sim.answer(5).is_some());
    let Some(Ok(HostData::Bytes(pieces))) = sim.answer(5) else { panic!("a read is answered") };
    let bytes = Buffer::join(pieces);
    bytes.iter().any(|byte| *byte != b'w')
}

fn policies() -> Vec<Policy> {
    vec![
        policy(&[]),
        policy(&[("ordering", "lock-server")]),
        policy(&[("ordering", "sequencer")]),
        policy(&[("redundancy", "deferred")]),
        policy(&[("roles", "controller")]),
    ]
}

#[test]
fn what_a_reservation_forbids_does_not_happen_after_its_answer() {
    for policy in policies() {
        for seed in 0..60 {
            assert!(!is_overwritten(seed, policy, None), "seed {seed} of {policy:?}");
        }
    }
}

#[test]
fn writes_that_do_not_heed_reservations_are_found() {
    let found = |seed| is_overwritten(seed, Policy::default(), Some(Bug::IgnoresReservations));
    assert!((0..60).any(found));
}

/// Whether a write begins whose session was lost while it waited for three nodes, more than the layout can lose.
fn begins_after_its_session(seed: u64, bug: Option<Bug>) -> bool {
    let mut sim = Sim::new(seed, policy(&[("lost-wait", "forever")]), bug);
    let away = [NodeId(2), NodeId(3), NodeId(4)];
    away.iter().for_each(|node| sim.world.kill(*node, false));
    sim.until(|sim| {
        sim.world.is_settled() && away.iter().all(|node| !sim.world.map().is_up(*node))
    });
    let asked: Vec<(u64, u64)> =
        (0..SECTORS).map(|s| (s, sim.write(0, LOSER, s, b'l', u64::MAX))).collect();
    for _ in 0..500 {
        sim.world.step();
        sim.heard.append(&mut sim.world.replies);
    }
    let waiting: Vec<(u64, u64)> =
        asked.into_iter().filter(|(_, n)| sim.answer(*n).is_none()).collect();
    assert!(!waiting.is_empty(), "seed {seed}: nothing waits");
    waiting.iter().for_each(|(_, n)| sim.world.host_gone(NodeId(0), *n));
    away.iter().for_each(|node| sim.world.start_node(*node));
    sim.until(|sim| is_ready(&sim.world) && away.iter().all(|n| sim.world.map().is_up(*n)));
    let all = Range { offset: 0, len: SECTORS * SECTOR };
    sim.world.host(NodeId(1), 5, VOLUME, HostOp::Read(all));
    sim.until(|sim| sim.answer(5).is_some());
    let Some(Ok(HostData::Bytes(pieces))) = sim.answer(5) else { panic!("a read is answered") };
    let bytes = Buffer::join(pieces);
    waiting.iter().any(|(s, _)| bytes[(s * SECTOR) as usize] == b'l')
}

#[test]
fn what_a_lost_session_asked_does_not_begin_later() {
    assert!((0..20).all(|seed| !begins_after_its_session(seed, None)));
    assert!((0..20).any(|seed| begins_after_its_session(seed, Some(Bug::WorksForTheGone))));
}
