//! The disks against closed forms and against themselves.

use proptest::prelude::*;

use super::*;
use crate::spec::{Device, LatencyPoint, Spec, builtin, builtins};

fn model(name: &str) -> Model {
    Model::new(&builtin(name).unwrap())
}

/// The Table VI disk with something else in place of something in its file.
fn changed(from: &str, to: &str) -> Model {
    let text = builtins().find(|(name, _)| *name == "hp97560-tickertaip").unwrap().1;
    assert!(text.contains(from), "{from}");
    Model::new(&Spec::parse(&text.replacen(from, to, 1)).unwrap())
}

fn with_policy(model: &Model, policy: Policy) -> Disk {
    Disk::new(model, policy, 0, fastrand::Rng::with_seed(1))
}

fn idle(model: &Model) -> Disk {
    with_policy(model, Policy::Fcfs)
}

/// One access on an otherwise idle disk.
fn alone(disk: &mut Disk, now: Nanos, access: Access) -> Completed {
    disk.submit(now, 7, access);
    let at = disk.next().unwrap();
    let mut done = Vec::new();
    disk.advance(at - 1, &mut done);
    assert_eq!(done, []);
    disk.advance(at, &mut done);
    assert_eq!((done.len(), done[0].id, done[0].at), (1, 7, at));
    assert_eq!(done[0].times.total(), at - now);
    done[0]
}

/// A closed loop of random accesses with so many outstanding, at multiples of `step`; the mean time from one completion
/// to the next, in milliseconds.
fn closed_loop(model: &Model, policy: Policy, depth: u64, step: u64, access: Access) -> f64 {
    const COUNT: u64 = 50_000;
    let mut disk = with_policy(model, policy);
    let mut chance = fastrand::Rng::with_seed(3);
    let mut random = || {
        let first = chance.u64(0..=(model.sectors() - access.sectors) / step) * step;
        Access { first, ..access }
    };
    (0..depth).for_each(|id| disk.submit(0, id, random()));
    let (mut now, mut done, mut completed) = (0, Vec::new(), 0);
    while completed < COUNT {
        now = disk.next().unwrap();
        done.clear();
        disk.advance(now, &mut done);
        completed += done.len() as u64;
        done.iter().for_each(|c| disk.submit(now, c.id, random()));
    }
    assert_eq!(disk.queue_len() as u64, depth);
    now as f64 / 1e6 / COUNT as f64
}

#[test]
fn the_first_read_is_made_of_its_parts() {
    let model = model("hp97560-tickertaip");
    let mut disk = idle(&model);
    // Cylinder 1, head 4 from cylinder 0, head 0: one seek of one cylinder.
    let times = alone(&mut disk, 0, Access::read(0, 8)).times;
    assert_eq!(times.overhead, 1_000_000);
    assert_eq!((times.seek, times.head_switch), (2_430_000, 0));
    // Its track is 4 tracks' skew of 8 sectors round; 3.43 ms is 16.47 sectors.
    let sector = model.revolution().unwrap() as f64 / 72.0;
    assert!((times.rotation as f64 - (32.0 * sector - 3.43e6)).abs() < 2.0);
    assert!((times.transfer as f64 - 8.0 * sector).abs() < 2.0);
    // 4 KiB at 5 MB/s, of which nothing is hidden.
    assert_eq!(times.bus, 819_200);
}

#[test]
fn random_reads_take_what_the_closed_form_says() {
    let model = model("hp97560-tickertaip");
    let sector = 14.992504 / 72.0;
    for sectors in [8, 80, 480] {
        // Overhead, seek over the data's cylinders, half a revolution; the sectors, and for each
        // track passed 8 sectors of skew, 10 more for one in 19; the last 4 KiB on the bus.
        let tracks = (sectors - 1) as f64 / 72.0;
        let transfer = (sectors as f64 + tracks * (8.0 + 10.0 / 19.0)) * sector;
        let expected = 1.0 + 12.5986 + 7.4963 + transfer + 0.8192;
        let mean = closed_loop(&model, Policy::Fcfs, 1, 1, Access::read(0, sectors));
        assert!((mean / expected - 1.0).abs() < 0.005, "{sectors}: {mean} for {expected}");
    }
    // Waiting in a queue makes the disk neither faster nor slower if it is first come, first
    // served.
    let one = closed_loop(&model, Policy::Fcfs, 1, 8, Access::read(0, 8));
    let eight = closed_loop(&model, Policy::Fcfs, 8, 8, Access::read(0, 8));
    assert!((one / eight - 1.0).abs() < 0.005, "{one} and {eight}");
}

#[test]
fn a_disk_of_today_is_as_its_data_sheets_say() {
    let model = model("hdd-20tb");
    // 20 TB, to a ten-thousandth.
    let bytes = model.sectors() as f64 * 4096.0;
    assert!((bytes / 20_000_588_955_648.0 - 1.0).abs() < 1e-4, "{bytes}");
    // 285 MB/s where it is fastest: 400 MB from the first sector on.
    let sectors = 100_000;
    let times = alone(&mut idle(&model), 0, Access::read(0, sectors)).times;
    let took = times.transfer + times.head_switch + times.rotation + times.seek;
    let rate = sectors as f64 * 4096.0 / took as f64 * 1e3;
    assert!((rate / 285.0 - 1.0).abs() < 0.01, "{rate} MB/s");
    // A seek of 7.4 ms, half a revolution, a sector, and its way over the bus. More data is on the outer cylinders, so
    // the arm moves a little less than over all pairs of them.
    let mean = closed_loop(&model, Policy::Fcfs, 1, 1, Access::read(0, 1));
    let expected = 7.4 + 8.333 / 2.0 + 8.333 / 439.0 + 0.007;
    assert!((0.97..1.0).contains(&(mean / expected)), "{mean} for {expected}");
}

#[test]
fn disksims_mean_for_table_vi() {
    // DiskSim 4.0 with the same numbers: 23.6 ms (11 disks, 200,000 random reads of 4 KiB).
    let model = model("hp97560-tickertaip");
    let mean = closed_loop(&model, Policy::Fcfs, 1, 8, Access::read(0, 8));
    assert!((mean - 23.6).abs() < 0.1, "{mean}");
}

#[test]
fn long_reads_run_at_the_sustained_rate() {
    let model = model("hp97560-tickertaip");
    // Whole tracks of a cylinder: 72 sectors in the time of 80. The bus hides behind them.
    let times = alone(&mut idle(&model), 0, Access::read(15 * 72, 19 * 72)).times;
    let on_disk = times.transfer + 18 * 8 * model.revolution().unwrap() / 72;
    let rate = (19 * 36_864) as f64 / (on_disk + 8 * model.revolution().unwrap() / 72) as f64;
    assert!((rate * 1000.0 - 2.213).abs() < 0.001, "{rate}");
    assert_eq!(times.head_switch, 18 * 1_665_800);
    assert!(times.bus < 820_000);
    // 10 MB over cylinders too: 18 sectors between those make it 2.199.
    let (small, large) = (1368, 1368 * 15);
    let time = |sectors| {
        let times = alone(&mut idle(&model), 0, Access::read(15 * 72, sectors)).times;
        times.total() - times.overhead
    };
    let rate = ((large - small) * 512) as f64 / (time(large) - time(small)) as f64 * 1000.0;
    assert!((rate - 2.199).abs() < 0.001, "{rate}");
}

#[test]
fn a_head_switch_longer_than_the_skew_loses_a_revolution() {
    let literal = changed("head_switch_ms = 1.6658", "head_switch_ms = 1.67");
    let exact = model("hp97560-tickertaip");
    let time = |model: &Model| {
        alone(&mut idle(model), 0, Access::read(15 * 72, 19 * 72)).times.service() as f64
    };
    let lost = (time(&literal) - time(&exact)) / exact.revolution().unwrap() as f64;
    assert!((lost - 18.0).abs() < 0.01, "{lost}");
}

#[test]
fn an_idle_disk_reads_on_and_serves_what_follows() {
    let model = model("hp97560-tickertaip");
    let mut disk = idle(&model);
    let first = alone(&mut disk, 0, Access::read(0, 8));
    // After 40 ms it holds 64 KB more.
    let hit = alone(&mut disk, first.at + 40_000_000, Access::read(8, 120));
    assert!(hit.from_buffer);
    assert_eq!(hit.times.service(), 1_000_000 + 120 * 512 * 200);
    // It went on from there; what comes after 256 sectors in all is not there.
    let beyond = alone(&mut disk, hit.at + 100_000_000, Access::read(1000, 8));
    assert!(!beyond.from_buffer);
}

#[test]
fn a_read_of_what_is_just_being_read_waits_for_it() {
    let model = model("hp97560-tickertaip");
    let mut disk = idle(&model);
    let first = alone(&mut disk, 0, Access::read(0, 8));
    let next = alone(&mut disk, first.at, Access::read(8, 64));
    assert!(next.from_buffer);
    // The platter passed on from the end of the first read, whose bus time it used.
    let sector = model.revolution().unwrap() as f64 / 72.0;
    // The last 4 KiB cost as much on the bus, so the two make up for each other.
    let expected = 64.0 * sector;
    assert!((next.times.service() as f64 - expected).abs() < 10.0, "{:?}", next.times);
    // Without a buffer it would have come too late.
    let none = changed("bytes = 131072\nread_ahead_bytes = 65536", "bytes = 0");
    let mut disk = idle(&none);
    let first = alone(&mut disk, 0, Access::read(0, 8));
    let next = alone(&mut disk, first.at, Access::read(8, 64));
    assert!(!next.from_buffer);
    let expected = model.revolution().unwrap() as f64 + expected;
    assert!((next.times.service() as f64 - expected).abs() < 10.0, "{:?}", next.times);
}

#[test]
fn a_write_takes_from_the_buffer_what_it_changes() {
    for (file, kept) in [("false", false), ("true", true)] {
        let keeps = format!("read_ahead_bytes = 65536\nwrite_keeps_reads = {file}");
        let model = changed("read_ahead_bytes = 65536", &keeps);
        let mut disk = idle(&model);
        let read = alone(&mut disk, 0, Access::read(0, 8));
        let write = alone(&mut disk, read.at + 40_000_000, Access::write(100_000, 8));
        let again = alone(&mut disk, write.at, Access::read(0, 8));
        assert_eq!(again.from_buffer, kept);
        let write = alone(&mut disk, again.at, Access::write(4, 1));
        assert!(!alone(&mut disk, write.at, Access::read(0, 8)).from_buffer);
    }
}

#[test]
fn a_writes_data_come_while_the_arm_moves() {
    let model = model("hp97560-tickertaip");
    let mut disk = idle(&model);
    let write = alone(&mut disk, 0, Access::write(1_000_000, 8)).times;
    // As a read, but for the bus.
    let read = alone(&mut idle(&model), 0, Access::read(1_000_000, 8)).times;
    assert_eq!(write.total(), read.total() - read.bus);
    // Rewriting the same at once misses by the overhead: one revolution.
    let again = alone(&mut disk, write.total(), Access::write(1_000_000, 8)).times;
    assert_eq!(again.total(), model.revolution().unwrap());
}

#[test]
fn writes_settle_longer() {
    let settle = changed("write_settle_ms = 0.65", "write_settle_ms = 1.2");
    let seek = |access| alone(&mut idle(&settle), 0, access).times.seek;
    assert_eq!(seek(Access::write(1_000_000, 8)) - seek(Access::read(1_000_000, 8)), 1_200_000);
    // In running on to the next cylinder the skew hides it.
    let all = |model: &Model| {
        let times = alone(&mut idle(model), 0, Access::write(15 * 72, 3 * 1368)).times;
        times.transfer + times.rotation + times.seek + times.head_switch
    };
    let plain = model("hp97560-tickertaip");
    assert!(all(&settle).abs_diff(all(&plain)) <= plain.revolution().unwrap());
}

#[test]
fn synchronised_spindles_have_equal_phases() {
    let model = model("hp97560-tickertaip");
    let at = |phase| {
        let mut disk = Disk::new(&model, Policy::Fcfs, phase, fastrand::Rng::with_seed(1));
        alone(&mut disk, 0, Access::read(0, 8)).at
    };
    assert_eq!(at(5), at(5 + model.revolution().unwrap()));
    assert_eq!(at(0) - at(1_000_000), 1_000_000);
}

#[test]
fn better_knowledge_makes_a_disk_faster() {
    let model = model("hp97560-tickertaip");
    let time = |policy| closed_loop(&model, policy, 16, 8, Access::read(0, 8));
    let [fcfs, sstf, satf, bnn, look] = Policy::ALL.map(time);
    assert!(satf < bnn && bnn < sstf && sstf < fcfs, "{satf} {bnn} {sstf} {fcfs}");
    assert!(look < fcfs && satf < look, "{satf} {look} {fcfs}");
}

#[test]
fn several_disks_on_one_bus_are_as_fast_as_the_bus() {
    // Ten disks that read long runs at 2.2 MB/s each, on 5 MB/s.
    let model = model("hp97560-tickertaip");
    let mut bus = model.new_bus();
    let mut disks: Vec<Disk> = (0..10).map(|_| idle(&model)).collect();
    let mut next = [0; 10];
    let mut done = Vec::new();
    for (disk, n) in disks.iter_mut().zip(&mut next) {
        disk.submit_on(&mut bus, 0, 0, Access::read(*n, 200));
        *n += 200;
    }
    let (mut now, mut bytes) = (0, 0u64);
    while now < 10_000_000_000 {
        let at = (0..10).min_by_key(|&d| disks[d].next()).unwrap();
        now = disks[at].next().unwrap();
        done.clear();
        disks[at].advance_on(&mut bus, now, &mut done);
        bytes += 200 * 512;
        disks[at].submit_on(&mut bus, now, 0, Access::read(next[at], 200));
        next[at] += 200;
    }
    let rate = bytes as f64 / now as f64 * 1000.0;
    assert!((4.9..=5.0).contains(&rate), "{rate} MB/s");
}

#[test]
fn fixed_disks_take_what_they_say() {
    // 64 KB at 50 MB/s after 8.2 ms.
    let drnet = alone(&mut idle(&model("drnet")), 0, Access::read(0, 128));
    assert_eq!(drnet.times.total(), 8_200_000 + 1_310_720);
    let shared = alone(&mut idle(&model("shared-storage")), 0, Access::write(64, 8));
    assert_eq!(shared.times.total(), 8_000_000 + 256_000);
}

#[test]
fn flash_works_on_all_channels_at_once() {
    let model = model("flash");
    let mut disk = idle(&model);
    // 8 KiB: 75 us and the bus at 400 MB/s.
    assert_eq!(alone(&mut disk, 0, Access::read(0, 16)).times.total(), 75_000 + 20_480);
    // 64 units at once: all their channels work at the same time, the bus is the limit.
    let many = alone(&mut disk, 1_000_000, Access::read(0, 16 * 64)).times;
    assert_eq!(many.total(), 75_000 + 64 * 20_480);
    // The same unit 64 times: one channel, one after another.
    (0..64).for_each(|id| disk.submit(10_000_000, id, Access::read(0, 16)));
    assert_eq!(disk.queue_len(), 64);
    let mut done = Vec::new();
    disk.advance(u64::MAX, &mut done);
    assert_eq!(done[63].at, 10_000_000 + 64 * 75_000 + 20_480);
    assert!(done.is_sorted_by_key(|c| c.at));
    // A flush waits for what was written before.
    disk.submit(20_000_000, 0, Access::write(0, 16));
    let write = disk.next().unwrap();
    disk.submit(20_000_000, 1, Access::flush());
    done.clear();
    disk.advance(u64::MAX, &mut done);
    assert_eq!((done[1].id, done[1].at), (1, write));
}

#[test]
fn a_flash_device_does_one_flush_at_a_time_and_what_comes_meanwhile_shares_the_next() {
    let text = builtins().find(|(name, _)| *name == "flash").unwrap().1;
    let mut spec = Spec::parse(text).unwrap();
    let Device::Flash(flash) = &mut spec.device else { panic!("flash") };
    flash.flush_latency = vec![LatencyPoint { quantile: 0.0, ms: 1.0 }];
    let mut disk = Disk::new(&Model::new(&spec), Policy::Fcfs, 0, fastrand::Rng::with_seed(1));
    disk.submit(1_000_000, 0, Access::flush());
    disk.submit(1_200_000, 1, Access::flush());
    disk.submit(1_900_000, 2, Access::flush());
    // After that one has begun.
    disk.submit(2_100_000, 3, Access::flush());
    let mut done = Vec::new();
    disk.advance(u64::MAX, &mut done);
    let ends: Vec<_> = done.iter().map(|c| (c.id, c.at)).collect();
    assert_eq!(ends, [(0, 2_000_000), (1, 3_000_000), (2, 3_000_000), (3, 4_000_000)]);
}

#[test]
fn flash_latencies_follow_their_distribution() {
    let text = builtins().find(|(name, _)| *name == "flash").unwrap().1.replacen(
        "read_latency = [{ quantile = 0.0, ms = 0.075 }]",
        "read_latency = [{ quantile = 0.0, ms = 0.1 }, { quantile = 0.9, ms = 0.2 }, { quantile = 1.0, ms = 1.2 }]",
        1,
    );
    let model = Model::new(&Spec::parse(&text).unwrap());
    let mean = closed_loop(&model, Policy::Fcfs, 1, 1, Access::read(0, 1));
    // 0.9 of it from 0.1 to 0.2, the rest from 0.2 to 1.2; and 512 bytes on the bus.
    let expected = 0.9 * 0.15 + 0.1 * 0.7 + 0.00128;
    assert!((mean / expected - 1.0).abs() < 0.01, "{mean} for {expected}");
}

#[test]
#[should_panic(expected = "on a disk of 2647080 sectors")]
fn an_access_beyond_the_end_is_refused() {
    idle(&model("hp97560")).submit(0, 0, Access::read(2_647_079, 2));
}

/// Accesses anywhere, often right after the one before, at any distance in time.
fn accesses() -> impl Strategy<Value = Vec<(u64, Kind, Option<u64>, u64)>> {
    let kind = prop_oneof![
        4 => Just(Kind::Read),
        2 => Just(Kind::Write),
        1 => Just(Kind::Flush),
        1 => Just(Kind::Discard),
    ];
    let first = prop_oneof![Just(None), (0..2_000_000u64).prop_map(Some)];
    proptest::collection::vec((0..50_000_000u64, kind, first, 1..400u64), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Whatever comes: all is completed once, in order of time, no sooner than the platter
    /// allows, its parts make up the whole, and the same again gives the same.
    #[test]
    fn every_access_is_accounted_for(accesses in accesses(), policy in 0..5usize, which in 0..11usize) {
        let (name, _) = builtins().nth(which).unwrap();
        let model = model(name);
        let run = || {
            let mut disk = with_policy(&model, Policy::ALL[policy]);
            let (mut now, mut end, mut done) = (0, 0, Vec::new());
            for (id, (gap, kind, first, sectors)) in accesses.iter().enumerate() {
                now += gap;
                disk.advance(now, &mut done);
                let first = first.unwrap_or(end).min(model.sectors() - sectors);
                let access = match kind {
                    Kind::Flush => Access::flush(),
                    kind => Access { kind: *kind, first, sectors: *sectors },
                };
                end = access.end();
                disk.submit(now, id as u64, access);
            }
            while let Some(at) = disk.next() {
                disk.advance(at, &mut done);
            }
            (done, disk.busy(u64::MAX), disk.queue_len())
        };
        let (done, busy, left) = run();
        prop_assert_eq!(left, 0);
        prop_assert_eq!(&run().0, &done);
        prop_assert!(done.is_sorted_by_key(|c| c.at));
        let mut ids: Vec<u64> = done.iter().map(|c| c.id).collect();
        ids.sort();
        prop_assert_eq!(ids, (0..accesses.len() as u64).collect::<Vec<_>>());
        let mut submitted = 0;
        let times: Vec<u64> = accesses.iter().map(|a| { submitted += a.0; submitted }).collect();
        for c in &done {
            prop_assert_eq!(times[c.id as usize] + c.times.total(), c.at);
        }
        let last = done.last().unwrap().at;
        prop_assert!(busy <= last);
        if which < 8 {
            // One at a time.
            prop_assert_eq!(busy, done.iter().map(|c| c.times.service()).sum::<u64>());
        }
    }
}
