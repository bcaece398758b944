//! What a plan promises is what nodes count: the totals of `weft explain`, the counters of
//! simulated nodes and those of running nodes are the same, request by request.

mod explained;
mod real;
mod simulated;

use std::fmt;

use fastrand::Rng;
use weft_core::plan::Totals;
use weft_core::policy::CalculatedAt;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Large enough that a journal (a sixteenth of it) takes chunks of the full size.
const DISK: u64 = 288 * MIB;
const VOLUME: u64 = 24 * MIB;

/// An array with one volume.
#[derive(Clone, Copy, Debug)]
struct Setup {
    layout: &'static str,
    nodes: usize,
    unit: u64,
    journal: bool,
    /// Where parity is computed, if that is forced. A running array leaves it to the plan.
    roles: Option<CalculatedAt>,
    /// Whether the originator commands the workers.
    commanded: bool,
    /// Whether all parity waits, for ever; and of what is explained, whether it is marked already.
    waits: bool,
    marked: bool,
}

impl Setup {
    const fn new(layout: &'static str, nodes: usize) -> Setup {
        Setup {
            layout,
            nodes,
            unit: 64 * KIB,
            journal: true,
            roles: None,
            commanded: false,
            waits: false,
            marked: false,
        }
    }
}

/// A request.
#[derive(Clone, Copy, Debug)]
struct Request {
    write: bool,
    offset: u64,
    length: u64,
}

const fn read(offset: u64, length: u64) -> Request {
    Request { write: false, offset, length }
}

const fn write(offset: u64, length: u64) -> Request {
    Request { write: true, offset, length }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.write { "write" } else { "read" };
        write!(f, "{what} of {} bytes at {}", self.length, self.offset)
    }
}

/// A world that nodes run in. The volume is full of data when it begins.
trait World {
    /// Loses a node for the rest of the test.
    fn kill(&mut self, node: usize);

    /// Carries out a request, waits until everything is in place, and says what all nodes
    /// together counted meanwhile.
    fn cost(&mut self, request: Request, data: Vec<u8>) -> Totals;
}

/// What comes so and not otherwise: nodes with no zeros to skip.
fn noise(rng: &mut Rng, length: u64) -> Vec<u8> {
    let mut data = vec![0; length as usize];
    rng.fill(&mut data);
    data
}

/// Compares them all, first with all nodes, then as one after the other is lost.
fn agree(setup: Setup, phases: &[(&[usize], &[Request])]) {
    let mut worlds: Vec<(&str, Box<dyn World>)> =
        vec![("simulated", Box::new(simulated::start(setup)))];
    if setup.roles.is_none() {
        worlds.push(("running", Box::new(real::start(setup, 1))));
        worlds.push(("running in two lanes", Box::new(real::start(setup, 2))));
    }
    let mut rng = Rng::with_seed(4);
    let mut wrong = Vec::new();
    let mut dead = 0;
    for (failed, requests) in phases {
        for node in &failed[dead..] {
            worlds.iter_mut().for_each(|(_, w)| w.kill(*node));
        }
        dead = failed.len();
        for request in *requests {
            let (promised, pieces) = explained::totals(setup, failed, *request);
            for (name, world) in &mut worlds {
                let mut cost = world.cost(*request, noise(&mut rng, request.length));
                // Checkpoints may fold what several pieces of a request write side by side.
                if pieces > 1 && cost.disk_writes < promised.disk_writes {
                    cost.disk_writes = promised.disk_writes;
                }
                if cost != promised {
                    wrong.push(format!(
                        "{request}, lost {failed:?}:\n  explained {promised:?}\n  {name} {cost:?}"
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{setup:?}\n{}", wrong.join("\n"));
}

/// With four data columns.
const FIVE: [Request; 19] = [
    read(0, 4 * KIB),
    read(1000, 3000),
    read(60 * KIB, 8 * KIB),
    read(100 * KIB, 300 * KIB),
    read(0, 2 * MIB),
    read(10_000, 3 * MIB + 5),
    read(0, 8 * MIB),
    write(0, 4 * KIB),
    write(20 * KIB, 12 * KIB),
    write(1000, 3000),
    write(60 * KIB, 8 * KIB),
    write(64 * KIB - 100, 200),
    write(0, 64 * KIB),
    write(0, 192 * KIB),
    write(70 * KIB, 180 * KIB),
    write(512 * KIB, 256 * KIB),
    write(252 * KIB, 8 * KIB),
    write(100 * KIB, MIB),
    write(0, 8 * MIB),
];

#[test]
fn raid5() {
    agree(Setup::new("raid5", 5), &[(&[], &FIVE), (&[1], &FIVE)]);
}

#[test]
fn raid5_without_journal() {
    agree(Setup { journal: false, ..Setup::new("raid5", 5) }, &[(&[], &FIVE), (&[3], &FIVE)]);
}

#[test]
fn raid5_with_forced_roles() {
    for roles in [CalculatedAt::Originator, CalculatedAt::Solely, CalculatedAt::Parity] {
        for journal in [true, false] {
            let setup = Setup { roles: Some(roles), journal, ..Setup::new("raid5", 5) };
            agree(setup, &[(&[], &FIVE), (&[4], &FIVE)]);
        }
    }
}

/// Columns that compute for one another: a star, and a tree.
#[test]
fn columns_calculate() {
    for roles in [CalculatedAt::Balanced, CalculatedAt::Tree] {
        for (layout, nodes) in [("raid5", 5), ("raid6", 6), ("lrc:4+2+1", 7), ("grid:2x2", 9)] {
            let setup = Setup { roles: Some(roles), ..Setup::new(layout, nodes) };
            agree(setup, &[(&[], &FIVE), (&[4], &FIVE)]);
        }
        let setup = Setup { roles: Some(roles), ..Setup::new("raid6", 6) };
        agree(setup, &[(&[5, 2], &FIVE)]);
        let setup = Setup { roles: Some(roles), journal: false, ..Setup::new("raid5", 5) };
        agree(setup, &[(&[], &FIVE), (&[3], &FIVE)]);
        agree(
            Setup { roles: Some(roles), ..Setup::new("rs:2+2", 4) },
            &[(&[], &FEW), (&[3, 0], &FEW)],
        );
    }
}

#[test]
fn commanded() {
    for journal in [true, false] {
        let setup = Setup { commanded: true, journal, ..Setup::new("raid5", 5) };
        agree(setup, &[(&[], &FIVE), (&[3], &FIVE)]);
    }
    let setup = Setup { commanded: true, ..Setup::new("raid6", 6) };
    agree(setup, &[(&[], &FIVE), (&[0, 4], &FIVE)]);
}

/// Parity that waits: a write marks it, and the next one to the same place relies on that. Each begins in a stripe of its
/// own, of which nothing is marked.
#[test]
fn marked_parity_need_not_be_told_again() {
    let own_stripe = |n: u64| n * MIB;
    let writes = [
        write(own_stripe(1), 4 * KIB),
        write(own_stripe(2) + 68 * KIB, 12 * KIB),
        write(own_stripe(3) + 1000, 3000),
        write(own_stripe(4) + 64 * KIB, 64 * KIB),
        write(own_stripe(5) + 60 * KIB, 8 * KIB),
    ];
    for (layout, nodes) in [("raid5", 5), ("raid6", 6), ("lrc:4+2+1", 7)] {
        let first = Setup { waits: true, ..Setup::new(layout, nodes) };
        let again = Setup { marked: true, ..first };
        let mut worlds: Vec<(&str, Box<dyn World>)> = vec![
            ("simulated", Box::new(simulated::start(first))),
            ("running", Box::new(real::start(first, 1))),
            ("running in two lanes", Box::new(real::start(first, 2))),
        ];
        let mut rng = Rng::with_seed(5);
        for (name, world) in &mut worlds {
            for request in writes {
                for setup in [first, again, again] {
                    let promised = explained::totals(setup, &[], request).0;
                    let cost = world.cost(request, noise(&mut rng, request.length));
                    assert_eq!(cost, promised, "{layout}, {name}: {request}, {setup:?}");
                }
            }
        }
        let small = explained::totals(again, &[], writes[0]).0;
        assert_eq!((small.messages, small.journal_writes, small.disk_reads), (2, 1, 0));
    }
}

#[test]
fn raid6() {
    agree(Setup::new("raid6", 6), &[(&[], &FIVE), (&[0], &FIVE), (&[0, 4], &FIVE)]);
}

#[test]
fn raid6_with_forced_roles() {
    for roles in [CalculatedAt::Originator, CalculatedAt::Solely, CalculatedAt::Parity] {
        let setup = Setup { roles: Some(roles), ..Setup::new("raid6", 6) };
        agree(setup, &[(&[], &FIVE), (&[5], &FIVE), (&[5, 2], &FIVE)]);
    }
}

#[test]
fn raid4_and_raid0() {
    agree(Setup::new("raid4", 5), &[(&[], &FIVE), (&[4], &FIVE)]);
    agree(Setup::new("raid0", 4), &[(&[], &FIVE)]);
}

/// Parities that cover different data, with as much data in a stripe.
#[test]
fn groups() {
    agree(Setup::new("lrc:4+2+1", 7), &[(&[], &FIVE), (&[0], &FIVE), (&[0, 6], &FIVE)]);
    agree(Setup::new("grid:2x2", 9), &[(&[], &FIVE), (&[4], &FIVE), (&[4, 5, 8], &FIVE)]);
}

/// With one or two data columns; extents of the narrower layout end at 16 MiB.
const FEW: [Request; 12] = [
    read(0, 4 * KIB),
    read(1000, 3000),
    read(50 * KIB, 300 * KIB),
    read(16 * MIB - 64 * KIB, 128 * KIB),
    write(0, 4 * KIB),
    write(1000, 3000),
    write(60 * KIB, 8 * KIB),
    write(0, 64 * KIB),
    write(0, 128 * KIB),
    write(30 * KIB, 90 * KIB),
    write(100 * KIB, MIB),
    write(16 * MIB - 64 * KIB, 128 * KIB),
];

#[test]
fn two_and_two() {
    agree(Setup::new("rs:2+2", 4), &[(&[], &FEW), (&[3], &FEW), (&[3, 0], &FEW)]);
}

#[test]
fn two_and_one() {
    let setup = Setup { unit: 16 * KIB, ..Setup::new("rs:2+1", 3) };
    agree(setup, &[(&[], &FEW), (&[1], &FEW)]);
}

#[test]
fn mirrors() {
    agree(Setup::new("raid1", 2), &[(&[], &FEW), (&[1], &FEW)]);
    agree(Setup { journal: false, ..Setup::new("raid1", 2) }, &[(&[], &FEW)]);
}

#[test]
fn narrow_layouts_over_many_nodes() {
    agree(Setup::new("raid1", 4), &[(&[], &FEW)]);
    agree(Setup::new("rs:2+1", 6), &[(&[], &FEW)]);
}
