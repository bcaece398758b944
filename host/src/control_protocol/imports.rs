//! Imports, as requests name them.

use serde::{Deserialize, Serialize};
use weft_core::cluster::{Import, NoSource};
use weft_core::units::VolumeId;

/// A snapshot whose content is imported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImportOf {
    /// The name that it will have, without the volume's.
    pub snapshot: String,
    /// Seconds since 1970 when it was taken.
    pub taken: u64,
    /// The snapshot, as a [`weft_core::cluster::Source`].
    pub source: String,
}

impl ImportOf {
    /// The import into a volume of this name.
    pub(crate) fn into_volume(
        self,
        name: String,
        into: Option<VolumeId>,
    ) -> Result<Import, NoSource> {
        let source = self.source.parse()?;
        Ok(Import { name, into, snapshot: self.snapshot, taken: self.taken, source, done: 0 })
    }
}
