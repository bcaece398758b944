//! What AFRAID (Savage and Wilkes, 1996) says in sections 3.3 to 3.6 of support parts, memory that keeps its content, and
//! power. Times are in hours, contents in bytes. Its equations (1) to (5) are [`weft_core::exposure`]'s: the chains are
//! held to them.
//!
//! The tests go through what the paper states, section by section.

/// Hours of a year, as the paper counts them.
pub const YEAR_H: f64 = 8760.0;

/// (2c) The mean time until the first of several things happens, from the mean time of each; infinite if there is none.
pub fn first_of(mean_h: impl IntoIterator<Item = f64>) -> f64 {
    1.0 / mean_h.into_iter().fold(0.0, |rate, h| rate + 1.0 / h)
}

/// Bytes lost in an hour by something that loses all these bytes once in so many hours (3.3, 3.4).
pub fn mdlr(bytes: f64, mttdl_h: f64) -> f64 {
    bytes / mttdl_h
}

/// The mean time until the power fails during a write (3.5).
pub fn power_mttdl(mttf_h: f64, write_share: f64) -> f64 {
    mttf_h / write_share
}

/// The mean time until the memory of marks fails, and then a disk before parity was computed for everything (3.1).
pub fn marks_mttdl(marks_mttf_h: f64, refresh_h: f64, mttf_h: f64, disks: f64) -> f64 {
    marks_mttf_h * mttf_h / (disks * refresh_h)
}

/// The chance that something happens within `hours` that happens once in `mean_h`.
pub fn chance(mean_h: f64, hours: f64) -> f64 {
    -libm::expm1(-hours / mean_h)
}

#[cfg(test)]
mod tests {
    use weft_core::exposure::{Disks, unpredicted_mttf};

    use super::*;

    const DATA: f64 = 4.0;
    const DISK: f64 = 2e9;

    fn mttf() -> f64 {
        unpredicted_mttf(1e6, 0.5)
    }

    /// Each row: what the paper states, what comes out, and how far the paper's rounding may be off.
    #[test]
    fn what_the_paper_states() {
        let disks = Disks::new(5, mttf());
        let raid = disks.mttdl_of_losses(2);
        let power = power_mttdl(4300.0, 0.1);
        let stripe = DATA * 8192.0;
        for (what, stated, computed, off) in [
            ("3: half of the failures are foreseen", 2e6, mttf(), 0.0),
            ("3.1: ~4.10^9 hours", 4e9, raid, 0.05),
            ("3.1: or about 475,000 years", 475e3, raid / YEAR_H, 0.01),
            ("3.2: ~0.8 bytes/hour", 0.8, disks.mdlr_catastrophic(2, DISK, DATA / 5.0), 0.05),
            ("1.2: a million hours are 114 years", 114.0, 1e6 / YEAR_H, 0.005),
            ("1.2: 2.6% in 3 years", 0.026, chance(1e6, 3.0 * YEAR_H), 0.01),
            ("3.3: 4.0KB/hour with 2M hours", 4e3, mdlr(DATA * DISK, 2e6), 0.0),
            ("3.3: 53KB/hour with 150k hours", 53e3, mdlr(DATA * DISK, 150e3), 0.01),
            ("3.4: 67 bytes/hour of 1MB", 67.0, mdlr(1e6, 15e3), 0.01),
            ("3.5: 43k hours without a UPS", 43e3, power, 0.0),
            ("3.5: 0.7bytes/hour, of a stripe", 0.7, mdlr(stripe, power), 0.1),
            ("3.5: 98% of the availability", 0.98, 1.0 - power / 2e6, 0.005),
            ("3.5: 2M hours with one", 2e6, power_mttdl(200e3, 0.1), 0.0),
            ("3.6: 3% of disks in 3 years", 0.03, chance(1e6, 26e3), 0.2),
            ("3.6: 5% of disks in 3 years", 0.05, chance(0.5e6, 26e3), 0.05),
            ("3.6: a disk's 2KB/hour", 2e3, mdlr(DISK, 1e6), 0.0),
            ("3.6: a disk's 4KB/hour", 4e3, mdlr(DISK, 0.5e6), 0.0),
        ] {
            let error = (computed / stated - 1.0).abs();
            assert!(error <= off + 1e-9, "{what}: {computed} is off by {error}");
        }
        // 3.1: about ten minutes; more than 10^11 hours, with the better memory of 3.4.
        assert!(marks_mttdl(87e3, 1.0 / 6.0, mttf(), 5.0) > 1e11);
    }

    #[test]
    fn what_never_happens_comes_first_of_nothing() {
        assert_eq!(first_of([]), f64::INFINITY);
        assert_eq!(first_of([f64::INFINITY, 3.0]), 3.0);
    }
}
