//! Content of whole slots that goes bad before its write is decided.

use super::*;

/// A whole slot of content is prepared.
fn with_a_prepared_slot() -> (One, Timestamp) {
    let mut one = One::new();
    one.store.begin_life(1);
    let (ts, _) = one.prepare_slot(1, 6);
    (one, ts)
}

/// Nothing that the disk writes before others have compared what they remember may hide that.
#[test]
fn content_that_rots_before_it_is_decided_is_missed_until_an_epoch_is_entered() {
    let (mut one, _) = with_a_prepared_slot();
    let promised = one.store.reached().frame;
    one.content_rots();
    for life in [None, None, Some(2)] {
        one.opened_again();
        assert_eq!(one.undecided(), []);
        assert!(one.store.found().frame < promised, "others find that something is lost");
        life.into_iter().for_each(|life| one.store.begin_life(life));
        one.store.flush_outcomes();
        one.place();
    }
    one.opened_again();
    assert!(one.store.found().frame > promised, "they have been told");
}

/// Whichever operations had ended when the node entered another epoch.
#[test]
fn content_that_rots_is_missed_also_if_another_epoch_was_entered_meanwhile() {
    let mut missed = 0;
    for steps in 0..6 {
        let mut one = One::new();
        one.store.begin_life(1);
        one.write(3, ChangeKind::Content, 1);
        let ts = one.begin_slot(1, 6).0;
        // The journal is ahead of the content.
        let _ = (0..steps).all(|_| one.ends(|count| count - 1));
        one.store.begin_life(2);
        one.prepare(4, ChangeKind::Content, 2, true);
        let mut promised = None;
        while one.step() {
            let is_said =
                one.said.iter().any(|e| matches!(e, Event::Prepared(said) if *said == ts));
            promised = promised.or_else(|| is_said.then(|| one.store.reached()));
        }
        let promised = promised.expect("it is prepared");
        one.content_rots();
        for opened in 1..=2 {
            one.opened_again();
            if !one.undecided().contains(&ts) {
                missed += 1;
                let found = one.store.found();
                let when = format!("{promised:?}, {found:?}, {steps} steps, opened {opened} times");
                assert!(promised.shows_loss(found, 0), "{when}");
            }
        }
    }
    assert!(missed > 0);
}

#[test]
fn content_of_which_a_later_frame_says_that_it_was_safe_is_lost_when_it_rots_and_not_forgotten() {
    let (mut one, ts) = with_a_prepared_slot();
    one.write(3, ChangeKind::Content, 1);
    let promised = one.store.reached().frame;
    one.content_rots();
    one.opened_again();
    assert_eq!((one.undecided(), one.store.found().frame), (vec![ts], promised));
    one.store.outcome(ts, true);
    let first = one.divided.slot();
    assert_eq!(one.read(first), None, "it is rebuilt from the others");
    one.place();
    assert_eq!(one.read(first), None);
}
