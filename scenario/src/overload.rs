//! Whether an array fell behind what its hosts offered. Then queues grow as long as hosts go on, and response times say how
//! long was measured, not what the array is like.

use serde::{Deserialize, Serialize};
use weft_load::workload::{Arrivals, Spacing};
use weft_sim::perf::System;

use crate::result::Measured;

/// The share of the offered requests that an array may miss: those under way at the end, and rounding.
const MISSED: f64 = 0.02;
/// Fewer standard deviations of the number of arrivals than this are no sign of an overload.
const DEVIATIONS: f64 = 3.0;

/// What hosts offer, whatever the array answers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Offered {
    /// Requests a second.
    pub requests_s: f64,
    /// The variance of the number of arrivals over its mean: 1 if they are independent, more if they come in bursts.
    dispersion: f64,
}

impl Offered {
    /// By the hosts of a system, if they do not wait for answers.
    pub(crate) fn of(system: &System) -> Option<Offered> {
        let Arrivals::Open { rate_per_s, spacing } = system.workload.arrivals else { return None };
        let dispersion = match spacing {
            Spacing::Bursts { requests, .. } => 2.0 * requests,
            Spacing::Poisson | Spacing::Fixed => 1.0,
        };
        Some(Offered { requests_s: rate_per_s, dispersion })
    }

    /// Whether clearly fewer requests were answered.
    pub(crate) fn exceeds(&self, measured: &Measured) -> bool {
        let chance = DEVIATIONS * (self.dispersion / measured.requests.max(1) as f64).sqrt();
        measured.requests_s.mean < self.requests_s * (1.0 - MISSED - chance)
    }
}
