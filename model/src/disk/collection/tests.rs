//! Garbage collection against analysis, and its invariants.

use proptest::prelude::*;

use super::*;
use crate::disk::{Access, Disk, Model};
use crate::schedule::Policy;
use crate::spec::{Device, Spec, builtin};

/// Pages of a superblock of [`small`].
const SUPERBLOCK: u64 = 256;
/// Its logical pages.
const PAGES: u64 = 200 * SUPERBLOCK;
/// Writes outstanding at it: more than its buffer holds, so that it is never idle.
const DEPTH: u64 = 64;

/// A drive of four channels, all pages of which are tracked, with so many superblocks.
fn small(superblocks: u64, start: &str) -> Spec {
    let raw = superblocks * SUPERBLOCK * 4096;
    let text = format!(
        "name = \"small\"\n[flash]\ncapacity_bytes = {}\nsector_bytes = 4096\nchannels = 4\n\
         unit_bytes = 16384\nread_latency = [{{ quantile = 0.0, ms = 0.05 }}]\n\
         write_latency = [{{ quantile = 0.0, ms = 0.5 }}]\n\
         flush_latency = [{{ quantile = 0.0, ms = 0.0 }}]\n\
         [flash.collection]\nraw_bytes = {raw}\npage_bytes = 4096\nblock_bytes = 262144\n\
         erase_ms = 2.0\nsuspend_ms = 0.1\ncommand_ms = 0.01\nwrite_buffer_bytes = 131072\n\
         start = \"{start}\"\n",
        PAGES * 4096
    );
    Spec::parse(&text).unwrap()
}

fn flash(spec: &Spec) -> &Flash {
    let Device::Flash(flash) = &spec.device else { panic!("flash") };
    flash
}

fn collecting(spec: &Spec, seed: u64) -> Collecting {
    let flash = flash(spec);
    let mut chance = fastrand::Rng::with_seed(seed);
    Collecting::new(flash, flash.collection.as_ref().unwrap(), &mut chance)
}

/// Writes pages; answers the write amplification of these writes.
fn amplification(spec: &Spec, drive: &mut Collecting, pages: impl IntoIterator<Item = u64>) -> f64 {
    let before = drive.wear();
    let mut latencies = Latencies { spec: flash(spec), chance: &mut fastrand::Rng::with_seed(1) };
    for page in pages {
        drive.write(0, 0, page * 4096..(page + 1) * 4096, &mut latencies);
    }
    let after = drive.wear();
    let (host, copied) =
        (after.host_units - before.host_units, after.copied_units - before.copied_units);
    (host + copied) as f64 / host as f64
}

fn random(count: u64, among: u64, seed: u64) -> impl Iterator<Item = u64> {
    let mut chance = fastrand::Rng::with_seed(seed);
    (0..count).map(move |_| chance.u64(0..among))
}

/// Xiang and Kurkoski (arXiv:1110.4245): the collected superblock's share x of valid pages is that for which
/// x = exp(-(1 - x) * raw / logical), and write amplification is 1 / (1 - x).
fn analysis(raw: f64, logical: f64) -> f64 {
    let x = (0..1000).fold(0.5, |x: f64, _| (-(1.0 - x) * raw / logical).exp());
    1.0 / (1.0 - x)
}

/// The same of a drive. When garbage is collected all superblocks are full but for the reserve, and for the one with
/// copies, which is half full on average.
fn expected(spec: &Spec) -> f64 {
    let flash = flash(spec);
    let collection = flash.collection.as_ref().unwrap();
    let sizes = Sizes::of(flash, collection);
    let full = (sizes.superblocks - u64::from(collection.reserve_superblocks)) as f64 - 0.5;
    analysis(full * sizes.per_superblock as f64, sizes.logical as f64)
}

#[test]
fn the_analysis_gives_what_it_is_published_with() {
    assert!((analysis(1.3, 1.0) - 2.36).abs() < 0.01);
}

#[test]
fn random_overwrites_have_the_write_amplification_of_the_analysis() {
    for superblocks in [230, 264, 324] {
        for start in ["fresh", "preconditioned"] {
            let spec = small(superblocks, start);
            let mut drive = collecting(&spec, 1);
            if start == "fresh" {
                assert_eq!(amplification(&spec, &mut drive, 0..PAGES), 1.0);
                amplification(&spec, &mut drive, random(4 * PAGES, PAGES, 2));
            }
            let found = amplification(&spec, &mut drive, random(2 * PAGES, PAGES, 3));
            let expected = expected(&spec);
            println!("{superblocks} {start}: {found:.3}, by analysis {expected:.3}");
            assert!((found / expected - 1.0).abs() < 0.03, "{start}: {found} for {expected}");
            drive.pages.check();
        }
    }
}

#[test]
fn a_drive_of_which_one_page_in_many_is_tracked_has_it_too() {
    let spec = builtin("ssd-2tb").unwrap();
    let mut drive = collecting(&spec, 1);
    assert_eq!(drive.scale, 448);
    let pages = flash(&spec).capacity_bytes / 4096;
    let expected = expected(&spec);
    for seed in 2..5 {
        let found = amplification(&spec, &mut drive, random(4_000_000, pages, seed));
        println!("ssd-2tb: {found:.3}, by analysis {expected:.3}");
        assert!((found / expected - 1.0).abs() < 0.05, "{found} for {expected}");
    }
    drive.pages.check();
    // What is tracked takes less than 10 MB.
    assert!((drive.pages.slot_of.len() + drive.pages.page_in.len()) * 4 < 10_000_000);
}

#[test]
fn superblocks_are_erased_as_often_as_they_are_filled() {
    for spec in [small(230, "preconditioned"), builtin("ssd-2tb").unwrap()] {
        let mut drive = collecting(&spec, 1);
        let pages = flash(&spec).capacity_bytes / 4096;
        amplification(&spec, &mut drive, random(3_000_000, pages, 3));
        let wear = drive.wear();
        let units = flash(&spec).collection.as_ref().unwrap().block_bytes / flash(&spec).unit_bytes;
        let programmed = (wear.host_units + wear.copied_units) / units;
        assert!(wear.erased_blocks.abs_diff(programmed) <= programmed / 20 + 1, "{wear:?}");
    }
}

#[test]
fn sequential_overwrites_copy_nothing() {
    let spec = small(230, "fresh");
    let mut drive = collecting(&spec, 1);
    assert_eq!(amplification(&spec, &mut drive, (0..5).flat_map(|_| 0..PAGES)), 1.0);
    assert!(drive.wear().erased_blocks > 0);
    // They heal a drive that was written at random.
    let spec = small(230, "preconditioned");
    let mut drive = collecting(&spec, 1);
    amplification(&spec, &mut drive, (0..3).flat_map(|_| 0..PAGES));
    let found = amplification(&spec, &mut drive, 0..PAGES);
    assert!(found < 1.01, "{found}");
}

fn disk(spec: &Spec, seed: u64) -> Disk {
    Disk::new(&Model::new(spec), Policy::Fcfs, 0, fastrand::Rng::with_seed(seed))
}

/// Has accesses done in a closed loop with so many outstanding; answers how many are in a second.
fn closed_loop(
    disk: &mut Disk,
    now: &mut Nanos,
    depth: u64,
    accesses: impl IntoIterator<Item = Access>,
) -> f64 {
    let (mut accesses, begin, mut count) = (accesses.into_iter(), *now, 0);
    let mut done = Vec::new();
    let mut free: Vec<u64> = (0..depth).collect();
    loop {
        for id in free.drain(..) {
            accesses.next().into_iter().for_each(|access| disk.submit(*now, id, access));
        }
        let Some(at) = disk.next() else { break };
        *now = at;
        disk.advance(at, &mut done);
        count += done.len();
        free.extend(done.drain(..).map(|c| c.id));
    }
    count as f64 * 1e9 / (*now - begin) as f64
}

/// Writes pages of [`small`] in a closed loop; answers writes in a second.
fn rate(disk: &mut Disk, now: &mut Nanos, pages: impl IntoIterator<Item = u64>) -> f64 {
    closed_loop(disk, now, DEPTH, pages.into_iter().map(|page| Access::write(page, 1)))
}

#[test]
fn a_drive_of_today_is_about_as_its_data_sheets_say() {
    let spec = builtin("ssd-2tb").unwrap();
    let pages = flash(&spec).capacity_bytes / 4096;
    let page = |first| Access::write(first * 8, 8);
    // 4 KiB at random: the largest drive of its series has 200,000 writes/s and 900,000 reads/s.
    let (mut disk, mut now) = (disk(&spec, 1), 0);
    closed_loop(&mut disk, &mut now, 256, random(20_000, pages, 2).map(page));
    let writes = closed_loop(&mut disk, &mut now, 256, random(400_000, pages, 3).map(page));
    let read = |first| Access::read(first * 8, 8);
    now += 1_000_000_000;
    let reads = closed_loop(&mut disk, &mut now, 1024, random(400_000, pages, 4).map(read));
    // One at a time. Others have 15 us for a write, 70 and 80 us for a read.
    now += 1_000_000_000;
    let write_us = 1e6 / closed_loop(&mut disk, &mut now, 1, random(100, pages, 5).map(page));
    let read_us = 1e6 / closed_loop(&mut disk, &mut now, 1, random(100, pages, 6).map(read));
    // 128 KiB, one after the other, on an erased drive: 3.5 GB/s.
    let Device::Flash(mut fresh) = spec.device.clone() else { panic!("flash") };
    fresh.collection.as_mut().unwrap().start = Start::Fresh;
    let (mut disk, mut now) = (self::disk(&Spec { device: Device::Flash(fresh), ..spec }, 1), 0);
    let large = (0..20_000).map(|n| Access::write(n * 256, 256));
    let sequential = closed_loop(&mut disk, &mut now, 32, large) * 131_072.0 / 1e9;
    println!(
        "{writes:.0} writes/s, {reads:.0} reads/s, {write_us:.1} us, {read_us:.1} us, {sequential:.2} GB/s"
    );
    assert!((150_000.0..200_000.0).contains(&writes), "{writes}");
    assert!((600_000.0..900_000.0).contains(&reads), "{reads}");
    assert!(
        (write_us - 15.0).abs() < 0.1 && (55.0..80.0).contains(&read_us),
        "{write_us} {read_us}"
    );
    assert!((3.0..3.5).contains(&sequential), "{sequential}");
}

#[test]
fn a_fresh_drive_is_fast_until_its_free_blocks_are_used_up() {
    let spec = small(230, "fresh");
    let (mut disk, mut now) = (disk(&spec, 1), 0);
    // Four channels of 4 pages in 0.5 ms.
    let all_free = (0..PAGES).chain(random(20 * SUPERBLOCK, PAGES, 2));
    let fresh = rate(&mut disk, &mut now, all_free);
    assert!((fresh / 32_000.0 - 1.0).abs() < 0.01, "{fresh}");
    assert_eq!(disk.wear().unwrap().copied_units, 0);
    rate(&mut disk, &mut now, random(4 * PAGES, PAGES, 3));
    let steady = rate(&mut disk, &mut now, random(PAGES, PAGES, 4));
    // Each unit takes a program, as many copies as are amplified with, and its part of an erase.
    let copies = expected(&spec) - 1.0;
    let unit_ms = 0.5 + copies * 0.55 + (1.0 + copies) * 2.0 / 16.0;
    let expected = 16.0 / unit_ms * 1e3;
    println!("fresh {fresh:.0}, steady {steady:.0}, by analysis {expected:.0} writes/s");
    assert!((steady / expected - 1.0).abs() < 0.03, "{steady} for {expected}");
    // A preconditioned drive begins there.
    let (mut disk, mut now) = (self::disk(&small(230, "preconditioned"), 1), 0);
    let begins = rate(&mut disk, &mut now, random(PAGES, PAGES, 4));
    assert!((begins / steady - 1.0).abs() < 0.03, "{begins} and {steady}");
}

#[test]
fn discards_restore_speed() {
    let (mut disk, mut now) = (disk(&small(230, "preconditioned"), 1), 0);
    let full = rate(&mut disk, &mut now, random(PAGES, PAGES / 2, 2));
    disk.submit(now, 0, Access::discard(PAGES / 2, PAGES / 2));
    now = disk.next().unwrap();
    disk.advance(now, &mut Vec::new());
    rate(&mut disk, &mut now, random(PAGES, PAGES / 2, 3));
    let half = rate(&mut disk, &mut now, random(PAGES, PAGES / 2, 4));
    println!("full {full:.0}, half discarded {half:.0} writes/s");
    assert!(half > 2.0 * full, "{full} writes/s, and {half}");
    // All of it: as fresh.
    disk.submit(now, 0, Access::discard(0, PAGES));
    now = disk.next().unwrap();
    disk.advance(now, &mut Vec::new());
    let before = disk.wear().unwrap();
    rate(&mut disk, &mut now, 0..PAGES);
    assert!(disk.wear().unwrap().copied_units - before.copied_units < PAGES / 4 / 100);
}

#[test]
fn a_write_is_complete_in_the_buffer() {
    let (mut disk, mut done) = (disk(&small(230, "preconditioned"), 1), Vec::new());
    // The buffer holds 8 units of 4 pages.
    (0..33).for_each(|id| disk.submit(0, id, Access::write(id, 1)));
    disk.submit(0, 33, Access::flush());
    disk.advance(Nanos::MAX, &mut done);
    let ends: Vec<Nanos> = done.iter().map(|c| c.at).collect();
    assert!(ends[..32].iter().all(|&at| at == 10_000), "{ends:?}");
    // The next waits for a program, and the flush for it.
    assert_eq!(ends[32..], [510_000, 510_000]);
    assert_eq!(done[32].times.queued, 500_000);
}

#[test]
fn reads_suspend_programs() {
    let (mut disk, mut done) = (disk(&small(230, "fresh"), 1), Vec::new());
    assert_eq!(disk.wear().unwrap(), Wear::default());
    // One program on the first channel, from 10 to 510 us.
    disk.submit(0, 0, Access::write(0, 4));
    disk.submit(100_000, 1, Access::read(0, 1));
    disk.submit(120_000, 2, Access::read(0, 1));
    // Close to its end, which is at 610 us now, there is no need to suspend it.
    disk.submit(560_000, 3, Access::read(0, 1));
    disk.advance(Nanos::MAX, &mut done);
    let ends: Vec<_> = done.iter().map(|c| (c.id, c.at)).collect();
    assert_eq!(ends, [(0, 10_000), (1, 260_000), (2, 310_000), (3, 660_000)]);
}

#[test]
fn the_same_again_gives_the_same() {
    let spec = small(230, "preconditioned");
    let run = |seed| {
        let (mut disk, mut now) = (disk(&spec, seed), 0);
        rate(&mut disk, &mut now, random(PAGES, PAGES, 7));
        (now, disk.wear())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Whatever is written and discarded: pages are where they should be, and the reserve is free.
    #[test]
    fn the_mapping_is_consistent(
        accesses in proptest::collection::vec((0..10u32, 0..PAGES, 1..2 * SUPERBLOCK), 1..100),
        superblocks in 205..400u64,
        fresh in any::<bool>(),
        ) {
        let spec = small(superblocks, if fresh { "fresh" } else { "preconditioned" });
        let mut drive = collecting(&spec, 1);
        drive.pages.check();
        let mut written = vec![!fresh; PAGES as usize];
        let mut latencies =
            Latencies { spec: flash(&spec), chance: &mut fastrand::Rng::with_seed(1) };
        for (kind, first, count) in accesses {
            let pages = first..(first + count).min(PAGES);
            let bytes = pages.start * 4096..pages.end * 4096;
            written[pages.start as usize..pages.end as usize].fill(kind > 2);
            if kind > 2 {
                drive.write(0, 0, bytes, &mut latencies);
            } else {
                drive.discard(bytes);
            }
            drive.pages.check();
        }
        for (page, written) in written.into_iter().enumerate() {
            prop_assert_eq!(drive.pages.slot_of[page] != pages::NONE, written);
        }
    }
}
