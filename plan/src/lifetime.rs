//! How long disks live.

/// When disks fail: Weibull's distribution, of which the exponential one is a case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lifetime {
    /// Above 1: they wear out. Below: those that are bad fail early. At 1 age does not matter.
    pub shape: f64,
    /// Hours until 63 % of them have failed.
    pub scale_h: f64,
}

impl Lifetime {
    /// Failures that do not depend on age, one in so many hours.
    pub fn exponential(mttf_h: f64) -> Lifetime {
        Lifetime { shape: 1.0, scale_h: mttf_h }
    }

    /// Failures to expect of a disk between two ages, if it is replaced by one of the same age each time.
    pub fn hazard(&self, from_h: f64, to_h: f64) -> f64 {
        self.cumulated(to_h) - self.cumulated(from_h)
    }

    fn cumulated(&self, age_h: f64) -> f64 {
        if self.shape == 1.0 {
            return age_h / self.scale_h;
        }
        libm::pow(age_h / self.scale_h, self.shape)
    }

    /// The age at which a disk has lived through so much hazard more.
    pub fn age_after(&self, age_h: f64, hazard: f64) -> f64 {
        if self.shape == 1.0 {
            return age_h + hazard * self.scale_h;
        }
        self.scale_h * libm::pow(self.cumulated(age_h) + hazard, 1.0 / self.shape)
    }

    /// Failures of a disk in an hour, on the mean over the first so many hours.
    pub fn rate(&self, hours: f64) -> f64 {
        self.cumulated(hours) / hours
    }

    /// The same lifetimes if only this share of the failures counts.
    pub fn share(&self, share: f64) -> Lifetime {
        Lifetime { scale_h: self.scale_h * libm::pow(share, -1.0 / self.shape), ..*self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_and_hazards_are_inverse() {
        for shape in [0.7, 1.0, 1.12, 3.0] {
            let life = Lifetime { shape, scale_h: 461_386.0 };
            for (age, hazard) in [(0.0, 0.5), (1e4, 0.01), (5e4, 2.0)] {
                let then = life.age_after(age, hazard);
                assert!((life.hazard(age, then) / hazard - 1.0).abs() < 1e-9, "shape {shape}");
            }
        }
    }

    #[test]
    fn half_of_the_failures_are_half_of_the_hazard() {
        for shape in [1.0, 1.12, 2.0] {
            let life = Lifetime { shape, scale_h: 1e5 };
            assert!((life.share(0.5).rate(4e4) / life.rate(4e4) - 0.5).abs() < 1e-12);
        }
        assert!((Lifetime::exponential(1e6).rate(5.0) - 1e-6).abs() < 1e-18);
    }

    #[test]
    fn what_wears_out_fails_later() {
        let worn = Lifetime { shape: 2.0, scale_h: 1e5 };
        assert!(worn.rate(1e4) < 1e-5 && worn.rate(2e5) > 1e-5);
    }
}
