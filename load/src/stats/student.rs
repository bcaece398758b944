//! Quantiles of Student's t distribution, for confidence intervals.

use std::f64::consts::PI;

/// The t with which a two-sided interval at confidence `level` is drawn: the probability that
/// |T| is at most t is `level`. `degrees` of freedom, at least 1: one less than replications.
pub fn student_t(degrees: u64, level: f64) -> f64 {
    assert!(degrees >= 1, "Student's t needs a degree of freedom");
    assert!((0.0..1.0).contains(&level), "a confidence of {level} is not in 0..1");
    let mut high = 1.0;
    while within(high, degrees) < level {
        high *= 2.0;
    }
    let mut low = 0.0;
    // Halving until neighbours meet: at most as many steps as a float has bits.
    loop {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            return high;
        }
        match within(middle, degrees) < level {
            true => low = middle,
            false => high = middle,
        }
    }
}

/// The probability that |T| is at most `t`: the finite series of Abramowitz and Stegun,
/// "Handbook of Mathematical Functions", 26.7.3 and 26.7.4.
fn within(t: f64, degrees: u64) -> f64 {
    let n = degrees as f64;
    let (sine, cosine) = (t / (n + t * t).sqrt(), (n / (n + t * t)).sqrt());
    let odd = degrees % 2 == 1;
    // Terms have even powers of the cosine from 0 for even degrees, odd ones from 1 for odd.
    let (mut term, mut at) = if odd { (cosine, 2.0) } else { (1.0, 1.0) };
    let mut sum = 0.0;
    for _ in 0..degrees / 2 {
        sum += term;
        term *= cosine * cosine * at / (at + 1.0);
        at += 2.0;
    }
    match odd {
        true => 2.0 / PI * (libm::atan(t / n.sqrt()) + sine * sum),
        false => sine * sum,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the printed table of the two-sided 90, 95 and 99 % points.
    #[test]
    fn agrees_with_the_printed_table() {
        for (degrees, points) in [
            (1, [6.314, 12.706, 63.657]),
            (2, [2.920, 4.303, 9.925]),
            (3, [2.353, 3.182, 5.841]),
            (4, [2.132, 2.776, 4.604]),
            (5, [2.015, 2.571, 4.032]),
            (9, [1.833, 2.262, 3.250]),
            (10, [1.812, 2.228, 3.169]),
            (19, [1.729, 2.093, 2.861]),
            (30, [1.697, 2.042, 2.750]),
            (120, [1.658, 1.980, 2.617]),
            (100_000, [1.645, 1.960, 2.576]),
        ] {
            for (level, t) in [0.90, 0.95, 0.99].into_iter().zip(points) {
                let ours = student_t(degrees, level);
                assert!((ours - t).abs() < 0.000_51, "{degrees} at {level}: {ours}, not {t}");
            }
        }
    }

    #[test]
    fn the_quantile_undoes_the_distribution() {
        for degrees in 1..60 {
            for level in [0.0, 0.1, 0.5, 0.9, 0.999] {
                assert!((within(student_t(degrees, level), degrees) - level).abs() < 1e-12);
            }
        }
    }
}
