//! When snapshots of a volume are taken without an operator, and how many of them are kept.

use std::fmt;

use super::PolicyError;
use super::calendar::{DAY, date};

const HOUR: u64 = 3600;

/// How often a scheduled snapshot is taken: once in each such period, by UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Every {
    /// Hours.
    Hour,
    /// Days.
    Day,
    /// Weeks, from Monday on.
    Week,
    /// Months.
    Month,
}

impl Every {
    /// All there are.
    pub const ALL: [Every; 4] = [Every::Hour, Every::Day, Every::Week, Every::Month];

    /// Its word, in a schedule and in the names of snapshots.
    pub fn word(self) -> &'static str {
        match self {
            Every::Hour => "hourly",
            Every::Day => "daily",
            Every::Week => "weekly",
            Every::Month => "monthly",
        }
    }

    /// The one of this word.
    pub fn named(word: &str) -> Option<Every> {
        Every::ALL.into_iter().find(|every| every.word() == word)
    }

    /// The second in which the period of a time begins, both in seconds since 1970.
    pub fn begin(self, time: u64) -> u64 {
        let days = time / DAY;
        match self {
            Every::Hour => time - time % HOUR,
            Every::Day => days * DAY,
            // 1 January 1970 was a Thursday.
            Every::Week => days.saturating_sub((days + 3) % 7) * DAY,
            Every::Month => (days + 1 - date(days).2) * DAY,
        }
    }

    /// The second in which the next period begins.
    pub fn next(self, time: u64) -> u64 {
        let begin = self.begin(time);
        match self {
            Every::Hour => begin.saturating_add(HOUR),
            Every::Day => begin.saturating_add(DAY),
            // The first week of the calendar has four days.
            Every::Week => self.begin(begin.saturating_add(7 * DAY)),
            // 31 days later is always in the next month: the longest has 31 days, and the shortest more than 3.
            Every::Month => self.begin(begin.saturating_add(31 * DAY)),
        }
    }

    /// The name of the snapshot of the period of a time, behind the `@`.
    pub fn name(self, time: u64) -> String {
        let begin = self.begin(time);
        let (year, month, day) = date(begin / DAY);
        let word = self.word();
        match self {
            Every::Hour => {
                format!("{word}-{year:04}-{month:02}-{day:02}T{:02}", begin % DAY / HOUR)
            }
            Every::Day | Every::Week => format!("{word}-{year:04}-{month:02}-{day:02}"),
            Every::Month => format!("{word}-{year:04}-{month:02}"),
        }
    }
}

/// How many scheduled snapshots of a volume are kept, by how often they are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Schedule {
    /// In the order of [`Every::ALL`]; 0 if none is taken.
    keep: [u16; 4],
}

impl Schedule {
    /// No snapshots are taken.
    pub const NONE: Schedule = Schedule { keep: [0; 4] };

    /// The most snapshots that are kept, of all kinds together: a volume may have some more, which operators take.
    pub const MOST: u16 = 1000;

    /// A schedule that keeps this number of each kind, in the order of [`Every::ALL`]. None if it is too many.
    pub fn keeping(keep: [u16; 4]) -> Option<Schedule> {
        let all: u32 = keep.iter().map(|n| u32::from(*n)).sum();
        (all <= u32::from(Schedule::MOST)).then_some(Schedule { keep })
    }

    /// How many of each kind are kept, in the order of [`Every::ALL`].
    pub fn keep(self) -> [u16; 4] {
        self.keep
    }

    /// The kinds that are taken, and how many of each are kept.
    pub fn kinds(self) -> impl Iterator<Item = (Every, usize)> {
        let all = Every::ALL.into_iter().zip(self.keep);
        all.filter(|(_, keep)| *keep > 0).map(|(every, keep)| (every, usize::from(keep)))
    }

    /// Whether no snapshots are taken.
    pub fn is_none(self) -> bool {
        self == Schedule::NONE
    }

    /// Reads a schedule such as `hourly:24,daily:7`, or none.
    pub(super) fn parse(word: &str) -> Result<Schedule, PolicyError> {
        let refused = || PolicyError::Amount {
            key: "snapshots",
            word: word.to_string(),
            like: "a list such as hourly:24,daily:7 of hourly, daily, weekly and monthly, each with the number to keep, at most \
                   1000 in all, or none",
        };
        if word == NONE {
            return Ok(Schedule::NONE);
        }
        let mut keep = [0; 4];
        for part in word.split(',') {
            let (kind, count) = part.split_once(':').ok_or_else(refused)?;
            let every = Every::named(kind).ok_or_else(refused)?;
            let is_number = count.bytes().all(|digit| digit.is_ascii_digit());
            let count = count.parse().ok().filter(|n| is_number && *n > 0).ok_or_else(refused)?;
            if std::mem::replace(&mut keep[every as usize], count) > 0 {
                return Err(refused());
            }
        }
        Schedule::keeping(keep).ok_or_else(refused)
    }
}

pub(super) const NONE: &str = "none";

/// As it is read.
impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.kinds().map(|(every, keep)| format!("{}:{keep}", every.word()));
        match self.is_none() {
            true => f.write_str(NONE),
            false => f.write_str(&parts.collect::<Vec<_>>().join(",")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Saturday, 28 November 2026, 12:34:56 UTC.
    const NOON: u64 = 1_795_869_296;

    #[test]
    fn periods_begin_and_end_by_utc() {
        let names = |time| Every::ALL.map(|every| every.name(time));
        assert_eq!(
            names(NOON),
            ["hourly-2026-11-28T12", "daily-2026-11-28", "weekly-2026-11-23", "monthly-2026-11"]
        );
        let next = |every: Every| every.name(every.next(NOON));
        assert_eq!(
            Every::ALL.map(next),
            ["hourly-2026-11-28T13", "daily-2026-11-29", "weekly-2026-11-30", "monthly-2026-12"]
        );
        // The last and the first second of a year, which begins on a Friday.
        let year = 1_798_761_600;
        assert_eq!(
            names(year - 1),
            ["hourly-2026-12-31T23", "daily-2026-12-31", "weekly-2026-12-28", "monthly-2026-12"]
        );
        assert_eq!(
            names(year),
            ["hourly-2027-01-01T00", "daily-2027-01-01", "weekly-2026-12-28", "monthly-2027-01"]
        );
        // A leap day, which is a Thursday.
        let leap = 1_709_164_800;
        assert_eq!(
            names(leap),
            ["hourly-2024-02-29T00", "daily-2024-02-29", "weekly-2024-02-26", "monthly-2024-02"]
        );
    }

    #[test]
    fn periods_follow_one_another_without_gaps() {
        for every in Every::ALL {
            let mut time = 0;
            for _ in 0..3000 {
                let next = every.next(time);
                assert!(next > time);
                assert_eq!((every.begin(time), every.begin(next - 1)), (time, time), "{every:?}");
                assert_eq!(every.begin(next), next);
                assert_ne!(every.name(time), every.name(next));
                time = next;
            }
        }
    }

    #[test]
    fn schedules_are_read_back_as_they_are_said() {
        for word in
            ["none", "hourly:24,daily:7", "weekly:1000", "hourly:1,daily:2,weekly:3,monthly:4"]
        {
            assert_eq!(Schedule::parse(word).unwrap().to_string(), word);
        }
        let said = Schedule::parse("monthly:12,hourly:24").unwrap();
        assert_eq!(said.to_string(), "hourly:24,monthly:12", "the order does not matter");
        assert_eq!(said.kinds().collect::<Vec<_>>(), [(Every::Hour, 24), (Every::Month, 12)]);
    }

    #[test]
    fn what_is_no_schedule_is_refused_with_one() {
        for bad in [
            "",
            "hourly",
            "hourly:",
            "hourly:0",
            "hourly:+1",
            "hourly:1001",
            "hourly:500,daily:501",
            "hourly:1,hourly:2",
            "yearly:1",
            "hourly:1,",
            "none,hourly:1",
            "hourly:99999",
        ] {
            let refused = Schedule::parse(bad).unwrap_err().to_string();
            assert!(refused.contains("such as hourly:24,daily:7"), "{bad}: {refused}");
        }
    }
}
