//! The columns as a tree of calculators (TPT-RAID's tree): each adds its own share, times its coefficient, to what its
//! children have added up, and sends that on. The root sends the sum to the column that it is for.
//!
//! Of each sum there is a tree: of each parity that is computed, or of a unit that is put back. In it are the columns
//! that have a share, as a binary heap by their numbers in the code. A column's children in any of the trees have higher
//! numbers than it, so columns of which each is in several trees never wait for one another.

use smallvec::SmallVec;
use weft_code::{Code, gf};

use super::cell::{Awaited, Cell, Destination, Part, Send, Step, Term, Value};
use super::{Spans, WriteRow};
use crate::layout::Geometry;
use crate::policy::CalculatedAt;
use crate::units::ColumnSet;

/// A row's trees.
struct Trees<'a> {
    row: &'a WriteRow,
    g: &'a Geometry,
    /// The columns of the code that are solved for, and of what others.
    solved: SmallVec<[(usize, Vec<Term>); 1]>,
    /// Of each column of the code that is summed up those that have a share; the first is the root.
    members: SmallVec<[(usize, SmallVec<[usize; 8]>); 2]>,
}

/// A column's place in the tree of a sum.
struct TreePlace {
    /// The column of the code that is summed up.
    of: usize,
    children: SmallVec<[usize; 2]>,
    /// Who gets what it has added up.
    parent: usize,
}

impl<'a> Trees<'a> {
    fn new(row: &'a WriteRow, g: &'a Geometry) -> Trees<'a> {
        let is_solved =
            |i: &usize| row.decodes() && row.data_lost(g, *i) && !row.needs_old(g, *i).is_empty();
        let target = row.target.map(|seat| g.code_column(row.stripe, seat));
        let solved = (0..g.data_columns()).filter(is_solved).chain(target);
        let solved = solved.map(|i| (i, row.solution(g, i))).collect();
        let mut trees = Trees { row, g, solved, members: SmallVec::new() };
        let parities = row.parities().iter().map(|j| g.data_columns() + j);
        for of in parities.chain(target) {
            let members = (0..g.code.columns()).filter(|s| !trees.share(*s, of).is_empty());
            let members = members.collect();
            trees.members.push((of, members));
        }
        trees
    }

    /// Which bytes of the unit a sum has.
    fn spans(&self, of: usize) -> Spans {
        match of.checked_sub(self.g.data_columns()).filter(|_| self.row.target.is_none()) {
            Some(j) => self.row.spans(self.g, j),
            None => self.row.parity,
        }
    }

    /// The share that column `s` of the code has in column `of`: of its old and new content, or of what changes.
    fn share(&self, s: usize, of: usize) -> SmallVec<[Term; 2]> {
        let (row, g) = (self.row, self.g);
        let shown = |terms: &[Term]| terms.iter().copied().find(|t| t.part == Part::From(s));
        if row.target.is_some() {
            return self.solved.iter().filter_map(|(_, terms)| shown(terms)).collect();
        }
        let j = of - g.data_columns();
        let small = row.changed.contains(j);
        let stays = |i| if small { row.cover(g, i).into() } else { row.leftover(g, i, j) };
        let is_live_data = s < g.data_columns() && !row.data_lost(g, s);
        let c = if is_live_data { g.code.coefficient(j, s) } else { 0 };
        let mut share: SmallVec<[Term; 2]> = SmallVec::new();
        match (row.decodes(), small) {
            (true, _) if c != 0 => {
                share.push(Term::new(c, Part::From(s), stays(s)));
                share.push(Term::new(c, Part::New, row.cover(g, s)));
            }
            (false, true) => share.push(Term::new(c, Part::From(s), row.cover(g, s))),
            (false, false) => share.push(Term::new(c, Part::NewOf(s), row.spans(g, j))),
            (true, _) => {}
        }
        let solved = self.solved.iter().filter_map(|(lost, terms)| Some((*lost, shown(terms)?)));
        share.extend(solved.map(|(lost, term)| {
            let c = gf::mul(term.coefficient, g.code.coefficient(j, lost));
            Term::new(c, term.part, stays(lost))
        }));
        share.retain(|term| term.coefficient != 0 && !term.spans.is_empty());
        share
    }

    /// The root of a sum's tree.
    fn root(&self, of: usize) -> Option<usize> {
        let (_, members) = self.members.iter().find(|(sum, _)| *sum == of)?;
        members.first().copied()
    }

    /// Its places in the trees that column `s` is in.
    fn places(&self, s: usize) -> SmallVec<[TreePlace; 2]> {
        let mut places = SmallVec::new();
        for (of, members) in &self.members {
            let Some(at) = members.iter().position(|member| *member == s) else { continue };
            let children = [2 * at + 1, 2 * at + 2];
            let children = children.into_iter().filter_map(|n| members.get(n).copied()).collect();
            let parent = if at == 0 { *of } else { members[(at - 1) / 2] };
            places.push(TreePlace { of: *of, children, parent });
        }
        places
    }
}

impl WriteRow {
    /// Has a column's cell add up its share and its children's, and send that on, before it writes.
    pub(super) fn add_tree_steps(&self, g: &Geometry, s: usize, cell: &mut Cell) {
        let trees = Trees::new(self, g);
        let places = trees.places(s);
        if places.is_empty() {
            return;
        }
        let mut steps = self.own_parts(g, s, cell);
        let mut awaited = Awaited::new();
        if self.decodes() && !cell.new.is_empty() {
            awaited.push((Part::New, cell.new.into()));
        }
        for TreePlace { of, children, .. } in &places {
            let sum = |child: &usize| (Part::Sum { from: *child, of: *of }, trees.spans(*of));
            awaited.extend(children.iter().map(sum));
        }
        if !awaited.is_empty() {
            steps.push(Step::Await(awaited));
        }
        for TreePlace { of, children, parent } in places {
            let spans = trees.spans(of);
            let sum = |child: usize| Term::new(1, Part::Sum { from: child, of }, spans);
            let terms = trees.share(s, of).into_iter().chain(children.into_iter().map(sum));
            let (value, part) = (Value::Sum(terms.collect()), Part::Sum { from: s, of });
            let to = Destination::Columns(ColumnSet::of(g.seat_of(self.stripe, parent)));
            steps.push(Step::Send(Send { value, spans, part, to }));
        }
        let place = usize::from(matches!(cell.steps.first(), Some(Step::Read(_))));
        cell.steps.insert_many(place, steps);
    }

    /// What a column's share is made of: what it has where something is solved for, else what changes, or its content.
    fn own_parts(&self, g: &Geometry, s: usize, cell: &Cell) -> SmallVec<[Step; 3]> {
        let mut steps = SmallVec::new();
        if self.decodes() || self.target.is_some() {
            let old = Step::Combine(Part::From(s), self.parity, Value::Old);
            steps.extend(self.solves_from.contains(s).then_some(old));
            return steps;
        }
        let Some(i) = self.data_of(g, g.seat_of(self.stripe, s)) else { return steps };
        let covering = g.code.parities_of(i);
        if !self.changed.intersection(covering).is_empty() && !cell.new.is_empty() {
            steps.push(Step::Combine(Part::From(i), cell.new.into(), Value::Change));
        }
        let content = self.content_shown(g, self.afresh.intersection(covering));
        if !content.is_empty() {
            steps.push(Step::Combine(Part::NewOf(i), content, Value::Content));
        }
        steps
    }

    /// Of what a column adds up what it writes: what the root has, and new data of columns that cannot be used, which
    /// the endpoint has.
    pub(super) fn sum_of_tree(&self, g: &Geometry, of: usize) -> Vec<Term> {
        let trees = Trees::new(self, g);
        let root = trees.root(of).map(|from| Term::new(1, Part::Sum { from, of }, trees.spans(of)));
        let j = of.checked_sub(g.data_columns()).filter(|_| self.target.is_none());
        let support = j.map_or(ColumnSet::EMPTY, |j| g.code.support(j));
        let lost = support.iter().filter(|&i| self.data_lost(g, i) && !self.cover(g, i).is_empty());
        let new = lost.map(|i| {
            let coefficient = g.code.coefficient(j.expect("a parity"), i);
            Term::new(coefficient, Part::NewOf(i), self.cover(g, i))
        });
        root.into_iter().chain(new).collect()
    }

    /// For each column of the code the number in a chain of messages of what it sends; with the `new_at`-th it has what is
    /// new.
    pub(super) fn tree_heights(&self, g: &Geometry, new_at: u8) -> [u8; Code::MAX_COLUMNS] {
        let mut heights = [2; Code::MAX_COLUMNS];
        if self.calculated_at != CalculatedAt::Tree {
            return heights;
        }
        let trees = Trees::new(self, g);
        for s in (0..g.code.columns()).rev() {
            let places = trees.places(s);
            let children = places.iter().flat_map(|place| &place.children);
            let children = children.map(|child| heights[*child]);
            let is_new = self
                .data_of(g, g.seat_of(self.stripe, s))
                .is_some_and(|i| !self.cover(g, i).is_empty());
            let own = if is_new { new_at } else { 1 };
            heights[s] = children.chain([own]).max().unwrap_or(own) + 1;
        }
        heights
    }
}
