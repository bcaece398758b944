//! What requests cost, by the plans that nodes carry out.

use weft_core::layout::Geometry;
use weft_core::plan::{Range, ReadPlan, Totals, Waits, WritePlan};
use weft_core::policy::Policy;
use weft_core::units::ColumnSet;

use crate::array::Array;
use crate::spec::{Design, Workload};

/// Places of a request that are looked at.
const PLACES: u64 = 64;

/// Requests in a second, at most: disks' operations by those of a request, on the mean, with nothing lost. Parity that
/// waits is computed when nobody asks for anything, and costs nothing here. So do folds of copies, but for those under load.
pub fn per_second(design: &Design, array: &Array, workload: Workload) -> f64 {
    let operations = array.disks() as f64 * workload.disk_operations_s;
    operations / per_request(design, array, workload)
}

/// Operations of disks for a request.
fn per_request(design: &Design, array: &Array, workload: Workload) -> f64 {
    let geometry = &array.unit.geometry;
    let places = (0..PLACES)
        .map(|n| Range { offset: n * workload.request_bytes, len: workload.request_bytes });
    let of = |range: Range| {
        let read = ReadPlan::new(geometry, range, ColumnSet::EMPTY).expect("nothing is lost");
        let (read, write) = (operations(read.totals(geometry)), per_write(design, geometry, range));
        workload.read_share * read + (1.0 - workload.read_share) * write
    };
    places.map(of).sum::<f64>() / PLACES as f64
}

/// Operations of disks for a write, with those of its fold if it is copied. Where that is more than the write costs at once, nodes
/// soon copy no more.
fn per_write(design: &Design, geometry: &Geometry, range: Range) -> f64 {
    let policy = Policy::default();
    let plan = |waits| {
        WritePlan::deferring(geometry, range, ColumnSet::EMPTY, policy, waits)
            .expect("nothing is lost")
    };
    let cost = |plan: &WritePlan| operations(plan.totals(geometry, policy));
    let now = plan(waits(design, geometry).into());
    let Some(copied) = design.copied else { return cost(&now) };
    let copies = plan(Waits::COPIED);
    match copies.rows.iter().any(|row| !row.copied.is_empty()) {
        true => cost(&now).min(cost(&copies) + copied.folds_per_write * cost(&now)),
        false => cost(&now),
    }
}

fn operations(totals: Totals) -> f64 {
    (totals.disk_reads + totals.disk_writes + totals.journal_writes) as f64
}

/// The parities that wait.
fn waits(design: &Design, geometry: &Geometry) -> ColumnSet {
    let parities = geometry.layout.seats() - geometry.data_columns();
    design.deferred.map_or(ColumnSet::EMPTY, |d| (d.immediate_parities..parities).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Spec;

    const WAITS: &str = "deferred = { unprotected_share = 0.1, lag_bytes = 1 }";

    fn operations(layout: &str, read_share: f64, more: &str) -> f64 {
        let text = format!(
            "[disks]\nsize_gb = 1\nmttf_h = 1e6\n[workload]\nread_share = {read_share}\n\
             [[designs]]\nlayout = \"{layout}\"\ndisks = 6\n{more}"
        );
        let spec = Spec::parse(&text).unwrap();
        per_request(
            &spec.designs[0],
            &Array::new(&spec, 0).unwrap(),
            spec.workload.unwrap_or_default(),
        )
    }

    /// As `weft explain write` counts them: with the journal a small write of RAID 5 reads old data, writes two records,
    /// and two units in place; parity that waits leaves a read and a write out.
    #[test]
    fn plans_say_what_requests_cost() {
        assert_eq!(operations("raid0", 1.0, ""), 1.0);
        let (raid0, raid5) = (operations("raid0", 0.0, ""), operations("raid5", 0.0, ""));
        let (raid6, waits) = (operations("raid6", 0.0, ""), operations("raid5", 0.0, WAITS));
        assert!(raid0 < waits && waits < raid5 && raid5 < raid6, "{raid0} {waits} {raid5} {raid6}");
        let mixed = operations("raid5", 0.5, "");
        assert!((mixed - (1.0 + raid5) / 2.0).abs() < 1e-12);
    }

    /// A copied write is two records. Its fold costs what the write would have cost at once, if it does not wait for a pause. Together
    /// they never count more than that.
    #[test]
    fn a_copied_write_costs_its_copies_and_its_fold() {
        let immediate = operations("raid5", 0.0, "");
        let of = |folds: f64| {
            operations("raid5", 0.0, &format!("copied = {{ folds_per_write = {folds:?} }}"))
        };
        assert_eq!((of(0.0), of(0.5)), (2.0, 2.0 + immediate / 2.0));
        assert_eq!((of(0.9), operations("raid5", 0.0, "copied = {}")), (immediate, immediate));
        let whole = |more: &str| {
            let workload = "[workload]\nread_share = 0\nrequest_bytes = 327680\n";
            let text = format!(
                "[disks]\nsize_gb = 1\nmttf_h = 1e6\n{workload}[[designs]]\nlayout = \"raid5\"\ndisks = 6\n{more}"
            );
            let spec = Spec::parse(&text).unwrap();
            per_request(
                &spec.designs[0],
                &Array::new(&spec, 0).unwrap(),
                spec.workload.unwrap_or_default(),
            )
        };
        assert_eq!(whole("copied = {}"), whole(""), "whole stripes are not copied");
    }
}
