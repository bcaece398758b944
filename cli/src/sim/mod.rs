//! `weft sim`: the simulator of performance on scenarios. `weft_scenario` reads, runs and measures them.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Args, Subcommand, ValueEnum};
use weft_report::short;
use weft_scenario::compare::Comparison;
use weft_scenario::outputs::Outputs;
use weft_scenario::scenario::{Point, Scenario, Setting};
use weft_scenario::store::{Done, Study, write};
use weft_scenario::study::{self, Shard};
use weft_scenario::world::World;
use weft_scenario::{catalogue, describe, traces};
use weft_sim::perf::Used;
use weft_terminal::{align_right, say, say_json, table};

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
    /// Scenario file, or name of a built-in scenario
    #[arg(required_unless_present_any = ["list", "describe", "print"])]
    scenario: Option<String>,
    /// Override a key of the scenario
    #[arg(long, value_name = "KEY=VALUE", num_args = 1.., action = clap::ArgAction::Append)]
    set: Vec<Setting>,
    /// Run each of these values (with several sweeps: every combination)
    #[arg(long, value_name = "KEY=V1,V2,...", num_args = 1.., action = clap::ArgAction::Append)]
    sweep: Vec<Setting>,
    /// Random seed (measure.seed)
    #[arg(long)]
    seed: Option<u64>,
    /// Independent runs per point (measure.replications)
    #[arg(long)]
    replications: Option<u32>,
    /// Where to run: on models, on real nodes with files in --dir, or both for comparison
    #[arg(long, value_enum, default_value_t = WorldName::Simulated)]
    world: WorldName,
    /// Parent of the real nodes' temporary directory
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Seconds to retry a run on real nodes while other programs use the processors; then the least disturbed run
    /// counts
    #[arg(long, value_name = "SECONDS", default_value_t = 0, requires = "dir")]
    patience: u32,
    /// Parameter file of `weft probe`, which overrides values of the scenario
    #[arg(long, value_name = "FILE")]
    params: Option<PathBuf>,
    /// Simulation threads [default: one per core]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Write CSV, JSON, plots and a report to this directory; resume from results already in it
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Run only the points with index % N == I
    #[arg(long, value_name = "I/N", requires = "out")]
    shard: Option<Shard>,
    /// Draw the timeline of the N-th request of the first point, from 0, on processors, links and disks
    #[arg(long, value_name = "N", conflicts_with_all = ["out", "shard", "world", "dir"])]
    trace_request: Option<u64>,
    /// Print the utilization of every disk, bus, processor and link in one run of the first point
    #[arg(long, conflicts_with_all = ["out", "shard", "trace_request", "world", "dir"])]
    resources: bool,
    /// Print the results as JSON, also of --trace-request or --resources
    #[arg(long)]
    json: bool,
    /// List the built-in scenarios
    #[arg(long, exclusive = true)]
    list: bool,
    /// Print the file of a built-in scenario, as a template
    #[arg(long, value_name = "NAME", exclusive = true)]
    print: Option<String>,
    /// Describe a key, the keys below it, or all
    #[arg(long, value_name = "KEY", num_args = 0..=1, default_missing_value = "", exclusive = true)]
    describe: Option<String>,
}

/// Where to run a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WorldName {
    /// On models of disks, links and processors.
    Simulated,
    /// On real nodes.
    Real,
    /// On both.
    Both,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Merge the shards of a sweep
    Merge(Merge),
}

/// The shards to merge.
#[derive(Debug, Args)]
pub struct Merge {
    /// Directories of the shards
    #[arg(required = true)]
    dirs: Vec<PathBuf>,
    /// Output directory
    #[arg(long)]
    out: PathBuf,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
}

impl Sim {
    /// Does what is asked.
    pub fn run(&self) -> Result<ExitCode> {
        if let Some(Command::Merge(merge)) = &self.command {
            merge.run()?;
        } else if self.list {
            say(describe::list()?)?;
        } else if let Some(name) = &self.print {
            say(catalogue::text(name)?.trim_end())?;
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
            return self.trace_request(number, &scenario);
        }
        if self.resources {
            return self.resources(&scenario);
        }
        let simulated = World::Simulated { jobs: self.jobs() };
        let Some(dir) = &self.dir else {
            ensure!(
                self.world == WorldName::Simulated,
                "--world: real nodes need a directory for their disks; give one with --dir"
            );
            let (study, done) = study::run(&simulated, &scenario, self.shard, self.out.as_deref())?;
            return self.finish(&study, &done);
        };
        ensure!(
            self.world != WorldName::Simulated,
            "--dir: the simulated world has no files; omit it, or add --world real"
        );
        let patience = Duration::from_secs(self.patience.into());
        let real = World::Real { dir: dir.clone(), patience };
        real.check(&scenario)?;
        match self.world {
            WorldName::Both => self.compare(&simulated, &real, &scenario),
            _ => {
                ensure!(self.jobs.is_none(), "--jobs: real runs would disturb each other; omit it");
                let (study, done) = study::run(&real, &scenario, self.shard, self.out.as_deref())?;
                self.finish(&study, &done)
            }
        }
    }

    /// Draws one request of the first point.
    fn trace_request(&self, number: u64, scenario: &Scenario) -> Result<()> {
        let simulation = traces::simulation(&first_point(scenario)?.system, 0)?;
        let timeline = simulation.trace(number).map_err(anyhow::Error::msg)?;
        match self.json {
            true => say_json(serde_json::to_value(
                timeline
                    .traced()
                    .context("the run ended before this request; give a smaller number")?,
            )?),
            false => say(timeline.draw()),
        }
    }

    /// Says how much each resource of the first point was used.
    fn resources(&self, scenario: &Scenario) -> Result<()> {
        let simulation = traces::simulation(&first_point(scenario)?.system, 0)?;
        let used = simulation.resources().map_err(anyhow::Error::msg)?;
        match self.json {
            true => say_json(serde_json::to_value(used)?),
            false => say(resources(&used)),
        }
    }

    /// Runs a scenario in both worlds and puts their results side by side.
    fn compare(&self, simulated: &World, real: &World, scenario: &Scenario) -> Result<()> {
        ensure!(self.shard.is_none(), "--shard: not possible with both worlds; omit it");
        let out = |name: &str| self.out.as_ref().map(|dir| dir.join(name));
        let run = |world: &World, out: Option<PathBuf>| -> Result<(Study, Done)> {
            let (study, done) = study::run(world, scenario, None, out.as_deref())?;
            if let Some(dir) = out {
                Outputs::new(&study, &done).write(&dir)?;
            }
            Ok((study, done))
        };
        let predicted = run(simulated, out("simulated"))?;
        let measured = run(real, out("real"))?;
        let comparison = Comparison::of(&predicted, &measured);
        if let Some(dir) = &self.out {
            write(dir, "comparison.csv", &comparison.table().csv())?;
            write(dir, "comparison.json", &comparison.json())?;
        }
        match self.json {
            true => say(comparison.json().trim_end()),
            false => say(comparison.text()),
        }
    }

    /// Writes and prints.
    fn finish(&self, study: &Study, done: &Done) -> Result<()> {
        let outputs = Outputs::new(study, done);
        if let Some(dir) = &self.out {
            match self.shard {
                None => outputs.write(dir)?,
                Some(_) => eprintln!(
                    "a part of the sweep; `weft sim merge DIR... --out DIR` merges all parts"
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

fn first_point(scenario: &Scenario) -> Result<Point> {
    scenario.points()?.into_iter().next().context("the scenario has no point")
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

impl Merge {
    fn run(&self) -> Result<()> {
        let (study, done) = study::merge(&self.dirs)?;
        study::keep(&self.out, &study, &done)?;
        let outputs = Outputs::new(&study, &done);
        outputs.write(&self.out)?;
        print(&outputs, self.json)
    }
}

fn print(outputs: &Outputs<'_>, json: bool) -> Result<()> {
    match json {
        true => say(outputs.json().trim_end()),
        false => say(outputs.text()),
    }
}

#[cfg(test)]
mod tests;
