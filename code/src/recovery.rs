//! What may be lost, and what lost columns are computed from.
//!
//! An equation of a code is a row over all its columns: the coefficients of
//! the data, and 1 at its own parity, which together sum to nothing. So is
//! each sum of multiples of equations. A lost column can be computed from
//! others if there is such a sum in which it is the only lost one; its
//! *helpers* are then the other columns of that sum.

use crate::code::Code;
use crate::columns::ColumnSet;
use crate::decoder::Decoder;
use crate::error::CodeError;
use crate::gf;

/// A sum of multiples of equations: a coefficient for each column.
type Row = [u8; Code::MAX_COLUMNS];

/// Sets of helpers that cost the same, from which stripes take turns.
const MOST_ALIKE: usize = 64;

impl Code {
    /// Whether the columns that are not `lost` determine all others.
    pub fn is_recoverable(&self, lost: ColumnSet) -> bool {
        lost.len() <= self.any_losses() || self.is_independent(lost)
    }

    /// Whether no equation has lost columns alone, however equations are summed.
    fn is_independent(&self, lost: ColumnSet) -> bool {
        if lost.len() > self.parity_columns() {
            return false;
        }
        let mut basis = Basis::default();
        lost.iter().all(|column| basis.add(self.equations_of(column)).is_some())
    }

    /// Of the sets of so many columns: how many are recoverable, and how
    /// many there are.
    pub fn recoverable_sets(&self, size: usize) -> (u64, u64) {
        let all = choose(self.columns() as u64, size as u64);
        if size <= self.any_losses() {
            return (all, all);
        }
        (self.count_from(0, size, &Basis::default()), all)
    }

    /// The recoverable sets of `size` columns from `first` on, beside those in the basis.
    fn count_from(&self, first: usize, size: usize, basis: &Basis) -> u64 {
        if size == 0 {
            return 1;
        }
        let with = |column: usize| {
            let mut more = basis.clone();
            // What is not recoverable is not with more lost, either.
            more.add(self.equations_of(column))
                .map_or(0, |()| self.count_from(column + 1, size - 1, &more))
        };
        (first..self.columns()).map(with).sum()
    }

    /// The coefficients of a column in all equations.
    fn equations_of(&self, column: usize) -> Row {
        let mut out = [0; Code::MAX_COLUMNS];
        match column.checked_sub(self.data_columns()) {
            Some(parity) => out[parity] = 1,
            None => self.rows.iter().zip(&mut out).for_each(|(row, o)| *o = row[column]),
        }
        out
    }

    /// Equation `parity` as a row over all columns.
    fn equation(&self, parity: usize) -> Row {
        let mut out = [0; Code::MAX_COLUMNS];
        out[..self.data_columns()].copy_from_slice(&self.rows[parity]);
        out[self.data_columns() + parity] = 1;
        out
    }

    /// Whether nothing can have changed in `column` if the content of the
    /// columns of `same` is as it was.
    pub fn is_unchanged(&self, column: usize, same: ColumnSet) -> bool {
        let k = self.data_columns();
        let parities_are =
            |data: usize| self.parities_of(data).iter().any(|parity| same.contains(k + parity));
        let data_is = |data: usize| same.contains(data) || parities_are(data);
        match column.checked_sub(k) {
            None => data_is(column),
            Some(parity) => same.contains(column) || self.support(parity).iter().all(data_is),
        }
    }

    /// The fewest columns from which `wanted` can be computed without those
    /// that are `lost`, not counting those of `near`, which are at hand
    /// anyway. Where sets tie, one that needs no multiplication; where more
    /// tie, they take turns by the number `turn`. `None` if it cannot be
    /// computed.
    ///
    /// # Panics
    ///
    /// If the code has no column `wanted`.
    pub fn helpers(
        &self,
        lost: ColumnSet,
        wanted: usize,
        near: ColumnSet,
        turn: u64,
    ) -> Option<ColumnSet> {
        assert!(wanted < self.columns(), "column {wanted} of {}", self.columns());
        let mut lost = lost;
        lost.insert(wanted);
        if self.is_mds() {
            return self.any_k(lost, near);
        }
        let mut best = Helpers { cost: (usize::MAX, usize::MAX, true), sets: Vec::new() };
        let lost_parity = |parity: &usize| lost.contains(self.data_columns() + parity);
        let own = |parity: &usize| self.data_columns() + parity == wanted;
        let usable: Vec<usize> =
            (0..self.parity_columns()).filter(|p| own(p) || !lost_parity(p)).collect();
        for size in 1..=usable.len() {
            for_each_choice(&usable, size, &mut |equations| {
                if let Some(row) = self.sum_without(equations, lost, wanted) {
                    best.offer(&row, wanted, near);
                }
            });
            if best.cost.0 <= self.fewest_helpers().saturating_sub(near.len()) {
                break;
            }
        }
        let turn = turn % best.sets.len().max(1) as u64;
        best.sets.get(turn as usize).copied()
    }

    /// Of an MDS code any k will do. Placement rotates, and the columns left
    /// out with it.
    fn any_k(&self, lost: ColumnSet, near: ColumnSet) -> Option<ColumnSet> {
        let left = ColumnSet::first(self.columns()).minus(lost);
        let order = left.intersection(near).iter().chain(left.minus(near).iter());
        let chosen: ColumnSet = order.take(self.data_columns()).collect();
        (chosen.len() == self.data_columns()).then_some(chosen)
    }

    /// No column has fewer helpers: the shortest equation has one column more.
    fn fewest_helpers(&self) -> usize {
        (0..self.parity_columns()).map(|p| self.support(p).len()).min().unwrap_or(0)
    }

    /// The sum of multiples of all these equations in which `wanted` is the
    /// only column of `lost`, if there is just one; where there are several,
    /// the plain sum of the equations, if it is one of them. (With
    /// coefficients of 0 and 1 no other sum has fewer columns; with others
    /// fewer equations do as well.)
    fn sum_without(&self, equations: &[usize], lost: ColumnSet, wanted: usize) -> Option<Row> {
        let mut rows: Vec<Row> = equations.iter().map(|p| self.equation(*p)).collect();
        let fits = |row: &Row| {
            row[wanted] != 0 && lost.iter().all(|column| column == wanted || row[column] == 0)
        };
        let mut left = eliminated(&mut rows, lost, wanted);
        match (left.next(), left.next()) {
            (Some(row), None) => Some(*row).filter(fits),
            (Some(_), Some(_)) => {
                let mut sum = [0; Code::MAX_COLUMNS];
                equations.iter().for_each(|p| add(&mut sum, &self.equation(*p), 1));
                Some(sum).filter(fits)
            }
            _ => None,
        }
    }

    /// How `want` is computed from the columns `have`: from one parity
    /// equation if one will do, else from a sum of them.
    ///
    /// A column may be wanted and available at once; it is then copied.
    ///
    /// # Errors
    ///
    /// If the columns in `have` do not determine it, or the code has no such
    /// column.
    pub fn decoder(&self, have: ColumnSet, want: usize) -> Result<Decoder, CodeError> {
        let columns = self.columns();
        if let Some(column) = have.iter().chain([want]).find(|&column| column >= columns) {
            return Err(CodeError::NoSuchColumn { column, columns });
        }
        if have.contains(want) {
            let alone = have.iter().map(|column| u8::from(column == want));
            return Ok(Decoder::new(alone.collect()));
        }
        let lost = ColumnSet::first(columns).minus(have);
        let row = self.solution(lost, want).ok_or(CodeError::NotDetermined { column: want })?;
        let scale = gf::inv(row[want]);
        Ok(Decoder::new(have.iter().map(|column| gf::mul(scale, row[column])).collect()))
    }

    /// A sum of equations in which `want` is the only column of `lost`.
    fn solution(&self, lost: ColumnSet, want: usize) -> Option<Row> {
        let equations = || (0..self.parity_columns()).map(|p| self.equation(p));
        let others = |row: &Row| lost.iter().any(|column| column != want && row[column] != 0);
        let alone = equations().filter(|row| row[want] != 0 && !others(row));
        let shortest = |row: &Row| row.iter().filter(|c| **c != 0).count();
        if let Some(row) = alone.min_by_key(shortest) {
            return Some(row);
        }
        let mut rows: Vec<Row> = equations().collect();
        eliminated(&mut rows, lost, want).find(|row| row[want] != 0).copied()
    }
}

/// The sets of helpers that cost least so far.
struct Helpers {
    /// Columns that are not at hand, columns, whether to be multiplied.
    cost: (usize, usize, bool),
    sets: Vec<ColumnSet>,
}

impl Helpers {
    fn offer(&mut self, row: &Row, wanted: usize, near: ColumnSet) {
        let set: ColumnSet =
            (0..row.len()).filter(|&column| column != wanted && row[column] != 0).collect();
        let multiplied = set.iter().any(|column| row[column] != row[wanted]);
        let cost = (set.minus(near).len(), set.len(), multiplied);
        if cost < self.cost {
            (self.cost, self.sets) = (cost, Vec::new());
        }
        if cost == self.cost && self.sets.len() < MOST_ALIKE && !self.sets.contains(&set) {
            self.sets.push(set);
        }
    }
}

/// Takes the columns of `lost` but `wanted` out of as many rows as there have to
/// be for it, and gives the rows that are left: they have none of these.
fn eliminated(rows: &mut [Row], lost: ColumnSet, wanted: usize) -> impl Iterator<Item = &Row> {
    let mut used = 0;
    for column in lost.iter().filter(|column| *column != wanted) {
        let Some(pivot) = (used..rows.len()).find(|n| rows[*n][column] != 0) else { continue };
        rows.swap(used, pivot);
        let (head, rest) = rows.split_at_mut(used + 1);
        let from = head[used];
        let scale = gf::inv(from[column]);
        for row in rest.iter_mut().filter(|row| row[column] != 0) {
            add(row, &from, gf::mul(row[column], scale));
        }
        used += 1;
    }
    rows[used..].iter()
}

/// Adds `factor` times a row to another.
fn add(to: &mut Row, from: &Row, factor: u8) {
    to.iter_mut().zip(from).for_each(|(sum, value)| *sum ^= gf::mul(factor, *value));
}

/// Vectors of which none is a sum of multiples of the others.
#[derive(Clone, Default)]
struct Basis {
    /// Each with the place of its first value that is not 0, at which later ones have 0.
    vectors: Vec<(usize, Row)>,
}

impl Basis {
    /// Adds a vector, unless it is a sum of multiples of those that are there.
    fn add(&mut self, mut vector: Row) -> Option<()> {
        for (at, before) in &self.vectors {
            if vector[*at] != 0 {
                let factor = gf::mul(vector[*at], gf::inv(before[*at]));
                add(&mut vector, before, factor);
            }
        }
        let at = vector.iter().position(|value| *value != 0)?;
        self.vectors.push((at, vector));
        Some(())
    }
}

/// Calls `each` with all choices of `size` of the `items`.
fn for_each_choice(items: &[usize], size: usize, each: &mut impl FnMut(&[usize])) {
    fn more(
        items: &[usize],
        size: usize,
        chosen: &mut Vec<usize>,
        each: &mut impl FnMut(&[usize]),
    ) {
        if size == 0 {
            return each(chosen);
        }
        for n in 0..(items.len() + 1).saturating_sub(size) {
            chosen.push(items[n]);
            more(&items[n + 1..], size - 1, chosen, each);
            chosen.pop();
        }
    }
    more(items, size, &mut Vec::with_capacity(size), each);
}

fn choose(n: u64, k: u64) -> u64 {
    if k > n {
        return 0;
    }
    (0..k).fold(1, |product, i| product * (n - i) / (i + 1))
}
