//! What requests cost, by the plans that nodes carry out.

use weft_core::layout::Geometry;
use weft_core::plan::{Range, ReadPlan, Totals, WritePlan};
use weft_core::policy::Policy;
use weft_core::units::ColumnSet;

use crate::array::Array;
use crate::spec::{Design, Workload};

/// Places of a request that are looked at.
const PLACES: u64 = 64;

/// Requests in a second, at most: disks' operations by those of a request, on the mean, with nothing lost. Parity that
/// waits is computed when nobody asks for anything, and costs nothing here.
pub fn per_second(design: &Design, array: &Array, workload: &Workload) -> f64 {
    let operations = array.disks() as f64 * workload.disk_operations_s;
    operations / per_request(design, array, workload)
}

/// Operations of disks for a request.
fn per_request(design: &Design, array: &Array, workload: &Workload) -> f64 {
    let geometry = &array.unit.geometry;
    let waits = waits(design, geometry);
    let count = |t: Totals| (t.disk_reads + t.disk_writes + t.journal_writes) as f64;
    let places = (0..PLACES)
        .map(|n| Range { offset: n * workload.request_bytes, len: workload.request_bytes });
    let of = |range: Range| {
        let policy = Policy::default();
        let read = ReadPlan::new(geometry, range, ColumnSet::EMPTY).expect("nothing is lost");
        let write = WritePlan::deferring(geometry, range, ColumnSet::EMPTY, policy, waits)
            .expect("nothing is lost");
        let (read, write) = (count(read.totals(geometry)), count(write.totals(geometry, policy)));
        workload.read_share * read + (1.0 - workload.read_share) * write
    };
    places.map(of).sum::<f64>() / PLACES as f64
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

    fn operations(layout: &str, read_share: f64, deferred: bool) -> f64 {
        let waits = "deferred = { unprotected_share = 0.1, lag_bytes = 1 }";
        let text = format!(
            "[disks]\nsize_gb = 1\nmttf_h = 1e6\n[workload]\nread_share = {read_share}\n\
             [[designs]]\nlayout = \"{layout}\"\ndisks = 6\n{}",
            if deferred { waits } else { "" }
        );
        let spec = Spec::parse(&text).unwrap();
        per_request(&spec.designs[0], &Array::new(&spec, 0).unwrap(), &spec.workload)
    }

    /// As `weft explain write` counts them: with the journal a small write of RAID 5 reads old data, writes two records,
    /// and two units in place; parity that waits leaves a read and a write out.
    #[test]
    fn plans_say_what_requests_cost() {
        assert_eq!(operations("raid0", 1.0, false), 1.0);
        let (raid0, raid5) = (operations("raid0", 0.0, false), operations("raid5", 0.0, false));
        let (raid6, waits) = (operations("raid6", 0.0, false), operations("raid5", 0.0, true));
        assert!(raid0 < waits && waits < raid5 && raid5 < raid6, "{raid0} {waits} {raid5} {raid6}");
        let mixed = operations("raid5", 0.5, false);
        assert!((mixed - (1.0 + raid5) / 2.0).abs() < 1e-12);
    }
}
