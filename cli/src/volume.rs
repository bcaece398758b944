//! `weft volume`: creates, lists, shows and deletes volumes.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::Value;
use weft_core::layout::LayoutSpec;
use weft_host::{Request, Size};

use crate::args::{self, Common, Dispatch, Switch};
use crate::output::{align_right, say, say_json, table, uri};

/// What to do about volumes.
#[derive(Debug, Subcommand)]
pub enum Volume {
    /// Add a volume
    Create(Create),
    /// All volumes
    List(Common),
    /// One volume, and how hosts reach it
    Show(Named),
    /// Make a volume larger while it is in use; hosts see the new size when they connect again
    Resize(Resize),
    /// Remove a volume that no host uses, with all that is on it
    Delete(Named),
}

/// The volume to create.
#[derive(Debug, Args)]
pub struct Create {
    /// Name of the volume
    name: String,
    /// Size, such as 1G; 'all' takes all the room that is left
    #[arg(value_parser = args::volume_size)]
    size: u64,
    /// raid0, raid1, raid4, raid5 (or raid5:left-asymmetric and the like), raid6 or rs:K+M, by default raid5
    #[arg(long, value_parser = args::layout)]
    layout: Option<LayoutSpec>,
    /// Bytes on one disk before the next one's turn [default: 64K]
    #[arg(long, value_parser = args::size)]
    stripe_unit: Option<u64>,
    /// Whether writes go to a journal before they are voted on [default: on]
    #[arg(long)]
    journal: Option<Switch>,
    /// Who works out what each node does for a write: itself, or the originator (as a central controller would)
    #[arg(long, default_value = "collaborative")]
    dispatch: Dispatch,
    /// Label of the failure domains: no two columns of an extent go to nodes with the same value; 'node' means any nodes [default: box]
    #[arg(long, value_name = "LABEL")]
    apart: Option<String>,
    #[command(flatten)]
    common: Common,
}

/// The volume to make larger.
#[derive(Debug, Args)]
pub struct Resize {
    /// Name of the volume
    name: String,
    /// New size, such as 2G
    #[arg(value_parser = args::size)]
    size: u64,
    #[command(flatten)]
    common: Common,
}

/// A volume by its name.
#[derive(Debug, Args)]
pub struct Named {
    /// Name of the volume
    name: String,
    #[command(flatten)]
    common: Common,
}

impl Volume {
    /// Asks the array, and says what it answered.
    pub fn run(&self) -> Result<ExitCode> {
        let (common, request) = self.request();
        let mut control = common.target.connect()?;
        let answer = control.request(&request)?;
        if common.json {
            say_json(answer)?;
            return Ok(ExitCode::SUCCESS);
        }
        match self {
            Volume::List(_) => {
                say(volumes(answer["volumes"].as_array().map_or(&[], Vec::as_slice)))?
            }
            Volume::Delete(named) => say(format!("volume {} is deleted", named.name))?,
            Volume::Create(_) | Volume::Show(_) | Volume::Resize(_) => {
                let status = control.request(&Request::Status)?;
                say(volumes(std::slice::from_ref(&answer["volume"])))?;
                for listen in status["listens"].as_array().into_iter().flatten() {
                    let name = answer["volume"]["name"].as_str().unwrap_or_default();
                    say(uri(listen.as_str().unwrap_or_default(), name))?;
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn request(&self) -> (&Common, Request) {
        match self {
            Volume::Create(c) => {
                let request = Request::VolumeCreate {
                    name: c.name.clone(),
                    size: c.size,
                    layout: c.layout.map(|l| l.to_string()),
                    stripe_unit: c.stripe_unit,
                    journal: c.journal.map(Switch::is_on),
                    commanded: c.dispatch == Dispatch::Commanded,
                    apart: c.apart.clone(),
                };
                (&c.common, request)
            }
            Volume::Resize(r) => {
                (&r.common, Request::VolumeResize { name: r.name.clone(), size: r.size })
            }
            Volume::List(list) => (list, Request::VolumeList),
            Volume::Show(n) => (&n.common, Request::VolumeShow { name: n.name.clone() }),
            Volume::Delete(n) => (&n.common, Request::VolumeDelete { name: n.name.clone() }),
        }
    }
}

/// A table of volumes as the array describes them.
pub fn volumes(list: &[Value]) -> String {
    if list.is_empty() {
        return "no volumes; make one with `weft volume create NAME SIZE`".to_string();
    }
    let mut table =
        table(["volume", "size", "layout", "unit", "journal", "mode", "survives", "hosts"]);
    let size = |v: &Value| v.as_u64().map_or("?".to_string(), |n| Size(n).to_string());
    let text = |v: &Value| v.as_str().unwrap_or("?").to_string();
    for v in list {
        table.add_row([
            text(&v["name"]),
            size(&v["size"]),
            text(&v["layout"]),
            size(&v["stripe_unit"]),
            if v["journal"] == true { "on" } else { "off" }.to_string(),
            text(&v["mode"]),
            survives(v),
            v["clients"].to_string(),
        ]);
    }
    align_right(&mut table, [1, 3, 7]);
    table.to_string()
}

/// What a volume bears to lose, in words.
pub fn survives(volume: &Value) -> String {
    match volume["survives"].as_u64() {
        Some(1) => "1 more node lost".to_string(),
        Some(n) if n > 0 => format!("{n} more nodes lost"),
        _ => "no more losses".to_string(),
    }
}
