//! What a scenario says of how fast a plan's designs are.

use anyhow::{Context, Result, anyhow, bail};
use weft_plan::array::Array;
use weft_plan::spec::{Simulate, Spec};
use weft_scenario::result::Measured;
use weft_scenario::scenario::{Scenario, Setting};
use weft_scenario::study;
use weft_scenario::world::World;

/// Runs the scenario of a plan with each design, and has the designs say what came out, unless they do already.
///
/// # Errors
/// If it has several points, cannot be run, or does not know what a design needs.
pub fn simulate(spec: &mut Spec) -> Result<()> {
    let Some(simulate) = spec.simulate.clone() else { return Ok(()) };
    for n in 0..spec.designs.len() {
        let array = Array::new(spec, n)?;
        let design = &spec.designs[n];
        if design.requests_s.is_some() {
            continue;
        }
        if design.deferred.is_some() {
            bail!(
                "designs[{n}].deferred: scenarios have no parity that waits; give requests_s as measured, or leave \
                 [simulate] out"
            );
        }
        let measured = run(&simulate, spec, n, &array).with_context(|| format!("designs[{n}]"))?;
        let group = array.unit.disks == array.unit.width();
        let rate = measured.recovered.rebuild_mb_s.map(|m| m.mean).filter(|r| group && *r > 0.0);
        let bytes = spec.disks.size_gb * 1e9;
        let design = &mut spec.designs[n];
        design.requests_s = Some(measured.requests_s.mean);
        design.rebuild_h = design.rebuild_h.or(rate.map(|r| bytes / (r * 1e6) / 3600.0));
    }
    Ok(())
}

fn run(simulate: &Simulate, spec: &Spec, n: usize, array: &Array) -> Result<Measured> {
    let mut scenario = Scenario::open(&simulate.scenario)?;
    for text in &simulate.set {
        let setting: Setting = text.parse().map_err(|e| anyhow!("simulate.set: {e}"))?;
        scenario.set(&setting, "simulate.set")?;
    }
    let design = &spec.designs[n];
    let mut set =
        |key: &str, value: String| scenario.set(&Setting { key: key.into(), value }, "a design's");
    set("nodes.workers", array.disks().to_string())?;
    set("volume.layout", format!("\"{}\"", design.layout))?;
    set("volume.unit", design.unit_bytes.to_string())?;
    if array.unit.width() < array.disks() {
        set("volume.width", array.unit.width().to_string())?;
    }
    let points = scenario.points()?.len();
    if points != 1 {
        bail!(
            "simulate.scenario: {} has {points} points; set what it sweeps to one value each in simulate.set",
            simulate.scenario
        );
    }
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let (_, done) = study::run(&World::Simulated { jobs }, &scenario, None, None)?;
    done.into_values().next().context("the scenario has no result")
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

    #[test]
    fn what_a_design_says_itself_is_not_simulated() {
        let mut spec = spec(ONE, "requests_s = 5");
        simulate(&mut spec).unwrap();
        assert_eq!((spec.designs[0].requests_s, spec.designs[0].rebuild_h), (Some(5.0), None));
    }

    #[test]
    fn what_cannot_be_simulated_is_refused_with_what_would_do() {
        for (set, design, why) in [
            ("", "", "has 4 points; set what it sweeps to one value each"),
            (
                ONE,
                "deferred = { unprotected_share = 0.1, lag_bytes = 1 }",
                "give requests_s as measured",
            ),
            ("\"links.speed=1\"", "", "there is no such key"),
            ("\"links\"", "", "is not KEY=VALUE"),
        ] {
            let error = format!("{:#}", simulate(&mut spec(set, design)).unwrap_err());
            assert!(error.contains(why), "{error}");
        }
    }
}
