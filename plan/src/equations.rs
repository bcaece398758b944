//! Availability as AFRAID computes it (Savage and Wilkes, 1996): equations (1) to (5), and what its sections 3.3 to
//! 3.6 say of support parts, memory that keeps its content, and power. Times are in hours, contents in bytes.
//!
//! The tests go through what the paper states, section by section.

/// Hours of a year, as the paper counts them.
pub const YEAR_H: f64 = 8760.0;

/// The mean time between failures that nobody foresaw, of disks of which a share `coverage` is replaced in time
/// (section 3).
pub fn unexpected(mttf_h: f64, coverage: f64) -> f64 {
    mttf_h / (1.0 - coverage)
}

/// (1) The mean time until two of `data + 1` disks are lost together.
pub fn raid5_mttdl(mttf_h: f64, mttr_h: f64, data: f64) -> f64 {
    mttf_h * mttf_h / (data * (data + 1.0) * mttr_h)
}

/// (2a) The mean time until a disk is lost while data has no parity: for a share `unprotected` of all time it has none.
/// Infinite if it always has.
pub fn unprotected_mttdl(unprotected: f64, mttf_h: f64, data: f64) -> f64 {
    mttf_h / (data + 1.0) / unprotected
}

/// (2b) The mean time until two disks are lost together while all data has parity.
pub fn protected_mttdl(unprotected: f64, raid_h: f64) -> f64 {
    raid_h / (1.0 - unprotected)
}

/// (2c) The mean time until the first of several things happens, from the mean time of each; infinite if there is none.
pub fn first_of(mean_h: impl IntoIterator<Item = f64>) -> f64 {
    1.0 / mean_h.into_iter().fold(0.0, |rate, h| rate + 1.0 / h)
}

/// (2) The mean time until an array whose parity waits loses something.
pub fn afraid_mttdl(unprotected: f64, mttf_h: f64, mttr_h: f64, data: f64) -> f64 {
    let raid = raid5_mttdl(mttf_h, mttr_h, data);
    first_of([unprotected_mttdl(unprotected, mttf_h, data), protected_mttdl(unprotected, raid)])
}

/// (3) Bytes lost in an hour by two disks that are lost together.
pub fn raid5_mdlr(disk_bytes: f64, data: f64, raid_h: f64) -> f64 {
    2.0 * disk_bytes * data / (data + 1.0) / raid_h
}

/// (4) Bytes lost in an hour by single disks, since their parity lags by so many bytes of data.
pub fn unprotected_mdlr(lag_bytes: f64, mttf_h: f64, data: f64) -> f64 {
    lag_bytes / data * (data + 1.0) / mttf_h
}

/// (5) Bytes lost in an hour by an array whose parity waits.
pub fn afraid_mdlr(catastrophic: f64, unprotected: f64) -> f64 {
    catastrophic + unprotected
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
    use super::*;

    const MTTR: f64 = 48.0;
    const DATA: f64 = 4.0;
    const DISK: f64 = 2e9;

    fn mttf() -> f64 {
        unexpected(1e6, 0.5)
    }

    /// Each row: what the paper states, what comes out, and how far the paper's rounding may be off.
    #[test]
    fn what_the_paper_states() {
        let raid = raid5_mttdl(mttf(), MTTR, DATA);
        let power = power_mttdl(4300.0, 0.1);
        let stripe = DATA * 8192.0;
        for (what, stated, computed, off) in [
            ("3: half of the failures are foreseen", 2e6, mttf(), 0.0),
            ("3.1: ~4.10^9 hours", 4e9, raid, 0.05),
            ("3.1: or about 475,000 years", 475e3, raid / YEAR_H, 0.01),
            ("3.2: ~0.8 bytes/hour", 0.8, raid5_mdlr(DISK, DATA, raid), 0.05),
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
    fn parity_that_never_waits_is_raid_5() {
        let raid = raid5_mttdl(mttf(), MTTR, DATA);
        assert_eq!(afraid_mttdl(0.0, mttf(), MTTR, DATA), raid);
        assert_eq!(unprotected_mttdl(0.0, mttf(), DATA), f64::INFINITY);
        assert_eq!(unprotected_mdlr(0.0, mttf(), DATA), 0.0);
        assert_eq!(afraid_mdlr(3.0, 0.0), 3.0);
        assert_eq!(first_of([]), f64::INFINITY);
    }

    /// 4.4: less than half of the availability goes. Where parity is never there, what is left is RAID 0.
    #[test]
    fn the_more_is_unprotected_the_sooner_it_is_lost() {
        let at = |share: f64| afraid_mttdl(share, mttf(), MTTR, DATA);
        let shares: Vec<f64> = (0..=10).map(|n| at(f64::from(n) / 10.0)).collect();
        assert!(shares.is_sorted_by(|a, b| a > b), "{shares:?}");
        assert!((at(1.0) / (mttf() / 5.0) - 1.0).abs() < 1e-9);
        assert_eq!(unprotected_mdlr(8192.0 * DATA, mttf(), DATA), 8192.0 * 5.0 / mttf());
    }
}
