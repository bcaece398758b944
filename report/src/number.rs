//! Numbers for people.

/// A number with four significant digits and all digits of its whole part, without zeros at the
/// end of its fraction.
pub fn short(number: f64) -> String {
    if !number.is_finite() {
        return number.to_string();
    }
    let whole = libm::floor(libm::log10(number.abs().max(1e-6))) as i32 + 1;
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
            (-0.000_012_346, "-0.00001235"),
            (100.0, "100"),
            (99.999_9, "100"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(short(number), text);
        }
        assert_eq!((coordinate(-0.001), coordinate(10.50)), ("0".into(), "10.5".into()));
    }
}
