use super::*;
use crate::units::ColumnSet;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn layout(data: usize, parity: usize, placement: Placement) -> Layout {
    Layout::Rotating(Rotating { data, parity, placement })
}

fn data_columns(layout: &Layout) -> usize {
    layout.code().unwrap().data_columns()
}

/// One stripe as the paper prints it: a block number for each column, `None` for parity.
fn row(layout: &Layout, stripe: u64) -> Vec<Option<u64>> {
    (0..layout.width())
        .map(|c| match layout.role(stripe, c) {
            ColumnRole::Data(i) => Some(stripe * data_columns(layout) as u64 + i as u64),
            ColumnRole::Parity(_) => None,
        })
        .collect()
}

/// TickerTAIP, Table II: left-symmetric RAID 5 over five disks.
#[test]
fn every_layout_that_help_names_can_be_read() {
    let forms = LayoutSpec::forms();
    let named = forms.split([',', ' ', '(', ')']).filter(|word| !word.is_empty());
    let named: Vec<_> = named.filter(|word| !matches!(*word, "such" | "as" | "or")).collect();
    let read = |word: &str| word.parse::<LayoutSpec>();
    let (read, forms): (Vec<_>, Vec<_>) = named.into_iter().partition(|word| read(word).is_ok());
    assert_eq!(forms, ["rs:K+M", "lrc:K+L+G", "grid:RxC"], "these stand for what follows them");
    assert!(read.contains(&"raid5:left-asymmetric") && read.contains(&"lrc:12+2+2"), "{read:?}");
}

#[test]
fn tickertaip_table_2() {
    let l = layout(4, 1, Placement::LeftSymmetric);
    let table = [
        [Some(0), Some(1), Some(2), Some(3), None],
        [Some(5), Some(6), Some(7), None, Some(4)],
        [Some(10), Some(11), None, Some(8), Some(9)],
        [Some(15), None, Some(12), Some(13), Some(14)],
        [None, Some(16), Some(17), Some(18), Some(19)],
    ];
    for (stripe, expected) in table.iter().enumerate() {
        assert_eq!(row(&l, stripe as u64), expected, "stripe {stripe}");
    }
}

#[test]
fn the_other_rotations() {
    let left = layout(2, 1, Placement::LeftAsymmetric);
    assert_eq!(row(&left, 1), [Some(2), None, Some(3)]);
    let right = layout(2, 1, Placement::RightAsymmetric);
    assert_eq!(row(&right, 0), [None, Some(0), Some(1)]);
    assert_eq!(row(&right, 1), [Some(2), None, Some(3)]);
    let wrapped = layout(2, 1, Placement::RightSymmetric);
    assert_eq!(row(&wrapped, 1), [Some(3), None, Some(2)]);
    let fixed = layout(2, 1, Placement::Fixed);
    assert_eq!(row(&fixed, 7), [Some(14), Some(15), None]);
}

#[test]
fn names_round_trip_and_bad_ones_are_refused() {
    for name in [
        "raid0",
        "raid1",
        "raid4",
        "raid5",
        "raid5:right-symmetric",
        "raid6",
        "rs:10+4",
        "lrc:12+2+2",
        "grid:4x4",
        "grid:2x9",
        "drnet",
    ] {
        assert_eq!(name.parse::<LayoutSpec>().unwrap().to_string(), name);
    }
    assert!(matches!("raid7".parse::<LayoutSpec>(), Err(LayoutError::Unknown(_))));
    for (name, said) in [
        ("rs:4", "layout 'rs:4' needs numbers of columns: write rs:K+M, such as rs:4+2"),
        ("rs", "layout 'rs' needs numbers of columns: write rs:K+M, such as rs:4+2"),
        (
            "lrc:4+2",
            "layout 'lrc:4+2' needs numbers of columns: write lrc:K+L+G, such as lrc:12+2+2",
        ),
        ("grid:4", "layout 'grid:4' needs numbers of columns: write grid:RxC, such as grid:4x4"),
    ] {
        assert_eq!(name.parse::<LayoutSpec>().unwrap_err().to_string(), said);
    }
    assert!(matches!("rs:0+2".parse::<LayoutSpec>(), Err(LayoutError::Columns(..))));
    assert!(matches!("rs:30+3".parse::<LayoutSpec>(), Err(LayoutError::Columns(_, 33))));
    assert!(matches!("lrc:26+4+3".parse::<LayoutSpec>(), Err(LayoutError::Columns(_, 33))));
    for (name, why) in [
        ("lrc:12+5+2", "must divide into"),
        ("lrc:12+2+4", "at most 3 global"),
        ("lrc:12+2", "needs numbers of columns"),
        ("grid:1x5", "each side is 2 or more, such as 2 by 5"),
        ("grid:4", "needs numbers of columns"),
        ("grid:4x6", "has 35 columns"),
        ("grid:18446744073709551615x2", "at most 32 columns"),
    ] {
        let error = name.parse::<LayoutSpec>().unwrap_err().to_string();
        assert!(error.contains(why), "{name}: {error}");
    }
    let few = "drnet".parse::<LayoutSpec>().unwrap().over(24).unwrap_err();
    assert_eq!(few.to_string(), "layout drnet needs at least 25 nodes and there are 24");
    let few = "rs:4+2".parse::<LayoutSpec>().unwrap().over(5).unwrap_err();
    assert_eq!(few.to_string(), "layout rs:4+2 needs at least 6 nodes and there are 5");
}

fn any_layout() -> impl Strategy<Value = Layout> {
    let placement = prop_oneof![
        Just(Placement::Fixed),
        Just(Placement::LeftSymmetric),
        Just(Placement::LeftAsymmetric),
        Just(Placement::RightSymmetric),
        Just(Placement::RightAsymmetric),
    ];
    let rotating = (1usize..=12, 0usize..=6, placement).prop_map(|(k, m, p)| layout(k, m, p));
    let local = (2usize..=3, 2usize..=6, 0usize..=3).prop_map(|(groups, size, globals)| {
        Layout::Local(Local { data: groups * size, groups, globals })
    });
    let grid =
        (2usize..=4, 2usize..=4).prop_map(|(rows, across)| Layout::Grid(Grid { rows, across }));
    prop_oneof![3 => rotating, 1 => local, 1 => grid, 1 => Just(Layout::DrNet)]
}

fn over_least(layout: &str) -> Geometry {
    let spec: LayoutSpec = layout.parse().unwrap();
    Geometry::new(spec.over(spec.least_nodes()).unwrap(), 4096)
}

/// All sets of four of so many columns.
fn fours(columns: usize) -> impl Iterator<Item = ColumnSet> {
    let pairs = move |a| (a + 1..columns).map(move |b| [a, b]);
    let more = move |[a, b]: [usize; 2]| {
        (b + 1..columns).flat_map(move |c| (c + 1..columns).map(move |d| [a, b, c, d]))
    };
    (0..columns).flat_map(pairs).flat_map(more).map(ColumnSet::from_iter)
}

/// Groups stay on their columns, so every stripe survives the same losses.
#[test]
fn all_stripes_survive_the_same_losses() {
    for (layout, so_many) in [("lrc:12+2+2", 1568), ("grid:4x4", 12_550), ("grid:2x3", 477)] {
        let g = over_least(layout);
        assert_eq!(g.layout.loss_turns(), 1);
        let survived = fours(g.layout.width()).filter(|lost| {
            let first = g.is_recoverable(0, *lost);
            let same = |stripe| g.is_recoverable(stripe, *lost) == first;
            assert!((1..g.layout.turns()).all(same), "{layout} without {lost:?}");
            first
        });
        assert_eq!(survived.count(), so_many, "{layout}");
    }
}

/// How often each column is read when column `lost` of so many stripes is put back.
fn reads(g: &Geometry, lost: usize, stripes: u64) -> Vec<u64> {
    let mut reads = vec![0; g.layout.width()];
    for stripe in 0..stripes {
        for seat in g.layout.seats_of(stripe, lost) {
            let (wanted, lost) = (g.code_column(stripe, seat), ColumnSet::of(lost));
            let avoid = g.seats_of(stripe, lost);
            let helpers = g.helpers(stripe, avoid, wanted, ColumnSet::EMPTY);
            helpers.unwrap().iter().for_each(|h| reads[g.column_of(stripe, h)] += 1);
        }
    }
    reads
}

/// How many sets of so many columns one stripe of `drnet` survives, and how many all its stripes do. Sets that differ
/// in the pluses' numbers alone are alike, so it is enough to count those of stripe 0.
fn survived_by_drnet(size: usize) -> (usize, usize) {
    let g = over_least("drnet");
    let all = (0..25).map(ColumnSet::of);
    let sets = (1..size).fold(all.collect::<Vec<_>>(), |sets, _| {
        let longer = |set: &ColumnSet| {
            let (set, last) = (*set, set.iter().last().unwrap());
            (last + 1..25).map(move |c| set.union(ColumnSet::of(c)))
        };
        sets.iter().flat_map(longer).collect()
    });
    // By rank, without what the layout says of itself.
    let survives = |stripe, set: &ColumnSet| g.code.is_recoverable(g.units_of(stripe, *set));
    let counts = [0, 1, 2, 3, 4].map(|s| sets.iter().filter(|set| survives(s, set)).count());
    assert_eq!(counts, [counts[0]; 5], "every stripe survives as many");
    let always = |set: &&ColumnSet| (0..5).all(|s| survives(s, set));
    let whole = sets.iter().filter(always).count();
    assert!(sets.iter().all(|set| always(&set) == g.is_always_recoverable(*set)));
    (counts[0], whole)
}

#[test]
fn what_drnet_survives() {
    assert_eq!(survived_by_drnet(1), (25, 25));
    assert_eq!(survived_by_drnet(2), (300, 300));
    assert_eq!(survived_by_drnet(3), (2280, 2200));
    assert_eq!(survived_by_drnet(4), (12_070, 10_250));
}

/// Of what is not recoverable nothing larger is, so it is enough to grow what is.
#[test]
fn drnet_never_survives_ten() {
    fn largest(g: &Geometry, first: usize, lost: ColumnSet) -> usize {
        let more = (first..25).map(|c| (c, lost.union(ColumnSet::of(c))));
        let more = more.filter(|(_, set)| g.code.is_recoverable(g.units_of(0, *set)));
        more.map(|(c, set)| largest(g, c + 1, set)).max().unwrap_or(lost.len())
    }
    assert_eq!(largest(&over_least("drnet"), 0, ColumnSet::EMPTY), 9);
}

/// In any stripe each first group has a unit in each column of one row, and each second group in one vertical.
#[test]
fn the_groups_of_drnet_stay_on_their_columns() {
    let g = over_least("drnet");
    for stripe in 0..5 {
        for j in 0..10 {
            let group = g.code.support(j).union(ColumnSet::of(20 + j));
            let columns: Vec<usize> = group.iter().map(|u| g.column_of(stripe, u)).collect();
            let lines = columns.iter().map(|c| if j < 5 { c / 5 } else { c % 5 });
            assert_eq!(lines.collect::<BTreeSet<_>>().len(), 1, "group {j} of stripe {stripe}");
            assert_eq!(columns.iter().collect::<BTreeSet<_>>().len(), 5, "in five columns");
        }
    }
}

/// A third of what `rs:12+4` reads, from eight columns alike.
#[test]
fn a_rebuild_of_drnet_reads_four_units_for_one_and_loads_its_helpers_alike() {
    let (drnet, wide) = (over_least("drnet"), over_least("rs:12+4"));
    let stripes = 60;
    for lost in 0..25 {
        let reads = reads(&drnet, lost, stripes);
        let busy: Vec<u64> = reads.iter().copied().filter(|n| *n > 0).collect();
        let (least, most) = (busy.iter().min().unwrap(), busy.iter().max().unwrap());
        assert_eq!(busy.len(), 8, "column {lost}");
        assert!(most * 10 <= least * 11, "column {lost}: {busy:?}");
        let lost_units = drnet.layout.units_before(stripes, lost);
        assert_eq!(reads.iter().sum::<u64>(), 4 * lost_units);
    }
    assert_eq!(reads_of_one(&wide), 12);
}

/// Units that are read for each that a rebuild puts back.
fn reads_of_one(g: &Geometry) -> u64 {
    reads(g, 0, g.layout.turns()).iter().sum::<u64>() / g.layout.turns()
}

/// Whichever column is lost, each stripe reads its shorter group, and groups of a length take turns.
#[test]
fn the_helpers_of_a_grid_are_loaded_alike() {
    for (layout, (rows, across)) in [(2, 2), (3, 3), (4, 4), (2, 3), (3, 2), (2, 9)]
        .map(|s| (format!("grid:{}x{}", s.0, s.1), s))
    {
        let g = over_least(&layout);
        let stripes = 2 * g.layout.turns();
        for lost in 0..g.layout.width() {
            let busy: Vec<u64> = reads(&g, lost, stripes).into_iter().filter(|n| *n > 0).collect();
            let expected = match rows == across {
                true => vec![stripes / 2; rows + across],
                false => vec![stripes; rows.min(across)],
            };
            assert_eq!(busy, expected, "{layout} without column {lost}");
        }
    }
}

proptest! {
    #[test]
    fn mapping_is_a_bijection(l in any_layout(), stripe in 0u64..1000) {
        let mut seen = BTreeSet::new();
        for seat in 0..l.seats() {
            let role = l.role(stripe, seat);
            let back = match role {
                ColumnRole::Data(i) => l.data_column(stripe, i),
                ColumnRole::Parity(j) => l.parity_seat(stripe, j),
            };
            prop_assert_eq!(back, seat);
            seen.insert(format!("{role:?}"));
        }
        prop_assert_eq!(seen.len(), l.seats());
        prop_assert_eq!(l.seats(), l.code().unwrap().columns());
    }

    /// Units stand on their columns' disks one behind the other, by stripes and seats.
    #[test]
    fn units_stand_in_order(l in any_layout(), first in 0u64..100, stripes in 1u64..30) {
        for column in 0..l.width() {
            let mut next = l.units_before(first, column);
            for stripe in first..first + stripes {
                for seat in l.seats_of(stripe, column) {
                    prop_assert_eq!(l.column_at(stripe, seat), column);
                    prop_assert_eq!(l.units_before_seat(stripe, seat), next);
                    prop_assert_eq!(l.unit_at(column, next), (stripe, seat));
                    next += 1;
                }
            }
            let units = next - l.units_before(first, column);
            prop_assert!(units <= l.most_units(stripes));
        }
        let all: usize = (0..l.width()).map(|c| l.seats_of(first, c).count()).sum();
        prop_assert_eq!(all, l.seats());
    }

    #[test]
    fn offsets_land_on_distinct_places(l in any_layout(), first in 0u64..100) {
        let g = Geometry::new(l, 4096);
        let mut places = BTreeSet::new();
        for unit in first..first + 50 {
            let (stripe, column, within) = g.locate(unit * 4096);
            prop_assert_eq!(within, 0);
            prop_assert!(places.insert((stripe, column)));
            prop_assert_eq!(g.code_column(stripe, column) as u64 + stripe * data_columns(&l) as u64, unit);
        }
    }

    #[test]
    fn rotated_parity_is_evenly_spread(l in any_layout(), turns in 1u64..4) {
        let Layout::Rotating(Rotating { parity, placement, .. }) = l else { return Ok(()) };
        prop_assume!(placement != Placement::Fixed);
        let mut counts = vec![0usize; l.width()];
        for stripe in 0..turns * l.width() as u64 {
            (0..parity).for_each(|j| counts[l.parity_column(stripe, j)] += 1);
        }
        prop_assert!(counts.iter().all(|&c| c == parity * turns as usize));
    }

    #[test]
    fn what_is_recoverable_comes_round(l in any_layout(), stripe in 0u64..100, lost in any::<u32>()) {
        let g = Geometry::new(l, 4096);
        let lost = ColumnSet(lost).intersection(ColumnSet::first(l.width()));
        prop_assert_eq!(
            g.is_recoverable(stripe, lost),
            g.is_recoverable(stripe % l.loss_turns(), lost)
        );
    }

    #[test]
    fn what_is_held_comes_round(l in any_layout(), stripe in 0u64..1000) {
        let roles = |s| (0..l.seats()).map(|c| (l.role(s, c), l.column_at(s, c))).collect::<Vec<_>>();
        prop_assert_eq!(roles(stripe), roles(stripe + l.turns()));
    }
}
