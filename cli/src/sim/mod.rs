//! `weft sim`: the simulator of performance on scenarios.
//!
//! - [`scenario`], [`document`], [`keys`]: what is run, and errors that say where it is wrong
//! - [`world`]: simulated on all cores ([`run`]), on real nodes ([`real`]), or both, compared
//!   ([`compare`])
//! - [`traces`]: what is replayed
//! - [`store`]: what is kept while it runs
//! - [`result`], [`outputs`]: what came out, and how it is written
//! - [`catalogue`]: the scenarios that come with Weft; [`describe`]: what every key means

mod catalogue;
mod compare;
mod describe;
mod document;
mod keys;
mod outputs;
pub mod real;
mod result;
pub mod run;
mod scenario;
mod store;
mod traces;
mod world;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Subcommand};

use crate::output::{align_right, say, say_json, table};
use outputs::Outputs;
use scenario::{Point, Scenario, Setting};
use weft_report::short;
use weft_sim::perf::{Used, WarmUp};

use store::{Done, Place, Store, Study};
use world::{World, WorldName};

/// A scenario to run, or to explain.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    arg_required_else_help = true
)]
pub struct Sim {
    #[command(subcommand)]
    command: Option<Command>,
    /// A scenario file, or the name of a scenario that comes with Weft
    #[arg(required_unless_present_any = ["list", "describe"])]
    scenario: Option<String>,
    /// Give a key another value than the scenario does
    #[arg(long, value_name = "KEY=VALUE", num_args = 1.., action = clap::ArgAction::Append)]
    set: Vec<Setting>,
    /// Run every one of these values (with others: every combination)
    #[arg(long, value_name = "KEY=V1,V2,...", num_args = 1.., action = clap::ArgAction::Append)]
    sweep: Vec<Setting>,
    /// Where chance begins (measure.seed)
    #[arg(long)]
    seed: Option<u64>,
    /// Independent runs of every point (measure.replications)
    #[arg(long)]
    replications: Option<u32>,
    /// Where to run it: on models, on real nodes with files in --dir, or both to compare them
    #[arg(long, value_enum, default_value_t = WorldName::Simulated)]
    world: WorldName,
    /// Where the real world makes its files, in a directory that is removed afterwards
    #[arg(long)]
    dir: Option<PathBuf>,
    /// For how many seconds a run of the real world is tried again while others use the machine's
    /// processors; then the run counts that they disturbed least
    #[arg(long, value_name = "SECONDS", default_value_t = 0, requires = "dir")]
    patience: u32,
    /// Values that take the place of the scenario's, as `weft probe` writes them
    #[arg(long, value_name = "FILE")]
    params: Option<PathBuf>,
    /// Threads of the simulated world; by default one for each core
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Write CSV, JSON, plots and a report to this directory, and resume what is there
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Run only the points with index % N == I
    #[arg(long, value_name = "I/N", requires = "out")]
    shard: Option<Shard>,
    /// Draw the N-th request of the first point, from 0: on which processors, links and disks it was, and when
    #[arg(long, value_name = "N", conflicts_with_all = ["out", "shard", "world", "dir"])]
    trace_request: Option<u64>,
    /// Say of every disk, bus, processor and link, hosts' links too, of the first point how much it was used in one run
    #[arg(long, conflicts_with_all = ["out", "shard", "trace_request", "world", "dir"])]
    resources: bool,
    /// Print the results as JSON, with --trace-request or --resources what these say
    #[arg(long)]
    json: bool,
    /// List the scenarios that come with Weft
    #[arg(long, exclusive = true)]
    list: bool,
    /// Explain a key, those below it, or all
    #[arg(long, value_name = "KEY", num_args = 0..=1, default_missing_value = "", exclusive = true)]
    describe: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Put the parts of a sweep together that were run with --shard
    Merge(Merge),
}

/// What to put together.
#[derive(Debug, Args)]
pub struct Merge {
    /// The directories of the parts
    #[arg(required = true)]
    dirs: Vec<PathBuf>,
    /// Where to write the results
    #[arg(long)]
    out: PathBuf,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
}

/// A part of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shard {
    index: usize,
    of: usize,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let parts = text.split_once('/').map(|(i, n)| (i.parse(), n.parse()));
        match parts {
            Some((Ok(index), Ok(of))) if index < of => Ok(Shard { index, of }),
            _ => Err(format!("'{text}' is no part; write I/N with I from 0 to N-1, like 0/4")),
        }
    }
}

impl Sim {
    /// Does what is asked.
    pub fn run(&self) -> Result<ExitCode> {
        if let Some(Command::Merge(merge)) = &self.command {
            merge.run()?;
        } else if self.list {
            say(describe::list()?)?;
        } else if let Some(key) = &self.describe {
            say(describe::describe(key)?)?;
        } else {
            let name = self.scenario.as_deref().context("name a scenario")?;
            self.run_scenario(Scenario::open(name)?)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn run_scenario(&self, mut scenario: Scenario) -> Result<()> {
        self.adjust(&mut scenario)?;
        if let Some(number) = self.trace_request {
            let points = scenario.points()?;
            let point = points.first().context("the scenario has no point")?;
            let simulation = traces::simulation(&point.system, 0)?;
            let timeline = simulation.trace(number).map_err(anyhow::Error::msg)?;
            return match self.json {
                true => say_json(serde_json::to_value(timeline.traced().context(
                    "this request was not asked before the run was over; give a smaller number",
                )?)?),
                false => say(timeline.draw()),
            };
        }
        if self.resources {
            let points = scenario.points()?;
            let point = points.first().context("the scenario has no point")?;
            let simulation = traces::simulation(&point.system, 0)?;
            let used = simulation.resources().map_err(anyhow::Error::msg)?;
            return if self.json {
                say_json(serde_json::to_value(used)?)
            } else {
                say(resources(&used))
            };
        }
        let simulated = World::Simulated { jobs: self.jobs() };
        let Some(dir) = &self.dir else {
            ensure!(
                self.world == WorldName::Simulated,
                "--world: real nodes need a directory for their disks; give one with --dir"
            );
            let (study, done) = self.run_in(&simulated, &scenario, self.out.as_deref())?;
            return self.finish(&study, &done);
        };
        ensure!(
            self.world != WorldName::Simulated,
            "--dir: the simulated world has no files; leave it out, or add --world real"
        );
        let patience = Duration::from_secs(self.patience.into());
        let real = World::Real { dir: dir.clone(), patience };
        real.check(&scenario)?;
        match self.world {
            WorldName::Both => self.compare(&simulated, &real, &scenario),
            _ => {
                ensure!(
                    self.jobs.is_none(),
                    "--jobs: real runs would disturb each other; leave it out"
                );
                let (study, done) = self.run_in(&real, &scenario, self.out.as_deref())?;
                self.finish(&study, &done)
            }
        }
    }

    /// Runs a scenario in both worlds and puts their results side by side.
    fn compare(&self, simulated: &World, real: &World, scenario: &Scenario) -> Result<()> {
        ensure!(self.shard.is_none(), "--shard: both worlds are not run in parts; leave it out");
        let out = |name: &str| self.out.as_ref().map(|dir| dir.join(name));
        let run = |world: &World, out: Option<PathBuf>| -> Result<(Study, Done)> {
            let (study, done) = self.run_in(world, scenario, out.as_deref())?;
            if let Some(dir) = out {
                Outputs::new(&study, &done).write(&dir)?;
            }
            Ok((study, done))
        };
        let predicted = run(simulated, out("simulated"))?;
        let measured = run(real, out("real"))?;
        let comparison = compare::Comparison::of(&predicted, &measured);
        if let Some(dir) = &self.out {
            write(dir, "comparison.csv", &comparison.table().csv())?;
            write(dir, "comparison.json", &comparison.json())?;
        }
        match self.json {
            true => say(comparison.json().trim_end()),
            false => say(comparison.text()),
        }
    }

    /// Runs a scenario in a world, and keeps what is done in `out`.
    fn run_in(
        &self,
        world: &World,
        scenario: &Scenario,
        out: Option<&Path>,
    ) -> Result<(Study, Done)> {
        let points = world.points(scenario)?;
        let study = study(world, scenario, &points);
        let (mut store, mut done) = match out {
            Some(dir) => {
                let (store, done) = Store::open(dir)?;
                study.save(dir)?;
                (Some(store), done)
            }
            None => (None, Done::new()),
        };
        let known = study.points.iter().filter(|p| done.contains_key(&p.key)).count();
        let mine = |n: usize| self.shard.is_none_or(|s| n % s.of == s.index);
        // Points that are the same are run once.
        let mut taken = BTreeSet::new();
        let missing: Vec<usize> = (0..points.len())
            .filter(|n| mine(*n) && !done.contains_key(&study.points[*n].key))
            .filter(|n| taken.insert(&study.points[*n].key))
            .collect();
        let named = |n: &usize| (name(scenario, &points[*n]), &points[*n].system);
        let systems: Vec<_> = missing.iter().map(named).collect();
        let begun = Instant::now();
        let mut events = 0;
        world.run(&systems, |n, measured| {
            let key = &study.points[missing[n]].key;
            if let Some(store) = &mut store {
                store.keep(key, &measured)?;
            }
            events += measured.events.unwrap_or(0);
            done.insert(key.clone(), measured);
            Ok(())
        })?;
        let seconds = begun.elapsed().as_secs_f64();
        let known = if known > 0 { format!(", {known} known before") } else { String::new() };
        let rate = events as f64 / 1e6 / seconds.max(1e-9);
        let rate = match events {
            0 => String::new(),
            _ => format!("; {rate:.2} million events a second"),
        };
        eprintln!("{} points run in {seconds:.1} s{known}{rate}", missing.len());
        Ok((study, done))
    }

    /// Writes and prints.
    fn finish(&self, study: &Study, done: &Done) -> Result<()> {
        let outputs = Outputs::new(study, done);
        if let Some(dir) = &self.out {
            match self.shard {
                None => outputs.write(dir)?,
                Some(_) => eprintln!(
                    "a part of the sweep; `weft sim merge DIR... --out DIR` puts all together"
                ),
            }
        }
        print(&outputs, self.json)
    }

    /// Applies what the command line says.
    fn adjust(&self, scenario: &mut Scenario) -> Result<()> {
        let set = |scenario: &mut Scenario| {
            self.set.iter().try_for_each(|setting| scenario.set(setting, "--set"))
        };
        if let Some(file) = &self.params {
            // What of the file counts depends on what is set, and what is set counts before it.
            set(scenario)?;
            scenario.replace(file)?;
        }
        set(scenario)?;
        let setting = |key: &str, value: String| Setting { key: key.into(), value };
        if let Some(seed) = self.seed {
            scenario.set(&setting("measure.seed", seed.to_string()), "--seed")?;
        }
        if let Some(n) = self.replications {
            scenario.set(&setting("measure.replications", n.to_string()), "--replications")?;
        }
        self.sweep.iter().try_for_each(|setting| scenario.sweep(setting))
    }

    fn jobs(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.map_or_else(cores, usize::from)
    }
}

/// How much each resource was used, for people.
fn resources(used: &[Used]) -> String {
    let mut table = table(["", "", "in use", "queue"]);
    for Used { kind, name, utilisation, queue } in used {
        table.add_row([kind, name.as_str(), &short(*utilisation), &short(*queue)]);
    }
    align_right(&mut table, [2, 3]);
    table.to_string()
}

/// What a point is called in errors.
fn name(scenario: &Scenario, point: &Point) -> String {
    let axes = scenario.axes.iter().zip(&point.labels);
    let parts: Vec<String> =
        axes.map(|(axis, label)| format!("{} = {}", axis.key, keys::plain(label))).collect();
    match parts.is_empty() {
        true => scenario.title.clone(),
        false => parts.join(", "),
    }
}

/// What stands behind a plus and minus, and in parentheses.
const INTERVALS: &str = "Intervals hold the true mean with 95 % (Student); relative standard \
                         deviations over the runs are in parentheses.";

/// What is run, for those who only have its directory.
fn study(world: &World, scenario: &Scenario, points: &[Point]) -> Study {
    let axes: Vec<&str> = scenario.axes.iter().map(|a| a.key.as_str()).collect();
    let measure = |p: &Point| (p.system.measure, p.system.measured_requests());
    let method = match points.first().map(measure) {
        Some((first, requests)) if points.iter().all(|p| measure(p) == (first, requests)) => {
            let runs = match first.replications {
                1 => "one run".to_string(),
                n => format!("the mean of {n} independent runs"),
            };
            format!(
                "Every point is {runs} of {requests} requests, after {} to warm up; seed {}. \
                 {INTERVALS}",
                match first.warm_up {
                    WarmUp::Requests(requests) => requests.to_string(),
                    WarmUp::Mser5 => "as many as MSER-5 leaves out of a pilot run".to_string(),
                },
                first.seed
            )
        }
        _ => format!("Points are measured differently. {INTERVALS}"),
    };
    let method = match world.method(points) {
        Some(place) => format!("{place} {method}"),
        None => method,
    };
    let json = |value: &toml::Value| serde_json::to_value(value).expect("TOML has a form in JSON");
    Study {
        weft: store::VERSION.into(),
        title: scenario.title.clone(),
        about: scenario.about.clone(),
        method,
        axes: axes.into_iter().map(String::from).collect(),
        points: points
            .iter()
            .map(|p| Place {
                key: store::key(&world.place(), &p.system),
                at: p.labels.iter().map(json).collect(),
            })
            .collect(),
    }
}

impl Merge {
    fn run(&self) -> Result<()> {
        let (study, mut done) = Study::load(&self.dirs[0])?;
        for dir in &self.dirs[1..] {
            let (other, more) = Study::load(dir)?;
            if other != study {
                let first = self.dirs[0].display();
                bail!("{}: this is part of another sweep than {first}", dir.display());
            }
            done.extend(more);
        }
        let missing: Vec<String> = (0..study.points.len())
            .filter(|n| !done.contains_key(&study.points[*n].key))
            .map(|n| n.to_string())
            .collect();
        if !missing.is_empty() {
            let some = missing.iter().take(10).cloned().collect::<Vec<_>>().join(", ");
            bail!(
                "{} of {} points are missing (index {some}{}); run their shards again",
                missing.len(),
                study.points.len(),
                if missing.len() > 10 { ", ..." } else { "" }
            );
        }
        self.keep(&study, &done)?;
        let outputs = Outputs::new(&study, &done);
        outputs.write(&self.out)?;
        print(&outputs, self.json)
    }

    /// Makes the directory one that can be resumed and merged like any other.
    fn keep(&self, study: &Study, done: &Done) -> Result<()> {
        let (mut store, there) = Store::open(&self.out)?;
        study.save(&self.out)?;
        for place in &study.points {
            if !there.contains_key(&place.key) {
                store.keep(&place.key, &done[&place.key])?;
            }
        }
        Ok(())
    }
}

fn print(outputs: &Outputs<'_>, json: bool) -> Result<()> {
    match json {
        true => say(outputs.json().trim_end()),
        false => say(outputs.text()),
    }
}

/// Writes a file of a directory.
fn write(dir: &Path, name: &str, text: &str) -> Result<()> {
    let path = dir.join(name);
    std::fs::write(&path, text).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests;
