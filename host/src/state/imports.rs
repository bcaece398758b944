//! Imports in the file of an array's state.

use serde::{Deserialize, Serialize};
use weft_core::cluster::{Import, Source};
use weft_core::units::VolumeId;

use crate::error::{Error, Result};

/// What a hidden volume will be.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ImportEntry {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    into: Option<u32>,
    snapshot: String,
    taken: u64,
    source: String,
    #[serde(default)]
    done: u64,
}

/// Reads the identity of a snapshot.
pub(super) fn source(text: &str) -> Result<Source> {
    text.parse().map_err(|e| Error(format!("{e}")))
}

impl ImportEntry {
    pub(super) fn of(import: &Import) -> ImportEntry {
        ImportEntry {
            name: import.name.clone(),
            into: import.into.map(|id| id.0),
            snapshot: import.snapshot.clone(),
            taken: import.taken,
            source: import.source.to_string(),
            done: import.done,
        }
    }

    pub(super) fn import(self) -> Result<Import> {
        Ok(Import {
            name: self.name,
            into: self.into.map(VolumeId),
            snapshot: self.snapshot,
            taken: self.taken,
            source: source(&self.source)?,
            done: self.done,
        })
    }
}
