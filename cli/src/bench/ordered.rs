//! `weft bench --ordered`: what it costs to keep data behind their log record, by waiting and
//! flushing, and by saying so.
//!
//! Both write the same: groups of log records, each group after the one before, and for each group
//! as many blocks of data, after their records. *Barriers* is what a host does that has only a
//! flush: it writes the records, waits, flushes, waits, and then writes the data and goes on.
//! *Dependencies* sends all at once and says what comes after what; of a group, by one request that
//! comes after all of its records. Both have the same number
//! of requests under way at most, over the same connection to the same array.

use std::collections::VecDeque;
use std::fmt;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::Bytes;
use fastrand::Rng;
use serde_json::json;
use weft_client::{Completion, Id, Volume};
use weft_host::{Array, Control, ControlRequest, Listen};
use weft_terminal::{Counts, Stage, align_right, say, say_json, table};

use super::{Bench, Medium, NODES, VOLUME};
use weft_trial::scratch::Scratch;

/// Bytes of a record, and of a block of data.
const BLOCK: u64 = 4096;
/// Bytes at the volume's beginning for the log.
const LOG: u64 = 16 << 20;
/// Requests under way at most.
const UNDER_WAY: usize = 256;
/// Records in a group: each for itself, and as many as a busy host commits together.
const GROUPS: [usize; 2] = [1, 16];

/// How the order is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Barriers,
    Dependencies,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Way::Barriers => "barriers",
            Way::Dependencies => "dependencies",
        })
    }
}

/// What came out of one way.
struct Line {
    medium: &'static str,
    group: usize,
    way: Way,
    records_per_s: f64,
    /// Of a dependency's line: how many times the records of the barriers'.
    ratio: Option<f64>,
}

/// A host that logs.
struct Host {
    volume: Volume,
    rng: Rng,
    data: Bytes,
    next_record: u64,
    under_way: VecDeque<Completion>,
}

impl Host {
    fn open(socket: &Path) -> Result<Host> {
        let path = socket.to_str().context("the directory's name is not text")?;
        let mut rng = Rng::with_seed(1994);
        let mut data = vec![0; 2 * BLOCK as usize];
        rng.fill(&mut data);
        let volume = Volume::open(&[path], VOLUME)?;
        let (data, under_way) = (data.into(), VecDeque::new());
        Ok(Host { volume, rng, data, next_record: 0, under_way })
    }

    /// Another piece each time, so that what is written changes.
    fn block(&mut self) -> Bytes {
        let at = self.rng.usize(..=BLOCK as usize / 8) * 8;
        self.data.slice(at..at + BLOCK as usize)
    }

    fn write_records(&mut self, group: usize, after: &[Id]) -> Result<Vec<Completion>> {
        let mut records = Vec::new();
        for _ in 0..group {
            let at = self.next_record * BLOCK % LOG;
            self.next_record += 1;
            let block = self.block();
            records.push(self.volume.write(at, block, after)?);
        }
        Ok(records)
    }

    fn write_data(&mut self, group: usize, after: &[Id]) -> Result<()> {
        let places = (self.volume.size() - LOG) / BLOCK;
        for _ in 0..group {
            let at = LOG + self.rng.u64(..places) * BLOCK;
            let block = self.block();
            let write = self.volume.write(at, block, after)?;
            self.keep(write)?;
        }
        Ok(())
    }

    /// One request that comes after all of these and stands for them, so that what follows names one
    /// and not each: a flush, for which nobody waits.
    fn stand_in(&mut self, ids: Vec<Id>) -> Result<Vec<Id>> {
        if ids.len() == 1 {
            return Ok(ids);
        }
        let flush = self.volume.flush(&ids)?;
        let id = flush.id();
        self.keep(flush)?;
        Ok(vec![id])
    }

    /// One more is under way; if these are too many, waits for the oldest.
    fn keep(&mut self, request: Completion) -> Result<()> {
        self.under_way.push_back(request);
        if self.under_way.len() > UNDER_WAY
            && let Some(oldest) = self.under_way.pop_front()
        {
            oldest.wait()?;
        }
        Ok(())
    }

    /// Logs and writes for some time, and says how many records a second.
    fn run(&mut self, way: Way, group: usize, time: Duration) -> Result<f64> {
        let begun = Instant::now();
        let (mut records, mut before) = (0, Vec::new());
        while begun.elapsed() < time {
            let log = self.write_records(group, &before)?;
            let ids: Vec<Id> = log.iter().map(Completion::id).collect();
            match way {
                Way::Barriers => {
                    for record in log {
                        record.wait()?;
                    }
                    self.volume.flush(&[])?.wait()?;
                    self.write_data(group, &[])?;
                }
                Way::Dependencies => {
                    for record in log {
                        self.keep(record)?;
                    }
                    before = self.stand_in(ids)?;
                    self.write_data(group, &before)?;
                }
            }
            records += group;
        }
        for request in self.under_way.drain(..) {
            request.wait()?;
        }
        Ok(records as f64 / begun.elapsed().as_secs_f64())
    }
}

/// Runs all of it.
pub fn run(bench: &Bench) -> Result<ExitCode> {
    let mut lines = Vec::new();
    for medium in bench.media()? {
        measure(bench, &medium, &mut lines)?;
    }
    match bench.json {
        true => say_json(json!({
            "volume_bytes": bench.size(),
            "seconds": bench.seconds(),
            "block_bytes": BLOCK,
            "under_way": UNDER_WAY,
            "ordered": lines.iter().map(Line::as_json).collect::<Vec<_>>(),
        }))?,
        false => say(describe(bench, &lines))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(bench: &Bench, medium: &Medium, lines: &mut Vec<Line>) -> Result<()> {
    let dir = Scratch::new("weft-bench-", &medium.dir)?;
    let socket = dir.path().join("weft.sock");
    let listens = [Listen::native_unix(socket.clone())];
    let silent = weft_host::Log::silent();
    let array = Array::start(dir.path(), &bench.spec(), &listens, silent)?.spawn()?;
    let mut control = Control::connect(dir.path())?;
    let mut host = Host::open(&socket)?;
    let time = Duration::from_secs(bench.seconds());
    // What is written first has no old content to be read: not what is to be measured.
    for at in (0..host.volume.size()).step_by(1 << 20) {
        let block = Bytes::from(vec![1; 1 << 20]);
        let length = (host.volume.size() - at).min(1 << 20) as usize;
        let write = host.volume.write(at, block.slice(..length), &[])?;
        host.keep(write)?;
    }
    for group in GROUPS {
        let mut by_barriers = None;
        for way in [Way::Barriers, Way::Dependencies] {
            control.request(&ControlRequest::Quiesce)?;
            let name = format!("{}: {way}, groups of {group}", medium.name);
            let stage = Stage::new(name, 1, Counts::Things);
            let records_per_s = host.run(way, group, time)?;
            stage.done(format_args!("{records_per_s:9.0} records/s"));
            let ratio = by_barriers.map(|before: f64| records_per_s / before);
            by_barriers = by_barriers.or(Some(records_per_s));
            lines.push(Line { medium: medium.name, group, way, records_per_s, ratio });
        }
    }
    drop(host);
    Ok(array.shutdown()?)
}

fn describe(bench: &Bench, lines: &[Line]) -> String {
    let mut table = table(["on", "records in a group", "order kept by", "records/s", "ratio"]);
    for line in lines {
        table.add_row([
            line.medium.to_string(),
            line.group.to_string(),
            line.way.to_string(),
            format!("{:.0}", line.records_per_s),
            line.ratio.map_or(String::new(), |r| format!("{r:.2}")),
        ]);
    }
    align_right(&mut table, [1, 3, 4]);
    format!(
        "{table}\nEach record of 4 KiB, followed by 4 KiB of random data, at most {UNDER_WAY} requests in flight; {NODES} nodes, \
         raid5, journal on, {} s each",
        bench.seconds()
    )
}

impl Line {
    fn as_json(&self) -> serde_json::Value {
        json!({
            "medium": self.medium,
            "group": self.group,
            "way": self.way.to_string(),
            "records_per_s": self.records_per_s,
            "ratio": self.ratio,
        })
    }
}
