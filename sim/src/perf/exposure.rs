//! What parity that waits exposes in one run: seen from outside, of all disks together.

use weft_core::units::Nanos;

/// What was exposed in one run, after its warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Exposure {
    /// The share of the time in which anything was exposed.
    pub unprotected_share: f64,
    /// Bytes of data in exposed stripes, on average: AFRAID's mean parity lag (3.2). A stripe that is exposed in part
    /// counts as a whole one.
    pub lag_bytes: f64,
    /// Most stripes at once.
    pub most_stripes: u64,
}

/// What is exposed on each disk, and was so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    stripes: Vec<u64>,
    all: u64,
    most: u64,
    since: Nanos,
    until: Nanos,
    unprotected: u128,
    stripe_time: u128,
}

impl Seen {
    pub fn new(disks: usize) -> Seen {
        Seen { stripes: vec![0; disks], ..Seen::default() }
    }

    /// A disk's parity exposes so many stripes from now on.
    pub fn is(&mut self, disk: usize, stripes: u64, now: Nanos) {
        let before = std::mem::replace(&mut self.stripes[disk], stripes);
        if before == stripes {
            return;
        }
        self.pass(now);
        self.all = self.all + stripes - before;
        self.most = self.most.max(self.all);
    }

    fn pass(&mut self, now: Nanos) {
        // A processor's outputs are seen when it begins with them.
        let span = u128::from(now.saturating_sub(self.until));
        self.until = self.until.max(now);
        self.unprotected += if self.all > 0 { span } else { 0 };
        self.stripe_time += span * u128::from(self.all);
    }

    /// Measuring begins.
    pub fn restart(&mut self, now: Nanos) {
        self.pass(now);
        (self.unprotected, self.stripe_time, self.most, self.since) = (0, 0, self.all, now);
    }

    /// What was seen until now, of stripes with so many bytes of data.
    pub fn until(&self, now: Nanos, stripe_bytes: u64) -> Exposure {
        let mut seen = self.clone();
        seen.pass(now);
        let time = now.saturating_sub(seen.since).max(1) as f64;
        Exposure {
            unprotected_share: seen.unprotected as f64 / time,
            lag_bytes: seen.stripe_time as f64 * stripe_bytes as f64 / time,
            most_stripes: seen.most,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_that_of_any_disk_and_the_lag_that_of_all() {
        let mut seen = Seen::new(2);
        seen.is(0, 1, 100);
        seen.restart(200);
        seen.is(1, 2, 300);
        seen.is(0, 0, 400);
        seen.is(1, 0, 600);
        let exposure = seen.until(1000, 10);
        assert_eq!(exposure.unprotected_share, 0.5);
        assert_eq!(exposure.lag_bytes, (100.0 + 300.0 + 400.0) * 10.0 / 800.0);
        assert_eq!(exposure.most_stripes, 3);
    }
}
