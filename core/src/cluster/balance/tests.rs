use proptest::prelude::*;

use super::*;
use crate::cluster::{Home, NodeInfo, Place, place_volume};
use crate::layout::{Geometry, LayoutSpec};

/// Nodes with disks of these sizes in sectors, each in a box.
fn nodes(disks: &[(u64, u8)]) -> Vec<NodeInfo> {
    let node = |(sectors, r#box): &(u64, u8)| {
        let labels = [("box".to_string(), format!("b{box}"))].into();
        let home = Some(Arc::new(Home { labels, ..Home::default() }));
        NodeInfo { home, ..NodeInfo::new(1, *sectors) }
    };
    disks.iter().map(node).collect()
}

/// Adds a volume of so many stripes on the disks of the map as it is, if it fits.
fn add(map: &mut ClusterMap, layout: &str, stripes: u64, column_bytes: u64) -> bool {
    let spec: LayoutSpec = layout.parse().unwrap();
    let places: Vec<Place> = map.places("box");
    let width = spec.over(spec.least_nodes()).unwrap();
    let geometry = Geometry::new(width, SECTOR);
    let size = stripes * geometry.stripe_bytes();
    let others: Vec<&Volume> = map.volumes.values().map(|v| &**v).collect();
    let placed = place_volume(&geometry, size, &places, &others, column_bytes);
    let Ok(extents) = placed else { return false };
    let id = VolumeId(map.next_volume);
    map.next_volume += 1;
    map.volumes.insert(id, Arc::new(Volume::new(id, "v", size, &spec, geometry, extents)));
    true
}

/// Makes a move as if it were done at once.
fn make(map: &mut ClusterMap, step: &Move) {
    let place = Ledger::new(map).room(step).expect("there is room");
    let volume = Arc::make_mut(map.volumes.get_mut(&step.volume).unwrap());
    let extent = &mut volume.extents[step.extent];
    assert_eq!(extent.columns[step.column].0, step.from);
    extent.columns[step.column] = (step.to, place);
}

fn fullness(map: &ClusterMap) -> Vec<Fullness> {
    plan(map, 0).before
}

/// The sum of used squared by size, in parts of a sector.
fn unevenness(map: &ClusterMap) -> u128 {
    let of = |f: &Fullness| {
        let used = u128::from(f.used / SECTOR);
        ((used * used) << 40) / u128::from(f.size / SECTOR)
    };
    fullness(map).iter().map(of).sum()
}

/// Extents with two columns in one failure domain.
fn crowded(map: &ClusterMap) -> usize {
    let domains = map.domains("box");
    let extents = map.volumes.values().flat_map(|v| &v.extents);
    let crowded = |e: &&crate::cluster::Extent| {
        let held: BTreeSet<usize> = e.columns.iter().map(|c| domains[usize::from(c.0.0)]).collect();
        held.len() < e.columns.len()
    };
    extents.filter(crowded).count()
}

#[test]
fn a_new_disk_gets_its_share_and_nothing_else_moves() {
    let mut map =
        ClusterMap { nodes: nodes(&[(1000, 0), (1000, 1), (1000, 2)]), ..Default::default() };
    assert!(add(&mut map, "rs:2+1", 600, 10 * SECTOR));
    assert!(plan(&map, usize::MAX).moves.is_empty(), "it is even");
    assert!(map.used().iter().all(|used| *used > 0));
    assert!(fullness(&map).iter().all(|f| map.used()[usize::from(f.node.0)] == f.used));
    map.nodes = nodes(&[(1000, 0), (1000, 1), (1000, 2), (500, 3)]);
    let plan = plan(&map, usize::MAX);
    assert!(plan.moves.iter().all(|m| m.to == NodeId(3)));
    let after: Vec<u64> = plan.after.iter().map(|f| f.used / SECTOR).collect();
    // 1,800 sectors on 3,500: 514 on each thousand.
    assert!(
        after[..3].iter().all(|n| n.abs_diff(514) <= 10) && after[3].abs_diff(257) <= 10,
        "{after:?}"
    );
    let spread: BTreeSet<usize> = plan.moves.iter().map(|m| m.extent / 20).collect();
    assert_eq!(spread.len(), 3, "moves come from everywhere in the volume");
}

/// Three boxes of two disks each and a column in each box: what a box gets, only its own disks can
/// give.
#[test]
fn boxes_that_each_have_a_column_move_within_themselves() {
    let mut map =
        ClusterMap { nodes: nodes(&[(500, 0), (500, 1), (500, 2)]), ..Default::default() };
    assert!(add(&mut map, "rs:2+1", 400, 10 * SECTOR));
    map.nodes.extend(nodes(&[(500, 0), (500, 0)]));
    let plan = plan(&map, usize::MAX);
    assert!(plan.moves.iter().all(|m| m.from == NodeId(0) && m.to.0 >= 3), "{:?}", plan.moves);
    let after: Vec<u64> = plan.after.iter().map(|f| f.used / SECTOR).collect();
    assert_eq!(after[1..3], [400, 400]);
    assert!([0, 3, 4].iter().all(|n| after[*n].abs_diff(133) <= 10), "{after:?}");
}

#[test]
fn volumes_stay_spread() {
    let mut map =
        ClusterMap { nodes: nodes(&[(1000, 0), (1000, 1), (1000, 2)]), ..Default::default() };
    assert!(add(&mut map, "rs:1+1", 300, 10 * SECTOR) && add(&mut map, "rs:1+1", 300, 10 * SECTOR));
    map.nodes = nodes(&[(1000, 0), (1000, 1), (1000, 2), (1000, 3)]);
    let moves = plan(&map, usize::MAX).moves;
    let of = |v: u32| moves.iter().filter(|m| m.volume == VolumeId(v)).count();
    assert!(of(0) > 0 && of(0).abs_diff(of(1)) <= 2, "{} and {}", of(0), of(1));
}

#[test]
fn disks_that_go_or_are_not_there_take_no_part() {
    let fresh = || {
        let mut map = ClusterMap { nodes: nodes(&[(1000, 0), (1000, 1)]), ..Default::default() };
        assert!(add(&mut map, "rs:1+1", 500, 10 * SECTOR));
        map.nodes = nodes(&[(1000, 0), (1000, 1), (1000, 2)]);
        map
    };
    assert!(!plan(&fresh(), 1).moves.is_empty());
    for spoil in [
        |i: &mut NodeInfo| i.draining = true,
        |i: &mut NodeInfo| i.up = false,
        |i: &mut NodeInfo| i.removed = true,
        |i: &mut NodeInfo| i.given_up = true,
        |i: &mut NodeInfo| i.sectors = 0,
    ] {
        let mut map = fresh();
        spoil(&mut map.nodes[2]);
        assert!(plan(&map, usize::MAX).moves.is_empty());
    }
    // What a lost node held stays where it is, and what it helps to hold as well.
    let mut map = fresh();
    map.nodes[0].up = false;
    assert!(plan(&map, usize::MAX).moves.is_empty());
}

fn layouts() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("rs:1+1"), Just("rs:2+1"), Just("rs:2+2"), Just("rs:3+1"), Just("rs:1+2")]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever the disks, the boxes and the volumes: the plan ends; every move makes the disks more
    /// equal; nothing moves twice, to where there is no room, or into a domain that is taken; and
    /// when it is planned anew, as the authority does, there is soon nothing left to move.
    #[test]
    fn plans_are_sound_and_come_to_an_end(
        first in proptest::collection::vec((40u64..800, 0u8..6), 2..8),
        later in proptest::collection::vec((0u64..800, 0u8..8), 0..4),
        volumes in proptest::collection::vec((layouts(), 1u64..200, 1u64..30), 1..5),
    ) {
        let mut map = ClusterMap { nodes: nodes(&first), ..Default::default() };
        for (layout, stripes, column) in volumes {
            add(&mut map, layout, stripes, column * SECTOR);
        }
        map.nodes.extend(nodes(&later));
        map.assert_sound();
        prop_assert_eq!(crowded(&map), 0);
        let plan = plan(&map, usize::MAX);
        let mut moved = BTreeSet::new();
        let mut uneven = unevenness(&map);
        for step in &plan.moves {
            prop_assert!(moved.insert((step.volume, step.extent, step.column)), "moved twice");
            make(&mut map, step);
            map.assert_sound();
            let now = unevenness(&map);
            prop_assert!(now <= uneven, "{:?}", step);
            uneven = now;
        }
        prop_assert_eq!(crowded(&map), 0);
        prop_assert_eq!(fullness(&map), plan.after);
        let mut rounds = 0;
        loop {
            let again = super::plan(&map, usize::MAX).moves;
            if again.is_empty() {
                break;
            }
            again.iter().for_each(|step| make(&mut map, step));
            rounds += 1;
            prop_assert!(rounds < 10, "{:?}", again);
        }
    }

    /// Where nothing stands in the way the disks are even to within a column, and no more has moved
    /// than had to.
    #[test]
    fn free_plans_are_even_and_move_no_more_than_they_must(
        first in proptest::collection::vec(400u64..800, 3..6),
        later in proptest::collection::vec(400u64..800, 1..4),
        stripes in 50u64..200,
    ) {
        let apart = |disks: &[u64], from: u8| -> Vec<(u64, u8)> {
            disks.iter().zip(from..).map(|(s, b)| (*s, b)).collect()
        };
        let mut map = ClusterMap { nodes: nodes(&apart(&first, 0)), ..Default::default() };
        prop_assume!(add(&mut map, "rs:1+1", stripes, 4 * SECTOR));
        map.nodes.extend(nodes(&apart(&later, 100)));
        let plan = plan(&map, usize::MAX);
        for a in &plan.after {
            for b in &plan.after {
                let gap = a.used as f64 / a.size as f64 - b.used as f64 / b.size as f64;
                let column = (4 * SECTOR) as f64;
                prop_assert!(gap <= column / a.size as f64 + column / b.size as f64, "{a:?} {b:?}");
            }
        }
        let less = plan.before.iter().zip(&plan.after).map(|(b, a)| b.used.saturating_sub(a.used));
        let least: u64 = less.sum();
        let moved: u64 = plan.moves.iter().map(|m| m.sectors * SECTOR).sum();
        // The last extent is shorter than the others, and fits where no other would.
        let some = plan.before.len() as u64 * 4 * SECTOR;
        prop_assert!(moved <= least + some, "columns went on detours: {moved}, {least}");
    }
}
