//! A study: a scenario's points, run in a world, kept while they are run, and put together from parts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Instant;

use anyhow::{Result, bail};
use weft_core::SECTOR;
use weft_load::Kind;
use weft_sim::perf::{Measure, WarmUp};

use crate::overload::Offered;
use crate::scenario::{Point, Scenario};
use crate::store::{self, Done, Place, Store, Study};
use crate::world::World;

/// A part of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Which part, from 0.
    pub index: usize,
    /// Of how many.
    pub of: usize,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let parts = text.split_once('/').map(|(i, n)| (i.parse(), n.parse()));
        match parts {
            Some((Ok(index), Ok(of))) if index < of => Ok(Shard { index, of }),
            _ => Err(format!("'{text}' is not a part; write I/N with I from 0 to N-1, like 0/4")),
        }
    }
}

/// Runs a scenario in a world, and keeps what is done in `out`; of a part only its points. Says on standard
/// error how long it took.
///
/// # Errors
/// The first point that failed, or could not be kept.
pub fn run(
    world: &World,
    scenario: &Scenario,
    part: Option<Shard>,
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
    let missing = missing(&study, &done, part);
    let named = |n: &usize| (scenario.name_of(&points[*n]), &points[*n].system);
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
    say_pace(missing.len(), known, events, begun);
    Ok((study, done))
}

/// The points of a part that are not done. Those that are the same are run once.
fn missing(study: &Study, done: &Done, part: Option<Shard>) -> Vec<usize> {
    let mine = |n: usize| part.is_none_or(|s| n % s.of == s.index);
    let mut taken = BTreeSet::new();
    (0..study.points.len())
        .filter(|n| mine(*n) && !done.contains_key(&study.points[*n].key))
        .filter(|n| taken.insert(&study.points[*n].key))
        .collect()
}

fn say_pace(points: usize, known: usize, events: u64, begun: Instant) {
    let seconds = begun.elapsed().as_secs_f64();
    let known = if known > 0 { format!(", {known} known before") } else { String::new() };
    let rate = events as f64 / 1e6 / seconds.max(1e-9);
    let rate = match events {
        0 => String::new(),
        _ => format!("; {rate:.2} million events a second"),
    };
    eprintln!("{points} points run in {seconds:.1} s{known}{rate}");
}

/// What stands behind a plus and minus, and in parentheses.
const INTERVALS: &str = "Intervals hold the true mean with 95 % (Student); relative standard \
                         deviations over the runs are in parentheses.";

/// What is run, for those who only have its directory.
pub fn study(world: &World, scenario: &Scenario, points: &[Point]) -> Study {
    let axes: Vec<&str> = scenario.axes.iter().map(|a| a.key.as_str()).collect();
    let measure = |p: &Point| (p.system.measure, p.system.measured_requests());
    let method = match points.first().map(measure) {
        Some((first, requests)) if points.iter().all(|p| measure(p) == (first, requests)) => {
            let runs = match first.replications {
                1 => "one run".to_string(),
                n => format!("the mean of {n} independent runs"),
            };
            format!(
                "Every point is {runs} {}, after {} to warm up; seed {}. {INTERVALS}",
                measured_for(world, &first, requests),
                match first.warm_up {
                    WarmUp::Requests(requests) => requests.to_string(),
                    WarmUp::Mser5 => "as many as MSER-5 discards from a pilot run".to_string(),
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
    let method = match partial_sectors(points) {
        Some(warning) => format!("{method}\n{warning}"),
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
                offered: Offered::of(&p.system),
            })
            .collect(),
    }
}

/// How long is measured.
fn measured_for(world: &World, measure: &Measure, requests: u64) -> String {
    match (measure.until_whole, measure.seconds) {
        (true, _) => "until all disks are whole".to_string(),
        (false, Some(seconds)) => match world {
            World::Simulated { .. } => format!("of {seconds} simulated seconds"),
            World::Real { .. } => format!("of {seconds} seconds"),
        },
        (false, None) => format!("of {requests} requests"),
    }
}

/// What is to be known if some point's writes end within a sector: it costs reads that nothing else in the results explains.
fn partial_sectors(points: &[Point]) -> Option<String> {
    let traced = |p: &Point| p.system.workload.requests.trace()?.surveyed.clone();
    let traced = points.iter().filter_map(traced).max_by_key(|t| t.partial_writes);
    let writes = match traced.filter(|t| t.partial_writes > 0) {
        Some(trace) => {
            format!(
                "{} of the trace's {} requests are writes that",
                trace.partial_writes, trace.requests
            )
        }
        None => format!("writes of {} bytes", partial_sizes(points)?),
    };
    Some(format!(
        "Warning: {writes} begin or end within a sector of {SECTOR}. Such a sector is read from its disk before it is written, \
         with every layout; whole sectors are not."
    ))
}

/// The sizes of writes that begin or end within a sector, in words, where a workload says them.
fn partial_sizes(points: &[Point]) -> Option<String> {
    let is_whole = |n: u64| n.is_multiple_of(SECTOR);
    let partial = |p: &Point| {
        let workload = &p.system.workload;
        let aligned = is_whole(workload.alignment());
        let classes = workload.requests.classes().into_iter();
        let writes = classes.filter(|c| c.kind == Kind::Write && c.weight > 0.0).map(|c| c.bytes);
        writes.filter(move |bytes| !aligned || !is_whole(*bytes)).collect::<Vec<_>>()
    };
    let sizes: BTreeSet<u64> = points.iter().flat_map(partial).collect();
    let some: Vec<String> = sizes.iter().take(MOST_SIZES).map(u64::to_string).collect();
    let more = if sizes.len() > MOST_SIZES { ", ..." } else { "" };
    (!sizes.is_empty()).then(|| format!("{}{more}", some.join(", ")))
}

/// So many sizes are named.
const MOST_SIZES: usize = 5;

/// Puts the parts of a study together that stand in these directories.
///
/// # Errors
/// If they are parts of different studies, or points are missing.
pub fn merge(dirs: &[PathBuf]) -> Result<(Study, Done)> {
    let Some((first, others)) = dirs.split_first() else {
        bail!("name the directories of the parts")
    };
    let (study, mut done) = Study::load(first)?;
    for dir in others {
        let (other, more) = Study::load(dir)?;
        if other != study {
            bail!("{}: this is part of another sweep than {}", dir.display(), first.display());
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
    Ok((study, done))
}

/// Makes a directory that holds a study whole, and can be resumed and merged like any other.
///
/// # Errors
/// If it cannot be written.
pub fn keep(dir: &Path, study: &Study, done: &Done) -> Result<()> {
    let (mut store, there) = Store::open(dir)?;
    study.save(dir)?;
    for place in &study.points {
        if !there.contains_key(&place.key) {
            store.keep(&place.key, &done[&place.key])?;
        }
    }
    Ok(())
}
