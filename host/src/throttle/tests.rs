//! Requests that wait, and processes that divide limits, in a time of the tests' own.

use super::*;

const MILLI: Nanos = 1_000_000;
const SECOND: Nanos = 1000 * MILLI;
const VOLUME: VolumeId = VolumeId(7);

fn limits(iops: u64) -> VolumeLimits {
    VolumeLimits { iops, ..VolumeLimits::default() }
}

fn cost(bytes: u64) -> Cost {
    Cost { requests: 1, bytes }
}

/// What begins at this time of what waits.
fn begun(throttle: &mut Throttle<u32>, now: Nanos, limits: VolumeLimits) -> Vec<u32> {
    std::iter::from_fn(|| throttle.next(now, |_| limits)).collect()
}

#[test]
fn what_exceeds_a_limit_waits_in_order_and_nothing_is_lost() {
    let (mut throttle, ten) = (Throttle::default(), limits(10));
    let admit = |throttle: &mut Throttle<u32>, now, cost, n| {
        throttle.admit(now, (VOLUME, ten), cost, n).is_some()
    };
    assert!(admit(&mut throttle, SECOND, cost(0), 1));
    assert!(!admit(&mut throttle, SECOND, cost(0), 2));
    assert!(!admit(&mut throttle, SECOND, Cost::default(), 3), "a flush waits for its turn");
    assert!(!admit(&mut throttle, SECOND, cost(0), 4));
    assert_eq!((throttle.due(), throttle.waiting()), (Some(1100 * MILLI), 3));
    assert!(begun(&mut throttle, 1099 * MILLI, ten).is_empty());
    assert_eq!(begun(&mut throttle, 1100 * MILLI, ten), [2]);
    assert_eq!(begun(&mut throttle, 1200 * MILLI, ten), [3, 4], "a flush costs nothing");
    assert_eq!((throttle.due(), throttle.waiting_for(VOLUME)), (None, 0));
    assert!(admit(&mut throttle, 1200 * MILLI, Cost::default(), 5), "nor does it wait for limits");
}

#[test]
fn each_limit_counts_its_own() {
    let both = VolumeLimits { iops: 10, bandwidth: 1 << 20, burst: 0 };
    let mut throttle = Throttle::default();
    for n in 0..6 {
        throttle.admit(0, (VOLUME, both), cost(if n == 0 { 1 << 20 } else { 4096 }), n);
    }
    // A long request is one, and its bytes take a second.
    assert!(begun(&mut throttle, 999 * MILLI, both).is_empty());
    assert_eq!(begun(&mut throttle, SECOND, both), [1]);
    // A tenth of a second of requests is saved by then.
    assert_eq!(begun(&mut throttle, 1100 * MILLI, both), [2, 3]);
    let told = throttle.tell(1100 * MILLI, |_| both)[&VOLUME.0];
    // What waited, waited for bytes first and for requests later.
    assert_eq!((told.bandwidth.waiting, told.iops.waiting), (5 * 4096, 2));
    assert_eq!(told.iops.used, 3);
}

#[test]
fn limits_change_and_go_while_requests_wait() {
    let mut throttle = Throttle::default();
    for n in 0..5 {
        throttle.admit(0, (VOLUME, limits(1)), cost(0), n);
    }
    assert!(begun(&mut throttle, 500 * MILLI, limits(1)).is_empty());
    // Half a request is owed, whatever the limit.
    assert!(begun(&mut throttle, 500 * MILLI, limits(10)).is_empty());
    assert_eq!(begun(&mut throttle, 550 * MILLI, limits(10)), [1]);
    let none = VolumeLimits::default();
    assert_eq!(begun(&mut throttle, 551 * MILLI, none), [2, 3, 4]);
    assert!(throttle.admit(552 * MILLI, (VOLUME, none), cost(0), 5).is_some());
    assert!(throttle.tell(600 * MILLI, |_| none).is_empty() && throttle.volumes.is_empty());
    assert!(throttle.admit(SECOND, (VOLUME, none), cost(0), 6).is_some());
    assert!(throttle.volumes.is_empty(), "nothing is kept of volumes without limits");
}

#[test]
fn those_that_are_gone_are_taken_out() {
    let mut throttle = Throttle::default();
    for n in 0..6 {
        throttle.admit(0, (VOLUME, limits(1)), cost(0), n);
    }
    assert_eq!(throttle.extract(|n| n % 2 == 1), [1, 3, 5]);
    assert_eq!(begun(&mut throttle, SECOND, limits(1)), [2]);
    assert_eq!((throttle.take_all(), throttle.waiting()), (vec![4], 0));
}

/// A process with hosts that have so many requests in work, and ask again at once when one is answered.
struct Process {
    throttle: Throttle<()>,
    depth: usize,
    /// Of those how many a second at most, by what else the hosts do.
    pace: u64,
    in_work: Vec<Nanos>,
    began: u64,
    /// What it told, and when.
    told: Vec<(Nanos, AllDemands)>,
}

/// How long a request takes once it has begun.
const TAKES: Nanos = 5 * MILLI;
/// How long what is told is on its way.
const DELAY: Nanos = 30 * MILLI;

fn processes(depths: &[usize]) -> Vec<Process> {
    let process = |depth: &usize| Process {
        throttle: Throttle::default(),
        depth: *depth,
        pace: u64::MAX,
        in_work: Vec::new(),
        began: 0,
        told: Vec::new(),
    };
    depths.iter().map(process).collect()
}

/// Runs processes for a time under a limit, and says how many requests each began.
fn run(all: &mut [Process], limits: VolumeLimits, from: Nanos, until: Nanos) -> Vec<u64> {
    let before: Vec<u64> = all.iter().map(|p| p.began).collect();
    for now in (from..until).step_by(MILLI as usize) {
        for n in 0..all.len() {
            let heard = |p: &Process| {
                let last = p.told.iter().rev().find(|(at, _)| at + DELAY <= now);
                last.filter(|(at, _)| at + 3 * SECOND > now).map(|(_, said)| said.clone())
            };
            let others: Vec<Option<AllDemands>> =
                (0..all.len()).filter(|o| *o != n).map(|o| heard(&all[o])).collect();
            let process = &mut all[n];
            // Each at times of its own.
            let tells = (now / MILLI + 37 * n as u64).is_multiple_of(500);
            if tells {
                let told = process.throttle.tell(now, |_| limits);
                process.told.push((now, told));
            }
            process.throttle.divide(now, [(VOLUME, limits)].into_iter(), &others);
            process.in_work.retain(|end| *end > now);
            while process.throttle.next(now, |_| limits).is_some() {
                process.began += 1;
                process.in_work.push(now + TAKES);
            }
            let waits = process.throttle.waiting();
            let due = (now - from) / MILLI * process.pace.min(1_000_000) / 1000;
            for _ in (process.in_work.len() + waits)..process.depth {
                if process.began - before[n] + process.throttle.waiting() as u64 >= due.max(1) {
                    break;
                }
                if process.throttle.admit(now, (VOLUME, limits), cost(0), ()).is_some() {
                    process.began += 1;
                    process.in_work.push(now + TAKES);
                }
            }
        }
    }
    all.iter().zip(before).map(|(p, before)| p.began - before).collect()
}

fn within(value: u64, expected: u64, percent: u64) -> bool {
    value.abs_diff(expected) * 100 <= expected * percent
}

#[test]
fn one_process_of_several_can_use_the_whole_limit() {
    let mut all = processes(&[32, 0, 0, 0, 0]);
    run(&mut all, limits(1000), 0, 3 * SECOND);
    let began = run(&mut all, limits(1000), 3 * SECOND, 13 * SECOND);
    assert!(began[0] <= 10_000 && within(began[0], 10_000, 2), "{began:?}");
}

#[test]
fn several_processes_keep_to_the_limit_and_divide_it_by_what_waits() {
    let mut all = processes(&[64, 32, 0]);
    let began = run(&mut all, limits(1000), 0, 3 * SECOND);
    assert!(began.iter().sum::<u64>() <= 3000 + 100, "from the beginning on: {began:?}");
    let began = run(&mut all, limits(1000), 3 * SECOND, 23 * SECOND);
    let sum = began.iter().sum::<u64>();
    assert!(sum <= 20_000 + 100 && within(sum, 20_000, 3), "{began:?}");
    assert!(within(began[0], 2 * began[1], 15), "{began:?}");
}

#[test]
fn a_newcomer_gets_its_part_soon_and_what_one_leaves_others_get() {
    let mut all = processes(&[32, 0]);
    run(&mut all, limits(500), 0, 5 * SECOND);
    all[1].depth = 32;
    let began = run(&mut all, limits(500), 5 * SECOND, 8 * SECOND);
    assert!(began.iter().sum::<u64>() <= 1500 + 100, "{began:?}");
    assert!(began[1] > 300, "{began:?}");
    all[0].depth = 0;
    run(&mut all, limits(500), 8 * SECOND, 10 * SECOND);
    let began = run(&mut all, limits(500), 10 * SECOND, 15 * SECOND);
    assert!(began[0] == 0 && within(began[1], 2500, 3), "{began:?}");
}

#[test]
fn one_that_asks_for_little_gets_it_and_the_rest_is_used() {
    let mut all = processes(&[32, 32]);
    all[0].pace = 200;
    run(&mut all, limits(1000), 0, 5 * SECOND);
    let began = run(&mut all, limits(1000), 5 * SECOND, 25 * SECOND);
    assert!(within(began[0], 4000, 5), "{began:?}");
    assert!(began[1] > 14_000 && began.iter().sum::<u64>() <= 20_100, "{began:?}");
}

#[test]
fn processes_that_do_not_hear_one_another_keep_to_equal_parts() {
    let mut throttle = Throttle::default();
    let (volume, unheard) = ([(VOLUME, limits(1000))], [None, None, None]);
    let mut began = 0;
    for now in (0..10 * SECOND).step_by(MILLI as usize) {
        if now.is_multiple_of(500 * MILLI) {
            throttle.tell(now, |_| limits(1000));
            throttle.divide(now, volume.into_iter(), &unheard);
        }
        began += begun(&mut throttle, now, limits(1000)).len();
        while throttle.waiting() < 8 {
            began += usize::from(throttle.admit(now, (VOLUME, limits(1000)), cost(0), 0).is_some());
        }
    }
    assert!((2400..=2600).contains(&began), "{began}");
}

#[test]
fn savings_are_for_all_processes_together() {
    let saving = VolumeLimits { burst: 4 * SECOND, ..limits(100) };
    let mut all = processes(&[0, 0]);
    run(&mut all, saving, 0, 20 * SECOND);
    all.iter_mut().for_each(|p| p.depth = 64);
    let began = run(&mut all, saving, 20 * SECOND, 30 * SECOND);
    // What ten seconds bring, and four that were saved.
    assert!((1300..=1410).contains(&began.iter().sum::<u64>()), "{began:?}");
}
