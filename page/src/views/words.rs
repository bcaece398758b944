//! Numbers for people.

/// A number of bytes.
pub(super) fn bytes(n: u64) -> String {
    const UNITS: [&str; 6] = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut unit = 0;
    let mut value = n as f64;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        (value, unit) = (value / 1024.0, unit + 1);
    }
    match unit {
        0 => format!("{n} bytes"),
        _ if value < 10.0 => format!("{value:.2} {}", UNITS[unit]),
        _ if value < 100.0 => format!("{value:.1} {}", UNITS[unit]),
        _ => format!("{value:.0} {}", UNITS[unit]),
    }
}

/// A share in percent.
pub(super) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

/// A time in its two largest units.
pub(super) fn seconds(n: u64) -> String {
    match n {
        0..60 => format!("{n} s"),
        60..3600 => format!("{} min {} s", n / 60, n % 60),
        3600..86_400 => format!("{} h {} min", n / 3600, n % 3600 / 60),
        _ => format!("{} d {} h", n / 86_400, n % 86_400 / 3600),
    }
}

/// A time in milliseconds.
pub(super) fn milliseconds(ms: f64) -> String {
    match ms {
        _ if ms < 1.0 => format!("{:.0} µs", ms * 1000.0),
        _ if ms < 100.0 => format!("{ms:.1} ms"),
        _ if ms < 10_000.0 => format!("{ms:.0} ms"),
        _ => format!("{:.0} s", ms / 1000.0),
    }
}

/// A rate, to three digits.
pub(super) fn rate(n: f64) -> String {
    match n {
        _ if n < 10.0 => format!("{n:.1}"),
        _ if n < 10_000.0 => format!("{n:.0}"),
        _ if n < 1e6 => format!("{:.1} k", n / 1e3),
        _ => format!("{:.1} M", n / 1e6),
    }
}

/// A stamp of the log without its letters and fractions.
pub(super) fn time(stamp: &str) -> String {
    stamp.split('.').next().unwrap_or(stamp).replacen('T', " ", 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let said = [0, 1023, 1024, 1536 << 20, 100 << 40, u64::MAX].map(bytes);
        assert_eq!(said, ["0 bytes", "1023 bytes", "1.00 KiB", "1.50 GiB", "100 TiB", "16384 PiB"]);
        assert_eq!(
            [5, 65, 3661, 90_000].map(seconds),
            ["5 s", "1 min 5 s", "1 h 1 min", "1 d 1 h"]
        );
        let said = [0.25, 1.26, 250.4, 12_345.0].map(milliseconds);
        assert_eq!(said, ["250 µs", "1.3 ms", "250 ms", "12 s"]);
        assert_eq!([0.0, 12.3, 12_345.0, 2.5e6].map(rate), ["0.0", "12", "12.3 k", "2.5 M"]);
        assert_eq!(time("2026-01-02T03:04:05.678Z"), "2026-01-02 03:04:05");
        assert_eq!((percent(1, 0), percent(1, 4)), (0.0, 25.0));
    }
}
