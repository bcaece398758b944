//! Numbers for people.

/// Numbers closer to 0 than this have an exponent.
const SMALL: f64 = 1e-4;
/// Numbers from this on have one.
const LARGE: f64 = 1e15;

/// A number with four significant digits and all digits of its whole part, without zeros at the
/// end of its fraction. Very small and very large numbers have an exponent.
pub fn short(number: f64) -> String {
    if !number.is_finite() {
        return number.to_string();
    }
    if number != 0.0 && !(SMALL..LARGE).contains(&number.abs()) {
        let text = format!("{number:.3e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        return format!("{}e{exponent}", digits.trim_end_matches('0').trim_end_matches('.'));
    }
    let whole = libm::floor(libm::log10(number.abs().max(SMALL))) as i32 + 1;
    let text = format!("{number:.*}", (4 - whole).clamp(0, 9) as usize);
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    if text == "-0" { "0".into() } else { text.into() }
}

/// A coordinate, in hundredths.
pub(crate) fn coordinate(number: f64) -> String {
    let text = format!("{number:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".into() } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_digits_count() {
        for (number, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (0.123_456, "0.1235"),
            (12.345_6, "12.35"),
            (1_234_567.8, "1234568"),
            (-0.000_123_46, "-0.0001235"),
            (-0.000_012_346, "-1.235e-5"),
            (7.5e-12, "7.5e-12"),
            (1e15, "1e15"),
            (999_999_999_999_999.0, "999999999999999"),
            (100.0, "100"),
            (99.999_9, "100"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(short(number), text);
        }
        assert_eq!((coordinate(-0.001), coordinate(10.50)), ("0".into(), "10.5".into()));
    }
}
