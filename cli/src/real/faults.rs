//! What is done to a node in a round, and undone.

use std::fmt;
use std::fs::{self, File};
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use fastrand::Rng;
use rustix::process::Signal;
use weft_host::{NodeAction, Request};

use super::cluster::Cluster;
use super::damage::{self, superblock, written};
use super::hosts::PATIENCE;

/// A process that is silent for so long is counted dead (`weft_member::Config`).
const MASKED: Duration = Duration::from_millis(1100);

/// A leader that is silent, but still connected, is followed by another in this time: an election
/// time-out of 20 ticks of 50 ms at most.
const ELECTION: Duration = Duration::from_millis(1000);

/// What it takes a host to connect to another node, the nodes to enter a new map and to settle what
/// was under way, and an election among those that saw the leader's connections break.
const FALL: Duration = Duration::from_millis(1000);

/// The longest that nodes of an outage stay away.
pub(super) const OUTAGE: Duration = Duration::from_millis(3000);

/// What it takes processes that have all been started anew to elect a leader, which waits for those that
/// open their disks, and to enter a map.
const RISE: Duration = Duration::from_millis(4000);

/// Something that is done to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Its process is killed, and started again.
    Kill,
    /// Its process and some others, or all, are killed at the same time, more than the layout bears, and
    /// started again one after the other.
    Outage,
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
    /// It is killed, and a page of its disk's table is zeros when it is started again.
    TablePage,
    /// The same with the whole table, or table and index.
    Table,
    /// The same with the journal, or damage to some of its sectors.
    Journal,
    /// The same with a copy of the superblock.
    Superblock,
    /// It is killed, and started again with an older copy of its disk.
    OldCopy,
}

/// So much must have been written before it is hurt.
const ENOUGH: u64 = 1 << 20;

/// What disks are read and written in.
const SECTOR: u64 = 4096;

/// All faults, and their names.
pub const FAULTS: [(Fault, &str); 16] = [
    (Fault::Kill, "kill"),
    (Fault::Outage, "outage"),
    (Fault::Stop, "stop"),
    (Fault::Pause, "pause"),
    (Fault::Cut, "cut"),
    (Fault::OneWay, "one-way"),
    (Fault::Lossy, "lossy"),
    (Fault::Fill, "fill"),
    (Fault::Errors, "errors"),
    (Fault::Flip, "flip"),
    (Fault::Replace, "replace"),
    (Fault::TablePage, "table-page"),
    (Fault::Table, "table"),
    (Fault::Journal, "journal"),
    (Fault::Superblock, "superblock"),
    (Fault::OldCopy, "old-copy"),
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

    /// Whether something on a disk is not what it was, and only a scrub shows that all is whole.
    pub fn hurts_data(self) -> bool {
        matches!(self, Fault::Flip | Fault::Errors) || self.is_damage()
    }

    /// Whether the disk of a killed node is damaged.
    pub fn is_damage(self) -> bool {
        matches!(
            self,
            Fault::TablePage | Fault::Table | Fault::Journal | Fault::Superblock | Fault::OldCopy
        )
    }

    /// Whether what it does is counted by the node that it is done to. Of an older copy the others say that it is
    /// one, and the end of a journal may go by if nothing was promised there.
    pub fn is_counted(self) -> bool {
        matches!(self, Fault::Flip | Fault::Errors | Fault::TablePage | Fault::Table)
    }

    /// The longest that a request may wait for this fault's sake, on a machine that has nothing else
    /// to do.
    pub fn longest_wait(self) -> Duration {
        match self {
            // Silence has to be noticed; if the leader is silent, others see its connections break.
            Fault::Kill => MASKED + FALL,
            // Damage may come with an outage of all. With an older copy the node is killed once more before, but
            // all are whole between.
            Fault::Outage
            | Fault::TablePage
            | Fault::Table
            | Fault::Journal
            | Fault::Superblock
            | Fault::OldCopy => OUTAGE + PATIENCE.max(RISE) + FALL,
            // A host of this node waits for it as long as it has patience. Whoever waits for this
            // node at another one waits until it is counted dead.
            Fault::Pause | Fault::Cut | Fault::OneWay | Fault::Lossy => {
                PATIENCE.max(MASKED + ELECTION) + FALL
            }
            // The node itself says at once that it goes.
            Fault::Stop | Fault::Replace | Fault::Fill | Fault::Errors | Fault::Flip => FALL,
        }
    }

    /// So long after it has been undone its consequences may begin to show: that a node has not been
    /// heard is noticed after `dead_after`, or twice that if others are late, too. The next fault is not
    /// to come before that: it would be one too many.
    pub fn shows_after(self) -> Duration {
        match self {
            Fault::Pause | Fault::Cut | Fault::OneWay | Fault::Lossy => 2 * MASKED,
            Fault::Kill
            | Fault::Outage
            | Fault::Stop
            | Fault::Fill
            | Fault::Errors
            | Fault::Flip
            | Fault::Replace
            | Fault::TablePage
            | Fault::Table
            | Fault::Journal
            | Fault::Superblock
            | Fault::OldCopy => Duration::ZERO,
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
            Fault::Outage => outage(cluster, node, rng),
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
            Fault::TablePage => damage::table_page(cluster, node, rng),
            Fault::Table => damage::table(cluster, node, rng),
            Fault::Journal => damage::journal(cluster, node, rng),
            Fault::Superblock => damage::superblock_copy(cluster, node, rng),
            Fault::OldCopy => damage::old_copy(cluster, node, rng),
            Fault::Replace => {
                cluster.ask(node, &Request::Node { action: NodeAction::Kill, node })?;
                wait(rng, 0, 1000);
                // What a dead node has asked of its disk has to end first.
                let since = Instant::now();
                let replace = Request::disk_replace(node);
                while let Err(e) = cluster.ask(node, &replace) {
                    ensure!(since.elapsed() < Duration::from_secs(10), e);
                    thread::sleep(Duration::from_millis(20));
                }
                Ok(())
            }
        }
    }
}

/// Waits for a time between these, in milliseconds.
pub(super) fn wait(rng: &mut Rng, least: u64, most: u64) {
    thread::sleep(Duration::from_millis(rng.u64(least..=most)));
}

/// A power cut of several boxes, or of all.
fn outage(cluster: &mut Cluster, node: usize, rng: &mut Rng) -> Result<()> {
    let mut others: Vec<usize> = (0..cluster.nodes()).filter(|n| *n != node).collect();
    rng.shuffle(&mut others);
    let least = cluster.bears().min(others.len());
    others.truncate(rng.usize(least..=others.len()));
    let mut gone: Vec<usize> = others.into_iter().chain([node]).collect();
    for n in &gone {
        cluster.kill_node(*n)?;
    }
    rng.shuffle(&mut gone);
    let pause = OUTAGE.as_millis() as u64 / gone.len() as u64;
    for n in gone {
        wait(rng, 0, pause);
        cluster.start_node(n)?;
    }
    Ok(())
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

/// Cuts the end off the file under a node's block device, somewhere in its data: reads there get an I/O
/// error from the device, except where a write has made the file longer again. What comes back is
/// zeros.
fn errors(cluster: &mut Cluster, node: usize, rng: &mut Rng) -> Result<()> {
    let file = File::options().read(true).write(true).open(cluster.file(node))?;
    let size = file.metadata()?.len();
    let at = a_place(&enough_written(&file)?, rng)? / SECTOR * SECTOR;
    file.set_len(at)?;
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

/// Changes bytes here and there in what hosts have written to a node's disk.
fn flip(cluster: &Cluster, node: usize, rng: &mut Rng) -> Result<()> {
    let disk = File::options().read(true).write(true).open(cluster.file(node))?;
    let written = enough_written(&disk)?;
    for _ in 0..rng.u32(1..=50) {
        let at = a_place(&written, rng)?;
        let mut bytes = vec![0; rng.usize(1..64)];
        disk.read_exact_at(&mut bytes, at)?;
        bytes.iter_mut().for_each(|b| *b ^= rng.u8(1..));
        disk.write_all_at(&bytes, at)?;
    }
    wait(rng, 0, 500);
    Ok(())
}

/// Where hosts' data is on a disk, as soon as there is some: at first it is in the journal only.
fn enough_written(disk: &File) -> Result<Vec<Range<u64>>> {
    let since = Instant::now();
    let data = superblock(disk)?.1.data_start() * SECTOR;
    loop {
        let parts = written(disk, data)?;
        if parts.iter().map(|p| p.end - p.start).sum::<u64>() >= ENOUGH {
            return Ok(parts);
        }
        ensure!(since.elapsed() < Duration::from_secs(30), "hosts write nothing to a disk");
        thread::sleep(Duration::from_millis(50));
    }
}

/// One of these bytes, with room for a few after it.
fn a_place(parts: &[Range<u64>], rng: &mut Rng) -> Result<u64> {
    let total: u64 = parts.iter().map(|p| p.end - p.start).sum();
    let mut n = rng.u64(0..total);
    for part in parts {
        match part.end - part.start {
            len if n < len => return Ok((part.start + n).min(part.end - 64)),
            len => n -= len,
        }
    }
    bail!("there are fewer bytes than were counted")
}
