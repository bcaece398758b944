//! What it is worth to say which write comes first, instead of waiting and flushing: the simulated
//! half of the comparison (the real one is a benchmark of the client library).
//!
//! A host keeps a write-ahead log on a volume with a journal. Each of its transactions is one write
//! to the log, and then four writes elsewhere that must not be on disk without it, nor without the
//! log of any transaction before. *By barriers*, the host puts transactions together: it writes the
//! logs of all that there is room for, waits, flushes, waits for that, and asks for the rest, while
//! the next logs go on. *By dependencies*, it asks for everything at once and names what must come
//! first; it waits for nothing but room for its transactions.

use std::collections::BTreeMap;

use weft_core::cluster::{EXTENT_COLUMN_BYTES, Place as Room, Volume, place_volume};
use weft_core::layout::{Geometry, LayoutSpec};
use weft_core::node::{HostOp, NodeConfig};
use weft_core::order::{HostId, Place, RequestId};
use weft_core::units::{MILLIS, Nanos, NodeId, SECTOR, VolumeId};

use crate::world::World;

const VOLUME: VolumeId = VolumeId(1);
const NODES: usize = 5;
const MICROS: Nanos = 1_000;

/// Transactions of a run.
const TRANSACTIONS: u64 = 200;
/// Writes of each that come after its log's.
const DATA: u64 = 4;
/// Transactions that a host has going at once.
const WINDOW: u64 = 16;
/// Sectors of the log, at the beginning of the volume.
const LOG: u64 = 64;

/// How a host sees to the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Barriers,
    Dependencies,
}

/// What a request is of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Log,
    Flush,
    Data,
}

struct Host {
    world: World,
    by: By,
    sectors: u64,
    /// Transaction and part of each request that is on its way; their names are the same numbers.
    asked: BTreeMap<u64, (u64, Part)>,
    next: u64,
    /// Transactions that have begun.
    begun: u64,
    /// By barriers: those whose logs are being written or flushed.
    group: Vec<u64>,
    /// Parts of each transaction that are not answered.
    left: BTreeMap<u64, u64>,
    done: u64,
}

impl Host {
    fn new(by: By, disk: (Nanos, Nanos)) -> Host {
        let layout: LayoutSpec = "rs:2+1".parse().unwrap();
        let geometry = Geometry::new(layout.over(NODES).unwrap(), 4 * SECTOR);
        let size = 64 * geometry.stripe_bytes();
        let mut world = World::new(11, NODES, 2400, 512, NodeConfig::default(), |data| {
            let rooms = Room::apart(&[data; NODES]);
            let extents = place_volume(&geometry, size, &rooms, &[], EXTENT_COLUMN_BYTES).unwrap();
            vec![Volume::new(VOLUME, "v", size, &layout, geometry, extents)]
        });
        world.conditions.disk = disk;
        let sectors = size / SECTOR;
        let mut host = Host {
            world,
            by,
            sectors,
            asked: BTreeMap::new(),
            next: 0,
            begun: 0,
            group: Vec::new(),
            left: BTreeMap::new(),
            done: 0,
        };
        let up = |h: &Host| {
            let serves = |n: u16| h.world.status(NodeId(n)).is_some_and(|s| s.serving);
            (0..NODES as u16).all(serves)
        };
        while !up(&host) {
            host.world.step().expect("time goes on");
        }
        host
    }

    /// Asks for a request of a transaction, after those that are named.
    fn ask(&mut self, transaction: u64, part: Part, after: &[u64]) -> u64 {
        self.next += 1;
        let number = self.next;
        let write = |sector: u64| HostOp::Write(sector * SECTOR, vec![1; SECTOR as usize].into());
        let op = match part {
            Part::Log => write(transaction % LOG),
            // All over the rest of the volume.
            Part::Data => write(LOG + number * 7919 % (self.sectors - LOG)),
            Part::Flush => HostOp::Flush,
        };
        let id = |number| RequestId { host: HostId(1), number };
        let oldest = self.asked.keys().next().map_or(number, |o| *o);
        let after = after.iter().map(|n| id(*n)).collect();
        let place = Place { id: id(number), after, oldest };
        self.asked.insert(number, (transaction, part));
        self.world.host_in_order(NodeId(0), number, VOLUME, place, op);
        number
    }

    fn ask_data(&mut self, transaction: u64, after: &[u64]) {
        for _ in 0..DATA {
            self.ask(transaction, Part::Data, after);
        }
    }

    /// The log writes that are on their way.
    fn logs(&self) -> Vec<u64> {
        self.asked.iter().filter(|(_, p)| p.1 == Part::Log).map(|(n, _)| *n).collect()
    }

    /// Begins transactions as far as there is room.
    fn begin(&mut self) {
        if self.by == By::Barriers && !self.group.is_empty() {
            return;
        }
        while self.left.len() < WINDOW as usize && self.begun < TRANSACTIONS {
            let transaction = self.begun;
            self.begun += 1;
            self.left.insert(transaction, DATA);
            self.ask(transaction, Part::Log, &[]);
            match self.by {
                By::Barriers => self.group.push(transaction),
                By::Dependencies => {
                    let logs = self.logs();
                    self.ask_data(transaction, &logs);
                }
            }
        }
    }

    fn answered(&mut self, number: u64) {
        let (transaction, part) = self.asked.remove(&number).expect("it was asked");
        match (self.by, part) {
            (By::Barriers, Part::Log) if self.logs().is_empty() => {
                self.ask(transaction, Part::Flush, &[]);
            }
            (By::Barriers, Part::Flush) => {
                let group = std::mem::take(&mut self.group);
                group.into_iter().for_each(|t| self.ask_data(t, &[]));
            }
            (_, Part::Log | Part::Flush) => {}
            (_, Part::Data) => {
                let left = self.left.get_mut(&transaction).expect("it is not done");
                *left -= 1;
                if *left == 0 {
                    self.left.remove(&transaction);
                    self.done += 1;
                }
            }
        }
    }

    /// How long all transactions take.
    fn run(mut self) -> Nanos {
        let began = self.world.now();
        self.begin();
        while self.done < TRANSACTIONS {
            for (number, result) in std::mem::take(&mut self.world.replies) {
                result.unwrap_or_else(|e| panic!("request {number}: {e}"));
                self.answered(number);
            }
            self.begin();
            if self.done < TRANSACTIONS {
                self.world.step().expect("time goes on");
            }
        }
        self.world.now() - began
    }
}

/// How many times as long it takes by barriers.
fn ratio(disk: (Nanos, Nanos)) -> f64 {
    let time = |by| Host::new(by, disk).run() as f64;
    let (barriers, dependencies) = (time(By::Barriers), time(By::Dependencies));
    let each = |t: f64| t / TRANSACTIONS as f64 / 1e6;
    println!(
        "disk {disk:?} ns: {:.3} ms a transaction by barriers, {:.3} by dependencies",
        each(barriers),
        each(dependencies)
    );
    barriers / dependencies
}

#[test]
fn dependencies_pay_on_fast_and_on_slow_disks() {
    for disk in [(50 * MICROS, 300 * MICROS), (2 * MILLIS, 10 * MILLIS)] {
        let ratio = ratio(disk);
        println!("barriers take {ratio:.2} times as long");
        assert!(ratio > 1.2, "{disk:?}: {ratio}");
    }
}
