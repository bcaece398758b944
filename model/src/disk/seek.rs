//! How long the arm takes to move.

use weft_core::units::Nanos;

use super::nanos;
use crate::spec::{Seek, seek_ms};

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
