//! `weft check --real`: real processes, real faults. Five (or more) nodes run in processes of
//! their own, each in a network namespace and on a file system of its own if that can be had;
//! hosts write and read over NBD, and go to the next node when theirs is gone; round by round
//! something is done to a node, undone, and everything must become whole again.
//!
//! What is checked: every answer to a read is what was written last; no request fails; no request
//! waits for longer than is stated; the nodes agree and all redundancy is whole after each round;
//! a scrub finds all parity true.
//!
//! - [`cluster`]: the processes
//! - [`network`]: namespaces and what can be done to links
//! - [`faults`]: what is done to nodes
//! - [`hosts`]: who writes and reads

mod cluster;
mod faults;
mod hosts;
mod network;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fastrand::Rng;
use serde_json::json;
use weft_core::layout::LayoutSpec;

use crate::output::{Counts, Stage, say, say_json, table};
use cluster::Cluster;
pub use faults::{FAULTS, Fault};
use hosts::Hosts;

/// How long everything may take to become whole after a round.
const WHOLE: Duration = Duration::from_secs(90);

/// Every so many rounds everything is scrubbed.
const SCRUB_EVERY: u32 = 10;

/// What is to be checked.
#[derive(Debug)]
pub struct Real {
    pub rounds: u32,
    pub seed: u64,
    pub nodes: usize,
    pub layout: LayoutSpec,
    pub faults: Vec<Fault>,
    pub dir: Option<PathBuf>,
    pub json: bool,
}

/// What has been done and seen of one fault.
#[derive(Default)]
struct Tally {
    rounds: u32,
    longest_wait: Duration,
    longest_healing: Duration,
}

impl Real {
    /// Runs the rounds; fails with what went wrong.
    pub fn run(&self) -> Result<ExitCode> {
        let mut rng = Rng::with_seed(self.seed);
        let scratch = match &self.dir {
            Some(dir) => tempfile::tempdir_in(dir),
            None => tempfile::tempdir(),
        }
        .context("cannot make a directory for the nodes")?;
        let mut cluster = Cluster::start(scratch.path(), self.nodes, self.layout)?;
        let faults: Vec<Fault> = self.faults.iter().copied().filter(|f| cluster.can(*f)).collect();
        let Some(_) = faults.first() else { bail!("none of these faults is possible here") };
        if let Some(why) = cluster.without() {
            eprintln!("weft: {why}");
        }
        let hosts = Hosts::start(cluster.sockets(), self.seed)?;
        let mut tallies: Vec<Tally> = faults.iter().map(|_| Tally::default()).collect();
        let stage = Stage::new("rounds", u64::from(self.rounds), Counts::Things);
        for round in 0..self.rounds {
            let n = rng.usize(0..faults.len());
            let (fault, node) = (faults[n], rng.usize(0..self.nodes));
            let what = format!("round {round}: {fault} at node {node}");
            let told = |e: anyhow::Error| self.fail(e.context(what.clone()), &mut None);
            hosts.take_longest_wait();
            if let Err(e) = fault.inflict(&mut cluster, node, &mut rng).and_then(|()| hosts.check())
            {
                return told(e);
            }
            let healing = Instant::now();
            let whole = cluster.wait_until_whole(WHOLE).and_then(|()| hosts.check());
            if let Err(e) = whole {
                let e = e.context(cluster.describe());
                let kept = scratch.keep();
                return self.fail(e.context(what), &mut Some(kept));
            }
            if fault.hurts_data() || round % SCRUB_EVERY == SCRUB_EVERY - 1 {
                cluster.scrub().with_context(|| what.clone())?;
            }
            let tally = &mut tallies[n];
            let (waited, healed) = (hosts.take_longest_wait(), healing.elapsed());
            tally.rounds += 1;
            tally.longest_wait = tally.longest_wait.max(waited);
            tally.longest_healing = tally.longest_healing.max(healed);
            let line = format!("{what}: longest wait {waited:.1?}, whole after {healed:.1?}");
            stage.bar().suspend(|| eprintln!("{line}"));
            stage.advance(1);
        }
        stage.done(format!("{} requests answered", hosts.answered()));
        let blocks = hosts.finish()?;
        cluster.scrub()?;
        cluster.stop()?;
        self.report(&faults, &tallies, blocks)
    }

    fn fail(&self, error: anyhow::Error, kept: &mut Option<PathBuf>) -> Result<ExitCode> {
        let kept =
            kept.as_ref().map(|p| format!("; the nodes' directories are in {}", p.display()));
        Err(error.context(format!("seed {} failed{}", self.seed, kept.unwrap_or_default())))
    }

    fn report(&self, faults: &[Fault], tallies: &[Tally], blocks: u64) -> Result<ExitCode> {
        let rows = faults.iter().zip(tallies);
        if self.json {
            let row = |(fault, t): (&Fault, &Tally)| {
                json!({
                    "fault": fault.to_string(),
                    "rounds": t.rounds,
                    "longest_wait_s": t.longest_wait.as_secs_f64(),
                    "longest_healing_s": t.longest_healing.as_secs_f64(),
                })
            };
            say_json(json!({
                "seed": self.seed,
                "rounds": self.rounds,
                "blocks_verified": blocks,
                "faults": rows.map(row).collect::<Vec<_>>(),
            }))?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut table = table(["fault", "rounds", "longest wait of a host", "longest healing"]);
        for (fault, t) in rows {
            table.add_row([
                fault.to_string(),
                t.rounds.to_string(),
                format!("{:.2} s", t.longest_wait.as_secs_f64()),
                format!("{:.2} s", t.longest_healing.as_secs_f64()),
            ]);
        }
        say(table)?;
        say(format!(
            "{} rounds: every answer was right, no request failed, {blocks} blocks read back at the \
             end, all parity true",
            self.rounds
        ))?;
        Ok(ExitCode::SUCCESS)
    }
}
