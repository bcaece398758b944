//! Parity that waits is computed in one go: data is read once, whatever was written to it and for however many parities.

use std::collections::BTreeSet;

use weft_core::cluster::{Place as Room, Volume, place_volume};
use weft_core::layout::{Geometry, LayoutSpec};
use weft_core::node::{HostData, HostOp, NodeConfig};
use weft_core::plan::Range;
use weft_core::policy::{Policy, Redundancy, Roles, Setting, Timing};
use weft_core::units::{MILLIS, NodeId, SECTOR, VolumeId};

use crate::world::World;

const VOLUME: VolumeId = VolumeId(1);
const UNIT: u64 = 16 * SECTOR;

struct Bench {
    world: World,
    geometry: Geometry,
    nodes: u16,
    next: u64,
    /// Requests go to one node after the other, rather than to the first.
    is_asked_in_turn: bool,
}

impl Bench {
    fn new(layout: &str, nodes: usize, immediate_parities: u8) -> Bench {
        let (timing, idle) = (Timing::Deferred, 200 * MILLIS);
        let redundancy = Redundancy { timing, idle, immediate_parities, ..Redundancy::default() };
        Bench::with(layout, nodes, 4, Policy { redundancy, ..Policy::default() })
    }

    fn with(layout: &str, nodes: usize, stripes: u64, policy: Policy) -> Bench {
        let layout: LayoutSpec = layout.parse().unwrap();
        let geometry = Geometry::new(layout.over(nodes).unwrap(), UNIT);
        let size = stripes * geometry.stripe_bytes();
        let of_volume = geometry.clone();
        let volumes = |data| {
            let rooms = Room::apart(&vec![data; nodes]);
            let extents = place_volume(&of_volume, size, &rooms, &[], size).unwrap();
            let made = Volume::new(VOLUME, "v", size, &layout, of_volume.clone(), extents);
            vec![Volume { policy, ..made }]
        };
        let world = World::new(5, nodes, 4800, 512, NodeConfig::default(), volumes);
        let mut bench =
            Bench { world, geometry, nodes: nodes as u16, next: 0, is_asked_in_turn: false };
        bench.until(Bench::is_quiet);
        // What was never written is not read.
        bench.write_bytes(0, size);
        bench.until(Bench::is_quiet);
        bench
    }

    fn is_quiet(&self) -> bool {
        (0..self.nodes).all(|n| self.world.status(NodeId(n)).is_some_and(|s| s.quiet))
    }

    fn until(&mut self, done: impl Fn(&Bench) -> bool) {
        let limit = self.world.events + 100_000;
        while !done(self) {
            assert!(self.world.step().is_some() && self.world.events < limit, "it does not end");
        }
    }

    fn write(&mut self, offset: u64) {
        self.write_bytes(offset, SECTOR);
    }

    fn refresh(&mut self) {
        let all = Range { offset: 0, len: 4 * self.geometry.stripe_bytes() };
        let left = self.ask(HostOp::Refresh(all));
        assert!(matches!(left, HostData::Refreshed(0)), "{left:?}");
    }

    fn write_bytes(&mut self, offset: u64, len: u64) {
        let data = vec![self.next as u8; len as usize];
        self.ask(HostOp::Write(offset, data.into()));
    }

    fn ask(&mut self, op: HostOp) -> HostData {
        self.next += 1;
        let node = if self.is_asked_in_turn { self.next % u64::from(self.nodes) } else { 0 };
        self.world.host(NodeId(node as u16), self.next, VOLUME, op);
        self.until(|b| !b.world.replies.is_empty());
        self.world.replies.pop().expect("just seen").1.expect("all disks are there")
    }

    /// The exposed sectors of a range of sectors, and where the answer ends.
    fn exposed(&mut self, sectors: std::ops::Range<u64>) -> (BTreeSet<u64>, u64) {
        let range =
            Range { offset: sectors.start * SECTOR, len: (sectors.end - sectors.start) * SECTOR };
        let HostData::Exposed(pieces) = self.ask(HostOp::Exposed(range)) else {
            panic!("what is exposed is asked for")
        };
        let (mut at, mut exposed) = (sectors.start, BTreeSet::new());
        for (len, is) in pieces {
            assert!(len > 0 && len % SECTOR == 0);
            exposed.extend((at..at + len / SECTOR).filter(|_| is));
            at += len / SECTOR;
        }
        (exposed, at)
    }

    /// What disks have read, and what they have had put in place: transfers of data and parity.
    fn transfers(&self) -> (u64, u64) {
        let of = |n| self.world.status(NodeId(n)).expect("it runs").counters.totals;
        (0..self.nodes).map(of).fold((0, 0), |sum, t| (sum.0 + t.disk_reads, sum.1 + t.disk_writes))
    }

    /// Stripes that are exposed on all disks together.
    fn exposed_stripes(&self) -> u64 {
        let of = |n| self.world.exposed(NodeId(n), VOLUME).expect("it runs").2.0;
        (0..self.nodes).map(of).sum()
    }

    fn relied(&self) -> u64 {
        self.world.counted(|c| c.relied_on_marks)
    }
}

/// Three rows side by side, of two units, are written five times each before there is time for their parity.
#[test]
fn rows_side_by_side_cost_one_read_of_each_data_column_and_one_write_of_each_parity() {
    for (layout, nodes) in [("raid5", 5), ("raid6", 6), ("rs:4+3", 7)] {
        let mut bench = Bench::new(layout, nodes, 0);
        let before = bench.transfers();
        for offset in [0, SECTOR, 2 * SECTOR, UNIT, UNIT + SECTOR, UNIT + 2 * SECTOR].repeat(5) {
            bench.write(offset);
        }
        // Each row was marked once, by what was written to it first.
        assert_eq!(bench.relied(), 27, "{layout}");
        // Asked for, so that all of it is due at once, whichever disk was used last.
        bench.refresh();
        bench.until(Bench::is_quiet);
        let after = bench.transfers();
        let (k, m) = (bench.geometry.data_columns(), bench.geometry.code.parity_columns());
        // The data of two units is put in place, too.
        let (reads, writes) = (after.0 - before.0, after.1 - before.1);
        // Of the two units that were written just now the content is still in memory.
        assert_eq!((reads, writes), (k as u64 - 2, m as u64 + 2), "{layout}");
    }
}

/// Parity that takes each write at once is not computed again.
#[test]
fn parity_that_does_not_wait_is_left_alone() {
    let mut bench = Bench::new("raid6", 6, 1);
    let before = bench.transfers();
    bench.write(0);
    assert_eq!(bench.relied(), 0, "who takes each write at once is told of it");
    bench.until(Bench::is_quiet);
    let after = bench.transfers();
    // The small write reads old data and old parity; then each data column is read, but for what is still in memory.
    let k = bench.geometry.data_columns() as u64;
    let (reads, writes) = (after.0 - before.0, after.1 - before.1);
    assert!(reads == 2 + k || reads == 1 + k, "{reads} reads");
    assert_eq!(writes, 3);
}

/// To the sector: of each written sector those beside it in the other units of its stripe, which its parities cover.
#[test]
fn what_is_exposed_is_told_to_the_sector_and_no_more_once_it_is_computed() {
    for (layout, nodes) in [("raid5", 5), ("raid6", 6), ("lrc:4+2+1", 7)] {
        let mut bench = Bench::new(layout, nodes, 0);
        // A parity is asked to be computed while the mark of a write that was answered is on its way.
        bench.is_asked_in_turn = true;
        let (unit, stripe) = (UNIT / SECTOR, bench.geometry.stripe_bytes() / SECTOR);
        let all = 0..4 * stripe;
        assert_eq!(bench.exposed(all.clone()), (BTreeSet::new(), all.end), "{layout}");
        let written = [0, 3, unit + 5, stripe + 7, 3 * stripe - 1];
        let mut expected = BTreeSet::new();
        for sector in written {
            bench.write(sector * SECTOR);
            // It is told as soon as its host is answered. Of lrc the global parity covers all units, too.
            let row =
                (0..stripe / unit).map(|i| sector / stripe * stripe + i * unit + sector % unit);
            expected.extend(row);
            assert_eq!(bench.exposed(all.clone()).0, expected, "{layout}: {sector} was written");
        }
        let part = 3..stripe + 8;
        let within = expected.iter().copied().filter(|s| part.contains(s)).collect();
        assert_eq!(bench.exposed(part.clone()), (within, part.end), "{layout}");
        bench.refresh();
        assert_eq!(bench.exposed(all.clone()), (BTreeSet::new(), all.end), "{layout}");
    }
}

/// All writes go to stripes with their parity on one disk, whose share of the bound would be one stripe.
#[test]
fn a_controller_keeps_to_a_bound_exactly() {
    for roles in [Roles::Controller, Roles::Central] {
        let bound = 6;
        let redundancy = Redundancy {
            timing: Timing::Deferred,
            idle: 2_000 * MILLIS,
            exposed_stripes: bound,
            ..Redundancy::default()
        };
        let policy = Policy { redundancy, ..Policy::default() };
        let mut bench = Bench::with("raid5", 5, 40, policy.with([Setting::Roles(roles)]));
        let stripe = bench.geometry.stripe_bytes();
        let mut seen = Vec::new();
        for n in 0..40 {
            bench.write(n * 5 % 40 * stripe + n / 8 * SECTOR);
            seen.push(bench.exposed_stripes());
        }
        // Disks hear a little later of what has happened.
        let most = seen.iter().copied().max().unwrap_or(0);
        assert!((bound..=2 * bound).contains(&most), "{roles:?}: all of it can be used: {seen:?}");
        bench.until(|b| b.exposed_stripes() == 0);
    }
}

/// All power goes as soon as a host has been told that a volume is redundant, and the disk with the data does not come back.
#[test]
fn parity_that_was_said_to_be_computed_is_there_after_a_power_cut() {
    let mut bench = Bench::new("raid5", 4, 0);
    bench.world.tear_in_power_cuts(5);
    // A unit that is not on the disk of the node that is asked.
    let (map, geometry) = (bench.world.map().clone(), bench.geometry.clone());
    let node_of = |stripe: u64| {
        let column = geometry.locate(stripe * geometry.stripe_bytes()).1;
        map.volumes[&VOLUME].extent(stripe).columns[column].0
    };
    let stripe = (0..4).find(|stripe| node_of(*stripe) != NodeId(0)).expect("data is spread");
    let offset = stripe * bench.geometry.stripe_bytes();
    bench.write(offset);
    let written = bench.next as u8 - 1;
    bench.refresh();
    bench.world.power_cut();
    bench.world.start_everything();
    let lost = node_of(stripe);
    bench.world.kill(lost, true);
    bench.until(|b| !b.world.map().is_up(lost));
    let then = bench.world.now() + 100 * MILLIS;
    bench.until(|b| b.world.now() >= then);
    let HostData::Bytes(parts) = bench.ask(HostOp::Read(Range { offset, len: SECTOR })) else {
        panic!("a read gives bytes")
    };
    assert!(weft_core::Buffer::join(&parts).iter().all(|b| *b == written), "it reads otherwise");
}
