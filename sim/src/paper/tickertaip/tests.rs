use super::super::cases_are_sound;
use super::*;

#[test]
fn every_experiment_has_cases_and_every_case_can_be_simulated() {
    cases_are_sound(&EVALUATION);
}

#[test]
fn only_what_is_asked_for_is_simulated() {
    let only = ["table-7".to_string()];
    let cases = cases(Effort::Quick, &only);
    assert_eq!(cases.len(), 16);
    assert!(cases.iter().all(|c| c.metrics[0].1.is_some()), "the paper has all of Table VII");
}

#[test]
fn sizes_and_addresses_are_whole_sectors() {
    for effort in [Effort::Full, Effort::Quick] {
        for case in cases(effort, &[]) {
            let workload = &case.system.workload;
            let is_whole = |bytes: u64| bytes.is_multiple_of(weft_core::SECTOR);
            let classes = workload.requests.classes();
            assert!(classes.iter().all(|c| is_whole(c.bytes)), "{:?}", case.point);
            assert!(is_whole(workload.alignment()), "{:?}", case.point);
        }
    }
}
