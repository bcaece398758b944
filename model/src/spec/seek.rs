//! What a seek curve means.

use super::Seek;

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
