//! `weft volume create`.

use clap::Args;
use weft_core::layout::LayoutSpec;
use weft_host::{ControlRequest, VolumeCreation};

use crate::args::{self, Common};
use crate::choices::{Choices, ForVolumes};

/// The volume to create.
#[derive(Debug, Args)]
pub struct Create {
    /// Name of the volume
    name: String,
    /// Size, such as 1G; 'all' takes all free space (not with --thin)
    #[arg(value_parser = args::volume_size)]
    size: u64,
    /// Reserve no space: disk slots are allocated when first written, and freed when discarded
    #[arg(long)]
    thin: bool,
    /// Known host that it serves, and no others; can be repeated [default: all hosts, until one is allowed]
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    allow: Vec<String>,
    #[command(flatten)]
    kind: Kind,
    #[command(flatten)]
    common: Common,
}

/// Layout of a new volume.
#[derive(Debug, Args)]
pub struct Kind {
    #[arg(long, value_parser = args::layout, help = args::layout_help_by_default())]
    layout: Option<LayoutSpec>,
    /// Stripe unit: contiguous bytes per disk [default: 64K]
    #[arg(long, value_parser = args::size)]
    stripe_unit: Option<u64>,
    /// Failure-domain label: nodes with the same value hold at most one column of an extent; 'node' allows any nodes [default: box]
    #[arg(long, value_name = "LABEL")]
    apart: Option<String>,
    #[command(flatten)]
    choices: Choices<ForVolumes>,
}

impl Create {
    pub(super) fn common(&self) -> &Common {
        &self.common
    }

    pub(super) fn request(&self) -> ControlRequest {
        let hosts = (!self.allow.is_empty()).then(|| self.allow.clone());
        let volume = self.kind.creation(self.name.clone(), self.size, self.thin);
        ControlRequest::VolumeCreate(VolumeCreation { hosts, ..volume })
    }
}

impl Kind {
    /// A volume of this kind.
    pub(super) fn creation(&self, name: String, size: u64, thin: bool) -> VolumeCreation {
        VolumeCreation {
            name,
            size,
            thin,
            layout: self.layout.map(|l| l.to_string()),
            stripe_unit: self.stripe_unit,
            apart: self.apart.clone(),
            set: self.choices.words(),
            hosts: None,
            import: None,
        }
    }
}
