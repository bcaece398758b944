//! A device's numbers: parameter files, the ones that come with Weft, and what each key means.
//!
//! A parameter file is TOML. `name`, `about` and `[bus]` are for every device; a disk with a
//! mechanism has `[geometry]`, `[mechanics]`, `[controller]` and `[buffer]`; a device without
//! has `[fixed]` or `[flash]` instead, the latter with `[flash.collection]` if it collects garbage.
//! [`parameters`] documents every key.

mod builtin;
mod check;
mod collection;
mod file;
mod parameters;
mod seek;

pub use builtin::{builtin, builtins};
pub(crate) use collection::Sizes;
pub use collection::{Collection, Start};
pub use file::{
    Buffer, Bus, Controller, Fixed, Flash, Geometry, LatencyPoint, Mechanics, ReadAheadTo, Seek,
    SeekPiece, Zone,
};
pub use parameters::{Parameter, Range, describe, parameters};
pub(crate) use seek::seek_ms;

use file::File;

/// What is wrong with a parameter file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// It is not TOML, has a key that there is none, or a value of the wrong kind. The text
    /// shows the line.
    #[error("{0}")]
    Syntax(String),
    /// A number outside its range.
    #[error("{key} is {value}; it must be {range}")]
    Range {
        /// The key, with the index of an array's element.
        key: String,
        /// What it is.
        value: String,
        /// What it may be.
        range: String,
    },
    /// Values that do not fit each other.
    #[error("{key}: {problem}")]
    Conflict {
        /// The key at fault.
        key: String,
        /// What is wrong, and what would do.
        problem: String,
    },
    /// There is no parameter file of this name.
    #[error("there is no disk '{name}'; there are {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
}

/// A device, as its parameter file describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// Its name.
    pub name: String,
    /// One line on what it is.
    pub about: String,
    /// What kind of device it is, with its numbers.
    pub device: Device,
    /// The bus to its host.
    pub bus: Bus,
}

/// The kinds of device.
#[derive(Clone, Debug, PartialEq)]
pub enum Device {
    /// A disk with arm, heads and rotation.
    Mechanical(Box<Mechanical>),
    /// Every access takes the same time to position, then transfers at one rate.
    Fixed(Fixed),
    /// Channels of flash memory.
    Flash(Flash),
}

/// A disk with arm, heads and rotation.
#[derive(Clone, Debug, PartialEq)]
pub struct Mechanical {
    /// Where sectors are.
    pub geometry: Geometry,
    /// How the arm and the platters move.
    pub mechanics: Mechanics,
    /// What the electronics cost.
    pub controller: Controller,
    /// The track buffer.
    pub buffer: Buffer,
}

impl Spec {
    /// Reads a parameter file.
    pub fn parse(text: &str) -> Result<Spec, SpecError> {
        let file: File = toml::from_str(text).map_err(|e| SpecError::Syntax(e.to_string()))?;
        let table: toml::Table =
            toml::from_str(text).map_err(|e| SpecError::Syntax(e.to_string()))?;
        check::ranges(&table)?;
        let spec = file.into_spec()?;
        if let Device::Mechanical(disk) = &spec.device {
            check::mechanical(disk)?;
        }
        if let Device::Flash(flash) = &spec.device {
            check::flash(flash)?;
        }
        Ok(spec)
    }
}

#[cfg(test)]
mod tests;
