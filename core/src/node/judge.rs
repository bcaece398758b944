//! Who is wrong when a stripe's parity does not fit its data. Every unit has come with right checksums; so what
//! is wrong was written and lost again without a trace, or never written. Making parity anew is right only if
//! it is parity that is wrong: if data was lost, parity is what has it.
//!
//! Where several equations cover it, it is found by elimination: if all equations hold once one column is computed from
//! the others, and for no other column do they, it is that one, unless it is newer than what it does not fit. Of two
//! copies the older is wrong. Otherwise nothing is done: parity that is newer than all data of its row has a write that
//! data has lost, and nobody knows which; parity that is older may have lost one, or data may have been rebuilt since,
//! which gives it a version of its own. What cannot be told apart is left as it is, for the operator to say.

use std::collections::{BTreeMap, BTreeSet};

use crate::Buffer;
use crate::layout::Geometry;
use crate::plan::{Range, Span, Spans};
use crate::units::{ColumnSet, NodeId, SECTOR, Timestamp};

/// Whom an operator believes of a stripe in which it cannot be told who is wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Trust {
    /// Nobody: it is left as it is.
    #[default]
    Nobody,
    /// The data: parity is made to fit it.
    Data,
    /// The parity, and all data but that of the first column that is not (if there are several, that on this
    /// node's disk): it is computed from the others.
    Parity(Option<NodeId>),
}

/// A unit as it was read, by column of the code.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    /// Its bytes.
    pub data: Buffer,
    /// The newest write in each of its sectors; none where nobody knows.
    pub versions: Vec<Timestamp>,
}

/// What is to be done about a stripe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Judgement {
    /// Columns of the code that are wrong, and where.
    pub wrong: BTreeMap<usize, Span>,
    /// Rows of sectors in which something is wrong and cannot be told apart: bytes of the unit.
    pub unclear: Vec<Span>,
    /// Whether in those parity is newer than all data: then data is lost.
    pub data_is_lost: bool,
}

impl Judgement {
    /// The bytes of a volume that stand in the rows that are unclear.
    pub fn unclear_ranges(&self, g: &Geometry, stripe: u64) -> Vec<Range> {
        let unit = |i: usize| {
            let first = stripe * g.stripe_bytes() + i as u64 * g.unit;
            self.unclear.iter().map(move |s| Range { offset: first + s.lo, len: s.len() })
        };
        (0..g.data_columns()).flat_map(unit).collect()
    }
}

/// Judges a stripe. In rows that cannot be told apart `suspect` is the column of the code that the operator does
/// not believe, or all parity.
pub(crate) fn judge(g: &Geometry, units: &[Unit], suspects: &BTreeSet<usize>) -> Judgement {
    let mut out = Judgement::default();
    let rows = (g.unit / SECTOR) as usize;
    if wrong_parities(g, units, Span::new(0, g.unit)).is_empty() {
        return out;
    }
    for row in 0..rows {
        let span = Span::new(row as u64 * SECTOR, (row as u64 + 1) * SECTOR);
        let parities = wrong_parities(g, units, span);
        if parities.is_empty() {
            continue;
        }
        let versions = versions(g, units, row, &parities);
        let culprit = eliminate(g, units, span).or_else(|| by_versions(g, versions));
        let culprit = culprit.filter(|column| is_older(g, units, row, *column));
        match culprit {
            Some(column) => add(&mut out.wrong, column, span),
            None if !suspects.is_empty() => {
                let meant = |c: &&usize| **c < g.data_columns() || parities.contains(c);
                suspects.iter().filter(meant).for_each(|c| add(&mut out.wrong, *c, span));
            }
            None => {
                out.data_is_lost |= versions.is_some_and(|(data, parity)| parity > data);
                extend(&mut out.unclear, span);
            }
        }
    }
    out
}

/// All parity that does not fit is wrong.
pub(crate) fn parity_is_wrong(g: &Geometry, units: &[Unit]) -> Judgement {
    let whole = Span::new(0, g.unit);
    let wrong = wrong_parities(g, units, whole).into_iter().map(|c| (c, whole)).collect();
    Judgement { wrong, ..Judgement::default() }
}

/// What is put back of a unit is one piece: the first run of rows. What comes behind it is left to the next scrub,
/// so that nothing between is computed from what is wrong itself.
fn add(wrong: &mut BTreeMap<usize, Span>, column: usize, span: Span) {
    let run = wrong.entry(column).or_insert(span);
    if run.hi == span.lo {
        run.hi = span.hi;
    }
}

fn extend(spans: &mut Vec<Span>, span: Span) {
    match spans.last_mut() {
        Some(last) if last.hi >= span.lo => last.hi = last.hi.max(span.hi),
        _ => spans.push(span),
    }
}

fn slice(unit: &Unit, span: Span) -> Buffer {
    unit.data.slice(span.lo as usize, span.hi as usize)
}

/// The parity columns that do not fit the data.
fn wrong_parities(g: &Geometry, units: &[Unit], span: Span) -> Vec<usize> {
    let k = g.data_columns();
    let data: BTreeMap<usize, Buffer> = (0..k).map(|i| (i, slice(&units[i], span))).collect();
    (k..g.code.columns()).filter(|c| !fits(g, &data, *c, &slice(&units[*c], span), span)).collect()
}

/// Whether a column is what follows from others.
fn fits(
    g: &Geometry,
    others: &BTreeMap<usize, Buffer>,
    column: usize,
    is: &Buffer,
    span: Span,
) -> bool {
    solve(g, others, column, Spans::from(span)) == *is
}

/// The only column without which all equations hold, if there are equations enough to tell.
fn eliminate(g: &Geometry, units: &[Unit], span: Span) -> Option<usize> {
    let (k, width) = (g.data_columns(), g.code.columns());
    let holds_without = |out: &usize| {
        let given = |c: usize| (c, slice(&units[c], span));
        let helpers = g.code.helpers(ColumnSet::of(*out), *out, ColumnSet::EMPTY, 0);
        // Without redundancy nothing else says what it should be.
        let Some(helpers) = helpers else { return false };
        let made = solve(g, &helpers.iter().map(given).collect(), *out, Spans::from(span));
        let data: BTreeMap<usize, Buffer> =
            (0..k).map(|c| if c == *out { (c, made.clone()) } else { given(c) }).collect();
        (k..width).filter(|c| c != out).all(|c| fits(g, &data, c, &slice(&units[c], span), span))
            && (*out < k || fits(g, &data, *out, &made, span))
    };
    let mut culprits = (0..width).filter(holds_without);
    culprits.next().filter(|_| culprits.next().is_none())
}

/// The newest write in the data of a row, and the oldest of the parity that does not fit it, if they
/// are known; of the data, what that parity covers.
fn versions(
    g: &Geometry,
    units: &[Unit],
    row: usize,
    wrong: &[usize],
) -> Option<(Timestamp, Timestamp)> {
    let of = |c: usize| units[c].versions.get(row).copied();
    let k = g.data_columns();
    let covered = wrong.iter().map(|c| g.code.support(c - k));
    let covered = covered.fold(ColumnSet::EMPTY, ColumnSet::union);
    let data: Option<Vec<_>> = covered.iter().map(of).collect();
    let parity: Option<Vec<_>> = wrong.iter().map(|c| of(*c)).collect();
    Some((data?.into_iter().max()?, parity?.into_iter().min()?))
}

/// With a single parity only of copies versions say which is wrong. Of data that has been rebuilt the version is that
/// of the rebuilding, which changed no parity: that parity is older than some data says nothing.
fn by_versions(g: &Geometry, versions: Option<(Timestamp, Timestamp)>) -> Option<usize> {
    let (data, parity) = versions?;
    match (g.code.columns(), g.data_columns(), data.cmp(&parity)) {
        (2, 1, std::cmp::Ordering::Less) => Some(0),
        (2, 1, std::cmp::Ordering::Greater) => Some(1),
        _ => None,
    }
}

/// Whether a column of a row can have lost a write that others have: what is newer than all that it does not fit
/// may be all that is left of a write that several disks have lost.
fn is_older(g: &Geometry, units: &[Unit], row: usize, column: usize) -> bool {
    let k = g.data_columns();
    let of = |c: usize| units[c].versions.get(row).copied();
    // Data is held against the parity that covers it, and parity against that data; a copy against the
    // others.
    let others: Vec<usize> = match column.checked_sub(k) {
        _ if k == 1 => (0..g.code.columns()).filter(|c| *c != column).collect(),
        None => g.code.parities_of(column).iter().map(|j| k + j).collect(),
        Some(j) => g.code.support(j).iter().collect(),
    };
    let Some(own) = of(column) else { return false };
    let Some(others) = others.into_iter().map(of).collect::<Option<Vec<_>>>() else { return false };
    match column < k || k == 1 {
        true => others.iter().all(|v| *v >= own) && others.iter().any(|v| *v > own),
        false => others.iter().any(|v| *v >= own),
    }
}

/// The content of a column of the code over `at`, from others that determine it.
fn solve(g: &Geometry, have: &BTreeMap<usize, Buffer>, code_column: usize, at: Spans) -> Buffer {
    let len = at.len() as usize;
    if have.values().all(Buffer::is_zero) {
        return Buffer::Zero(len);
    }
    if have.values().any(Buffer::is_length) {
        return Buffer::Length(len);
    }
    let columns = have.keys().copied().collect();
    let decoder = g.code.decoder(columns, code_column).expect("they determine it");
    let bytes: Vec<_> = have.values().map(Buffer::to_bytes).collect();
    let views: Vec<&[u8]> = bytes.iter().map(|b| &b[..]).collect();
    let mut out = vec![0; len];
    decoder.decode(&views, &mut out);
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::LayoutSpec;

    const BYTES: usize = SECTOR as usize;

    /// A stripe of two rows whose units hold their column's number, all written at 10.
    fn stripe(layout: &str, nodes: usize) -> (Geometry, Vec<Unit>) {
        let spec: LayoutSpec = layout.parse().unwrap();
        let g = Geometry::new(spec.over(nodes).unwrap(), 2 * SECTOR);
        let data: BTreeMap<usize, Buffer> =
            (0..g.data_columns()).map(|i| (i, vec![i as u8 + 1; 2 * BYTES].into())).collect();
        let whole = Spans::from(Span::new(0, g.unit));
        let unit = |c| Unit { data: solve(&g, &data, c, whole), versions: vec![Timestamp(10); 2] };
        let units = (0..g.code.columns()).map(unit).collect();
        (g, units)
    }

    /// The second sector of a column holds something else, of another time.
    fn spoil(units: &mut [Unit], column: usize, version: u64) {
        let mut bytes = units[column].data.to_bytes().to_vec();
        bytes[BYTES..].fill(99);
        units[column] =
            Unit { data: bytes.into(), versions: vec![Timestamp(10), Timestamp(version)] };
    }

    const SECOND: Span = Span { lo: SECTOR, hi: 2 * SECTOR };

    fn nobody() -> BTreeSet<usize> {
        BTreeSet::new()
    }

    #[test]
    fn what_fits_is_left_alone() {
        for (layout, nodes) in [
            ("raid5", 4),
            ("raid6", 6),
            ("raid1", 2),
            ("rs:2+3", 5),
            ("lrc:4+2+2", 8),
            ("grid:2x2", 9),
        ] {
            let (g, units) = stripe(layout, nodes);
            assert_eq!(judge(&g, &units, &nobody()), Judgement::default(), "{layout}");
        }
    }

    /// With two parities or more, whichever column it is, if it is older than what it does not fit.
    #[test]
    fn one_wrong_column_is_found_by_elimination() {
        for (layout, nodes) in [("raid6", 6), ("rs:2+3", 5), ("lrc:4+2+2", 8), ("grid:2x2", 9)] {
            for column in 0..nodes {
                let (g, mut units) = stripe(layout, nodes);
                spoil(&mut units, column, 5);
                let found = judge(&g, &units, &nobody());
                assert_eq!(found.wrong, BTreeMap::from([(column, SECOND)]), "{layout} {column}");
                assert!(found.unclear.is_empty());
            }
        }
    }

    /// Two disks lost a write that data, P and Q had: what Q has is all that is left of it.
    #[test]
    fn what_is_newer_than_all_that_it_does_not_fit_is_not_undone() {
        for column in 0..6 {
            let (g, mut units) = stripe("raid6", 6);
            spoil(&mut units, column, 20);
            let found = judge(&g, &units, &nobody());
            assert!(found.wrong.is_empty() && found.unclear == [SECOND], "{column}: {found:?}");
        }
    }

    #[test]
    fn with_one_parity_nobody_can_tell() {
        for version in [5, 10, 15] {
            let (g, mut units) = stripe("raid5", 4);
            spoil(&mut units, 3, version);
            let found = judge(&g, &units, &nobody());
            assert!(found.wrong.is_empty() && found.unclear == [SECOND], "{version}");
            assert_eq!(found.data_is_lost, version == 15, "data lost what parity has");
            let stripe_of =
                |i: u64| Range { offset: 6 * SECTOR * 7 + 2 * SECTOR * i + SECTOR, len: SECTOR };
            assert_eq!(found.unclear_ranges(&g, 7), [0, 1, 2].map(stripe_of));
        }
        let (g, mut units) = stripe("raid5", 4);
        spoil(&mut units, 1, 10);
        assert_eq!(judge(&g, &units, &BTreeSet::from([3])).wrong, BTreeMap::from([(3, SECOND)]));
        assert_eq!(judge(&g, &units, &BTreeSet::from([1])).wrong, BTreeMap::from([(1, SECOND)]));
    }

    #[test]
    fn of_two_copies_the_newer_is_right() {
        let (g, mut units) = stripe("raid1", 2);
        spoil(&mut units, 0, 5);
        assert_eq!(judge(&g, &units, &nobody()).wrong, BTreeMap::from([(0, SECOND)]));
        let (g, mut units) = stripe("raid1", 2);
        spoil(&mut units, 1, 5);
        assert_eq!(judge(&g, &units, &nobody()).wrong, BTreeMap::from([(1, SECOND)]));
        let (g, mut units) = stripe("raid1", 2);
        spoil(&mut units, 1, 10);
        assert_eq!(judge(&g, &units, &nobody()).unclear, [SECOND], "of the same time");
    }

    /// Each is put back by itself, and nothing between that is computed from the other.
    #[test]
    fn what_is_wrong_in_turns_is_put_back_run_by_run() {
        let mut wrong = BTreeMap::new();
        let row = |n: u64| Span::new(n * SECTOR, (n + 1) * SECTOR);
        [(0, 0), (1, 1), (0, 2), (1, 2)].into_iter().for_each(|(c, n)| add(&mut wrong, c, row(n)));
        assert_eq!(wrong, BTreeMap::from([(0, row(0)), (1, Span::new(SECTOR, 3 * SECTOR))]));
    }

    #[test]
    fn where_nobody_knows_versions_nothing_is_guessed() {
        let (g, mut units) = stripe("raid5", 4);
        spoil(&mut units, 1, 10);
        units.iter_mut().for_each(|u| u.versions.clear());
        assert_eq!(judge(&g, &units, &nobody()).unclear, [SECOND]);
    }
}
