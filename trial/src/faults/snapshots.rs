//! Snapshots of the volume that is written, under load and faults. Each is read back when it is taken and before it is
//! deleted. A block may be any version from the last that was acknowledged when the snapshot was asked for to the last that
//! had been sent when it was there.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use fastrand::Rng;
use serde_json::Value;
use weft_front::nbd::client::Client;
use weft_host::{Control, ControlRequest};

use super::cluster::{BUSY, VOLUME, VOLUME_BYTES};
use super::fault::PATIENCE;
use super::hosts::{BLOCK, History, content};
use super::watch::Watch;

/// The most that are kept at a time.
const MOST: usize = 3;

/// Blocks that are read at a time.
const PIECE: u64 = 64;

/// For how long the cluster may refuse or not answer, whatever was done to a node, beside the slack.
const LONGEST_WAIT: Duration = Duration::from_secs(180);

/// How often one asks again.
const EVERY: Duration = Duration::from_millis(100);

/// Shared with the rounds.
struct Shared {
    watch: Watch,
    /// Held while the map changes because of snapshots.
    changes: Mutex<()>,
}

/// Takes and reads snapshots beside the rounds.
pub struct Snapshots {
    shared: Arc<Shared>,
    thread: JoinHandle<Result<u64>>,
}

impl Snapshots {
    /// Starts it at these nodes: their directories and their sockets for hosts. `room` is how many bytes of each disk a snapshot
    /// takes at most, and `slack` how much longer than usual the cluster may take.
    pub fn start(
        doors: Vec<(PathBuf, PathBuf)>,
        room: u64,
        history: Arc<History>,
        (seed, slack): (u64, Duration),
    ) -> Result<Snapshots> {
        let shared = Arc::new(Shared { watch: Watch::default(), changes: Mutex::new(()) });
        let taker = Taker {
            shared: shared.clone(),
            doors,
            room,
            history,
            longest_wait: LONGEST_WAIT + slack,
            seed,
            rng: Rng::with_seed(seed ^ 0x5a5a),
            taken: Vec::new(),
            count: 0,
        };
        let thread = thread::Builder::new().spawn(move || taker.run())?;
        Ok(Snapshots { shared, thread })
    }

    /// Keeps the map from being changed by snapshots.
    pub fn pause(&self) -> MutexGuard<'_, ()> {
        self.shared.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails if one was not what it must be.
    pub fn check(&self) -> Result<()> {
        self.shared.watch.check()
    }

    /// Ends it: all snapshots are read once more and deleted. Says how many there were.
    pub fn finish(self) -> Result<u64> {
        self.shared.watch.stop();
        self.thread.join().map_err(|_| anyhow!("who takes snapshots panicked"))?
    }
}

/// A snapshot: which versions a block may have.
struct Taken {
    name: String,
    least: Vec<u64>,
    most: Vec<u64>,
}

struct Taker {
    shared: Arc<Shared>,
    doors: Vec<(PathBuf, PathBuf)>,
    room: u64,
    history: Arc<History>,
    longest_wait: Duration,
    seed: u64,
    rng: Rng,
    taken: Vec<Taken>,
    count: u64,
}

impl Taker {
    fn run(mut self) -> Result<u64> {
        let result = self.work().context("a snapshot");
        let shared = self.shared.clone();
        shared.watch.tell(result)
    }

    fn work(&mut self) -> Result<u64> {
        let shared = self.shared.clone();
        while shared.watch.goes_on() {
            thread::sleep(Duration::from_millis(self.rng.u64(200..3000)));
            if self.taken.len() >= MOST || !self.has_room()? {
                self.delete_oldest()?;
                continue;
            }
            match self.take() {
                Ok(()) => self.read(self.taken.len() - 1)?,
                Err(e) if self.count == 0 && e.to_string().contains("snapshots") => {
                    eprintln!("weft: no snapshots are taken: {e}");
                    return Ok(0);
                }
                Err(e) => return Err(e),
            }
        }
        while !self.taken.is_empty() {
            self.delete_oldest()?;
        }
        Ok(self.count)
    }

    /// Asks one node after the other until one answers, or refuses with an error that `is_final` names. `what` says what for.
    fn ask(
        &mut self,
        request: &ControlRequest,
        is_final: impl Fn(&str) -> bool,
        what: &str,
    ) -> Result<Result<Value, String>> {
        let since = Instant::now();
        loop {
            let (dir, _) = &self.doors[self.rng.usize(0..self.doors.len())];
            match Control::connect(dir).and_then(|mut control| control.request(request)) {
                Ok(answer) => return Ok(Ok(answer)),
                Err(e) if is_final(&e.0) => return Ok(Err(e.0)),
                Err(e) if since.elapsed() > self.longest_wait => {
                    bail!(waited(what, self.longest_wait, &e.0))
                }
                Err(_) => thread::sleep(EVERY),
            }
        }
    }

    /// Whether each disk has room for one more.
    fn has_room(&mut self) -> Result<bool> {
        let status = self
            .ask(&ControlRequest::Status, |_| false, "for the status")?
            .map_err(|e| anyhow!(e))?;
        let nodes = status["nodes"].as_array().context("a status has nodes")?;
        let mut free = nodes.iter().filter_map(|node| node["free_bytes"].as_u64());
        Ok(free.all(|free| free >= self.room))
    }

    fn take(&mut self) -> Result<()> {
        let shared = self.shared.clone();
        let _changes = shared.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let snapshot = format!("s{}", self.count);
        let least = self.history.acknowledged();
        let request = ControlRequest::VolumeSnapshot {
            volumes: vec![VOLUME.into()],
            snapshot: snapshot.clone(),
        };
        // One that was asked for before may have been taken, though nobody said so.
        let there = |e: &str| e.contains("there is already a volume or snapshot");
        let refused = |e: &str| {
            e.contains("snapshots need a journal")
                || e.contains("snapshots need votes")
                || e.contains("snapshots need parity that is computed with each write")
        };
        let what = format!("for snapshot {VOLUME}@{snapshot}");
        if let Err(e) = self.ask(&request, |e| there(e) || refused(e), &what)?
            && !there(&e)
        {
            bail!("{e}");
        }
        let most = self.history.sent();
        self.count += 1;
        self.taken.push(Taken { name: format!("{VOLUME}@{snapshot}"), least, most });
        Ok(())
    }

    /// Reads all of a snapshot, and learns which versions it has: they never change.
    fn read(&mut self, n: usize) -> Result<()> {
        for first in (0..VOLUME_BYTES / BLOCK).step_by(PIECE as usize) {
            let found = self.read_piece(n, first)?;
            let taken = &mut self.taken[n];
            for (block, bytes) in (first..).zip(found.chunks(BLOCK as usize)) {
                let at = block as usize;
                let (least, most) = (taken.least[at], taken.most[at]);
                let is = |version: &u64| content(self.seed, block, *version) == bytes;
                let Some(version) = (least..=most).rev().find(is) else {
                    let other = (0..=most + 64).find(is);
                    let name = &taken.name;
                    bail!(
                        "block {block} of {name} may be of versions {least} to {most}, and is of {other:?}"
                    );
                };
                (taken.least[at], taken.most[at]) = (version, version);
            }
        }
        Ok(())
    }

    fn read_piece(&mut self, n: usize, first: u64) -> Result<Vec<u8>> {
        let since = Instant::now();
        let (offset, length) = (first * BLOCK, (PIECE * BLOCK) as u32);
        loop {
            let (_, socket) = &self.doors[self.rng.usize(0..self.doors.len())];
            let read = || {
                let stream = UnixStream::connect(socket).ok()?;
                stream.set_read_timeout(Some(PATIENCE)).ok()?;
                stream.set_write_timeout(Some(PATIENCE)).ok()?;
                let mut client = Client::connect(stream, &self.taken[n].name).ok()?;
                client.read_at(offset, length).ok()
            };
            if let Some(found) = read() {
                return Ok(found.to_vec());
            }
            if since.elapsed() > self.longest_wait {
                let what = format!("for bytes {offset}+{length} of {}", self.taken[n].name);
                bail!(waited(&what, self.longest_wait, "no node has answered the read"));
            }
            thread::sleep(EVERY);
        }
    }

    /// Reads the oldest once more, and deletes it. It is merged in the background.
    fn delete_oldest(&mut self) -> Result<()> {
        if self.taken.is_empty() {
            return Ok(());
        }
        self.read(0)?;
        let shared = self.shared.clone();
        let _changes = shared.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let name = self.taken.remove(0).name;
        let gone = |e: &str| e.contains("there is no volume");
        let what = format!("for {name} to be deleted");
        let request = ControlRequest::VolumeDelete { name, now: true };
        self.ask(&request, gone, &what).map(|_| ())
    }
}

fn waited(what: &str, longest: Duration, why: &str) -> String {
    format!("waited {} s {what}: {why}; {BUSY}", longest.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_was_waited_for_and_how_to_allow_more() {
        assert_eq!(
            waited("for snapshot v@s1", Duration::from_secs(210), "no quorum"),
            "waited 210 s for snapshot v@s1: no quorum; if the machine is busy with other things, `--slack SECONDS` allows more"
        );
    }
}
