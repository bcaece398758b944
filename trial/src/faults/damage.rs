//! Damage to the disk of a node that has been killed: something on it is not what was written there last, and
//! nobody says so. The node is then started again.

use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use rustix::fs::{FlockOperation, SeekFrom, flock, seek};
use rustix::io::Errno;
use weft_core::store::{SUPERBLOCKS, Superblock};

use super::cluster::{Cluster, WHOLE};
use super::fault::OUTAGE;

/// What disks are read and written in.
const SECTOR: u64 = 4096;

/// Disks are copied in pieces of so many bytes.
const PIECE: u64 = 1 << 20;

/// How long what a dead process has asked of its disk may take to end.
const LET_GO: Duration = Duration::from_secs(10);

/// How long it may take until hosts have written so much that some of it is put in place.
const ENOUGH: Duration = Duration::from_secs(30);

/// Sectors of a journal are damaged among so many from the oldest frame that is needed.
const RECENT: u64 = 256;

/// Kills a node, or all at the same time, damages its disk, and starts again who was killed. If all were, nobody
/// counted the node as away: only what stands on the other disks tells what its own has lost.
fn damage(
    cluster: &mut Cluster,
    node: usize,
    rng: &mut Rng,
    how: impl FnOnce(&File, &Superblock, &mut Rng) -> Result<()>,
) -> Result<()> {
    let mut gone: Vec<usize> = match rng.bool() {
        true => vec![node],
        false => (0..cluster.nodes()).collect(),
    };
    gone.iter().try_for_each(|n| cluster.kill_node(*n))?;
    {
        let _ours = hold(cluster.disk(node))?;
        let disk = File::options().read(true).write(true).open(cluster.file(node))?;
        how(&disk, &superblock(&disk)?.1, rng)?;
    }
    rng.shuffle(&mut gone);
    let pause = OUTAGE.as_millis() as u64 / gone.len() as u64;
    for n in gone {
        wait(rng, 0, pause);
        cluster.start_node(n)?;
    }
    Ok(())
}

/// Waits for a time between these, in milliseconds.
pub(super) fn wait(rng: &mut Rng, least: u64, most: u64) {
    thread::sleep(Duration::from_millis(rng.u64(least..=most)));
}

/// Waits until something stands in a node's table: at first all is in the journal only.
fn wait_for_a_table(cluster: &Cluster, node: usize) -> Result<()> {
    let disk = File::open(cluster.file(node))?;
    let since = Instant::now();
    loop {
        let (_, sb) = superblock(&disk)?;
        if !written_sectors(&disk, sb.table_start()..sb.data_start())?.is_empty() {
            return Ok(());
        }
        ensure!(since.elapsed() < ENOUGH, "nothing is put in place on a disk");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Zeroes a page of the table that has been written.
pub fn table_page(cluster: &mut Cluster, node: usize, rng: &mut Rng) -> Result<()> {
    wait_for_a_table(cluster, node)?;
    damage(cluster, node, rng, |disk, sb, rng| {
        let written = written_sectors(disk, sb.table_start()..sb.data_start())?;
        let page = rng.choice(written).context("no page of the table has been written")?;
        zero(disk, page..page + 1)
    })
}

/// Zeroes the whole table, and in half of the cases its index as well.
pub fn table(cluster: &mut Cluster, node: usize, rng: &mut Rng) -> Result<()> {
    wait_for_a_table(cluster, node)?;
    damage(cluster, node, rng, |disk, sb, rng| {
        let from = if rng.bool() { sb.table_start() } else { sb.index_start() };
        zero(disk, from..sb.data_start())
    })
}

/// Zeroes the whole journal, or zeroes and changes some of its sectors.
pub fn journal(cluster: &mut Cluster, node: usize, rng: &mut Rng) -> Result<()> {
    damage(cluster, node, rng, |disk, sb, rng| {
        if rng.bool() {
            return zero(disk, sb.journal_start()..sb.index_start());
        }
        for _ in 0..rng.u32(1..=8) {
            let place = (sb.tail + rng.u64(0..RECENT)) % sb.journal;
            let sector = sb.journal_start() + place;
            match rng.bool() {
                true => zero(disk, sector..sector + 1)?,
                false => change(disk, sector, rng)?,
            }
        }
        Ok(())
    })
}

/// Zeroes one of the superblock's copies, most often the newer.
pub fn superblock_copy(cluster: &mut Cluster, node: usize, rng: &mut Rng) -> Result<()> {
    damage(cluster, node, rng, |disk, _, rng| {
        let newer = superblock(disk)?.0;
        let place = if rng.u8(0..4) > 0 { newer } else { 1 - newer };
        zero(disk, place..place + 1)
    })
}

/// Replaces the disk by a copy of itself from before hosts wrote some more.
pub fn old_copy(cluster: &mut Cluster, node: usize, rng: &mut Rng) -> Result<()> {
    let kept = cluster.file_beside(node);
    cluster.kill_node(node)?;
    {
        let _ours = hold(cluster.disk(node))?;
        copy(&cluster.file(node), &kept)?;
    }
    cluster.start_node(node)?;
    cluster.wait_until_whole(WHOLE, Duration::ZERO)?;
    // Hosts write.
    wait(rng, 300, 1500);
    damage(cluster, node, rng, |disk, _, _| {
        // Only what the disk holds now has to go: elsewhere both are zeros.
        let older = File::open(&kept)?;
        for part in written(disk, 0)?.into_iter().chain(written(&older, 0)?) {
            copy_part(&older, disk, part)?;
        }
        Ok(())
    })?;
    Ok(fs::remove_file(kept)?)
}

/// Waits until what a dead process has asked of its disk has ended, and keeps others from it.
fn hold(disk: &Path) -> Result<File> {
    let file = File::open(disk)?;
    let since = Instant::now();
    while let Err(e) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
        ensure!(e == Errno::WOULDBLOCK, "cannot lock {}: {e}", disk.display());
        ensure!(since.elapsed() < LET_GO, "a dead process still has {}", disk.display());
        thread::sleep(Duration::from_millis(5));
    }
    Ok(file)
}

/// The superblock's copy that holds, and its place.
pub fn superblock(disk: &File) -> Result<(u64, Superblock)> {
    let mut copies = Vec::new();
    for place in 0..SUPERBLOCKS {
        let mut bytes = vec![0; SECTOR as usize];
        disk.read_exact_at(&mut bytes, place * SECTOR)?;
        copies.extend(Superblock::decode_copy(&bytes, place).ok().map(|sb| (place, sb)));
    }
    copies.into_iter().max_by_key(|(_, sb)| sb.sequence).context("a disk has no superblock")
}

fn zero(disk: &File, sectors: Range<u64>) -> Result<()> {
    let bytes = vec![0; ((sectors.end - sectors.start) * SECTOR) as usize];
    Ok(disk.write_all_at(&bytes, sectors.start * SECTOR)?)
}

/// Changes some bytes of a sector.
fn change(disk: &File, sector: u64, rng: &mut Rng) -> Result<()> {
    let mut bytes = vec![0; rng.usize(1..64)];
    let at = sector * SECTOR + rng.u64(0..SECTOR - 64);
    disk.read_exact_at(&mut bytes, at)?;
    bytes.iter_mut().for_each(|b| *b ^= rng.u8(1..));
    Ok(disk.write_all_at(&bytes, at)?)
}

/// Those of these sectors that do not hold zeros.
fn written_sectors(disk: &File, sectors: Range<u64>) -> Result<Vec<u64>> {
    let mut bytes = vec![0; ((sectors.end - sectors.start) * SECTOR) as usize];
    disk.read_exact_at(&mut bytes, sectors.start * SECTOR)?;
    let each = sectors.zip(bytes.chunks(SECTOR as usize));
    Ok(each.filter(|(_, bytes)| bytes.iter().any(|b| *b != 0)).map(|(sector, _)| sector).collect())
}

/// Where something has been written on a disk, from a byte on.
pub fn written(disk: &File, from: u64) -> Result<Vec<Range<u64>>> {
    let mut parts = Vec::new();
    let mut at = from;
    loop {
        match seek(disk, SeekFrom::Data(at)) {
            Ok(start) => at = start,
            Err(Errno::NXIO) => return Ok(parts),
            Err(e) => return Err(e.into()),
        }
        let end = seek(disk, SeekFrom::Hole(at))?;
        parts.push(at..end);
        at = end;
    }
}

/// Copies a disk to a new file, in which holes stay holes.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let (from, to) = (File::open(from)?, File::create(to)?);
    to.set_len(from.metadata()?.len())?;
    written(&from, 0)?.into_iter().try_for_each(|part| copy_part(&from, &to, part))
}

fn copy_part(from: &File, to: &File, part: Range<u64>) -> Result<()> {
    let mut at = part.start;
    while at < part.end {
        let mut bytes = vec![0; PIECE.min(part.end - at) as usize];
        from.read_exact_at(&mut bytes, at)?;
        to.write_all_at(&bytes, at)?;
        at += bytes.len() as u64;
    }
    Ok(())
}
