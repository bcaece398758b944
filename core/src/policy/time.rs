//! Lengths of time as people write them.

const UNITS: [(&str, u64); 4] = [("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)];

/// A word that is no length of time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no length of time; write it like 30s, 15m, 12h or 7d")]
pub struct NoTime(pub String);

/// Reads a length of time such as 30s, 15m, 12h or 7d, in seconds.
pub fn parse_seconds(text: &str) -> Result<u64, NoTime> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit = UNITS.iter().find(|(name, _)| *name == &text[split..]).map(|u| u.1);
    let number = text[..split].parse::<u64>().ok();
    let seconds = number.zip(unit).and_then(|(n, unit)| n.checked_mul(unit));
    seconds.ok_or_else(|| NoTime(text.to_string()))
}

/// So many seconds in the largest unit that divides them.
pub fn in_words(seconds: u64) -> String {
    let fits = |u: &&(&str, u64)| seconds != 0 && seconds.is_multiple_of(u.1);
    let (name, unit) = UNITS.iter().find(fits).unwrap_or(&("s", 1));
    format!("{}{name}", seconds / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_read_back() {
        for (words, seconds) in [("0s", 0), ("90s", 90), ("2h", 7200), ("7d", 604_800), ("1m", 60)]
        {
            assert_eq!(parse_seconds(words), Ok(seconds));
            assert_eq!(in_words(seconds), words);
        }
        for bad in ["", "5", "s", "1.5h", "5 m", "-1s", "99999999999999999d", "2w"] {
            assert!(parse_seconds(bad).unwrap_err().to_string().contains("30s"), "{bad}");
        }
    }
}
