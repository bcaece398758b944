//! The encoding of the cluster map, and of what the authority and its members say. A new
//! field of the map is added to its list here and to the generator in `tests`.

use weft_code::Code;
use weft_core::cluster::{Attendance, ClusterMap, Extent, Home, NodeInfo, Volume};
use weft_core::layout::{Geometry, Layout, Placement};
use weft_core::node::{MapMessage, MemberReport, Memory};
use weft_core::order::Ordering;
use weft_core::order::sequencer::SequencerForm;
use weft_core::plan::{Commit, Dispatch, ParityAt, Policy, Strategy};
use weft_core::units::{MAX_NODES, SECTOR};

use super::WireError;
use super::code::{Reader, Wire, Writer, at_most, wire_enum, wire_struct};

/// The largest stripe unit and volume that are believed, so that sums of them do not overflow.
const MAX_UNIT: u64 = 1 << 32;
const MAX_VOLUME: u64 = 1 << 60;

wire_struct!(ClusterMap { epoch, nodes, volumes, next_volume, room_used, rebalancing, attendance } check |map: &ClusterMap| {
    at_most("the number of nodes", map.nodes.len() as u64, MAX_NODES as u64)
});

wire_struct!(NodeInfo {
    up,
    given_up,
    disk,
    sectors,
    reached,
    draining,
    is_host,
    removed,
    home,
    process
});

wire_struct!(Home { name, address, labels });

wire_struct!(Attendance { away, stale_since, counts_from, forgot });

wire_struct!(Extent { first, columns, filling, leaving });

wire_struct!(Volume {
    id, name, size, layout, geometry, policy, extents, apart, visible, unordered_sharing
} check check_volume);

/// What the core relies on when it looks something up in a stripe map.
fn check_volume(volume: &Volume) -> Result<(), WireError> {
    let bounds = |what, value| Err(WireError::Bounds { what, value });
    at_most("a volume's size", volume.size, MAX_VOLUME)?;
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
    fn take(r: &mut Reader<'_>) -> Result<Self, WireError> {
        let layout = Layout::take(r)?;
        let unit = u64::take(r)?;
        if unit == 0 || unit > MAX_UNIT || !unit.is_multiple_of(SECTOR) {
            return Err(WireError::Bounds { what: "a stripe unit", value: unit });
        }
        Ok(Geometry::new(layout, unit))
    }
}

wire_struct!(Layout { data, parity, placement } check |layout: &Layout| {
    let max = Code::MAX_COLUMNS as u64;
    at_most("the number of parity columns", layout.parity as u64, max)?;
    match layout.data as u64 {
        0 => Err(WireError::Bounds { what: "the number of data columns", value: 0 }),
        data => at_most("the number of data columns", data, max - layout.parity as u64),
    }
});

wire_enum!(Placement, "placement" {
    1 = Fixed,
    2 = LeftSymmetric,
    3 = LeftAsymmetric,
    4 = RightSymmetric,
    5 = RightAsymmetric,
});

wire_struct!(Policy {
    strategy,
    parity_at,
    dispatch,
    commit,
    ordering,
    sequencer,
    journal,
    lost_wait
});

wire_enum!(Strategy, "strategy" {
    1 = Full,
    2 = Small,
    3 = Large,
    4 = Rebuild,
});

wire_enum!(ParityAt, "place of parity" {
    1 = Originator,
    2 = Solely,
    3 = Parity,
});

wire_enum!(Dispatch, "kind of dispatch" {
    1 = Collaborative,
    2 = Commanded,
});

wire_enum!(Commit, "kind of commit" {
    1 = Late,
    2 = None,
    3 = Early,
    4 = Limited,
});

wire_enum!(Ordering, "ordering" {
    1 = None,
    2 = Sequencer,
    3 = LockServer,
    4 = CallbackLocks,
    5 = DeviceLocks,
    6 = Timestamps,
});

wire_enum!(SequencerForm, "form of a sequencer" {
    1 = Centralized,
    2 = PartiallyCentralized,
    3 = OriginatorDriven,
    4 = WorkerDriven,
});

wire_enum!(MapMessage, "message of the authority" {
    1 = Freeze { epoch },
    2 = Enter { map, floor },
});

wire_struct!(Memory { found, reached, began, forgot });

wire_enum!(MemberReport, "report of a member" {
    1 = Frozen { epoch, oldest, clock, written, busy, memory, heard },
    2 = CaughtUp { epoch },
    3 = Wake { epoch },
});
