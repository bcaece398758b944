//! Ranges of a scenario's volume in which parity waits by other rules than in the rest of it.

use serde::{Deserialize, Serialize};
use weft_core::cluster::{MOST_RANGES, PolicyChange, Volume};
use weft_core::policy::{Refresh, Setting, Timing};
use weft_core::units::{Nanos, Range};
use weft_load::workload::Problem;

use super::System;
use super::fit::within;
use crate::perf::by_word;

/// Whole stripes, and what they have for themselves; what is left out is as in the rest of the volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RangeSpec {
    /// The first byte.
    pub from_bytes: u64,
    /// The byte after the last.
    pub to_bytes: u64,
    /// When parity is computed.
    #[serde(default, with = "by_word::optional", skip_serializing_if = "Option::is_none")]
    pub timing: Option<Timing>,
    /// When parity that waits is computed.
    #[serde(default, with = "by_word::optional", skip_serializing_if = "Option::is_none")]
    pub refresh: Option<Refresh>,
    /// For how many milliseconds a disk must have been idle before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_ms: Option<f64>,
    /// Exposed stripes of the range from which on it is computed whatever the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exposed_stripes: Option<u64>,
    /// For how many seconds a stripe may be exposed before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exposed_s: Option<f64>,
}

impl RangeSpec {
    fn bytes(&self) -> Range {
        Range { offset: self.from_bytes, len: self.to_bytes.saturating_sub(self.from_bytes) }
    }

    /// What an operator would ask for to have it so.
    pub fn change(&self) -> PolicyChange {
        let nanos = |seconds: f64| (seconds * 1e9).round() as Nanos;
        let settings = [
            self.timing.map(Setting::Redundancy),
            self.refresh.map(Setting::Refresh),
            self.idle_ms.map(|ms| Setting::Idle(nanos(ms / 1e3))),
            self.exposed_stripes.map(Setting::ExposedStripes),
            self.exposed_s.map(|s| Setting::ExposedFor(nanos(s))),
        ];
        PolicyChange {
            range: Some(self.bytes()),
            ..PolicyChange::to(settings.into_iter().flatten())
        }
    }

    fn check(&self, volume: &Volume, before: &[RangeSpec]) -> Result<(), (&'static str, Problem)> {
        let checked = |key, value: Option<f64>| match value {
            Some(value) => within(&format!("volume.ranges.{key}"), value).map_err(|p| (key, p)),
            None => Ok(()),
        };
        checked("idle_ms", self.idle_ms)?;
        checked("exposed_stripes", self.exposed_stripes.map(|n| n as f64))?;
        checked("exposed_s", self.exposed_s)?;
        let refuse =
            |key, value: u64, expected: String| Err((key, Problem::new(key, value, expected)));
        let (stripe, size) = (volume.geometry.stripe_bytes(), volume.size);
        if volume.whole_stripes_of(self.bytes()).is_none() {
            let expected = format!(
                "a range is whole stripes of {stripe} bytes in a volume of {size}; give borders that are multiples of {stripe}"
            );
            let (key, value) = match self.from_bytes.is_multiple_of(stripe) {
                true => ("to_bytes", self.to_bytes),
                false => ("from_bytes", self.from_bytes),
            };
            return refuse(key, value, expected);
        }
        let meets = |other: &&RangeSpec| {
            other.from_bytes < self.to_bytes && self.from_bytes < other.to_bytes
        };
        match before.iter().find(meets) {
            Some(other) => refuse(
                "from_bytes",
                self.from_bytes,
                format!(
                    "another range has the bytes from {} to {}; give ranges that do not overlap",
                    other.from_bytes, other.to_bytes
                ),
            ),
            None => Ok(()),
        }
    }
}

impl System {
    /// Refuses ranges that are no whole stripes of the volume, or overlap. `volume` is without them.
    pub(super) fn check_ranges(&self, volume: &Volume) -> Result<(), Problem> {
        let ranges = &self.volume.ranges;
        if ranges.len() > MOST_RANGES {
            let expected = format!("give at most {MOST_RANGES}");
            return Err(Problem::new("volume.ranges", ranges.len(), expected));
        }
        for (n, range) in ranges.iter().enumerate() {
            range.check(volume, &ranges[..n]).map_err(|(key, problem)| Problem {
                key: format!("volume.ranges[{n}].{key}"),
                ..problem
            })?;
        }
        Ok(())
    }

    /// Gives a volume its ranges.
    pub(in crate::perf) fn with_ranges(&self, mut volume: Volume) -> Volume {
        self.volume.ranges.iter().for_each(|range| range.change().apply(&mut volume));
        volume
    }
}
