//! Real processes, real faults (`weft check --real`). Five (or more) nodes run in processes of
//! their own, each in a network namespace and on a file system of its own if that can be had, and a
//! host that is its own controller (`weft attach`) in another. Hosts write and read over NBD, and go to
//! the next node when theirs is gone; so does a file system with programs on it. Round by round
//! something is done to a node, or to that host, and undone, and everything must become whole again.
//!
//! What is checked: every answer to a read is what was written last; no request fails; no request
//! waits for longer than [`Fault::longest_wait`] and the slack that was asked for; the nodes agree and all redundancy is whole after each round;
//! a scrub finds all parity true; in the end the file system is clean, with all in it that was made durable.
//!
//! - [`cluster`]: the processes
//! - [`device`]: disks that are block devices
//! - [`held_up`]: disks that are slow or hang
//! - [`network`]: namespaces and what can be done to links
//! - [`fault`]: the faults; `inflict`: does one to a node and undoes it
//! - [`damage`]: what is done to the disks of killed nodes
//! - [`wipe`]: a disk that is wiped while parity waits, or copies do
//! - [`hosts`]: who writes and reads blocks
//! - [`files`]: a file system and programs on it
//! - [`snapshots`]: snapshots of the blocks, taken and read meanwhile
//! - [`watch`]: what rounds and those beside them share

mod cluster;
mod damage;
mod device;
mod fault;
mod files;
mod health;
mod held_up;
mod hosts;
mod inflict;
mod network;
mod snapshots;
mod watch;
mod wipe;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use fastrand::Rng;
use weft_core::layout::LayoutSpec;
use weft_core::policy::Setting;
use weft_host::Lanes;
use weft_terminal::{Counts, Stage};

use cluster::{BUSY, Cluster, WHOLE};
pub use fault::{FAULTS, Fault};
use files::Files;
pub use files::Seen;
use hosts::Hosts;
use inflict::inflict;
use snapshots::Snapshots;

/// Every so many rounds everything is scrubbed.
const SCRUB_EVERY: u32 = 10;

/// After so many rounds of a fault that hurts data, some node must have noticed. One may go by: what
/// it hurt was written again, or was not in use.
const NOTICED_AFTER: usize = 3;

/// What is to be checked.
#[derive(Debug)]
pub struct Trial {
    /// The `weft` program, whose commands the processes are.
    pub weft: PathBuf,
    /// How many faults, one after the other.
    pub rounds: u32,
    /// What faults and requests are drawn from.
    pub seed: u64,
    /// How many nodes, each in a process.
    pub nodes: usize,
    /// The layout of both volumes.
    pub layout: LayoutSpec,
    /// What they choose otherwise than usual. None loses anything where one disk is lost.
    pub policy: Vec<Setting>,
    /// How many lanes each process has.
    pub lanes: Lanes,
    /// The faults that are drawn from.
    pub faults: Vec<Fault>,
    /// Where the nodes' directories are made; the system's for temporary files if it is not said.
    pub dir: Option<PathBuf>,
    /// How much longer than [`Fault::longest_wait`] a request may wait.
    pub slack: Duration,
}

/// What has been done and seen of one fault.
#[derive(Default)]
pub struct Tally {
    /// The longest that a request waited, of each round.
    pub waits: Vec<Duration>,
    /// The longest that it took until everything was whole.
    pub longest_healing: Duration,
    /// Sectors and pages of tables that the victims found unreadable or wrong.
    pub erasures: u64,
}

impl Tally {
    /// The median of the rounds' longest waits.
    pub fn median_wait(&self) -> Duration {
        let mut waits = self.waits.clone();
        waits.sort_unstable();
        waits.get(waits.len() / 2).copied().unwrap_or_default()
    }

    /// The longest that a request waited.
    pub fn longest_wait(&self) -> Duration {
        self.waits.iter().max().copied().unwrap_or_default()
    }
}

/// What came of a round.
struct Round {
    /// The longest that a request waited.
    waited: Duration,
    /// How long it took to become whole.
    healed: Duration,
    /// Sectors that the victim found unreadable or wrong.
    erasures: u64,
}

/// What came of all rounds.
pub struct Outcome {
    /// The faults that were possible, and what came of each.
    pub faults: Vec<(Fault, Tally)>,
    /// Blocks that the hosts read back in the end.
    pub blocks: u64,
    /// Snapshots that were taken and read.
    pub snapshots: u64,
    /// What the file system held, if there was one.
    pub seen: Option<Seen>,
}

/// Who writes and reads.
struct Users {
    hosts: Hosts,
    files: Option<Files>,
    snapshots: Snapshots,
}

impl Users {
    fn check(&self) -> Result<()> {
        self.files.as_ref().map_or(Ok(()), Files::check)?;
        self.snapshots.check()?;
        self.hosts.check()
    }
}

/// Draws one of the faults: each comes once before any comes again, so that few rounds miss none.
fn draw(to_come: &mut Vec<usize>, faults: usize, rng: &mut Rng) -> usize {
    if to_come.is_empty() {
        to_come.extend(0..faults);
        rng.shuffle(to_come);
    }
    to_come.pop().expect("there is a fault")
}

impl Trial {
    /// Runs the rounds.
    ///
    /// # Errors
    /// What went wrong; what the processes said is kept.
    pub fn run(&self) -> Result<Outcome> {
        let scratch = match &self.dir {
            Some(dir) => tempfile::tempdir_in(dir),
            None => tempfile::tempdir(),
        }
        .context("cannot make a directory for the nodes")?;
        match self.run_in(scratch.path()) {
            Ok(outcome) => Ok(outcome),
            Err(e) => {
                let kept = scratch.keep();
                let kept = kept.display();
                Err(e.context(format!("seed {} failed; the nodes' logs are in {kept}", self.seed)))
            }
        }
    }

    /// Whether the volume that is written and read is thin: with every other seed.
    pub fn is_thin(&self) -> bool {
        self.seed % 2 == 1
    }

    fn run_in(&self, dir: &Path) -> Result<Outcome> {
        let mut rng = Rng::with_seed(self.seed);
        let holds_up = self.faults.iter().any(|f| f.holds_up_disks());
        let size = (self.nodes, self.lanes);
        let volumes = (self.layout, &self.policy[..], self.is_thin());
        let mut cluster = Cluster::start(&self.weft, dir, size, volumes, holds_up)?;
        let possible = self.faults.iter().copied().filter(|f| !cluster.victims(*f).is_empty());
        let mut faults: Vec<(Fault, Tally)> = possible.map(|f| (f, Tally::default())).collect();
        ensure!(!faults.is_empty(), "none of these faults is possible here");
        if let Some(why) = cluster.without() {
            eprintln!("weft: {why}");
        }
        let sockets = cluster.sockets();
        let files = match Files::possible() {
            Ok(()) => Some(Files::start(dir, &sockets, self.seed)?),
            Err(e) => {
                eprintln!("weft: no file system is among the hosts: {e:#}");
                None
            }
        };
        let hosts = Hosts::start(sockets.clone(), self.seed)?;
        let room = cluster.most_of_snapshot()?;
        let snapshots =
            Snapshots::start(cluster.doors(), room, hosts.history(), (self.seed, self.slack))?;
        let users = Users { hosts, files, snapshots };
        let stage = Stage::new("rounds", u64::from(self.rounds), Counts::Things);
        let mut to_come = Vec::new();
        for number in 0..self.rounds {
            let n = draw(&mut to_come, faults.len(), &mut rng);
            let (fault, tally) = &mut faults[n];
            let victims = cluster.victims(*fault);
            let drawn = victims[rng.usize(0..victims.len())];
            let chosen = cluster.principal(number)?.filter(|node| victims.contains(node));
            let node = chosen.unwrap_or(drawn);
            let what = format!("round {number}: {fault} at {}", cluster.called(node));
            let hurts = fault.hurts_data() || cluster.lies(*fault, node);
            let scrubs = hurts || number % SCRUB_EVERY == SCRUB_EVERY - 1;
            let round = self.round(*fault, node, scrubs, &mut cluster, &users, &mut rng);
            let Round { waited, healed, erasures } =
                round.with_context(|| cluster.describe()).with_context(|| what.clone())?;
            tally.erasures += erasures;
            tally.waits.push(waited);
            tally.longest_healing = tally.longest_healing.max(healed);
            let line = format!("{what}: longest wait {waited:.1?}, whole after {healed:.1?}");
            stage.bar().suspend(|| eprintln!("{line}"));
            stage.advance(1);
        }
        stage.done(format!("{} requests answered", users.hosts.answered()));
        let snapshots = users.snapshots.finish()?;
        let blocks = users.hosts.finish()?;
        let last = sockets.last().context("there is no node")?;
        let seen = users.files.map(|f| f.finish(last)).transpose().context("the file system")?;
        cluster.scrub()?;
        cluster.stop()?;
        for (fault, tally) in &faults {
            let blunt = tally.waits.len() >= NOTICED_AFTER && tally.erasures == 0;
            if fault.is_counted() && blunt {
                bail!("no node noticed anything of {} rounds of '{fault}'", tally.waits.len());
            }
        }
        Ok(Outcome { faults, blocks, snapshots, seen })
    }

    /// Does something to a node, undoes it, and sees that everything becomes whole.
    fn round(
        &self,
        fault: Fault,
        node: usize,
        scrubs: bool,
        cluster: &mut Cluster,
        users: &Users,
        rng: &mut Rng,
    ) -> Result<Round> {
        users.hosts.take_longest_wait();
        let known = if fault.is_damage() { 0 } else { cluster.erasures(node)? };
        // Snapshots change the map, too. And one that is taken between damage and the scrub would not be scrubbed.
        let map_rests = fault.leaves_all_in() || scrubs;
        let _map_rests = map_rests.then(|| users.snapshots.pause());
        let merges = cluster.merges()?;
        let before = cluster.epoch(0)?;
        inflict(fault, cluster, node, rng)?;
        users.check()?;
        let healed = cluster.wait_until_whole(WHOLE + self.slack, fault.shows_after())?;
        users.hosts.catch_up()?;
        let waited = users.hosts.take_longest_wait();
        let may_wait = fault.longest_wait() + self.slack;
        ensure!(
            waited <= may_wait,
            "a request waited {:.1} s for its answer, and {:.1} s are allowed; {BUSY}",
            waited.as_secs_f64(),
            may_wait.as_secs_f64()
        );
        // When a deleted snapshot is merged, the map changes.
        if fault.leaves_all_in() && !merges {
            let after = cluster.epoch(0)?;
            ensure!(
                after == before,
                "a process has left the map: {before} was followed by {after}"
            );
        }
        let mut erasures = cluster.erasures(node)?;
        if scrubs {
            // As long as nothing is known of a disk's slots, a scrub fills it.
            self.replace_disks_without_claims(cluster, rng)?;
            // What hosts do not read before are parity and the other volume, which fio and fsck read.
            users.hosts.read_all().context("before a scrub")?;
            cluster.scrub()?;
            users.hosts.read_all().context("after a scrub")?;
            // With an empty disk the node counts from 0.
            erasures = erasures.max(cluster.erasures(node)?);
        }
        // A node that was started again counts from 0.
        Ok(Round { waited, healed, erasures: erasures.checked_sub(known).unwrap_or(erasures) })
    }

    /// Replaces disks whose record of used slots is damaged, as their status advises.
    fn replace_disks_without_claims(&self, cluster: &mut Cluster, rng: &mut Rng) -> Result<()> {
        for node in cluster.without_claims()? {
            eprintln!(
                "weft: the disk of node {node} is replaced, since it lost the record of its slots"
            );
            inflict(Fault::Replace, cluster, node, rng)?;
            cluster.wait_until_whole(WHOLE + self.slack, Fault::Replace.shows_after())?;
        }
        Ok(())
    }
}
