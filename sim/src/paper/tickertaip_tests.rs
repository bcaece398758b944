use std::collections::BTreeSet;

use super::*;

#[test]
fn every_experiment_has_cases_and_every_case_can_be_simulated() {
    for effort in [Effort::Full, Effort::Quick] {
        let cases = cases(effort, &[]);
        let named: BTreeSet<&str> = cases.iter().map(|c| c.experiment).collect();
        assert_eq!(named, EXPERIMENTS.into_iter().collect());
        for case in &cases {
            case.system.check().unwrap_or_else(|p| panic!("{:?}: {p}", case.point));
        }
    }
}

#[test]
fn no_two_cases_have_the_same_place() {
    let cases = cases(Effort::Full, &[]);
    let places: Vec<String> = cases
        .iter()
        .flat_map(|c| {
            c.metrics.iter().map(move |m| format!("{} {:?} {:?}", c.experiment, c.point, m.0))
        })
        .collect();
    assert_eq!(places.iter().collect::<BTreeSet<_>>().len(), places.len());
}

#[test]
fn only_what_is_asked_for_is_simulated() {
    let only = ["table-7".to_string()];
    let cases = cases(Effort::Quick, &only);
    assert_eq!(cases.len(), 16);
    assert!(cases.iter().all(|c| c.metrics[0].1.is_some()), "the paper has all of Table VII");
}
