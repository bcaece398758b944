//! Changes that come while another is under way.

use super::*;
use crate::cluster::{Registrant, ReservationAction, ReservationChange, ReservationOutcome};

/// An authority with nodes that answer when they are told to.
struct Slow {
    authority: Authority,
    /// What the authority has said and nobody has answered.
    said: Vec<AuthorityOutput>,
    freezes: usize,
    stored: usize,
}

impl Slow {
    fn new() -> Slow {
        let authority = started("raid1", 5, 6);
        Slow { authority, said: Vec::new(), freezes: 0, stored: 0 }
    }

    fn tell(&mut self, input: impl Into<AuthorityInput>) {
        self.authority.handle(input.into(), &mut self.said);
    }

    /// Answers what has been said first.
    fn step(&mut self) {
        match self.said.remove(0) {
            AuthorityOutput::Store(map) => {
                self.stored += 1;
                self.tell(AuthorityInput::Stored(map.epoch));
            }
            AuthorityOutput::Tell(node, MapMessage::Freeze { epoch }) => {
                self.freezes += 1;
                let report = stopped(epoch, 20, Vec::new());
                self.tell(AuthorityInput::Report(node, report));
            }
            AuthorityOutput::Tell(_, MapMessage::Enter { .. }) => {}
        }
    }

    fn settle(&mut self) {
        while !self.said.is_empty() {
            self.step();
        }
        assert!(self.authority.is_settled());
    }

    fn outcome(&self, stamp: u64) -> Option<ReservationOutcome> {
        volume(self.authority.map()).reservations.outcome(stamp)
    }
}

fn registers(stamp: u64) -> Change {
    let who = Registrant { host: "a".into(), port: stamp as u16 };
    let action = ReservationAction::Register { key: 0, new: 5, ignores: false };
    Change::Reserve(ReservationChange { volume: VolumeId(1), who, action, stamp })
}

/// A host that asks for one change after the other, however fast, does not keep nodes from going on.
#[test]
fn changes_that_come_during_another_do_not_start_it_over() {
    let mut s = Slow::new();
    for stamp in 1..=100 {
        s.tell(registers(stamp));
        s.step();
    }
    // Each map takes five nodes that stop and five that enter, and is stored once.
    assert!(s.stored >= 100 / 11 - 1, "{} maps were stored", s.stored);
    s.settle();
    assert!((1..=100).all(|stamp| s.outcome(stamp) == Some(ReservationOutcome::Done)));
    assert_eq!(s.freezes, 5 * s.stored, "none was in vain");
}

#[test]
fn a_change_that_comes_while_a_map_is_stored_is_in_the_next() {
    let mut s = Slow::new();
    s.tell(registers(1));
    (0..5).for_each(|_| s.step());
    assert!(s.authority.is_storing());
    s.tell(registers(2));
    s.step();
    assert_eq!((s.outcome(1), s.outcome(2)), (Some(ReservationOutcome::Done), None));
    assert!(!s.authority.is_settled(), "it goes on by itself");
    s.settle();
    assert_eq!((s.outcome(2), s.stored), (Some(ReservationOutcome::Done), 2));
}

/// What fails while a map is stored is in the one that is stored instead, and so are all changes, once.
#[test]
fn a_node_that_goes_starts_a_change_over_and_none_is_lost() {
    let mut s = Slow::new();
    s.tell(registers(1));
    (0..5).for_each(|_| s.step());
    let Some(AuthorityOutput::Store(first)) = s.said.pop() else { panic!("all have stopped") };
    s.tell(registers(2));
    s.tell(AuthorityInput::NodeDown(NodeId(4)));
    s.tell(AuthorityInput::Stored(first.epoch));
    s.settle();
    let map = s.authority.map();
    assert!(!map.is_up(NodeId(4)) && map.epoch > first.epoch);
    assert_eq!(volume(map).reservations.outcomes.len(), 2);
    assert_eq!(s.stored, 1);
}
