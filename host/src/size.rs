//! Sizes as people write them.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result, fail};

/// A number of bytes that prints in the largest unit that divides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

const UNITS: [(char, u32); 5] = [('K', 10), ('M', 20), ('G', 30), ('T', 40), ('P', 50)];

impl FromStr for Size {
    type Err = Error;

    fn from_str(text: &str) -> Result<Size> {
        let unreadable = || {
            Error(format!(
                "'{text}' is not a size; write bytes, or a number with K, M, G, T or P, such as 64K or 1GiB"
            ))
        };
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let number: u64 = text[..end].parse().map_err(|_| unreadable())?;
        let shift = match text[end..].strip_suffix("iB").unwrap_or(&text[end..]) {
            "" if end == text.len() => 0,
            unit => {
                let mut letters = unit.chars();
                let letter = letters.next().map(|c| c.to_ascii_uppercase());
                let found =
                    UNITS.iter().find(|u| Some(u.0) == letter && letters.as_str().is_empty());
                found.ok_or_else(unreadable)?.1
            }
        };
        match number.checked_mul(1 << shift) {
            Some(bytes) => Ok(Size(bytes)),
            None => fail(format!("{text} is more bytes than can be counted; give a smaller size")),
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |u: &&(char, u32)| self.0 != 0 && self.0.trailing_zeros() >= u.1;
        match UNITS.iter().rev().find(fits) {
            Some((letter, shift)) => write!(f, "{}{letter}iB", self.0 >> shift),
            None => write!(f, "{}", self.0),
        }
    }
}

/// Reads a size: plain bytes, `64K`, `1M`, `1GiB` and so on, powers of 1024.
pub fn parse_size(text: &str) -> Result<u64> {
    text.parse::<Size>().map(|s| s.0)
}

/// Refuses a value that is not a positive multiple of `step`, and names the nearest ones.
pub(crate) fn require_multiple(what: &str, value: u64, step: u64) -> Result<()> {
    if value > 0 && value.is_multiple_of(step) {
        return Ok(());
    }
    let below = value / step * step;
    let above = below.saturating_add(step);
    let nearest = match below {
        0 => format!("the nearest is {}", Size(above)),
        _ => format!("the nearest are {} and {}", Size(below), Size(above)),
    };
    fail(format!("{what} of {value} bytes is not a multiple of {step} bytes; {nearest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_printed() {
        for (text, bytes, back) in [
            ("0", 0, "0"),
            ("1000", 1000, "1000"),
            ("65536", 65536, "64KiB"),
            ("64K", 65536, "64KiB"),
            ("64k", 65536, "64KiB"),
            ("1M", 1 << 20, "1MiB"),
            ("1536M", 1536 << 20, "1536MiB"),
            ("1GiB", 1 << 30, "1GiB"),
            ("2T", 2 << 40, "2TiB"),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
            assert_eq!(Size(bytes).to_string(), back);
            assert_eq!(parse_size(back), Ok(bytes));
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in
            ["", "K", "1KB", "1Kib", "-1", "1.5G", "1iB", "1 G", "1KK", "99999999999999999999"]
        {
            assert!(parse_size(text).is_err(), "{text}");
        }
        assert!(parse_size("99999999P").unwrap_err().0.contains("smaller"));
    }

    #[test]
    fn the_nearest_multiples_are_named() {
        assert!(require_multiple("a disk size", 8192, 4096).is_ok());
        let err = require_multiple("a disk size", 5000, 4096).unwrap_err();
        assert!(err.0.contains("4KiB") && err.0.contains("8KiB"), "{err}");
        let err = require_multiple("a disk size", 7, 4096).unwrap_err();
        assert!(err.0.ends_with("the nearest is 4KiB"), "{err}");
    }
}
