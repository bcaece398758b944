//! What a driver is told of its disk: features and the configuration space of virtio-blk.

use virtio_bindings::virtio_blk::{
    VIRTIO_BLK_F_BLK_SIZE, VIRTIO_BLK_F_DISCARD, VIRTIO_BLK_F_FLUSH, VIRTIO_BLK_F_MQ,
    VIRTIO_BLK_F_RO, VIRTIO_BLK_F_SEG_MAX, VIRTIO_BLK_F_SIZE_MAX, VIRTIO_BLK_F_TOPOLOGY,
    VIRTIO_BLK_F_WRITE_ZEROES,
};
use virtio_bindings::virtio_config::VIRTIO_F_VERSION_1;
use virtio_bindings::virtio_ring::{VIRTIO_RING_F_EVENT_IDX, VIRTIO_RING_F_INDIRECT_DESC};
use weft_core::cluster::{Access, Volume};

/// The unit of virtio-blk, whatever the block size.
pub(super) const SECTOR: u64 = 512;

/// Queues that a driver can have.
pub(super) const MOST_QUEUES: usize = 16;

/// Entries that a queue can have.
pub(super) const MOST_ENTRIES: u16 = 1024;

/// Segments of a request, and the length of each. With header and status a request fits in a queue of 128.
pub(super) const SEGMENTS: u32 = 126;
const SEGMENT: u32 = 256 << 10;

/// The longest read or write: a little more than what segments allow.
pub(super) const LONGEST: u64 = 32 << 20;
const _: () = assert!(SEGMENTS as u64 * SEGMENT as u64 <= LONGEST);

/// The longest discard, in sectors: 1 GiB.
pub(super) const MOST_SECTORS: u32 = 1 << 21;

/// The feature bit for features of the protocol.
pub(super) const PROTOCOL_FEATURES: u64 = 1 << 30;

/// Bytes of the configuration space that a front end may read; those behind the fields are zeros.
const SPACE: usize = 256;

/// Whether a driver has chosen a feature.
pub(super) fn has(features: u64, bit: u32) -> bool {
    features >> bit & 1 == 1
}

/// Features that a driver can choose.
pub(super) fn features(access: Access) -> u64 {
    let always = [
        VIRTIO_F_VERSION_1,
        VIRTIO_RING_F_EVENT_IDX,
        VIRTIO_RING_F_INDIRECT_DESC,
        VIRTIO_BLK_F_SIZE_MAX,
        VIRTIO_BLK_F_SEG_MAX,
        VIRTIO_BLK_F_BLK_SIZE,
        VIRTIO_BLK_F_TOPOLOGY,
        VIRTIO_BLK_F_FLUSH,
        VIRTIO_BLK_F_MQ,
    ];
    let more: &[u32] = match access {
        Access::Full => &[VIRTIO_BLK_F_DISCARD, VIRTIO_BLK_F_WRITE_ZEROES],
        Access::ReadOnly => &[VIRTIO_BLK_F_RO],
    };
    always.iter().chain(more).fold(PROTOCOL_FEATURES, |all, bit| all | 1 << bit)
}

/// The configuration space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Space([u8; SPACE]);

impl Space {
    /// That of a volume.
    pub(super) fn of(volume: &Volume) -> Space {
        let block = volume.policy.block.max(SECTOR);
        let physical = block.max(weft_core::SECTOR);
        let (unit, stripe) = (volume.geometry.unit, volume.geometry.stripe_bytes());
        let mut space = Space([0; SPACE]);
        space.put(0, &(volume.visible / SECTOR).to_le_bytes());
        space.put(8, &SEGMENT.to_le_bytes());
        space.put(12, &SEGMENTS.to_le_bytes());
        space.put(20, &(block as u32).to_le_bytes());
        space.put(24, &[(physical / block).trailing_zeros() as u8]);
        space.put(26, &u16::try_from(physical / block).unwrap_or(1).to_le_bytes());
        let best = if stripe <= LONGEST { stripe } else { unit.min(LONGEST) };
        space.put(28, &((best / block) as u32).to_le_bytes());
        space.put(34, &(MOST_QUEUES as u16).to_le_bytes());
        // One range in each discard, at blocks.
        space.put(36, &MOST_SECTORS.to_le_bytes());
        space.put(40, &1_u32.to_le_bytes());
        space.put(44, &((block / SECTOR) as u32).to_le_bytes());
        space.put(48, &MOST_SECTORS.to_le_bytes());
        space.put(52, &1_u32.to_le_bytes());
        space.put(56, &[1]);
        space
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Some of its bytes, if it has them.
    pub(super) fn get(&self, offset: u32, size: u32) -> Option<&[u8]> {
        let end = offset.checked_add(size)?;
        self.0.get(offset as usize..end as usize)
    }
}

impl Default for Space {
    fn default() -> Space {
        Space([0; SPACE])
    }
}
