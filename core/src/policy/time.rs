//! Lengths of time as people write them.

use std::time::Duration;

const UNITS: [(&str, u64); 4] = [("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)];

/// A word that is no length of time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a duration; write it like 30s, 15m, 12h or 7d")]
pub struct NoTime(pub String);

/// A word that is no length of time, where short ones are usual.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a duration; write it like 100ms, 0.5s, 2s or 1m")]
pub struct NoDuration(pub String);

/// Reads a length of time such as 30s, 15m, 12h or 7d, in seconds.
pub fn parse_seconds(text: &str) -> Result<u64, NoTime> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit = UNITS.iter().find(|(name, _)| *name == &text[split..]).map(|u| u.1);
    let number = text[..split].parse::<u64>().ok();
    let seconds = number.zip(unit).and_then(|(n, unit)| n.checked_mul(unit));
    seconds.ok_or_else(|| NoTime(text.to_string()))
}

/// Reads a length of time such as 100ms, 0.5s, 30s or 5m.
pub fn parse_duration(text: &str) -> Result<Duration, NoDuration> {
    let no = || NoDuration(text.to_string());
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let millis = match unit {
        "ms" => 1,
        unit => 1000 * UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(no)?.1,
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    // So many places are enough for any time that is meant.
    let places = u32::try_from(part.len()).ok().filter(|n| (1..=9).contains(n)).ok_or_else(no)?;
    let digits = |text: &str| text.parse::<u64>().map_err(|_| no());
    let nanos = |n: u64| n.checked_mul(1_000_000)?.checked_mul(millis);
    let part = u128::from(digits(part)?) * 1_000_000 * u128::from(millis) / 10_u128.pow(places);
    let whole = nanos(digits(whole)?).ok_or_else(no)?;
    let all = whole.checked_add(u64::try_from(part).map_err(|_| no())?).ok_or_else(no)?;
    Ok(Duration::from_nanos(all))
}

/// A length of time as [`parse_duration`] reads it, to the millisecond.
pub fn duration_in_words(time: Duration) -> String {
    match time.subsec_millis() {
        0 => in_words(time.as_secs()),
        _ => format!("{}ms", time.as_millis()),
    }
}

/// So many seconds in the largest unit that divides them.
pub fn in_words(seconds: u64) -> String {
    let fits = |u: &&(&str, u64)| seconds != 0 && seconds.is_multiple_of(u.1);
    let (name, unit) = UNITS.iter().find(fits).unwrap_or(&("s", 1));
    format!("{}{name}", seconds / unit)
}

/// A time in two or three digits, rounded up, for elapsed and estimated times.
pub fn about(seconds: u64) -> String {
    let unit = match seconds {
        0..300 => 1,
        300..18_000 => 60,
        18_000..432_000 => 3600,
        _ => 86_400,
    };
    in_words(seconds.checked_next_multiple_of(unit).unwrap_or(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_times_are_rounded() {
        for (seconds, words) in [
            (0, "0s"),
            (90, "90s"),
            (299, "299s"),
            (618, "11m"),
            (3599, "1h"),
            (5400, "90m"),
            (86_399, "1d"),
            (86_401, "25h"),
            (604_799, "7d"),
            (u64::MAX, "18446744073709551615s"),
        ] {
            assert_eq!(about(seconds), words, "{seconds}");
        }
    }

    #[test]
    fn what_is_said_is_read_back() {
        for (words, seconds) in [("0s", 0), ("90s", 90), ("2h", 7200), ("7d", 604_800), ("1m", 60)]
        {
            assert_eq!(parse_seconds(words), Ok(seconds));
            assert_eq!(in_words(seconds), words);
        }
        for (words, ms, back) in [
            ("100ms", 100, "100ms"),
            ("0.5s", 500, "500ms"),
            ("1.25s", 1250, "1250ms"),
            ("2s", 2000, "2s"),
            ("1.5m", 90_000, "90s"),
            ("0s", 0, "0s"),
        ] {
            assert_eq!(parse_duration(words), Ok(Duration::from_millis(ms)));
            assert_eq!(duration_in_words(Duration::from_millis(ms)), back);
        }
        for bad in ["", "5", ".5s", "1.s", "1.5.5s", "1us", "-1s", "99999999999d", "1 s"] {
            assert!(parse_duration(bad).unwrap_err().to_string().contains("100ms"), "{bad}");
        }
        for bad in ["", "5", "s", "1.5h", "5 m", "-1s", "99999999999999999d", "2w"] {
            assert!(parse_seconds(bad).unwrap_err().to_string().contains("30s"), "{bad}");
        }
    }
}
