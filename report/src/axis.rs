//! Axes: from values to places, and where the marks are.

/// How values become places.
#[derive(Clone, Debug, PartialEq)]
pub enum Scale {
    /// Equal steps for equal differences.
    Linear,
    /// Equal steps for equal ratios; values at or below 0 are not drawn.
    Log,
    /// Values are 0, 1, 2 and so on, and these are their names.
    Names(Vec<String>),
}

/// An axis of a plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What it shows, with its unit.
    pub label: String,
    /// How values become places.
    pub scale: Scale,
}

impl Axis {
    /// A linear axis.
    pub fn linear(label: impl Into<String>) -> Axis {
        Axis { label: label.into(), scale: Scale::Linear }
    }

    /// A logarithmic axis.
    pub fn log(label: impl Into<String>) -> Axis {
        Axis { label: label.into(), scale: Scale::Log }
    }

    /// An axis of names.
    pub fn names(label: impl Into<String>, names: Vec<String>) -> Axis {
        Axis { label: label.into(), scale: Scale::Names(names) }
    }

    /// An axis that suits such values: logarithmic if they are positive and the largest is more
    /// than 20 times the smallest.
    pub fn suiting(label: impl Into<String>, values: impl IntoIterator<Item = f64>) -> Axis {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values {
            (low, high) = (low.min(value), high.max(value));
        }
        match low > 0.0 && high > 20.0 * low {
            true => Axis::log(label),
            false => Axis::linear(label),
        }
    }
}

/// An axis with its ends.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Range<'a> {
    scale: &'a Scale,
    low: f64,
    high: f64,
}

/// The decimal logarithm, from the same code on every machine.
fn log(value: f64) -> f64 {
    libm::log10(value)
}

impl<'a> Range<'a> {
    /// An axis for these values: rounded outwards to marks; a linear one begins at 0 if no value
    /// is below.
    pub fn new(scale: &'a Scale, values: impl Iterator<Item = f64>, from_zero: bool) -> Range<'a> {
        let drawn = |v: &f64| v.is_finite() && (*scale != Scale::Log || *v > 0.0);
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(drawn) {
            (low, high) = (low.min(value), high.max(value));
        }
        if low > high {
            (low, high) = (1.0, 1.0);
        }
        match scale {
            Scale::Names(names) => (low, high) = (-0.5, names.len() as f64 - 0.5),
            Scale::Log => {
                // To the next of 1, 2 and 5.
                low = *marks_log(low / 10.0, low).last().unwrap_or(&low);
                high = *marks_log(high, high * 10.0).first().unwrap_or(&high);
                if low == high {
                    high *= 10.0;
                }
            }
            Scale::Linear => {
                if from_zero && low > 0.0 {
                    low = 0.0;
                }
                // Of numbers that are nearly equal no step could be told from the next.
                if high - low <= high.abs() * 1e-9 {
                    high = low + (high.abs() * 1e-6).max(1.0);
                }
                // What is rounded outwards may be cut into longer steps, and has to begin at a multiple of these.
                let (least, most) = (low, high);
                let mut by = step(most - least);
                loop {
                    low = libm::floor(least / by + 1e-9) * by;
                    high = libm::ceil(most / by - 1e-9) * by;
                    let again = step(high - low);
                    if again <= by {
                        break;
                    }
                    by = again;
                }
            }
        }
        Range { scale, low, high }
    }

    /// Where a value is, from 0 to 1; `None` if it cannot be shown.
    pub fn place(&self, value: f64) -> Option<f64> {
        match self.scale {
            Scale::Log if value <= 0.0 => None,
            Scale::Log => Some((log(value) - log(self.low)) / (log(self.high) - log(self.low))),
            _ => Some((value - self.low) / (self.high - self.low)),
        }
    }

    /// Marks: their places from 0 to 1, and what is written there.
    pub fn marks(&self) -> Vec<(f64, String)> {
        let values: Vec<f64> = match self.scale {
            Scale::Names(names) => (0..names.len()).map(|n| n as f64).collect(),
            Scale::Linear => {
                let step = step(self.high - self.low);
                let count = libm::round((self.high - self.low) / step) as i64;
                (0..=count).map(|n| self.low + n as f64 * step).collect()
            }
            Scale::Log => {
                let all = marks_log(self.low, self.high);
                let decades = log(self.high / self.low);
                let wanted = |v: &f64| decades < 3.0 || first_digit(*v) == 1;
                all.into_iter().filter(wanted).collect()
            }
        };
        let text = |value: f64| match self.scale {
            Scale::Names(names) => names[value as usize].clone(),
            _ => self.with_prefix(value),
        };
        values.into_iter().filter_map(|v| Some((self.place(v)?, text(v)))).collect()
    }
}

impl Range<'_> {
    /// Whether values have names, and nothing lies between them.
    pub fn is_of_names(&self) -> bool {
        matches!(self.scale, Scale::Names(_))
    }

    /// A number with k, M or G for thousands, millions and thousands of millions: all of an axis alike, so that
    /// 5k and 10k stand on one and 5000 on another that does not reach 10,000.
    fn with_prefix(&self, value: f64) -> String {
        let thousands = if self.low.abs().max(self.high.abs()) >= 1e4 { 1e3 } else { 1e4 };
        let (size, prefix) = match value.abs() {
            v if v >= 1e9 => (1e9, "G"),
            v if v >= 1e6 => (1e6, "M"),
            v if v >= thousands => (1e3, "k"),
            _ => (1.0, ""),
        };
        crate::short(value / size) + prefix
    }
}

/// A step of 1, 2 or 5 times a power of ten that cuts a length into 4 to 10.
fn step(length: f64) -> f64 {
    let power = power(libm::floor(log(length / 4.0)) as i32);
    let steps = [1.0, 2.0, 5.0, 10.0].map(|s| s * power);
    steps.into_iter().filter(|s| length / s >= 3.999).fold(power, f64::max)
}

/// A power of ten, exact where it can be.
fn power(exponent: i32) -> f64 {
    match exponent >= 0 {
        true => (0..exponent).fold(1.0, |p, _| p * 10.0),
        false => 1.0 / (0..-exponent).fold(1.0, |p, _| p * 10.0),
    }
}

/// 1, 2 and 5 times powers of ten, from `low` to `high`.
fn marks_log(low: f64, high: f64) -> Vec<f64> {
    let exponents = libm::floor(log(low)) as i32 - 1..=libm::ceil(log(high)) as i32;
    let all = exponents.flat_map(|e| [1.0, 2.0, 5.0].map(|s| s * power(e)));
    all.filter(|v| *v >= low * (1.0 - 1e-9) && *v <= high * (1.0 + 1e-9)).collect()
}

fn first_digit(value: f64) -> i64 {
    let exponent = libm::floor(log(value) + 1e-9) as i32;
    libm::round(value / power(exponent)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(scale: Scale, values: &[f64]) -> Vec<String> {
        let range = Range::new(&scale, values.iter().copied(), true);
        range.marks().into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn marks_are_round() {
        assert_eq!(marks(Scale::Linear, &[1.0, 9.3]), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(
            marks(Scale::Linear, &[-3.0, 0.5]),
            ["-3", "-2.5", "-2", "-1.5", "-1", "-0.5", "0", "0.5"]
        );
        assert_eq!(marks(Scale::Linear, &[0.0]), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        let past_a_step = ["-1000", "-500", "0", "500", "1000", "1500"];
        assert_eq!(marks(Scale::Linear, &[-514.0, 1418.0]), past_a_step);
        assert_eq!(marks(Scale::Log, &[3.0, 60.0]), ["2", "5", "10", "20", "50", "100"]);
        let one_form = ["0", "2k", "4k", "6k", "8k", "10k", "12k", "14k"];
        assert_eq!(marks(Scale::Linear, &[14_000.0]), one_form);
        assert_eq!(marks(Scale::Linear, &[8000.0]), ["0", "2000", "4000", "6000", "8000"]);
        assert_eq!(marks(Scale::Log, &[4096.0, 1e7]), ["10k", "100k", "1M", "10M"]);
        assert_eq!(marks(Scale::Names(vec!["a".into(), "b".into()]), &[0.0, 1.0]), ["a", "b"]);
        assert_eq!(marks(Scale::Log, &[]), ["1", "2", "5", "10"]);
    }

    /// One value, so large that 1 more is the same number.
    #[test]
    fn one_large_value_has_an_axis() {
        for value in [1e17, 1e300] {
            let range = Range::new(&Scale::Linear, [value].into_iter(), false);
            assert!(range.marks().len() > 2, "{value}");
        }
        let near = Range::new(&Scale::Linear, [1e17, 1e17 + 16.0].into_iter(), false);
        assert!(near.marks().len() > 2);
    }

    #[test]
    fn places_follow_the_scale() {
        let range = Range::new(&Scale::Log, [1.0, 100.0].into_iter(), true);
        assert_eq!(range.place(10.0), Some(0.5));
        assert_eq!(range.place(0.0), None);
        let range = Range::new(&Scale::Linear, [0.0, 10.0].into_iter(), true);
        assert_eq!(range.place(2.5), Some(0.25));
        let names = Scale::Names(vec!["a".into(), "b".into()]);
        let range = Range::new(&names, [0.0, 1.0].into_iter(), true);
        assert_eq!((range.place(0.0), range.place(1.0)), (Some(0.25), Some(0.75)));
    }

    #[test]
    fn the_scale_suits_the_values() {
        assert_eq!(Axis::suiting("x", [1.0, 30.0]).scale, Scale::Log);
        assert_eq!(Axis::suiting("x", [1.0, 11.0]).scale, Scale::Linear);
        assert_eq!(Axis::suiting("x", [0.0, 30.0]).scale, Scale::Linear);
    }
}
