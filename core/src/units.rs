//! The small words that everything else is written in: sectors, nodes, volumes, columns,
//! time and timestamps.

use std::fmt;

pub use weft_code::ColumnSet;

/// Bytes in a sector: the unit of checksum and of atomic disk transfer.
pub const SECTOR: u64 = 4096;

/// Logical sectors of an address space on a disk. Space 0 is divided among the volumes whose room is reserved. Every thin
/// volume, and every volume with snapshots, has a space of its own; [`thin_space`] numbers them, each once.
pub const SPACE_SECTORS: u64 = 1 << 40;

/// The first logical sector of the address space that is named after a volume's number. A volume goes on in another one
/// when a snapshot of it is taken.
pub fn thin_space(volume: VolumeId) -> u64 {
    (u64::from(volume.0) + 1) * SPACE_SECTORS
}

/// The last number of a thin volume: with larger ones the number of a sector would not fit.
pub const LAST_THIN: VolumeId = VolumeId((u64::MAX / SPACE_SECTORS - 2) as u32);

/// [`SECTOR`] as a `usize`, for slicing.
pub const SECTOR_BYTES: usize = SECTOR as usize;

/// Nanoseconds since some fixed instant (the Unix epoch in the real world, 0 in a simulation).
pub type Nanos = u64;

/// One millisecond in [`Nanos`].
pub const MILLIS: Nanos = 1_000_000;

/// The number of the cluster map in force.
pub type Epoch = u64;

/// A node, and the disk that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u16);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0)
    }
}

/// A volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeId(pub u32);

/// The most originators whose timestamps stay distinct.
pub const MAX_NODES: usize = 1 << ORIGINATOR_BITS;
const ORIGINATOR_BITS: u32 = 12;

/// A transaction's place in the serial order, and its name: a clock reading in microseconds
/// with the originator's number in the low bits, so that no two originators ever issue the
/// same one (shared storage, 4.5.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Before every other.
    pub const ZERO: Timestamp = Timestamp(0);

    /// The latest time that clocks are taken to show, in microseconds: some days before the last that has
    /// a timestamp. What is issued after it is counted on by ones, which lasts.
    pub const LAST_READING: u64 = (1 << (u64::BITS - ORIGINATOR_BITS)) - (1 << 40);

    /// The timestamp of a clock that shows `now`, in nanoseconds.
    pub fn reading(now: Nanos, originator: NodeId) -> Self {
        Timestamp::new((now / 1000).min(Self::LAST_READING), originator)
    }

    /// The timestamp of `originator` at `micros`.
    pub fn new(micros: u64, originator: NodeId) -> Self {
        assert!((originator.0 as usize) < MAX_NODES, "{originator:?} has no timestamps");
        assert!(
            micros >> (u64::BITS - ORIGINATOR_BITS) == 0,
            "no timestamp is as late as {micros}"
        );
        Timestamp(micros << ORIGINATOR_BITS | u64::from(originator.0))
    }

    /// The timestamp of the same originator this much later.
    pub fn later(self, by: Nanos) -> Self {
        Timestamp(self.0.saturating_add((by / 1000) << ORIGINATOR_BITS))
    }

    /// The clock reading, in microseconds.
    pub fn micros(self) -> u64 {
        self.0 >> ORIGINATOR_BITS
    }

    /// The node that issued it.
    pub fn originator(self) -> NodeId {
        NodeId((self.0 & ((1 << ORIGINATOR_BITS) - 1)) as u16)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.micros(), self.originator().0)
    }
}

/// Bytes `offset..offset + len` of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Range {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

impl Range {
    /// One past the last byte.
    pub fn end(self) -> u64 {
        self.offset + self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_order_by_time_then_originator() {
        let last = Timestamp::reading(Nanos::MAX, NodeId(1));
        assert_eq!((last.micros(), last.originator()), (Timestamp::LAST_READING, NodeId(1)));
        let a = Timestamp::new(5, NodeId(9));
        let b = Timestamp::new(6, NodeId(1));
        assert!(a < b);
        assert_eq!((a.micros(), a.originator()), (5, NodeId(9)));
        assert_ne!(Timestamp::new(5, NodeId(1)), Timestamp::new(5, NodeId(2)));
    }

    #[test]
    fn column_sets() {
        let set: ColumnSet = [1, 4].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [1, 4]);
        assert_eq!(ColumnSet::first(5).minus(set).iter().collect::<Vec<_>>(), [0, 2, 3]);
        assert_eq!(ColumnSet::first(32).len(), 32);
    }
}
