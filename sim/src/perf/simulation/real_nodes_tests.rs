//! What real nodes have and the papers' have not: the journalled store, processors that are shared
//! and work in rounds, devices that are shared, hosts that are threads.

use weft_core::node::{HostOp, NodeConfig};
use weft_core::plan::Range;
use weft_core::policy::Timing;
use weft_core::store::Superblock;
use weft_core::units::MILLIS;
use weft_load::Kind;
use weft_load::workload::{Addresses, Arrivals, Requests, Think, Workload};

use weft_core::units::SECTOR;
use weft_load::random::Streams;

use super::super::setup::{VOLUME, volume};
use super::*;
use crate::disk::Asked;
use crate::perf::{JournalAt, Measure, Nodes, PathLengths, WarmUp};
use crate::world::World;

/// Five nodes on flash under a closed load of one host, with nothing that costs time but disks.
fn system(bytes: u64, read_share: f64, outstanding: u32) -> System {
    let mut system = System {
        measure: Measure { requests: 300, warm_up: WarmUp::Requests(20), ..Measure::default() },
        ..System::like_weft_up(Workload {
            hosts: 1,
            arrivals: Arrivals::Closed { population: outstanding, think: Think::default() },
            requests: Requests::Fixed { bytes, read_share },
            addresses: Addresses::Uniform,
            align_bytes: None,
        })
    };
    system.nodes.mips = 1_000.0;
    system.nodes.path = PathLengths::NONE;
    system.disks.model = "flash".to_string();
    system.disks.size_bytes = Some(64 << 20);
    system.links.mb_s = 1e9;
    system.links.latency_us = 0.0;
    (system.hosts.ask_us, system.hosts.reply_us) = (0.0, 0.0);
    system
}

fn journalled(mut system: System) -> System {
    system.nodes.store = Store::Journalled;
    system
}

fn run(system: &System) -> Outcome {
    Simulation::new(system, 0).unwrap().run().unwrap()
}

fn mean_us(outcome: &Outcome) -> f64 {
    outcome.all.latency.mean() / 1e3
}

#[test]
fn a_write_of_the_journalled_store_waits_for_what_real_ones_wait_for() {
    let plain = mean_us(&run(&system(4096, 0.0, 1)));
    let in_place = run(&journalled(system(4096, 0.0, 1)));
    let mut with_journal = journalled(system(4096, 0.0, 1));
    with_journal.volume.journal = true;
    let in_journal = run(&with_journal);
    // In place: the data, a flush, the table, and a flush, on two disks.
    assert!(in_place.work.flushes >= 4 * 299, "{:?}", in_place.work);
    assert!(mean_us(&in_place) > 1.5 * plain, "{} and {plain}", mean_us(&in_place));
    assert!(mean_us(&in_journal) < mean_us(&in_place));
    assert_eq!(run(&system(4096, 0.0, 1)).work.flushes, 0);
    // A read finds all of the table in memory.
    let reads = run(&journalled(system(4096, 1.0, 1)));
    assert_eq!(reads.work.disk_starts, reads.work.requests);
}

/// A copied write waits for one access of two disks, where parity at once waits for a read before that; and for no disk if the
/// journal is in NVRAM.
#[test]
fn a_copied_write_waits_for_its_journals_alone() {
    let of = |timing: Timing, journal: JournalAt| {
        let mut system = journalled(system(4096, 0.0, 1));
        // Copies are folded in pauses.
        system.workload.arrivals =
            Arrivals::Closed { population: 1, think: Think::ConstantUs(200_000.0) };
        (system.volume.journal, system.volume.redundancy.timing) = (true, timing);
        system.nodes.journal = journal;
        mean_us(&run(&system))
    };
    let [at_once, copied] =
        [Timing::Immediate, Timing::Copied].map(|timing| of(timing, JournalAt::Disk));
    assert!((75.0..125.0).contains(&copied), "{copied}");
    assert!((1.6..2.4).contains(&(at_once / copied)), "{at_once} and {copied}");
    let [at_once, copied] =
        [Timing::Immediate, Timing::Copied].map(|timing| of(timing, JournalAt::Nvram));
    assert!((75.0..125.0).contains(&at_once) && copied < 1.0, "{at_once} and {copied}");
    let plain = System {
        nodes: Nodes { journal: JournalAt::Nvram, ..Nodes::default() },
        ..system(4096, 0.0, 1)
    };
    let refused = plain.check().unwrap_err().to_string();
    assert!(refused.starts_with("nodes.journal = nvram: there is no journal"), "{refused}");
}

/// Requests before those that are counted: to begin with, the journals of nodes that have been filled
/// are not as empty as those of others.
const UNCOUNTED: u64 = 40;
const COUNTED: u64 = 60;

/// A disk that takes so long for anything.
const FIFTY_MICROSECONDS: &str = "name = \"fifty\"\nabout = \"a test's\"\n\n[fixed]\n\
     capacity_bytes = 1073741824\nsector_bytes = 4096\npositioning_ms = 0.05\n\
     bytes_per_s = 1000000000000\nflush_ms = 0.05\n\n[bus]\npiece_bytes = 1048576\n";

/// What nodes that store bytes ask of their disks for the system's requests, one at a time, on a
/// volume that has been filled.
fn asked_with_bytes(system: &System) -> Asked {
    let sectors = system.disk_bytes().unwrap() / SECTOR;
    let config = NodeConfig::default();
    let the_volume = volume(system, system.data_bytes().unwrap()).unwrap();
    let size = the_volume.size;
    let mut world = World::new(7, 5, sectors, Superblock::JOURNAL, config, |_| vec![the_volume]);
    // What nodes put off is put off for as long as in the other world.
    (world.conditions.latency, world.conditions.disk) = ((1, 1), (50_000, 50_000));
    let mut chance = fastrand::Rng::with_seed(1);
    let mut noise = |len: u64| {
        let mut bytes = vec![0; len as usize];
        chance.fill(&mut bytes);
        Buffer::from(bytes)
    };
    // Until a request is answered, and a second longer.
    let mut number = 0;
    let mut ask = |world: &mut World, op: HostOp| {
        number += 1;
        world.host(NodeId(0), number, VOLUME, op);
        let mut answered = None;
        while answered.is_none_or(|at| world.now() < at + 1_000 * MILLIS) {
            world.step().expect("timers at least");
            if let Some((_, result)) = world.replies.pop() {
                assert!(result.is_ok(), "{result:?}");
                answered = Some(world.now());
                world.call_after(1_000 * MILLIS, 0);
            }
        }
    };
    while world.map().epoch == 0
        || (0..5).any(|n| world.status(NodeId(n)).is_none_or(|s| !s.serving))
    {
        world.step().expect("nodes that start");
    }
    for at in (0..size).step_by(1 << 20) {
        let len = (1 << 20).min(size - at);
        ask(&mut world, HostOp::Write(at, noise(len)));
    }
    let sum = |world: &mut World| {
        (0..5).map(|n| world.disk(NodeId(n)).asked).fold(Asked::default(), |sum, a| Asked {
            reads: sum.reads + a.reads,
            writes: sum.writes + a.writes,
            flushes: sum.flushes + a.flushes,
            read_bytes: sum.read_bytes + a.read_bytes,
            written_bytes: sum.written_bytes + a.written_bytes,
        })
    };
    let mut generator = Generator::new(&system.workload, size).unwrap();
    let mut chances = Streams::new(system.measure.seed, 0).stream("host", 0);
    let mut before = Asked::default();
    for n in 0..UNCOUNTED + COUNTED {
        if n == UNCOUNTED {
            before = sum(&mut world);
        }
        let drawn = generator.next(0, &mut chances);
        let range = Range { offset: drawn.offset, len: drawn.len };
        ask(
            &mut world,
            match drawn.kind {
                Kind::Write => HostOp::Write(drawn.offset, noise(drawn.len)),
                _ => HostOp::Read(range),
            },
        );
    }
    let after = sum(&mut world);
    Asked {
        reads: after.reads - before.reads,
        writes: after.writes - before.writes,
        flushes: after.flushes - before.flushes,
        read_bytes: after.read_bytes - before.read_bytes,
        written_bytes: after.written_bytes - before.written_bytes,
    }
}

#[test]
fn nodes_without_bytes_ask_of_their_disks_what_nodes_with_bytes_do() {
    for (journal, bytes) in [(false, 4096), (false, 262_144), (true, 4096), (true, 100_000)] {
        let mut system = journalled(system(bytes, 0.3, 1));
        system.volume.journal = journal;
        system.volume.size_bytes = Some(8 << 20);
        system.disks.parameters = Some(FIFTY_MICROSECONDS.to_string());
        system.workload.align_bytes = Some(4096);
        let think = Think::ConstantUs(1_000_000.0);
        system.workload.arrivals = Arrivals::Closed { population: 1, think };
        system.measure = Measure {
            warm_up: WarmUp::Requests(0),
            requests: UNCOUNTED + COUNTED,
            ..system.measure
        };
        // One more is asked before the run is over, a second later: what the last one left is done.
        let mut simulation = Simulation::new(&system, 0).unwrap();
        let mut until = |asked| {
            while simulation.asked <= asked {
                let event = simulation.queue.pop().unwrap();
                simulation.happens(event).unwrap();
            }
            simulation.work
        };
        let before = until(UNCOUNTED);
        let w = until(UNCOUNTED + COUNTED) - before;
        let without = Asked {
            reads: w.disk_starts - w.disk_writes - w.flushes,
            writes: w.disk_writes,
            flushes: w.flushes,
            read_bytes: w.disk_bytes - w.written_bytes,
            written_bytes: w.written_bytes,
        };
        // Which pages of the owners a checkpoint writes is a matter of which slots are free, and so of what was written before.
        let with = asked_with_bytes(&system);
        let pages = with.writes.abs_diff(without.writes);
        assert!(
            pages <= with.writes / 200,
            "{bytes} bytes, journal {journal}: {without:?}, {with:?}"
        );
        let same = Asked {
            writes: without.writes,
            written_bytes: with.written_bytes + without.writes * SECTOR - with.writes * SECTOR,
            ..with
        };
        assert_eq!(without, same, "{bytes} bytes, journal {journal}");
    }
}

#[test]
fn a_journalled_run_is_the_same_again() {
    let system = journalled(system(16_384, 0.5, 4));
    let of = |o: Outcome| (o.ended, o.events, o.work, o.all.latency.sum());
    assert_eq!(of(run(&system)), of(run(&system)));
}

#[test]
fn what_a_journalled_run_holds_does_not_grow_with_its_length() {
    let held = |requests| {
        let mut system = journalled(system(4096, 0.0, 4));
        system.volume.journal = true;
        let mut simulation = Simulation::new(&system, 0).unwrap();
        let mut most = (0, 0);
        while simulation.run.finished() < requests {
            let event = simulation.queue.pop().unwrap();
            simulation.happens(event).unwrap();
            let places = simulation.places.iter();
            let held: u64 = places.map(|p| p.node.held_bytes()).sum();
            most = (most.0.max(simulation.queue.len()), most.1.max(held));
        }
        most
    };
    let (few, many) = (held(4_000), held(12_000));
    assert!(many.0 <= 2 * few.0, "events: {few:?} {many:?}");
    assert!(few.1 > 0 && many.1 <= few.1 * 3 / 2, "bytes: {few:?} {many:?}");
}

#[test]
fn a_shared_processor_does_the_work_of_all_its_nodes() {
    let with = |processors| {
        let mut system = system(4096, 1.0, 8);
        system.nodes.path.request = 100_000;
        system.nodes.processors = processors;
        system.workload.hosts = 5;
        system.measure.requests = 5_000;
        run(&system).requests_s
    };
    // 100 us each: 10,000 a second on one, and twice as many on two.
    assert!((with(Some(1)) / 1e4 - 1.0).abs() < 0.01, "{}", with(Some(1)));
    let two = with(Some(2));
    assert!((1.5e4..2.01e4).contains(&two), "{two}");
    assert!(with(None) > 1.2 * two);
}

#[test]
fn disks_that_share_a_device_share_its_channels() {
    let with = |devices| {
        let mut system = system(4096, 1.0, 200);
        system.disks.devices = devices;
        system.workload.hosts = 5;
        run(&system).requests_s
    };
    let (one, five) = (with(Some(1)), with(None));
    assert!(five > 2.0 * one, "{five} {one}");
    let mut whole = system(4096, 1.0, 1);
    whole.disks.size_bytes = None;
    let alone = whole.disk_bytes().unwrap();
    whole.disks.devices = Some(1);
    assert_eq!(whole.disk_bytes().unwrap(), alone / 5 / SECTOR * SECTOR);
}

#[test]
fn what_a_processor_copies_it_is_charged_for() {
    let with = |change: fn(&mut PathLengths)| {
        let mut system = system(65_536, 1.0, 1);
        system.workload.align_bytes = Some(65_536);
        change(&mut system.nodes.path);
        system.nodes.processors = Some(1);
        run(&system)
    };
    let of = |outcome: &Outcome| mean_us(outcome) * 1e3 / 65_536.0;
    let nothing = with(|_| {});
    let work = &nothing.work;
    // From the disk, to the host, and between nodes.
    assert!((299..=301).contains(&(work.disk_bytes / 65_536)), "{work:?}");
    assert!((299..=301).contains(&(work.host_bytes / 65_536)), "{work:?}");
    let copies = 2.0 + work.message_bytes as f64 / work.disk_bytes as f64;
    assert!(copies > 2.5, "{copies}");
    for (change, times) in [
        ((|p| p.copy_byte = 1.0) as fn(&mut PathLengths), copies),
        (|p| p.host_byte = 1.0, 1.0),
        (|p| p.disk_byte = 1.0, 1.0),
        (|p| p.write_byte = 1.0, 0.0),
    ] {
        let more = of(&with(change)) - of(&nothing);
        assert!((more - times).abs() < 0.05, "{more} instead of {times}");
    }
}

/// One processor in rounds, disks in memory, one host that is a thread.
fn in_memory(read_share: f64, outstanding: u32) -> System {
    let mut system = journalled(system(4096, read_share, outstanding));
    (system.nodes.processors, system.nodes.rounds) = (Some(1), true);
    (system.disks.in_memory, system.hosts.threads) = (true, true);
    system
}

#[test]
fn a_lone_read_takes_a_round_and_what_wakes_both_sides() {
    let mut system = in_memory(1.0, 1);
    (system.nodes.wake_us, system.hosts.wake_us) = (20.0, 30.0);
    (system.hosts.ask_us, system.hosts.reply_us) = (3.0, 4.0);
    (system.nodes.path.round, system.nodes.path.request) = (5_000, 1_000);
    (system.nodes.path.disk_start, system.nodes.path.disk_byte) = (2_000, 0.25);
    let outcome = run(&system);
    assert_eq!(outcome.work.rounds, outcome.work.requests);
    // The host is awake when it asks again.
    // Going to sleep keeps nobody waiting.
    system.nodes.path.sleep = 4_000;
    let sleepy = run(&system);
    assert_eq!(mean_us(&sleepy), mean_us(&outcome));
    assert!(sleepy.processors.mean > 1.3 * outcome.processors.mean);
    let all = 3.0 + 20.0 + 5.0 + 1.0 + 2.0 + 4096.0 * 0.25e-3 + 30.0 + 4.0;
    assert!((mean_us(&outcome) - all).abs() < 0.01, "{} and not {all}", mean_us(&outcome));
}

#[test]
fn the_more_wait_the_more_are_done_in_a_round() {
    let with = |outstanding| {
        let mut system = in_memory(1.0, outstanding);
        (system.hosts.ask_us, system.hosts.reply_us) = (1.0, 1.0);
        (system.nodes.path.round, system.nodes.path.request) = (20_000, 1_000);
        run(&system)
    };
    let (one, many) = (with(1), with(16));
    assert!(many.work.rounds * 5 < many.work.requests, "{:?}", many.work);
    assert!(many.requests_s > 5.0 * one.requests_s);
}

#[test]
fn a_host_that_is_a_thread_does_one_thing_after_the_other() {
    let mut system = in_memory(1.0, 16);
    (system.hosts.ask_us, system.hosts.reply_us) = (10.0, 5.0);
    (system.hosts.ask_byte_ns, system.hosts.reply_byte_ns) = (7.0, 1.0);
    // 10 us to ask, 5 to take the reply, and 4.096 for its bytes.
    let most = 1e6 / 19.096;
    let rate = run(&system).requests_s;
    assert!((rate / most - 1.0).abs() < 0.01, "{rate} of {most}");
    // A write's are in what it asks.
    system.workload.requests = Requests::Fixed { bytes: 4096, read_share: 0.0 };
    let (rate_of_writes, most) = (run(&system).requests_s, 1e6 / (15.0 + 4.096 * 7.0));
    assert!((rate_of_writes / most - 1.0).abs() < 0.01, "{rate_of_writes} of {most}");
    system.workload.requests = Requests::Fixed { bytes: 4096, read_share: 1.0 };
    system.hosts.threads = false;
    (system.hosts.ask_byte_ns, system.hosts.reply_byte_ns) = (0.0, 0.0);
    assert!(run(&system).requests_s > 5.0 * rate);
}

#[test]
fn what_nodes_put_off_is_done_when_nothing_waits() {
    // Notices of a lone write go out in a round after its reply, not a millisecond later.
    let mut system = in_memory(0.0, 1);
    system.hosts.wake_us = 100.0;
    system.nodes.path.round = 1_000;
    let outcome = run(&system);
    let (rounds, requests) = (outcome.work.rounds, outcome.work.requests);
    assert!(rounds >= 2 * requests - 2 && rounds <= 4 * requests, "{rounds} for {requests}");
    assert!(mean_us(&outcome) < 150.0, "{}", mean_us(&outcome));
}

#[test]
fn what_goes_with_real_nodes_only_is_refused_elsewhere() {
    type Change = fn(&mut System);
    let wrong: [(Change, &str); 9] = [
        (|s| s.volume.journal = true, "volume.journal"),
        (|s| (s.disks.in_memory, s.disks.devices) = (true, Some(1)), "disks.devices"),
        (|s| s.nodes.wake_us = 1.0, "nodes.wake_us"),
        (|s| s.nodes.path.round = 1, "nodes.path.round"),
        (|s| s.hosts.wake_us = 1.0, "hosts.wake_us"),
        (|s| s.hosts.ask_byte_ns = 1.0, "hosts.ask_byte_ns"),
        (|s| s.hosts.reply_byte_ns = 1.0, "hosts.reply_byte_ns"),
        (|s| s.nodes.path.disk_byte = -1.0, "nodes.path.disk_byte"),
        (
            |s| {
                s.nodes.store = Store::Journalled;
                s.disks.size_bytes = Some(1 << 20);
            },
            "nodes.store",
        ),
    ];
    for (change, key) in wrong {
        let mut system = system(4096, 1.0, 1);
        change(&mut system);
        let problem = system.check().expect_err("refused");
        assert_eq!(problem.key, key, "{problem}");
    }
}
