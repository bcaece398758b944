//! Imports, as requests name them.

use serde::{Deserialize, Serialize};
use weft_core::cluster::{Identity, Import, NoSource};
use weft_core::units::VolumeId;

use crate::error::{Error, Result, fail};

/// The last second of the year 9999: later times cannot be shown.
const LATEST: u64 = 253_402_300_799;

/// A snapshot whose content is imported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImportOf {
    /// The name that it will have, without the volume's.
    pub snapshot: String,
    /// Seconds since 1970 when it was taken.
    pub taken: u64,
    /// The snapshot, as a [`weft_core::cluster::Identity`].
    pub source: String,
    /// Its size in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

impl ImportOf {
    /// The import into a volume of this name.
    pub(crate) fn into_volume(self, name: String, into: Option<VolumeId>) -> Result<Import> {
        if self.taken > LATEST {
            return fail(format!(
                "the snapshot's time is invalid: {} seconds after 1970",
                self.taken
            ));
        }
        let identity: Identity = self.source.parse().map_err(|e: NoSource| Error(e.to_string()))?;
        let source = identity.source;
        Ok(Import { name, into, snapshot: self.snapshot, taken: self.taken, source, done: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_cannot_be_shown_is_refused() {
        let import = |taken: u64| {
            let source = format!("{:032x}-7", 5);
            ImportOf { snapshot: "s".into(), taken, source, size: None }
                .into_volume("a".into(), None)
        };
        assert_eq!(import(LATEST).unwrap().taken, LATEST);
        for taken in [LATEST + 1, 1 << 63, u64::MAX] {
            assert!(import(taken).unwrap_err().0.contains("time is invalid"));
        }
    }
}
