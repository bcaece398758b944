//! `weft disk`: lists disks, adds one, declares one lost, replaces one by an empty one, and drains
//! one.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use weft_host::{Control, DiskAction, Request};

use crate::args::Common;
use crate::output::{Counts, Stage, align_right, bytes, say, say_json, table};

/// How often one looks how far it is.
const EVERY: Duration = Duration::from_millis(200);

/// What to do about disks.
#[derive(Debug, Subcommand)]
pub enum Disk {
    /// All disks
    List(Common),
    /// Add a node with an empty disk, as large as the others, to an array in one process (`weft up`)
    Add(Common),
    /// Declare the disk of a node lost, and rebuild what was on it on other disks that have room; the node is killed if it runs
    Fail(Which),
    /// Put an empty disk in the place of one whose node is down, and rebuild what was on it; the old one is deleted
    Replace(Which),
    /// Move what is on a disk that works to others while hosts go on, and use it no more; waits until it is empty (Ctrl-C ends the waiting only)
    Drain(Drain),
}

/// The disk to drain.
#[derive(Debug, Args)]
pub struct Drain {
    #[command(flatten)]
    which: Which,
    /// Do not wait
    #[arg(long)]
    no_wait: bool,
    /// Leave on it what is still there, and use it again
    #[arg(long)]
    cancel: bool,
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
            Disk::Add(common) => return add(common),
            Disk::Fail(which) => (DiskAction::Fail, which),
            Disk::Replace(which) => (DiskAction::Replace, which),
            Disk::Drain(drain) => return drain.run(),
        };
        let request = Request::Disk { action, node: which.node };
        let answer = which.common.target.connect()?.request(&request)?;
        if which.common.json {
            say_json(answer)?;
        } else {
            let done = match action {
                DiskAction::Fail => "counts as lost; what was on it is rebuilt where there is room",
                _ => "is an empty one now, and is being filled",
            };
            say(format!(
                "the disk of node {} {done} (map {}); 'weft status --watch' shows how far it is",
                which.node, answer["epoch"]
            ))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Drain {
    /// Begins it, and waits until the disk is empty.
    pub fn run(&self) -> Result<ExitCode> {
        let (node, common) = (self.which.node, &self.which.common);
        let action = if self.cancel { DiskAction::Undrain } else { DiskAction::Drain };
        let mut control = common.target.connect()?;
        let answer = control.request(&Request::Disk { action, node })?;
        if !self.cancel && !self.no_wait {
            wait_until_empty(&mut control, node)?;
        }
        if common.json {
            say_json(answer)?;
            return Ok(ExitCode::SUCCESS);
        }
        say(match (self.cancel, self.no_wait) {
            (true, _) => format!("the disk of node {node} is used again"),
            (false, true) => format!("the disk of node {node} is being drained"),
            (false, false) => format!(
                "the disk of node {node} is empty; 'weft node stop {node}' and 'weft node remove \
                 {node}' take the node out of a cluster"
            ),
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

fn wait_until_empty(control: &mut Control, node: usize) -> Result<()> {
    let left = |control: &mut Control| -> Result<u64> {
        let status = control.request(&Request::Status)?;
        let nodes = status["nodes"].as_array().cloned().unwrap_or_default();
        let us = nodes.iter().find(|n| n["node"].as_u64() == Some(node as u64));
        let us = us.context("the node is not there any more")?;
        if us["state"] == "down" || us["state"] == "lost" {
            bail!("node {node} is down; nothing can be copied from it until it is back");
        }
        us["columns"].as_u64().context("the status does not say how much is left")
    };
    let all = left(control)?;
    let stage = Stage::new(format!("moving what is on node {node}"), all, Counts::Things);
    loop {
        let left = left(control)?;
        stage.at(all.saturating_sub(left));
        if left == 0 {
            stage.done(format!("{all} columns moved"));
            return Ok(());
        }
        thread::sleep(EVERY);
    }
}

/// Adds a node with an empty disk.
fn add(common: &Common) -> Result<ExitCode> {
    let answer = common.target.connect()?.request(&Request::DiskAdd)?;
    if common.json {
        say_json(answer)?;
    } else {
        say(format!(
            "node {} has been added, with an empty disk (map {}); new volumes use it, and what is \
             rebuilt or moved can go there",
            answer["node"], answer["epoch"]
        ))?;
    }
    Ok(ExitCode::SUCCESS)
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
    let mut table = table(["node", "disk", "size", "queue", "state", "behind"]);
    for disk in &disks {
        let text = |key: &str| disk[key].as_str().unwrap_or("-").to_string();
        let amount = |key: &str| disk[key].as_u64().map_or("-".to_string(), bytes);
        let node = disk["node"].to_string();
        let queue = match (disk["queue"].as_str(), disk["queue_depth"].as_u64()) {
            (Some(order), Some(depth)) => format!("{order}, {depth} deep"),
            _ => "-".to_string(),
        };
        let [path, state] = [text("disk"), text("state")];
        table.add_row([node, path, amount("bytes"), queue, state, amount("behind_bytes")]);
    }
    align_right(&mut table, [0, 2, 5]);
    say(table)?;
    Ok(ExitCode::SUCCESS)
}

/// What is said of a disk, out of what the status says of its node.
fn described(node: &Value) -> Value {
    json!({
        "node": node["node"],
        "disk": node["disk"],
        "bytes": node["disk_bytes"],
        "queue": node["queue"],
        "queue_depth": node["queue_depth"],
        "queued": node["queued"],
        "state": node["state"],
        "behind_bytes": node["stale_sectors"].as_u64().map(|n| n * weft_core::SECTOR),
    })
}
