//! Every operation goes once, in the order that was asked for, and flushes keep their place.

use proptest::prelude::*;

use super::*;

fn read(offset: u64) -> DiskOp {
    DiskOp::Read { offset, len: 4096 }
}

/// Gives all that waits, each of which ends before the next is given.
fn drain(line: &mut Line<u64>) -> Vec<u64> {
    std::iter::from_fn(|| {
        let given = line.give()?;
        line.ended();
        Some(given)
    })
    .collect()
}

fn order(policy: &str, offsets: &[u64]) -> Vec<u64> {
    let mut line = Line::new(DiskQueue::new(Some(policy), None).unwrap());
    offsets.iter().for_each(|o| line.push(&read(*o), *o));
    drain(&mut line)
}

#[test]
fn each_policy_has_its_order() {
    let offsets = [40_960, 8192, 81_920, 0, 45_056];
    assert_eq!(order("fcfs", &offsets), offsets);
    // From 0; the arm is then behind what was read.
    assert_eq!(order("sstf", &offsets), [0, 8192, 40_960, 45_056, 81_920]);
    assert_eq!(order("c-look", &offsets), [0, 8192, 40_960, 45_056, 81_920]);
    let mut line = Line::new(DiskQueue::new(Some("c-look"), None).unwrap());
    line.push(&read(40_960), 40_960);
    assert_eq!(line.give(), Some(40_960));
    // What begins where the last one ends lies ahead.
    for offset in [0, 90_112, 40_960, 45_056] {
        line.push(&read(offset), offset);
    }
    line.ended();
    assert_eq!(drain(&mut line), [45_056, 90_112, 0, 40_960]);
}

#[test]
fn a_device_is_given_as_much_as_it_may_have() {
    let mut line = Line::new(DiskQueue::new(Some("c-look"), Some(2)).unwrap());
    [12_288, 8192, 4096].iter().for_each(|o| line.push(&read(*o), *o));
    assert_eq!((line.give(), line.give(), line.give()), (Some(4096), Some(8192), None));
    assert_eq!(line.len(), 1);
    line.ended();
    assert_eq!((line.give(), line.give(), line.len()), (Some(12_288), None, 0));
}

#[test]
fn parked_operations_leave_their_places_to_others() {
    let mut line = Line::new(DiskQueue::new(Some("fcfs"), Some(2)).unwrap());
    [0, 4096, 8192].iter().for_each(|o| line.push(&read(*o), *o));
    assert_eq!((line.give(), line.give(), line.give()), (Some(0), Some(4096), None));
    line.park();
    line.park();
    assert_eq!(drain(&mut line), [8192]);
    assert!(!line.is_idle(), "two come back");
    line.push(&read(12_288), 12_288);
    line.put_back((0, 4096), 0);
    line.put_back((4096, 8192), 4096);
    assert_eq!(drain(&mut line), [12_288, 0, 4096]);
    assert!(line.is_idle());
}

#[test]
fn nothing_passes_a_flush() {
    let mut line = Line::new(DiskQueue::new(Some("c-look"), Some(256)).unwrap());
    const FLUSH: u64 = u64::MAX;
    for item in [20_480, 4096, FLUSH, FLUSH, 8192, 0, FLUSH, 24_576] {
        line.push(&if item == FLUSH { DiskOp::Flush } else { read(item) }, item);
    }
    assert_eq!(drain(&mut line), [4096, 20_480, FLUSH, FLUSH, 0, 8192, FLUSH, 24_576]);
    // With nothing before it, it goes at once.
    line.push(&DiskOp::Flush, FLUSH);
    assert_eq!(drain(&mut line), [FLUSH]);
}

#[test]
fn an_order_that_needs_more_than_addresses_is_refused_with_the_reason() {
    let refused = |policy, depth| DiskQueue::new(Some(policy), depth).unwrap_err().0;
    for policy in ["satf", "bnn"] {
        let why = refused(policy, None);
        assert!(why.contains("the platter") && why.contains("fcfs, sstf, c-look"), "{why}");
    }
    assert!(refused("look", None).contains("'look'"));
    assert!(refused("fcfs", Some(0)).contains("1 to 256"));
    assert!(refused("c-look", Some(257)).contains("1 to 256"));
}

#[test]
fn what_is_written_down_is_read_back() {
    assert_eq!(DiskQueue::default().words(), (None, None));
    let depths = [None, Some(1), Some(2), Some(256)];
    for (policy, depth) in POSSIBLE.iter().flat_map(|p| depths.map(|d| (p.name(), d))) {
        let queue = DiskQueue::new(Some(policy), depth).unwrap();
        let (order, depth) = queue.words();
        assert_eq!(DiskQueue::new(order.as_deref(), depth), Ok(queue));
    }
}

proptest! {
    /// Whatever comes and ends when, everything is given once, never more than the device may
    /// have, what stands on either side of a flush stays there, and C-LOOK goes upwards
    /// between one flush and the next, but for one way back if nothing comes meanwhile.
    #[test]
    fn everything_is_given_once(
        policy in 0usize..3,
        depth in 1u32..5,
        // An operation at an offset, a flush, or an end.
        steps in proptest::collection::vec((0u8..10, 0u64..64), 1..120),
    ) {
        let queue = DiskQueue::new(Some(POSSIBLE[policy].name()), Some(depth)).unwrap();
        let mut line = Line::new(queue);
        let (mut asked, mut given, mut out) = (Vec::new(), Vec::new(), 0);
        let mut flushes = 0;
        for (kind, sector) in steps {
            match kind {
                0 => {
                    asked.push((flushes, None));
                    line.push(&DiskOp::Flush, asked.len() - 1);
                    flushes += 1;
                }
                1..=6 => {
                    asked.push((flushes, Some(sector * 4096)));
                    line.push(&read(sector * 4096), asked.len() - 1);
                }
                _ if out > 0 => {
                    line.ended();
                    out -= 1;
                }
                _ => {}
            }
            if kind % 2 == 0 {
                while let Some(item) = line.give() {
                    given.push(item);
                    out += 1;
                    prop_assert!(out <= depth);
                }
            }
        }
        let from = given.len();
        loop {
            while out > 0 {
                line.ended();
                out -= 1;
            }
            let Some(item) = line.give() else { break };
            given.push(item);
            out += 1;
        }
        prop_assert_eq!(line.len(), 0);
        let mut once = given.clone();
        once.sort_unstable();
        prop_assert!(once.into_iter().eq(0..asked.len()));
        // (Flushes before it, whether it is the flush that ends that part.)
        let parts: Vec<(u32, bool)> =
            given.iter().map(|i| (asked[*i].0, asked[*i].1.is_none())).collect();
        prop_assert!(parts.is_sorted());
        if POSSIBLE[policy] == Policy::Fcfs {
            prop_assert!(given.is_sorted());
        }
        if POSSIBLE[policy] == Policy::CLook {
            for part in given[from..].chunk_by(|a, b| asked[*a].0 == asked[*b].0) {
                let offsets: Vec<u64> = part.iter().filter_map(|i| asked[*i].1).collect();
                let ways_back = offsets.windows(2).filter(|w| w[1] < w[0]).count();
                // Two of the same offset cost a way back: the second lies behind the first.
                let same = offsets.windows(2).any(|w| w[1] == w[0]);
                let twice = offsets.iter().any(|o| offsets.iter().filter(|p| *p == o).count() > 1);
                prop_assert!(ways_back <= 1 || twice, "{offsets:?}");
                prop_assert!(!same || twice);
            }
        }
    }
}
