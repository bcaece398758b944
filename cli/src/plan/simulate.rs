//! What a scenario says of how fast a plan's designs are.

use anyhow::{Context, Result, anyhow, bail};
use weft_plan::array::Array;
use weft_plan::spec::{Deferred, Simulate, Spec};
use weft_scenario::result::Measured;
use weft_scenario::scenario::{Scenario, Setting};
use weft_scenario::study;
use weft_scenario::world::World;
use weft_sim::perf::{FaultKind, System};

/// Runs the scenario of a plan with each design, and has the designs say what came out, unless they do already.
///
/// # Errors
/// If it has several points, cannot be run, or does not know what a design needs.
pub fn simulate(spec: &mut Spec) -> Result<()> {
    let Some(simulate) = spec.simulate.clone() else {
        return match spec.designs.iter().position(|d| !d.set.is_empty()) {
            Some(n) => bail!("designs[{n}].set needs a scenario; add [simulate]"),
            None => Ok(()),
        };
    };
    if spec.workload.is_some() {
        bail!(
            "workload: with [simulate] the scenario says what hosts do; omit [workload], and set keys in simulate.set"
        );
    }
    for n in 0..spec.designs.len() {
        let array = Array::new(spec, n)?;
        let design = &spec.designs[n];
        if design.requests_s.is_some() {
            if !design.set.is_empty() {
                bail!("designs[{n}].set conflicts with requests_s; omit one of them");
            }
            continue;
        }
        if design.deferred.is_some() {
            bail!(
                "designs[{n}].deferred: deferred parity is simulated; set volume.redundancy instead, as in set = \
                 [\"volume.redundancy.timing=deferred\"], or give a measured requests_s"
            );
        }
        if design.copied.is_some() {
            bail!(
                "designs[{n}].copied: copies are simulated; set volume.redundancy.timing=copied instead, as in set = \
                 [\"volume.redundancy.timing=copied\"], or omit [simulate]"
            );
        }
        let measured = run(&simulate, spec, n, &array).with_context(|| format!("designs[{n}]"))?;
        let group = array.unit.disks == array.unit.width();
        let rate = measured.recovered.rebuild_mb_s.map(|m| m.mean).filter(|r| group && *r > 0.0);
        let bytes = spec.disks.size_gb * 1e9;
        let design = &mut spec.designs[n];
        design.requests_s = Some(measured.requests_s.mean);
        design.deferred = measured.exposed.map(|seen| Deferred {
            unprotected_share: seen.unprotected_share.mean,
            lag_bytes: seen.lag_bytes.mean,
            // Scenarios have all parity wait, or none.
            immediate_parities: 0,
        });
        // What the file says of a repair as a whole is not simulated.
        let rate = rate.filter(|_| spec.repair.mttr_h.is_none());
        design.rebuild_h = design.rebuild_h.or(rate.map(|r| bytes / (r * 1e6) / 3600.0));
    }
    Ok(())
}

/// Keys of the scenario that a design says by keys of its own, and those.
const OF_DESIGNS: [(&str, &str); 4] = [
    ("nodes.workers", "disks"),
    ("volume.layout", "layout"),
    ("volume.unit", "unit_bytes"),
    ("volume.width", "layout"),
];

fn run(simulate: &Simulate, spec: &Spec, n: usize, array: &Array) -> Result<Measured> {
    let mut scenario = Scenario::open(&simulate.scenario)?;
    let design = &spec.designs[n];
    for (from, all) in [("simulate.set", &simulate.set), ("set", &design.set)] {
        for text in all {
            let setting: Setting = text.parse().map_err(|e| anyhow!("{from}: {e}"))?;
            if let Some((key, own)) = OF_DESIGNS.iter().find(|(key, _)| *key == setting.key) {
                bail!(
                    "{from}: {key} is the design's {own}; omit it here, and give {own} in [[designs]]"
                );
            }
            scenario.set(&setting, from)?;
        }
    }
    let mut set =
        |key: &str, value: String| scenario.set(&Setting { key: key.into(), value }, "a design's");
    set("nodes.workers", array.disks().to_string())?;
    set("volume.layout", format!("\"{}\"", design.layout))?;
    set("volume.unit", design.unit_bytes.to_string())?;
    if array.unit.width() < array.disks() {
        set("volume.width", array.unit.width().to_string())?;
    }
    let points = scenario.points()?;
    let [point] = &points[..] else {
        bail!(
            "simulate.scenario: {} has {} points; set each swept key to one value in simulate.set",
            simulate.scenario,
            points.len()
        );
    };
    check_faults(simulate, &point.system)?;
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let (_, done) = study::run(&World::Simulated { jobs }, &scenario, None, None)?;
    done.into_values().next().context("the scenario has no result")
}

/// Refuses to lose several disks: two that are rebuilt at once are put back at the rate of both, and a plan asks for that of
/// one.
fn check_faults(simulate: &Simulate, system: &System) -> Result<()> {
    let replaced = system
        .faults
        .iter()
        .filter(|f| matches!(f.what, FaultKind::DiskReplaced | FaultKind::NodeReturns));
    match replaced.count() {
        0 | 1 => Ok(()),
        several => bail!(
            "simulate.scenario: {} rebuilds {several} disks, which share disks and links; replace one only in it",
            simulate.scenario
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(more: &str, design: &str) -> Spec {
        let text = format!(
            "disks = {{ size_gb = 1000, mttf_h = 1e6 }}\n[simulate]\nscenario = \"tickertaip/rebuild\"\n\
             set = [\"measure.replications=2\", \"disks.size_bytes=1048576\", {more}]\n\
             [[designs]]\nlayout = \"rs:4+1\"\ndisks = 5\n{design}"
        );
        Spec::parse(&text).unwrap()
    }

    const ONE: &str = "\"workload.requests.fixed.read_share=1.0\", \"recovery.at_once_busy=8\"";

    #[test]
    fn a_scenario_says_how_fast_a_design_is_and_is_rebuilt() {
        let mut spec = spec(ONE, "");
        simulate(&mut spec).unwrap();
        let design = &spec.designs[0];
        assert!(design.requests_s.is_some_and(|r| r > 1.0), "{design:?}");
        assert!(design.rebuild_h.is_some_and(|h| h > 0.1 && h < 1e5), "{design:?}");
    }

    /// The lag comes from the array's own code: the more hours are asked for, the less is exposed.
    #[test]
    fn parity_that_waits_is_simulated_and_priced() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("writes.toml");
        let scenario = "[workload]\narrivals.open.rate_per_s = 10\nrequests.fixed = { bytes = 4096, read_share = 0.0 }\n\
                        [measure]\nwarm_up = 0\nrequests = 300\nreplications = 2\n";
        std::fs::write(&file, scenario).unwrap();
        let of = |set: &str| {
            let text = format!(
                "disks = {{ size_gb = 1000, mttf_h = 1e6 }}\nsimulate = {{ scenario = {file:?} }}\n\
                 [[designs]]\nlayout = \"raid5\"\ndisks = 5\nset = [{set}]"
            );
            let mut spec = Spec::parse(&text).unwrap();
            simulate(&mut spec).unwrap();
            let found = weft_plan::outcome::outcomes(&spec).unwrap();
            (spec.designs[0].deferred, found[0].mttdl_h, spec.designs[0].requests_s.unwrap())
        };
        let deferred = "\"volume.redundancy.timing=deferred\"";
        let (none, immediate_h, _) = of("");
        let (waits, deferred_h, requests_s) = of(deferred);
        let (_, never_h, _) = of("\"volume.redundancy.timing=never\"");
        let journal = "\"nodes.store=journalled\", \"volume.journal=true\"";
        let (no_lag, copied_h, _) = of(&format!("{journal}, \"volume.redundancy.timing=copied\""));
        assert_eq!((no_lag, copied_h), (None, immediate_h), "copies expose nothing");
        assert_eq!(none, None);
        let waits = waits.expect("it was exposed");
        assert!(waits.unprotected_share > 0.0 && waits.unprotected_share < 1.0, "{waits:?}");
        assert!(waits.lag_bytes > 0.0 && requests_s > 1.0, "{waits:?}");
        assert!(
            never_h < deferred_h && deferred_h < immediate_h,
            "{never_h:?} {deferred_h:?} {immediate_h:?}"
        );
    }

    /// Two disks that are rebuilt at once are put back at the rate of both.
    #[test]
    fn a_scenario_that_replaces_two_disks_says_nothing_of_one() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("two.toml");
        let fault = |at: f64, what: &str, node: u32| {
            format!("[[faults]]\nat_s = {at}\nwhat = \"{what}\"\nnode = {node}\n")
        };
        let faults: String = [0, 1]
            .iter()
            .map(|n| fault(0.1, "node-dies", *n) + &fault(0.5, "disk-replaced", *n))
            .collect();
        let scenario = format!(
            "disks.size_bytes = 1048576\n[workload]\narrivals.open.rate_per_s = 10\n\
             requests.fixed = {{ bytes = 4096, read_share = 1.0 }}\n[measure]\nreplications = 2\nuntil_whole = true\n{faults}"
        );
        std::fs::write(&file, scenario).unwrap();
        let text = format!(
            "disks = {{ size_gb = 1000, mttf_h = 1e6 }}\nsimulate = {{ scenario = {file:?} }}\n\
             [[designs]]\nlayout = \"raid6\"\ndisks = 6"
        );
        let said = format!("{:#}", simulate(&mut Spec::parse(&text).unwrap()).unwrap_err());
        assert!(said.contains("rebuilds 2 disks, which share"), "{said}");
    }

    #[test]
    fn what_a_design_says_itself_is_not_simulated() {
        let mut spec = spec(ONE, "requests_s = 5");
        simulate(&mut spec).unwrap();
        assert_eq!((spec.designs[0].requests_s, spec.designs[0].rebuild_h), (Some(5.0), None));
    }

    #[test]
    fn what_cannot_be_simulated_is_refused_with_what_would_do() {
        for (set, design, why) in [
            ("", "", "has 4 points; set each swept key to one value"),
            (
                ONE,
                "deferred = { unprotected_share = 0.1, lag_bytes = 1 }",
                "set volume.redundancy instead",
            ),
            (ONE, "copied = {}", "set volume.redundancy.timing=copied instead"),
            (
                ONE,
                "set = [\"volume.redundancy.timing=copied\"]",
                "give nodes.store = journalled and volume.journal = true",
            ),
            (ONE, "set = [\"volume.redundancy.timing=sometimes\"]", "volume.redundancy.timing"),
            (ONE, "requests_s = 5\nset = [\"links.mb_s=10\"]", "omit one of them"),
            ("\"links.speed=1\"", "", "this key does not exist"),
            ("\"links\"", "", "is not KEY=VALUE"),
            (
                "\"nodes.workers=7\"",
                "",
                "simulate.set: nodes.workers is the design's disks; omit it here",
            ),
            (ONE, "set = [\"volume.layout=raid6\"]", "set: volume.layout is the design's layout"),
            (ONE, "[workload]\nread_share = 1.0", "workload: with [simulate] the scenario says"),
        ] {
            let error = format!("{:#}", simulate(&mut spec(set, design)).unwrap_err());
            assert!(error.contains(why), "{error}");
        }
    }
}
