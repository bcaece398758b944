//! `weft disk`: lists disks, adds one, declares one lost, replaces one by an empty one, and drains
//! one.

use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use weft_host::{Control, ControlRequest, DiskAction, parse_size};
use weft_terminal::{Counts, Stage, align_right, bytes, say, say_json, table};

use crate::args::Common;

/// How often one looks how far it is.
const EVERY: Duration = Duration::from_millis(200);

/// What to do about disks.
#[derive(Debug, Subcommand)]
pub enum Disk {
    /// All disks
    List(Common),
    /// Add a disk: to the process in --dir of a cluster the one at --path; to an array in one process (`weft up`) a new one, as large as the others
    Add(Add),
    /// Declare the disk of a node lost, and rebuild what was on it on other disks that have room; the node is killed if it runs
    Fail(Which),
    /// Put an empty disk in the place of one whose node is down, and rebuild what was on it; what the node has left on the disk is deleted, anything else only with --force
    Replace(Replace),
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

/// The disk to add.
#[derive(Debug, Args)]
pub struct Add {
    #[command(flatten)]
    at: At,
    #[command(flatten)]
    common: Common,
}

/// Where a disk is.
#[derive(Debug, Args)]
pub struct At {
    /// In a cluster: the disk, a block device or a file of the machine on which the process runs; for
    /// one to replace, if it is not where the old one was
    #[arg(long)]
    path: Option<PathBuf>,
    /// How large to make it, if it is a file
    #[arg(long, requires = "path", value_parser = parse_size)]
    size: Option<u64>,
    /// Use it even if there is something on it, which is lost then; never if another process has it open
    #[arg(long)]
    force: bool,
}

/// The disk to replace.
#[derive(Debug, Args)]
pub struct Replace {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    at: At,
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
        let (request, which, done) = match self {
            Disk::List(common) => return list(common),
            Disk::Add(add) => return add.run(),
            Disk::Fail(which) => {
                let request = ControlRequest::Disk { action: DiskAction::Fail, node: which.node };
                (request, which, "counts as lost; what was on it is rebuilt where there is room")
            }
            Disk::Replace(replace) => {
                let done = "is an empty one now, and is being filled";
                (replace.request()?, &replace.which, done)
            }
            Disk::Drain(drain) => return drain.run(),
        };
        let answer = which.common.target.connect()?.request(&request)?;
        if which.common.json {
            say_json(answer)?;
        } else {
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
        let answer = control.request(&ControlRequest::Disk { action, node })?;
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
        let status = control.request(&ControlRequest::Status)?;
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

/// A path for the process that runs, which has another working directory.
fn whole(path: &Option<PathBuf>) -> Result<Option<PathBuf>> {
    Ok(path.as_ref().map(std::path::absolute).transpose()?)
}

impl Add {
    /// Adds a node with an empty disk.
    fn run(&self) -> Result<ExitCode> {
        let request = ControlRequest::DiskAdd {
            path: whole(&self.at.path)?,
            size: self.at.size,
            force: self.at.force,
        };
        let answer = self.common.target.connect()?.request(&request)?;
        if self.common.json {
            say_json(answer)?;
        } else {
            say(format!(
                "node {} has been added, with an empty disk (map {}); new volumes use it, and what \
                 is rebuilt or moved can go there",
                answer["node"], answer["epoch"]
            ))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Replace {
    fn request(&self) -> Result<ControlRequest> {
        let (node, size, force) = (self.which.node, self.at.size, self.at.force);
        Ok(ControlRequest::DiskReplace { node, path: whole(&self.at.path)?, size, force })
    }
}

/// Shows all disks.
fn list(common: &Common) -> Result<ExitCode> {
    let status = common.target.connect()?.request(&ControlRequest::Status)?;
    // A host that is its own controller has none.
    let with_disk = status["nodes"].as_array().into_iter().flatten().filter(|n| n["host"] != true);
    let disks: Vec<Value> = with_disk.map(described).collect();
    if common.json {
        say_json(json!({ "disks": disks }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = table(["node", "name", "disk", "size", "queue", "state", "behind"]);
    for disk in &disks {
        let text = |key: &str| disk[key].as_str().unwrap_or("-").to_string();
        let amount = |key: &str| disk[key].as_u64().map_or("-".to_string(), bytes);
        let node = disk["node"].to_string();
        let queue = match (disk["queue"].as_str(), disk["queue_depth"].as_u64()) {
            (Some(order), Some(depth)) => format!("{order}, {depth} deep"),
            _ => "-".to_string(),
        };
        let [name, path, state] = [text("name"), text("disk"), text("state")];
        let (size, behind) = (amount("bytes"), amount("behind_bytes"));
        table.add_row([node, name, path, size, queue, state, behind]);
    }
    align_right(&mut table, [0, 3, 6]);
    say(table)?;
    Ok(ExitCode::SUCCESS)
}

/// What is said of a disk, out of what the status says of its node.
fn described(node: &Value) -> Value {
    json!({
        "node": node["node"],
        "process": node["process"],
        "name": node["name"],
        "disk": node["disk"],
        "bytes": node["disk_bytes"],
        "queue": node["queue"],
        "queue_depth": node["queue_depth"],
        "queued": node["queued"],
        "state": node["state"],
        "behind_bytes": node["stale_sectors"].as_u64().map(|n| n * weft_core::SECTOR),
    })
}
