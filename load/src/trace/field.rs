//! Fields of text traces: whole numbers, decimal times, kinds. Times are never floats, so that
//! nothing is lost however late they are.

use crate::{Kind, Nanos};

/// A whole number.
pub(super) fn whole(name: &str, text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("expected {name} as a whole number, found '{text}'"))
}

/// A time such as `12` or `0.000125`, in units of so many nanoseconds. Digits beyond a nanosecond
/// are cut off.
pub(super) fn time(name: &str, text: &str, unit: Nanos) -> Result<Nanos, String> {
    decimal(text, unit).ok_or_else(|| {
        format!("expected {name} as a decimal number from 0 on, without exponent, found '{text}'")
    })
}

fn decimal(text: &str, unit: Nanos) -> Option<Nanos> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() && fraction.is_empty() || !digits(whole) || !digits(fraction) {
        return None;
    }
    let mut nanos = match whole {
        "" => 0,
        _ => whole.parse::<u64>().ok()?.checked_mul(unit)?,
    };
    let mut place = unit;
    for digit in fraction.bytes() {
        // A unit is a power of ten, so that places below a nanosecond have worth 0.
        place /= 10;
        nanos = nanos.checked_add(u64::from(digit - b'0') * place)?;
    }
    Some(nanos)
}

/// Writes a time in units of so many nanoseconds, a power of ten, without losing any.
pub(super) fn show_time(nanos: Nanos, unit: Nanos) -> String {
    let digits = unit.ilog10() as usize;
    match digits {
        0 => nanos.to_string(),
        _ => format!("{}.{:0digits$}", nanos / unit, nanos % unit),
    }
}

/// A product of a count and the bytes that each has.
pub(super) fn bytes(name: &str, count: u64, each: u64) -> Result<u64, String> {
    count.checked_mul(each).ok_or_else(|| format!("{name} {count} is beyond 2^64 bytes"))
}

/// Reads a kind: `R`, `W` or `F`, or their words, in any case.
pub(super) fn kind(text: &str) -> Result<Kind, String> {
    let is = |names: [&str; 2]| names.iter().any(|n| text.eq_ignore_ascii_case(n));
    match text {
        _ if is(["R", "Read"]) => Ok(Kind::Read),
        _ if is(["W", "Write"]) => Ok(Kind::Write),
        _ if is(["F", "Flush"]) => Ok(Kind::Flush),
        _ => Err(format!("expected R, W or F, found '{text}'")),
    }
}

/// Whether a word says that content is given up, which no replay can do.
pub(super) fn is_trim(text: &str) -> bool {
    ["T", "Trim", "D", "Discard", "Unmap"].iter().any(|word| word.eq_ignore_ascii_case(text))
}

/// The fields of a line, which must be exactly so many, between white space.
pub(super) fn words<'a, const N: usize>(line: &'a str, form: &str) -> Result<[&'a str; N], String> {
    let mut found = line.split_ascii_whitespace();
    let mut fields = [""; N];
    for field in &mut fields {
        *field = found.next().ok_or_else(|| format!("expected '{form}', found '{line}'"))?;
    }
    match found.next() {
        None => Ok(fields),
        Some(_) => Err(format!("expected '{form}', found '{line}'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact() {
        assert_eq!(decimal("603064.588892", 1_000_000_000), Some(603_064_588_892_000));
        assert_eq!(decimal("14095.370", 1000), Some(14_095_370));
        assert_eq!(decimal("0.1234567899", 1_000_000_000), Some(123_456_789));
        assert_eq!((decimal(".5", 1000), decimal("7.", 1)), (Some(500), Some(7)));
        for bad in ["", ".", "-1", "1e3", "1.2.3", "99999999999999999999", "18446744074"] {
            assert_eq!(decimal(bad, 1_000_000_000), None, "{bad}");
        }
        assert_eq!(show_time(123_456_789, 1_000_000), "123.456789");
        assert_eq!(show_time(5, 1), "5");
        assert_eq!(show_time(1_000_000_007, 1_000_000_000), "1.000000007");
    }
}
