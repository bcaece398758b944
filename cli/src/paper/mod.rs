//! `weft paper`: repeats a paper's evaluation with Weft's nodes, and sets the results beside the
//! paper's.

mod curves;
mod outputs;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

use anyhow::{Context, Result};
use clap::error::ErrorKind;
use clap::{Args, Subcommand};
use weft_scenario::run::run;
use weft_scenario::traces::Traces;
use weft_sim::paper::{
    Case, Effort, Evaluation, Metric, Row, afraid, bst, drnet, tickertaip, tptraid,
};
use weft_terminal::{align_right, say, table};

use crate::args;

/// Repeat the evaluation of a paper.
#[derive(Debug, Subcommand)]
pub enum Paper {
    /// "The TickerTAIP parallel RAID architecture", sections 4.3 to 4.7: Tables VII and VIII, Figures 8 to 15
    Tickertaip(Options),
    /// "Highly concurrent shared storage", sections 4.2 to 4.6: Table 2, Figures 6, 9, 10 and 11, and a larger system
    Bst(Options),
    /// "A performance comparison between the DR-net and a hierarchical RAID system", section 4: Tables 1 and 2, Figures 5 to 11
    Drnet(Options),
    /// "AFRAID: a frequently redundant array of independent disks", sections 3 and 4: Tables 1 to 4, Figures 2 to 4
    Afraid(Options),
    /// "TPT-RAID: a high performance box-fault tolerant storage system", section 4: Figures 5 and 6, Table 1, degraded mode, latency
    Tptraid(Options),
}

/// The results to repeat, and their format.
#[derive(Debug, Args)]
pub struct Options {
    /// Tables and figures, separated by commas (figure-9, figure-11, ...) [default: all]
    #[arg(long, value_delimiter = ',', value_parser = |name: &str| Ok::<_, String>(name.trim().to_string()))]
    only: Vec<String>,
    /// Fewer points and requests, for a rough result in a minute
    #[arg(long)]
    quick: bool,
    /// Simulations to run in parallel [default: one per core]
    #[arg(long, value_parser = args::count::<NonZeroUsize>)]
    jobs: Option<NonZeroUsize>,
    /// Also write results.json, results.csv, a plot of each figure and report.html to this directory
    #[arg(long)]
    out: Option<PathBuf>,
    /// For afraid: directory of the trace hplajw_1week.csv.gz; without it, a similar trace is generated
    #[arg(long, default_value = "./traces")]
    traces: PathBuf,
    /// Print the results as a JSON array
    #[arg(long)]
    json: bool,
}

impl Paper {
    /// Repeats it.
    pub fn run(&self) -> Result<ExitCode> {
        match self {
            Paper::Tickertaip(options) => options.run(&tickertaip::EVALUATION),
            Paper::Bst(options) => options.run(&bst::EVALUATION),
            Paper::Drnet(options) => options.run(&drnet::EVALUATION),
            Paper::Afraid(options) => options.run(&afraid::EVALUATION),
            Paper::Tptraid(options) => options.run(&tptraid::EVALUATION),
        }
    }
}

impl Options {
    fn run(&self, evaluation: &Evaluation) -> Result<ExitCode> {
        if let Some(name) = self.only.iter().find(|o| !evaluation.experiments.contains(&o.as_str()))
        {
            let known = evaluation.experiments.join(", ");
            let problem = format!("--only {name}: '{name}' does not exist; choose from {known}\n");
            clap::Error::raw(ErrorKind::ValueValidation, problem).exit();
        }
        let effort = if self.quick { Effort::Quick } else { Effort::Full };
        let mut cases = (evaluation.cases)(effort, &self.only);
        self.replay(evaluation, &mut cases)?;
        if let Some(dir) = &self.out {
            std::fs::create_dir_all(dir)
                .with_context(|| format!("cannot make {}", dir.display()))?;
        }
        let jobs = self.jobs.or_else(|| thread::available_parallelism().ok());
        let mut rows = run_all(&cases, jobs.map_or(1, NonZeroUsize::get))?;
        (evaluation.derive)(&mut rows);
        let of = by_experiment(evaluation, &rows);
        if let Some(dir) = &self.out {
            outputs::write(dir, evaluation, &of)?;
        }
        if self.json {
            say(serde_json::to_string_pretty(&rows)?)?;
        } else {
            for (experiment, rows) in of {
                let settings = settings(evaluation, experiment);
                say(format!("{experiment}\n{settings}{}\n", describe(&rows)))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Options {
    /// Puts the evaluation's trace into its cases, if it has one and it is there.
    fn replay(&self, evaluation: &Evaluation, cases: &mut [Case]) -> Result<()> {
        let Some((name, put)) = evaluation.trace else { return Ok(()) };
        let file = self.traces.join(name);
        if !file.is_file() {
            eprintln!("{} is missing: using a generated trace (--traces DIR)", file.display());
            return Ok(());
        }
        let (file, traces) = (file.display().to_string(), Traces::default());
        cases.iter_mut().try_for_each(|case| {
            put(case, &file);
            traces.read("", &mut case.system)
        })
    }
}

/// Runs all cases, so many simulations at a time. What comes out does not depend on how many.
/// Cases of the same system are run once.
fn run_all(cases: &[Case], jobs: usize) -> Result<Vec<Row>> {
    let name = |c: &Case| format!("{} {}", c.experiment, place(&c.point));
    let first = |c: &Case| cases.iter().position(|o| o.system == c.system);
    let firsts: Vec<usize> = cases.iter().filter_map(first).collect();
    let alone: Vec<usize> = (0..cases.len()).filter(|n| firsts[*n] == *n).collect();
    let systems: Vec<_> = alone.iter().map(|n| (name(&cases[*n]), &cases[*n].system)).collect();
    let mut rows: Vec<Vec<Row>> = vec![Vec::new(); cases.len()];
    run(&systems, jobs, |n, outcomes| {
        for (at, case) in cases.iter().enumerate().filter(|(at, _)| firsts[*at] == alone[n]) {
            rows[at] = case.rows(outcomes);
        }
        Ok(())
    })?;
    Ok(rows.concat())
}

fn place(point: &[(&'static str, weft_sim::paper::Value)]) -> String {
    let words: Vec<String> = point.iter().map(|(key, value)| format!("{key}={value}")).collect();
    words.join(" ")
}

/// The rows of each experiment, in the order of the paper.
fn by_experiment<'a>(
    evaluation: &Evaluation,
    rows: &'a [Row],
) -> Vec<(&'static str, Vec<&'a Row>)> {
    let of = |name: &&'static str| rows.iter().filter(|r| r.experiment == *name).collect();
    let all = evaluation.experiments.iter().map(|name| (*name, of(name)));
    all.filter(|(_, rows): &(_, Vec<&Row>)| !rows.is_empty()).collect()
}

/// What was simulated of a table of parameters, beside the paper's words; empty if the experiment
/// is none.
fn settings(evaluation: &Evaluation, experiment: &str) -> String {
    let of: Vec<_> = evaluation.settings.iter().filter(|s| s.experiment == experiment).collect();
    if of.is_empty() {
        return String::new();
    }
    let mut out = table(["parameter", "paper", "simulated"]);
    of.iter().for_each(|s| {
        out.add_row([s.name, s.paper, s.value]);
    });
    format!("{out}\n")
}

fn describe(rows: &[&Row]) -> String {
    let mut out = table(["point", "metric", "measured", "± 95 %", "deviation", "paper", "off by"]);
    for row in rows {
        let (metric, digits) = match row.metric {
            Metric::ThroughputMbS => ("MB/s", 2),
            Metric::ResponseMs => ("ms", 1),
            Metric::ThroughputOpsS => ("operations/s", 1),
            Metric::LatencyMs => ("ms", 2),
            Metric::DelayedFraction => ("delayed", 4),
            Metric::MessagesPerOp => ("messages", 2),
            Metric::DeviceUtilization => ("utilization", 3),
            Metric::RebuildMbS => ("MB/s rebuilt", 3),
            Metric::RelativePerformance => ("times RAID 5's speed", 3),
            Metric::UnprotectedShare => ("unprotected", 5),
            Metric::ParityLagBytes => ("bytes of lag", 0),
            Metric::MttdlDiskH => ("hours, disks", 0),
            Metric::MttdlH => ("hours", 0),
            Metric::MdlrUnprotectedBH => ("bytes/hour, unprotected", 5),
            Metric::MdlrBH => ("bytes/hour", 1),
            Metric::RelativeAvailability => ("times RAID 5's MTTDL", 4),
            Metric::ControllerMbS => ("MB/s at most", 1),
            Metric::ControllerProcessorMbS => ("MB/s at most, processor", 1),
            Metric::ControllerPortMbS => ("MB/s at most, port", 1),
            Metric::HostsMulti => ("hosts, multi", 2),
            Metric::HostsSingle => ("hosts, single", 2),
            Metric::ControllerTraffic => ("of payload, controller", 4),
            Metric::TargetTraffic => ("of payload, target", 4),
            Metric::HostTraffic => ("of payload, host", 4),
            Metric::Ratio => ("ratio", 3),
            Metric::IsMet => ("met", 0),
        };
        let number = |x: f64| format!("{x:.digits$}");
        out.add_row([
            place(&row.point),
            metric.to_string(),
            number(row.measured),
            interval(row, digits),
            row.relative_deviation.map(|d| format!("({:.1}%)", d * 100.0)).unwrap_or_default(),
            row.paper.map(|p| p.to_string()).unwrap_or_default(),
            row.paper
                .map(|p| format!("{:+.1} %", (row.measured / p - 1.0) * 100.0))
                .unwrap_or_default(),
        ]);
    }
    align_right(&mut out, 2..7);
    let vague = rows.iter().filter(|r| r.is_vague()).count();
    match vague {
        0 => out.to_string(),
        _ => format!(
            "{out}\n({VAGUE}): the 95 % interval exceeds a fifth of the value, so only its order of magnitude counts: {vague} of \
         {}.",
            rows.len()
        ),
    }
}

/// What is put beside a value whose interval is no use.
const VAGUE: &str = "vague";

/// Half of a value's interval, and whether it is any use.
fn interval(row: &Row, digits: usize) -> String {
    let half = row.ci95.map(|half| format!("{half:.digits$}")).unwrap_or_default();
    if row.is_vague() { format!("({VAGUE}) {half}") } else { half }
}
