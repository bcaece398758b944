//! Runs points on all cores.

use std::fmt::Write;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{OnceLock, mpsc};
use std::thread;

use anyhow::{Context, Result, anyhow};
use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};
use weft_sim::perf::{Outcome, PILOT, System};

use crate::traces;

/// Runs all replications of these systems, each with a name for errors, on so many threads, and tells
/// of each system that is done, by its number in the list. What comes out does not depend on the
/// number of threads; the order in which it comes does.
///
/// # Errors
/// The first run that failed, or what `done` said; what was done before has been told.
pub fn run(
    systems: &[(String, &System)],
    jobs: usize,
    mut done: impl FnMut(usize, &[Outcome]) -> Result<()>,
) -> Result<()> {
    let replications = |s: &System| u64::from(s.measure.replications);
    let tasks: Vec<(usize, u64)> = systems
        .iter()
        .enumerate()
        .flat_map(|(n, (_, s))| (0..replications(s)).map(move |r| (n, r)))
        .collect();
    let bar = bar(tasks.len() as u64);
    let warmed_up: Vec<OnceLock<Result<System, String>>> =
        systems.iter().map(|_| OnceLock::new()).collect();
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for _ in 0..jobs.min(tasks.len()) {
            let (sender, next, stop, tasks) = (sender.clone(), &next, &stop, &tasks);
            let warmed_up = &warmed_up;
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let Some(&(n, r)) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) else {
                        return;
                    };
                    // Nobody listens any more after an error.
                    if sender.send((n, r, one(systems[n].1, &warmed_up[n], r))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut runs: Vec<Vec<Option<Outcome>>> =
            systems.iter().map(|(_, s)| vec![None; replications(s) as usize]).collect();
        let mut gather = || {
            for (n, r, outcome) in &receiver {
                let outcome = outcome.with_context(|| format!("{}, run {r}", systems[n].0))?;
                runs[n][r as usize] = Some(outcome);
                bar.inc(1);
                if runs[n].iter().all(Option::is_some) {
                    let outcomes: Vec<Outcome> =
                        std::mem::take(&mut runs[n]).into_iter().flatten().collect();
                    done(n, &outcomes)?;
                }
            }
            Ok(())
        };
        let result = gather();
        stop.store(true, Ordering::Relaxed);
        bar.finish_and_clear();
        result
    })
}

/// One run. The first of a system finds out how long its warm-up is, if a test is to say; the
/// others wait for that.
fn one(
    system: &System,
    warmed_up: &OnceLock<Result<System, String>>,
    replication: u64,
) -> Result<Outcome> {
    let warmed_up = warmed_up.get_or_init(|| {
        system
            .warmed_up(|| traces::simulation(system, PILOT).map_err(|e| format!("{e:#}"))?.pilot())
    });
    let system = warmed_up.as_ref().map_err(|e| anyhow!("{e}"))?;
    traces::simulation(system, replication)?.run().map_err(|e| anyhow!("{e}"))
}

/// A bar with the time left, on a terminal.
fn bar(length: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(length);
    let template = "{wide_bar} {human_pos} of {human_len} runs  {elapsed} elapsed{left}";
    // Before the first run is done nobody knows.
    let left = |state: &ProgressState, out: &mut dyn Write| {
        let _ = match state.pos() {
            0 => Ok(()),
            _ => write!(out, ", {:#} left", HumanDuration(state.eta())),
        };
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.with_key("left", left));
    }
    bar.enable_steady_tick(std::time::Duration::from_millis(500));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_fails_is_named_and_ends_all() {
        let text = "workload.arrivals.closed.population = 1\nworkload.requests.imitation = \"oltp\"\n\
                    measure.requests = 5";
        let good: System = toml::from_str(text).unwrap();
        let mut bad = good.clone();
        bad.nodes.workers = 0;
        let systems = [("good".to_string(), &good), ("bad".to_string(), &bad)];
        let mut done = Vec::new();
        let error = run(&systems, 1, |n, _| {
            done.push(n);
            Ok(())
        })
        .unwrap_err();
        assert_eq!(format!("{error:#}"), "bad, run 0: nodes.workers = 0: give 1 to 16384");
        assert_eq!(done, [0]);
    }
}
