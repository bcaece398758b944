//! `weft check`: runs the simulation check over a range of seeds, goes through all that can happen to
//! a few writes (module `explore`), or has real processes suffer (module `real`).

use std::cell::RefCell;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::panic::{self, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use weft_core::layout::LayoutSpec;
use weft_core::policy::{Roles, Setting, Timing};
use weft_host::Lanes;
use weft_sim::check::{Comings, Failure, Faults, Options, Summary, run_seed};
use weft_terminal::{Counts, Stage, say, say_json};
use weft_trial::faults::{FAULTS, Fault, Trial};

use crate::args;
use crate::explore::Explore;
use crate::real;

/// After so many failing seeds there is enough to look at.
const ENOUGH: usize = 5;

/// The longest line of a story that is shown whole.
const LONGEST: usize = 400;

/// Run the simulation check: random clusters, workloads and faults, all drawn from a seed.
#[derive(Debug, Args)]
pub struct Check {
    /// Seeds from A up to but excluding B
    #[arg(long, value_name = "A..B", value_parser = seeds, required_unless_present_any = ["real", "explore"])]
    seeds: Option<Range<u64>>,
    /// Test real processes under load: kill, pause, isolate, fill and corrupt nodes, slow down and hang disks (run as root to cut links)
    #[arg(long, conflicts_with_all = ["seeds", "jobs", "operations", "story"])]
    real: bool,
    #[command(flatten)]
    explore: Explore,
    /// With --real: number of rounds
    #[arg(long, default_value_t = 20, requires = "real", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// With --real: random seed
    #[arg(long, default_value_t = 0, requires = "real")]
    seed: u64,
    /// With --real: number of nodes [default: 5, or the layout's minimum]
    #[arg(long, requires = "real", value_parser = nodes)]
    nodes: Option<usize>,
    /// Layout of the volume for every seed [default: random; raid5 with --real]
    #[arg(long, conflicts_with = "explore", value_parser = args::layout)]
    layout: Option<LayoutSpec>,
    /// With --real: roles of the volumes
    #[arg(long, requires = "real")]
    roles: Option<Roles>,
    /// With --real: redundancy of the volumes, immediate or copied [default: immediate]
    #[arg(long, requires = "real", value_parser = redundancy)]
    redundancy: Option<Timing>,
    /// With --real: lanes per process
    #[arg(long, value_name = "N", requires = "real")]
    lanes: Option<Lanes>,
    /// With --real: faults, separated by commas [default: all possible ones]
    #[arg(long, requires = "real", value_delimiter = ',')]
    faults: Vec<Fault>,
    /// With --real: parent directory of the nodes' directories [default: the system's temporary directory]
    #[arg(long, requires = "real")]
    dir: Option<PathBuf>,
    /// With --real: seconds that a request may exceed its fault's time limit, to allow for a busy machine
    #[arg(long, default_value_t = 2, value_name = "SECONDS", requires = "real", value_parser = clap::value_parser!(u64).range(..=60))]
    slack: u64,
    /// Seeds to run in parallel [default: one per core]
    #[arg(long, value_parser = args::count::<NonZeroUsize>)]
    jobs: Option<NonZeroUsize>,
    /// Host operations per phase of a run
    #[arg(long, default_value_t = Options::default().operations, value_parser = clap::value_parser!(u32).range(1..))]
    operations: u32,

    /// Ordering of the volume for every seed [default: random]
    #[arg(long, conflicts_with_all = ["real", "explore"])]
    ordering: Option<weft_core::order::Ordering>,
    /// Run nodes in processes with consensus members in every seed: leases, elections, partitions, pauses [default: in a quarter of the seeds]
    #[arg(long, conflicts_with_all = ["real", "explore"])]
    members: bool,
    /// With --members: nodes per process [default: random, mostly one]
    #[arg(long, value_name = "N", requires = "members", value_parser = clap::value_parser!(u16).range(1..=8))]
    nodes_each: Option<u16>,
    /// With --members: attached hosts, in processes without disks [default: random, mostly none]
    #[arg(long, value_name = "N", requires = "members", value_parser = clap::value_parser!(u16).range(..=8))]
    attached: Option<u16>,
    /// With ordering=sequencer, its form: centralized, partially-centralized, originator-driven or worker-driven [default: random]
    #[arg(long, value_name = "FORM", conflicts_with_all = ["real", "explore"])]
    sequencer: Option<weft_core::order::sequencer::SequencerForm>,
    /// Number of trace lines to print for the first failure
    #[arg(long, default_value_t = 60)]
    story: usize,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// How many nodes `--real` has, if neither it nor the layout says otherwise.
const NODES: usize = 5;

fn nodes(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if (3..=32).contains(&n) => Ok(n),
        _ => Err(format!("'{text}' is not a possible number of nodes; choose 3 to 32")),
    }
}

fn redundancy(text: &str) -> Result<Timing, String> {
    match text.parse() {
        Ok(timing @ (Timing::Immediate | Timing::Copied)) => Ok(timing),
        _ => Err(format!(
            "'{text}' is not a redundancy that loses nothing; choose immediate or copied (the fault wipe \
             tests deferred parity)"
        )),
    }
}

fn seeds(text: &str) -> Result<Range<u64>, String> {
    let number = |s: &str| s.parse::<u64>().ok();
    let ends = text.split_once("..").and_then(|(a, b)| Some((number(a)?, number(b)?)));
    match ends {
        None => Err(format!("'{text}' is not a range of seeds A..B; write it like 0..1000")),
        Some((a, b)) if a >= b => {
            Err(format!("{a}..{b} contains no seed; B must be larger than A, as in {a}..{}", a + 1))
        }
        Some((a, b)) => Ok(a..b),
    }
}

/// A seed that failed: by judgement, or by a panic. Nothing is shrunk where the run could not even be drawn.
struct Failed {
    seed: u64,
    reason: String,
    shrunk: Option<Box<Options>>,
    story: Vec<String>,
}

/// What came out.
#[derive(Default)]
struct Report {
    seeds: u64,
    answered: u64,
    unanswered: u64,
    crashes: u64,
    /// Seeds whose nodes were in processes, and how many maps these agreed on.
    members: (u64, u64),
    /// Nodes that joined, and left.
    comings: Comings,
    /// Runs that ended where a disk had lost what nobody can know of any more.
    unremembered: u64,
    /// Those of them with hosts that were their own controllers.
    attached: u64,
    nanos: u64,
    failed: Vec<Failed>,
}

thread_local! {
    /// What the last panic of this thread said.
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

impl Check {
    /// Runs the seeds; succeeds if all of them pass.
    pub fn run(&self) -> Result<ExitCode> {
        if self.real {
            let trial = self.trial()?;
            real::report(&trial, &trial.run()?, self.json)?;
            return Ok(ExitCode::SUCCESS);
        }
        if self.explore.explore {
            return self.explore.run(self.json);
        }
        let begun = Instant::now();
        let hook = panic::take_hook();
        panic::set_hook(Box::new(|info| PANIC.with_borrow_mut(|last| *last = info.to_string())));
        let mut report = self.run_all();
        panic::set_hook(hook);
        report.failed.sort_by_key(|f| f.seed);
        let seconds = begun.elapsed().as_secs_f64();
        if self.json {
            say_json(self.as_json(&report, seconds))?;
        } else {
            say(self.describe(&report, seconds))?;
        }
        Ok(if report.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn trial(&self) -> Result<Trial> {
        let faults = match self.faults.is_empty() {
            true => FAULTS.iter().map(|f| f.0).collect(),
            false => self.faults.clone(),
        };
        let layout = self.layout.unwrap_or_default();
        let nodes = self.nodes.unwrap_or(layout.least_nodes().max(NODES));
        layout.over(nodes)?;
        Ok(Trial {
            weft: std::env::current_exe()?,
            rounds: self.rounds,
            seed: self.seed,
            nodes,
            layout,
            policy: self.policy(),
            lanes: self.lanes.unwrap_or_default(),
            faults,
            dir: self.dir.clone(),
            slack: Duration::from_secs(self.slack),
        })
    }

    /// What the volumes of `--real` choose.
    fn policy(&self) -> Vec<Setting> {
        let roles = self.roles.map(Setting::Roles);
        roles.into_iter().chain(self.redundancy.map(Setting::Redundancy)).collect()
    }

    /// None with --real.
    fn seeds(&self) -> Range<u64> {
        self.seeds.clone().unwrap_or_default()
    }

    fn run_all(&self) -> Report {
        let jobs = self.jobs.or(thread::available_parallelism().ok()).map_or(1, usize::from);
        let (operations, ordering, sequencer) = (self.operations, self.ordering, self.sequencer);
        let members = self.members.then_some(true);
        let (layout, hosted, attached) = (self.layout, self.nodes_each, self.attached);
        let drawn = Options::default();
        let options =
            Options { operations, layout, ordering, sequencer, members, hosted, attached, ..drawn };
        let seeds = self.seeds();
        let stage = Stage::new("seeds", seeds.end - seeds.start, Counts::Things);
        let (next, report) = (AtomicU64::new(0), Mutex::new(Report::default()));
        let work = || {
            while let Some(seed) = seeds.start.checked_add(next.fetch_add(1, Ordering::Relaxed))
                && seeds.contains(&seed)
                && with(&report, |r| r.failed.len() < ENOUGH)
            {
                let outcome = run_one(seed, options);
                stage.advance(1);
                with(&report, |r| {
                    r.add(outcome);
                    stage.bar().set_message(format!("{} failed", r.failed.len()));
                });
            }
        };
        thread::scope(|scope| {
            let spawn = |_: usize| thread::Builder::new().spawn_scoped(scope, work).is_ok();
            // With fewer threads it takes longer.
            if (0..jobs).filter(|n| spawn(*n)).count() == 0 {
                work();
            }
        });
        stage.bar().finish_and_clear();
        report.into_inner().unwrap_or_else(|e| e.into_inner())
    }

    fn rerun(&self, seed: u64) -> String {
        let operations = match self.operations == Options::default().operations {
            true => String::new(),
            false => format!(" --operations {}", self.operations),
        };
        let layout = self.layout.map_or(String::new(), |l| format!(" --layout {l}"));
        let ordering = self.ordering.map_or(String::new(), |o| format!(" --ordering {o}"));
        let form = self.sequencer.map_or(String::new(), |f| format!(" --sequencer {f}"));
        let members = if self.members { " --members" } else { "" };
        let each = self.nodes_each.map_or(String::new(), |n| format!(" --nodes-each {n}"));
        let attached = self.attached.map_or(String::new(), |n| format!(" --attached {n}"));
        format!(
            "weft check --seeds {seed}..{}{operations}{layout}{ordering}{form}{members}{each}{attached}",
            seed + 1
        )
    }

    fn tail<'a>(&self, failed: &'a Failed) -> impl Iterator<Item = String> + 'a {
        let skip = failed.story.len().saturating_sub(self.story);
        failed.story.iter().skip(skip).map(|line| line.chars().take(LONGEST).collect())
    }

    fn describe(&self, report: &Report, seconds: f64) -> String {
        let mut out = format!(
            "{} seeds: {} failed; {} operations ({} without an answer), {} crashes, {:.1} s \
             simulated in {seconds:.1} s",
            report.seeds,
            report.failed.len(),
            report.answered + report.unanswered,
            report.unanswered,
            report.crashes,
            report.nanos as f64 / 1e9,
        );
        if report.members.0 > 0 {
            let (seeds, maps) = report.members;
            out += &format!(
                "\n{seeds} of them with processes, which agreed on {maps} maps; {} nodes joined, {} of them as disks of running \
             processes, and {} left; {} of these seeds with attached hosts",
                report.comings.joined, report.comings.added, report.comings.left, report.attached
            );
        }
        if report.unremembered > 0 {
            out += &format!(
                "\n{} ended early: a disk had lost writes that it had just acknowledged, and no remaining node knew of them",
                report.unremembered
            );
        }
        for failed in &report.failed {
            let (rerun, reason) = (self.rerun(failed.seed), &failed.reason);
            out += &format!("\n\n{rerun}\n  {reason}\n  {}", needs(failed.shrunk.as_deref()));
        }
        let seeds = self.seeds();
        let asked = seeds.end - seeds.start;
        if report.seeds < asked {
            out += &format!(
                "\n\nstopped after {ENOUGH} failures; the rest of {asked} seeds was not run"
            );
        }
        if let Some(first) = report.failed.first()
            && !first.story.is_empty()
            && self.story > 0
        {
            out += &format!("\n\nThe end of seed {}'s trace:", first.seed);
            self.tail(first).for_each(|line| out += &format!("\n  {line}"));
        }
        out
    }

    fn as_json(&self, report: &Report, seconds: f64) -> Value {
        let failure = |f: &Failed| {
            json!({
                "seed": f.seed,
                "reason": f.reason,
                "rerun": self.rerun(f.seed),
                "needs": f.shrunk.as_deref().map(|o| json!({
                    "operations": o.operations,
                    "phases": o.phases,
                    "faults": kinds(o),
                })),
                "story": self.tail(f).collect::<Vec<_>>(),
            })
        };
        json!({
            "seeds": report.seeds,
            "operations": report.answered + report.unanswered,
            "unanswered": report.unanswered,
            "crashes": report.crashes,
            "with_processes": report.members.0,
            "with_attached_hosts": report.attached,
            "maps_agreed_on": report.members.1,
            "nodes_joined": report.comings.joined,
            "disks_added": report.comings.added,
            "nodes_left": report.comings.left,
            "ended_early": report.unremembered,
            "simulated_seconds": report.nanos as f64 / 1e9,
            "seconds": seconds,
            "failures": report.failed.iter().map(failure).collect::<Vec<_>>(),
        })
    }
}

/// Does something to what a lock guards; that another thread panicked does not matter here.
fn with<T, R>(lock: &Mutex<T>, what: impl FnOnce(&mut T) -> R) -> R {
    what(&mut lock.lock().unwrap_or_else(|e| e.into_inner()))
}

fn run_one(seed: u64, options: Options) -> Result<Summary, Failed> {
    match catch_unwind(|| run_seed(seed, options)) {
        Ok(Ok(summary)) => Ok(summary),
        Ok(Err(failure)) => {
            let reason = if failure.is_panic() { last_panic() } else { failure.reason };
            let Failure { seed, shrunk, story, .. } = failure;
            Err(Failed { seed, reason, shrunk: Some(shrunk), story })
        }
        Err(_) => Err(Failed { seed, reason: last_panic(), shrunk: None, story: Vec::new() }),
    }
}

/// What this thread's last panic said, and where.
fn last_panic() -> String {
    PANIC.with_borrow(|said| said.replace('\n', " "))
}

impl Report {
    fn add(&mut self, outcome: Result<Summary, Failed>) {
        self.seeds += 1;
        match outcome {
            Ok(summary) => {
                self.answered += summary.answered;
                self.unanswered += summary.unanswered;
                self.crashes += summary.crashes;
                if let Some((_, maps)) = summary.members {
                    self.members = (self.members.0 + 1, self.members.1 + maps);
                }
                self.attached += u64::from(summary.attached > 0);
                self.comings += summary.comings;
                self.nanos += summary.time;
                self.unremembered += u64::from(summary.unremembered);
            }
            Err(failed) => self.failed.push(failed),
        }
    }
}

fn kinds(options: &Options) -> Vec<&'static str> {
    let faults = options.faults;
    let kinds = [
        (faults.crashes, "crashes"),
        (faults.power, "power cuts"),
        (faults.rot, "rot"),
        (faults.damage, "disks that lose acknowledged writes"),
        (faults.refusals, "disks with write errors"),
        (faults.messages, "message faults"),
        (faults.slow, "a slow disk"),
        (faults.hangs, "hung disks"),
        (faults.full, "full file systems"),
        (faults.errors, "disks with passing errors"),
        (faults.beyond, "more losses than the layout tolerates"),
        (faults.moves, "moving columns"),
        (faults.operator, "changes by an operator"),
        (faults.pauses, "stopped processes"),
        (faults.cuts, "isolated processes"),
        (faults.links, "broken links with detours"),
    ];
    // No kind of fault is left out.
    const { assert!(size_of::<Faults>() == 16) };
    debug_assert_eq!(kinds.len(), size_of::<Faults>());
    kinds.into_iter().filter_map(|(happens, name)| happens.then_some(name)).collect()
}

fn needs(shrunk: Option<&Options>) -> String {
    let Some(options) = shrunk else {
        return "the run could not be drawn".to_string();
    };
    let kinds = kinds(options);
    format!(
        "needs {} operations in each of {} phases, and {}",
        options.operations,
        options.phases,
        if kinds.is_empty() { "no faults at all".to_string() } else { kinds.join(", ") },
    )
}
