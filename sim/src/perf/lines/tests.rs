use super::*;
use crate::engine::Queue;
use crate::perf::{Hierarchy, Layout, Torus};
use weft_load::workload::{Addresses, Arrivals, Requests, Think, Workload};

/// 436 bytes and the header are 500 us at 1 MB/s.
const DATA: u64 = 436;

/// A torus of 4 by 3 disks, with links of 1 MB/s and 5 us of set-up.
fn system(switching: Switching) -> System {
    let mut system = System::under(Workload {
        hosts: 2,
        arrivals: Arrivals::Closed { population: 1, think: Think::default() },
        requests: Requests::Fixed { bytes: 4096, read_share: 1.0 },
        addresses: Addresses::Uniform,
        align_bytes: None,
    });
    system.nodes.workers = 12;
    system.volume.layout = Layout("raid5".into());
    system.links = Links {
        fabric: Fabric::Torus,
        mb_s: 1.0,
        latency_us: 0.0,
        set_up_us: 5.0,
        torus: Some(Torus { width: Some(4), switching }),
        ..Links::default()
    };
    system
}

/// What comes to pass of these, sent at once: when each is there, by number, in the order in which they come.
fn sent(lines: &mut Lines, ends: &[(u32, u32)]) -> Vec<(u32, Nanos)> {
    let (mut queue, mut out, mut there) = (Queue::default(), Coming::new(), Vec::new());
    for (n, ends) in ends.iter().enumerate() {
        lines.send(0, *ends, DATA, Cargo::Request(n as u32), &mut out);
    }
    loop {
        out.drain(..).for_each(|(after, event)| queue.push(after, event));
        let Some(event) = queue.pop() else { return there };
        let now = queue.now();
        if let Some(Trip { cargo: Cargo::Request(n), .. }) = lines.happens(now, event, &mut out) {
            there.push((n, now));
        }
    }
}

fn lines(system: &System) -> Lines {
    assert_eq!(system.check(), Ok(()));
    let nodes = usize::from(system.nodes.workers) + system.nodes.diskless();
    Lines::new(system, nodes, fastrand::Rng::with_seed(1)).unwrap()
}

#[test]
fn a_message_cuts_through_or_is_stored_at_each_node() {
    // From 0 to 2 is two links across, one way round or the other.
    let ends = [(0, 2)];
    assert_eq!(sent(&mut lines(&system(Switching::CutThrough)), &ends), [(0, 510_000)]);
    assert_eq!(sent(&mut lines(&system(Switching::StoreAndForward)), &ends), [(0, 1_010_000)]);
}

#[test]
fn one_that_waits_holds_no_link_behind_it() {
    let mut lines = lines(&system(Switching::CutThrough));
    // 1 to 2 is in use, so 0 to 2 waits at 1; 0 to 1 is free again when its tail has passed.
    let there = sent(&mut lines, &[(1, 2), (0, 2), (0, 1)]);
    assert_eq!(there, [(0, 505_000), (1, 1_010_000), (2, 1_010_000)]);
    let used: Vec<(String, Nanos)> = lines.used(1).map(|u| (lines.name(u.0), u.1)).collect();
    assert_eq!(used, [("0 to 1".into(), 1_010_000), ("1 to 2".into(), 1_010_000)]);
}

#[test]
fn messages_go_round_what_is_dead_and_what_waits_goes_another_way() {
    let mut lines = lines(&system(Switching::CutThrough));
    let mut out = Coming::new();
    lines.sets_link(0, (0, 1), true, &mut out);
    // Up, across and down again.
    assert_eq!(sent(&mut lines, &[(0, 1)]), [(0, 515_000)]);
    lines.sets_node(0, 1, true, &mut out);
    assert_eq!(sent(&mut lines, &[(0, 2)]), [(0, 510_000)], "the other way round");
    assert_eq!(sent(&mut lines, &[(0, 1)]), [], "and a dead node is not reached");
    assert_eq!(lines.leaving(0), 0);
    lines.sets_link(0, (0, 1), false, &mut out);
    lines.sets_node(0, 1, false, &mut out);
    assert_eq!(sent(&mut lines, &[(0, 1)]), [(0, 505_000)]);
    lines.send(0, (0, 1), DATA, Cargo::Request(0), &mut out);
    lines.send(0, (0, 1), DATA, Cargo::Request(1), &mut out);
    assert_eq!(lines.leaving(0), 2);
    lines.sets_link(0, (0, 1), true, &mut out);
    let begun = out.iter().filter(|(_, e)| matches!(e, LineEvent::Passed { .. })).count();
    assert_eq!(begun, 2, "the second has begun to go round");
}

/// Two controllers, five back-end buses each of two disks, all of 1 MB/s.
fn hierarchy(turns: u32, arbitration: Arbitration) -> System {
    let mut system = system(Switching::CutThrough);
    (system.nodes.workers, system.nodes.originators, system.nodes.controllers) = (20, 0, Some(2));
    system.links.fabric = Fabric::Hierarchy;
    system.links.torus = None;
    system.links.hierarchy = Some(Hierarchy {
        intermediate_mb_s: 1.0,
        back_end_mb_s: 1.0,
        disks_per_bus: 2,
        turns,
        arbitration,
        ..Hierarchy::default()
    });
    system
}

#[test]
fn buses_are_taken_one_after_the_other_in_so_many_turns() {
    // A host, at the front-end bus; a controller, and one of its disks.
    let all = [(22, 20), (20, 0)];
    let there = sent(&mut lines(&hierarchy(1, Arbitration::Fcfs)), &all);
    assert_eq!(there, [(0, 505_000), (1, 1_002_000)]);
    let there = sent(&mut lines(&hierarchy(4, Arbitration::Fcfs)), &all);
    assert_eq!(there, [(0, 520_000), (1, 1_008_000)], "each turn is set up");
}

#[test]
fn any_that_waits_is_next_or_the_first() {
    let ends: Vec<(u32, u32)> = (0..20).map(|_| (20, 0)).collect();
    let order = |arbitration| {
        let there = sent(&mut lines(&hierarchy(1, arbitration)), &ends);
        assert_eq!(there.last().unwrap().1, 21 * 501_000, "the buses are never idle");
        there.iter().map(|t| t.0).collect::<Vec<u32>>()
    };
    assert!(order(Arbitration::Fcfs).is_sorted());
    assert!(!order(Arbitration::Random).is_sorted());
}
