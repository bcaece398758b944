//! The request for a new volume.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ImportOf;

/// A volume to create. Fields left open take their defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeCreation {
    /// Its name.
    pub name: String,
    /// Its size in bytes; 0 takes all free space.
    pub size: u64,
    /// Whether it is thin: it takes space when it is written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub thin: bool,
    /// Its layout; RAID 5 if open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<String>,
    /// Its stripe unit; 64 KiB if open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stripe_unit: Option<u64>,
    /// The label of failure domains to keep its columns apart by; `box` if open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apart: Option<String>,
    /// What it chooses, by the keys of [`weft_core::policy::CHOICES`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, String>,
    /// The hosts that it serves; none but those that are allowed later, if it is empty. All, if it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<String>>,
    /// The snapshot whose content it is for: no host sees the volume until that is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub import: Option<ImportOf>,
}
