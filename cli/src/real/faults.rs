//! What is done to a node in a round, and undone.

use std::fmt;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::str::FromStr;
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use fastrand::Rng;
use rustix::process::Signal;
use weft_host::{DiskAction, NodeAction, Request};

use super::cluster::Cluster;
use super::hosts::PATIENCE;

/// A process that is silent for so long is counted dead: three times the probes' interval
/// (`weft_member::Config`).
const MASKED: Duration = Duration::from_millis(1500);

/// A leader that is silent, but still connected, is followed by another in this time: an election
/// time-out of 20 ticks of 50 ms at most.
const ELECTION: Duration = Duration::from_millis(1000);

/// What it takes a host to connect to another node, the nodes to enter a new map and to settle what
/// was under way, and an election among those that saw the leader's connections break.
const FALL: Duration = Duration::from_millis(1000);

/// Something that is done to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Its process is killed, and started again.
    Kill,
    /// Its process is stopped in good order, and started again.
    Stop,
    /// Its process is stopped (SIGSTOP), and continued.
    Pause,
    /// Nothing comes through to it or from it for a while.
    Cut,
    /// Nothing that it sends comes through for a while.
    OneWay,
    /// A part of what it sends and gets is lost for a while.
    Lossy,
    /// Its file system is full for a while.
    Fill,
    /// Its disk returns I/O errors for a while, and has then lost what was there.
    Errors,
    /// Bytes of its disk are not what they were.
    Flip,
    /// Its disk is replaced by an empty one.
    Replace,
}

/// What disks are read and written in.
const SECTOR: u64 = 4096;

/// All faults, and their names.
pub const FAULTS: [(Fault, &str); 10] = [
    (Fault::Kill, "kill"),
    (Fault::Stop, "stop"),
    (Fault::Pause, "pause"),
    (Fault::Cut, "cut"),
    (Fault::OneWay, "one-way"),
    (Fault::Lossy, "lossy"),
    (Fault::Fill, "fill"),
    (Fault::Errors, "errors"),
    (Fault::Flip, "flip"),
    (Fault::Replace, "replace"),
];

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = FAULTS.iter().find(|(fault, _)| fault == self).map_or("?", |(_, name)| name);
        f.pad(name)
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Fault, String> {
        let found = FAULTS.iter().find(|(_, name)| *name == text);
        found.map(|(fault, _)| *fault).ok_or_else(|| {
            let names: Vec<&str> = FAULTS.iter().map(|(_, name)| *name).collect();
            format!("'{text}' is no fault; there are {}", names.join(", "))
        })
    }
}

impl Fault {
    /// Whether it is done to links.
    pub fn is_of_links(self) -> bool {
        matches!(self, Fault::Cut | Fault::OneWay | Fault::Lossy)
    }

    /// Whether something on a disk is not what it was, so that only a scrub makes it whole.
    pub fn hurts_data(self) -> bool {
        matches!(self, Fault::Flip | Fault::Errors)
    }

    /// The longest that a request may wait for this fault's sake, on a machine that has nothing else
    /// to do.
    pub fn longest_wait(self) -> Duration {
        match self {
            // Silence has to be noticed; if the leader is silent, others see its connections break.
            Fault::Kill => MASKED + FALL,
            // A host of this node waits for it as long as it has patience. Whoever waits for this
            // node at another one waits until it is counted dead.
            Fault::Pause | Fault::Cut | Fault::OneWay | Fault::Lossy => {
                PATIENCE.max(MASKED + ELECTION) + FALL
            }
            // The node itself says at once that it goes.
            Fault::Stop | Fault::Replace | Fault::Fill | Fault::Errors | Fault::Flip => FALL,
        }
    }

    /// Does it to a node, waits, and undoes it.
    pub fn inflict(self, cluster: &mut Cluster, node: usize, rng: &mut Rng) -> Result<()> {
        match self {
            Fault::Kill => {
                cluster.kill_node(node)?;
                wait(rng, 0, 4000);
                cluster.start_node(node)
            }
            Fault::Stop => {
                cluster.ask(node, &Request::Node { action: NodeAction::Stop, node })?;
                wait(rng, 0, 2000);
                cluster.ask(node, &Request::Node { action: NodeAction::Start, node })?;
                Ok(())
            }
            Fault::Pause => {
                cluster.signal(node, Signal::STOP)?;
                wait(rng, 100, 5000);
                cluster.signal(node, Signal::CONT)
            }
            Fault::Cut | Fault::OneWay => {
                cluster.network()?.cut(node, self == Fault::Cut)?;
                wait(rng, 100, 5000);
                cluster.network()?.heal()
            }
            Fault::Lossy => {
                cluster.network()?.lose(node, rng.u8(2..20))?;
                wait(rng, 500, 3000);
                cluster.network()?.heal()
            }
            Fault::Fill => fill(cluster, node, rng),
            Fault::Errors => errors(cluster, node, rng),
            Fault::Flip => flip(cluster, node, rng),
            Fault::Replace => {
                cluster.ask(node, &Request::Node { action: NodeAction::Kill, node })?;
                wait(rng, 0, 1000);
                cluster.ask(node, &Request::Disk { action: DiskAction::Replace, node })?;
                Ok(())
            }
        }
    }
}

fn wait(rng: &mut Rng, least: u64, most: u64) {
    thread::sleep(Duration::from_millis(rng.u64(least..=most)));
}

/// Fills the file system of a node's disk. What the node then cannot write ends it; it is
/// started again when there is room.
fn fill(cluster: &mut Cluster, node: usize, rng: &mut Rng) -> Result<()> {
    let path = cluster.file(node).with_file_name("filler");
    let mut filler = File::create(&path)?;
    let piece = vec![7; 1 << 20];
    while filler.write_all(&piece).is_ok() {}
    wait(rng, 500, 3000);
    fs::remove_file(&path)?;
    drop(filler);
    revive(cluster, node)
}

/// Cuts the end off the file under a node's block device: reads there get an I/O error from the
/// device, except where a write has made the file longer again; what comes back is zeros.
fn errors(cluster: &mut Cluster, node: usize, rng: &mut Rng) -> Result<()> {
    let file = File::options().write(true).open(cluster.file(node))?;
    let size = file.metadata()?.len();
    let sectors = rng.u64(size / 2 / SECTOR..size / SECTOR);
    file.set_len(sectors * SECTOR)?;
    wait(rng, 500, 3000);
    if file.metadata()?.len() < size {
        file.set_len(size)?;
    }
    revive(cluster, node)
}

/// A process ends if it could not write down what it must remember, and its node is down if its disk
/// could not be written: then it is started again. If nothing was in the way of either, it goes on.
fn revive(cluster: &mut Cluster, node: usize) -> Result<()> {
    let state = |status: &serde_json::Value| {
        let nodes = status["nodes"].as_array().cloned().unwrap_or_default();
        nodes.iter().find(|n| n["node"] == node).map(|n| n["state"].clone())
    };
    match cluster.ask(node, &Request::Status).map(|s| state(&s)) {
        Err(_) => {
            cluster.kill_node(node)?;
            cluster.start_node(node)
        }
        Ok(Some(state)) if state == "down" => {
            cluster.ask(node, &Request::Node { action: NodeAction::Start, node })?;
            Ok(())
        }
        Ok(_) => Ok(()),
    }
}

/// Changes bytes here and there on a node's disk: where the data is, which is most of it.
fn flip(cluster: &Cluster, node: usize, rng: &mut Rng) -> Result<()> {
    let disk = File::options().read(true).write(true).open(cluster.file(node))?;
    let size = disk.metadata()?.len();
    if size == 0 {
        bail!("the disk is empty");
    }
    for _ in 0..rng.u32(1..=50) {
        let at = rng.u64(size / 2..size - 64);
        let mut bytes = vec![0; rng.usize(1..64)];
        disk.read_exact_at(&mut bytes, at)?;
        bytes.iter_mut().for_each(|b| *b ^= rng.u8(1..));
        disk.write_all_at(&bytes, at)?;
    }
    wait(rng, 0, 500);
    Ok(())
}
