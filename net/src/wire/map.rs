//! The encoding of the cluster map, and of what the authority and its members say. A new
//! field of the map is added to its list here and to the generator in `tests`.

use std::collections::BTreeMap;

use weft_code::Code;
use weft_core::cluster::{
    Access, Attendance, Certificate, ClusterMap, Deletion, Extent, Hold, Home, HostList, Import,
    KnownHost, LONGEST_REGISTRANT, LONGEST_SEALED, Lineage, MOST_CERTIFICATES, MOST_HOSTS,
    MOST_RANGES, MOST_REGISTRANTS, MOST_REMOVED, NodeInfo, NodeKind, PolicyRange, Registrant,
    Removal, Reservation, ReservationKind, ReservationOutcome, Reservations, SealedSecret,
    Settings, Snapshot, Source, TimeAway, Volume,
};
use weft_core::layout::{Geometry, Grid, Layout, Local, Placement, Rotating};
use weft_core::node::{MapMessage, MemberReport, Memory, Undescribed};
use weft_core::units::{MAX_NODES, SECTOR};

use weft_bytes::{BytesError, Read, at_most};

use super::code::{Reader, Wire, Writer, wire_enum, wire_struct};

/// The largest stripe unit and volume that are believed, so that sums of them do not overflow.
const MAX_UNIT: u64 = 1 << 32;
const MAX_VOLUME: u64 = 1 << 60;

/// The first version whose maps have the keys that nodes were admitted with.
const WITH_KEYS: u8 = 18;

/// The first version whose maps know hosts, and which of them may use a volume.
const WITH_HOSTS: u8 = 19;

/// The first version whose clones can be flattened.
const WITH_FLATTENING: u8 = 22;

/// The first version whose volumes can have snapshots.
const WITH_SNAPSHOTS: u8 = 21;

/// The first version whose snapshots can be imported.
const WITH_IMPORTS: u8 = 22;

/// The first version whose policies have the length of logical blocks.
pub(super) const WITH_BLOCKS: u8 = 23;

/// The first version whose volumes count resets.
const WITH_RESETS: u8 = 23;

/// The first version whose maps say which snapshots were scheduled.
pub(super) const WITH_SCHEDULES: u8 = 22;

/// The first version whose volumes know which registrants were removed, and can be held by a session.
const WITH_REMOVALS: u8 = 25;

/// The first version whose hosts can have CHAP secrets and can reserve volumes.
const WITH_SECRETS: u8 = 20;

/// In maps of before no host is known.
impl Wire for ClusterMap {
    fn put(&self, w: &mut Writer) {
        self.epoch.put(w);
        self.nodes.put(w);
        self.volumes.put(w);
        self.next_volume.put(w);
        self.room_used.put(w);
        self.rebalancing.put(w);
        self.attendance.put(w);
        self.settings.put(w);
        self.hosts.put(w);
    }
    fn take(r: &mut Reader<'_>) -> Read<Self> {
        let map = ClusterMap {
            epoch: Wire::take(r)?,
            nodes: Wire::take(r)?,
            volumes: Wire::take(r)?,
            next_volume: Wire::take(r)?,
            room_used: Wire::take(r)?,
            rebalancing: Wire::take(r)?,
            attendance: Wire::take(r)?,
            settings: Wire::take(r)?,
            hosts: match r.version < WITH_HOSTS {
                true => BTreeMap::new(),
                false => Wire::take(r)?,
            },
        };
        at_most("the number of nodes", map.nodes.len() as u64, MAX_NODES as u64)?;
        at_most("the number of hosts", map.hosts.len() as u64, MOST_HOSTS as u64)?;
        Ok(map)
    }
}

/// In maps of before no host has a secret. What stands before its certificates was a flag, whether it has one, and is
/// their number.
impl Wire for KnownHost {
    fn put(&self, w: &mut Writer) {
        (self.certificates.len() as u8).put(w);
        self.certificates.iter().for_each(|certificate| certificate.put(w));
        self.secret.put(w);
    }
    fn take(r: &mut Reader<'_>) -> Read<Self> {
        let count = u8::take(r)?;
        at_most("the certificates of a host", count.into(), MOST_CERTIFICATES as u64)?;
        let certificates = (0..count).map(|_| Wire::take(r)).collect::<Read<_>>()?;
        let secret = if r.version < WITH_SECRETS { None } else { Wire::take(r)? };
        Ok(KnownHost { certificates, secret })
    }
}

wire_struct!(SealedSecret { key, mutual, bytes } check check_sealed);
wire_struct!(Certificate { key, until });
wire_enum!(Access, "right of a host" { 1 = ReadOnly, 2 = Full });

/// In maps of before no disk was expected to fail.
impl Wire for NodeInfo {
    fn put(&self, w: &mut Writer) {
        self.up.put(w);
        self.given_up.put(w);
        self.disk.put(w);
        self.sectors.put(w);
        self.reached.put(w);
        self.draining.put(w);
        self.kind.put(w);
        self.removed.put(w);
        self.home.put(w);
        self.process.put(w);
        self.suspect.put(w);
    }
    fn take(r: &mut Reader<'_>) -> Read<Self> {
        Ok(NodeInfo {
            up: Wire::take(r)?,
            given_up: Wire::take(r)?,
            disk: Wire::take(r)?,
            sectors: Wire::take(r)?,
            reached: Wire::take(r)?,
            draining: Wire::take(r)?,
            kind: Wire::take(r)?,
            removed: Wire::take(r)?,
            home: Wire::take(r)?,
            process: Wire::take(r)?,
            suspect: Wire::take(r)?,
        })
    }
}

// The first two were a flag: whether it is a host.
wire_enum!(NodeKind, "kind of node" { 0 = Disk, 1 = Host, 2 = Controller });

wire_struct!(Settings { give_up_after, rebuild_floor, rebuild_ceiling });

wire_struct!(Deletion { since });

/// In maps of before no keys are known.
impl Wire for Home {
    fn put(&self, w: &mut Writer) {
        self.name.put(w);
        self.address.put(w);
        self.labels.put(w);
        self.key.put(w);
    }
    fn take(r: &mut Reader<'_>) -> Read<Self> {
        Ok(Home {
            name: Wire::take(r)?,
            address: Wire::take(r)?,
            labels: Wire::take(r)?,
            key: if r.version < WITH_KEYS { None } else { Wire::take(r)? },
        })
    }
}

wire_struct!(Attendance { away, stale_since, counts_from, forgot, times_away });

wire_struct!(TimeAway { from, until });

wire_struct!(Extent { first, columns, filling, leaving });

wire_struct!(PolicyRange { first, end, redundancy });

impl Wire for Volume {
    fn put(&self, w: &mut Writer) {
        self.id.put(w);
        self.name.put(w);
        self.size.put(w);
        self.layout.put(w);
        self.geometry.put(w);
        self.policy.put(w);
        self.extents.put(w);
        self.apart.put(w);
        self.visible.put(w);
        self.unordered_sharing.put(w);
        self.deletion.put(w);
        self.ranges.put(w);
        self.hosts.put(w);
        self.reservations.put(w);
        self.lineage.put(w);
        self.import.put(w);
    }

    fn take(r: &mut Reader<'_>) -> Read<Self> {
        let volume = Volume {
            id: Wire::take(r)?,
            name: Wire::take(r)?,
            size: Wire::take(r)?,
            layout: Wire::take(r)?,
            geometry: Wire::take(r)?,
            policy: Wire::take(r)?,
            extents: Wire::take(r)?,
            apart: Wire::take(r)?,
            visible: Wire::take(r)?,
            unordered_sharing: Wire::take(r)?,
            deletion: Wire::take(r)?,
            ranges: Wire::take(r)?,
            hosts: match r.version < WITH_HOSTS {
                true => None,
                false => Wire::take(r)?,
            },
            reservations: match r.version < WITH_SECRETS {
                true => Reservations::default(),
                false => Wire::take(r)?,
            },
            lineage: match r.version < WITH_SNAPSHOTS {
                true => Lineage::default(),
                false => Wire::take(r)?,
            },
            import: match r.version < WITH_IMPORTS {
                true => None,
                false => Wire::take(r)?,
            },
        };
        check_hosts(volume.hosts.as_ref())?;
        check_volume(&volume)?;
        Ok(volume)
    }
}

wire_struct!(Source { cluster, snapshot });
wire_struct!(Import { name, into, snapshot, taken, source, done });

/// In maps of before all snapshots were taken by operators, and none was imported.
impl Wire for Snapshot {
    fn put(&self, w: &mut Writer) {
        self.of.put(w);
        self.taken.put(w);
        self.source.put(w);
        self.scheduled.put(w);
    }
    fn take(r: &mut Reader<'_>) -> Read<Self> {
        Ok(Snapshot {
            of: Wire::take(r)?,
            taken: Wire::take(r)?,
            source: if r.version < WITH_IMPORTS { None } else { Wire::take(r)? },
            scheduled: if r.version < WITH_SCHEDULES { None } else { Wire::take(r)? },
        })
    }
}

impl Wire for Lineage {
    fn put(&self, w: &mut Writer) {
        self.below.put(w);
        self.snapshot.put(w);
        self.flattens.put(w);
    }

    fn take(r: &mut Reader<'_>) -> Read<Self> {
        let (below, snapshot) = (Wire::take(r)?, Wire::take(r)?);
        let flattens = if r.version < WITH_FLATTENING { false } else { Wire::take(r)? };
        Ok(Lineage { below, snapshot, flattens })
    }
}

/// In maps of before nothing was reset or held, and nobody removed.
impl Wire for Reservations {
    fn put(&self, w: &mut Writer) {
        self.version.put(w);
        self.generation.put(w);
        self.registered.put(w);
        self.reservation.put(w);
        self.outcomes.put(w);
        self.resets.put(w);
        self.removed.put(w);
        self.hold.put(w);
    }
    fn take(r: &mut Reader<'_>) -> Read<Self> {
        let (version, generation) = (Wire::take(r)?, Wire::take(r)?);
        let registered: BTreeMap<Registrant, u64> = Wire::take(r)?;
        at_most("the registrants of a volume", registered.len() as u64, MOST_REGISTRANTS as u64)?;
        let (reservation, outcomes) = (Wire::take(r)?, Wire::take(r)?);
        let resets = if r.version < WITH_RESETS { 0 } else { Wire::take(r)? };
        let (removed, hold) = match r.version < WITH_REMOVALS {
            true => (Vec::new(), None),
            false => (Wire::take(r)?, Wire::take(r)?),
        };
        at_most("a volume's removed registrants", removed.len() as u64, MOST_REMOVED as u64)?;
        let all = Reservations {
            version,
            generation,
            registered,
            reservation,
            outcomes,
            ..Reservations::default()
        };
        Ok(Reservations { resets, removed, hold, ..all })
    }
}
wire_struct!(Hold { who, stamp });
wire_struct!(Removal { who, version });
wire_struct!(Reservation { kind, holder });
wire_struct!(Registrant { host, port } check |r: &Registrant| {
    at_most("the length of a registrant's name", r.host.len() as u64, LONGEST_REGISTRANT as u64)
});
wire_enum!(ReservationOutcome, "outcome of a reservation" {
    1 = Done,
    2 = Conflict,
    3 = WrongRelease,
    4 = NoKey,
    5 = Full,
});
wire_enum!(ReservationKind, "kind of a reservation" {
    1 = WriteExclusive,
    2 = ExclusiveAccess,
    3 = WriteExclusiveRegistrants,
    4 = ExclusiveAccessRegistrants,
    5 = WriteExclusiveAllRegistrants,
    6 = ExclusiveAccessAllRegistrants,
});

/// Ranges lie in order in the volume, and are not too many.
fn check_ranges(volume: &Volume) -> Read<()> {
    at_most("the ranges of a volume", volume.ranges.len() as u64, MOST_RANGES as u64)?;
    let mut from = 0;
    for range in &volume.ranges {
        if range.first < from || range.end <= range.first || range.end > volume.stripes() {
            return Err(BytesError::Bounds { what: "a range's first stripe", value: range.first });
        }
        from = range.end;
    }
    Ok(())
}

/// A list of hosts is no longer than there can be hosts.
fn check_hosts(list: Option<&HostList>) -> Read<()> {
    at_most("the hosts of a volume", list.map_or(0, |l| l.len() as u64), MOST_HOSTS as u64)
}

/// A sealed secret is no longer than there can be.
fn check_sealed(secret: &SealedSecret) -> Read<()> {
    at_most("the bytes of a sealed secret", secret.bytes.len() as u64, LONGEST_SEALED as u64)
}

/// What the core relies on when it looks something up in a stripe map.
fn check_volume(volume: &Volume) -> Read<()> {
    let bounds = |what, value| Err(BytesError::Bounds { what, value });
    at_most("a volume's size", volume.size, MAX_VOLUME)?;
    check_ranges(volume)?;
    let mut from = 0;
    for (n, extent) in volume.extents.iter().enumerate() {
        // The first begins at stripe 0, and each has at least one.
        if extent.first >= volume.stripes() || (extent.first > from) != (n > 0) {
            return bounds("the first stripe of an extent", extent.first);
        }
        from = extent.first;
    }
    if volume.extents.is_empty() && volume.size > 0 {
        return bounds("the number of extents", 0);
    }
    let width = volume.geometry.layout.width();
    for extent in &volume.extents {
        if extent.columns.len() != width {
            return bounds("the number of columns of an extent", extent.columns.len() as u64);
        }
        if let Some(column) =
            extent.filling.keys().chain(extent.leaving.keys()).find(|c| **c >= width)
        {
            return bounds("a column that is being filled", *column as u64);
        }
    }
    Ok(())
}

/// Layout and stripe unit; the code follows from them.
impl Wire for Geometry {
    fn put(&self, w: &mut Writer) {
        self.layout.put(w);
        self.unit.put(w);
    }
    fn take(r: &mut Reader<'_>) -> Read<Self> {
        let layout = Layout::take(r)?;
        let unit = u64::take(r)?;
        if unit == 0 || unit > MAX_UNIT || !unit.is_multiple_of(SECTOR) {
            return Err(BytesError::Bounds { what: "a stripe unit", value: unit });
        }
        Ok(Geometry::new(layout, unit))
    }
}

/// Data columns, parity columns, and a tag: of a rotation, or of another family, with what else that has.
impl Wire for Layout {
    fn put(&self, w: &mut Writer) {
        match self {
            Layout::Rotating(Rotating { data, parity, placement }) => {
                data.put(w);
                parity.put(w);
                rotation_tag(*placement).put(w);
            }
            Layout::Local(Local { data, groups, globals }) => {
                data.put(w);
                (groups + globals).put(w);
                LOCAL.put(w);
                groups.put(w);
            }
            Layout::Grid(grid) => {
                grid.data().put(w);
                grid.parity().put(w);
                GRID.put(w);
                grid.rows.put(w);
            }
            Layout::DrNet => {
                self.data_columns().put(w);
                (self.seats() - self.data_columns()).put(w);
                DRNET.put(w);
            }
        }
    }
    fn take(r: &mut Reader<'_>) -> Read<Self> {
        let max = Code::MAX_COLUMNS as u64;
        let (data, parity) = (usize::take(r)?, usize::take(r)?);
        at_most("the number of parity columns", parity as u64, max)?;
        at_most("the number of data columns", data as u64, max - parity as u64)?;
        let layout = match u8::take(r)? {
            LOCAL => {
                let groups = usize::take(r)?;
                at_most("the number of groups", groups as u64, parity as u64)?;
                Layout::Local(Local { data, groups, globals: parity - groups })
            }
            GRID => {
                let rows = usize::take(r)?;
                at_most("the number of rows", rows as u64, data as u64)?;
                let grid = Grid { rows, across: data.checked_div(rows).unwrap_or(0) };
                if grid.data() != data || grid.parity() != parity {
                    return Err(BytesError::Bounds {
                        what: "the number of rows",
                        value: rows as u64,
                    });
                }
                Layout::Grid(grid)
            }
            DRNET => {
                let units = data + parity;
                if data != Layout::DrNet.data_columns() || units != Layout::DrNet.seats() {
                    return Err(BytesError::Bounds {
                        what: "the number of data columns",
                        value: data as u64,
                    });
                }
                Layout::DrNet
            }
            tag => {
                let found = ROTATIONS.iter().find(|r| r.0 == tag);
                let placement =
                    found.ok_or(BytesError::Unknown { what: "placement", value: tag })?.1;
                Layout::Rotating(Rotating { data, parity, placement })
            }
        };
        let bad = |_| BytesError::Bounds { what: "the number of data columns", value: data as u64 };
        layout.code().map(|_| layout).map_err(bad)
    }
}

const ROTATIONS: [(u8, Placement); 5] = [
    (1, Placement::Fixed),
    (2, Placement::LeftSymmetric),
    (3, Placement::LeftAsymmetric),
    (4, Placement::RightSymmetric),
    (5, Placement::RightAsymmetric),
];

/// The tag of a local reconstruction code.
const LOCAL: u8 = 6;
/// The tag of a grid.
const GRID: u8 = 7;
/// The tag of DR-net's two groups.
const DRNET: u8 = 8;

fn rotation_tag(placement: Placement) -> u8 {
    ROTATIONS.iter().find(|r| r.1 == placement).expect("all have one").0
}

wire_enum!(MapMessage, "message of the authority" {
    1 = Freeze { epoch },
    2 = Enter { map, floor },
});

wire_struct!(Memory { found, reached, began, forgot });
wire_struct!(Undescribed { exposed, refreshing, copied });

wire_enum!(MemberReport, "report of a member" {
    1 = Frozen { epoch, oldest, clock, written, busy, memory, heard, undescribed },
    2 = CaughtUp { epoch, volumes },
    3 = Wake { epoch },
    4 = Merged { epoch, merged, flattened },
    5 = ParityDone { epoch, volumes },
});

#[cfg(test)]
mod tests;
