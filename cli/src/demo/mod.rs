//! `weft demo`: an array loses a node in mid-write and recovers, and every byte is compared.

mod image;
mod work;

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use fastrand::Rng;
use weft_host::status::{Status, VolumeMode};
use weft_host::{Array, Control, ControlRequest, Handle, Listen, NodeAction, Spec};
use weft_terminal::{Counts, Stage, align_right, bytes, mb_per_s, say, table};

use crate::output::NO_THREAD;
use crate::scrub;
use weft_trial::load::{Host, connect, pump};
use weft_trial::scratch::Scratch;
use work::{Compare, Cue, Fill, RandomWrites};

const NODES: usize = 5;
const VICTIM: usize = 2;
const VOLUME: &str = "demo";
/// Whoever has not caught up by then does not.
const PATIENCE: Duration = Duration::from_secs(60);

/// A guided run in a temporary directory.
#[derive(Debug, Args)]
pub struct Demo {
    /// Keep the array, to inspect it with `weft up`
    #[arg(long)]
    keep: bool,
    /// Use a sixteenth of the data
    #[arg(long)]
    quick: bool,
}

/// How the demo's volume is.
fn mode_of(status: &Status) -> Result<VolumeMode> {
    let volume = status.volumes.iter().find(|v| v.name == VOLUME);
    Ok(volume.context("the array does not report the state of its volume")?.mode)
}

/// How much of everything, in bytes.
#[derive(Clone, Copy)]
struct Sizes {
    disk: u64,
    /// The file system's part of the volume; random data follow.
    image: u64,
    data: u64,
    /// What each phase of random writes writes, at least.
    random: u64,
}

impl Sizes {
    const FULL: Sizes =
        Sizes { disk: 256 << 20, image: 64 << 20, data: 256 << 20, random: 96 << 20 };
    const QUICK: Sizes = Sizes { disk: 256 << 20, image: 8 << 20, data: 16 << 20, random: 6 << 20 };
}

impl Demo {
    /// Runs; succeeds if every byte came back and the scrub found nothing wrong.
    pub fn run(&self) -> Result<ExitCode> {
        let sizes = if self.quick { Sizes::QUICK } else { Sizes::FULL };
        let dir = Scratch::new("weft-demo-", &env::temp_dir())?;
        let outcome = Tour::begin(dir.path(), sizes).and_then(Tour::walk);
        if self.keep {
            let path = dir.keep();
            say(format!("The array is kept: weft up --dir {}", path.display()))?;
        }
        let compared = outcome?;
        say(format!(
            "All {compared} bytes that were compared are right; all parity is consistent."
        ))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// A line of the final table.
struct Line {
    what: &'static str,
    /// Whether the node was there, gone or back.
    when: When,
    bytes: u64,
    seconds: f64,
    compared: bool,
}

/// A part of the story.
#[derive(Clone, Copy, Debug)]
enum When {
    Before,
    During,
    After,
}

struct Tour {
    dir: PathBuf,
    sizes: Sizes,
    when: When,
    array: Handle,
    host: Host,
    /// What must be on the volume.
    shadow: Vec<u8>,
    image: image::Image,
    rng: Rng,
    lines: Vec<Line>,
}

impl Tour {
    fn begin(dir: &Path, sizes: Sizes) -> Result<Tour> {
        let socket = dir.join("nbd.sock");
        let spec = Spec {
            nodes: Some(NODES),
            disk_size: Some(sizes.disk),
            volumes: vec![(VOLUME.to_string(), 0)],
            ..Spec::default()
        };
        // The demo itself says what happens.
        let quiet = weft_host::Log::silent();
        let array = Array::start(dir, &spec, &[Listen::unix(socket.clone())], quiet)?.spawn()?;
        let host = connect(&socket, VOLUME)?;
        say(format!(
            "An array of {NODES} nodes, RAID 5, each with a sparse disk of {}, in {}: {} for hosts.",
            bytes(sizes.disk),
            dir.display(),
            bytes(host.size()),
        ))?;
        ensure!(host.size() >= sizes.image + sizes.data, "the volume is too small for the demo");
        let mut rng = Rng::with_seed(1994);
        let image = image::make(dir, sizes.image, &mut rng)?;
        say(format!("Written first: {}; then {} of random data.", image.what, bytes(sizes.data)))?;
        let mut shadow = image.content.clone();
        shadow.resize((sizes.image + sizes.data) as usize, 0);
        rng.fill(&mut shadow[sizes.image as usize..]);
        let (dir, when) = (dir.to_path_buf(), When::Before);
        Ok(Tour { dir, sizes, when, array, host, shadow, image, rng, lines: Vec::new() })
    }

    /// Returns how many bytes were compared.
    fn walk(mut self) -> Result<u64> {
        self.fill()?;
        self.compare("read and compare")?;
        self.write("random writes", None)?;
        self.when = When::During;
        self.write_and_kill()?;
        self.write("random writes, a node down", None)?;
        self.compare("read and compare, a node down")?;
        self.start_again()?;
        self.when = When::After;
        self.write("random writes, the node back", None)?;
        self.scrub()?;
        self.compare("read and compare, the node back")?;
        self.check_file_system()?;
        let table = self.table();
        drop(self.host);
        self.array.shutdown()?;
        say(table)?;
        Ok(self.lines.iter().filter(|l| l.compared).map(|l| l.bytes).sum())
    }

    fn fill(&mut self) -> Result<()> {
        let (name, all) = ("sequential write", self.shadow.len() as u64);
        let stage = Stage::new(name, all, Counts::Bytes);
        let begun = Instant::now();
        pump(&mut self.host, 8, &mut Fill::new(&self.shadow, &stage))?;
        self.host.flush()?;
        self.note(stage, name, all, begun, false);
        Ok(())
    }

    fn compare(&mut self, name: &'static str) -> Result<()> {
        let all = self.shadow.len() as u64;
        let stage = Stage::new(name, all, Counts::Bytes);
        let begun = Instant::now();
        let mut work = Compare::new(&self.shadow, &stage);
        pump(&mut self.host, 8, &mut work)?;
        let compared = work.compared();
        ensure!(compared == all, "only {compared} of {all} bytes were compared");
        self.note(stage, name, all, begun, true);
        Ok(())
    }

    fn write(&mut self, name: &'static str, at_third: Option<Cue>) -> Result<()> {
        let (image, random) = (self.sizes.image, self.sizes.random);
        let stage = Stage::new(name, random, Counts::Bytes);
        let begun = Instant::now();
        let data = &mut self.shadow[image as usize..];
        let mut work = RandomWrites::new(data, image, random, &mut self.rng, &stage, at_third);
        pump(&mut self.host, 16, &mut work)?;
        let written = work.written();
        self.host.flush()?;
        self.note(stage, name, written, begun, false);
        Ok(())
    }

    /// Writes on while a node is killed.
    fn write_and_kill(&mut self) -> Result<()> {
        let (when, time) = channel();
        let done = Arc::new(AtomicBool::new(false));
        let cue = Cue { when, done: done.clone() };
        let mut control = Control::connect(&self.dir)?;
        let killer = thread::Builder::new().spawn(move || {
            // Without a word the writes failed, and say so themselves.
            let killed = time.recv().map(|()| {
                control.request(&ControlRequest::Node { action: NodeAction::Kill, node: VICTIM })
            });
            done.store(true, Ordering::Release);
            killed
        });
        let killer = killer.context(NO_THREAD)?;
        let wrote = self.write("random writes, a node killed in between", Some(cue));
        let killed = killer.join().map_err(|_| anyhow::anyhow!("the killer panicked"))?;
        wrote?;
        killed.context("no node was killed")?.context("the node could not be killed")?;
        let status = Control::connect(&self.dir)?.status()?;
        let mode = mode_of(&status)?;
        ensure!(mode == VolumeMode::Degraded, "the volume should be degraded, and is {mode}");
        eprintln!("node {VICTIM} was killed with writes in flight; none of them failed");
        Ok(())
    }

    fn start_again(&mut self) -> Result<()> {
        let name = "the node is back, and catches up";
        let mut control = Control::connect(&self.dir)?;
        let begun = Instant::now();
        control.request(&ControlRequest::Node { action: NodeAction::Start, node: VICTIM })?;
        let behind = |status: &Status| status.nodes[VICTIM].stale_sectors.unwrap_or(0);
        let mut status = control.status()?;
        let most = behind(&status);
        let stage = Stage::new(name, most * 4096, Counts::Bytes);
        while mode_of(&status)? != VolumeMode::FaultFree {
            if begun.elapsed() > PATIENCE {
                bail!(
                    "node {VICTIM} did not catch up in {} s: it is {}, and {} sectors are behind",
                    PATIENCE.as_secs(),
                    status.nodes[VICTIM].state,
                    behind(&status)
                );
            }
            stage.at(most.saturating_sub(behind(&status)) * 4096);
            thread::sleep(Duration::from_millis(20));
            status = control.status()?;
        }
        let rebuilt = status.nodes[VICTIM].counters.map_or(0, |c| c.rebuilt_sectors);
        self.note(stage, name, rebuilt * 4096, begun, false);
        Ok(())
    }

    fn scrub(&mut self) -> Result<()> {
        let name = "scrub";
        let stage = Stage::new(name, 0, Counts::Things);
        let begun = Instant::now();
        let answer = Control::connect(&self.dir)?.request(&ControlRequest::scrub(VOLUME))?;
        let raw = self.host.size() / (NODES as u64 - 1) * NODES as u64;
        self.note(stage, name, raw, begun, false);
        eprintln!("{}", scrub::describe(&answer));
        ensure!(scrub::is_clean(&answer), "the scrub found something wrong");
        Ok(())
    }

    /// Lets the file system's own checker look at what the array gives back.
    fn check_file_system(&mut self) -> Result<()> {
        let mut back = Vec::with_capacity(self.sizes.image as usize);
        while (back.len() as u64) < self.sizes.image {
            back.extend_from_slice(&self.host.read_at(back.len() as u64, 1 << 20)?);
        }
        if let Some(verdict) = self.image.check(&self.dir, &back)? {
            eprintln!("{verdict}");
        }
        Ok(())
    }

    fn note(
        &mut self,
        stage: Stage,
        what: &'static str,
        bytes: u64,
        begun: Instant,
        compared: bool,
    ) {
        let seconds = begun.elapsed().as_secs_f64();
        stage.done(format_args!("{seconds:6.2} s  {:7.1} MB/s", mb_per_s(bytes, seconds)));
        self.lines.push(Line { what, when: self.when, bytes, seconds, compared });
    }

    fn table(&self) -> String {
        let mut table = table(["the loss", "phase", "bytes", "seconds", "MB/s", "compared"]);
        for line in &self.lines {
            table.add_row([
                format!("{:?}", line.when).to_lowercase(),
                line.what.to_string(),
                bytes(line.bytes),
                format!("{:.2}", line.seconds),
                format!("{:.1}", mb_per_s(line.bytes, line.seconds)),
                if line.compared {
                    format!("{} bytes, all equal", line.bytes)
                } else {
                    String::new()
                },
            ]);
        }
        align_right(&mut table, 2..6);
        table.to_string()
    }
}
