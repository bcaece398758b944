//! What may be lost, and what it is computed from: against exhaustive search.

use weft_code::{Code, ColumnSet};

fn lrc(k: usize, groups: usize, globals: usize) -> Code {
    Code::lrc(k, groups, globals).expect("a code")
}

fn grid(rows: usize, across: usize) -> Code {
    Code::grid(rows, across).expect("a code")
}

/// All sets of so many of `columns` columns.
fn sets(columns: usize, size: usize) -> impl Iterator<Item = ColumnSet> {
    (0..1u64 << columns).map(|set| ColumnSet(set as u32)).filter(move |set| set.len() == size)
}

/// Small codes of every kind.
fn codes() -> Vec<Code> {
    let mds = [(1, 0), (4, 0), (1, 2), (4, 1), (4, 2), (3, 3)];
    let mds = mds.into_iter().map(|(k, m)| Code::new(k, m).expect("a code"));
    let local = [(4, 2, 0), (4, 2, 1), (4, 2, 2), (6, 3, 1), (6, 2, 2), (4, 2, 3)];
    let grids = [grid(2, 2), grid(2, 3)];
    mds.chain(local.into_iter().map(|(k, l, g)| lrc(k, l, g))).chain(grids).collect()
}

/// The content of all columns for data that are the unit vectors: each a row over the data.
fn rows(code: &Code) -> Vec<Vec<u8>> {
    let k = code.data_columns();
    let data: Vec<Vec<u8>> = (0..k).map(|i| (0..k).map(|j| u8::from(i == j)).collect()).collect();
    let units: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
    let mut parity = vec![vec![0; k]; code.parity_columns()];
    let mut out: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
    code.encode(&units, &mut out);
    data.into_iter().chain(parity).collect()
}

/// Whether a decoder gives what the column is.
fn decodes(code: &Code, rows: &[Vec<u8>], have: ColumnSet, want: usize) -> bool {
    let Ok(decoder) = code.decoder(have, want) else { return false };
    let available: Vec<&[u8]> = have.iter().map(|c| rows[c].as_slice()).collect();
    let mut out = vec![0; code.data_columns()];
    decoder.decode(&available, &mut out);
    assert_eq!(out, rows[want], "column {want} from {have:?}");
    true
}

#[test]
fn what_is_recoverable_is_what_decodes() {
    for code in codes() {
        let (n, rows) = (code.columns(), rows(&code));
        for size in 0..=n {
            let mut count = 0;
            for lost in sets(n, size) {
                let have = ColumnSet::first(n).minus(lost);
                let all = lost.iter().all(|c| decodes(&code, &rows, have, c));
                assert_eq!(code.is_recoverable(lost), all, "{code:?} without {lost:?}");
                count += u64::from(all);
            }
            let sets_of_size = sets(n, size).count() as u64;
            assert_eq!(code.recoverable_sets(size), (count, sets_of_size));
            assert_eq!(size <= code.any_losses(), count == sets_of_size, "{code:?}: any {size}");
        }
    }
}

/// A whole write changes a data column and every parity that covers it. If all of these were in a set that
/// is recoverable, the rest would have to determine the change, and has none.
#[test]
fn no_recoverable_set_holds_all_that_a_write_changes() {
    for code in codes() {
        let k = code.data_columns();
        for data in 0..k {
            let mut changed: ColumnSet = code.parities_of(data).iter().map(|j| k + j).collect();
            changed.insert(data);
            assert!(!code.is_recoverable(changed), "{code:?}: {changed:?}");
        }
    }
}

#[test]
fn helpers_are_the_fewest_for_all_losses_up_to_four() {
    for code in codes() {
        let n = code.columns();
        for lost in (1..=4.min(n)).flat_map(|size| sets(n, size)) {
            for wanted in lost.iter() {
                let left = ColumnSet::first(n).minus(lost);
                let fewest = (0..1u32 << n)
                    .map(ColumnSet)
                    .filter(|have| left.covers(*have) && code.decoder(*have, wanted).is_ok())
                    .map(ColumnSet::len)
                    .min();
                for turn in 0..4 {
                    let found = code.helpers(lost, wanted, ColumnSet::EMPTY, turn);
                    assert_eq!(found.map(ColumnSet::len), fewest, "{code:?}: {wanted} of {lost:?}");
                    let Some(found) = found else { continue };
                    assert!(left.covers(found) && code.decoder(found, wanted).is_ok());
                }
            }
        }
    }
}

#[test]
fn what_is_at_hand_is_preferred_and_what_ties_takes_turns() {
    let code = lrc(4, 2, 1);
    let (none, lost) = (ColumnSet::EMPTY, ColumnSet::of(0));
    assert_eq!(code.helpers(lost, 0, none, 0), Some([1, 4].into_iter().collect()));
    let wide = lrc(6, 2, 2);
    let two: ColumnSet = [0, 1].into_iter().collect();
    let turns: Vec<_> = (0..6).filter_map(|turn| wide.helpers(two, 0, none, turn)).collect();
    assert!(turns.iter().any(|t| *t != turns[0]) && turns[0].len() == 6, "{turns:?}");
    let near: ColumnSet = [2, 3, 4, 5, 9].into_iter().collect();
    let found = wide.helpers(two, 0, near, 0).expect("it can be computed");
    assert_eq!(found, [2, 3, 4, 5, 6, 9].into_iter().collect());
}

/// The figures are those of Huang et al., Erasure Coding in Windows Azure Storage, USENIX ATC 2012, table 1 and
/// section 2: any three, and 86 % of fours.
#[test]
fn twelve_two_two() {
    let code = lrc(12, 2, 2);
    assert_eq!(code.any_losses(), 3);
    assert_eq!(code.recoverable_sets(3), (560, 560));
    assert_eq!(code.recoverable_sets(4), (1568, 1820));
    assert_eq!(code.recoverable_sets(5).0, 0);
    for data in 0..12 {
        let found = code.helpers(ColumnSet::of(data), data, ColumnSet::EMPTY, 0);
        assert_eq!(found.expect("its group").len(), 6);
    }
}

/// A column of the grid with its parities joins a row and a vertical, and losses are recoverable as long as they
/// join nothing in a circle. The shortest circles are rectangles: 10 times 10 of 5 by 5. Nine that join all
/// without a circle are a spanning tree of the complete bipartite graph, which has `5^4 * 5^4` (Scoins 1962).
#[test]
fn four_by_four() {
    let code = grid(4, 4);
    assert_eq!((code.columns(), code.any_losses()), (25, 3));
    assert_eq!(code.recoverable_sets(3), (2300, 2300));
    assert_eq!(code.recoverable_sets(4), (12_550, 12_650));
    assert_eq!(code.recoverable_sets(9).0, 390_625);
    assert_eq!(counted(&code, 3), (2300, 2300));
    assert_eq!(counted(&code, 4), (12_550, 12_650));
}

/// A data column has two groups without another column in common, and each of them is a way to compute it.
#[test]
fn a_lost_data_column_of_drnet_is_read_from_either_of_its_groups() {
    let code = Code::drnet();
    assert_eq!((code.columns(), code.any_losses()), (30, 2));
    assert_eq!(counted(&code, 2), (435, 435));
    assert!(counted(&code, 3).0 < counted(&code, 3).1);
    for data in 0..20 {
        assert_eq!(code.parities_of(data).len(), 2);
        let helpers =
            [0, 1].map(|turn| code.helpers(ColumnSet::EMPTY, data, ColumnSet::EMPTY, turn));
        let [first, second] = helpers.map(|set| set.expect("a group"));
        assert_eq!((first.len(), second.len()), (4, 4));
        assert!(first.intersection(second).is_empty(), "{first:?} and {second:?} of {data}");
        let found = code.helpers(first, data, ColumnSet::EMPTY, 0);
        assert_eq!(found, Some(second), "without the other group");
    }
}

/// A row of a grid with its parity, and what stands below one another in it, as the papers on product codes draw
/// them: each group is a way to compute any of its columns, and there is no shorter one.
#[test]
fn a_lost_column_of_a_grid_is_read_from_the_shorter_of_its_groups() {
    for (rows, across) in [(2, 2), (2, 3), (3, 2), (3, 3), (4, 4), (2, 9), (3, 7)] {
        let code = grid(rows, across);
        let at = |row: usize, vertical: usize| match (row < rows, vertical < across) {
            (true, true) => row * across + vertical,
            (true, false) => rows * across + row,
            (false, _) => rows * across + rows + vertical,
        };
        for (row, vertical) in (0..=rows).flat_map(|r| (0..=across).map(move |v| (r, v))) {
            let wanted = at(row, vertical);
            let besides = |group: ColumnSet| group.minus(ColumnSet::of(wanted));
            let own_row = besides((0..=across).map(|v| at(row, v)).collect());
            let below = besides((0..=rows).map(|r| at(r, vertical)).collect());
            let shortest = own_row.len().min(below.len());
            let turns: Vec<ColumnSet> = (0..2)
                .filter_map(|turn| code.helpers(ColumnSet::EMPTY, wanted, ColumnSet::EMPTY, turn))
                .collect();
            assert!(turns.iter().all(|t| t.len() == shortest && (*t == own_row || *t == below)));
            // Of two groups with parities alone one is made of as many equations as the other.
            let ties = own_row.len() == below.len() && (row < rows) == (vertical < across);
            assert_eq!(turns[0] != turns[1], ties, "column {wanted} of {rows} by {across}");
            // Without one group there is the other.
            let other = own_row.iter().next().map(ColumnSet::of).expect("a row has others");
            let found = code.helpers(other, wanted, ColumnSet::EMPTY, 0);
            assert_eq!(found, Some(below), "column {wanted} of {rows} by {across}");
        }
    }
}

/// Any `globals + 1` losses, in every code that can be and has up to 18 columns, and in the widest.
#[test]
fn any_losses_up_to_one_more_than_globals() {
    for (groups, size, globals) in (2..8)
        .flat_map(|l| (2..15).map(move |s| (l, s)))
        .flat_map(|(l, s)| (0..=Code::MAX_GLOBALS).map(move |g| (l, s, g)))
    {
        let k = groups * size;
        let columns = k + groups + globals;
        let widest = columns == Code::MAX_COLUMNS && globals == Code::MAX_GLOBALS;
        if columns > 18 && !widest {
            continue;
        }
        let code = lrc(k, groups, globals);
        let everywhere = |size: usize| {
            let (good, all) = counted(&code, size);
            good == all
        };
        assert!(everywhere(globals + 1) && !everywhere(globals + 2), "{code:?}");
    }
}

/// Counts without what the code says of itself: no set of columns may hold a sum of equations.
fn counted(code: &Code, size: usize) -> (u64, u64) {
    fn count(code: &Code, first: usize, left: usize, lost: ColumnSet) -> (u64, u64) {
        if left == 0 {
            let have = ColumnSet::first(code.columns()).minus(lost);
            let all = lost.iter().all(|c| code.decoder(have, c).is_ok());
            return (u64::from(all), 1);
        }
        (first..code.columns()).fold((0, 0), |(good, all), column| {
            let mut more = lost;
            more.insert(column);
            let (g, a) = count(code, column + 1, left - 1, more);
            (good + g, all + a)
        })
    }
    count(code, 0, size, ColumnSet::EMPTY)
}

#[test]
fn a_column_is_unchanged_if_what_covers_it_is() {
    let code = lrc(4, 2, 1);
    let set = |columns: &[usize]| columns.iter().copied().collect::<ColumnSet>();
    // Data: its group's parity or the global one is as it was.
    assert!(code.is_unchanged(0, set(&[4])) && code.is_unchanged(0, set(&[6])));
    assert!(!code.is_unchanged(0, set(&[1, 2, 3, 5])));
    // A group's parity: the global one, or all data of the group.
    assert!(code.is_unchanged(4, set(&[6])) && code.is_unchanged(4, set(&[0, 1])));
    assert!(!code.is_unchanged(4, set(&[0, 2, 3, 5])));
    // The global parity: all groups'.
    assert!(code.is_unchanged(6, set(&[4, 5])) && code.is_unchanged(6, set(&[0, 1, 5])));
    assert!(!code.is_unchanged(6, set(&[4, 2])));
}

#[test]
fn groups_that_cannot_be_are_refused() {
    for (k, groups, globals) in [(4, 0, 2), (4, 1, 2), (5, 2, 1), (4, 4, 1), (4, 2, 4)] {
        let error = Code::lrc(k, groups, globals).expect_err("not a code").to_string();
        assert!(error.contains("at least 2 groups"), "{error}");
    }
    for (rows, across) in [(1, 5), (5, 1), (0, 4)] {
        let error = Code::grid(rows, across).expect_err("not a code").to_string();
        assert!(error.contains("each side is 2 or more"), "{error}");
    }
    let error = Code::grid(4, 6).expect_err("35 columns").to_string();
    assert!(error.contains("35 columns"), "{error}");
    let error = Code::lrc(28, 2, 3).expect_err("33 columns").to_string();
    assert!(error.contains("33 columns"), "{error}");
}
