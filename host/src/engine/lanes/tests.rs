//! What holds for every lane: nothing is handed to a node without a lease, nor to one that lives no more.

use std::thread::sleep;
use std::time::{Duration, Instant};

use weft_core::node::{Input, Node, NodeConfig};
use weft_core::units::NodeId;

use super::super::lane::Disks;
use super::*;
use crate::clock::boot_time;

/// Two lanes with a node each, whose lease ends then. The first node is not the reactor's.
fn two(end: Nanos) -> Lanes {
    let mut lanes = Lanes::one(Lease::until(end), true);
    (0..2).for_each(|n| lanes.seat_at(n, Seat::default(), DiskQueue::default()));
    lanes.start(2, &Bell::default(), Polling::Off, false).unwrap();
    for n in 0..2 {
        let node = Node::new(NodeId(n), 1, 1000, NodeConfig::default());
        lanes.seat_mut(usize::from(n)).unwrap().begin(Box::new(node), None);
    }
    lanes.rest();
    lanes
}

fn letter(to: u16) -> Mail {
    Mail::Letter(crate::engine::tests::letter(to))
}

/// What its nodes have handled, and what waits for them, once the other lane is home and its thread sleeps: from then on nothing
/// happens by itself.
fn at_rest(lanes: &mut Lanes) -> (u64, usize) {
    // The reactor may have been given the last of it to run.
    lanes.hand_over();
    lanes.rest();
    let mailbox = lanes.others[0].shared.mailbox.clone();
    assert!(in_time(|| mailbox.is_at_rest()), "the lane's thread does not come to rest");
    let lane = lanes.lane_of(0);
    let seen = (lane.handled, lane.waits());
    lanes.rest();
    seen
}

/// Whether something comes about, for which there is far more time than it takes.
fn in_time(mut reached: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        if reached() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        sleep(Duration::from_millis(1));
    }
}

#[test]
fn nodes_are_in_lanes_in_turn() {
    let lanes = two(Nanos::MAX);
    assert_eq!((lanes.home(0), lanes.home(1), lanes.home(7)), (1, 0, 0));
    let mut lanes = Lanes::one(Lease::until(0), true);
    (0..7).for_each(|n| lanes.seat_at(n, Seat::default(), DiskQueue::default()));
    lanes.start(3, &Bell::default(), Polling::Off, false).unwrap();
    assert_eq!((0..7).map(|n| lanes.home(n)).collect::<Vec<_>>(), [1, 2, 0, 1, 2, 0, 1]);
    assert_eq!(lanes.tallies().iter().map(|t| t.nodes).collect::<Vec<_>>(), [2, 3, 2]);
}

#[test]
fn without_a_lease_no_lane_hands_a_node_anything() {
    let mut lanes = two(1);
    (0..20).for_each(|_| lanes.send(0, letter(0)));
    lanes.send_all();
    assert_eq!(at_rest(&mut lanes), (0, 20), "its thread has been woken for nothing");
    assert!(!lanes.have_work(), "and nobody tries in vain");
    lanes.renew(boot_time() + 60_000_000_000);
    assert!(lanes.have_work(), "what has waited goes on");
    lanes.hand_over();
    assert_eq!(at_rest(&mut lanes), (20, 0));
}

#[test]
fn what_was_meant_for_an_earlier_life_is_dropped() {
    let mut lanes = two(Nanos::MAX);
    let gone = || Input::HostGone(5);
    (0..20).for_each(|n| lanes.send(0, Mail::Input(0, n % 2, gone())));
    lanes.send_all();
    assert_eq!(at_rest(&mut lanes), (10, 0));
}

#[test]
fn little_is_run_by_the_reactor_and_much_by_the_lane() {
    let mut lanes = two(Nanos::MAX);
    lanes.send(0, letter(0));
    lanes.send_all();
    assert_eq!(lanes.held(0).map(|lane| lane.waits()), Some(1), "the reactor is to run it");
    let (mut disks, _) = Disks::new().unwrap();
    while let Some(lane) = lanes.held(0) {
        lane.deliver_by_lease();
        lane.start_disk_operations(&mut disks).unwrap();
    }
    while lanes.take_said().is_some() {}
    lanes.rest();
    assert!(lanes.others[0].held.get().is_none(), "it is home");
    assert_eq!(at_rest(&mut lanes), (1, 0));
    // All at once: of a second lot it would depend on time whether the thread sleeps already.
    let much = MUCH / MESSAGE;
    (0..much).for_each(|_| lanes.send(0, letter(0)));
    assert!(lanes.others[0].held.get().is_none(), "its thread has been called");
    assert_eq!(at_rest(&mut lanes), (1 + much as u64, 0));
    let tally = lanes.tallies()[1];
    assert_eq!((tally.wakes, tally.borrowed), (1, 1), "{tally:?}");
}

#[test]
fn a_thread_that_has_panicked_is_noticed() {
    let mut lanes = two(Nanos::MAX);
    // There is no operation that could end.
    let tag = Tag { node: 0, life: 0, id: 1, urgency: weft_core::store::Urgency::Awaited };
    (0..HANDFUL).for_each(|_| lanes.send(0, Mail::Ended(tag, Err("a test".to_string()))));
    lanes.send_all();
    let mut said = || lanes.take_inbox().iter().any(|said| matches!(said, Said::Fatal(_)));
    assert!(in_time(&mut said), "nobody has said it");
}
