//! The traces that scenarios name: found, opened, and read once before they are replayed.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use weft_load::trace::Extent;
use weft_load::workload::{Requests, Trace};
use weft_sim::perf::{Simulation, System};

use crate::catalogue;

/// What is known of traces, so that the points of a sweep read each but once.
#[derive(Debug, Default)]
pub struct Traces {
    known: RefCell<BTreeMap<String, Extent>>,
}

impl Traces {
    /// Finds and reads the trace of a system, if it has one. A relative path begins at the
    /// directory of the scenario's file, or at the current one.
    ///
    /// # Errors
    /// What is wrong with the trace, with its name and the line.
    pub fn read(&self, scenario: &str, system: &mut System) -> Result<()> {
        let Requests::Trace(trace) = &mut system.workload.requests else { return Ok(()) };
        let path = found(scenario, &trace.file);
        let described = format!("{path} {:?} {:?}", trace.format, trace.sector_bytes);
        let described = format!("{described} {:?} {:?}", trace.requests, trace.skip);
        let known = self.known.borrow().get(&described).cloned();
        let is_new = known.is_none();
        match known {
            Some(extent) => trace.surveyed = Some(extent),
            None => {
                let extent = survey(trace, &path)?;
                self.known.borrow_mut().insert(described, extent);
            }
        }
        trace.path = Some(path);
        if let Some(partly) = measured_in_part(system).filter(|_| is_new) {
            eprintln!("{partly}");
        }
        Ok(())
    }
}

/// How much of its trace a system measures, in words, unless it is all but the warm-up.
fn measured_in_part(system: &System) -> Option<String> {
    let trace = system.workload.requests.trace()?;
    let all = trace.surveyed.as_ref()?.requests;
    let (measured, warm_up) = (system.measured_requests(), system.measure.warm_up.requests());
    let name = trace.path.as_deref().unwrap_or(&trace.file);
    (measured + warm_up < all).then(|| {
        format!(
            "{name}: {measured} of its {all} requests are measured, after {warm_up} to warm up; \
             --set measure.requests={} measures the rest too",
            all - warm_up
        )
    })
}

/// Reads a trace to its end, and says what of it is left out.
fn survey(trace: &mut Trace, path: &str) -> Result<Extent> {
    let mut reader = trace.reader(path, open(path)?)?;
    trace.survey(&mut reader)?;
    for (what, count) in reader.left_out() {
        eprintln!("{path}: skipped: {count} {what}");
    }
    Ok(trace.surveyed.clone().unwrap_or_default())
}

/// From the scenario's directory, or from the current one.
fn found(scenario: &str, file: &str) -> String {
    let beside = Path::new(scenario).parent().unwrap_or(Path::new("")).join(file);
    let beside = beside.display().to_string();
    let is_there = |path: &str| Path::new(path).is_file() || catalogue::trace(path).is_some();
    match !is_there(&beside) && is_there(file) {
        true => file.to_string(),
        false => beside,
    }
}

/// The bytes of a trace: of a file, or of one that comes with Weft.
///
/// # Errors
/// If it cannot be opened.
pub fn open(path: &str) -> Result<Box<dyn Read>> {
    match (File::open(path), catalogue::trace(path)) {
        (Ok(file), _) => Ok(Box::new(file)),
        (Err(_), Some(text)) => Ok(Box::new(text.as_bytes())),
        (Err(e), None) => Err(e).with_context(|| format!("cannot open {path}")),
    }
}

/// The `replication`-th run of a system, with its trace if it has one.
///
/// # Errors
/// What is wrong with the system, or with its trace.
pub fn simulation(system: &System, replication: u64) -> Result<Simulation> {
    let path = system.workload.requests.trace().and_then(|t| t.path.as_deref());
    Ok(match path {
        Some(path) => Simulation::reading(system, replication, open(path)?)?,
        None => Simulation::new(system, replication)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::ENTRIES;
    use crate::scenario::Scenario;

    #[test]
    fn a_trace_that_is_measured_in_part_is_said_to_be() {
        let entry = ENTRIES.iter().find(|e| e.name == "examples/replay").unwrap();
        let said = |set: &[&str]| {
            let mut scenario = Scenario::parse(&entry.path(), entry.text).unwrap();
            for text in set {
                scenario.set(&text.parse().unwrap(), "--set").unwrap();
            }
            measured_in_part(&scenario.points().unwrap()[0].system)
        };
        assert_eq!(said(&[]), None, "all of it is");
        let text = said(&["measure.requests=20"]).unwrap();
        assert!(text.contains("replay.csv: 20 of its 72 requests are measured, after 8"), "{text}");
        assert!(text.contains("--set measure.requests=64 "), "{text}");
    }
}
