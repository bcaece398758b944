use std::collections::BTreeSet;

use super::super::cases_are_sound;
use super::*;

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
