//! Errors of a disk.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Errors of a disk since its process was started, a new disk came, or they were cleared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskErrors {
    /// Reads that failed.
    pub read: u64,
    /// Writes and flushes that failed.
    pub write: u64,
    /// Sectors, table pages, superblocks and journals that did not match their checksum.
    pub checksum: u64,
    /// Sectors that could not be read or did not match their checksum, and have been written again.
    pub mended_sectors: u64,
    /// Reads and writes that failed once and succeeded at the second try.
    pub passed: u64,
}

impl DiskErrors {
    /// Whether there were none.
    pub fn is_none(&self) -> bool {
        *self == DiskErrors::default()
    }

    /// This with another, number by number.
    fn with(self, other: DiskErrors, of: fn(u64, u64) -> u64) -> DiskErrors {
        DiskErrors {
            read: of(self.read, other.read),
            write: of(self.write, other.write),
            checksum: of(self.checksum, other.checksum),
            mended_sectors: of(self.mended_sectors, other.mended_sectors),
            passed: of(self.passed, other.passed),
        }
    }

    /// Both together.
    pub(crate) fn and(self, other: DiskErrors) -> DiskErrors {
        self.with(other, u64::saturating_add)
    }

    /// What has come since.
    pub(crate) fn since(self, earlier: DiskErrors) -> DiskErrors {
        self.with(earlier, u64::saturating_sub)
    }
}

impl fmt::Display for DiskErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} read, {} write and {} checksum errors; {} sectors repaired",
            self.read, self.write, self.checksum, self.mended_sectors
        )?;
        match self.passed {
            0 => Ok(()),
            1 => f.write_str("; 1 operation succeeded at the second attempt"),
            n => write!(f, "; {n} operations succeeded at the second attempt"),
        }
    }
}
