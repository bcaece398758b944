//! What is explored: small volumes on two or three nodes, and one or two writes.

use std::ops::Range;

use weft_core::cluster::{Extent, Volume};
use weft_core::layout::{Geometry, LayoutSpec};
use weft_core::policy::{Controller, Policy, Preference, Redundancy, Timing};
use weft_core::units::{MILLIS, Nanos, NodeId, SECTOR, VolumeId};

use crate::check::BLOCK;

/// The volume's number.
pub(super) const VOLUME: VolumeId = VolumeId(1);
/// Bytes of a stripe unit: one sector.
const UNIT: u64 = SECTOR;
/// Parity that waits is computed after so long.
const IDLE: Nanos = 10 * MILLIS;
/// Blocks of a stripe unit, as the history counts them.
pub(super) const UNIT_BLOCKS: u64 = UNIT / BLOCK;

/// What a host asks, in stripe units of the volume.
#[derive(Clone, Debug)]
pub enum Ask {
    /// Write these units.
    Write(Range<u64>),
    /// Read these units.
    Read(Range<u64>),
}

/// A host: asks one thing after the other of one node.
#[derive(Clone, Debug)]
pub struct Host {
    /// The node.
    pub node: NodeId,
    /// What it asks.
    pub asks: Vec<Ask>,
}

/// A volume and its hosts. A unit is one sector.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Its name.
    pub name: &'static str,
    /// What it is about, in a line.
    pub about: &'static str,
    /// The layout's name.
    pub layout: &'static str,
    /// The node of each column.
    pub columns: &'static [u16],
    /// How many nodes.
    pub nodes: usize,
    /// How many stripes.
    pub stripes: u64,
    /// The strategy of its writes, if not by cost.
    pub strategy: Option<Preference>,
    /// If parity waits: how many parities take each write at once all the same.
    pub deferred: Option<u8>,
    /// Whether a controller coordinates that no data passes: node 0, and after its death node 1.
    pub controlled: bool,
    /// A node whose clock is a millisecond ahead of the others'.
    pub ahead: Option<NodeId>,
    /// The hosts.
    pub hosts: Vec<Host>,
}

impl Setup {
    /// All that there are.
    pub fn all() -> Vec<Setup> {
        let write = |node, units| Host { node: NodeId(node), asks: vec![Ask::Write(units)] };
        let read = |node, units| Host { node: NodeId(node), asks: vec![Ask::Read(units)] };
        let mirrored = |name, about, hosts| Setup {
            name,
            about,
            layout: "raid1",
            columns: &[1, 2],
            strategy: None,
            deferred: None,
            controlled: false,
            ahead: None,
            nodes: 3,
            stripes: 1,
            hosts,
        };
        let raid4 = |name, about, stripes, hosts| Setup {
            name,
            about,
            layout: "raid4",
            columns: &[0, 1, 2],
            strategy: None,
            deferred: None,
            controlled: false,
            ahead: None,
            nodes: 3,
            stripes,
            hosts,
        };
        vec![
            Setup {
                name: "mirror",
                about: "two copies on nodes 0 and 1; node 2, which has neither, writes",
                layout: "raid1",
                columns: &[0, 1],
                strategy: None,
                deferred: None,
                controlled: false,
                ahead: None,
                nodes: 3,
                stripes: 1,
                hosts: vec![write(2, 0..1)],
            },
            Setup {
                name: "pair",
                about: "two copies on nodes 0 and 1; node 0, which has one of them, writes",
                layout: "raid1",
                columns: &[0, 1],
                strategy: None,
                deferred: None,
                controlled: false,
                ahead: None,
                nodes: 2,
                stripes: 1,
                hosts: vec![write(0, 0..1)],
            },
            Setup {
                name: "refused",
                about: "two copies on nodes 0 and 1; node 2 writes while node 1 reads, which may make \
                        the write come too late",
                layout: "raid1",
                columns: &[0, 1],
                strategy: None,
                deferred: None,
                controlled: false,
                ahead: None,
                nodes: 3,
                stripes: 1,
                hosts: vec![write(2, 0..1), read(1, 0..1)],
            },
            Setup {
                name: "again",
                about: "two copies on nodes 0 and 1; node 2 writes, while a host of node 1 reads, \
                        reads, writes and reads",
                layout: "raid1",
                columns: &[0, 1],
                strategy: None,
                deferred: None,
                controlled: false,
                ahead: None,
                nodes: 3,
                stripes: 1,
                hosts: vec![
                    write(2, 0..1),
                    Host {
                        node: NodeId(1),
                        asks: vec![
                            Ask::Read(0..1),
                            Ask::Read(0..1),
                            Ask::Write(0..1),
                            Ask::Read(0..1),
                        ],
                    },
                ],
            },
            raid4(
                "small",
                "2+1; node 1 writes a unit that lies on node 0",
                1,
                vec![write(1, 0..1)],
            ),
            raid4("full", "2+1; node 0 writes a whole stripe", 1, vec![write(0, 0..2)]),
            raid4(
                "stripes",
                "2+1; node 2 writes two units of different stripes, which are atomic together",
                2,
                vec![write(2, 1..3)],
            ),
            Setup {
                columns: &[2, 1, 0],
                ahead: Some(NodeId(2)),
                ..raid4(
                    "ahead",
                    "2+1; node 2, whose clock is ahead, writes a unit of its own disk while node 1 \
                     writes it too; the parity is on node 0",
                    1,
                    vec![write(2, 0..1), write(1, 0..1)],
                )
            },
            Setup {
                columns: &[2, 1, 0],
                strategy: Some(Preference::Small),
                ahead: Some(NodeId(2)),
                ..raid4(
                    "late",
                    "as 'ahead', but the parity gets changes, not content",
                    1,
                    vec![write(2, 0..1), write(1, 0..1)],
                )
            },
            raid4(
                "two",
                "2+1; node 0 writes a whole stripe while node 1 writes one unit of it",
                1,
                vec![write(0, 0..2), write(1, 0..1)],
            ),
            raid4(
                "read",
                "2+1; node 0 writes a whole stripe while node 1 reads it",
                1,
                vec![write(0, 0..2), read(1, 0..2)],
            ),
            Setup {
                controlled: true,
                ..mirrored(
                    "takeover",
                    "two copies on nodes 1 and 2, the controller is node 0, then node 1; node 2 writes",
                    vec![write(2, 0..1)],
                )
            },
            Setup {
                controlled: true,
                ..mirrored(
                    "takeover-again",
                    "as 'takeover', while a host of node 1 reads, writes and reads",
                    vec![
                        write(2, 0..1),
                        Host {
                            node: NodeId(1),
                            asks: vec![Ask::Read(0..1), Ask::Write(0..1), Ask::Read(0..1)],
                        },
                    ],
                )
            },
            Setup {
                columns: &[1, 2, 3],
                nodes: 4,
                controlled: true,
                ..raid4(
                    "takeover-parity",
                    "2+1 on nodes 1 to 3, the controller is node 0, then node 1; node 3 writes a unit that lies on node 2",
                    1,
                    vec![write(3, 1..2)],
                )
            },
            Setup {
                deferred: Some(0),
                ..raid4(
                    "waits",
                    "2+1, all parity waits; node 2, which has it, writes a unit that lies on node 0",
                    1,
                    vec![write(2, 0..1)],
                )
            },
            Setup {
                deferred: Some(0),
                ..raid4(
                    "waits-own",
                    "2+1, all parity waits; node 0 writes a unit of its own disk",
                    1,
                    vec![write(0, 0..1)],
                )
            },
            Setup {
                deferred: Some(0),
                ..raid4(
                    "waits-far",
                    "2+1, all parity waits; node 1, which has no part in it, writes a unit that lies on node 0",
                    1,
                    vec![write(1, 0..1)],
                )
            },
            Setup {
                layout: "rs:2+2",
                columns: &[0, 1, 2, 3],
                nodes: 4,
                deferred: Some(1),
                ..raid4(
                    "waits-one",
                    "2+2, the second parity waits; node 1 writes a unit that lies on node 0",
                    1,
                    vec![write(1, 0..1)],
                )
            },
        ]
    }

    /// The one of that name.
    pub fn named(name: &str) -> Option<Setup> {
        Setup::all().into_iter().find(|s| s.name == name)
    }

    /// Its volume.
    pub(super) fn volume(&self) -> Volume {
        let spec: LayoutSpec = self.layout.parse().expect("a known name");
        let geometry = Geometry::new(spec.over(self.columns.len()).expect("enough columns"), UNIT);
        let size = self.stripes * geometry.stripe_bytes();
        let columns = self.columns.iter().map(|n| (NodeId(*n), 0)).collect();
        let redundancy = self.deferred.map(|immediate_parities| Redundancy {
            timing: Timing::Deferred,
            immediate_parities,
            idle: IDLE,
            ..Redundancy::default()
        });
        let policy = Policy {
            strategy: self.strategy,
            lost_wait: 0,
            redundancy: redundancy.unwrap_or_default(),
            controller: self.controlled.then_some(Controller::OutOfBand),
            ..Policy::default()
        };
        let extents = vec![Extent::new(0, columns)];
        Volume { policy, ..Volume::new(VOLUME, "v", size, &spec, geometry, extents) }
    }
}
