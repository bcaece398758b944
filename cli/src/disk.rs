//! `weft disk`: lists disks, adds one, declares one lost, replaces one by an empty one, and drains
//! one.

use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use weft_host::status::{DiskErrors, NodeState, NodeStatus, Status};
use weft_host::{Control, ControlRequest, DiskAction, parse_size};
use weft_terminal::{Counts, Stage, align_right, bytes, folded, say, say_json, table, width};

use crate::args::{self, Common, Whose, numbered};
use crate::confirm::Confirm;
use crate::leaving;
use crate::output::map_of;

/// How often one looks how far it is.
const EVERY: Duration = Duration::from_millis(200);

/// A command for disks.
#[derive(Debug, Subcommand)]
pub enum Disk {
    /// List all disks
    List(Common),
    /// Add a disk: in a cluster, the one at --path to the process in --dir; in an array of one process (`weft up`), a new one of the same size as the others
    Add(Add),
    /// Declare the disk of a node lost, and rebuild its content on other disks with enough free space; the node is killed if it runs
    Fail(Fail),
    /// Replace the disk of a node that is down by an empty one, and rebuild its content; the node's old content on the disk is deleted, anything else only with --force
    Replace(Replace),
    /// Mark a disk as suspect: parity of its data is refreshed and no longer deferred, until --clear
    Suspect(Suspect),
    /// Reset the read, write and checksum error counts of one disk or all
    Clear(Clear),
    /// Move the content of a working disk to others online, and stop using it; waits until it is empty (Ctrl-C ends only the wait)
    Drain(Drain),
}

/// The lost disk.
#[derive(Debug, Args)]
pub struct Fail {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    confirm: Confirm,
    /// Skip the refresh of deferred parity
    #[arg(long)]
    now: bool,
    #[command(flatten)]
    accept: AcceptLoss,
}

/// Volumes that may lose data.
#[derive(Debug, Args)]
pub struct AcceptLoss {
    /// Volume that may lose its data there, because nothing can rebuild it; may be repeated
    #[arg(long = "accept-loss", value_name = "VOLUME")]
    pub volumes: Vec<String>,
}

/// The disk that may fail.
#[derive(Debug, Args)]
pub struct Suspect {
    #[command(flatten)]
    which: Which,
    /// No longer suspect, or replaced: parity may be deferred again
    #[arg(long)]
    clear: bool,
}

/// The disks whose error counts are reset.
#[derive(Debug, Args)]
pub struct Clear {
    /// Node number of the disk, or all
    #[arg(value_name = "NODE|all", value_parser = which_disks)]
    of: Disks,
    #[command(flatten)]
    common: Common,
}

/// A disk, or all.
#[derive(Clone, Copy, Debug)]
enum Disks {
    One(usize),
    All,
}

fn which_disks(text: &str) -> Result<Disks, String> {
    match text {
        "all" => Ok(Disks::All),
        _ => args::node(text).map(Disks::One).map_err(|e| format!("{e}; or give all")),
    }
}

/// The disk to drain.
#[derive(Debug, Args)]
pub struct Drain {
    #[command(flatten)]
    whose: Whose,
    /// Return at once instead of waiting
    #[arg(long)]
    no_wait: bool,
    /// Stop draining, and use the disk again with its remaining content
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
    /// In a cluster: block device or file on the process's machine; to replace a disk, only if the path differs from
    /// the old one
    #[arg(long)]
    path: Option<PathBuf>,
    /// Size of a new file
    #[arg(long, value_parser = parse_size)]
    size: Option<u64>,
    /// Use the disk even if it is not empty; its content is lost. Refused while another process has it open
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
    #[command(flatten)]
    accept: AcceptLoss,
}

/// Which disk.
#[derive(Debug, Args)]
pub struct Which {
    /// Node number of the disk, from 0
    #[arg(value_parser = args::node)]
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
            Disk::Fail(Fail { which, confirm, now, accept }) => {
                let mut control = which.common.target.connect()?;
                let status = control.status()?;
                if let Some(what) = works(&status, which.node) {
                    let left = now.then(|| leaving::unprotected(&status, which.node)).flatten();
                    let left =
                        left.map_or(String::new(), |left| format!("; {left}, and may be lost"));
                    confirm.ask(&(what + &left))?;
                }
                if !now {
                    leaving::make_redundant(&mut control, which.node)?;
                }
                let done = match without_room(&mut control, which.node) {
                    None => "is declared lost; its content is being rebuilt on other disks".into(),
                    Some(lack) => format!("is declared lost; {lack}"),
                };
                (given_up(which.node, accept), which, done)
            }
            Disk::Replace(replace) => {
                let done = "is now an empty disk, and is being rebuilt";
                (replace.request()?, &replace.which, done.to_string())
            }
            Disk::Drain(drain) => return drain.run(),
            Disk::Clear(clear) => return clear.run(),
            Disk::Suspect(suspect) => return suspect.run(),
        };
        let answer = which.common.target.connect()?.request(&request)?;
        if which.common.json {
            say_json(answer)?;
        } else {
            say(format!(
                "the disk of node {} {done} ({}); 'weft status --watch' shows the progress",
                which.node,
                map_of(&answer)
            ))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Suspect {
    /// Says so, and returns when nothing of what is on the disk waits any more.
    fn run(&self) -> Result<ExitCode> {
        let (node, common) = (self.which.node, &self.which.common);
        let mut control = common.target.connect()?;
        let answer = match self.clear {
            true => control.request(&ControlRequest::disk(DiskAction::Trust, node))?,
            false => leaving::suspect(&mut control, node)?,
        };
        if common.json {
            say_json(answer)?;
            return Ok(ExitCode::SUCCESS);
        }
        say(match self.clear {
            true => format!(
                "the disk of node {node} is no longer suspect: parity of its data may be deferred again"
            ),
            false => format!(
                "the disk of node {node} is suspect: its content is redundant, and stays so; 'weft disk drain {node}' moves it to \
         others, 'weft disk suspect {node} --clear' trusts the disk again"
            ),
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Clear {
    /// Clears them, and says what they were.
    fn run(&self) -> Result<ExitCode> {
        let mut control = self.common.target.connect()?;
        let nodes = match self.of {
            Disks::One(node) => vec![node],
            Disks::All => {
                let has = |n: &&NodeStatus| n.errors.is_some_and(|errors| !errors.is_none());
                control.status()?.nodes.iter().filter(has).map(|n| usize::from(n.node)).collect()
            }
        };
        let mut cleared = Vec::new();
        for node in nodes {
            let request = ControlRequest::disk(DiskAction::Clear, node);
            let answer = control.request(&request)?;
            let errors: DiskErrors = serde_json::from_value(answer["errors"].clone())?;
            if !self.common.json {
                say(format!("the disk of node {node}: {errors}; the counts are reset"))?;
            }
            cleared.push(json!({ "node": node, "errors": errors }));
        }
        match (self.common.json, cleared.is_empty()) {
            (true, _) => say_json(json!({ "cleared": cleared }))?,
            (false, true) => say("no disk has had errors")?,
            (false, false) => {}
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Drain {
    /// Begins it, and waits until the disks are empty.
    pub fn run(&self) -> Result<ExitCode> {
        let common = &self.whose.common;
        let mut control = common.target.connect()?;
        let status = control.status()?;
        let nodes = self.whose.nodes(&status)?;
        let mut answer = match self.cancel {
            true => cancel(&mut control, &status, &nodes)?,
            false => begin(&mut control, &status, &nodes)?,
        };
        if !self.cancel && !self.no_wait {
            wait_until_empty(&mut control, &nodes)?;
        }
        if common.json {
            answer["nodes"] = json!(nodes);
            say_json(answer)?;
            return Ok(ExitCode::SUCCESS);
        }
        let disks = match &nodes[..] {
            [node] => format!("the disk of node {node} is"),
            nodes => format!("the disks of {} are", numbered(nodes)),
        };
        say(match (self.cancel, self.no_wait, &nodes[..]) {
            (true, ..) => format!("{disks} used again"),
            (false, true, _) => format!("{disks} being drained"),
            (false, false, [node]) => format!(
                "{disks} empty; 'weft node stop {node}' and 'weft node remove {node}' remove the node from a cluster"
            ),
            (false, false, _) => {
                format!(
                    "{disks} empty; 'weft node stop' and 'weft node remove' remove each node from a cluster"
                )
            }
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

fn is_drained(status: &Status, node: usize) -> bool {
    let of = status.nodes.iter().find(|n| usize::from(n.node) == node);
    of.is_some_and(|n| n.state == NodeState::Draining)
}

/// Has nodes drained, all or none: nothing is moved from one of them to another.
fn begin(control: &mut Control, status: &Status, nodes: &[usize]) -> Result<Value> {
    let (mut answer, mut begun) = (Value::Null, Vec::new());
    for node in nodes.iter().copied() {
        match control.request(&ControlRequest::disk(DiskAction::Drain, node)) {
            Ok(done) => answer = done,
            Err(e) => {
                for node in begun {
                    control.request(&ControlRequest::disk(DiskAction::Undrain, node))?;
                }
                return Err(e.into());
            }
        }
        if !is_drained(status, node) {
            begun.push(node);
        }
    }
    Ok(answer)
}

/// Has nodes used again: the one that is meant, or those of several that are being drained.
fn cancel(control: &mut Control, status: &Status, nodes: &[usize]) -> Result<Value> {
    let mut drained: Vec<usize> =
        nodes.iter().copied().filter(|n| is_drained(status, *n)).collect();
    if drained.is_empty() {
        drained.extend(nodes.first());
    }
    let mut answer = Value::Null;
    for node in drained {
        answer = control.request(&ControlRequest::disk(DiskAction::Undrain, node))?;
    }
    Ok(answer)
}

/// Declares a disk lost.
pub fn given_up(node: usize, accept: &AcceptLoss) -> ControlRequest {
    let accept_loss = accept.volumes.clone();
    ControlRequest::Disk { action: DiskAction::Fail, node, accept_loss }
}

/// Which volumes could not be rebuilt without the disk of a node, and what to do, if there are any.
fn without_room(control: &mut Control, node: usize) -> Option<String> {
    let lost = vec![u16::try_from(node).ok()?];
    // Whether the disk can be declared lost is for the request itself to say.
    let prediction = control
        .predict(&ControlRequest::WhatIf { lost, added: Vec::new(), layouts: Default::default() })
        .ok()?;
    let lack = prediction.volumes.into_iter().filter(|v| !v.has_room).map(|v| v.name);
    let lack = lack.collect::<Vec<_>>().join(", ");
    (!lack.is_empty()).then(|| {
        format!(
            "other disks lack space for all that {lack} had there, so redundancy comes back with `weft disk replace {node}` or \
             another disk (`weft disk add`)"
        )
    })
}

/// What is at stake when a disk is declared lost that works, if it does.
pub fn works(status: &Status, node: usize) -> Option<String> {
    let node = status.nodes.iter().find(|n| usize::from(n.node) == node)?;
    let (n, state) = (node.node, node.state);
    let works = !matches!(
        state,
        NodeState::Hung | NodeState::Slow | NodeState::Down | NodeState::Lost | NodeState::Expected
    );
    works.then(|| {
        format!(
            "the disk of node {n} works (node {n} is {state}): it would no longer be used, and its content rebuilt from \
             others, with less redundancy until then (`weft disk drain {n}` moves it with full redundancy)"
        )
    })
}

fn wait_until_empty(control: &mut Control, nodes: &[usize]) -> Result<()> {
    let left = |control: &mut Control| -> Result<u64> {
        let status = control.status()?;
        let mut left = 0;
        for node in nodes {
            let us = status.nodes.iter().find(|n| usize::from(n.node) == *node);
            let us = us.context("the node no longer exists")?;
            if matches!(
                us.state,
                NodeState::Hung | NodeState::Slow | NodeState::Down | NodeState::Lost
            ) {
                bail!("node {node} is down; nothing can be copied from it until it is back");
            }
            left += us.columns as u64;
        }
        Ok(left)
    };
    let all = left(control)?;
    let stage =
        Stage::new(format!("moving the content of {}", numbered(nodes)), all, Counts::Things);
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
                "node {} has been added, with an empty disk ({}); new volumes, rebuilds and moves can use it",
                answer["node"],
                map_of(&answer)
            ))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Replace {
    fn request(&self) -> Result<ControlRequest> {
        let (node, size, force) = (self.which.node, self.at.size, self.at.force);
        let accept_loss = self.accept.volumes.clone();
        Ok(ControlRequest::DiskReplace {
            node,
            path: whole(&self.at.path)?,
            size,
            force,
            accept_loss,
        })
    }
}

/// Shows all disks.
fn list(common: &Common) -> Result<ExitCode> {
    let status = common.target.connect()?.status()?;
    // A host that is its own controller has none, and neither has a controller.
    let disks: Vec<&NodeStatus> =
        status.nodes.iter().filter(|n| !n.host && !n.controller).collect();
    if common.json {
        let disks: Vec<Value> = disks.into_iter().map(described).collect();
        say_json(json!({ "disks": disks }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = table(["node", "name", "disk", "size", "queue", "state", "behind", "errors"]);
    for disk in disks {
        let text = |text: &Option<String>| text.clone().unwrap_or("-".to_string());
        let amount = |n: Option<u64>| n.map_or("-".to_string(), bytes);
        let queue = match (&disk.queue, disk.queue_depth) {
            (Some(order), Some(depth)) => format!("{order}, {depth} deep"),
            _ => "-".to_string(),
        };
        table.add_row([
            disk.node.to_string(),
            text(&disk.name),
            text(&disk.disk),
            amount(disk.disk_bytes),
            queue,
            disk.state.to_string(),
            amount(behind_bytes(disk)),
            disk.errors
                .map_or("-".to_string(), |e| format!("{}/{}/{}", e.read, e.write, e.checksum)),
        ]);
    }
    align_right(&mut table, [0, 3, 6]);
    say(folded(&table, width()))?;
    Ok(ExitCode::SUCCESS)
}

fn behind_bytes(node: &NodeStatus) -> Option<u64> {
    node.stale_sectors.map(|n| n * weft_core::SECTOR)
}

/// What is said of a disk, out of what the status says of its node.
fn described(node: &NodeStatus) -> Value {
    json!({
        "node": node.node,
        "process": node.process,
        "name": node.name,
        "disk": node.disk,
        "bytes": node.disk_bytes,
        "queue": node.queue,
        "queue_depth": node.queue_depth,
        "queued": node.queued,
        "state": node.state,
        "behind_bytes": behind_bytes(node),
        "errors": node.errors,
    })
}
