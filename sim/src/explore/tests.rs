use super::*;
use weft_core::store::StoreBug;

fn setup(name: &str) -> Setup {
    Setup::named(name).expect("a known setup")
}

/// Goes through everything within the bounds, and finds nothing wrong.
fn passes(name: &str, bounds: Bounds) -> Report {
    let report = explore(&setup(name), &bounds);
    if let Some(failure) = &report.failure {
        panic!("{name}, {bounds:?}\n{}\n{}", failure.story.join("\n"), failure.reason);
    }
    assert!(report.complete && report.ends > 0, "{name}: {report:?}");
    let Report { states, steps, ends, longest, .. } = report;
    println!("{name}: {states} states, {steps} steps, {ends} ends, longest {longest}; {bounds:?}");
    report
}

/// Finds a deliberate bug; the story is printed.
fn finds(name: &str, bounds: Bounds) -> Failure {
    let failure = simplest(&setup(name), &bounds).unwrap_or_else(|| {
        panic!("{name}: {:?} is not found", bounds.bug);
    });
    println!("{:?} in '{name}':\n{}\n{}", bounds.bug, failure.story.join("\n"), failure.reason);
    failure
}

/// One write, and any one node dies at any instant. TickerTAIP's Table IV with late commit: the
/// write happens if all that are left have prepared it, and else it does not; each of the two
/// happens, whoever dies.
#[test]
fn one_write_and_the_death_of_any_node() {
    let roles = [
        ("mirror", vec![Role::Originator, Role::Data, Role::Parity]),
        ("pair", vec![Role::Both, Role::Parity]),
        ("small", vec![Role::Originator, Role::Data, Role::Parity]),
        ("full", vec![Role::Both, Role::Data, Role::Parity]),
    ];
    for (name, roles) in roles {
        let report = passes(name, Bounds::default());
        assert!(report.cases.keys().all(|c| c.all_prepared == c.happened), "{name}: {report:?}");
        for died in roles {
            for happened in [false, true] {
                let case = Case { died, all_prepared: happened, happened };
                assert!(report.cases.contains_key(&case), "{name}: {case:?} never occurs");
            }
        }
    }
}

#[test]
fn one_write_and_the_loss_of_all_power() {
    for name in ["mirror", "pair", "small"] {
        passes(name, Bounds { crashes: 0, power_cuts: 1, ..Bounds::default() });
    }
}

/// A participant refuses a write and dies, and of those that have prepared it one has not heard: it
/// must not commit an attempt that the originator has given up for the next.
#[test]
fn an_attempt_that_was_given_up_never_happens() {
    for name in ["refused", "ahead"] {
        passes(name, Bounds { delays: Some(1), ..Bounds::default() });
    }
}

/// Parity waits. What those left cannot tell is not taken to have happened while its originator is there to ask.
#[test]
fn one_write_whose_parity_waits_and_the_death_of_any_node() {
    let roles = [
        ("waits", 2, vec![Role::Data, Role::Both]),
        ("waits-own", 2, vec![Role::Both, Role::Parity]),
        ("waits-far", 2, vec![Role::Originator, Role::Data, Role::Parity]),
        ("waits-one", 1, vec![Role::Both]),
    ];
    for (name, delays, roles) in roles {
        let report = passes(name, Bounds { delays: Some(delays), ..Bounds::default() });
        for died in roles {
            for happened in [false, true] {
                let case = Case { died, all_prepared: happened, happened };
                assert!(report.cases.contains_key(&case), "{name}: {case:?} never occurs");
            }
        }
        // All who are left have prepared it, and yet it is given up: nothing else determines what the dead disk has.
        let given_up = |c: &Case| c.all_prepared && !c.happened;
        let never_without = |c: &Case| c.all_prepared || !c.happened;
        assert!(report.cases.keys().all(never_without), "{name}: {report:?}");
        let by_data = report.cases.keys().filter(|c| given_up(c)).all(|c| c.died == Role::Data);
        assert!(by_data, "{name}: {report:?}");
        let expected = matches!(name, "waits" | "waits-far");
        assert_eq!(report.cases.keys().any(given_up), expected, "{name}: {report:?}");
    }
}

/// The controller dies at any instant, or who has a copy: the next asks first what became of the write, and it happens once.
#[test]
fn one_write_with_a_controller_and_the_death_of_any_node() {
    let roles = [
        ("takeover", vec![Role::Originator, Role::Data, Role::Parity]),
        ("takeover-parity", vec![Role::Originator, Role::Data, Role::Parity]),
    ];
    for (name, roles) in roles {
        let report = passes(name, Bounds { delays: Some(2), ..Bounds::default() });
        assert!(report.cases.keys().all(|c| c.all_prepared == c.happened), "{name}: {report:?}");
        for died in roles {
            for happened in [false, true] {
                let case = Case { died, all_prepared: happened, happened };
                assert!(report.cases.contains_key(&case), "{name}: {case:?} never occurs");
            }
        }
    }
}

#[test]
fn two_hosts_with_a_controller_and_the_death_of_any_node() {
    passes("takeover-again", Bounds { delays: Some(1), ..Bounds::default() });
}

#[test]
fn a_new_controller_that_does_not_ask_is_found() {
    let bounds = Bounds { bug: Some(Bug::RepeatsBlindly), delays: Some(2), ..Bounds::default() };
    let failure = finds("takeover-again", bounds);
    assert!(failure.story.iter().any(|line| line.contains("node 0 DIES")), "{failure:?}");
}

#[test]
fn one_write_with_a_controller_and_the_loss_of_all_power() {
    passes("takeover", Bounds { crashes: 0, power_cuts: 1, delays: Some(1), ..Bounds::default() });
}

#[test]
fn one_write_whose_parity_waits_and_the_loss_of_all_power() {
    for name in ["waits", "waits-own"] {
        passes(name, Bounds { crashes: 0, power_cuts: 1, delays: Some(1), ..Bounds::default() });
    }
}

#[test]
fn a_write_of_which_only_a_mark_is_left_is_found() {
    let bounds = Bounds { bug: Some(Bug::CommitsMarks), delays: Some(0), ..Bounds::default() };
    let failure = finds("waits-far", bounds);
    assert!(failure.reason.contains("determine some of its data"), "{}", failure.reason);
    // Hosts would see it too.
    finds("waits-far", Bounds { rule: false, ..bounds });
}

#[test]
fn the_same_bounds_give_the_same_report() {
    let report = |_| format!("{:?}", explore(&setup("pair"), &Bounds::default()));
    assert_eq!(report(1), report(2));
}

#[test]
fn guessing_that_a_write_happened_is_found() {
    let bounds = Bounds { bug: Some(Bug::GuessedCommit), ..Bounds::default() };
    let failure = finds("small", bounds);
    assert!(failure.reason.contains("has not prepared"), "{}", failure.reason);
    // Hosts would see it too.
    finds("small", Bounds { rule: false, ..bounds });
}

#[test]
fn acting_on_messages_of_an_epoch_that_is_over_is_found() {
    let bug = Some(Bug::NoFencing);
    finds("late", Bounds { delays: Some(0), bug, ..Bounds::default() });
    passes("late", Bounds { delays: Some(0), ..Bounds::default() });
}

#[test]
fn an_answer_before_the_last_vote_is_found() {
    finds("mirror", Bounds { bug: Some(Bug::AnswerBeforeLastVote), ..Bounds::default() });
}

#[test]
fn a_missing_flush_is_found() {
    let bug = Some(Bug::Store(StoreBug::MissingFlush));
    finds("mirror", Bounds { crashes: 0, power_cuts: 1, bug, ..Bounds::default() });
}

#[test]
fn a_stale_read_is_found() {
    let bug = Some(Bug::StaleRead);
    finds("read", Bounds { crashes: 0, bug, ..Bounds::default() });
}

#[test]
fn a_sector_missed_in_catching_up_is_found() {
    finds("mirror", Bounds { bug: Some(Bug::MissedSector), ..Bounds::default() });
}
