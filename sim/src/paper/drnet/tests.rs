use super::super::cases_are_sound;
use super::*;
use crate::perf::Simulation;

#[test]
fn every_experiment_has_cases_and_every_case_can_be_simulated() {
    cases_are_sound(&EVALUATION);
}

#[test]
fn no_result_of_the_paper_is_known() {
    let cases = cases(Effort::Full, &[]);
    assert!(cases.iter().flat_map(|c| &c.metrics).all(|m| m.1.is_none()), "they are held out");
}

#[test]
fn table_1_is_what_is_simulated() {
    let of = |form| system(&setup(form, 100, 1.0), Measure::default());
    // "If the number of disks was 100, the number of interfaces, array controllers, and FPGs was 20, 2, and 20."
    for form in [Form::DrNet, Form::Hierarchy] {
        assert_eq!(of(form).workload.hosts, 20);
    }
    assert_eq!(of(Form::DrNet).nodes.controllers, Some(20));
    assert_eq!(of(Form::Hierarchy).nodes.controllers, Some(2));
    assert_eq!(
        (of(Form::DrNet).nodes.buffers, of(Form::Hierarchy).nodes.buffers),
        (Some(5), Some(250))
    );
}

#[test]
fn the_disks_that_fail_are_of_one_first_group() {
    let plus = |form| {
        let system = system(&setup(form, 50, 1.0), Measure::default());
        (0..5).map(|arm| system.disk_of(0, arm, 25)).collect::<Vec<u16>>()
    };
    for form in [Form::DrNet, Form::Hierarchy] {
        assert!(
            (0..2).all(|n| plus(form).contains(&failing(form, n))),
            "{form:?} {:?}",
            plus(form)
        );
    }
}

/// What the paper says in words of both, and of nothing held out: each disk adds throughput, and a write costs six accesses
/// where a read costs one.
#[test]
fn throughput_is_the_disks_and_a_write_costs_as_much_as_six_reads() {
    let run = |disks, reads| {
        let setup = setup(Form::DrNet, disks, reads);
        let system = system(&setup, measure(&setup, Effort::Quick));
        Simulation::new(&system, 0).unwrap().run().unwrap().requests_s
    };
    let (fifty, hundred) = (run(50, 1.0), run(100, 1.0));
    assert!((1.9..2.1).contains(&(hundred / fifty)), "{fifty} {hundred}");
    assert!((4.0..9.0).contains(&(fifty / run(50, 0.0))));
}

/// In the hierarchy the controller adds up rebuilt content, and on the torus the helpers do.
#[test]
fn who_leads_a_rebuild_adds_up() {
    let busy = |form| {
        let setup = Setup { failed: 1, ..setup(form, 50, 1.0) };
        let system = system(&setup, measure(&setup, Effort::Quick));
        // Only rebuilds: nobody asks for long.
        let system =
            System { workload: Workload { hosts: 1, ..system.workload.clone() }, ..system };
        let used = Simulation::new(&system, 0).unwrap().resources().unwrap();
        let of = |name: String| {
            let is_it = |u: &&crate::perf::Used| u.kind == "processor" && u.name == name;
            used.iter().find(is_it).map_or(0.0, |u| u.utilisation)
        };
        (of("0".into()), of("50".into()), (1..50).map(|n| of(n.to_string())).fold(0.0, f64::max))
    };
    let (filled, controller, others) = busy(Form::Hierarchy);
    assert!(filled == 0.0 && controller > 0.0 && others == 0.0, "{filled} {controller} {others}");
    let (filled, _, others) = busy(Form::DrNet);
    assert!(filled == 0.0 && others > 0.0, "{filled} {others}");
}
