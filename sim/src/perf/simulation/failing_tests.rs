use super::*;
use crate::perf::Roles;
use crate::perf::{Commit, Fault, FaultKind, Layout, Measure, PathLengths, Store, WarmUp};
use weft_load::workload::{Addresses, Arrivals, Requests, Think, Workload};

/// So many bytes of each disk.
const SIZE: u64 = 2 << 20;

/// Five nodes with small disks under RAID 5, of which all take requests, with these faults.
fn system(faults: &[(f64, FaultKind, u16)]) -> System {
    let mut system = System::like_weft_up(Workload {
        hosts: 5,
        arrivals: Arrivals::Closed { population: 1, think: Think::default() },
        requests: Requests::Fixed { bytes: 4096, read_share: 0.5 },
        addresses: Addresses::Uniform,
        align_bytes: None,
    });
    system.volume.unit = 4096;
    system.nodes.path = PathLengths::NONE;
    (system.hosts.ask_us, system.hosts.reply_us) = (0.0, 0.0);
    system.disks.size_bytes = Some(SIZE);
    system.disks.model = "drnet".to_string();
    let fault = |f: &(f64, FaultKind, u16)| Fault::of_node(f.0, f.1, f.2);
    system.faults = faults.iter().map(fault).collect();
    system.measure = Measure {
        warm_up: WarmUp::Requests(0),
        until_whole: !faults.is_empty(),
        ..Measure::default()
    };
    system
}

fn run(system: &System) -> Outcome {
    Simulation::new(system, 0).unwrap().run().unwrap()
}

use FaultKind::{DiskReplaced, NodeDies, NodeReturns};

#[test]
fn an_empty_disk_is_filled_from_end_to_end_and_hosts_are_served_meanwhile() {
    for (layout, read_share) in [("raid5", 0.5), ("raid5", 1.0), ("raid6", 0.5), ("raid6", 1.0)] {
        let mut system = system(&[(0.5, NodeDies, 1), (1.5, DiskReplaced, 1)]);
        system.volume.layout = Layout(layout.to_string());
        system.workload.requests = Requests::Fixed { bytes: 4096, read_share };
        let outcome = run(&system);
        let seen = outcome.recovered.unwrap();
        let (rate, time) = (seen.rebuild_mb_s.unwrap(), seen.rebuild_s.unwrap());
        // What hosts write meanwhile need not be put back, and what was put back is.
        let bytes = rate * 1e6 * time;
        assert!((0.5 * SIZE as f64..1.05 * SIZE as f64).contains(&bytes), "{seen:?}");
        assert!(outcome.ended > 1_500_000_000 && outcome.all.latency.count() > 100);
        let (whole, degraded) = (seen.whole_ms.unwrap(), seen.degraded_ms.unwrap());
        let rebuilding = seen.rebuilding_ms.unwrap();
        assert!(whole < degraded && whole < rebuilding, "{seen:?}");
    }
}

#[test]
fn it_goes_faster_with_more_at_once_and_not_above_its_rate() {
    let with = |at_once, mb_s| {
        let mut system = system(&[(0.1, NodeDies, 0), (0.5, DiskReplaced, 0)]);
        (system.recovery.at_once, system.recovery.at_once_busy) = (at_once, at_once);
        system.recovery.mb_s = mb_s;
        // What hosts read is put back beside that, and what they write need not be: they do little.
        system.workload.hosts = 1;
        let think = Think::ConstantUs(500_000.0);
        system.workload.arrivals = Arrivals::Closed { population: 1, think };
        run(&system).recovered.unwrap().rebuild_mb_s.unwrap()
    };
    let (one, eight, bound) = (with(1, None), with(8, None), with(8, Some(0.05)));
    assert!(one < eight, "{one} {eight}");
    assert!(bound < 0.055, "{bound}");
}

/// Units of a run are in place one after the other. Were each followed by a new one, the next runs would be of one unit.
#[test]
fn units_are_put_back_together_while_hosts_use_the_disk() {
    let with = |together_bytes| {
        let mut system = system(&[(0.1, NodeDies, 0), (0.5, DiskReplaced, 0)]);
        (system.volume.unit, system.disks.size_bytes) = (16_384, Some(16 << 20));
        let think = Think::ConstantUs(100_000.0);
        system.workload.arrivals = Arrivals::Closed { population: 1, think };
        (system.recovery.at_once, system.recovery.at_once_busy) = (8, 8);
        system.recovery.together_bytes = together_bytes;
        run(&system).work.sent
    };
    let (alone, together) = (with(0), with(65_536));
    assert!(together * 2 < alone, "{together} {alone}");
}

#[test]
fn who_asked_a_node_that_died_is_answered_by_another() {
    // Node 0 takes the requests of host 0, and never returns.
    let mut system = system(&[(0.2, NodeDies, 0)]);
    system.measure = Measure { seconds: Some(3.0), ..system.measure };
    system.measure.until_whole = false;
    let outcome = run(&system);
    let longest = outcome.all.latency.quantile(1.0);
    assert!(longest > 300_000_000, "some waited until it was noticed: {longest}");
    assert!(longest < 1_000_000_000, "and nobody longer: {longest}");
    assert!(outcome.recovered.unwrap().degraded_ms.is_some());
    assert_eq!(outcome.recovered.unwrap().rebuild_mb_s, None);
}

#[test]
fn one_that_is_back_before_anybody_noticed_is_asked_again() {
    let outcome = run(&system(&[(0.2, NodeDies, 0), (0.3, NodeReturns, 0)]));
    assert!(outcome.all.latency.quantile(1.0) >= 100_000_000);
    assert!(outcome.ended > 300_000_000);
}

#[test]
fn real_nodes_put_back_only_what_was_missed() {
    let mut system = system(&[(0.2, NodeDies, 1), (1.2, NodeReturns, 1)]);
    system.nodes.store = Store::Journalled;
    system.volume.journal = true;
    system.volume.size_bytes = Some(16 << 20);
    system.disks.size_bytes = Some(256 << 20);
    let seen = run(&system).recovered.unwrap();
    let bytes = seen.rebuild_mb_s.unwrap() * 1e6 * seen.rebuild_s.unwrap();
    assert!(bytes > 0.0 && bytes < 2e6, "{seen:?}");
}

#[test]
fn hosts_that_are_controllers_go_round_a_dead_device() {
    let mut system = system(&[(0.2, NodeDies, 1), (1.0, DiskReplaced, 1)]);
    system.nodes.roles = Roles::Host;
    system.nodes.originators = 0;
    system.volume.dispatch = crate::perf::Dispatch::Commanded;
    system.volume.commit = Commit::Limited;
    let seen = run(&system).recovered.unwrap();
    assert!(seen.rebuild_s.is_some(), "{seen:?}");
}

#[test]
fn a_seed_gives_the_same_run_with_faults_too() {
    let system = system(&[(0.2, NodeDies, 1), (0.5, DiskReplaced, 1)]);
    let of = || {
        let o = run(&system);
        (o.ended, o.events, o.all.latency.sum())
    };
    assert_eq!(of(), of());
}

#[test]
fn a_node_that_dies_while_another_is_filled_ends_the_run_in_words() {
    let system = system(&[
        (0.2, NodeDies, 1),
        (0.3, DiskReplaced, 1),
        (0.4, NodeDies, 2),
        (9.0, NodeReturns, 2),
    ]);
    let why = Simulation::new(&system, 0).unwrap().run().unwrap_err();
    assert!(why.contains("more columns are lost than the layout tolerates"), "{why}");
}

#[test]
fn faults_that_cannot_be_are_refused() {
    let problem = |faults: &[(f64, FaultKind, u16)]| {
        let mut system = system(faults);
        system.measure.until_whole = false;
        system.check().unwrap_err().to_string()
    };
    assert_eq!(
        problem(&[(1.0, NodeDies, 5)]),
        "faults[0].node = 5: there are 5 nodes with disks; give 0 to 4"
    );
    assert_eq!(
        problem(&[(1.0, NodeReturns, 2)]),
        "faults[0].node = 2: node 2 is up at 1 s; let it fail first"
    );
    assert_eq!(
        problem(&[(2.0, NodeDies, 2), (1.0, NodeDies, 2)]),
        "faults[0].node = 2: node 2 is down at 2 s; let it return first"
    );
    let lost = problem(&[(1.0, NodeDies, 2), (2.0, NodeDies, 3)]);
    assert!(lost.starts_with("faults[1].node = 3: raid5 does not tolerate the failures"), "{lost}");
    assert!(problem(&[(-1.0, NodeDies, 2)]).starts_with("faults[0].at_s = -1: give 0 to 1e6"));
    let mut stays = system(&[(1.0, NodeDies, 2)]);
    assert!(stays.check().unwrap_err().expected.contains("the array never recovers"));
    stays.faults.clear();
    assert!(stays.check().unwrap_err().expected.contains("there are no faults"));
}
