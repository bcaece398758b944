//! What an array is asked to be.

use weft_core::cluster::APART;
use weft_core::layout::LayoutSpec;
use weft_core::policy::{Policy, Setting};
use weft_core::units::{MAX_NODES, SECTOR};

use crate::disk::options::DiskOptions;
use crate::disk::queue::DiskQueue;
use crate::error::{Result, fail};
use crate::size::require_multiple;

/// What an array is asked to be. What is left open takes its default when the array is
/// made; of one that is there already, only what is given is compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spec {
    /// Number of nodes, each with one disk; 5 if open.
    pub nodes: Option<usize>,
    /// Size of each disk; 1 GiB if open.
    pub disk_size: Option<u64>,
    /// How the disks' queues are served, first come, first served if open. Of an array that is
    /// there already it is changed, since nothing on the disks depends on it.
    pub queue: Option<DiskQueue>,
    /// Whether the disks' files are allocated whole; not if open. Also changed of an array that is there already.
    pub preallocate: Option<bool>,
    /// Volumes by name and size; a size of 0 takes all the room that is left. If there is
    /// none, one called `vol0` gets all the room.
    pub volumes: Vec<(String, u64)>,
    /// Layout of the volumes; RAID 5 if open.
    pub layout: Option<LayoutSpec>,
    /// Stripe unit of the volumes; 64 KiB if open.
    pub stripe_unit: Option<u64>,
    /// What volumes made now choose otherwise than usual (see [`weft_core::policy::CHOICES`]).
    pub policy: Vec<Setting>,
    /// The label of the failure domains that a volume's columns are kept apart by; `box` if
    /// open.
    pub apart: Option<String>,
}

impl Spec {
    /// Number of nodes, or the default.
    pub fn nodes(&self) -> usize {
        self.nodes.unwrap_or(5)
    }

    /// Disk size, or the default.
    pub fn disk_size(&self) -> u64 {
        self.disk_size.unwrap_or(1 << 30)
    }

    /// Layout, or the default.
    pub fn layout(&self) -> LayoutSpec {
        self.layout.unwrap_or_default()
    }

    /// Stripe unit, or the default.
    pub fn stripe_unit(&self) -> u64 {
        self.stripe_unit.unwrap_or(64 << 10)
    }

    /// The disks' options, over those chosen before.
    pub fn disk_options_over(&self, before: DiskOptions) -> DiskOptions {
        let queue = self.queue.unwrap_or(before.queue);
        DiskOptions { queue, preallocate: self.preallocate.unwrap_or(before.preallocate) }
    }

    /// How volumes made now are dealt with.
    pub(crate) fn policy(&self) -> Policy {
        Policy::default().with(self.policy.iter().copied())
    }

    /// The label of failure domains, or the default.
    pub fn apart(&self) -> &str {
        self.apart.as_deref().unwrap_or(APART)
    }

    /// The volumes, or the default one.
    pub fn volumes(&self) -> Vec<(String, u64)> {
        match self.volumes.is_empty() {
            true => vec![("vol0".to_string(), 0)],
            false => self.volumes.clone(),
        }
    }

    /// Refuses what no array can be.
    pub(crate) fn validate(&self) -> Result<()> {
        let nodes = self.nodes();
        if nodes == 0 || nodes > MAX_NODES {
            return fail(format!("an array cannot have {nodes} nodes; choose 1 to {MAX_NODES}"));
        }
        require_multiple("a disk size", self.disk_size(), SECTOR)?;
        require_multiple("a stripe unit", self.stripe_unit(), SECTOR)
    }
}
