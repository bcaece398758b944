//! Does a fault to a node of a running cluster, and undoes it.

use std::fs::{self, File};
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use fastrand::Rng;
use rustix::process::Signal;
use weft_host::{ControlRequest, NodeAction};

use super::cluster::Cluster;
use super::damage::{self, superblock, wait, written};
use super::fault::{Fault, OUTAGE};
use super::wipe::wipe;

/// So much must have been written before it is hurt.
const ENOUGH: u64 = 1 << 20;

/// What disks are read and written in.
const SECTOR: u64 = 4096;

/// Does a fault to a node, waits, and undoes it.
///
/// # Errors
/// If it could not be done, or not be undone.
pub fn inflict(fault: Fault, cluster: &mut Cluster, node: usize, rng: &mut Rng) -> Result<()> {
    match fault {
        Fault::Kill => {
            cluster.kill_node(node)?;
            wait(rng, 0, 4000);
            cluster.start_node(node)
        }
        Fault::Outage => outage(cluster, node, rng),
        Fault::Stop => {
            cluster.ask(node, &ControlRequest::Node { action: NodeAction::Stop, node })?;
            wait(rng, 0, 2000);
            cluster.ask(node, &ControlRequest::Node { action: NodeAction::Start, node })?;
            Ok(())
        }
        Fault::Pause => {
            cluster.signal(node, Signal::STOP)?;
            wait(rng, 100, 5000);
            cluster.signal(node, Signal::CONT)
        }
        Fault::Cut | Fault::OneWay => {
            cluster.network()?.cut(node, fault == Fault::Cut)?;
            wait(rng, 100, 5000);
            cluster.network()?.heal()
        }
        Fault::Link => {
            let others: Vec<usize> = cluster.places().filter(|p| *p != node).collect();
            let other = others[rng.usize(0..others.len())];
            let network = cluster.network()?;
            match rng.u8(0..3) {
                0 => network.cut_link(node, other)?,
                1 => network.cut_link(other, node)?,
                _ => {
                    network.cut_link(node, other)?;
                    network.cut_link(other, node)?;
                }
            }
            wait(rng, 500, 8000);
            network.heal()
        }
        Fault::Lossy => {
            cluster.network()?.lose(node, rng.u8(2..20))?;
            wait(rng, 500, 3000);
            cluster.network()?.heal()
        }
        Fault::Fill => fill(cluster, node, rng),
        Fault::Errors => errors(cluster, node, rng),
        Fault::Slow => slow(cluster, node, rng),
        Fault::Hang => {
            let disk = cluster.held_up(node)?;
            disk.hang()?;
            wait(rng, 100, 6000);
            disk.go_on()
        }
        Fault::Flip => flip(cluster, node, rng),
        Fault::TablePage => damage::table_page(cluster, node, rng),
        Fault::Table => damage::table(cluster, node, rng),
        Fault::Journal => damage::journal(cluster, node, rng),
        Fault::Superblock => damage::superblock_copy(cluster, node, rng),
        Fault::OldCopy => damage::old_copy(cluster, node, rng),
        Fault::Replace => replace(cluster, node, rng),
        Fault::Wipe => wipe(cluster, node, rng),
    }
}

/// Kills a node, and puts an empty disk in the place of its own.
pub fn replace(cluster: &Cluster, node: usize, rng: &mut Rng) -> Result<()> {
    cluster.ask(node, &ControlRequest::Node { action: NodeAction::Kill, node })?;
    wait(rng, 0, 1000);
    // What a dead node has asked of its disk has to end first.
    let since = Instant::now();
    let replace = ControlRequest::disk_replace(node);
    while let Err(e) = cluster.ask(node, &replace) {
        ensure!(since.elapsed() < Duration::from_secs(10), e);
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
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

/// Has a node's disk pause again and again for some seconds, always for as long. It works for a fourth of that between.
fn slow(cluster: &Cluster, node: usize, rng: &mut Rng) -> Result<()> {
    let disk = cluster.held_up(node)?;
    let pause = Duration::from_millis(rng.u64(8..=80));
    let (since, lasts) = (Instant::now(), Duration::from_millis(rng.u64(2000..=8000)));
    while since.elapsed() < lasts {
        disk.hang()?;
        thread::sleep(pause);
        disk.go_on()?;
        thread::sleep(pause / 4);
    }
    Ok(())
}

/// A process ends if it could not write down what it must remember, and its node is down if its disk
/// could not be written: then it is started again. If nothing was in the way of either, it goes on.
fn revive(cluster: &mut Cluster, node: usize) -> Result<()> {
    let state = |status: &serde_json::Value| {
        let nodes = status["nodes"].as_array().cloned().unwrap_or_default();
        nodes.iter().find(|n| n["node"] == node).map(|n| n["state"].clone())
    };
    match cluster.ask(node, &ControlRequest::Status).map(|s| state(&s)) {
        Err(_) => {
            cluster.kill_node(node)?;
            cluster.start_node(node)
        }
        Ok(Some(state)) if state == "down" => {
            cluster.ask(node, &ControlRequest::Node { action: NodeAction::Start, node })?;
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
