use super::*;
use crate::perf::{Fabric, Lane, Layout, Measure, PathLengths};
use weft_load::workload::{Addresses, Requests, Think, Workload};

/// The paper's array with so many requests of one size outstanding.
fn system(bytes: u64, read_share: f64, outstanding: u32) -> System {
    System {
        measure: Measure { requests: 500, ..Measure::default() },
        ..System::under(Workload {
            hosts: outstanding,
            arrivals: Arrivals::Closed { population: 1, think: Think::default() },
            requests: Requests::Fixed { bytes, read_share },
            addresses: Addresses::Uniform,
            align_bytes: None,
        })
    }
}

fn run(system: &System) -> Outcome {
    Simulation::new(system, 0).unwrap().run().unwrap()
}

/// Takes away all that costs time but disks and links.
fn without_overhead(mut system: System) -> System {
    system.nodes.path = PathLengths::NONE;
    (system.hosts.ask_us, system.hosts.reply_us) = (0.0, 0.0);
    system.links.latency_us = 0.0;
    system
}

fn mean_ms(outcome: &Outcome) -> f64 {
    outcome.all.latency.mean() / 1e6
}

#[test]
fn a_seed_gives_the_same_run_and_each_replication_another() {
    let system = system(40_960, 0.5, 6);
    let of = |replication| {
        let o = Simulation::new(&system, replication).unwrap().run().unwrap();
        (o.ended, o.events, o.all.latency.sum())
    };
    assert_eq!(of(0), of(0));
    assert_ne!(of(0), of(1));
}

#[test]
fn one_disk_alone_takes_what_the_disk_takes() {
    let mut system = without_overhead(system(4096, 1.0, 1));
    system.nodes.workers = 1;
    system.nodes.originators = 1;
    system.volume.layout = Layout("raid0".to_string());
    system.measure.requests = 5_000;
    // 1 ms controller, 12.6 ms mean seek, half a revolution, a track's part and the bus: 23.6 ms
    // by the disk's own validation.
    let mean = mean_ms(&run(&system));
    assert!((23.3..23.9).contains(&mean), "{mean} ms");
}

#[test]
fn a_saturated_bus_gives_what_it_carries() {
    let mut system = without_overhead(system(1 << 20, 1.0, 8));
    system.links.fabric = Fabric::Bus;
    system.links.mb_s = 1.0;
    // One worker in eleven is the originator itself.
    let most = 1.0 * 11.0 / 10.0;
    let outcome = run(&system);
    assert!((0.97 * most..=most * 1.01).contains(&outcome.throughput_mb_s), "{outcome:?}");
    assert!(outcome.links.mean > 0.97, "{:?}", outcome.links);
}

#[test]
fn what_waits_for_less_answers_sooner() {
    let with = |commit| {
        let mut system = system(40_960, 0.0, 1);
        system.volume.commit = commit;
        mean_ms(&run(&system))
    };
    let (none, early, late) = (with(Commit::None), with(Commit::Early), with(Commit::Late));
    assert!(none < early && early <= late, "{none} {early} {late}");
}

#[test]
fn a_small_write_is_four_transfers_and_a_whole_stripe_one_for_each_disk() {
    let transfers = |bytes, align| {
        let mut system = system(bytes, 0.0, 1);
        system.workload.align_bytes = Some(align);
        system.measure = Measure { warm_up: 0, requests: 50, ..Measure::default() };
        let mut simulation = Simulation::new(&system, 0).unwrap();
        while simulation.run.finished() < 50 {
            let event = simulation.queue.pop().unwrap();
            simulation.happens(event).unwrap();
        }
        let all = simulation.places.iter().map(|p| p.node.status().counters.store);
        let (reads, writes) =
            all.fold((0, 0), |sum, s| (sum.0 + s.disk_reads, sum.1 + s.disk_writes));
        // The next request may have begun.
        (reads / 50, writes / 50)
    };
    assert_eq!(transfers(4096, 4096), (2, 2));
    assert_eq!(transfers(40_960, 40_960), (0, 11));
}

#[test]
fn a_request_that_is_followed_is_somewhere_all_the_time() {
    let system = system(4096, 0.0, 3);
    let timeline = Simulation::new(&system, 0).unwrap().trace(7).unwrap();
    let spans = timeline.spans();
    let mut until = spans[0].from;
    for span in &spans {
        assert!(span.from <= until, "nothing happens until {:?}\n{}", span, timeline.draw());
        until = until.max(span.to);
    }
    let of = |lane: fn(&Lane) -> bool| spans.iter().filter(|s| lane(&s.lane)).count();
    assert_eq!(of(|l| matches!(l, Lane::Host)), 2);
    assert_eq!(of(|l| matches!(l, Lane::Disk(_))), 4, "{}", timeline.draw());
    assert!(timeline.draw().contains("Part, 4096 bytes"));
}

#[test]
fn central_systems_have_a_controller_and_hosts_come_in_an_open_stream_too() {
    let mut system = system(40_960, 0.3, 4);
    system.nodes.originators = 0;
    system.volume.parity_at = ParityAt::Originator;
    system.volume.commit = Commit::None;
    system.workload.arrivals =
        Arrivals::Open { rate_per_s: 5.0, spacing: weft_load::workload::Spacing::Poisson };
    let outcome = run(&system);
    assert!((outcome.requests_s - 5.0).abs() < 0.5, "{}", outcome.requests_s);
}

#[test]
fn what_cannot_be_is_refused() {
    type Change = fn(&mut System);
    let wrong: [(Change, &str); 5] = [
        (|s| s.nodes.mips = 0.0, "nodes.mips"),
        (|s| s.volume.unit = 1000, "volume.unit"),
        (|s| s.volume.layout = Layout("raid7".to_string()), "volume.layout"),
        (|s| s.disks.model = "floppy".to_string(), "disks.model"),
        (|s| s.workload.hosts = 0, "workload.hosts"),
    ];
    for (change, key) in wrong {
        let mut system = system(4096, 1.0, 1);
        change(&mut system);
        let problem = Simulation::new(&system, 0).err().expect("refused");
        assert_eq!(problem.key, key, "{problem}");
    }
}
