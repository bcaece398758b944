//! How fast work goes that hosts do not wait for: so many bytes a second, by the node's own clock.

use crate::cluster::Settings;
use crate::units::{MILLIS, Nanos};

/// A rate that is none: as fast as it goes.
pub const UNBOUNDED: u64 = u64::MAX;

/// What was not used of the last quarter of a second may be used now; what was not used before that
/// is gone.
const MEMORY: Nanos = 250 * MILLIS;

/// The rates at which a disk is filled: with what it missed, with what is rebuilt on it, and with
/// columns that move to it. In bytes a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FillRates {
    /// While hosts use the disk: so much, and no more. If less comes about because the disks have much
    /// to do, more units are rebuilt at once.
    pub floor: u64,
    /// While none does: at most so much.
    pub ceiling: u64,
}

impl FillRates {
    /// As fast as it goes, with fewer units at once while hosts use the disk.
    pub const UNBOUNDED: FillRates = FillRates { floor: UNBOUNDED, ceiling: UNBOUNDED };

    /// Those in force: as the cluster has chosen, or else as the node was told. Of two that contradict one another the
    /// cluster's counts.
    pub fn of(told: FillRates, settings: &Settings) -> FillRates {
        let (floor, ceiling) = (settings.rebuild_floor, settings.rebuild_ceiling);
        match (floor.unwrap_or(told.floor), ceiling.unwrap_or(told.ceiling)) {
            (floor, most) if floor > most && ceiling.is_none() => {
                FillRates { floor, ceiling: floor }
            }
            (floor, ceiling) => FillRates { floor: floor.min(ceiling), ceiling },
        }
    }

    /// The one that counts, as hosts use the disk or do not.
    pub(crate) fn at(self, hosts_are_busy: bool) -> u64 {
        if hosts_are_busy { self.floor } else { self.ceiling }
    }
}

impl Default for FillRates {
    fn default() -> FillRates {
        FillRates { floor: 32 << 20, ceiling: UNBOUNDED }
    }
}

/// Keeps to a rate: a bucket of bytes that fills with time. What is taken may be more than there is
/// (a unit is not divided); then it is waited for until that has been made up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Pace {
    /// Bytes that may be taken; below zero what was taken ahead.
    credit: i64,
    /// Until when time has been counted.
    at: Nanos,
}

impl Pace {
    /// Whether something may be begun now at this rate.
    pub fn may(&mut self, now: Nanos, rate: u64) -> bool {
        if rate == UNBOUNDED {
            return true;
        }
        let full = most(rate);
        let grown = bytes_in(now.saturating_sub(self.at), rate);
        // Less than a byte's time is kept for later.
        if grown > 0 {
            self.credit = self.credit.saturating_add(grown).min(full);
            self.at = now;
        }
        self.credit > 0
    }

    /// So many bytes have been begun at this rate.
    pub fn take(&mut self, bytes: u64, rate: u64) {
        if rate != UNBOUNDED {
            self.credit = self.credit.saturating_sub_unsigned(bytes);
        }
    }

    /// Whether less came about lately than this rate allows: nothing of it was used.
    pub fn lags(&self, rate: u64) -> bool {
        rate != UNBOUNDED && self.credit >= most(rate)
    }
}

/// The most that is saved up: a byte at least, or nothing would ever begin at the lowest rates.
fn most(rate: u64) -> i64 {
    bytes_in(MEMORY, rate).max(1)
}

fn bytes_in(time: Nanos, rate: u64) -> i64 {
    let bytes = u128::from(time) * u128::from(rate) / 1_000_000_000;
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u64 = 10 << 20;

    #[test]
    fn the_lowest_rate_is_one_as_well() {
        let mut pace = Pace::default();
        assert!(!pace.may(0, 1) && pace.may(1_000_000_000, 1));
    }
    const UNIT: u64 = 64 << 10;

    /// Bytes taken in so long, looking every so often, by one that takes whatever it may.
    fn taken(pace: &mut Pace, from: Nanos, time: Nanos, every: Nanos, rate: u64) -> u64 {
        let mut bytes = 0;
        for now in (from..from + time).step_by(every as usize) {
            while pace.may(now, rate) {
                pace.take(UNIT, rate);
                bytes += UNIT;
            }
        }
        bytes
    }

    #[test]
    fn the_rate_holds_however_often_one_looks() {
        for every in [MILLIS / 10, MILLIS, 7 * MILLIS, 100 * MILLIS] {
            let mut pace = Pace::default();
            let start = 1 << 40;
            pace.may(start, RATE);
            let got = taken(&mut pace, start, 10_000 * MILLIS, every, RATE);
            let most = 10 * RATE + RATE / 4 + UNIT;
            assert!(got <= most && got >= 10 * RATE * 97 / 100, "{every}: {got}");
        }
    }

    #[test]
    fn what_was_not_used_long_ago_is_gone_and_lagging_shows() {
        let mut pace = Pace::default();
        pace.may(1000 * MILLIS, RATE);
        pace.may(9000 * MILLIS, RATE);
        assert!(pace.lags(RATE));
        let got = taken(&mut pace, 9000 * MILLIS, 1, 1, RATE);
        assert!(got <= RATE / 4 + UNIT && !pace.lags(RATE), "{got}");
    }

    #[test]
    fn a_rate_below_a_unit_a_look_is_kept_by_waiting() {
        let mut pace = Pace::default();
        pace.may(0, 4096);
        let got = taken(&mut pace, 0, 64_000 * MILLIS, MILLIS, 4096);
        assert!((3..=5).contains(&(got / UNIT)), "{got}");
    }

    #[test]
    fn no_bound_is_no_bound() {
        let mut pace = Pace::default();
        pace.take(1 << 50, UNBOUNDED);
        assert!(pace.may(1, UNBOUNDED) && !pace.lags(UNBOUNDED) && pace == Pace::default());
    }
}
