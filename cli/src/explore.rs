//! `weft check --explore`: goes through everything that can happen to one or two writes, within
//! bounds.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use clap::builder::PossibleValuesParser;
use serde_json::{Value, json};
use weft_sim::explore::{Bounds, Failure, Report, Setup, explore, simplest};
use weft_terminal::{Counts, Stage, say, say_json};

/// The setups and bounds of an exploration.
#[derive(Debug, Args)]
pub struct Explore {
    /// Explore every interleaving of messages, disk operations and faults with one or two writes
    #[arg(long, conflicts_with_all = ["seeds", "real", "jobs", "operations", "story"])]
    pub explore: bool,
    /// With --explore: setups, separated by commas [default: all]
    #[arg(long, requires = "explore", value_delimiter = ',', value_parser = names())]
    setup: Vec<String>,
    /// With --explore: number of node crashes, each at any instant after the previous node has returned
    #[arg(long, default_value_t = 1, requires = "explore")]
    crashes: u8,
    /// With --explore: number of power failures of all nodes, at any instant
    #[arg(long, default_value_t = 0, requires = "explore")]
    power_cuts: u8,
    /// With --explore: number of dead nodes that return at any instant, instead of at rest
    #[arg(long, default_value_t = 0, requires = "explore")]
    early_returns: u8,
    /// With --explore: number of timers that fire at any instant, instead of at rest
    #[arg(long, default_value_t = 0, requires = "explore")]
    early_timers: u8,
    /// With --explore: number of messages lost without a crash
    #[arg(long, default_value_t = 0, requires = "explore")]
    losses: u8,
    /// With --explore: number of events out of order [default: unlimited]
    #[arg(long, requires = "explore")]
    delays: Option<u16>,
    /// With --explore: maximum states per setup
    #[arg(long, default_value_t = 20_000_000, requires = "explore")]
    states: u64,
}

fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(Setup::all().iter().map(|s| s.name))
}

/// What came out of one setup.
struct Explored {
    setup: Setup,
    report: Report,
    seconds: f64,
    /// The failure that is easiest to follow.
    failure: Option<Failure>,
}

impl Explore {
    fn bounds(&self) -> Bounds {
        Bounds {
            crashes: self.crashes,
            power_cuts: self.power_cuts,
            early_returns: self.early_returns,
            early_timers: self.early_timers,
            losses: self.losses,
            delays: self.delays,
            states: self.states,
            ..Bounds::default()
        }
    }

    /// Explores; succeeds if everything within the bounds was gone through and nothing was wrong.
    pub fn run(&self, as_json: bool) -> Result<ExitCode> {
        let chosen = |s: &Setup| self.setup.is_empty() || self.setup.iter().any(|n| n == s.name);
        let setups: Vec<Setup> = Setup::all().into_iter().filter(chosen).collect();
        let stage = Stage::new("setups", setups.len() as u64, Counts::Things);
        let mut results = Vec::new();
        for setup in setups {
            let begun = Instant::now();
            let report = explore(&setup, &self.bounds());
            let seconds = begun.elapsed().as_secs_f64();
            let failure = report.failure.as_ref().and_then(|_| simplest(&setup, &self.bounds()));
            results.push(Explored { setup, report, seconds, failure });
            stage.advance(1);
        }
        stage.bar().finish_and_clear();
        if as_json {
            say_json(
                json!({ "setups": results.iter().map(Explored::as_json).collect::<Vec<_>>() }),
            )?;
        } else {
            say(results.iter().map(Explored::describe).collect::<Vec<_>>().join("\n"))?;
        }
        let good = results.iter().all(|r| r.report.complete && r.report.failure.is_none());
        Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

impl Explored {
    fn describe(&self) -> String {
        let (name, r) = (self.setup.name, &self.report);
        let mut out = format!(
            "{name:<8} {}\n{:<8} {} states, {} steps, {} ends, longest path {}, {:.1} s",
            self.setup.about, "", r.states, r.steps, r.ends, r.longest, self.seconds
        );
        if let Some(failure) = &self.failure {
            out += &format!("\n\nFAILED: {}\n", failure.reason);
            failure.story.iter().for_each(|line| out += &format!("  {line}\n"));
        } else if !r.complete {
            out += ", stopped: --states was reached";
        }
        out
    }

    fn as_json(&self) -> Value {
        let r = &self.report;
        let failure = |f: &Failure| json!({ "reason": f.reason, "story": f.story });
        json!({
            "setup": self.setup.name,
            "states": r.states,
            "steps": r.steps,
            "ends": r.ends,
            "longest": r.longest,
            "complete": r.complete,
            "seconds": self.seconds,
            "failure": self.failure.as_ref().map(failure),
        })
    }
}
