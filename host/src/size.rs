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
        let plain = |c: char| c.is_ascii_digit() || c == '.';
        let (number, unit) = text.split_at(text.find(|c| !plain(c)).unwrap_or(text.len()));
        let shift = shift(unit).filter(|_| !number.is_empty()).ok_or_else(|| unreadable(text))?;
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        let too_many = || Error(format!("{text} is too large; give a smaller size"));
        let whole: u128 = whole.parse().map_err(|_| unreadable(text))?;
        let whole = whole.checked_mul(1 << shift).ok_or_else(too_many)?;
        let bytes = whole.checked_add(fraction(text, part, shift)?).ok_or_else(too_many)?;
        u64::try_from(bytes).map(Size).map_err(|_| too_many())
    }
}

/// The power of two that a unit stands for.
fn shift(unit: &str) -> Option<u32> {
    let letter = match unit {
        "" => return Some(0),
        unit => unit.strip_suffix("iB").unwrap_or(unit),
    };
    let mut letters = letter.chars();
    let first = letters.next()?.to_ascii_uppercase();
    UNITS.iter().find(|u| u.0 == first && letters.as_str().is_empty()).map(|u| u.1)
}

/// The bytes of what stands behind the point of a size, which must be whole.
fn fraction(text: &str, part: &str, shift: u32) -> Result<u128> {
    if part.is_empty() {
        return match text.contains('.') {
            true => Err(unreadable(text)),
            false => Ok(0),
        };
    }
    // So many places are enough for any size that is meant.
    let places =
        u32::try_from(part.len()).ok().filter(|n| *n <= 18).ok_or_else(|| unreadable(text))?;
    let scaled = part.parse::<u128>().map_err(|_| unreadable(text))? << shift;
    match scaled % 10_u128.pow(places) {
        0 => Ok(scaled / 10_u128.pow(places)),
        _ => fail(format!("{text} is not a whole number of bytes; give one in a smaller unit")),
    }
}

/// What is wrong with a text that is no size.
fn unreadable(text: &str) -> Error {
    let how = "write bytes, or a number with K, M, G, T or P, such as 64K or 1GiB";
    let (number, unit) =
        text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len()));
    let decimal =
        unit.strip_suffix(['B', 'b']).filter(|letter| shift(letter).is_some_and(|s| s > 0));
    Error(match decimal {
        _ if text.starts_with(['+', '-']) => {
            format!(
                "'{text}' is not a size: differences are not supported; give the whole size, such as 3G"
            )
        }
        Some(letter) => format!(
            "'{text}' is not a size: units are powers of 1024, and are not written {unit}; write {number}{letter}, \
             which is {number}{letter}iB"
        ),
        None => format!("'{text}' is not a size; {how}"),
    })
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

/// A number of bytes for people, rounded down: `297.62 MiB`, `1.5 GiB`, `4 KiB`.
pub(crate) fn rounded(bytes: u64) -> String {
    let fits = |u: &&(char, u32)| bytes >> u.1 > 0;
    match UNITS.iter().rev().find(fits) {
        Some((letter, shift)) => {
            let hundredths = (u128::from(bytes) * 100) >> shift;
            let number = format!("{}.{:02}", hundredths / 100, hundredths % 100);
            format!("{} {letter}iB", number.trim_end_matches('0').trim_end_matches('.'))
        }
        None => format!("{bytes} bytes"),
    }
}

/// A number of bytes for people who may need it to the byte: as [`rounded`], and itself too where that leaves something out.
pub(crate) fn exactly(bytes: u64) -> String {
    let fits = |u: &&(char, u32)| bytes >> u.1 > 0;
    let shift = UNITS.iter().rev().find(fits).map_or(0, |u| u.1);
    match (u128::from(bytes) * 100).trailing_zeros() >= shift {
        true => rounded(bytes),
        false => format!("{} ({bytes} bytes)", rounded(bytes)),
    }
}

/// Reads a size: plain bytes, `64K`, `1.5M`, `1GiB` and so on, powers of 1024.
pub fn parse_size(text: &str) -> Result<u64> {
    text.parse::<Size>().map(|s| s.0)
}

/// Refuses a value that is not a positive multiple of `step`, and names the nearest ones.
pub(crate) fn require_multiple(what: &str, value: u64, step: u64) -> Result<()> {
    if value > 0 && value.is_multiple_of(step) {
        return Ok(());
    }
    let below = value / step * step;
    let nearest = match (below, below.checked_add(step)) {
        (0, Some(above)) => format!("the nearest is {}", Size(above)),
        (_, Some(above)) => format!("the nearest are {} and {}", Size(below), Size(above)),
        (_, None) => format!("the nearest is {}", Size(below)),
    };
    fail(format!("{what} of {} is not a multiple of {}; {nearest}", exactly(value), exactly(step)))
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
            ("1.5G", 1536 << 20, "1536MiB"),
            ("0.5MiB", 512 << 10, "512KiB"),
            ("2.0K", 2048, "2KiB"),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
            assert_eq!(Size(bytes).to_string(), back);
            assert_eq!(parse_size(back), Ok(bytes));
        }
    }

    #[test]
    fn for_people_sizes_are_rounded_down() {
        for (bytes, said) in [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1024, "1 KiB"),
            (10 << 20, "10 MiB"),
            (1536 << 20, "1.5 GiB"),
            (304_767 << 10, "297.62 MiB"),
            ((37 << 30) / 10, "3.69 GiB"),
            (u64::MAX, "16383.99 PiB"),
        ] {
            assert_eq!(rounded(bytes), said);
        }
    }

    #[test]
    fn what_is_rounded_is_said_to_the_byte_too() {
        for (bytes, said) in [
            (0, "0 bytes"),
            (5000, "4.88 KiB (5000 bytes)"),
            (4096, "4 KiB"),
            (1536 << 20, "1.5 GiB"),
            (304_767 << 10, "297.62 MiB (312081408 bytes)"),
        ] {
            assert_eq!(exactly(bytes), said);
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "K",
            "1Kib",
            "1iB",
            "1 G",
            "1KK",
            "1.G",
            ".5G",
            "1.5.5G",
            "1.00000000000000000000G",
        ] {
            let why = parse_size(text).unwrap_err().0;
            assert!(why.contains("is not a size; write bytes"), "{why}");
        }
        for (text, why) in [
            ("99999999999999999999", "smaller"),
            ("99999999P", "smaller"),
            ("1GB", "powers of 1024, and are not written GB; write 1G, which is 1GiB"),
            ("100mb", "write 100m"),
            ("+1G", "give the whole size"),
            ("-1", "give the whole size"),
            ("1.5", "not a whole number of bytes"),
            ("1.3K", "not a whole number of bytes"),
        ] {
            let said = parse_size(text).unwrap_err().0;
            assert!(said.contains(why), "{said}");
        }
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
