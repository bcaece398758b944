//! Requests with places, on simulated nodes: what they wait for, what that costs, and what becomes
//! of the order when the nodes that keep it are lost.

use std::collections::BTreeMap;

use weft_core::cluster::{EXTENT_COLUMN_BYTES, Place as Room, PolicyChange, Volume, place_volume};
use weft_core::layout::{Geometry, LayoutSpec};
use weft_core::node::{HostData, HostError, HostOp, NodeConfig, backup_of, primary_of};
use weft_core::order::sequencer::{OrderCost, SequencerForm, Standpoint};
use weft_core::order::{HostId, Ordering, Place, PlaceError, RequestId};
use weft_core::plan::{Range, Totals};
use weft_core::policy::{Policy, Setting};
use weft_core::units::{MILLIS, NodeId, SECTOR, VolumeId};

use crate::world::World;

const VOLUME: VolumeId = VolumeId(1);
const NODES: usize = 5;

fn id(host: u64, number: u64) -> RequestId {
    RequestId { host: HostId(host), number }
}

/// A world, and what its hosts have heard, in order.
struct Sim {
    world: World,
    heard: Vec<(u64, Result<HostData, HostError>)>,
    /// The number of each request; of two with one name, the later one's.
    names: BTreeMap<RequestId, u64>,
    asked: u64,
}

impl Sim {
    fn new(policy: Policy) -> Sim {
        let layout: LayoutSpec = "rs:2+2".parse().unwrap();
        let geometry = Geometry::new(layout.over(NODES).unwrap(), 4 * SECTOR);
        let size = 16 * geometry.stripe_bytes();
        let config = NodeConfig { patience: 40 * MILLIS, ..NodeConfig::default() };
        let world = World::new(7, NODES, 1200, 256, config, |data| {
            let rooms = Room::apart(&[data; NODES]);
            let extents = place_volume(&geometry, size, &rooms, &[], EXTENT_COLUMN_BYTES).unwrap();
            vec![Volume { policy, ..Volume::new(VOLUME, "v", size, &layout, geometry, extents) }]
        });
        let mut sim = Sim { world, heard: Vec::new(), names: BTreeMap::new(), asked: 0 };
        sim.rest();
        sim
    }

    fn ordered_by(ordering: Ordering) -> Sim {
        Sim::new(Policy { ordering, ..Policy::default() })
    }

    fn of(sequencer: SequencerForm) -> Sim {
        let ordering = Ordering::Sequencer;
        Sim::new(Policy { ordering, sequencer, ..Policy::default() })
    }

    /// Messages that keep order, of all nodes.
    fn order_messages(&self) -> u64 {
        let of = |n| self.world.status(NodeId(n)).unwrap().counters.order_messages;
        (0..NODES as u16).map(of).sum()
    }

    fn step(&mut self) {
        self.world.step().expect("time goes on");
        self.heard.append(&mut self.world.replies);
    }

    /// Lets time pass until all that is up is quiet.
    fn rest(&mut self) {
        let nodes: Vec<NodeId> = (0..NODES as u16).map(NodeId).collect();
        for steps in 0.. {
            assert!(steps < 1_000_000, "no rest");
            let epoch = self.world.map().epoch;
            let quiet = nodes.iter().all(|n| {
                let status = self.world.status(*n);
                status.is_none_or(|s| s.quiet && s.epoch == epoch && self.world.map().is_up(*n))
            });
            if epoch > 0 && quiet {
                return;
            }
            self.step();
        }
    }

    /// Lets so many milliseconds pass.
    fn pass(&mut self, millis: u64) {
        let until = self.world.now() + millis * MILLIS;
        self.world.call_after(millis * MILLIS, 0);
        while self.world.now() < until {
            self.step();
        }
    }

    /// A host asks for a request with a place; returns its number.
    fn ask(&mut self, node: u16, id: RequestId, after: &[RequestId], op: HostOp) -> u64 {
        self.asked += 1;
        let number = self.asked;
        self.names.insert(id, number);
        let place = Place { id, after: after.to_vec(), oldest: 1 };
        self.world.host_in_order(NodeId(node), number, VOLUME, place, op);
        self.heard.append(&mut self.world.replies);
        number
    }

    fn answer(&self, id: RequestId) -> Option<Result<(), &HostError>> {
        let number = self.names[&id];
        let found = self.heard.iter().find(|h| h.0 == number);
        found.map(|h| h.1.as_ref().map(|_| ()))
    }

    fn at(&self, id: RequestId) -> usize {
        self.heard.iter().position(|h| h.0 == self.names[&id]).expect("answered")
    }

    fn totals(&self) -> Totals {
        let mut sum = Totals::default();
        for node in (0..NODES as u16).map(NodeId) {
            let totals = self.world.status(node).unwrap().counters.totals;
            let trips = sum.round_trips + totals.round_trips;
            sum += totals;
            sum.round_trips = trips;
        }
        sum
    }
}

fn write(sector: u64, byte: u8) -> HostOp {
    HostOp::Write(sector * SECTOR, vec![byte; SECTOR as usize].into())
}

fn read(sector: u64) -> HostOp {
    HostOp::Read(Range { offset: sector * SECTOR, len: SECTOR })
}

/// What one write from a node costs.
fn cost(ordering: Ordering, node: u16) -> (u64, u64) {
    let mut sim = Sim::ordered_by(ordering);
    let before = sim.totals();
    sim.ask(node, id(1, 1), &[], write(0, 1));
    sim.rest();
    assert_eq!(sim.answer(id(1, 1)), Some(Ok(())));
    let after = sim.totals();
    (after.messages - before.messages, after.round_trips - before.round_trips)
}

/// What order costs one write from a node, after each of `originators` has had one.
fn order_cost(form: SequencerForm, originators: &[u16], node: u16) -> OrderCost {
    let plain = cost(Ordering::Timestamps, node);
    let mut sim = Sim::of(form);
    for (n, other) in originators.iter().enumerate() {
        sim.ask(*other, id(9, n as u64 + 1), &[], write(4 * n as u64 + 4, 9));
        sim.rest();
    }
    let (before, ordered) = (sim.totals(), sim.order_messages());
    sim.ask(node, id(1, 1), &[], write(0, 1));
    sim.rest();
    assert_eq!(sim.answer(id(1, 1)), Some(Ok(())));
    let messages = sim.totals().messages - before.messages - plain.0;
    let after = sim.order_messages() - ordered - messages;
    let round_trips = sim.totals().round_trips - before.round_trips - plain.1;
    OrderCost { before: messages, round_trips, after }
}

#[test]
fn without_contention_each_form_costs_what_its_formula_says() {
    let nodes = NODES as u64;
    for form in SequencerForm::ALL {
        for originators in [&[2u16][..], &[0, 2], &[0, 1, 2, 3], &[0, 1, 2, 3, 4]] {
            for node in originators {
                let at_primary = *node == 0;
                let standpoint =
                    Standpoint { nodes, originators: originators.len() as u64, at_primary };
                let is = order_cost(form, originators, *node);
                assert_eq!(is, form.cost(standpoint), "{form}, node {node} of {originators:?}");
            }
        }
    }
    // 3.4.4: two round trips, one at the primary's node.
    let centralized = |node| order_cost(SequencerForm::Centralized, &[0, 2], node).round_trips;
    assert_eq!((centralized(2), centralized(0)), (2, 1));
}

#[test]
fn a_node_that_takes_its_first_request_joins_those_that_agree() {
    let mut sim = Sim::of(SequencerForm::OriginatorDriven);
    // It waits at its node for one that has not come, and others must hear of it.
    sim.ask(2, id(1, 2), &[id(1, 1)], write(0, 2));
    sim.pass(5);
    let before = sim.order_messages();
    sim.ask(3, id(2, 1), &[id(1, 2)], write(0, 3));
    sim.pass(5);
    let joined = 2 * (NODES as u64 - 1);
    assert_eq!(sim.order_messages() - before, joined + 2, "and it has asked the other");
    let circle = id(1, 1);
    sim.ask(4, circle, &[id(2, 1)], write(0, 1));
    sim.pass(5);
    let refused = HostError::Place(PlaceError::Cycle(circle));
    assert_eq!(sim.answer(circle), Some(Err(&refused)));
    sim.rest();
    assert!(sim.heard.iter().all(|h| h.1.is_err()));
}

#[test]
fn overlaps_take_some_order_and_never_run_together() {
    for form in SequencerForm::ALL {
        let mut sim = Sim::of(form);
        for n in 1..=40 {
            let node = (n % NODES as u64) as u16;
            sim.ask(node, id(u64::from(node) + 1, n), &[], write(n % 3, n as u8));
        }
        sim.rest();
        assert!(sim.heard.len() == 40 && sim.heard.iter().all(|h| h.1.is_ok()), "{form}");
        let of = |n| sim.world.status(NodeId(n)).unwrap().counters.retries;
        let retries: u64 = (0..NODES as u16).map(of).sum();
        // Those that run together refuse one another; one after the other only a clock that is
        // behind is refused.
        assert!(retries <= 20, "{form}: {retries}");
    }
}

#[test]
fn requests_wait_for_those_they_name_at_other_nodes_and_not_yet_issued() {
    for form in SequencerForm::ALL {
        let mut sim = Sim::of(form);
        sim.ask(2, id(1, 2), &[id(1, 1), id(2, 1)], write(0, 2));
        sim.pass(20);
        assert_eq!(sim.answer(id(1, 2)), None);
        sim.ask(3, id(2, 1), &[id(1, 1)], write(8, 3));
        sim.pass(20);
        assert_eq!(sim.answer(id(2, 1)), None);
        sim.ask(4, id(1, 1), &[], write(0, 1));
        sim.rest();
        assert!(sim.at(id(1, 1)) < sim.at(id(2, 1)) && sim.at(id(2, 1)) < sim.at(id(1, 2)));
        assert!(sim.heard.iter().all(|h| h.1.is_ok()));
        // A read can depend as well, and sees what it comes after.
        sim.ask(1, id(1, 3), &[id(1, 2)], read(0));
        sim.rest();
        let Ok(HostData::Bytes(bytes)) = &sim.heard.last().unwrap().1 else { panic!("bytes") };
        assert!(bytes[0].to_bytes().iter().all(|b| *b == 2));
    }
}

#[test]
fn requests_without_a_place_are_kept_apart_too() {
    let mut sim = Sim::ordered_by(Ordering::Sequencer);
    let before = sim.totals();
    sim.world.host(NodeId(2), 900, VOLUME, write(0, 1));
    sim.world.host(NodeId(3), 901, VOLUME, write(0, 2));
    sim.rest();
    assert!(sim.heard.iter().all(|h| h.1.is_ok()) && sim.heard.len() == 2);
    let retries: u64 =
        (0..NODES as u16).map(|n| sim.world.status(NodeId(n)).unwrap().counters.retries).sum();
    assert!(retries <= 1, "the later one may come too late once, for its node's clock: {retries}");
    assert!(sim.totals().messages - before.messages >= 2 * (4 + 6));
}

#[test]
fn aborts_cascade_over_nodes_and_a_host_that_goes_aborts_what_has_not_begun() {
    for form in SequencerForm::ALL {
        let mut sim = Sim::of(form);
        // The first waits for one that does not come.
        let first = sim.ask(2, id(1, 2), &[id(1, 1)], write(0, 2));
        sim.ask(3, id(2, 1), &[id(1, 2)], write(8, 3));
        sim.ask(4, id(3, 1), &[id(2, 1)], write(16, 4));
        sim.pass(20);
        sim.world.host_gone(NodeId(2), first);
        sim.rest();
        assert_eq!(sim.answer(id(1, 2)), Some(Err(&HostError::Gone)));
        let aborted = |on| HostError::Place(PlaceError::Aborted(on));
        assert_eq!(sim.answer(id(2, 1)), Some(Err(&aborted(id(1, 2)))));
        assert_eq!(sim.answer(id(3, 1)), Some(Err(&aborted(id(2, 1)))));
        // Within ten seconds one that comes later learns of it.
        sim.pass(9_000);
        sim.ask(1, id(3, 2), &[id(3, 1)], write(24, 5));
        sim.rest();
        assert_eq!(sim.answer(id(3, 2)), Some(Err(&aborted(id(3, 1)))));
    }
}

#[test]
fn bad_places_are_refused_by_the_primary_and_by_a_node_alone() {
    let forms = SequencerForm::ALL.map(Some);
    for form in forms.into_iter().chain([None]) {
        let mut sim = form.map_or_else(|| Sim::ordered_by(Ordering::Timestamps), Sim::of);
        let refused = |sim: &mut Sim, node, id, after: &[RequestId]| {
            sim.ask(node, id, after, write(0, 1));
            sim.pass(50);
            match sim.answer(id) {
                Some(Err(HostError::Place(why))) => why.clone(),
                other => panic!("{other:?}"),
            }
        };
        let own = id(1, 1);
        assert_eq!(refused(&mut sim, 2, own, &[own]), PlaceError::AfterItself(own));
        sim.ask(2, id(1, 2), &[id(1, 3)], write(0, 1));
        // The one that closes the circle is the one that comes last to the primary.
        sim.pass(20);
        let circle = id(1, 3);
        assert_eq!(refused(&mut sim, 2, circle, &[id(1, 2)]), PlaceError::Cycle(circle));
        sim.ask(2, id(1, 4), &[], write(0, 1));
        sim.pass(50);
        assert_eq!(refused(&mut sim, 2, id(1, 4), &[]), PlaceError::Reused(id(1, 4)));
        let many: Vec<RequestId> = (1000..2025).map(|n| id(1, n)).collect();
        let bound = PlaceError::TooManyUnissued { host: 1, bound: 1024 };
        assert_eq!(refused(&mut sim, 2, id(1, 5), &many), bound);
        let foreign = PlaceError::NotOrdered(id(2, 1));
        if form.is_none() {
            assert_eq!(refused(&mut sim, 2, id(1, 6), &[id(2, 1)]), foreign);
        } else {
            // The name is used at another node.
            assert_eq!(refused(&mut sim, 3, id(1, 4), &[]), PlaceError::Reused(id(1, 4)));
        }
        // One that never comes.
        sim.ask(2, id(1, 8), &[id(1, 7)], write(0, 1));
        sim.pass(31_000);
        let never = HostError::Place(PlaceError::NeverIssued(id(1, 7)));
        assert_eq!(sim.answer(id(1, 8)), Some(Err(&never)));
        sim.rest();
    }
}

#[test]
fn without_a_sequencer_a_hosts_own_requests_wait_and_no_message_is_sent() {
    let plain = cost(Ordering::Timestamps, 2);
    let mut sim = Sim::ordered_by(Ordering::Timestamps);
    let before = sim.totals();
    sim.ask(2, id(1, 2), &[id(1, 1)], write(0, 2));
    sim.pass(20);
    assert_eq!(sim.answer(id(1, 2)), None);
    sim.ask(2, id(1, 1), &[], write(0, 1));
    sim.rest();
    assert!(sim.at(id(1, 1)) < sim.at(id(1, 2)));
    assert_eq!(sim.totals().messages - before.messages, 2 * plain.0);
}

/// Chains over the nodes that are to live, of which the first waits for one that comes after the
/// fault; then nodes die, that one comes, and all must be done in order.
fn survive(form: SequencerForm, victims: &[u16], apart_ms: u64) {
    let mut sim = Sim::of(form);
    assert_eq!(primary_of(sim.world.map()), Some(NodeId(0)));
    assert_eq!(backup_of(sim.world.map()), Some(NodeId(1)));
    // One is complete, and only its end is remembered.
    sim.ask(2, id(9, 1), &[], write(40, 9));
    sim.rest();
    for n in 2..=9 {
        let node = 2 + (n % 3) as u16;
        sim.ask(node, id(1, n), &[id(1, n - 1), id(9, 1)], write(4 * n, n as u8));
    }
    sim.pass(5);
    for victim in victims {
        sim.world.kill(NodeId(*victim), false);
        sim.pass(apart_ms);
    }
    sim.ask(3, id(1, 1), &[], write(0, 1));
    sim.rest();
    for n in 1..=9 {
        assert_eq!(sim.answer(id(1, n)), Some(Ok(())), "{form}, request {n}, {victims:?}");
        assert!(n == 1 || sim.at(id(1, n - 1)) < sim.at(id(1, n)));
    }
}

#[test]
fn the_loss_of_primary_or_backup_or_both_neither_loses_nor_breaks_an_order() {
    for form in SequencerForm::ALL {
        for apart in [0, 1, 30] {
            survive(form, &[0], apart);
            survive(form, &[1], apart);
            survive(form, &[0, 1], apart);
            survive(form, &[1, 0], apart);
        }
    }
}

/// Chains over the nodes whose first waits for one that comes after another form has taken over.
fn change_form(from: SequencerForm, to: SequencerForm) {
    let mut sim = Sim::of(from);
    sim.ask(2, id(9, 1), &[], write(40, 9));
    sim.rest();
    for n in 2..=9 {
        sim.ask((n % 5) as u16, id(1, n), &[id(1, n - 1), id(9, 1)], write(4 * n, n as u8));
    }
    // Some are in progress, too.
    for n in 10..20 {
        sim.ask((n % 5) as u16, id(1, n), &[], write(n % 3, n as u8));
    }
    let change = PolicyChange::to([Setting::Sequencer(to)]);
    sim.world.set_policy(VOLUME, change);
    sim.pass(5);
    sim.ask(3, id(1, 1), &[], write(0, 1));
    sim.rest();
    assert_eq!(sim.world.map().sequencer(), Some(to));
    for n in 1..20 {
        assert_eq!(sim.answer(id(1, n)), Some(Ok(())), "request {n}, {from} to {to}");
        assert!(!(2..=9).contains(&n) || sim.at(id(1, n - 1)) < sim.at(id(1, n)));
    }
}

#[test]
fn a_form_takes_over_from_another_while_requests_wait_and_run() {
    for from in SequencerForm::ALL {
        SequencerForm::ALL.into_iter().for_each(|to| change_form(from, to));
    }
}

#[test]
fn what_a_lost_originator_had_not_ended_aborts_what_depends_on_it() {
    for form in SequencerForm::ALL {
        let mut sim = Sim::of(form);
        sim.ask(4, id(1, 2), &[id(1, 1)], write(0, 2));
        sim.ask(2, id(2, 1), &[id(1, 2)], write(8, 3));
        sim.pass(10);
        sim.world.kill(NodeId(4), false);
        sim.rest();
        let aborted = HostError::Place(PlaceError::Aborted(id(1, 2)));
        assert_eq!(sim.answer(id(2, 1)), Some(Err(&aborted)));
    }
}

#[test]
fn what_was_done_is_known_even_when_originator_and_primary_are_lost_together() {
    for form in SequencerForm::ALL {
        let mut sim = Sim::of(form);
        sim.ask(4, id(1, 1), &[], write(0, 2));
        sim.rest();
        sim.world.kill(NodeId(4), false);
        sim.world.kill(NodeId(0), false);
        sim.pass(100);
        sim.ask(2, id(2, 1), &[id(1, 1)], write(8, 3));
        sim.rest();
        assert_eq!(sim.answer(id(2, 1)), Some(Ok(())), "the backup knew");
    }
}

#[test]
fn without_journal_what_comes_first_is_flushed_first() {
    let policy = Policy { ordering: Ordering::Sequencer, journal: false, ..Policy::default() };
    for sequencer in SequencerForm::ALL {
        flushed_first(Policy { sequencer, ..policy });
    }
}

fn flushed_first(policy: Policy) {
    let mut sim = Sim::new(policy);
    sim.world.story_length = 10_000;
    sim.ask(2, id(1, 1), &[], write(0, 1));
    sim.ask(3, id(1, 2), &[id(1, 1)], write(8, 2));
    sim.rest();
    assert_eq!(sim.answer(id(1, 2)), Some(Ok(())));
    let flushes = sim.world.story.iter().filter(|l| l.contains("Flush {")).count();
    assert_eq!(flushes, NODES, "one for every node, before the second");
}
