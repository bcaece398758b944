//! How long the arm takes to move.

use weft_core::units::Nanos;

use super::nanos;
use crate::spec::Seek;

/// The seek time in milliseconds for a distance of at least one cylinder. `seek` must have a
/// table or pieces.
pub(crate) fn seek_ms(seek: &Seek, distance: u32) -> f64 {
    let in_table = seek.table.last().is_some_and(|last| distance <= last.0);
    if in_table || seek.pieces.is_empty() {
        return interpolate(&seek.table, distance);
    }
    let piece = seek.pieces.iter().find(|p| p.up_to.is_none_or(|most| distance <= most));
    let piece = piece.or(seek.pieces.last()).expect("a table or pieces");
    let d = f64::from(distance);
    piece.constant_ms + piece.sqrt_ms * d.sqrt() + piece.linear_ms * d
}

/// Straight lines between the points, and on beyond the ends.
fn interpolate(table: &[(u32, f64)], distance: u32) -> f64 {
    let [only] = table else {
        let above = table.partition_point(|point| point.0 < distance).clamp(1, table.len() - 1);
        let (a, b) = (table[above - 1], table[above]);
        let share = (f64::from(distance) - f64::from(a.0)) / (f64::from(b.0) - f64::from(a.0));
        return a.1 + share * (b.1 - a.1);
    };
    only.1
}

/// Seek times for all distances of a disk of so many cylinders; none for a distance of 0.
pub(super) fn curve(seek: &Seek, cylinders: u32) -> Vec<Nanos> {
    let times = (1..cylinders).map(|distance| nanos(seek_ms(seek, distance)));
    std::iter::once(0).chain(times).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Device, builtin};

    fn of(name: &str) -> (Vec<Nanos>, Vec<u32>) {
        let Device::Mechanical(disk) = builtin(name).unwrap().device else { unreachable!() };
        let zones = disk.geometry.zones;
        let with_data = zones.iter().flat_map(|z| z.first_cylinder..=z.last_cylinder).collect();
        (curve(&disk.mechanics.seek, disk.geometry.cylinders), with_data)
    }

    /// Over all pairs of the cylinders, pairs of equals among them.
    fn mean_ms(curve: &[Nanos], cylinders: &[u32]) -> f64 {
        let mut sum = 0.0;
        for a in cylinders {
            sum += cylinders.iter().map(|b| curve[a.abs_diff(*b) as usize] as f64).sum::<f64>();
        }
        sum / (cylinders.len() as f64).powi(2) / 1e6
    }

    #[test]
    fn table_vi() {
        // By a sum over all pairs, apart from this program.
        let (curve, with_data) = of("hp97560-tickertaip");
        let all: Vec<u32> = (0..1962).collect();
        assert!((mean_ms(&curve, &all) - 12.6123).abs() < 0.0005);
        assert!((mean_ms(&curve, &with_data) - 12.5986).abs() < 0.0005);
        assert!((curve[1961] as f64 / 1e6 - 23.07).abs() < 0.005);
    }

    #[test]
    fn ruemmler_and_wilkes() {
        let (curve, with_data) = of("hp97560");
        let all: Vec<u32> = (0..1962).collect();
        assert!((mean_ms(&curve, &all) - 12.8318).abs() < 0.0005);
        assert!((mean_ms(&curve, &with_data) - 12.8177).abs() < 0.0005);
        assert_eq!((curve[1], curve[400]), (3_640_000, 11_200_000));
    }

    #[test]
    fn tables_are_interpolated_and_then_left_to_the_formula() {
        let curve = of("hp-c2247a").0;
        assert_eq!((curve[1], curve[10]), (2_890_000, 4_990_000));
        assert_eq!(curve[16], nanos(3.81 + 0.33 * 4.0));
        let curve = of("hp-c3323a").0;
        assert_eq!(curve[11], nanos((2.7585 + 2.6139) / 2.0));
        // The last line goes on.
        assert_eq!(curve[2981], nanos(18.1161 + 5.0 * (18.1161 - 17.8122) / 76.0));
    }
}
