//! What all disks of a kind have in common.

use std::sync::Arc;

use weft_core::units::Nanos;

use super::bus::Bus;
use super::geometry::Geometry;
use super::mechanical;
use crate::spec::{self, Device, Spec};

/// A kind of disk, ready for use; one serves all disks of its kind.
#[derive(Clone, Debug)]
pub struct Model {
    pub(super) device: DeviceModel,
    pub(super) bus: spec::Bus,
}

#[derive(Clone, Debug)]
pub(super) enum DeviceModel {
    Mechanical(Arc<mechanical::Model>),
    Fixed(spec::Fixed),
    Flash(spec::Flash),
}

impl Model {
    /// Works out what is needed again and again.
    pub fn new(spec: &Spec) -> Self {
        let device = match &spec.device {
            Device::Mechanical(disk) => {
                DeviceModel::Mechanical(Arc::new(mechanical::Model::new(disk, &spec.bus)))
            }
            Device::Fixed(fixed) => DeviceModel::Fixed(fixed.clone()),
            Device::Flash(flash) => DeviceModel::Flash(flash.clone()),
        };
        Model { device, bus: spec.bus.clone() }
    }

    /// How many sectors there are.
    pub fn sectors(&self) -> u64 {
        match &self.device {
            DeviceModel::Mechanical(disk) => disk.mechanism.geometry.sectors(),
            DeviceModel::Fixed(fixed) => fixed.capacity_bytes / u64::from(fixed.sector_bytes),
            DeviceModel::Flash(flash) => flash.capacity_bytes / u64::from(flash.sector_bytes),
        }
    }

    /// Bytes in a sector.
    pub fn sector_bytes(&self) -> u64 {
        match &self.device {
            DeviceModel::Mechanical(disk) => disk.sector_bytes,
            DeviceModel::Fixed(fixed) => fixed.sector_bytes.into(),
            DeviceModel::Flash(flash) => flash.sector_bytes.into(),
        }
    }

    /// The layout of its sectors, if it is a disk with a mechanism.
    pub fn geometry(&self) -> Option<&Geometry> {
        match &self.device {
            DeviceModel::Mechanical(disk) => Some(&disk.mechanism.geometry),
            _ => None,
        }
    }

    /// One revolution in nanoseconds, if it is a disk with a mechanism.
    pub fn revolution(&self) -> Option<Nanos> {
        match &self.device {
            DeviceModel::Mechanical(disk) => Some(disk.mechanism.period),
            _ => None,
        }
    }

    /// A bus such as the parameter file describes, for several disks to share.
    pub fn new_bus(&self) -> Bus {
        Bus::shared(&self.bus)
    }
}
