use super::*;
use crate::perf::Roles;
use crate::perf::{
    CalculatedAt, Commit, Fabric, Hosts, Lane, Layout, Links, Measure, PILOT, PathLengths, WarmUp,
};
use weft_core::units::MILLIS;
use weft_load::trace::Fit;
use weft_load::workload::Arrivals;
use weft_load::workload::{Addresses, Requests, Think, Trace, Workload};

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

#[test]
fn each_resource_is_told_and_all_of_a_kind_are_their_mean() {
    let system = system(40_960, 0.5, 6);
    let (outcome, used) = (run(&system), Simulation::new(&system, 0).unwrap().resources().unwrap());
    let of = |kind: &str| used.iter().filter(|u| u.kind == kind).cloned().collect::<Vec<_>>();
    assert_eq!((of("disk").len(), of("processor").len()), (11, 11));
    for (kind, all) in
        [("disk", outcome.disks), ("processor", outcome.processors), ("link", outcome.links)]
    {
        assert_eq!(Resource::of(&of(kind)), all, "{kind}");
        // What is in use is also there.
        assert!(of(kind).iter().all(|u| u.utilisation > 0.0 && u.queue >= u.utilisation * 0.999));
    }
    assert!(of("link").iter().any(|u| u.name == "0 to 1"), "{:?}", of("link"));
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
fn early_commit_does_not_wait_until_parity_is_added_up() {
    let with = |commit| {
        // Whole stripes: there is no old parity to wait for.
        let mut system = system(40_960, 0.0, 1);
        system.workload.align_bytes = Some(40_960);
        system.volume.commit = commit;
        system.nodes.mips = 1.0;
        let outcome = run(&system);
        (mean_ms(&outcome), outcome.work.xor_bytes)
    };
    let (none, early, late) = (with(Commit::None), with(Commit::Early), with(Commit::Late));
    assert!(none.0 < early.0 && early.0 + 4.0 < late.0, "{none:?} {early:?} {late:?}");
    let sums = [none, early, late].map(|run| run.1);
    // The sums of the last request may be under way.
    assert!(sums.iter().all(|s| s.abs_diff(sums[0]) <= 2 * 9 * 4096), "{sums:?}");
}

#[test]
fn a_small_write_is_four_transfers_and_a_whole_stripe_one_for_each_disk() {
    let transfers = |bytes, align, coalesce| {
        let mut system = system(bytes, 0.0, 1);
        system.nodes.coalesce = coalesce;
        system.workload.align_bytes = Some(align);
        system.measure =
            Measure { warm_up: WarmUp::Requests(0), requests: 50, ..Measure::default() };
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
    for coalesce in [false, true] {
        assert_eq!(transfers(4096, 4096, coalesce), (2, 2));
        assert_eq!(transfers(40_960, 40_960, coalesce), (0, 11));
    }
    assert_eq!(transfers(409_600, 409_600, true), (0, 11));
    assert_eq!(transfers(409_600, 409_600, false), (0, 110));
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

/// With links of 1 MB/s between hosts and the array, that take 10 us more.
fn with_host_links(system: System, fabric: Fabric) -> System {
    let links = Links { fabric, mb_s: 1.0, latency_us: 10.0, ..Links::default() };
    System { hosts: Hosts { links: Some(links), ..system.hosts }, ..system }
}

#[test]
fn requests_and_replies_take_their_hosts_links_if_there_are_any() {
    for (read_share, there, back) in [(1.0, 64, 64 + 4096), (0.0, 64 + 4096, 64)] {
        let linked = with_host_links(system(4096, read_share, 3), Fabric::PointToPoint);
        let timeline = Simulation::new(&linked, 0).unwrap().trace(7).unwrap();
        let spans = timeline.spans();
        let of = |lane: fn(&Lane) -> bool| {
            let times: Vec<_> =
                spans.iter().filter(|s| lane(&s.lane)).map(|s| s.to - s.from).collect();
            assert_eq!(times.len(), 1, "{}", timeline.draw());
            times[0]
        };
        // A byte takes a microsecond; each host has a link to itself, where nothing waits.
        assert_eq!(of(|l| matches!(l, Lane::ToArray(_))), there * 1_000 + 10_000);
        assert_eq!(of(|l| matches!(l, Lane::FromArray(_))), back * 1_000 + 10_000);
        let mut until = spans[0].from;
        for span in &spans {
            assert!(span.from <= until, "nothing happens until {span:?}");
            until = until.max(span.to);
        }
        let resources = timeline.traced().unwrap().spans;
        assert_eq!(resources.iter().filter(|p| p.resource == "host link").count(), 2);
    }
}

#[test]
fn a_bus_of_all_hosts_carries_no_more_than_it_can_and_is_told_as_a_resource() {
    let free = system(4096, 1.0, 16);
    let linked = with_host_links(free.clone(), Fabric::Bus);
    let outcome = run(&linked);
    let bus = outcome.host_links.expect("host links");
    // Of 4096 bytes and two headers, 4096 are the hosts'; the disks could do more.
    let most = 4096.0 / (4096.0 + 128.0);
    assert!(outcome.throughput_mb_s <= most * 1.001 && bus.mean > 0.95, "{bus:?}");
    assert!((outcome.throughput_mb_s / most - bus.mean).abs() < 0.01, "{bus:?}");
    assert!(bus.queue > 4.0, "most of sixteen wait there: {bus:?}");
    let used = Simulation::new(&linked, 0).unwrap().resources().unwrap();
    let used: Vec<_> = used.into_iter().filter(|u| u.kind == "host link").collect();
    assert_eq!((used.len(), used[0].name.as_str()), (1, "bus"));
    assert_eq!(Resource::of(&used), bus);
    let without = run(&free);
    assert!(without.host_links.is_none() && without.throughput_mb_s > outcome.throughput_mb_s);
}

#[test]
fn what_of_hosts_links_cannot_be_is_refused_by_its_key() {
    let problem = |change: fn(&mut System)| {
        let mut wrong = with_host_links(system(4096, 1.0, 3), Fabric::Switch);
        change(&mut wrong);
        wrong.check().unwrap_err().to_string()
    };
    let slow = problem(|s| s.hosts.links.as_mut().unwrap().mb_s = 0.0);
    assert_eq!(slow, "hosts.links.mb_s = 0: give 0.001 to 1e9");
    let most = problem(|s| s.hosts.links.as_mut().unwrap().latency_most_us = Some(5.0));
    assert_eq!(most, "hosts.links.latency_most_us = 5: give hosts.links.latency_us, 10, or more");
    let roles = problem(|s| (s.nodes.roles, s.nodes.originators) = (Roles::Host, 0));
    assert!(
        roles.starts_with("hosts.links.mb_s = 1: hosts that are nodes are on the array's"),
        "{roles}"
    );
}

#[test]
fn a_request_that_is_followed_is_told_to_programs_in_nanoseconds_since_it_was_asked() {
    let timeline = Simulation::new(&system(4096, 0.0, 3), 0).unwrap().trace(7).unwrap();
    let (spans, traced) = (timeline.spans(), timeline.traced().unwrap());
    assert_eq!((traced.request, traced.asked_ns), (7, spans[0].from));
    assert_eq!(traced.spans.len(), spans.len());
    assert_eq!((traced.spans[0].resource, traced.spans[0].begin_ns), ("host", 0));
    for (piece, span) in traced.spans.iter().zip(&spans) {
        let absolute = (piece.begin_ns + traced.asked_ns, piece.end_ns + traced.asked_ns);
        assert_eq!(absolute, (span.from, span.to));
        assert!(piece.end_ns <= traced.time_ns);
        let is_link = matches!(span.lane, Lane::Link(..));
        assert_eq!((piece.resource == "link", piece.to.is_some()), (is_link, is_link));
        if let Some(p) = piece.parts {
            let parts = [p.queue_ns, p.overhead_ns, p.seek_ns, p.switch_ns, p.rotation_ns];
            let all = parts.iter().sum::<u64>() + p.transfer_ns + p.bus_ns;
            assert_eq!((all, piece.bytes), (piece.end_ns - piece.begin_ns, Some(4096)));
        }
    }
    let disks = traced.spans.iter().filter(|p| p.resource == "disk" && p.parts.is_some());
    let mut kinds: Vec<&str> = disks.map(|p| p.kind.as_str()).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["read", "read", "write", "write"]);
}

#[test]
fn central_systems_have_a_controller_and_hosts_come_in_an_open_stream_too() {
    let mut system = system(40_960, 0.3, 4);
    system.nodes.originators = 0;
    system.volume.calculated_at = Some(CalculatedAt::Originator);
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

/// Three bursts of four requests, 100 ms apart, and a flush at the end.
fn trace() -> String {
    let mut text = "time_us,op,offset,bytes\n".to_string();
    for n in 0..12u64 {
        let (at, op) = (5_000_000 + n / 4 * 100_000 + n % 4, ["read", "write"][n as usize % 2]);
        text += &format!("{at},{op},{},8192\n", n * 1_000_000 / 512 * 512);
    }
    text + "5300000,flush,0,0\n"
}

/// The system with that trace, read once.
fn replaying(arrivals: Arrivals, change: fn(&mut Trace)) -> System {
    let mut trace_of = Trace::of("t.csv");
    change(&mut trace_of);
    let text = trace();
    let mut reader = trace_of.reader("t.csv", text.as_bytes()).unwrap();
    trace_of.survey(&mut reader).unwrap();
    let mut system = system(4096, 1.0, 3);
    (system.workload.requests, system.workload.arrivals) = (Requests::Trace(trace_of), arrivals);
    system.measure =
        Measure { warm_up: WarmUp::Requests(1), requests: 100, replications: 1, ..system.measure };
    system
}

fn replayed(system: &System) -> Outcome {
    let input = std::io::Cursor::new(trace());
    Simulation::reading(system, 0, input).unwrap().run().unwrap()
}

#[test]
fn a_trace_is_replayed_at_its_times_to_its_end() {
    let system = replaying(Arrivals::Traced { speed: 1.0 }, |_| {});
    let outcome = replayed(&system);
    // All but the warm-up's one, which may be of either kind.
    assert_eq!((outcome.all.latency.count(), system.measured_requests()), (12, 12));
    let reads = outcome.reads.latency.count();
    let writes = outcome.writes.latency.count();
    assert!(reads + writes == 11 && (5..=6).contains(&reads), "{reads} reads, {writes} writes");
    // The flush is asked 300 ms after the first request, and is the last to be answered.
    let end = outcome.ended;
    assert!((300 * MILLIS..400 * MILLIS).contains(&end), "{end}");
    let again = replayed(&system);
    assert_eq!((again.ended, again.events), (outcome.ended, outcome.events));
    let slow = replayed(&replaying(Arrivals::Traced { speed: 0.5 }, |_| {}));
    assert!((600 * MILLIS..700 * MILLIS).contains(&slow.ended), "{}", slow.ended);
}

#[test]
fn closed_hosts_take_the_requests_of_a_trace_as_fast_as_they_can() {
    let closed = |population| Arrivals::Closed { population, think: Think::default() };
    let one = replayed(&replaying(closed(1), |_| {}));
    let four = replayed(&replaying(closed(4), |_| {}));
    assert_eq!((one.all.latency.count(), four.all.latency.count()), (12, 12));
    assert!(four.ended < one.ended, "{} and {}", four.ended, one.ended);
    assert!(one.outstanding <= 3.0, "{} of three hosts", one.outstanding);
}

#[test]
fn only_a_part_of_a_trace_is_replayed_if_so_asked() {
    let traced = Arrivals::Traced { speed: 1.0 };
    let part = replaying(traced.clone(), |t| t.requests = Some(5));
    assert_eq!(replayed(&part).all.latency.count(), 4);
    let mut few = replaying(traced, |_| {});
    few.measure.requests = 3;
    assert_eq!(replayed(&few).all.latency.count(), 3);
}

#[test]
fn what_of_a_trace_cannot_be_is_refused() {
    type Change = fn(&mut System);
    let wrong: [(Change, &str); 5] = [
        (
            |s| s.measure.warm_up = WarmUp::Requests(13),
            "measure.warm_up = 13: the trace has 13 requests; give less",
        ),
        (|s| s.measure.replications = 2, "measure.replications = 2: neither the trace nor"),
        (
            |s| s.volume.size_bytes = Some(1 << 20),
            "workload.requests.trace.file = t.csv: the trace",
        ),
        (|s| s.workload.align_bytes = Some(512), "workload.align_bytes = 512: a trace has its own"),
        (
            |s| s.workload.requests = Requests::Trace(Trace::of("t.csv")),
            "workload.requests.trace.file = t.csv: this trace has not been read",
        ),
    ];
    for (change, why) in wrong {
        let mut system = replaying(Arrivals::Traced { speed: 1.0 }, |_| {});
        change(&mut system);
        let said = system.check().unwrap_err().to_string();
        assert!(said.starts_with(why), "{said}");
    }
    // Disks that do not turn together are left to chance, and so are hosts that think.
    let mut loose = replaying(Arrivals::Traced { speed: 1.0 }, |t| t.fit = Fit::Wrap);
    (loose.disks.synchronized, loose.measure.replications) = (false, 2);
    loose.volume.size_bytes = Some(1 << 20);
    assert_eq!(loose.check(), Ok(()));
    let think = Think::ExponentialUs(5.0);
    let mut thinking = replaying(Arrivals::Closed { population: 1, think }, |_| {});
    thinking.measure.replications = 2;
    assert_eq!(thinking.check(), Ok(()));
}

#[test]
fn a_trace_that_is_no_longer_what_was_read_fails_the_run() {
    let system = replaying(Arrivals::Traced { speed: 1.0 }, |_| {});
    let with = |text: String| Simulation::reading(&system, 0, std::io::Cursor::new(text));
    let longer = trace().replace(",10999808,", ",19999744,");
    assert_ne!(longer, trace());
    let said = with(longer).unwrap().run().unwrap_err();
    assert!(said.contains("the range that the survey"), "{said}");
    let none = with(String::new()).err().expect("refused").to_string();
    assert!(none.contains("t.csv: it is empty"), "{none}");
}

/// Disks on one bus: 10 ms for any access, and on the bus 1 ms of set-up and arbitration and 1 ms
/// of data for each 4 KiB.
const ON_A_BUS: &str = "name = \"b\"\nabout = \"a test's\"\n\n[fixed]\ncapacity_bytes = 1073741824\n\
     sector_bytes = 512\npositioning_ms = 10.0\nbytes_per_s = 1000000000000\n\n[bus]\n\
     read_bytes_per_s = 4096000\nwrite_bytes_per_s = 4096000\nsetup_ms = 1.0\n";

#[test]
fn a_disk_whose_sectors_do_not_make_a_nodes_is_refused() {
    for (sector, bad) in [(512, false), (4096, false), (520, true), (8192, true)] {
        let mut system = system(4096, 1.0, 1);
        let text = format!("sector_bytes = {sector}");
        system.disks.parameters = Some(ON_A_BUS.replace("sector_bytes = 512", &text));
        let problem = system.check().err().map(|p| p.to_string());
        assert_eq!(problem.is_some(), bad, "{problem:?}");
        let names = |p: String| p.starts_with("disks.model = ") && p.contains("a divisor of it");
        assert!(problem.is_none_or(names));
    }
}

/// Whole stripes read from four such disks, so many of them on a bus.
fn on_buses(per_bus: Option<u16>, outstanding: u32) -> System {
    let mut system = without_overhead(system(16_384, 1.0, outstanding));
    system.workload.align_bytes = Some(16_384);
    system.nodes.workers = 4;
    system.nodes.originators = 1;
    system.volume.layout = Layout("raid0".to_string());
    system.links.mb_s = 1e9;
    system.disks.parameters = Some(ON_A_BUS.to_string());
    system.disks.per_bus = per_bus;
    system
}

#[test]
fn pieces_that_are_ready_together_cross_a_shared_bus_one_after_the_other() {
    // All four are ready after 10 ms, and k of them cross a bus in 2k.
    for (per_bus, ms) in [(None, 12.0), (Some(1), 12.0), (Some(2), 14.0), (Some(4), 18.0)] {
        let outcome = run(&on_buses(per_bus, 1));
        let mean = mean_ms(&outcome);
        assert!((mean - ms).abs() < 0.001, "{per_bus:?} on a bus: {mean} ms");
        let Some(k) = per_bus.map(f64::from) else {
            assert_eq!(outcome.buses, None);
            continue;
        };
        // In use for 2k of the time; the pieces are there for 2, 4, ... 2k.
        let buses = outcome.buses.unwrap();
        let (busy, there) = (2.0 * k / ms, k * (k + 1.0) / ms);
        assert!((buses.mean - busy).abs() < 1e-4, "{per_bus:?}: {buses:?}, not {busy}");
        assert!((buses.highest - busy).abs() < 1e-4, "{per_bus:?}: {buses:?}, not {busy}");
        assert!((buses.queue - there).abs() < 1e-3, "{per_bus:?}: {buses:?}, not {there}");
    }
}

#[test]
fn a_shared_bus_at_saturation_gives_what_it_carries() {
    // 64 requests of four pieces keep the disks busy. A piece of 4 KiB every 2 ms is 2.048 MB/s;
    // four disks alone give a piece each 12 ms, with buses of their own 1.365 MB/s in all.
    let apart = run(&on_buses(None, 64));
    assert!((apart.throughput_mb_s - 4.0 * 4096.0 / 12e3).abs() < 0.01, "{apart:?}");
    let mut system = on_buses(Some(16), 64);
    system.nodes.workers = 16;
    system.workload.align_bytes = Some(65_536);
    system.workload.requests = Requests::Fixed { bytes: 65_536, read_share: 1.0 };
    let outcome = run(&system);
    let buses = outcome.buses.unwrap();
    assert!((outcome.throughput_mb_s - 2.048).abs() < 0.02, "{}", outcome.throughput_mb_s);
    assert!(buses.mean > 0.999, "{buses:?}");
    // Each disk has one access in work; for 10 of the 32 ms of a turn it is not at the bus.
    assert!((buses.queue - 16.0 * 22.0 / 32.0).abs() < 0.2, "{buses:?}");
}

#[test]
fn what_buses_cannot_be_is_refused() {
    let mut system = on_buses(Some(0), 1);
    assert_eq!(system.check().unwrap_err().key, "disks.per_bus");
    system = on_buses(Some(4), 1);
    system.workload.arrivals =
        Arrivals::Open { rate_per_s: 130.0, spacing: weft_load::workload::Spacing::Poisson };
    let refused = system.check().unwrap_err().to_string();
    assert!(
        refused.contains("the disks' buses") && refused.contains("give less than 125"),
        "{refused}"
    );
    system.disks.per_bus = Some(2);
    assert_eq!(system.check(), Ok(()));
    (system.nodes.rounds, system.disks.in_memory) = (true, true);
    assert_eq!(system.check().unwrap_err().key, "disks.per_bus");
}

#[test]
fn a_known_transient_is_left_out() {
    // 64 hosts ask at once of one disk that takes 10 ms and 2 ms on its bus: the first reply is
    // there after 12 ms, the second after 24, and from the 64th on all take 768.
    let mut system = on_buses(None, 64);
    (system.nodes.workers, system.nodes.originators) = (1, 1);
    system.workload.requests = Requests::Fixed { bytes: 4096, read_share: 1.0 };
    system.measure = Measure { warm_up: WarmUp::Mser5, requests: 1000, ..system.measure };
    let pilot = |system: &System| Simulation::new(system, PILOT).unwrap().pilot();
    let found = system.warmed_up(|| pilot(&system)).unwrap().measure.warm_up;
    // In batches of five; the last of the transient's differs little from the others.
    assert!((55..=65).contains(&found.requests()), "{found}");
    // Without them every request takes as long as any other.
    let warm = run(&system.warmed_up(|| pilot(&system)).unwrap());
    assert_eq!(warm.warm_up, found.requests());
    assert!((mean_ms(&warm) - 768.0).abs() < 1.0, "{} ms", mean_ms(&warm));
    assert!(mean_ms(&run(&system)) < 750.0, "with them the mean is less");
    system.measure.requests = 100;
    assert!(system.warmed_up(|| pilot(&system)).unwrap_err().contains("100 requests"));
}

/// A hundred writes at once of one stripe, which a disk serves one after the other: each comes too late again and again for
/// others that are read and written meanwhile, until it gets its turn. With locks of devices it waits too long again and again.
#[test]
fn nobody_starves_at_a_stripe_that_all_write_to() {
    let all = [("none", "timestamps"), ("late", "timestamps"), ("late", "device-locks")];
    for (commit, ordering) in all {
        let system: System = toml::from_str(&format!(
            "nodes = {{ workers = 5, originators = 0, mips = 1000 }}\ndisks.model = \"hp-c3325\"\n\
             links = {{ fabric = \"bus\", mb_s = 1000, latency_us = 0 }}\n\
             volume = {{ layout = \"raid5\", unit = 8192, calculator = \"originator\", \
             dispatch = \"commanded\", commit = \"{commit}\", ordering = \"{ordering}\", size_bytes = 32768 }}\n\
             workload = {{ hosts = 1, arrivals.closed.population = 100, \
             requests.fixed = {{ bytes = 4096, read_share = 0.1 }} }}\n\
             measure = {{ warm_up = 0, requests = 300, replications = 1 }}"
        ))
        .unwrap();
        let outcome = Simulation::new(&system, 0).unwrap().run().unwrap();
        assert!(outcome.all.latency.count() >= 300, "{commit}, {ordering}");
    }
}

/// A driver lets one request in at a time, and by address those that wait are served sooner.
#[test]
fn a_driver_holds_back_what_it_does_not_admit() {
    let run = |driver: &str| {
        let system: System = toml::from_str(&format!(
            "nodes = {{ workers = 2, originators = 0, mips = 1000 }}\ndisks.model = \"hp-c3325\"\n\
             links = {{ fabric = \"bus\", mb_s = 1000, latency_us = 0 }}\nvolume.layout = \"raid0\"\n\
             hosts = {{ ask_us = 0, reply_us = 0{driver} }}\n\
             workload = {{ hosts = 1, arrivals.closed.population = 20, \
             requests.fixed = {{ bytes = 4096, read_share = 1.0 }} }}\n\
             measure = {{ warm_up = 0, requests = 1000, replications = 1 }}"
        ))
        .unwrap();
        Simulation::new(&system, 0).unwrap().run().unwrap()
    };
    let (all, one) = (run(""), run(", admits = 1"));
    let by_address = run(", admits = 1, scheduler = \"c-look\"");
    assert!(all.disks.queue > 5.0, "{}", all.disks.queue);
    assert!(one.disks.queue <= 0.5, "of two disks one has one at a time: {}", one.disks.queue);
    let mean = |o: &Outcome| o.all.latency.mean();
    assert!(mean(&by_address) < 0.9 * mean(&one), "{} {}", mean(&by_address), mean(&one));
}
