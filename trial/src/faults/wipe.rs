//! A disk that is wiped in a burst of writes to a volume whose parity waits. What is listed as lost is then just what
//! cannot be read, was exposed, and can be written, or accepted as zeros; all else is what was written last. Where small writes
//! are copied nothing is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use fastrand::Rng;
use serde_json::Value;
use weft_front::nbd::client::{Client, ClientError};
use weft_host::{ControlRequest, VolumeCreation};

use super::cluster::{Cluster, WHOLE, until_known};
use super::damage::wait;
use super::health::{Scrubbed, scrubbed};
use super::inflict;

/// The volume that is written, its size and its stripe unit.
const VOLUME: &str = "burst";
const BYTES: u64 = 4 << 20;
const UNIT: u64 = 16 << 10;

const BLOCK: u64 = 4096;
const BLOCKS: u64 = BYTES / BLOCK;

/// A request that is not answered for so long has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// A disk has copies of some writes of the burst after this time.
const COPIED: Duration = Duration::from_secs(10);

/// Between two writes.
const PAUSE: Duration = Duration::from_millis(2);

/// So many writes of the burst are over before the disk is wiped: with two parities for each block both wait for some that
/// the disk has.
const ENOUGH: u64 = BLOCKS / 6;

/// And the burst takes no longer until then.
const BURST: Duration = Duration::from_secs(60);

/// What the blocks may hold, by number: the version that was written last, and those after it that failed.
type Versions = BTreeMap<u64, Vec<u64>>;

/// Wipes the disk of a node in a burst, and looks at what became of the volume.
pub fn wipe(cluster: &mut Cluster, node: usize, rng: &mut Rng) -> Result<()> {
    let other = (node + 1 + rng.usize(0..cluster.nodes() - 1)) % cluster.nodes();
    make(cluster, other)?;
    let mut host = Host::connect(&cluster.sockets()[other], rng.u64(..))?;
    for block in 0..BLOCKS {
        host.write(block, 1).context("before the burst")?;
    }
    ask(cluster, other, &refresh(), "sectors_left", 0)?;
    let (over, so_far) = (AtomicBool::new(false), AtomicU64::new(0));
    let (host, written) = thread::scope(|scope| {
        let burst = scope.spawn(|| host.burst(&over, &so_far).map(|written| (host, written)));
        wait(rng, 200, 800);
        let since = Instant::now();
        while so_far.load(Ordering::Relaxed) < ENOUGH && since.elapsed() < BURST {
            thread::sleep(Duration::from_millis(5));
        }
        let copied = has_copies(cluster, other);
        let wiped = inflict::replace(cluster, node, rng);
        wait(rng, 0, 200);
        over.store(true, Ordering::Relaxed);
        let burst = burst.join().map_err(|_| anyhow!("the host of the burst panicked"))?;
        copied.and(wiped).and(burst)
    })?;
    cluster.wait_until_whole(WHOLE, Duration::ZERO)?;
    let seen = Seen { other, rows: cluster.data_columns()?, host, written };
    seen.judge(cluster).context("after a disk was wiped in a burst")?;
    let delete = ControlRequest::VolumeDelete { name: VOLUME.to_string(), now: true };
    until_known(|| cluster.ask(other, &delete)).map(drop)
}

/// Where writes are copied, some of the burst are, and not all of them are folded.
fn has_copies(cluster: &Cluster, node: usize) -> Result<()> {
    let since = Instant::now();
    while cluster.copies() && cluster.copied_bytes(node)? == 0 {
        ensure!(since.elapsed() < COPIED, "no write of the burst is copied");
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn make(cluster: &Cluster, node: usize) -> Result<()> {
    // Parity waits for the whole burst. Copies may fill their part of the journal, and none are made then before a pause of a
    // tenth of `idle`.
    let (redundancy, idle) = if cluster.copies() { ("copied", "50ms") } else { ("deferred", "1h") };
    let choices = [("redundancy", redundancy), ("idle", idle), ("exposed-for", "none")];
    let set = choices.map(|(key, value)| (key.to_string(), value.to_string())).into();
    let create = ControlRequest::VolumeCreate(VolumeCreation {
        name: VOLUME.to_string(),
        size: BYTES,
        layout: Some(cluster.layout().to_string()),
        stripe_unit: Some(UNIT),
        set,
        ..VolumeCreation::default()
    });
    cluster.ask(node, &create).map(drop)
}

fn refresh() -> ControlRequest {
    ControlRequest::Refresh { volume: VOLUME.to_string(), offset: 0, length: None }
}

fn lost(accept: bool) -> ControlRequest {
    ControlRequest::Lost { volume: VOLUME.to_string(), accept }
}

/// Asks something of which one number must be this.
fn ask(cluster: &Cluster, node: usize, what: &ControlRequest, key: &str, is: u64) -> Result<Value> {
    let answer = cluster.ask(node, what)?;
    ensure!(answer[key] == is, "{key} should be {is}: {answer}");
    Ok(answer)
}

/// Who writes and reads the volume, at another node.
struct Host {
    client: Client<UnixStream>,
    rng: Rng,
    seed: u64,
}

impl Host {
    fn connect(socket: &Path, seed: u64) -> Result<Host> {
        let client = until_known(|| {
            let stream = UnixStream::connect(socket)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Ok(Client::connect(stream, VOLUME)?)
        })?;
        Ok(Host { client, rng: Rng::with_seed(seed), seed })
    }

    /// Writes blocks until that is over, and counts them. All hold their first version before.
    fn burst(&mut self, over: &AtomicBool, so_far: &AtomicU64) -> Result<Versions> {
        let mut written = Versions::new();
        let mut version = 1;
        while !over.load(Ordering::Relaxed) {
            let block = self.rng.u64(0..BLOCKS);
            version += 1;
            let may_be = written.entry(block).or_insert_with(|| vec![1]);
            match self.client.write_at(block * BLOCK, &self.content(block, version), false) {
                Ok(()) => *may_be = vec![version],
                Err(ClientError::Failed(_)) => may_be.push(version),
                Err(e) => bail!("a write of the burst: {e}"),
            }
            so_far.fetch_add(1, Ordering::Relaxed);
            thread::sleep(PAUSE);
        }
        Ok(written)
    }

    fn write(&mut self, block: u64, version: u64) -> Result<()> {
        let content = self.content(block, version);
        self.client
            .write_at(block * BLOCK, &content, false)
            .with_context(|| format!("block {block} cannot be written"))
    }

    /// A block's content; `None` if it cannot be read.
    fn read(&mut self, block: u64) -> Result<Option<Vec<u8>>> {
        match self.client.read_at(block * BLOCK, BLOCK as u32) {
            Ok(bytes) => Ok(Some(bytes.to_vec())),
            Err(ClientError::Failed(_)) => Ok(None),
            Err(e) => bail!("block {block}: {e}"),
        }
    }

    fn content(&self, block: u64, version: u64) -> Vec<u8> {
        let mut rng = Rng::with_seed(self.seed ^ (block << 32 | version));
        let mut bytes = vec![0; BLOCK as usize];
        rng.fill(&mut bytes);
        bytes
    }
}

/// What was written, and who reads it.
struct Seen {
    other: usize,
    /// Data columns of a stripe.
    rows: u64,
    host: Host,
    written: Versions,
}

impl Seen {
    fn judge(mut self, cluster: &mut Cluster) -> Result<()> {
        let listed = listed(cluster, self.other)?;
        ensure!(
            listed.is_empty() == cluster.copies(),
            "{} blocks were written, and {} are lost",
            self.written.len(),
            listed.len()
        );
        ensure!(
            self.unreadable()? == listed,
            "the blocks listed as lost differ from the unreadable ones"
        );
        let exposed: BTreeSet<u64> = self.written.keys().map(|b| self.row(*b)).collect();
        let spared = listed.iter().find(|b| !exposed.contains(&self.row(**b)));
        if let Some(spared) = spared {
            bail!("block {spared} is lost, and its parity never waited");
        }

        // Writing mends some, and accepting the others. What cannot be protected for their sake is then.
        let (mended, rest): (BTreeSet<u64>, BTreeSet<u64>) =
            listed.iter().partition(|b| **b % 2 == 0);
        for block in &mended {
            self.host.write(*block, u64::from(u32::MAX))?;
        }
        let left = self::listed(cluster, self.other)?;
        ensure!(left == rest, "{left:?} are lost after writing, and not {rest:?}");
        ask(cluster, self.other, &lost(true), "bytes_lost", 0)?;
        for block in listed {
            let wanted = match mended.contains(&block) {
                true => self.host.content(block, u64::from(u32::MAX)),
                false => vec![0; BLOCK as usize],
            };
            let found = self.host.read(block)?;
            ensure!(found == Some(wanted), "block {block} is not what it was mended to");
        }
        ask(cluster, self.other, &refresh(), "sectors_left", 0)?;
        let scrub = cluster.ask(self.other, &ControlRequest::scrub(VOLUME))?;
        ensure!(scrubbed(&scrub) != Scrubbed::Wrong, "the scrub found wrong parity: {scrub}");
        Ok(())
    }

    /// The blocks that cannot be read. All others must be what they may be.
    fn unreadable(&mut self) -> Result<BTreeSet<u64>> {
        let mut unreadable = BTreeSet::new();
        for block in 0..BLOCKS {
            let Some(found) = self.host.read(block)? else {
                unreadable.insert(block);
                continue;
            };
            let may_be = self.written.get(&block).map_or(&[1][..], Vec::as_slice);
            let known = may_be.iter().any(|v| self.host.content(block, *v) == found);
            ensure!(known, "block {block} holds none of the versions {may_be:?}");
        }
        Ok(unreadable)
    }

    /// The same number for blocks that one sector of parity covers.
    fn row(&self, block: u64) -> u64 {
        let (unit, within) = (block * BLOCK / UNIT, block % (UNIT / BLOCK));
        unit / self.rows * (UNIT / BLOCK) + within
    }
}

/// The blocks that are listed as lost.
fn listed(cluster: &Cluster, node: usize) -> Result<BTreeSet<u64>> {
    let answer = cluster.ask(node, &lost(false))?;
    ensure!(answer["listed_all"] == true, "the list is not whole");
    let mut blocks = BTreeSet::new();
    for range in answer["ranges"].as_array().context("ranges")? {
        let number = |key: &str| range[key].as_u64().context("a range");
        let (from, len) = (number("offset")?, number("length")?);
        ensure!(from % BLOCK == 0 && len % BLOCK == 0, "a part of a block is lost");
        blocks.extend(from / BLOCK..(from + len) / BLOCK);
    }
    ensure!(answer["bytes_lost"] == blocks.len() as u64 * BLOCK, "bytes that are lost: {answer}");
    Ok(blocks)
}
