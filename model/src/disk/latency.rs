//! Latencies of flash memory, drawn from distributions that are given by quantiles.

use weft_core::units::Nanos;

use super::nanos;
use crate::spec::{Flash, LatencyPoint};

/// The latencies of a device's channels, and the generator that they are drawn from.
pub(super) struct Latencies<'a> {
    pub spec: &'a Flash,
    pub chance: &'a mut fastrand::Rng,
}

impl Latencies<'_> {
    pub fn read(&mut self) -> Nanos {
        draw(&self.spec.read_latency, self.chance)
    }

    pub fn program(&mut self) -> Nanos {
        draw(&self.spec.write_latency, self.chance)
    }
}

/// Draws from a distribution given by quantiles.
pub(super) fn draw(points: &[LatencyPoint], chance: &mut fastrand::Rng) -> Nanos {
    if let [only] = points {
        return nanos(only.ms);
    }
    let quantile = chance.f64();
    let above = points.partition_point(|p| p.quantile <= quantile).clamp(1, points.len() - 1);
    let (a, b) = (&points[above - 1], &points[above]);
    nanos(a.ms + (b.ms - a.ms) * (quantile - a.quantile) / (b.quantile - a.quantile))
}
