//! `weft disk`: lists disks, declares one lost, and replaces one by an empty one.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use weft_host::{DiskAction, Request};

use crate::args::Common;
use crate::output::{align_right, bytes, say, say_json, table};

/// What to do about disks.
#[derive(Debug, Subcommand)]
pub enum Disk {
    /// All disks
    List(Common),
    /// Declare the disk of a node lost, and rebuild what was on it on other disks that have room; the node is killed if it runs
    Fail(Which),
    /// Put an empty disk in the place of one whose node is down, and rebuild what was on it; the old one is deleted
    Replace(Which),
}

/// Which disk.
#[derive(Debug, Args)]
pub struct Which {
    /// Number of the node that has the disk, from 0
    node: usize,
    #[command(flatten)]
    common: Common,
}

impl Disk {
    /// Does it, and returns when it has begun.
    pub fn run(&self) -> Result<ExitCode> {
        let (action, which) = match self {
            Disk::List(common) => return list(common),
            Disk::Fail(which) => (DiskAction::Fail, which),
            Disk::Replace(which) => (DiskAction::Replace, which),
        };
        let request = Request::Disk { action, node: which.node };
        let answer = which.common.target.connect()?.request(&request)?;
        if which.common.json {
            say_json(answer)?;
        } else {
            let done = match action {
                DiskAction::Fail => "counts as lost; what was on it is rebuilt where there is room",
                DiskAction::Replace => "is an empty one now, and is being filled",
            };
            say(format!(
                "the disk of node {} {done} (map {}); 'weft status --watch' shows how far it is",
                which.node, answer["epoch"]
            ))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Shows all disks.
fn list(common: &Common) -> Result<ExitCode> {
    let status = common.target.connect()?.request(&Request::Status)?;
    let disks: Vec<Value> =
        status["nodes"].as_array().into_iter().flatten().map(described).collect();
    if common.json {
        say_json(json!({ "disks": disks }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = table(["node", "disk", "size", "state", "behind"]);
    for disk in &disks {
        let text = |key: &str| disk[key].as_str().unwrap_or("-").to_string();
        let amount = |key: &str| disk[key].as_u64().map_or("-".to_string(), bytes);
        let node = disk["node"].to_string();
        table.add_row([node, text("disk"), amount("bytes"), text("state"), amount("behind_bytes")]);
    }
    align_right(&mut table, [0, 2, 4]);
    say(table)?;
    Ok(ExitCode::SUCCESS)
}

/// What is said of a disk, out of what the status says of its node.
fn described(node: &Value) -> Value {
    json!({
        "node": node["node"],
        "disk": node["disk"],
        "bytes": node["disk_bytes"],
        "state": node["state"],
        "behind_bytes": node["stale_sectors"].as_u64().map(|n| n * weft_core::SECTOR),
    })
}
