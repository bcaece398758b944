use super::super::cases_are_sound;
use super::*;
use crate::perf::Simulation;

#[test]
fn every_experiment_has_cases_and_every_case_can_be_simulated() {
    cases_are_sound(&EVALUATION);
}

#[test]
fn of_the_papers_results_only_the_fitted_row_is_known() {
    let cases = cases(Effort::Full, &[]);
    let known = cases.iter().filter(|c| c.metrics.iter().any(|m| m.1.is_some()));
    for case in known {
        assert_eq!((case.experiment, case.system.volume.unit), ("table-1", 4 * KB));
    }
}

/// Two hosts ask 64 KB reads of 32 KB blocks, so many at a time.
fn bound(form: Form, hosts: u32) -> (f64, f64) {
    let setup = Setup { hosts, ..setup(form, true, 32 * KB, 64 * KB) };
    let run = Simulation::new(&system(&setup, &COSTS, measure(&setup, Effort::Quick)), 0);
    let outcome = run.unwrap().run().unwrap();
    (of_machines(Metric::ControllerMbS, &outcome), outcome.throughput_mb_s)
}

/// What a controller carries is read off a light load; a heavy one has it.
#[test]
fn what_is_read_off_a_light_load_is_what_a_heavy_one_gets() {
    for form in Form::BOTH {
        let (light, heavy) = (bound(form, 1).0, bound(form, 24));
        assert!((0.95..1.05).contains(&(light / heavy.0)), "{form:?} {light} {heavy:?}");
        assert!(heavy.1 > 0.9 * heavy.0, "{form:?} {heavy:?}");
    }
}
