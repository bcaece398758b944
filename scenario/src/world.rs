//! Where a scenario is run: on models, or on real nodes.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use weft_sim::perf::{Problem, Summary, System};

use crate::result::Measured;
use crate::scenario::{Point, Scenario};
use crate::{real, run};

/// Where a scenario is run.
#[derive(Clone, Debug)]
pub enum World {
    /// On models of disks, links and processors.
    Simulated {
        /// Threads.
        jobs: usize,
    },
    /// On real nodes in this process.
    Real {
        /// Where their disks are.
        dir: PathBuf,
        /// For how long a run is tried again that others of the machine disturbed.
        patience: Duration,
    },
}

impl World {
    /// Refuses a scenario of which a point cannot be run, and names what of it means nothing.
    ///
    /// # Errors
    /// With key and range.
    pub fn check(&self, scenario: &Scenario) -> Result<()> {
        let World::Real { dir, .. } = self else { return Ok(()) };
        let points = self.points(scenario)?;
        for point in &points {
            let at = || scenario.name_of(point);
            real::limits::check(&point.system).map_err(|Problem { key, value, expected }| {
                anyhow!("{}: {key} = {value}: {expected} (in the real world)", scenario.place(&key))
            })?;
            real::limits::check_dir(&point.system, dir).with_context(at)?;
        }
        let emulated = points.iter().any(|p| p.system.disks.emulated);
        if emulated && !points.iter().all(|p| p.system.disks.emulated) {
            bail!(
                "{}: disks.emulated is varied, and what the parameters of disks mean depends on it; give \
                 one value, and run the scenario once with each",
                scenario.place("disks.emulated")
            );
        }
        let means_nothing = |k: &&str| scenario.says(k) && !(emulated && *k == "disks");
        let idle: Vec<&str> =
            real::limits::MEANINGLESS.iter().copied().filter(means_nothing).collect();
        if !idle.is_empty() {
            eprintln!("real runs ignore these keys: {}", idle.join(", "));
        }
        Ok(())
    }

    /// The points of a scenario, as they are run here.
    ///
    /// # Errors
    /// If one of them cannot be run.
    pub fn points(&self, scenario: &Scenario) -> Result<Vec<Point>> {
        let points = scenario.points()?;
        match self {
            World::Simulated { .. } => Ok(points),
            World::Real { .. } => points
                .into_iter()
                .map(|p| Ok(Point { system: real::limits::essence(&p.system)?, ..p }))
                .collect(),
        }
    }

    /// What tells its results from those of others: empty if it is simulated.
    pub fn place(&self) -> String {
        match self {
            World::Simulated { .. } => String::new(),
            World::Real { dir, .. } => format!("real {}\n", dir.display()),
        }
    }

    /// What is said of how points were measured, if that is not on models.
    pub fn method(&self, points: &[Point]) -> Option<String> {
        let World::Real { dir, .. } = self else { return None };
        let emulated = points.iter().any(|p| p.system.disks.emulated);
        let disks = if emulated { "disks emulated with" } else { "on" };
        Some(format!(
            "Measured on real nodes in one process, {disks} files in {}; each host is a connection on a Unix socket.",
            dir.display()
        ))
    }

    /// Runs systems, each with a name for errors, and tells of each that is done.
    ///
    /// # Errors
    /// The first that failed; what was done before has been told.
    pub fn run(
        &self,
        systems: &[(String, &System)],
        mut done: impl FnMut(usize, Measured) -> Result<()>,
    ) -> Result<()> {
        match self {
            World::Simulated { jobs } => run::run(systems, *jobs, |n, outcomes| {
                done(n, Measured::of(&Summary::of(outcomes)))
            }),
            World::Real { dir, patience } => real::run(systems, dir, *patience, done),
        }
    }
}
