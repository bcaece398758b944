use std::collections::BTreeSet;

use super::super::cases_are_sound;
use super::*;
use crate::perf::Simulation;

#[test]
fn every_experiment_has_cases_and_every_case_can_be_simulated() {
    cases_are_sound(&EVALUATION);
}

#[test]
fn only_what_is_asked_for_is_simulated() {
    let cases = cases(Effort::Quick, &["figure-6".to_string()]);
    assert_eq!(cases.len(), 3 * 4);
    assert!(cases.iter().all(|c| c.experiment == "figure-6"));
    assert!(cases.iter().flat_map(|c| &c.metrics).all(|m| m.1.is_none()), "they are held out");
}

#[test]
fn the_baseline_is_the_fourth_point_from_the_left() {
    for experiment in ["figure-6", "figure-9"] {
        assert_eq!(setups(experiment, Effort::Full)[3], BASELINE);
    }
}

#[test]
fn table_2_is_what_is_simulated() {
    let system = system(Protocol::Timestamps, &BASELINE, Measure::default());
    // 20 devices of 1000 blocks, a fifth of them parity.
    assert_eq!(system.volume_bytes().unwrap(), 20 * 1000 * 4096 * 4 / 5);
    let classes = system.workload.requests.classes();
    let weight: f64 = classes.iter().map(|c| c.weight).sum();
    let reads: f64 = classes.iter().filter(|c| c.kind == Kind::Read).map(|c| c.weight).sum();
    assert!((reads / weight - 0.7).abs() < 1e-9);
    let sizes: BTreeSet<u64> = classes.iter().map(|c| c.bytes / BLOCK).collect();
    assert_eq!(sizes, BTreeSet::from([1, 2, 3, 4]));
    assert!(SETTINGS.iter().all(|s| s.experiment == "table-2"));
}

#[test]
fn locks_cost_the_devices_that_keep_them() {
    let latency = |protocol, lock_instructions| {
        let setup = Setup { lock_instructions, ..BASELINE };
        let measure = Measure { seconds: Some(4.0), replications: 1, ..Measure::default() };
        let system = system(protocol, &setup, measure);
        let outcome = Simulation::new(&system, 0).unwrap().run().unwrap();
        (outcome.all.latency.mean() / 1e6, outcome.work.locks)
    };
    for protocol in [Protocol::DeviceLocks, Protocol::Timestamps] {
        // 5 ms for each message, to see it from afar.
        let (free, dear) = (latency(protocol, 0), latency(protocol, 50_000));
        assert!(free.1 > 1000 && dear.0 > free.0 + 5.0, "{protocol:?}: {free:?} {dear:?}");
    }
    let (free, dear) =
        (latency(Protocol::ServerLocking, 0), latency(Protocol::ServerLocking, 50_000));
    assert_eq!((free.1, free), (0, dear), "its devices have none");
}

#[test]
fn open_arrivals_do_not_wait_for_answers() {
    let setups = setups("figure-10-open", Effort::Full);
    let last = setups.last().unwrap();
    assert_eq!((last.open_s, last.active_fraction), (Some(550.0), 0.02));
    let system = system(Protocol::DeviceLocks, last, measure(last, Effort::Full));
    assert_eq!(system.volume.lock_timeout_ms, 20.0);
    assert!(matches!(system.workload.arrivals, Arrivals::Open { .. }));
}
