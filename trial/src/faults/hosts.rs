//! Who writes and reads. Each host has blocks of its own, knows what it wrote last to each, and
//! goes to the next node when its own does not answer; a write that was not answered is done
//! again there until it is.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use fastrand::Rng;
use weft_front::nbd::client::{self, Client, ClientError};

use super::cluster::{VOLUME, VOLUME_BYTES};
use super::fault::PATIENCE;
use super::watch::Watch;

pub const BLOCK: u64 = 4096;

/// Hosts at a time.
const HOSTS: u64 = 4;

/// The most blocks of a request.
const LONGEST: u64 = 64;

/// A request that has waited for so long fails, whatever was done to a node.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Which versions of each block of the volume have been written. Each block has one writer, who counts.
pub struct History {
    sent: Vec<AtomicU64>,
    acknowledged: Vec<AtomicU64>,
}

impl Default for History {
    fn default() -> History {
        let none = || (0..VOLUME_BYTES / BLOCK).map(|_| AtomicU64::new(0)).collect();
        History { sent: none(), acknowledged: none() }
    }
}

impl History {
    /// The last version of each block that was sent.
    pub fn sent(&self) -> Vec<u64> {
        self.sent.iter().map(|version| version.load(Ordering::SeqCst)).collect()
    }

    /// The last version of each block that was acknowledged.
    pub fn acknowledged(&self) -> Vec<u64> {
        self.acknowledged.iter().map(|version| version.load(Ordering::SeqCst)).collect()
    }
}

/// The bytes of a version of a block.
pub fn content(seed: u64, block: u64, version: u64) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK as usize];
    if version > 0 {
        Rng::with_seed(seed ^ (block << 32 | version)).fill(&mut bytes);
    }
    bytes
}

/// What the hosts and the rounds share.
#[derive(Default)]
struct Shared {
    watch: Watch,
    history: Arc<History>,
    /// Requests answered, of each host.
    answered: [AtomicU64; HOSTS as usize],
    /// How often all was to be read back so far, and how often each host has done so.
    to_read_back: AtomicU64,
    read_back: [AtomicU64; HOSTS as usize],
    /// In nanoseconds.
    longest_wait: AtomicU64,
}

/// The hosts, each in a thread.
pub struct Hosts {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Result<u64>>>,
}

impl Hosts {
    /// Starts them.
    pub fn start(sockets: Vec<PathBuf>, seed: u64) -> Result<Hosts> {
        let shared = Arc::new(Shared::default());
        let mut threads = Vec::new();
        for n in 0..HOSTS {
            let (shared, sockets) = (shared.clone(), sockets.clone());
            let host = Host {
                rng: Rng::with_seed(seed ^ (n + 1) << 40),
                number: n as usize,
                // The first at the attached host, which is the last.
                node: sockets.len() - 1 - n as usize % sockets.len(),
                sockets,
                client: None,
                first: n * (VOLUME_BYTES / BLOCK / HOSTS),
                versions: vec![0; (VOLUME_BYTES / BLOCK / HOSTS) as usize],
                shared,
                seed,
            };
            threads.push(thread::Builder::new().spawn(move || host.run())?);
        }
        Ok(Hosts { shared, threads })
    }

    /// What has been written.
    pub fn history(&self) -> Arc<History> {
        self.shared.history.clone()
    }

    /// Requests answered so far.
    pub fn answered(&self) -> u64 {
        self.shared.answered.iter().map(|n| n.load(Ordering::Relaxed)).sum()
    }

    /// Waits until every request that is under way has its answer, so that how long it waited
    /// counts for this round and not for the next.
    pub fn catch_up(&self) -> Result<()> {
        let count = |n: &AtomicU64| n.load(Ordering::Relaxed);
        let before: Vec<u64> = self.shared.answered.iter().map(count).collect();
        while self.shared.answered.iter().zip(&before).any(|(now, before)| count(now) == *before) {
            self.check()?;
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Has the hosts read back all that they have written, and waits until they have.
    pub fn read_all(&self) -> Result<()> {
        let number = self.shared.to_read_back.fetch_add(1, Ordering::Relaxed) + 1;
        while self.shared.read_back.iter().any(|n| n.load(Ordering::Relaxed) < number) {
            self.check()?;
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// The longest that a request has waited since the last call.
    pub fn take_longest_wait(&self) -> Duration {
        Duration::from_nanos(self.shared.longest_wait.swap(0, Ordering::Relaxed))
    }

    /// Fails if a host has.
    pub fn check(&self) -> Result<()> {
        self.shared.watch.check()
    }

    /// Has the hosts read everything back. Returns how many blocks that were.
    pub fn finish(self) -> Result<u64> {
        self.shared.watch.stop();
        let mut blocks = 0;
        for thread in self.threads {
            blocks += thread.join().map_err(|_| anyhow!("a host panicked"))??;
        }
        Ok(blocks)
    }
}

struct Host {
    number: usize,
    sockets: Vec<PathBuf>,
    node: usize,
    client: Option<Client<UnixStream>>,
    rng: Rng,
    first: u64,
    /// Of each block, which write of it was the last; 0 before the first.
    versions: Vec<u64>,
    shared: Arc<Shared>,
    seed: u64,
}

impl Host {
    fn run(mut self) -> Result<u64> {
        let result = self.work();
        self.shared.watch.tell(result)
    }

    fn work(&mut self) -> Result<u64> {
        let blocks = self.versions.len() as u64;
        while self.shared.watch.goes_on() {
            let asked = self.shared.to_read_back.load(Ordering::Relaxed);
            if self.shared.read_back[self.number].load(Ordering::Relaxed) < asked {
                self.read_all()?;
                self.shared.read_back[self.number].store(asked, Ordering::Relaxed);
            }
            let len = if self.rng.bool() { 1 } else { self.rng.u64(1..=LONGEST) };
            let from = self.rng.u64(0..blocks - len);
            if self.rng.u8(0..10) < 6 {
                self.write(from, len)?;
            } else {
                self.read(from, len)?;
            }
        }
        self.read_all()?;
        Ok(blocks)
    }

    fn read_all(&mut self) -> Result<()> {
        let blocks = self.versions.len() as u64;
        for from in (0..blocks).step_by(LONGEST as usize) {
            self.read(from, LONGEST.min(blocks - from))?;
        }
        Ok(())
    }

    fn write(&mut self, from: u64, len: u64) -> Result<()> {
        let range = from as usize..(from + len) as usize;
        self.versions[range.clone()].iter_mut().for_each(|v| *v += 1);
        let bytes = self.content(from, len);
        let offset = (self.first + from) * BLOCK;
        let (first, shared) = (self.first as usize, self.shared.clone());
        let note = |host: &Host, list: &[AtomicU64]| {
            for n in range.clone() {
                list[first + n].store(host.versions[n], Ordering::SeqCst);
            }
        };
        note(self, &shared.history.sent);
        self.until_answered(|client| client.write_at(offset, &bytes, false))?;
        note(self, &shared.history.acknowledged);
        Ok(())
    }

    fn read(&mut self, from: u64, len: u64) -> Result<()> {
        let offset = (self.first + from) * BLOCK;
        let found = self.until_answered(|client| client.read_at(offset, (len * BLOCK) as u32))?;
        let expected = self.content(from, len);
        if found == expected {
            return Ok(());
        }
        let differs = |n: &u64| {
            let at = (n * BLOCK) as usize..((n + 1) * BLOCK) as usize;
            found[at.clone()] != expected[at]
        };
        let block = (0..len).find(differs).unwrap_or(0);
        let version = self.versions[(from + block) as usize];
        let there = self.version_of(&found[(block * BLOCK) as usize..], from + block, version);
        bail!(
            "block {} read from node {} differs from the content written: expected version {version}, found \
             {there}",
            self.first + from + block,
            self.node
        )
    }

    /// Says which version of a block these bytes are.
    fn version_of(&self, bytes: &[u8], block: u64, latest: u64) -> String {
        let is = |version: &u64| bytes[..BLOCK as usize] == self.block(block, *version)[..];
        match (0..=latest + 2).rev().find(is) {
            Some(version) => format!("version {version}"),
            None => "none that there ever was".to_string(),
        }
    }

    fn content(&self, from: u64, len: u64) -> Vec<u8> {
        (from..from + len).flat_map(|b| self.block(b, self.versions[b as usize])).collect()
    }

    fn block(&self, block: u64, version: u64) -> Vec<u8> {
        content(self.seed, self.first + block, version)
    }

    /// Asks one node after the other until one answers.
    fn until_answered<T>(
        &mut self,
        mut ask: impl FnMut(&mut Client<UnixStream>) -> client::Result<T>,
    ) -> Result<T> {
        let since = Instant::now();
        loop {
            let asked = match self.client.as_mut() {
                Some(client) => Some(ask(client)),
                None => self.connect().then(|| ask(self.client.as_mut().expect("connected"))),
            };
            match asked {
                Some(Ok(answer)) => {
                    let waited = since.elapsed().as_nanos() as u64;
                    self.shared.longest_wait.fetch_max(waited, Ordering::Relaxed);
                    self.shared.answered[self.number].fetch_add(1, Ordering::Relaxed);
                    return Ok(answer);
                }
                Some(Err(ClientError::Failed(e))) => {
                    bail!("node {} refused a request: {e}", self.node)
                }
                Some(Err(_)) | None => {
                    self.client = None;
                    self.node = (self.node + 1) % self.sockets.len();
                }
            }
            if since.elapsed() > LONGEST_WAIT {
                bail!("no node has answered a request for {} s", LONGEST_WAIT.as_secs());
            }
        }
    }

    fn connect(&mut self) -> bool {
        let connected = UnixStream::connect(&self.sockets[self.node]).ok().and_then(|stream| {
            stream.set_read_timeout(Some(PATIENCE)).ok()?;
            stream.set_write_timeout(Some(PATIENCE)).ok()?;
            Client::connect(stream, VOLUME).ok()
        });
        if connected.is_none() {
            thread::sleep(Duration::from_millis(20));
        }
        self.client = connected;
        self.client.is_some()
    }
}
