//! What parity that waits exposes, of a volume and of its ranges.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What parity that waits exposes of a volume: on the disk of a node, or on all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExposedStatus {
    /// The volume's number.
    pub volume: u32,
    /// The first byte of the range, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// Units of parity that are out of date, at least in part.
    pub stripes: u64,
    /// Bytes of data that only they would protect.
    pub bytes: u64,
    /// The mean of that so far.
    pub mean_bytes: u64,
    /// The most of that so far.
    pub most_bytes: u64,
    /// Bytes that are lost for good.
    pub lost_bytes: u64,
    /// For how long the oldest has waited.
    pub oldest_seconds: f64,
    /// The share of time in which something waited, 0 to 1.
    pub unprotected_share: f64,
    /// The same, at most: of several disks the sum, up to 1.
    pub unprotected_share_most: f64,
    /// Hours until disks lose data, on average, if all goes on as so far; of a volume or range.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mttdl_hours: Option<f64>,
    /// Bytes an hour that they lose, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mdlr_bytes_per_hour: Option<f64>,
}

impl ExposedStatus {
    /// What several disks expose together. Of parities that wait on several disks for the same data each counts. The share
    /// of time is at least that of the disk on which it is largest.
    pub fn with(self, other: ExposedStatus) -> ExposedStatus {
        ExposedStatus {
            volume: self.volume,
            offset: self.offset,
            stripes: self.stripes + other.stripes,
            bytes: self.bytes + other.bytes,
            mean_bytes: self.mean_bytes + other.mean_bytes,
            most_bytes: self.most_bytes + other.most_bytes,
            lost_bytes: self.lost_bytes + other.lost_bytes,
            oldest_seconds: self.oldest_seconds.max(other.oldest_seconds),
            unprotected_share: self.unprotected_share.max(other.unprotected_share),
            unprotected_share_most: (self.unprotected_share_most + other.unprotected_share_most)
                .min(1.0),
            mttdl_hours: None,
            mdlr_bytes_per_hour: None,
        }
    }
}

/// A range of a volume that has a redundancy of its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RangeStatus {
    /// Its first byte.
    pub offset: u64,
    /// How many it has.
    pub length: u64,
    /// What parity that waits exposes of it, as of a volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exposed: Option<ExposedStatus>,
    /// What it chooses, by the names that a volume's choices have, in words.
    #[serde(flatten)]
    pub policy: BTreeMap<String, String>,
}
