//! Who leads the rebuilds of a disk.

use super::test_bench::*;
use super::*;
use crate::cluster::{Attendance, NodeKind};
use crate::plan::Span;
use crate::policy::{Roles, Setting};

const RUN: Run =
    Run { volume: VOLUME, stripe: 1, stripes: 2, seat: 2, part: Span { lo: 0, hi: UNIT } };

/// The volume has a controller that all data passes: this node, or a fourth one, without a disk.
fn central(bench: &mut Bench, by_fourth: bool) {
    let mut map = ClusterMap::clone(&map(2, Attendance::default()));
    let volume = Arc::make_mut(map.volumes.get_mut(&VOLUME).expect("the volume"));
    Setting::Roles(Roles::Central).apply(&mut volume.policy);
    if by_fourth {
        map.nodes.push(map.nodes[0].clone());
        (map.nodes[3].kind, map.nodes[3].sectors) = (NodeKind::Controller, 0);
    }
    bench.enter(Arc::new(map), at(1));
    bench.sent.clear();
}

/// The stripes of rebuilds that workers are told of.
fn led(bench: &Bench) -> Vec<(u64, u64)> {
    let of = |body: &Body| match body {
        Body::Write { header, .. } => match header.task {
            Task::Rebuild { stripe, stripes, .. } => Some((stripe, stripes)),
            _ => None,
        },
        _ => None,
    };
    let mut told: Vec<_> = bench.sent.iter().filter_map(of).collect();
    told.dedup();
    told
}

fn refused(bench: &Bench) -> u64 {
    bench.node.status().counters.refused_strangers
}

#[test]
fn a_central_controller_leads_the_rebuilds_of_others_and_each_once() {
    let mut bench = Bench::new();
    central(&mut bench, false);
    bench.hear(THIRD, Body::PutBack { runs: vec![RUN] });
    assert_eq!(led(&bench), [(1, 2)]);
    bench.hear(THIRD, Body::PutBack { runs: vec![RUN] });
    assert_eq!((led(&bench), refused(&bench)), (vec![(1, 2)], 0), "it is in work");
}

#[test]
fn what_a_node_does_not_lead_is_refused() {
    let beyond = Run { stripe: u64::MAX, stripes: 2, ..RUN };
    let wrong = [
        (PEER, RUN),
        (THIRD, beyond),
        (THIRD, Run { stripes: 0, ..RUN }),
        (THIRD, Run { stripes: 9, ..RUN }),
        (THIRD, Run { seat: 9, ..RUN }),
        (THIRD, Run { part: Span { lo: 0, hi: 2 * UNIT }, ..RUN }),
        (THIRD, Run { part: Span { lo: 0, hi: 5 }, ..RUN }),
        (THIRD, Run { part: Span { lo: UNIT, hi: UNIT }, ..RUN }),
    ];
    for (n, (from, run)) in wrong.into_iter().enumerate() {
        let mut bench = Bench::new();
        central(&mut bench, false);
        bench.hear(from, Body::PutBack { runs: vec![run] });
        assert_eq!((led(&bench), refused(&bench)), (vec![], 1), "{n}");
    }
    let mut bench = Bench::new();
    bench.hear(THIRD, Body::PutBack { runs: vec![RUN] });
    assert_eq!((led(&bench), refused(&bench)), (vec![], 1), "each leads its own");
    central(&mut bench, true);
    bench.hear(THIRD, Body::PutBack { runs: vec![RUN] });
    assert_eq!((led(&bench), refused(&bench)), (vec![], 2), "another is the controller");
}

#[test]
fn a_node_asks_who_leads() {
    let asked = |bench: &mut Bench| {
        let outbox = &mut bench.node.outbox;
        bench.node.originator.lead(vec![Run { seat: 0, stripe: 0, stripes: 1, ..RUN }], outbox);
        bench.handle(Input::Timer(Timer::Tick));
        let asks = |b: &Body| matches!(b, Body::PutBack { runs } if runs[0].seat == 0);
        (bench.sent.iter().any(asks), led(bench).len())
    };
    let mut bench = Bench::new();
    assert_eq!(asked(&mut bench), (false, 1), "its own");
    let mut bench = Bench::new();
    central(&mut bench, true);
    assert_eq!(asked(&mut bench), (true, 0));
    let mut bench = Bench::new();
    central(&mut bench, false);
    assert_eq!(asked(&mut bench), (false, 1), "it is the controller");
    let rebuilding = Rebuilding { led_by: Some(PEER), ..Rebuilding::default() };
    let config = NodeConfig { rebuilding, ..NodeConfig::default() };
    assert_eq!(asked(&mut Bench::with(config)), (true, 0));
}
