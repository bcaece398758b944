//! What a plan's file says. Units are part of a key's name. What a file leaves out has the value that is written here,
//! with where it comes from; `weft plan --example` prints a file that has them all.

mod bounds;

use serde::Deserialize;

use crate::unit::Placement;

/// A plan: what there is to build arrays of, and the designs to compare.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// What it is called.
    #[serde(default = "title")]
    pub title: String,
    /// The disks.
    pub disks: Disks,
    /// The boxes, if any is lost or paid for.
    pub boxes: Option<Boxes>,
    /// How lost content is rebuilt.
    #[serde(default)]
    pub repair: Repair,
    /// How often everything is read to find what cannot be read.
    #[serde(default)]
    pub scrub: Scrub,
    /// Parts without which there is no array.
    #[serde(default)]
    pub support: Support,
    /// Memory that keeps writes which are on no disk yet.
    pub nvram: Option<Nvram>,
    /// Mains and what stands in for it.
    pub power: Option<Power>,
    /// What hosts do.
    pub workload: Option<Workload>,
    /// A scenario that says how fast designs are, instead of the plans of their requests.
    pub simulate: Option<Simulate>,
    /// The mission time of the array.
    #[serde(default)]
    pub mission: Mission,
    /// What may be risked and paid.
    #[serde(default)]
    pub budget: Budget,
    /// Missions that are simulated, besides the computation.
    pub monte_carlo: Option<MonteCarlo>,
    /// The designs to compare.
    pub designs: Vec<Design>,
}

fn title() -> String {
    "Plan".to_string()
}

/// Disks. Their failures are given in one of three ways.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Disks {
    /// Gigabytes (10^9) of a disk.
    pub size_gb: f64,
    /// The mean time to failure.
    pub mttf_h: Option<f64>,
    /// Failures in a year, of a hundred disks.
    pub afr_percent: Option<f64>,
    /// Failures that depend on age.
    pub weibull: Option<Weibull>,
    /// The share of failures that is foreseen, so that the disk is emptied in time.
    pub coverage: f64,
    /// Sectors of a disk that become unreadable in an hour, until a scrub finds them.
    pub latent_per_h: f64,
    /// Bits that cannot be read, of those that are.
    pub unreadable_per_bit: f64,
    /// What one costs.
    pub price: f64,
}

/// Weibull's distribution of lifetimes.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Weibull {
    /// Above 1: disks wear out.
    pub shape: f64,
    /// Hours until 63 % have failed.
    pub scale_h: f64,
}

/// Boxes that disks are in.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Boxes {
    /// How many there are, if a design does not say it.
    pub count: usize,
    /// The mean time until one is lost with all disks in it.
    pub loss_mttf_h: Option<f64>,
    /// Hours until there is another one.
    #[serde(default = "box_replace_h")]
    pub replace_h: f64,
    /// Whether no two columns of an extent are in one box, as in a cluster of Weft.
    #[serde(default = "yes")]
    pub apart: bool,
    /// What one costs without disks.
    #[serde(default)]
    pub price: f64,
}

fn box_replace_h() -> f64 {
    48.0
}

fn yes() -> bool {
    true
}

/// How lost content is rebuilt.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Repair {
    /// Hours until a disk's content is on another one, instead of what the other keys come to; a design's own time of a
    /// rebuild says more.
    pub mttr_h: Option<f64>,
    /// Hours until the rebuild begins.
    pub replace_h: f64,
    /// Megabytes (10^6) in a second that a disk gives to rebuilding, read and written together.
    pub disk_mb_s: f64,
    /// The same of all rebuilds of a unit together, if something else bounds them.
    pub array_mb_s: Option<f64>,
    /// Disks that are rebuilt at a time; 0 for all that are lost.
    pub at_once: usize,
    /// Whether repairs take the same time each, instead of times that vary exponentially; for plays alone.
    pub fixed: bool,
}

impl Default for Repair {
    fn default() -> Repair {
        Repair {
            mttr_h: None,
            replace_h: 24.0,
            disk_mb_s: 50.0,
            array_mb_s: None,
            at_once: 0,
            fixed: false,
        }
    }
}

/// How often everything is read.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scrub {
    /// Hours from one time to the next.
    pub period_h: f64,
}

/// A week.
impl Default for Scrub {
    fn default() -> Scrub {
        Scrub { period_h: 168.0 }
    }
}

/// Parts without which there is no array.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Support {
    /// The mean time until all of them together lose all data.
    pub mttdl_h: Option<f64>,
    /// Parts, each with its own.
    pub parts: Vec<Part>,
}

/// Some equal parts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// What they are.
    pub name: String,
    /// How many there are.
    #[serde(default = "one")]
    pub count: usize,
    /// How many of them it takes.
    #[serde(default = "one")]
    pub needed: usize,
    /// The mean time to failure of one.
    pub mttf_h: f64,
    /// Hours until another one is there.
    #[serde(default = "part_repair_h")]
    pub repair_h: f64,
    /// The share of cases in which data is lost when there are too few.
    #[serde(default = "always")]
    pub loses: f64,
    /// What one costs.
    #[serde(default)]
    pub price: f64,
}

fn one() -> usize {
    1
}

fn part_repair_h() -> f64 {
    24.0
}

fn always() -> f64 {
    1.0
}

/// Memory that keeps writes which are on no disk yet.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nvram {
    /// The mean time to failure of one.
    pub mttf_h: f64,
    /// Megabytes (10^6) in it.
    pub mb: f64,
    /// Copies of its content, each in a separate memory.
    #[serde(default = "one")]
    pub copies: usize,
    /// Hours until another one is there.
    #[serde(default = "part_repair_h")]
    pub repair_h: f64,
}

/// Mains and what stands in for it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Power {
    /// The mean time to failure of mains.
    pub mains_mttf_h: f64,
    /// The mean time to failure of mains and UPS together, if there is one.
    pub ups_mttf_h: Option<f64>,
    /// The share of time in which writes are under way.
    pub write_share: f64,
    /// Whether writes are journalled, so that a power failure loses nothing.
    #[serde(default = "yes")]
    pub journal: bool,
}

/// What hosts do: requests of one size at random places.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Workload {
    /// The share of requests that read.
    pub read_share: f64,
    /// Bytes of a request.
    pub request_bytes: u64,
    /// Operations that a disk carries out in a second.
    pub disk_operations_s: f64,
}

impl Default for Workload {
    fn default() -> Workload {
        Workload { read_share: 0.7, request_bytes: 4096, disk_operations_s: 150.0 }
    }
}

/// A scenario of `weft sim` that is run with each design's disks, layout and stripe unit.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Simulate {
    /// Its file, or the name of one that comes with Weft.
    pub scenario: String,
    /// The settings in it, each as `KEY=VALUE`.
    #[serde(default)]
    pub set: Vec<String>,
}

/// The mission time of the array.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Mission {
    /// Years.
    pub years: f64,
}

impl Default for Mission {
    fn default() -> Mission {
        Mission { years: 5.0 }
    }
}

/// What may be risked and paid. Omitted values are not bounded.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Budget {
    /// The largest chance of a loss in the mission.
    pub loss_per_mission: Option<f64>,
    /// The shortest mean time to data loss.
    pub mttdl_h: Option<f64>,
    /// The most bytes lost in an hour.
    pub mdlr_b_h: Option<f64>,
    /// The highest price.
    pub cost: Option<f64>,
    /// The least room for data.
    pub usable_tb: Option<f64>,
}

/// Missions that are played through.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MonteCarlo {
    /// How many, of each design.
    pub trials: u32,
    /// Where chance begins.
    pub seed: u64,
}

impl Default for MonteCarlo {
    fn default() -> MonteCarlo {
        MonteCarlo { trials: 10_000, seed: 1 }
    }
}

/// An array to compare with others.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Design {
    /// What it is called; the layout, if nothing is said.
    pub name: Option<String>,
    /// Its layout, as `weft volume create` takes it.
    pub layout: String,
    /// Its disks.
    pub disks: usize,
    /// Its boxes, if not those of all.
    pub boxes: Option<usize>,
    /// On which disks extents lie.
    #[serde(default)]
    pub placement: Placement,
    /// Disks' worth of room that is left free for rebuilds where extents are spread.
    pub spare_disks: Option<usize>,
    /// Bytes of a stripe unit.
    #[serde(default = "unit_bytes")]
    pub unit_bytes: u64,
    /// Parity that waits.
    pub deferred: Option<Deferred>,
    /// Small writes that parity takes in later, and whose copies its disks keep until then.
    pub copied: Option<Copied>,
    /// Designs that say the same here are one line in the figures: one array under several policies.
    pub curve: Option<String>,
    /// Requests in a second that were measured or simulated, instead of what the plans of requests come to.
    pub requests_s: Option<f64>,
    /// Hours that the rebuild of a disk takes once it has begun, as measured or simulated.
    pub rebuild_h: Option<f64>,
    /// What this design sets in the scenario, KEY=VALUE, beside what all do: when parity is computed, for instance.
    #[serde(default)]
    pub set: Vec<String>,
}

fn unit_bytes() -> u64 {
    65_536
}

/// Parity that waits, as it was measured: `weft status --json`, `weft sim` and `weft paper afraid` say both.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deferred {
    /// The share of time in which any stripe was exposed.
    pub unprotected_share: f64,
    /// Bytes of data in exposed stripes, on the mean over all time.
    pub lag_bytes: f64,
    /// Parities that do not wait.
    #[serde(default)]
    pub immediate_parities: usize,
}

/// Writes that are copied: nothing is exposed, and each copy is written a second time by its fold.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Copied {
    /// Folds under load for each copied write: 0 if all wait until hosts pause, at most 1. Fewer where copies are replaced before
    /// they are folded. A copied write counts no more than an immediate one: under load without pauses nodes soon copy no more.
    #[serde(default = "always")]
    pub folds_per_write: f64,
}

/// A file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct Problem {
    /// The key that it is about.
    pub key: String,
    /// The problem, and a remedy.
    pub problem: String,
}

impl Problem {
    /// Something about a key.
    pub fn new(key: impl Into<String>, problem: impl Into<String>) -> Problem {
        Problem { key: key.into(), problem: problem.into() }
    }
}

impl Spec {
    /// Reads a file's text, and checks what can be seen in it.
    ///
    /// # Errors
    /// With the key, the problem, and a remedy.
    pub fn parse(text: &str) -> Result<Spec, Problem> {
        let line = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
        let table = toml::de::Deserializer::parse(text).map_err(|e| {
            let at = e.span().map_or(1, |span| line(span.start));
            Problem::new(format!("line {at}"), e.message().replace('\n', "; "))
        })?;
        let spec: Spec = serde_path_to_error::deserialize(table).map_err(|e| {
            let key = e.path().to_string();
            let at = e.inner().span().map_or(1, |span| line(span.start));
            Problem::new(format!("line {at}: {key}"), e.inner().message().replace('\n', "; "))
        })?;
        bounds::check(&spec)?;
        Ok(spec)
    }
}
