//! What exposure costs: the equations of AFRAID (Savage and Wilkes, USENIX 1996, section 3), for any number of losses that
//! a layout bears.
//!
//! Mean times are in hours, rates of loss in bytes an hour. Failures are rare, independent and exponentially distributed, as
//! in the paper. What decides (the worker) and what shows (`weft status`, `weft paper afraid`) compute by these alone.

/// Hours until a disk fails, of those that the paper assumes (Table 1).
pub const DISK_MTTF_RAW_H: f64 = 1e6;
/// The share of failures that are predicted, so that nothing is exposed any more when they come (Table 1).
pub const COVERAGE: f64 = 0.5;
/// Hours until a disk is repaired (Table 1).
pub const MTTR_H: f64 = 48.0;
/// Hours until what supports the disks loses data (Table 1).
pub const SUPPORT_MTTDL_H: f64 = 2e6;

/// Hours until a disk fails unpredicted (section 3): only these failures find anything exposed.
pub fn unpredicted_mttf(raw: f64, coverage: f64) -> f64 {
    raw / (1.0 - coverage)
}

/// The disks of an array, and how they fail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Disks {
    /// How many there are: the paper's N + 1.
    pub count: f64,
    /// Hours until one fails that nobody foresaw.
    pub mttf_h: f64,
    /// Hours until it is repaired.
    pub mttr_h: f64,
}

impl Disks {
    /// So many disks, repaired as the paper's are.
    pub fn new(count: usize, mttf_h: f64) -> Disks {
        Disks { count: count as f64, mttf_h, mttr_h: MTTR_H }
    }

    /// Equation (1): hours until so many disks are lost together, each before the one before it is repaired. Two are
    /// RAID 5's catastrophe; one is (2a) with something exposed all the time.
    pub fn mttdl_of_losses(&self, together: usize) -> f64 {
        let later = |n: usize| self.mttf_h / ((self.count - n as f64) * self.mttr_h);
        (1..together).fold(self.mttf_h / self.count, |hours, n| hours * later(n))
    }

    /// Equation (4): bytes an hour that are lost with so many disks, for so many exposed bytes on average; with single ones
    /// if no parity is immediate.
    pub fn mdlr_unprotected(&self, together: usize, mean_lag: f64) -> f64 {
        together as f64 * mean_lag / (self.count - 1.0) / self.mttdl_of_losses(together)
    }

    /// Equation (3): bytes an hour that are lost when so many disks are lost together, of which this share is data.
    pub fn mdlr_catastrophic(&self, together: usize, disk_bytes: f64, data_share: f64) -> f64 {
        together as f64 * disk_bytes * data_share / self.mttdl_of_losses(together)
    }
}

/// Mean times to data loss of an array: while nothing of it is exposed, and while something is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// While all parity is there.
    pub protected_h: f64,
    /// While parity waits.
    pub exposed_h: f64,
}

impl Rates {
    /// Of disks that bear so many losses while all parity is there, and so many while some waits.
    pub fn new(disks: &Disks, bears: usize, bears_exposed: usize) -> Rates {
        Rates {
            protected_h: disks.mttdl_of_losses(bears + 1),
            exposed_h: disks.mttdl_of_losses(bears_exposed + 1),
        }
    }

    /// Equations (2a) to (2c): with something exposed for this share of the time.
    pub fn mttdl(&self, exposed_share: f64) -> f64 {
        1.0 / (exposed_share / self.exposed_h + (1.0 - exposed_share) / self.protected_h)
    }

    /// The other way round: the largest share of the time, 0 to 1, by which so much is reached. Below 0 it cannot be.
    pub fn exposed_share(&self, mttdl_h: f64) -> f64 {
        let more = 1.0 / self.exposed_h - 1.0 / self.protected_h;
        ((1.0 / mttdl_h - 1.0 / self.protected_h) / more).min(1.0)
    }
}

/// Rates of failure add up: the mean time with both (as in (2c), and with the support components of section 3.3).
pub fn together(one_h: f64, other_h: f64) -> f64 {
    1.0 / (1.0 / one_h + 1.0 / other_h)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64, by: f64) -> bool {
        (a / b - 1.0).abs() < by
    }

    /// The paper's five disks (Table 1).
    fn five() -> Disks {
        Disks::new(5, unpredicted_mttf(DISK_MTTF_RAW_H, COVERAGE))
    }

    #[test]
    fn equation_1_is_what_the_paper_computes() {
        let hours = five().mttdl_of_losses(2);
        assert!(near(hours, 4e12 / (4.0 * 5.0 * 48.0), 1e-9));
        // "~4.10^9 hours, or about 475,000 years".
        assert!(near(hours, 4e9, 0.05) && near(hours / 8766.0, 475_000.0, 0.01), "{hours}");
        // One more parity: one more repair that must come too late.
        let three = five().mttdl_of_losses(3);
        assert!(near(three, hours * 2e6 / (3.0 * 48.0), 1e-9));
    }

    #[test]
    fn equations_2_lie_between_no_parity_and_all_of_it() {
        let rates = Rates::new(&five(), 1, 0);
        assert!(near(rates.mttdl(0.0), five().mttdl_of_losses(2), 1e-9));
        assert!(near(rates.mttdl(1.0), 2e6 / 5.0, 1e-9));
        // (2a) alone, since the rest hardly counts.
        assert!(near(rates.mttdl(0.1), 2e6 / 5.0 / 0.1, 1e-3));
    }

    #[test]
    fn the_share_is_the_inverse_of_what_it_gives() {
        let rates = Rates::new(&five(), 1, 0);
        for target in [1e6, 1e7, 1e8, 1e9, 4e9] {
            let share = rates.exposed_share(target);
            assert!((0.0..=1.0).contains(&share) && near(rates.mttdl(share), target, 1e-6));
        }
        assert!(rates.exposed_share(rates.protected_h * 1.01) < 0.0, "that cannot be reached");
        assert!(near(rates.exposed_share(1e3), 1.0, 1e-9), "that is always reached");
    }

    #[test]
    fn equations_3_to_5_are_what_the_paper_computes() {
        // "~0.8 bytes/hour from this failure mode", of 2 GB disks.
        let catastrophe = five().mdlr_catastrophic(2, 2e9, 0.8);
        assert!(near(catastrophe, 0.8, 0.05), "{catastrophe}");
        // (4): a stripe of four units of 8 KB exposed for all the time: one unit for each of five disks.
        let unit = 8192.0;
        assert!(near(five().mdlr_unprotected(1, 4.0 * unit), unit * 5.0 / 2e6, 1e-9));
        // Section 3.3: "With a 2M hour MTTDL, our 5-disk array would suffer a MDLR of 4.0KB/hour".
        assert!(near(4.0 * 2e9 / SUPPORT_MTTDL_H, 4_000.0, 1e-9));
        assert!(near(together(4e9, SUPPORT_MTTDL_H), 2e6, 1e-3));
    }
}
