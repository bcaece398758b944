//! The five-column traces of DiskSim and SSDSim.
//!
//! | | 1 | 2 | 3 | 4 | 5 |
//! |---|---|---|---|---|---|
//! | DiskSim's ascii (DiskSim 4.0 manual, "input traces") | milliseconds, decimal | device | block | blocks | flags, hexadecimal; bit 0: a read |
//! | SSDSim, MQSim | nanoseconds | device | sector | sectors | 1: a read, 0: a write |

use super::{Devices, Found, Record, field};
use crate::Kind;

/// Reads a line of DiskSim's.
pub(super) fn disksim(line: &str, sector: u64, devices: &mut Devices) -> Result<Found, String> {
    let form = "milliseconds device block blocks flags";
    columns(line, sector, devices, form, 1_000_000, |flags| {
        let flags = u32::from_str_radix(flags.trim_start_matches("0x"), 16);
        let flags = flags.map_err(|_| "expected flags as a hexadecimal number".to_string())?;
        Ok(if flags & 1 == 1 { Kind::Read } else { Kind::Write })
    })
}

/// Reads a line of SSDSim's.
pub(super) fn ssdsim(line: &str, sector: u64, devices: &mut Devices) -> Result<Found, String> {
    let form = "nanoseconds device sector sectors operation";
    columns(line, sector, devices, form, 1, |operation| match operation {
        "0" => Ok(Kind::Write),
        "1" => Ok(Kind::Read),
        _ => Err(format!("expected the operation 0 (write) or 1 (read), found '{operation}'")),
    })
}

fn columns(
    line: &str,
    sector: u64,
    devices: &mut Devices,
    form: &str,
    unit: u64,
    kind: impl Fn(&str) -> Result<Kind, String>,
) -> Result<Found, String> {
    if line.is_empty() {
        return Ok(Found::Nothing);
    }
    let [at, device, block, blocks, last] = field::words(line, form)?;
    field::whole("the device", device)?;
    let counted = |name, text| field::whole(name, text).and_then(|n| field::bytes(name, n, sector));
    Ok(Found::Request(Record {
        at: field::time("the time", at, unit)?,
        device: devices.number(device),
        kind: kind(last)?,
        offset: counted("the block", block)?,
        len: counted("the length", blocks)?,
        response: None,
    }))
}

/// Writes a line of five columns.
pub(super) fn show(record: &Record, device: u32, sector: u64, unit: u64) -> Result<String, String> {
    let (block, blocks) = super::writer::sectors(record, sector)?;
    let read = u32::from(record.kind == Kind::Read);
    Ok(format!("{} {device} {block} {blocks} {read}", field::show_time(record.at, unit)))
}
