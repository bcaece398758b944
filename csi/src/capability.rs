//! What a volume is wanted for: as a block device or a file system, by how many nodes.

use tonic::Status;

use crate::proto::volume_capability::AccessType;
use crate::proto::volume_capability::access_mode::Mode;
use crate::proto::{CapacityRange, VolumeCapability};

/// File systems that can be made.
pub const FILE_SYSTEMS: [&str; 2] = ["ext4", "xfs"];

/// Sizes are multiples of this, which is the unit of checksums and of most file systems.
const GRAIN: u64 = 4096;

/// The size of a volume for which none is asked.
const USUAL: u64 = 1 << 30;

/// What a volume is wanted for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The file system, or none for a block device. It may be empty: then any will do.
    pub file_system: Option<String>,
    /// Options to mount it with.
    pub options: Vec<String>,
    /// Whether several nodes may have it at a time.
    pub is_shared: bool,
    /// Whether it may be published once only.
    pub is_single: bool,
    /// Whether nobody writes.
    pub reads_only: bool,
}

impl Wanted {
    /// Reads a capability.
    ///
    /// # Errors
    /// `InvalidArgument`, if something is missing or cannot be done.
    pub fn read(asked: Option<&VolumeCapability>) -> Result<Wanted, Status> {
        let asked = asked.ok_or_else(|| invalid("the volume capability is missing"))?;
        let mode = asked.access_mode.as_ref().map_or(Mode::Unknown, |mode| mode.mode());
        let (file_system, options) = match &asked.access_type {
            None => return Err(invalid("the access type is missing: block or mount")),
            Some(AccessType::Block(_)) => (None, Vec::new()),
            Some(AccessType::Mount(mount)) => {
                (Some(mount.fs_type.clone()), mount.mount_flags.clone())
            }
        };
        let (is_shared, reads_only) = match mode {
            Mode::Unknown => return Err(invalid("the access mode is missing")),
            Mode::SingleNodeWriter | Mode::SingleNodeSingleWriter | Mode::SingleNodeMultiWriter => {
                (false, false)
            }
            Mode::SingleNodeReaderOnly => (false, true),
            Mode::MultiNodeReaderOnly => (true, true),
            Mode::MultiNodeSingleWriter | Mode::MultiNodeMultiWriter => (true, false),
        };
        if is_shared && !reads_only && file_system.is_some() {
            return Err(invalid(format!(
                "{} is for block volumes: a file system that two nodes write is destroyed",
                mode.as_str_name()
            )));
        }
        match file_system.as_deref() {
            None | Some("") => {}
            Some(other) if FILE_SYSTEMS.contains(&other) => {}
            Some(other) => {
                return Err(invalid(format!(
                    "file system '{other}' is not supported; use {}",
                    FILE_SYSTEMS.join(" or ")
                )));
            }
        }
        let is_single = mode == Mode::SingleNodeSingleWriter;
        Ok(Wanted { file_system, options, is_shared, is_single, reads_only })
    }

    /// Reads all that is asked.
    ///
    /// # Errors
    /// `InvalidArgument`, if there is nothing, or one cannot be done.
    pub fn read_all(asked: &[VolumeCapability]) -> Result<Vec<Wanted>, Status> {
        match asked {
            [] => Err(invalid("the volume capabilities are missing")),
            all => all.iter().map(|one| Wanted::read(Some(one))).collect(),
        }
    }
}

/// How large a volume may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The size to make it.
    pub wanted: u64,
    /// The largest.
    pub most: u64,
}

impl Sizes {
    /// Reads a range of sizes; a copy is at least as large as its source.
    ///
    /// # Errors
    /// `OutOfRange`, if no size fits.
    pub fn read(asked: Option<&CapacityRange>, of_copy: Option<u64>) -> Result<Sizes, Status> {
        let bytes = |n: i64| u64::try_from(n).map_err(|_| invalid("a size is negative"));
        let (least, most) = match asked {
            None => (0, 0),
            Some(range) => (bytes(range.required_bytes)?, bytes(range.limit_bytes)?),
        };
        let most = if most == 0 { i64::MAX as u64 } else { most };
        let wanted = match (least, of_copy) {
            (0, Some(size)) => size,
            (0, None) => USUAL.min(most / GRAIN * GRAIN),
            (least, _) => least.checked_next_multiple_of(GRAIN).unwrap_or(u64::MAX),
        };
        if of_copy.is_some_and(|size| wanted < size) {
            return Err(Status::out_of_range(format!(
                "the copy would be smaller than its source, {} bytes",
                of_copy.unwrap_or_default()
            )));
        }
        match wanted > 0 && wanted <= most {
            true => Ok(Sizes { wanted, most }),
            false => Err(Status::out_of_range(format!(
                "there is no multiple of {GRAIN} bytes between {least} and {most} bytes"
            ))),
        }
    }

    /// Whether a volume has one of these sizes.
    pub fn fits(self, size: u64) -> bool {
        (self.wanted..=self.most).contains(&size)
    }
}

fn invalid(why: impl Into<String>) -> Status {
    Status::invalid_argument(why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::volume_capability::{AccessMode, BlockVolume, MountVolume};

    fn asked(file_system: Option<&str>, mode: Mode) -> VolumeCapability {
        let access_type = match file_system {
            None => AccessType::Block(BlockVolume {}),
            Some(fs_type) => {
                AccessType::Mount(MountVolume { fs_type: fs_type.into(), ..Default::default() })
            }
        };
        VolumeCapability {
            access_type: Some(access_type),
            access_mode: Some(AccessMode { mode: mode.into() }),
        }
    }

    #[test]
    fn only_block_volumes_are_written_by_several_nodes() {
        for mode in [Mode::MultiNodeMultiWriter, Mode::MultiNodeSingleWriter] {
            let block = Wanted::read(Some(&asked(None, mode))).unwrap();
            assert!(block.is_shared && !block.reads_only);
            let refused = Wanted::read(Some(&asked(Some("ext4"), mode))).unwrap_err();
            assert!(refused.message().contains(mode.as_str_name()), "{refused}");
        }
        assert!(Wanted::read(Some(&asked(Some("xfs"), Mode::MultiNodeReaderOnly))).is_ok());
        assert!(Wanted::read(Some(&asked(Some("btrfs"), Mode::SingleNodeWriter))).is_err());
        assert!(Wanted::read(Some(&asked(Some(""), Mode::SingleNodeWriter))).is_ok());
        assert!(Wanted::read(Some(&asked(None, Mode::Unknown))).is_err());
        assert!(Wanted::read(None).is_err() && Wanted::read_all(&[]).is_err());
    }

    #[test]
    fn sizes_are_rounded_up_within_what_is_asked() {
        let range = |required_bytes, limit_bytes| CapacityRange { required_bytes, limit_bytes };
        let size = |range, copy| Sizes::read(Some(&range), copy).map(|sizes| sizes.wanted).ok();
        assert_eq!(Sizes::read(None, None).map(|sizes| sizes.wanted).ok(), Some(USUAL));
        assert_eq!(size(range(1, 0), None), Some(4096));
        assert_eq!(size(range(0, 10_000), None), Some(8192));
        assert_eq!(size(range(5000, 8191), None), None);
        assert_eq!(size(range(-1, 0), None), None);
        assert_eq!(size(range(0, 0), Some(512)), Some(512));
        assert_eq!(size(range(4096, 0), Some(8192)), None);
        assert_eq!(size(range(0, 4096), Some(8192)), None);
        assert_eq!(size(range(i64::MAX, 0), None), None);
    }
}
