//! What becomes of each design.

use serde::Serialize;

use crate::array::Array;
use crate::chain;
use crate::equations::{self, YEAR_H, chance, first_of};
use crate::lifetime::Lifetime;
use crate::losses::Losses;
use crate::markov::{self, KINDS, Rates};
use crate::requests;
use crate::spec::{Disks, Problem, Spec};
use crate::trial::Play;

/// What becomes of a design.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// What it is called.
    pub name: String,
    /// Its layout.
    pub layout: String,
    /// The line in the figures that it is on.
    pub curve: Option<String>,
    /// Its disks.
    pub disks: usize,
    /// Its boxes.
    pub boxes: usize,
    /// Terabytes (10^12) for data, without what disks keep for themselves and the room for rebuilds.
    pub usable_tb: f64,
    /// The price of disks, boxes and parts.
    pub cost: f64,
    /// The same for each terabyte of data.
    pub cost_per_tb: f64,
    /// Hours that the rebuild of a disk takes, once it has begun.
    pub rebuild_h: Option<f64>,
    /// Hours until a disk's content is on another one.
    pub repair_h: f64,
    /// The mean time to data loss by disks and boxes; nothing if nothing can be lost.
    pub mttdl_disk_h: Option<f64>,
    /// The same by anything.
    pub mttdl_h: Option<f64>,
    /// Bytes lost in an hour by disks and boxes.
    pub mdlr_disk_b_h: f64,
    /// The same by anything.
    pub mdlr_b_h: f64,
    /// The chance of a loss in a year.
    pub loss_per_year: f64,
    /// The chance of a loss in the mission.
    pub loss_per_mission: f64,
    /// Bytes lost in the mission, on the mean.
    pub bytes_lost_per_mission: f64,
    /// Requests in a second.
    pub requests_s: f64,
    /// What loses data: how often, and how much.
    pub causes: Vec<Cause>,
    /// Missions that were played through.
    pub played: Option<Played>,
    /// Whether sets of losses were drawn, not counted, since there are too many.
    pub sampled: bool,
    /// What of the budget it does not meet.
    pub beyond: Vec<String>,
}

/// Something that loses data.
#[derive(Clone, Debug, Serialize)]
pub struct Cause {
    /// What it is.
    pub name: String,
    /// Losses in an hour.
    pub per_h: f64,
}

/// Missions that were played through: losses by disks and boxes.
#[derive(Clone, Debug, Serialize)]
pub struct Played {
    /// The chance of a loss in the mission.
    pub loss_per_mission: f64,
    /// Half of the interval that has it with 95 %.
    pub ci95: f64,
    /// How many were played.
    pub trials: u32,
    /// What the chain says of the same.
    pub by_chain: f64,
}

/// How disks fail that are not foreseen to.
pub fn lifetime(disks: &Disks) -> Lifetime {
    let all = match (disks.mttf_h, disks.afr_percent, disks.weibull) {
        (Some(hours), _, _) => Lifetime::exponential(hours),
        (_, Some(percent), _) => Lifetime::exponential(YEAR_H * 100.0 / percent),
        (_, _, Some(weibull)) => Lifetime { shape: weibull.shape, scale_h: weibull.scale_h },
        (None, None, None) => unreachable!("the file was checked"),
    };
    all.share(1.0 - disks.coverage)
}

/// What becomes of each design of a plan: those that meet the budget first, the cheapest first, then the safest.
///
/// # Errors
/// If a design cannot be built.
pub fn outcomes(spec: &Spec) -> Result<Vec<Outcome>, Problem> {
    outcomes_told(spec, &mut || ())
}

/// The same, and tells of each simulated mission that is over.
///
/// # Errors
/// If a design cannot be built.
pub fn outcomes_told(spec: &Spec, told: &mut dyn FnMut()) -> Result<Vec<Outcome>, Problem> {
    let arrays: Vec<Array> =
        (0..spec.designs.len()).map(|n| Array::new(spec, n)).collect::<Result<_, _>>()?;
    let mut out: Vec<Outcome> = arrays
        .iter()
        .enumerate()
        .map(|(n, array)| Evaluation { spec, n, array }.outcome(told))
        .collect();
    let rank = |o: &Outcome| (o.beyond.len(), o.cost, o.loss_per_mission);
    out.sort_by(|a, b| rank(a).partial_cmp(&rank(b)).expect("numbers"));
    Ok(out)
}

/// A source of losses beside disks and boxes.
struct Beside {
    name: String,
    mttdl_h: f64,
    bytes: f64,
}

struct Evaluation<'a> {
    spec: &'a Spec,
    n: usize,
    array: &'a Array,
}

impl Evaluation<'_> {
    fn outcome(&self, told: &mut dyn FnMut()) -> Outcome {
        let (spec, array) = (self.spec, self.array);
        let design = &spec.designs[self.n];
        let losses = Losses::of(&array.unit);
        let rates = self.rates();
        let expected = markov::chain(&losses, &array.unit, &rates, array.waiting).solve();
        let units = array.units as f64;
        let mttdl_disk_h = expected.mttdl_h / units;
        let mdlr_disk_b_h = expected.bytes / mttdl_disk_h;
        let beside = self.beside();
        let mttdl_h = first_of(beside.iter().map(|b| b.mttdl_h).chain([mttdl_disk_h]));
        let mdlr_b_h =
            mdlr_disk_b_h + beside.iter().map(|b| equations::mdlr(b.bytes, b.mttdl_h)).sum::<f64>();
        let kinds = KINDS.iter().zip(&expected.shares);
        let mut causes: Vec<Cause> = kinds
            .map(|(name, share)| Cause { name: name.to_string(), per_h: share / mttdl_disk_h })
            .chain(beside.iter().map(|b| Cause { name: b.name.clone(), per_h: 1.0 / b.mttdl_h }))
            .filter(|c| c.per_h > 0.0)
            .collect();
        causes.sort_by(|a, b| b.per_h.total_cmp(&a.per_h));
        let (usable_tb, cost) = (array.usable_bytes() / 1e12, self.cost());
        let mission_h = spec.mission.years * YEAR_H;
        let mut out = Outcome {
            name: design.name.clone().unwrap_or_else(|| design.layout.clone()),
            layout: design.layout.clone(),
            curve: design.curve.clone(),
            disks: design.disks,
            boxes: array.boxes,
            usable_tb,
            cost,
            cost_per_tb: cost / usable_tb,
            rebuild_h: array.rebuild_h,
            repair_h: array.disk_repair.hours(1),
            mttdl_disk_h: Some(mttdl_disk_h).filter(|h| h.is_finite()),
            mttdl_h: Some(mttdl_h).filter(|h| h.is_finite()),
            mdlr_disk_b_h,
            mdlr_b_h,
            loss_per_year: chance(mttdl_h, YEAR_H),
            loss_per_mission: chance(mttdl_h, mission_h),
            bytes_lost_per_mission: mdlr_b_h * mission_h,
            requests_s: design.requests_s.unwrap_or_else(|| {
                requests::per_second(design, array, spec.workload.unwrap_or_default())
            }),
            causes,
            played: self.play(&rates, chance(mttdl_disk_h, mission_h), told),
            sampled: losses.sampled(),
            beyond: Vec::new(),
        };
        out.beyond = self.beyond(&out);
        out
    }

    fn rates(&self) -> Rates {
        let spec = self.spec;
        let boxes = spec.boxes.as_ref().and_then(|b| b.loss_mttf_h).map_or(0.0, |h| 1.0 / h);
        let per_disk = spec.disks.latent_per_h * spec.scrub.period_h / 2.0;
        Rates {
            disk: lifetime(&spec.disks).rate(spec.mission.years * YEAR_H),
            boxes,
            disk_repair: self.array.disk_repair,
            box_repair: self.array.box_repair,
            at_once: spec.repair.at_once,
            unreadable: per_disk / (spec.disks.size_gb * 1e9) + 8.0 * spec.disks.unreadable_per_bit,
        }
    }

    /// Missions by chance, if they are asked for.
    fn play(&self, rates: &Rates, by_chain: f64, told: &mut dyn FnMut()) -> Option<Played> {
        let asked = self.spec.monte_carlo.as_ref()?;
        let play = Play {
            unit: &self.array.unit,
            disk: lifetime(&self.spec.disks),
            boxes: rates.boxes,
            disk_repair: rates.disk_repair,
            box_repair: rates.box_repair,
            fixed_repairs: self.spec.repair.fixed,
            at_once: rates.at_once,
            unreadable: rates.unreadable,
            waiting: self.array.waiting,
            mission_h: self.spec.mission.years * YEAR_H,
        };
        let estimate = play.run(asked.trials, asked.seed, told);
        // Of several units any one may be that which loses something.
        let units = self.array.units as f64;
        let one = estimate.chance.min(1.0);
        let of_all = -libm::expm1(units * libm::log1p(-one));
        let slope = units * libm::pow(1.0 - one, units - 1.0);
        Some(Played {
            loss_per_mission: of_all,
            ci95: estimate.ci95 * slope,
            trials: estimate.trials,
            by_chain,
        })
    }

    /// What loses data beside disks and boxes (AFRAID, 3.3 to 3.5).
    fn beside(&self) -> Vec<Beside> {
        let (spec, all) = (self.spec, self.array.data_bytes());
        let mut out = Vec::new();
        let mut add = |name: &str, mttdl_h: f64, bytes: f64| {
            out.push(Beside { name: name.to_string(), mttdl_h, bytes });
        };
        if let Some(mttdl_h) = spec.support.mttdl_h {
            add("support", mttdl_h, all);
        }
        for part in &spec.support.parts {
            let mttf_h = chain::parts(part.count, part.needed, part.mttf_h, part.repair_h);
            add(&part.name, mttf_h / part.loses, all);
        }
        if let Some(nvram) = &spec.nvram {
            let mttf_h = chain::parts(nvram.copies, 1, nvram.mttf_h, nvram.repair_h);
            add("NVRAM", mttf_h, nvram.mb * 1e6);
        }
        if let Some(power) = &spec.power
            && !power.journal
        {
            let mttf_h = power.ups_mttf_h.unwrap_or(power.mains_mttf_h);
            let geometry = &self.array.unit.geometry;
            add(
                "power",
                equations::power_mttdl(mttf_h, power.write_share),
                geometry.stripe_bytes() as f64,
            );
        }
        out
    }

    fn cost(&self) -> f64 {
        let (spec, array) = (self.spec, self.array);
        let boxes = spec.boxes.as_ref().map_or(0.0, |b| b.price * array.boxes as f64);
        let parts: f64 = spec.support.parts.iter().map(|p| p.price * p.count as f64).sum();
        array.disks() as f64 * spec.disks.price + boxes + parts
    }

    /// What of the budget a design does not meet.
    fn beyond(&self, out: &Outcome) -> Vec<String> {
        let budget = &self.spec.budget;
        let mttdl = out.mttdl_h.unwrap_or(f64::INFINITY);
        let bounds = [
            ("loss_per_mission", budget.loss_per_mission, out.loss_per_mission, true),
            ("mttdl_h", budget.mttdl_h, mttdl, false),
            ("mdlr_b_h", budget.mdlr_b_h, out.mdlr_b_h, true),
            ("cost", budget.cost, out.cost, true),
            ("usable_tb", budget.usable_tb, out.usable_tb, false),
        ];
        let is_beyond = |(name, bound, is, is_most): (&str, Option<f64>, f64, bool)| {
            let bound = bound?;
            (if is_most { is > bound } else { is < bound }).then(|| name.to_string())
        };
        bounds.into_iter().filter_map(is_beyond).collect()
    }
}

#[cfg(test)]
mod tests;
