//! The plays and the chain, which have nothing in common but the question, give the same answer.

use super::*;
use crate::equations::chance;
use crate::losses::Losses;
use crate::markov::{Rates, chain};
use crate::unit::group;

/// Missions of five years of disks that fail once in 500,000 hours.
fn play(unit: &Unit) -> Play<'_> {
    Play {
        unit,
        disk: Lifetime::exponential(5e5),
        boxes: 0.0,
        disk_repair: RepairTime::constant(48.0),
        box_repair: RepairTime::constant(96.0),
        fixed_repairs: false,
        at_once: 0,
        unreadable: 0.0,
        waiting: Waiting::default(),
        mission_h: 43_800.0,
    }
}

/// What the chain says of the same.
fn by_chain(play: &Play<'_>) -> f64 {
    let rates = Rates {
        disk: play.disk.rate(play.mission_h),
        boxes: play.boxes,
        disk_repair: play.disk_repair,
        box_repair: play.box_repair,
        at_once: play.at_once,
        unreadable: play.unreadable,
    };
    let losses = Losses::of(play.unit);
    chance(chain(&losses, play.unit, &rates, play.waiting).solve().mttdl_h, play.mission_h)
}

/// Of 40 intervals 95 % have the chain's answer: at least 34, or luck was bad once in a thousand times. And they are
/// narrow, or they would say nothing.
fn agree(what: &str, play: &Play<'_>) {
    agree_after(4000, what, play);
}

fn agree_after(trials: u32, what: &str, play: &Play<'_>) {
    let expected = by_chain(play);
    let estimates: Vec<Estimate> = (0..40).map(|seed| play.run(trials, seed, &mut || ())).collect();
    let having = estimates.iter().filter(|e| e.has(expected)).count();
    let mean = estimates.iter().map(|e| e.chance).sum::<f64>() / 40.0;
    let widest = estimates.iter().map(|e| e.ci95 / expected).fold(0.0, f64::max);
    assert!(having >= 34, "{what}: {having} of 40 have {expected}; their mean is {mean}");
    assert!(widest < 0.75, "{what}: an interval of {widest} times {expected}");
}

#[test]
fn plays_and_chain_agree_for_any_number_of_parities() {
    for m in 0..=3 {
        let layout = format!("rs:8+{m}");
        agree(&layout, &play(&group(&layout, 0)));
    }
}

#[test]
fn plays_and_chain_agree_for_other_codes() {
    for layout in ["lrc:4+2+1", "grid:2x2"] {
        agree_after(12_000, layout, &play(&group(layout, 0)));
    }
}

#[test]
fn plays_and_chain_agree_on_boxes() {
    let unit = group("rs:4+2", 3);
    agree("two columns in a box", &Play { boxes: 1e-6, ..play(&unit) });
    let unit = group("rs:4+2", 6);
    agree("one column in a box", &Play { boxes: 1e-6, ..play(&unit) });
}

#[test]
fn plays_and_chain_agree_on_what_cannot_be_read_and_what_waits() {
    let unit = group("rs:4+2", 0);
    agree("unreadable", &Play { unreadable: 1e-14, ..play(&unit) });
    for bears in 0..2 {
        let waiting = Waiting { unprotected: 0.1, bears, bytes: 1.0 };
        agree("parity waits", &Play { waiting, ..play(&unit) });
    }
}

#[test]
fn plays_and_chain_agree_on_extents_that_are_spread() {
    // Many extents: the chain knows them on the mean, and a play has them where they came to lie.
    let unit = Unit { disks: 12, extents: 100, boxes: 6, column_bytes: 1e11, ..group("rs:4+2", 0) };
    agree_after(1500, "spread", &Play { boxes: 1e-6, unreadable: 1e-14, ..play(&unit) });
}

#[test]
fn plays_and_chain_agree_on_one_rebuild_at_a_time() {
    let unit = group("rs:4+2", 0);
    agree("one at a time", &Play { at_once: 1, ..play(&unit) });
}

#[test]
fn plays_and_chain_agree_on_rebuilds_that_share() {
    let unit = group("rs:4+2", 0);
    let disk_repair = RepairTime { before_h: 0.0, alone_h: 0.0, shared_h: 48.0 };
    agree("shared", &Play { disk_repair, ..play(&unit) });
    let unit = group("rs:4+2", 6);
    let both = Play { boxes: 1e-6, disk_repair, box_repair: disk_repair, ..play(&unit) };
    agree("shared, with boxes", &both);
}

/// As long as repairs are short, their mean alone matters (markov.rs).
#[test]
fn repairs_that_always_take_as_long_change_nothing() {
    let unit = group("rs:8+2", 0);
    agree("fixed repairs", &Play { fixed_repairs: true, ..play(&unit) });
}

/// Disks that wear out fail together late in the mission: a constant rate with as many failures says too little.
#[test]
fn what_wears_out_is_lost_more_often_than_the_chain_says() {
    let unit = group("rs:8+2", 0);
    let worn = Play { disk: Lifetime { shape: 3.0, scale_h: 80_000.0 }, ..play(&unit) };
    let estimate = worn.run(20_000, 1, &mut || ());
    let expected = by_chain(&worn);
    assert!(estimate.chance - estimate.ci95 > 1.5 * expected, "{estimate:?}, {expected}");
}

#[test]
fn the_same_seed_plays_the_same() {
    let unit = group("rs:4+1", 0);
    let play = play(&unit);
    assert_eq!(play.run(100, 7, &mut || ()), play.run(100, 7, &mut || ()));
    assert_ne!(play.run(100, 7, &mut || ()), play.run(100, 8, &mut || ()));
}
