use super::*;
use crate::perf::{
    CalculatedAt, Commit, Dispatch, Fabric, Fault, FaultKind, Hierarchy, Layout, Measure, Ordering,
    PathLengths, Stripes, Switching, Torus, WarmUp,
};
use weft_load::workload::{Arrivals, Think};

/// DR-net: disks on a torus, a fifth as many interface nodes, and hosts that ask on.
fn drnet(disks: u16, read_share: f64) -> System {
    let text = format!(
        "[workload]\nhosts = {}\narrivals = \"saturating\"\nrequests.fixed = {{ bytes = 65536, read_share = {read_share} }}\n\
         align_bytes = 65536",
        disks / 5
    );
    let mut system: System = toml::from_str(&text).unwrap();
    system.disks.model = "drnet".into();
    system.disks.size_bytes = Some(60 << 16);
    (system.nodes.workers, system.nodes.originators) = (disks, 0);
    (system.nodes.controllers, system.nodes.buffers) = (Some(disks / 5), Some(5));
    (system.nodes.path, system.nodes.mips) = (PathLengths::NONE, 10.0);
    system.nodes.path.xor_byte = 1.0;
    (system.hosts.ask_us, system.hosts.reply_us) = (0.0, 0.0);
    (system.links.fabric, system.links.mb_s) = (Fabric::Torus, 100.0);
    (system.links.set_up_us, system.links.latency_us) = (50.0, 0.0);
    system.volume.layout = Layout("drnet".into());
    (system.volume.unit, system.volume.width) = (65536, Some(25));
    (system.volume.stripes, system.volume.commit) = (Stripes::Small, Commit::None);
    system.volume.ordering = Ordering::None;
    system.measure =
        Measure { warm_up: WarmUp::Requests(100), requests: 500, ..Measure::default() };
    system
}

/// The same disks behind a controller and its buses.
fn behind_buses(disks: u16, read_share: f64) -> System {
    let mut system = drnet(disks, read_share);
    (system.nodes.controllers, system.nodes.buffers) = (Some(disks / 50), Some(250));
    (system.nodes.mips, system.volume.dispatch) = (200.0, Dispatch::Commanded);
    system.volume.calculated_at = Some(CalculatedAt::Originator);
    (system.links.fabric, system.links.mb_s) = (Fabric::Hierarchy, 1000.0);
    system.links.set_up_us = 1.0;
    system.links.hierarchy = Some(Hierarchy::default());
    system
}

fn run(system: &System) -> Outcome {
    Simulation::new(system, 0).unwrap().run().unwrap()
}

#[test]
fn saturated_disks_are_busy_and_nobody_holds_more_than_his_buffers() {
    for system in [drnet(50, 1.0), behind_buses(50, 1.0)] {
        let outcome = run(&system);
        // An access takes 8.2 ms and 1.31 for its bytes: 105 a second.
        let most = 50.0 * 1e3 / (8.2 + 65_536.0 / 50_000.0);
        assert!(
            outcome.requests_s > 0.7 * most && outcome.requests_s <= most * 1.01,
            "{}",
            outcome.requests_s
        );
        assert!(
            outcome.outstanding <= 250.0 && outcome.outstanding > 100.0,
            "{}",
            outcome.outstanding
        );
        assert!(outcome.disks.mean > 0.7);
    }
}

#[test]
fn a_small_write_is_six_accesses_and_its_messages_and_sums_are_those_that_it_needs() {
    let mut system = drnet(25, 0.0);
    for behind in [false, true] {
        if behind {
            system = behind_buses(50, 0.0);
        }
        system.nodes.buffers = None;
        system.workload.hosts = 1;
        system.workload.arrivals = Arrivals::Closed { population: 1, think: Think::default() };
        system.measure =
            Measure { warm_up: WarmUp::Requests(0), requests: 40, ..Measure::default() };
        let outcome = run(&system);
        assert_eq!(outcome.work.disk_starts, 6 * 40);
        // Old data to new, and that to each parity: at the disks, or the controller.
        let unit = 65_536 * 40;
        assert_eq!(outcome.work.xor_bytes / unit, if behind { 4 } else { 3 });
        if !behind {
            // The interface tells the data disk and, so that they read ahead, both parities'; those are sent what
            // changes; and all three say that it is done. What else is to be said rides on these, or waits.
            assert!((8.0..10.0).contains(&outcome.messages), "{}", outcome.messages);
        }
    }
}

#[test]
fn a_dead_link_slows_and_stops_nobody() {
    let mut system = drnet(25, 1.0);
    let whole = run(&system);
    let what = FaultKind::LinkDies;
    system.faults = vec![Fault::of_link(0.05, what, [0, 25]), Fault::of_link(0.1, what, [6, 7])];
    let outcome = run(&system);
    assert!(
        outcome.requests_s > 0.9 * whole.requests_s,
        "{} {}",
        outcome.requests_s,
        whole.requests_s
    );
    assert_eq!(outcome.recovered.unwrap().degraded_ms, None);
    // Between any two nodes likewise.
    system.links.fabric = Fabric::PointToPoint;
    system.faults.clear();
    let whole = run(&system);
    system.faults = vec![Fault::of_link(0.0, what, [25, 3])];
    assert!(run(&system).requests_s > 0.9 * whole.requests_s);
}

#[test]
fn a_disk_of_a_cell_is_filled_on_a_torus_and_behind_buses() {
    for mut system in [drnet(25, 1.0), behind_buses(50, 1.0)] {
        system.disks.size_bytes = Some(30 << 16);
        system.faults = vec![
            Fault::of_node(0.1, FaultKind::NodeDies, 3),
            Fault::of_node(0.5, FaultKind::DiskReplaced, 3),
        ];
        system.measure.until_whole = true;
        let seen = run(&system).recovered.unwrap();
        let bytes = seen.rebuild_mb_s.unwrap() * 1e6 * seen.rebuild_s.unwrap();
        let all = f64::from(30u32 << 16);
        assert!((0.95 * all..1.05 * all).contains(&bytes), "{bytes} of {all}: {seen:?}");
    }
}

#[test]
fn cutting_through_is_sooner_than_storing() {
    let mut system = drnet(100, 1.0);
    (system.workload.hosts, system.nodes.buffers) = (1, Some(1));
    let with = |switching| {
        let mut system = system.clone();
        system.links.torus = Some(Torus { switching, ..Torus::default() });
        run(&system).all.latency.mean()
    };
    assert!(with(Switching::CutThrough) < with(Switching::StoreAndForward));
}
