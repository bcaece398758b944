//! The array that a scenario's system is in the real world.

use anyhow::{Context, Result, anyhow};
use weft_core::units::SECTOR;
use weft_host::Spec;
use weft_sim::perf::{Layout, System};

/// What its volume is called.
pub const VOLUME: &str = "sim";

/// What a disk holds besides its part of the volume: its journal (64 MiB), extents that are
/// not full, and some.
const BESIDES: u64 = 128 << 20;

/// How large the volume is.
fn volume_bytes(system: &System) -> Result<u64> {
    system.volume.size_bytes.context("volume.size_bytes: a real volume has a size")
}

/// How large a disk is: one that is emulated, as large as that, of which the file system needs to have room
/// for no more than [`used_bytes`].
fn disk_bytes(system: &System) -> Result<u64> {
    match system.disks.emulated {
        // Nodes use whole sectors.
        true => system.disk_bytes().map(|b| b / SECTOR * SECTOR).map_err(|p| anyhow!("{p}")),
        false => used_bytes(system),
    }
}

/// How much of a disk is used.
pub fn used_bytes(system: &System) -> Result<u64> {
    let Layout(name) = &system.volume.layout;
    let spec: weft_core::layout::LayoutSpec = name.parse()?;
    let workers = u64::from(system.nodes.workers);
    let layout = spec.over(usize::from(system.nodes.workers))?;
    let size = volume_bytes(system)?;
    let geometry = weft_core::layout::Geometry::new(layout, system.volume.unit);
    let stripes = size.div_ceil(geometry.stripe_bytes());
    let column = stripes * system.volume.unit * layout.width() as u64 / workers;
    // For each sector of 4,096 bytes 16 in the table, and a little.
    Ok((column + column / 128 + BESIDES).next_multiple_of(1 << 20))
}

/// The array.
pub fn spec(system: &System) -> Result<Spec> {
    let volume = &system.volume;
    let size = volume_bytes(system)?;
    Ok(Spec {
        nodes: Some(usize::from(system.nodes.workers)),
        disk_size: Some(disk_bytes(system)?),
        queue: None,
        preallocate: None,
        volumes: vec![(VOLUME.to_string(), size)],
        layout: Some(volume.layout.0.parse()?),
        stripe_unit: Some(volume.unit),
        policy: system.policy().settings(),
        apart: None,
    })
}
