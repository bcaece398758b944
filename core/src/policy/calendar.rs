//! Dates of the Gregorian calendar, UTC.

/// Seconds of a day.
pub const DAY: u64 = 86_400;

/// The date that many days after 1 January 1970, by counting years and months: year, month and day, the latter two
/// from 1 on.
pub fn date(mut days: u64) -> (u64, u64, u64) {
    let leap = |y: u64| y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400));
    // As many days pass in 400 years; so far-off times take no longer.
    let mut year = 1970 + 400 * (days / 146_097);
    days %= 146_097;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    (year, month as u64 + 1, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_dates() {
        assert_eq!(date(0), (1970, 1, 1));
        assert_eq!(date(951_782_400 / DAY), (2000, 2, 29));
        assert_eq!(date(1_735_689_599 / DAY), (2024, 12, 31));
        assert_eq!(date(4_107_542_400 / DAY), (2100, 3, 1), "2100 is no leap year");
        assert_eq!(date(146_097), (2370, 1, 1));
        assert_eq!(date(u64::MAX / DAY).1, 11, "and it ends");
    }
}
