//! Whether a parameter file's numbers can be true.

use super::{Flash, LatencyPoint, Mechanical, SpecError, Zone, collection, parameters};

/// Every number against the range of its key.
pub(super) fn ranges(table: &toml::Table) -> Result<(), SpecError> {
    table.iter().try_for_each(|(key, value)| value_in_range(key, key, value))
}

/// `key` is as in [`parameters`]; `shown` also has the indices of arrays.
fn value_in_range(key: &str, shown: &str, value: &toml::Value) -> Result<(), SpecError> {
    match value {
        toml::Value::Table(table) => table.iter().try_for_each(|(name, value)| {
            value_in_range(&format!("{key}.{name}"), &format!("{shown}.{name}"), value)
        }),
        toml::Value::Array(values) => values.iter().enumerate().try_for_each(|(index, value)| {
            value_in_range(key, &format!("{shown}[{index}]"), value)
        }),
        toml::Value::Integer(number) => number_in_range(key, shown, *number as f64),
        toml::Value::Float(number) => number_in_range(key, shown, *number),
        _ => Ok(()),
    }
}

fn number_in_range(key: &str, shown: &str, value: f64) -> Result<(), SpecError> {
    let Some(parameter) = parameters().iter().find(|p| p.key == key) else {
        // Keys that nobody knows were refused before.
        return Ok(());
    };
    if parameter.range.holds(value) {
        return Ok(());
    }
    let range = format!("{} {}", parameter.range, parameter.unit);
    Err(SpecError::Range {
        key: shown.into(),
        value: value.to_string(),
        range: range.trim_end().into(),
    })
}

fn conflict<T>(key: String, problem: String) -> Result<T, SpecError> {
    Err(SpecError::Conflict { key, problem })
}

/// What one range cannot say of a disk with a mechanism.
pub(super) fn mechanical(disk: &Mechanical) -> Result<(), SpecError> {
    let geometry = &disk.geometry;
    if geometry.zones.is_empty() {
        return conflict("geometry.zones".into(), "there must be at least one".into());
    }
    let mut next = 0;
    for (index, one) in geometry.zones.iter().enumerate() {
        zone(index, one, geometry.heads, next, geometry.cylinders)?;
        next = one.last_cylinder + 1;
    }
    seek(disk)?;
    if disk.buffer.read_ahead_bytes > disk.buffer.bytes {
        let most = disk.buffer.bytes;
        return conflict(
            "buffer.read_ahead_bytes".into(),
            format!("more than the buffer holds; buffer.bytes is {most}"),
        );
    }
    Ok(())
}

fn zone(at: usize, zone: &Zone, heads: u32, from: u32, cylinders: u32) -> Result<(), SpecError> {
    let key = |name: &str| format!("geometry.zones[{at}].{name}");
    if zone.first_cylinder < from {
        return conflict(key("first_cylinder"), format!("must be {from} or more: zones ascend"));
    }
    if zone.last_cylinder < zone.first_cylinder || zone.last_cylinder >= cylinders {
        let range = format!("must be {}..={}", zone.first_cylinder, cylinders - 1);
        return conflict(key("last_cylinder"), range);
    }
    for (name, sectors) in [
        ("track_skew", zone.track_skew),
        ("cylinder_skew", zone.cylinder_skew),
        ("first_sector_offset", zone.first_sector_offset),
    ] {
        if sectors >= zone.sectors_per_track {
            let spt = zone.sectors_per_track;
            return conflict(key(name), format!("must be less than the track's {spt} sectors"));
        }
    }
    let tracks = (zone.last_cylinder - zone.first_cylinder + 1) * heads;
    let without = u64::from(zone.unused_tracks) + u64::from(zone.spare_tracks);
    if without >= u64::from(tracks) {
        return conflict(key("spare_tracks"), format!("nothing is left of {tracks} tracks"));
    }
    if u64::from(tracks) * u64::from(zone.sectors_per_track) > u64::from(u32::MAX) {
        return conflict(key("last_cylinder"), "a zone has at most 4,294,967,295 sectors".into());
    }
    let slipped = &zone.slipped_tracks;
    if !slipped.is_sorted_by(|a, b| a < b)
        || slipped.iter().any(|&s| s >= tracks || s < zone.unused_tracks)
    {
        let range = format!("{}..{tracks}", zone.unused_tracks);
        return conflict(key("slipped_tracks"), format!("must ascend within {range}"));
    }
    if slipped.len() as u64 > u64::from(zone.spare_tracks) {
        return conflict(key("slipped_tracks"), "more than the number of spare tracks".into());
    }
    Ok(())
}

fn seek(disk: &Mechanical) -> Result<(), SpecError> {
    let (seek, cylinders) = (&disk.mechanics.seek, disk.geometry.cylinders);
    if !seek.table.is_sorted_by(|a, b| a.0 < b.0) {
        return conflict("mechanics.seek.table".into(), "distances must ascend".into());
    }
    if seek.table.is_empty() && seek.pieces.is_empty() {
        return conflict("mechanics.seek".into(), "needs a table, pieces or both".into());
    }
    for (index, piece) in seek.pieces.iter().enumerate() {
        let last = index + 1 == seek.pieces.len();
        let key = format!("mechanics.seek.pieces[{index}].up_to");
        if last && piece.up_to.is_some_and(|d| d < cylinders - 1) {
            return conflict(key, format!("the last piece must reach {}", cylinders - 1));
        }
        if !last && piece.up_to.is_none() {
            return conflict(key, "only the last piece may omit it".into());
        }
    }
    if !seek.pieces.is_sorted_by_key(|p| p.up_to.unwrap_or(u32::MAX)) {
        return conflict("mechanics.seek.pieces".into(), "must ascend by up_to".into());
    }
    for distance in 1..cylinders {
        let ms = super::seek_ms(seek, distance);
        if !(0.0..=1000.0).contains(&ms) {
            let problem = format!("{ms} ms for {distance} cylinders; it must be 0 to 1000");
            return conflict("mechanics.seek".into(), problem);
        }
    }
    Ok(())
}

/// What one range cannot say of a flash device.
pub(super) fn flash(flash: &Flash) -> Result<(), SpecError> {
    if !flash.unit_bytes.is_multiple_of(u64::from(flash.sector_bytes)) {
        return conflict("flash.unit_bytes".into(), "must be a whole number of sectors".into());
    }
    latency("flash.read_latency", &flash.read_latency)?;
    latency("flash.write_latency", &flash.write_latency)?;
    latency("flash.flush_latency", &flash.flush_latency)?;
    collection::check(flash)
}

fn latency(key: &str, points: &[LatencyPoint]) -> Result<(), SpecError> {
    let ascending = points.is_sorted_by(|a, b| a.quantile < b.quantile && a.ms <= b.ms);
    let whole = points.first().is_some_and(|p| p.quantile == 0.0)
        && points.last().is_some_and(|p| p.quantile == 1.0 || points.len() == 1);
    if ascending && whole {
        return Ok(());
    }
    let problem = "must be one point at quantile 0, or points that ascend from quantile 0 to 1";
    conflict(key.into(), problem.into())
}
