//! What the operations of a node's store are to a disk: the same for simulated disks and for real nodes
//! whose disks are emulated.

use weft_core::Buffer;
use weft_core::store::DiskOp;

use super::Access;

impl Access {
    /// The access that an operation is, on a disk with sectors of so many bytes, of which the node
    /// has what begins at byte `first`.
    pub fn of(op: &DiskOp, first: u64, sector_bytes: u64) -> Access {
        match op {
            DiskOp::Read { offset, len } => {
                Access::read((first + offset) / sector_bytes, len / sector_bytes)
            }
            DiskOp::Write { offset, data, .. } => {
                let len: u64 = data.iter().map(|piece: &Buffer| piece.len() as u64).sum();
                Access::write((first + offset) / sector_bytes, len / sector_bytes)
            }
            DiskOp::Discard { offset, len } => {
                Access::discard((first + offset) / sector_bytes, len / sector_bytes)
            }
            DiskOp::Flush => Access::flush(),
        }
    }
}

/// Whether an operation ends only when a flush after it has: a write that is to outlast a loss of power, on
/// a disk that has a cache.
pub fn is_flushed_after(op: &DiskOp) -> bool {
    matches!(op, DiskOp::Write { durable: true, .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_accesses_of_the_disks_sectors() {
        let data = vec![Buffer::Zero(4096), Buffer::Zero(512)];
        let write = DiskOp::Write { offset: 8192, data, durable: true };
        assert_eq!(Access::of(&write, 4096, 512), Access::write(24, 9));
        assert!(is_flushed_after(&write));
        let read = DiskOp::Read { offset: 4096, len: 8192 };
        assert_eq!(Access::of(&read, 0, 4096), Access::read(1, 2));
        assert!(!is_flushed_after(&read));
        let discard = DiskOp::Discard { offset: 0, len: 4096 };
        assert_eq!(Access::of(&discard, 8192, 512), Access::discard(16, 8));
        assert_eq!(Access::of(&DiskOp::Flush, 0, 512), Access::flush());
    }
}
