//! Machines at a switch: small cases whose times are counted by hand.

use weft_load::workload::{Arrivals, Think};

use super::*;
use crate::perf::{
    CalculatedAt, Commands, Dispatch, Fabric, Fault, FaultKind, Layout, Machines, Measure,
    PathLengths, Roles, Stripes, WarmUp,
};

/// A controller at a switch with hosts and workers, disks that answer at once. A byte takes a nanosecond of a port, and
/// an instruction one of a processor.
fn system(layout: &str, workers: u16, bytes: u64, read_share: f64) -> System {
    let text = format!(
        "links = {{ fabric = \"switch\", mb_s = 1000, latency_us = 0 }}\n\
         hosts = {{ at_switch = true, ask_us = 0, reply_us = 0 }}\n[workload]\nhosts = 1\n\
         arrivals.closed.population = 1\nrequests.fixed = {{ bytes = {bytes}, read_share = {read_share:?} }}\n\
         align_bytes = {bytes}"
    );
    let mut system: System = toml::from_str(&text).unwrap();
    (system.nodes.workers, system.nodes.originators, system.nodes.mips) = (workers, 0, 1e3);
    system.nodes.path = PathLengths {
        request: 1_000,
        reply: 1_000,
        send: 100,
        receive: 200,
        command: 5_000,
        execute: 300,
        ..PathLengths::NONE
    };
    system.disks.in_memory = true;
    system.volume.layout = Layout(layout.into());
    system.measure = Measure { warm_up: WarmUp::Requests(1), requests: 10, ..Measure::default() };
    system
}

fn run(system: &System) -> Outcome {
    system.check().unwrap();
    Simulation::new(system, 0).unwrap().run().unwrap()
}

#[test]
fn a_read_of_two_disks_takes_what_its_ports_and_processors_take() {
    let outcome = run(&system("raid0", 2, 8192, 1.0));
    let asked = 64;
    // Two commands, which leave one after the other.
    let commanded = 1_000 + 2 * (100 + 5_000) + 64;
    let executed = 200 + 300 + 100;
    // The second reply comes behind the first, through the port of the controller.
    let replied = 2 * (4096 + 64);
    let answered = 200 + 1_000 + 8192 + 64;
    let all = asked + commanded + executed + replied + answered;
    assert_eq!((outcome.all.latency.mean(), outcome.disks.mean), (all as f64, 0.0));
    let Machines { controller, target, host, hosts } = outcome.machines.unwrap();
    let share = |ns: u64| ns as f64 / all as f64;
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
    close(controller.processor, share(1_000 + 2 * 5_100 + 2 * 200 + 1_000));
    close(controller.port, share(64 + 2 * 4160));
    close(controller.port_mb_s / 1e3, share(64 + 2 * 64 + 2 * 4160 + 8256));
    close(target.port, share(4160));
    close(target.processor, share(600));
    close(host.port, share(8256));
    assert_eq!((hosts, host.processor), (1, 0.0));
}

/// The same array, with hosts that are nodes and a controller that all data passes.
fn central(layout: &str, workers: u16, bytes: u64, read_share: f64) -> System {
    let mut system = system(layout, workers, bytes, read_share);
    (system.nodes.roles, system.hosts.at_switch) = (Roles::Central, false);
    system
}

#[test]
fn a_read_through_a_central_controller_passes_its_port_twice() {
    let outcome = run(&central("raid0", 2, 8192, 1.0));
    let asked = 100 + 64;
    let commanded = 200 + 1_000 + 2 * (100 + 5_000) + 64;
    let executed = 200 + 300 + 100;
    let replied = 2 * (4096 + 64);
    let answered = 200 + 100 + 1_000 + 8192 + 64 + 200;
    let all = asked + commanded + executed + replied + answered;
    assert_eq!((outcome.all.latency.mean(), outcome.work.requests), (all as f64, 10));
    let Machines { controller, host, .. } = outcome.machines.unwrap();
    let close = |a: f64, b: u64| assert!((a - b as f64 / all as f64).abs() < 1e-9, "{a} {b}");
    close(controller.processor, 1_000 + 2 * 5_100 + 3 * 200 + 100 + 1_000);
    close(controller.port_mb_s / 1e3, 64 + 2 * 64 + 2 * 4160 + 8256);
    close(host.processor, 100 + 200);
}

#[test]
fn a_read_past_a_controller_costs_its_host_nothing_where_links_are_one_sided() {
    let mut system = central("raid0", 2, 8192, 1.0);
    system.nodes.roles = Roles::Controller;
    let asked = 100 + 64;
    let commanded = 200 + 1_000 + 2 * (100 + 5_000) + 64;
    // A worker sends what was read to the host, and word of it to the controller, which ends it.
    let executed = 200 + 300 + 2 * 100;
    let placed = 2 * (4096 + 64);
    // The end is behind the data in the port of the host, whose processor has yet to take it in.
    let straight = asked + commanded + executed + placed + 64 + 200;
    // Else it takes in the data before that, which came last when the end did.
    let with_both = straight - 64 + 200;
    let two = run(&system);
    system.links.one_sided = true;
    let one = run(&system);
    assert_eq!(
        (two.all.latency.mean(), one.all.latency.mean()),
        (with_both as f64, straight as f64)
    );
    let close = |a: f64, ns: u64, of: &Outcome| {
        assert!((a - ns as f64 / of.all.latency.mean()).abs() < 1e-9, "{a} {ns}");
    };
    for (outcome, host) in [(&two, 100 + 3 * 200), (&one, 100 + 200)] {
        let machines = outcome.machines.unwrap();
        close(machines.host.processor, host, outcome);
        // Headers alone pass the controller: the request, two commands, two words and the end.
        close(machines.controller.port_mb_s / 1e3, 6 * 64, outcome);
        assert_eq!(outcome.messages, 8.0);
    }
}

#[test]
fn commands_for_each_block_are_those_of_the_papers_controller() {
    let with = |commands, stripes, blocks: u64, reads: bool, lost: bool| {
        let mut system = central("raid5", 5, blocks * 4096, if reads { 1.0 } else { 0.0 });
        (system.nodes.roles, system.nodes.commands) = (Roles::Controller, commands);
        (system.volume.stripes, system.volume.calculated_at) =
            (stripes, Some(CalculatedAt::Parity));
        if lost {
            system.faults = vec![Fault::of_node(0.0, FaultKind::NodeDies, 0)];
            // Each disk holds the parity of a fifth of these stripes.
            (system.volume.size_bytes, system.measure.requests) = (Some(5 * 4 * 4096), 400);
        }
        let outcome = run(&system);
        assert_eq!(outcome.work.commands, outcome.work.executed);
        (outcome.work.commands as f64 / system.measure.requests as f64, outcome.all.latency.mean())
    };
    // Four blocks are a full stripe on five disks.
    for (blocks, reads, by_block) in [
        (8, true, 8.0),
        // Each block is fetched, what it changes is sent, and it is written, as is the parity: 3b + 1.
        (1, false, 4.0),
        (2, false, 7.0),
        // Of full stripes each block is fetched and written, and each parity written, but sent by target: F(2k + 1) + k.
        (4, false, 13.0),
        (8, false, 2.0 * 9.0 + 4.0),
        (24, false, 6.0 * 9.0 + 4.0),
    ] {
        let with = |commands| with(commands, Stripes::Small, blocks, reads, false);
        let (column, block) = (with(Commands::Column), with(Commands::Block));
        assert!(column.0 <= 5.0, "{blocks}: one for each worker");
        assert_eq!(block.0, by_block, "{blocks}");
        assert!(block.1 >= column.1 + (by_block - column.0) * 300.0);
    }
    // Parity from the rest of the stripe has that sent as well.
    assert_eq!(with(Commands::Block, Stripes::Large, 2, false, false).0, 7.0 + 2.0);
    // Of four stripes of five a block is lost, which the other four columns are asked for; else all is there.
    let read = with(Commands::Block, Stripes::Small, 4, true, true).0;
    assert!((read - (4.0 / 5.0 * 7.0 + 1.0 / 5.0 * 4.0)).abs() < 0.2, "{read}");
    // A write fetches and writes the three that are there, with the parity; or four, without one.
    let write = with(Commands::Block, Stripes::Small, 4, false, true).0;
    assert!((write - (4.0 / 5.0 * 11.0 + 1.0 / 5.0 * 8.0)).abs() < 0.2, "{write}");
}

#[test]
fn memory_that_is_slower_than_ports_is_what_a_read_waits_for() {
    let mut slow = system("raid0", 2, 8192, 1.0);
    slow.nodes.path = PathLengths::NONE;
    let mut fast = slow.clone();
    slow.nodes.memory_mb_s = Some(500.0);
    fast.nodes.memory_mb_s = Some(1e6);
    // Of the controller all data takes its memory twice: in, at two nanoseconds a byte, and out.
    let times = |system| run(system).all.latency.mean();
    assert_eq!(times(&slow), 64.0 + 64.0 + 2.0 * 8192.0 * 2.0);
    assert_eq!(times(&fast), 64.0 + 64.0 + 2.0 * 4160.0 + 8256.0);
    let used = Simulation::new(&slow, 0).unwrap().resources().unwrap();
    let memory: Vec<&str> =
        used.iter().filter(|u| u.kind == "memory").map(|u| u.name.as_str()).collect();
    assert_eq!(memory, ["0", "1", "2", "3"]);
}

#[test]
fn what_cannot_be_at_a_switch_is_refused_by_its_key() {
    type Change = fn(&mut System);
    let wrong: [(Change, &str); 9] = [
        (|s| s.links.fabric = Fabric::Bus, "hosts.at_switch"),
        (|s| s.hosts.links = Some(s.links), "hosts.at_switch"),
        (
            |s| {
                (s.hosts.at_switch, s.links.fabric, s.nodes.memory_mb_s) =
                    (false, Fabric::Bus, Some(1.0))
            },
            "nodes.memory_mb_s",
        ),
        (|s| s.nodes.memory_mb_s = Some(0.0), "nodes.memory_mb_s"),
        (|s| s.nodes.roles = Roles::Central, "hosts.at_switch"),
        (|s| s.links.one_sided = true, "links.one_sided"),
        (
            |s| {
                (s.nodes.roles, s.hosts.at_switch) = (Roles::Central, false);
                s.volume.dispatch = Dispatch::Commanded;
            },
            "volume.dispatch",
        ),
        (
            |s| {
                (s.nodes.roles, s.hosts.at_switch) = (Roles::Controller, false);
                s.volume.calculated_at = Some(CalculatedAt::Originator);
            },
            "nodes.roles",
        ),
        (
            |s| (s.nodes.commands, s.nodes.path) = (Commands::Block, PathLengths::NONE),
            "nodes.commands",
        ),
    ];
    for (change, key) in wrong {
        let mut system = system("raid5", 5, 8192, 0.5);
        change(&mut system);
        assert_eq!(system.check().unwrap_err().key, key);
    }
}

/// More is asked for than a central controller's port carries while an endpoint has patience: 64 requests of 1 MiB
/// wait for a port of 12.5 MB/s, for 5 seconds. What is repeated meanwhile must not bring its bytes once more.
#[test]
fn the_bytes_of_a_request_pass_a_central_controller_once_however_deep_the_queues() {
    const MIB: f64 = (1 << 20) as f64;
    // A read leaves through the port once, and full stripes with their parity.
    for (read_share, leave) in [(0.0, 1.25), (1.0, 1.0)] {
        let mut system = central("raid5", 5, 1 << 20, read_share);
        (system.nodes.store, system.volume.unit) = (Store::Journalled, 65_536);
        system.disks.size_bytes = Some(256 << 20);
        (system.links.mb_s, system.workload.hosts) = (12.5, 4);
        let think = Think::default();
        system.workload.arrivals = Arrivals::Closed { population: 16, think };
        let warm_up = WarmUp::Requests(64);
        system.measure = Measure { warm_up, requests: 320, ..Measure::default() };
        let outcome = run(&system);
        let most = 12.5e6 / (leave * MIB);
        let (rate, waited) = (outcome.requests_s / most, outcome.all.latency.mean() / 1e9);
        assert!(waited > 5.0, "{waited} s: nothing was repeated");
        assert!(rate > 0.93, "{read_share}: {rate} of what the port carries");
        // Of requests that end before or after those that count, some bytes pass meanwhile.
        let bytes = outcome.work.message_bytes as f64 / (320.0 * MIB);
        assert!(bytes < 1.03 * (1.0 + leave), "{read_share}: {bytes} bytes for each");
    }
}
