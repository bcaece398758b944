//! The shape of a parameter file. What each field means, its unit, range and default are in
//! [`super::parameters`], and a test holds the two together.

#![expect(missing_docs, reason = "`parameters` says it of every field, to users too")]

use serde::Deserialize;

use super::collection::Collection;
use super::{Device, Mechanical, Spec, SpecError};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    name: String,
    #[serde(default)]
    about: String,
    geometry: Option<Geometry>,
    mechanics: Option<Mechanics>,
    controller: Option<Controller>,
    #[serde(default)]
    buffer: Option<Buffer>,
    fixed: Option<Fixed>,
    flash: Option<Flash>,
    #[serde(default)]
    bus: Bus,
}

impl File {
    pub(super) fn into_spec(self) -> Result<Spec, SpecError> {
        let bad = |key: &str, problem: &str| {
            Err(SpecError::Conflict { key: key.into(), problem: problem.into() })
        };
        let some_mechanism = self.geometry.is_some()
            || self.mechanics.is_some()
            || self.controller.is_some()
            || self.buffer.is_some();
        let device = match (self.fixed, self.flash) {
            (Some(_), Some(_)) => return bad("flash", "a device is [fixed] or [flash], not both"),
            (Some(_), None) if some_mechanism => {
                return bad("fixed", "a fixed device has no [geometry], [mechanics] and so on");
            }
            (None, Some(_)) if some_mechanism => {
                return bad("flash", "a flash device has no [geometry], [mechanics] and so on");
            }
            (Some(fixed), None) => Device::Fixed(fixed),
            (None, Some(flash)) => Device::Flash(flash),
            (None, None) => {
                let Some(geometry) = self.geometry else {
                    return bad("geometry", "missing; or give [fixed] or [flash] instead");
                };
                let Some(mechanics) = self.mechanics else {
                    return bad("mechanics", "missing");
                };
                let controller = self.controller.unwrap_or_default();
                let buffer = self.buffer.unwrap_or_default();
                Device::Mechanical(Box::new(Mechanical { geometry, mechanics, controller, buffer }))
            }
        };
        Ok(Spec { name: self.name, about: self.about, device, bus: self.bus })
    }
}

/// Where sectors are.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Geometry {
    pub sector_bytes: u32,
    pub cylinders: u32,
    pub heads: u32,
    pub zones: Vec<Zone>,
}

/// Neighbouring cylinders with equally many sectors to a track.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zone {
    pub first_cylinder: u32,
    pub last_cylinder: u32,
    pub sectors_per_track: u32,
    #[serde(default)]
    pub track_skew: u32,
    #[serde(default)]
    pub cylinder_skew: u32,
    #[serde(default)]
    pub first_sector_offset: u32,
    #[serde(default)]
    pub unused_tracks: u32,
    #[serde(default)]
    pub spare_tracks: u32,
    #[serde(default)]
    pub slipped_tracks: Vec<u32>,
}

/// How the arm and the platters move.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mechanics {
    pub rpm: f64,
    pub head_switch_ms: f64,
    #[serde(default)]
    pub write_settle_ms: f64,
    pub seek: Seek,
}

/// How long a seek takes: by a table for short distances, by formulas, or both.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seek {
    #[serde(default)]
    pub table: Vec<(u32, f64)>,
    #[serde(default)]
    pub pieces: Vec<SeekPiece>,
}

/// `constant + sqrt * sqrt(d) + linear * d` for distances up to `up_to`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeekPiece {
    pub up_to: Option<u32>,
    #[serde(default)]
    pub constant_ms: f64,
    #[serde(default)]
    pub sqrt_ms: f64,
    #[serde(default)]
    pub linear_ms: f64,
}

/// What the electronics cost.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Controller {
    pub read_miss_ms: f64,
    pub read_miss_after_write_ms: Option<f64>,
    pub read_hit_ms: f64,
    pub read_hit_after_write_ms: Option<f64>,
    pub write_ms: f64,
    pub write_after_write_ms: Option<f64>,
    pub write_data_delay_ms: f64,
    pub read_completion_ms: f64,
    pub write_completion_ms: f64,
    pub flush_ms: f64,
}

/// The track buffer.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Buffer {
    pub bytes: u64,
    pub read_ahead_bytes: u64,
    pub read_ahead_to: ReadAheadTo,
    pub write_keeps_reads: bool,
}

/// Where an idle disk that reads on stops, if its buffer does not stop it before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadAheadTo {
    /// At the end of the track.
    Track,
    /// At the end of the cylinder.
    Cylinder,
    /// At the end of the disk.
    #[default]
    Disk,
}

/// The bus to the host.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Bus {
    pub read_bytes_per_s: u64,
    pub write_bytes_per_s: u64,
    pub setup_ms: f64,
    pub reselect_ms: f64,
    pub piece_bytes: u64,
    pub read_watermark: f64,
    pub write_watermark: f64,
}

impl Default for Bus {
    /// A bus that takes no time.
    fn default() -> Self {
        Bus {
            read_bytes_per_s: 0,
            write_bytes_per_s: 0,
            setup_ms: 0.0,
            reselect_ms: 0.0,
            piece_bytes: 4096,
            read_watermark: 0.0,
            write_watermark: 0.0,
        }
    }
}

/// Every access takes the same time to position, then transfers at one rate.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fixed {
    pub capacity_bytes: u64,
    pub sector_bytes: u32,
    pub positioning_ms: f64,
    pub bytes_per_s: u64,
    #[serde(default)]
    pub flush_ms: f64,
}

/// Channels of flash memory.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flash {
    pub capacity_bytes: u64,
    pub sector_bytes: u32,
    pub channels: u32,
    pub unit_bytes: u64,
    pub read_latency: Vec<LatencyPoint>,
    pub write_latency: Vec<LatencyPoint>,
    pub flush_latency: Vec<LatencyPoint>,
    pub collection: Option<Collection>,
}

/// A point of a latency's distribution function.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatencyPoint {
    pub quantile: f64,
    pub ms: f64,
}
