//! `weft paper`: repeats a paper's evaluation with Weft's nodes, and sets the results beside the
//! paper's.

mod outputs;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use weft_sim::paper::tickertaip::{self, Effort};
use weft_sim::paper::{Case, Metric, Row};

use crate::output::{align_right, say, table};
use crate::sim::run::run;

/// Repeat the evaluation of a paper.
#[derive(Debug, Subcommand)]
pub enum Paper {
    /// "The TickerTAIP parallel RAID architecture", sections 4.3 to 4.7: Tables VII and VIII, Figures 8 to 15
    Tickertaip(Evaluation),
}

/// What to repeat, and how to show it.
#[derive(Debug, Args)]
pub struct Evaluation {
    /// Which tables and figures, separated by commas (table-7, figure-11, ...) [default: all]
    #[arg(long, value_delimiter = ',', value_parser = experiment)]
    only: Vec<String>,
    /// Fewer points, fewer requests: the shape of it in a minute
    #[arg(long)]
    quick: bool,
    /// How many simulations to run at a time [default: one for each core]
    #[arg(long)]
    jobs: Option<NonZeroUsize>,
    /// Also write results.json, results.csv, a plot of each figure and report.html to this directory
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print the results as a JSON array
    #[arg(long)]
    json: bool,
}

fn experiment(name: &str) -> Result<String, String> {
    if tickertaip::EXPERIMENTS.contains(&name) {
        return Ok(name.to_string());
    }
    Err(format!("there is no '{name}'; there are {}", tickertaip::EXPERIMENTS.join(", ")))
}

impl Paper {
    /// Repeats it.
    pub fn run(&self) -> Result<ExitCode> {
        let Paper::Tickertaip(evaluation) = self;
        evaluation.run()
    }
}

impl Evaluation {
    fn run(&self) -> Result<ExitCode> {
        let effort = if self.quick { Effort::Quick } else { Effort::Full };
        let cases = tickertaip::cases(effort, &self.only);
        if let Some(dir) = &self.out {
            std::fs::create_dir_all(dir)
                .with_context(|| format!("cannot make {}", dir.display()))?;
        }
        let jobs = self.jobs.or_else(|| thread::available_parallelism().ok());
        let rows = run_all(&cases, jobs.map_or(1, NonZeroUsize::get))?;
        let of = by_experiment(&rows);
        if let Some(dir) = &self.out {
            outputs::write(dir, "TickerTAIP's evaluation, repeated", &of)?;
        }
        if self.json {
            say(serde_json::to_string_pretty(&rows)?)?;
        } else {
            for (experiment, rows) in of {
                say(format!("{experiment}\n{}\n", describe(&rows)))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Runs all cases, so many simulations at a time. What comes out does not depend on how many.
fn run_all(cases: &[Case], jobs: usize) -> Result<Vec<Row>> {
    let name = |c: &Case| format!("{} {}", c.experiment, place(&c.point));
    let systems: Vec<_> = cases.iter().map(|c| (name(c), &c.system)).collect();
    let mut rows: Vec<Vec<Row>> = vec![Vec::new(); cases.len()];
    run(&systems, jobs, |n, outcomes| {
        rows[n] = cases[n].rows(outcomes);
        Ok(())
    })?;
    Ok(rows.concat())
}

fn place(point: &[(&'static str, weft_sim::paper::Value)]) -> String {
    let words: Vec<String> = point.iter().map(|(key, value)| format!("{key}={value}")).collect();
    words.join(" ")
}

/// The rows of each experiment, in the order of the paper.
fn by_experiment(rows: &[Row]) -> Vec<(&'static str, Vec<&Row>)> {
    let of = |name: &&'static str| rows.iter().filter(|r| r.experiment == *name).collect();
    let all = tickertaip::EXPERIMENTS.iter().map(|name| (*name, of(name)));
    all.filter(|(_, rows): &(_, Vec<&Row>)| !rows.is_empty()).collect()
}

fn describe(rows: &[&Row]) -> String {
    let mut out = table(["point", "metric", "measured", "± 95 %", "paper", "off by"]);
    for row in rows {
        let (metric, digits) = match row.metric {
            Metric::ThroughputMbS => ("MB/s", 2),
            Metric::ResponseMs => ("ms", 1),
        };
        let number = |x: f64| format!("{x:.digits$}");
        out.add_row([
            place(&row.point),
            metric.to_string(),
            number(row.measured),
            row.ci95.map(number).unwrap_or_default(),
            row.paper.map(|p| p.to_string()).unwrap_or_default(),
            row.paper
                .map(|p| format!("{:+.1} %", (row.measured / p - 1.0) * 100.0))
                .unwrap_or_default(),
        ]);
    }
    align_right(&mut out, 2..6);
    out.to_string()
}
