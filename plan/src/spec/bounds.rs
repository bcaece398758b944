//! Between what the numbers of a plan's file must be.

use super::{Problem, Spec};

/// Checks numbers as they come, and says of the first that is wrong what would do.
struct Bounds(Result<(), Problem>);

impl Bounds {
    fn check(&mut self, key: &str, value: f64, good: bool, would_do: &str) {
        if !good && self.0.is_ok() {
            let value = if value.is_nan() { "nan".to_string() } else { value.to_string() };
            self.0 = Err(Problem::new(key, format!("{value} is not possible; give {would_do}")));
        }
    }

    /// Above 0. What is smaller or larger than this is a slip, and what is computed from it is no number.
    fn positive(&mut self, key: &str, value: impl Into<Option<f64>>) {
        if let Some(value) = value.into() {
            let good = (1e-6..=1e18).contains(&value);
            self.check(key, value, good, "a number above 0, from 1e-6 to 1e18");
        }
    }

    /// 0 or above.
    fn not_negative(&mut self, key: &str, value: f64) {
        self.check(key, value, (0.0..=1e18).contains(&value), "a number from 0 to 1e18");
    }

    /// From 0 to 1.
    fn share(&mut self, key: &str, value: impl Into<Option<f64>>) {
        if let Some(value) = value.into() {
            self.check(
                key,
                value,
                (0.0..=1.0).contains(&value),
                "a share from 0 to 1, as 0.05 for 5 %",
            );
        }
    }

    fn between(&mut self, key: &str, value: f64, least: f64, most: f64) {
        self.check(key, value, (least..=most).contains(&value), &format!("{least} to {most}"));
    }
}

/// Checks all numbers of a file that stand by themselves.
///
/// # Errors
/// The first that is wrong.
pub(super) fn check(spec: &Spec) -> Result<(), Problem> {
    let mut bounds = Bounds(Ok(()));
    disks(spec, &mut bounds)?;
    surroundings(spec, &mut bounds);
    budget(spec, &mut bounds);
    if spec.designs.is_empty() {
        return Err(Problem::new(
            "designs",
            "there is nothing to compare; give one [[designs]] or more",
        ));
    }
    designs(spec, &mut bounds);
    bounds.0?;
    missions(spec)
}

/// The most disks that are simulated, of all missions: they take hours.
const MOST_DISKS: u64 = 10_000_000_000;

/// Refuses more missions than anybody waits for.
fn missions(spec: &Spec) -> Result<(), Problem> {
    let Some(plays) = &spec.monte_carlo else { return Ok(()) };
    let disks: u64 = spec.designs.iter().map(|d| d.disks as u64).sum();
    match u64::from(plays.trials) * disks > MOST_DISKS {
        true => Err(Problem::new(
            "monte_carlo.trials",
            format!(
                "{} missions of {disks} disks in all designs would take days; give at most {}",
                plays.trials,
                MOST_DISKS / disks
            ),
        )),
        false => Ok(()),
    }
}

fn disks(spec: &Spec, bounds: &mut Bounds) -> Result<(), Problem> {
    let disks = &spec.disks;
    bounds.between("disks.size_gb", disks.size_gb, 1e-3, 1e9);
    let ways = [disks.mttf_h.is_some(), disks.afr_percent.is_some(), disks.weibull.is_some()];
    if ways.iter().filter(|given| **given).count() != 1 {
        let problem = "give one of mttf_h, afr_percent, weibull, and only one";
        return Err(Problem::new("disks", problem));
    }
    bounds.positive("disks.mttf_h", disks.mttf_h);
    if let Some(percent) = disks.afr_percent {
        bounds.between("disks.afr_percent", percent, 0.0001, 100.0);
    }
    if let Some(weibull) = disks.weibull {
        bounds.between("disks.weibull.shape", weibull.shape, 0.2, 10.0);
        bounds.positive("disks.weibull.scale_h", weibull.scale_h);
    }
    bounds.check(
        "disks.coverage",
        disks.coverage,
        (0.0..1.0).contains(&disks.coverage),
        "a share from 0 to below 1, as 0.5 for half of the failures",
    );
    bounds.not_negative("disks.latent_per_h", disks.latent_per_h);
    bounds.between("disks.unreadable_per_bit", disks.unreadable_per_bit, 0.0, 1e-6);
    bounds.not_negative("disks.price", disks.price);
    Ok(())
}

fn surroundings(spec: &Spec, bounds: &mut Bounds) {
    if let Some(boxes) = &spec.boxes {
        bounds.between("boxes.count", boxes.count as f64, 1.0, 1000.0);
        bounds.positive("boxes.loss_mttf_h", boxes.loss_mttf_h);
        bounds.not_negative("boxes.replace_h", boxes.replace_h);
        bounds.not_negative("boxes.price", boxes.price);
    }
    let repair = &spec.repair;
    bounds.positive("repair.mttr_h", repair.mttr_h);
    bounds.not_negative("repair.replace_h", repair.replace_h);
    bounds.positive("repair.disk_mb_s", repair.disk_mb_s);
    bounds.positive("repair.array_mb_s", repair.array_mb_s);
    bounds.positive("scrub.period_h", spec.scrub.period_h);
    bounds.positive("support.mttdl_h", spec.support.mttdl_h);
    for (n, part) in spec.support.parts.iter().enumerate() {
        let key = |name: &str| format!("support.parts[{n}].{name}");
        bounds.between(&key("count"), part.count as f64, 1.0, 100.0);
        bounds.between(&key("needed"), part.needed as f64, 1.0, part.count as f64);
        bounds.positive(&key("mttf_h"), part.mttf_h);
        bounds.positive(&key("repair_h"), part.repair_h);
        bounds.share(&key("loses"), part.loses);
        bounds.not_negative(&key("price"), part.price);
    }
    if let Some(nvram) = &spec.nvram {
        bounds.positive("nvram.mttf_h", nvram.mttf_h);
        bounds.positive("nvram.mb", nvram.mb);
        bounds.between("nvram.copies", nvram.copies as f64, 1.0, 10.0);
        bounds.positive("nvram.repair_h", nvram.repair_h);
    }
    if let Some(power) = &spec.power {
        bounds.positive("power.mains_mttf_h", power.mains_mttf_h);
        bounds.positive("power.ups_mttf_h", power.ups_mttf_h);
        bounds.share("power.write_share", power.write_share);
    }
    if let Some(hosts) = spec.workload {
        bounds.share("workload.read_share", hosts.read_share);
        bounds.between("workload.request_bytes", hosts.request_bytes as f64, 1.0, 4_194_304.0);
        bounds.positive("workload.disk_operations_s", hosts.disk_operations_s);
    }
    bounds.between("mission.years", spec.mission.years, 0.01, 1000.0);
    if let Some(plays) = &spec.monte_carlo {
        bounds.between("monte_carlo.trials", f64::from(plays.trials), 100.0, 100_000_000.0);
    }
}

fn budget(spec: &Spec, bounds: &mut Bounds) {
    bounds.share("budget.loss_per_mission", spec.budget.loss_per_mission);
    bounds.positive("budget.mttdl_h", spec.budget.mttdl_h);
    bounds.positive("budget.mdlr_b_h", spec.budget.mdlr_b_h);
    bounds.positive("budget.cost", spec.budget.cost);
    bounds.positive("budget.usable_tb", spec.budget.usable_tb);
}

fn designs(spec: &Spec, bounds: &mut Bounds) {
    for (n, design) in spec.designs.iter().enumerate() {
        let key = |name: &str| format!("designs[{n}].{name}");
        bounds.between(&key("disks"), design.disks as f64, 1.0, 1000.0);
        if let Some(boxes) = design.boxes {
            bounds.between(&key("boxes"), boxes as f64, 1.0, 1000.0);
        }
        bounds.between(&key("unit_bytes"), design.unit_bytes as f64, 4096.0, 1_073_741_824.0);
        bounds.positive(&key("requests_s"), design.requests_s);
        bounds.positive(&key("rebuild_h"), design.rebuild_h);
        if let Some(deferred) = design.deferred {
            bounds.share(&key("deferred.unprotected_share"), deferred.unprotected_share);
            bounds.not_negative(&key("deferred.lag_bytes"), deferred.lag_bytes);
        }
        if let Some(copied) = design.copied {
            bounds.share(&key("copied.folds_per_write"), copied.folds_per_write);
        }
    }
}
