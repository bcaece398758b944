use super::*;
use crate::perf::Roles;
use crate::perf::{
    CalculatedAt, Commit, Dispatch, Fabric, Hosts, Layout, Links, Measure, Nodes, Ordering,
    PathLengths, Simulation, VolumeSpec, WarmUp,
};
use weft_load::workload::{Addresses, Arrivals, Requests, Think, Workload};

/// Hosts that are their own controllers, on five devices.
fn system(hosts: u32, bytes: u64, read_share: f64) -> System {
    let workload = Workload {
        hosts,
        arrivals: Arrivals::Closed { population: 1, think: Think::ConstantUs(50_000.0) },
        requests: Requests::Fixed { bytes, read_share },
        addresses: Addresses::Uniform,
        align_bytes: None,
    };
    let mut system = System {
        nodes: Nodes {
            roles: Roles::Host,
            workers: 5,
            originators: 0,
            path: PathLengths::NONE,
            ..Nodes::default()
        },
        links: Links {
            fabric: Fabric::Switch,
            latency_us: 1_000.0,
            latency_most_us: Some(1_000.0),
            ..Links::default()
        },
        hosts: Hosts { ask_us: 0.0, reply_us: 0.0, message_us: 750.0, ..Hosts::default() },
        volume: VolumeSpec {
            layout: Layout("raid5".to_string()),
            calculated_at: Some(CalculatedAt::Originator),
            dispatch: Dispatch::Commanded,
            commit: Commit::Limited,
            ..VolumeSpec::default()
        },
        measure: Measure {
            warm_up: WarmUp::Requests(10),
            seconds: Some(20.0),
            ..Measure::default()
        },
        ..System::under(workload)
    };
    system.disks.model = "shared-storage".to_string();
    system.disks.size_bytes = Some(1_000 * 4096);
    system
}

fn run(system: &System) -> crate::perf::Outcome {
    Simulation::new(system, 0).unwrap().run().unwrap()
}

#[test]
fn a_read_alone_takes_its_messages_its_disk_and_nothing_else() {
    let outcome = run(&system(1, 4096, 1.0));
    // Sent for 750 us; 64 bytes at 10 MB/s are 6.4 us; 1 ms; 8 ms and 4096 bytes at 16 MB/s, which is
    // 256 us; 4160 bytes are 416 us; 1 ms; 750 us.
    let expected = 750.0 + 6.4 + 1_000.0 + 8_256.0 + 416.0 + 1_000.0 + 750.0;
    let mean = outcome.all.latency.mean() / 1e3;
    assert!((mean - expected).abs() < 1.0, "{mean} us, and {expected} were expected");
    assert!((outcome.messages - 2.0).abs() < 0.05, "{}", outcome.messages);
    assert_eq!(outcome.delayed, 0.0);
    let seconds = (outcome.ended - outcome.began) as f64 / 1e9;
    assert!((20.0..20.1).contains(&seconds), "{seconds}");
}

#[test]
fn messages_are_sent_one_after_the_other_and_their_times_vary_if_told_to() {
    let mut system = system(1, 16_384, 1.0);
    // A stripe: messages to four devices.
    system.workload.align_bytes = Some(16_384);
    let constant = run(&system);
    let mean = constant.all.latency.mean() / 1e3;
    // The last is sent after 3 ms; the first answer is there long before the last.
    let expected = 4.0 * 750.0 + 6.4 + 1_000.0 + 8_256.0 + 416.0 + 1_000.0 + 750.0;
    assert!((mean - expected).abs() < 1.0, "{mean} us, and {expected} were expected");
    assert!((constant.messages - 8.0).abs() < 0.1, "{}", constant.messages);
    system.hosts.message_times = MessageTimes::Exponential;
    let (low, high) = {
        let outcome = run(&system);
        (outcome.all.latency.quantile(0.05) as f64, outcome.all.latency.quantile(0.95) as f64)
    };
    assert!(high > 1.2 * low, "{low} {high}");
}

#[test]
fn clocks_are_off_within_bounds_and_order_still_holds() {
    let mut system = system(6, 4096, 0.5);
    system.hosts.clock_ms = 3.0;
    let diskless = Diskless::new(&system, Streams::new(1, 0));
    let now = 1_000_000_000;
    let device = diskless.clock(0, now);
    let off: Vec<i64> =
        (0..6).map(|h| diskless.clock(diskless.of_host(h), now) as i64 - device as i64).collect();
    assert!(off.iter().all(|o| o.abs() <= 3_000_000), "{off:?}");
    assert!(off.iter().any(|o| *o < 0) && off.iter().any(|o| *o > 0), "{off:?}");
    assert_eq!(diskless.clock(5, now), device, "the lock server's is right");
    // A few blocks for all of them: requests meet.
    system.workload.addresses = Addresses::Part { share: 0.002, regions: 1 };
    let crowded = run(&system);
    assert!(crowded.delayed > 0.01, "{}", crowded.delayed);
}

/// Figures 7 and 8 of the paper, and 4.2.1: what each way of ordering adds to the messages of a read
/// and of a small write, which none of the devices' ways adds anything to.
#[test]
fn ordering_costs_the_messages_that_the_paper_says() {
    let messages = |ordering, read_share| {
        let mut system = system(1, 4096, read_share);
        system.volume.ordering = ordering;
        run(&system).messages
    };
    for (ordering, read, write) in [
        (Ordering::None, 2.0, 8.0),
        (Ordering::Timestamps, 2.0, 8.0),
        (Ordering::DeviceLocks, 3.0, 8.0),
        (Ordering::LockServer, 5.0, 11.0),
    ] {
        let (of_read, of_write) = (messages(ordering, 1.0), messages(ordering, 0.0));
        assert!((of_read - read).abs() < 0.1, "{ordering:?}: {of_read} for a read");
        assert!((of_write - write).abs() < 0.1, "{ordering:?}: {of_write} for a write");
    }
}

/// 4.3: with a lock server for each device a small write asks two of them, one after the other.
#[test]
fn divided_locks_are_asked_for_at_one_server_after_the_other() {
    let run_with = |lock_servers, read_share| {
        let mut system = system(1, 4096, read_share);
        system.volume.ordering = Ordering::LockServer;
        system.nodes.lock_servers = lock_servers;
        run(&system)
    };
    for (share, one, five) in [(1.0, 5.0, 5.0), (0.0, 11.0, 14.0)] {
        for (servers, expected) in [(1, one), (5, five)] {
            let messages = run_with(servers, share).messages;
            assert!((messages - expected).abs() < 0.1, "{servers} servers: {messages}");
        }
    }
    let latency = |servers| run_with(servers, 0.0).all.latency.mean() / 1e6;
    // Four messages' processing and two ways more.
    let longer = latency(5) - latency(1);
    assert!((4.5..6.0).contains(&longer), "{longer} ms");
}

#[test]
fn divided_locks_keep_apart_what_meets() {
    for ordering in [Ordering::LockServer, Ordering::CallbackLocks] {
        let mut system = system(16, 4096, 0.5);
        system.volume.ordering = ordering;
        system.nodes.lock_servers = 3;
        system.workload.addresses = Addresses::Part { share: 0.002, regions: 1 };
        let crowded = run(&system);
        assert!(crowded.delayed > 0.1, "{ordering:?}: {}", crowded.delayed);
        assert!(crowded.requests_s > 50.0, "{ordering:?}: {}", crowded.requests_s);
    }
}

#[test]
fn each_host_has_a_processor_of_its_own() {
    let of = |hosts| {
        let mut system = system(hosts, 4096, 1.0);
        system.hosts.message_us = 20_000.0;
        run(&system).processors.highest
    };
    // 40 ms of 100 or so each, however many there are.
    let (one, four) = (of(1), of(4));
    assert!((0.3..0.5).contains(&one) && (0.3..0.5).contains(&four), "{one} {four}");
}

#[test]
fn what_only_hosts_that_are_nodes_have_is_refused_elsewhere() {
    type Change = fn(&mut System);
    let wrong: [(Change, &str); 6] = [
        (|s| s.nodes.roles = Roles::Array, "hosts.message_us"),
        (|s| s.nodes.originators = 4, "nodes.originators"),
        (|s| s.workload.hosts = 5_000, "workload.hosts"),
        (|s| s.links.latency_most_us = Some(1.0), "links.latency_most_us"),
        (|s| s.disks.size_bytes = Some(1 << 40), "disks.size_bytes"),
        (|s| s.measure.seconds = Some(0.0), "measure.seconds"),
    ];
    for (change, key) in wrong {
        let mut system = system(2, 4096, 1.0);
        assert_eq!(system.check(), Ok(()));
        change(&mut system);
        let problem = system.check().expect_err("refused");
        assert_eq!(problem.key, key, "{problem}");
    }
}
