//! Parity that waits is computed in one go: data is read once, whatever was written to it and for however many parities.

use weft_core::cluster::{Place as Room, Volume, place_volume};
use weft_core::layout::{Geometry, LayoutSpec};
use weft_core::node::{HostOp, NodeConfig};
use weft_core::plan::Range;
use weft_core::policy::{Policy, Redundancy, Timing};
use weft_core::units::{MILLIS, NodeId, SECTOR, VolumeId};

use crate::world::World;

const VOLUME: VolumeId = VolumeId(1);
const UNIT: u64 = 16 * SECTOR;

struct Bench {
    world: World,
    geometry: Geometry,
    nodes: u16,
    next: u64,
}

impl Bench {
    fn new(layout: &str, nodes: usize, immediate_parities: u8) -> Bench {
        let layout: LayoutSpec = layout.parse().unwrap();
        let geometry = Geometry::new(layout.over(nodes).unwrap(), UNIT);
        let (timing, idle) = (Timing::Deferred, 200 * MILLIS);
        let redundancy = Redundancy { timing, idle, immediate_parities, ..Redundancy::default() };
        let size = 4 * geometry.stripe_bytes();
        let of_volume = geometry.clone();
        let volumes = |data| {
            let rooms = Room::apart(&vec![data; nodes]);
            let extents = place_volume(&of_volume, size, &rooms, &[], size).unwrap();
            let made = Volume::new(VOLUME, "v", size, &layout, of_volume.clone(), extents);
            vec![Volume { policy: Policy { redundancy, ..Policy::default() }, ..made }]
        };
        let world = World::new(5, nodes, 4800, 512, NodeConfig::default(), volumes);
        let mut bench = Bench { world, geometry, nodes: nodes as u16, next: 0 };
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
        self.ask(HostOp::Refresh(all));
    }

    fn write_bytes(&mut self, offset: u64, len: u64) {
        let data = vec![self.next as u8; len as usize];
        self.ask(HostOp::Write(offset, data.into()));
    }

    fn ask(&mut self, op: HostOp) {
        self.next += 1;
        self.world.host(NodeId(0), self.next, VOLUME, op);
        self.until(|b| !b.world.replies.is_empty());
        assert!(self.world.replies.drain(..).all(|r| r.1.is_ok()));
    }

    /// What disks have read, and what they have had put in place: transfers of data and parity.
    fn transfers(&self) -> (u64, u64) {
        let of = |n| self.world.status(NodeId(n)).expect("it runs").counters.totals;
        (0..self.nodes).map(of).fold((0, 0), |sum, t| (sum.0 + t.disk_reads, sum.1 + t.disk_writes))
    }

    fn relied(&self) -> u64 {
        self.world.relied_on_marks()
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
