//! Rows of a write: what is new, which parities change and how, and where they are computed. What each
//! role does about it is in [`steps`](super::steps).
//!
//! Parity is linear, so whatever reaches a parity column is a *contribution*: bytes that
//! belong to one data unit and count with that unit's coefficient. A small write contributes
//! old xor new (or old and new apart), a large or full one contributes content. The sum of
//! the contributions is the change of the parity, or its new content.

use super::{PlanError, Range, Role, Span, Spans, Strategy};
use crate::layout::Geometry;
use crate::policy::{CalculatedAt, Dispatch, Policy};
use crate::units::{ColumnSet, Timestamp};

/// The parities of a write that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Waits {
    /// Which, counted from 0.
    pub parities: ColumnSet,
    /// A time since when all of them have been marked as out of date wherever the write covers them, if they have. Then nothing
    /// of it need be said to them.
    pub marked_since: Option<Timestamp>,
    /// Whether they wait because nothing determines one of them, rather than by the volume's policy: then no bound of that keeps
    /// the others from it.
    pub must: bool,
    /// Whether instead all parities keep a copy of the new content, where the write lies in whole sectors of one unit, and no column
    /// is avoided.
    pub copied: bool,
}

impl Waits {
    /// No parity waits.
    pub const NONE: Waits =
        Waits { parities: ColumnSet::EMPTY, marked_since: None, must: false, copied: false };

    /// The parities keep copies.
    pub const COPIED: Waits = Waits { copied: true, ..Waits::NONE };
}

impl From<ColumnSet> for Waits {
    fn from(parities: ColumnSet) -> Waits {
        Waits { parities, ..Waits::NONE }
    }
}

/// The most bytes of a write that is kept as copies: each is written a second time by its fold.
pub const MOST_COPIED: u64 = 64 << 10;

/// The plan of one chunk of a write, or of the rebuilding of a column's part.
#[derive(Clone, Debug, Hash)]
pub struct WritePlan {
    /// The stripes' rows, in order.
    pub rows: Vec<WriteRow>,
}

/// One stripe of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WriteRow {
    /// The stripe's number in the volume.
    pub stripe: u64,
    /// The bytes of the stripe's data that are new, `lo..hi` of k units end to end.
    pub lo: u64,
    /// See `lo`.
    pub hi: u64,
    /// The seats that cannot be used.
    pub avoid: ColumnSet,
    /// The parities, counted from 0, to which a change is added: small writes.
    pub changed: ColumnSet,
    /// The parities, counted from 0, that are computed afresh: large and full writes.
    pub afresh: ColumnSet,
    /// The parities, counted from 0, that are only marked as out of date, and computed later (AFRAID 2).
    pub marked: ColumnSet,
    /// Those that are marked already, so that nothing happens to them: there the write relies on their marks.
    pub relied_on: ColumnSet,
    /// The parities, counted from 0, that keep a copy of the new content, and take it in later (`redundancy=copied`).
    pub copied: ColumnSet,
    /// Where parity is computed.
    pub calculated_at: CalculatedAt,
    /// The column whose node is the calculator; the originator's is if there is none.
    pub calculator: Option<usize>,
    /// Whether the originator hands out new data only when it knows all that is to be written,
    /// and changes of parity as content.
    pub commanded: bool,
    /// Whether every column that will write is asked first and says that it may, and gets what to
    /// write when all have.
    pub asks_first: bool,
    /// The columns of the code that show the originator all they have where parity changes, because
    /// lost data has to be solved for.
    pub solves_from: ColumnSet,
    /// The bytes of parity units that change, over all of them: whole sectors.
    pub parity: Spans,
    /// The seat whose unit a rebuild puts back.
    pub target: Option<usize>,
    /// Whether it is not put back but marked, since nothing determines it any more.
    pub loses: bool,
}

impl WritePlan {
    /// Plans a write of `range` when the columns of `avoid` cannot be used, and no node has anything to compute.
    pub fn new(
        g: &Geometry,
        range: Range,
        avoid: ColumnSet,
        policy: Policy,
    ) -> Result<WritePlan, PlanError> {
        let mut plan = WritePlan::deferring(g, range, avoid, policy, ColumnSet::EMPTY)?;
        plan.choose_calculators(g, |_| 0);
        Ok(plan)
    }

    /// Plans a write of `range` when the columns of `avoid` cannot be used and these parities, counted from 0, wait:
    /// they are only marked, unless they are already. In a stripe of which all data is new they do not, nor where a data column cannot be used.
    pub fn deferring(
        g: &Geometry,
        range: Range,
        avoid: ColumnSet,
        policy: Policy,
        waits: impl Into<Waits>,
    ) -> Result<WritePlan, PlanError> {
        let waits = waits.into();
        let stripes = range.stripes(g);
        if !g.is_recoverable_in(stripes.clone(), avoid) {
            return Err(PlanError::NotRecoverable { lost: avoid });
        }
        let mut rows: Vec<WriteRow> = Vec::with_capacity((stripes.end - stripes.start) as usize);
        for stripe in stripes {
            let row = match rows.last() {
                // With nothing lost, whole stripes differ in nothing but their number.
                Some(last)
                    if avoid.is_empty()
                        && last.is_whole(g)
                        && range.within(g, stripe) == (last.lo, last.hi) =>
                {
                    WriteRow { stripe, ..*last }
                }
                _ => WriteRow::new(g, range, stripe, avoid, policy, waits)?,
            };
            // Else nobody left would know of it (docs/internals/architecture.md, "Commit and settling").
            let remembered = |i| row.is_remembered(g, i);
            assert!(avoid.is_empty() || row.new_units(g).iter().all(remembered), "{row:?}");
            rows.push(row);
        }
        Ok(WritePlan { rows })
    }

    /// Plans the rebuilding of the bytes `part` (whole sectors) of `seat` in each of these stripes, without its column.
    pub fn rebuild(
        g: &Geometry,
        stripes: std::ops::Range<u64>,
        seat: usize,
        part: Span,
        avoid: ColumnSet,
        policy: Policy,
    ) -> Result<WritePlan, PlanError> {
        let row = |stripe| WriteRow::rebuild(g, stripe, seat, part, avoid, policy);
        Ok(WritePlan { rows: stripes.map(row).collect::<Result<_, _>>()? })
    }

    /// Plans that these parities of `stripe`, counted from 0, are computed together from its data: the bytes `part` (whole
    /// sectors) of their units. All of them cover all data.
    pub fn refresh(g: &Geometry, stripe: u64, part: Span, parities: ColumnSet) -> WritePlan {
        assert!(g.code.covers_all(), "parities of different data are not computed together");
        let nothing = ColumnSet::EMPTY;
        let row = WriteRow::put_back(stripe, 0, part, nothing, nothing);
        WritePlan { rows: vec![WriteRow { target: None, afresh: parities, ..row }] }
    }

    /// Plans the copying of the bytes `part` (whole sectors) of `seat` of `stripe` from another
    /// disk: its column waits for the content, and no other takes part.
    pub fn copy(g: &Geometry, stripe: u64, seat: usize, part: Span) -> WritePlan {
        let all = (0..g.layout.seats()).collect();
        let nobody = ColumnSet::EMPTY;
        WritePlan { rows: vec![WriteRow::put_back(stripe, seat, part, all, nobody)] }
    }

    /// Plans that the bytes `part` (whole sectors) of `seat` of `stripe` are lost for good: its column marks them, and
    /// no other takes part.
    pub fn lose(g: &Geometry, stripe: u64, seat: usize, part: Span) -> WritePlan {
        let mut plan = WritePlan::copy(g, stripe, seat, part);
        plan.rows[0].loses = true;
        plan
    }

    /// The columns that change something on their disks.
    pub fn participants(&self, g: &Geometry) -> ColumnSet {
        self.columns_at(g, |row| row.changed_seats(g))
    }

    /// Those of them that write nothing and only mark parity as out of date.
    pub fn markers(&self, g: &Geometry) -> ColumnSet {
        let marked = |row: &WriteRow| row.seats_of(g, row.marked);
        if self.rows.iter().all(|row| row.marked.is_empty()) {
            return ColumnSet::EMPTY;
        }
        let write = self.columns_at(g, |row| row.changed_seats(g).minus(marked(row)));
        self.columns_at(g, marked).intersection(self.participants(g)).minus(write)
    }

    /// The columns that have these seats of any row.
    fn columns_at(&self, g: &Geometry, seats: impl Fn(&WriteRow) -> ColumnSet) -> ColumnSet {
        let columns = |row: &WriteRow| g.columns_at(row.stripe, seats(row));
        self.rows.iter().map(columns).fold(ColumnSet::EMPTY, ColumnSet::union)
    }
}

impl WriteRow {
    fn new(
        g: &Geometry,
        range: Range,
        stripe: u64,
        avoid: ColumnSet,
        policy: Policy,
        waits: Waits,
    ) -> Result<WriteRow, PlanError> {
        let (lo, hi) = range.within(g, stripe);
        let mut row = WriteRow {
            stripe,
            lo,
            hi,
            avoid: g.seats_of(stripe, avoid),
            changed: ColumnSet::EMPTY,
            afresh: ColumnSet::EMPTY,
            marked: ColumnSet::EMPTY,
            relied_on: ColumnSet::EMPTY,
            copied: ColumnSet::EMPTY,
            calculated_at: CalculatedAt::Parity,
            calculator: None,
            commanded: policy.dispatch == Dispatch::Commanded,
            asks_first: policy.asks_first(),
            solves_from: ColumnSet::EMPTY,
            parity: Spans::EMPTY,
            target: None,
            loses: false,
        };
        row.parity = row.spans_over(g, ColumnSet::first(g.data_columns()));
        if waits.copied && row.can_be_copied(g) {
            let (unit, _) = row.units(g);
            row.copied = g.code.parities_of(unit);
            return Ok(row);
        }
        let waiting = row.waiting(g, waits.parities);
        match waits.marked_since {
            None => row.marked = waiting,
            Some(_) => row.relied_on = waiting,
        }
        row.choose_strategy(g, policy.strategy).ok_or(PlanError::NotRecoverable { lost: avoid })?;
        row.choose_place(g, policy);
        Ok(row)
    }

    /// A row that puts back the bytes `part` of one unit, computed from others.
    fn rebuild(
        g: &Geometry,
        stripe: u64,
        seat: usize,
        part: Span,
        avoid: ColumnSet,
        policy: Policy,
    ) -> Result<WriteRow, PlanError> {
        let lost = avoid.union(ColumnSet::of(g.layout.column_at(stripe, seat)));
        let avoid = g.seats_of(stripe, lost);
        let helpers = g
            .helpers(stripe, avoid, g.code_column(stripe, seat), ColumnSet::EMPTY)
            .ok_or(PlanError::NotRecoverable { lost })?;
        let row = WriteRow::put_back(stripe, seat, part, avoid, helpers);
        let calculated_at = match policy.calculated_at {
            Some(there @ (CalculatedAt::Balanced | CalculatedAt::Tree)) => there,
            _ => row.calculated_at,
        };
        Ok(WriteRow { calculated_at, ..row })
    }

    /// A row that writes nothing but the bytes `part` of one unit, which come from the originator.
    fn put_back(
        stripe: u64,
        seat: usize,
        part: Span,
        avoid: ColumnSet,
        helpers: ColumnSet,
    ) -> WriteRow {
        WriteRow {
            stripe,
            lo: 0,
            hi: 0,
            avoid,
            changed: ColumnSet::EMPTY,
            afresh: ColumnSet::EMPTY,
            marked: ColumnSet::EMPTY,
            relied_on: ColumnSet::EMPTY,
            copied: ColumnSet::EMPTY,
            calculated_at: CalculatedAt::Originator,
            calculator: None,
            commanded: false,
            asks_first: false,
            solves_from: helpers,
            parity: part.sectors_out().into(),
            target: Some(seat),
            loses: false,
        }
    }

    /// Which of these parities wait: none if all data of the stripe is new, or if data columns cannot be used.
    fn waiting(&self, g: &Geometry, waits: ColumnSet) -> ColumnSet {
        let lost = |i: usize| self.data_lost(g, i);
        if waits.is_empty() || self.is_whole(g) || (0..g.data_columns()).any(lost) {
            return ColumnSet::EMPTY;
        }
        let new = self.new_units(g);
        let covers = |j: usize| !new.intersection(g.code.support(j)).is_empty();
        let can_be_used = |j: usize| !self.avoid.contains(g.layout.parity_seat(self.stripe, j));
        waits
            .iter()
            .filter(|&j| j < g.code.parity_columns())
            .filter(|&j| covers(j) && can_be_used(j))
            .collect()
    }

    /// Whether all data of the stripe is new.
    fn is_whole(&self, g: &Geometry) -> bool {
        self.lo == 0 && self.hi == g.stripe_bytes()
    }

    /// Whether the new content can be kept as copies: a few whole sectors of one unit, and all columns there.
    fn can_be_copied(&self, g: &Geometry) -> bool {
        let (first, last) = self.units(g);
        let cover = self.cover(g, first);
        first == last
            && self.avoid.is_empty()
            && !self.is_whole(g)
            && cover == cover.sectors_out()
            && cover.len() <= MOST_COPIED
            // A copy names its unit by a byte, and the last byte stands for all units.
            && first < usize::from(u8::MAX)
    }

    /// The first and the last data unit with new bytes.
    pub fn units(&self, g: &Geometry) -> (usize, usize) {
        let last = self.hi.saturating_sub(1).max(self.lo) / g.unit;
        ((self.lo / g.unit) as usize, last as usize)
    }

    /// The new bytes of data unit `i`.
    pub fn cover(&self, g: &Geometry, i: usize) -> Span {
        let start = i as u64 * g.unit;
        let end = start + g.unit;
        Span::new(self.lo.clamp(start, end) - start, self.hi.clamp(start, end) - start)
    }

    /// The units with new bytes.
    pub fn new_units(&self, g: &Geometry) -> ColumnSet {
        let (first, last) = self.units(g);
        match self.lo < self.hi {
            true => ColumnSet::first(last + 1).minus(ColumnSet::first(first)),
            false => ColumnSet::EMPTY,
        }
    }

    /// The whole sectors in which there are new bytes of these data units.
    fn spans_over(&self, g: &Geometry, units: ColumnSet) -> Spans {
        let new = self.new_units(g).intersection(units);
        Spans::union(new.iter().map(|i| self.cover(g, i).sectors_out()))
    }

    /// The bytes of parity `j` that change: whole sectors.
    pub fn spans(&self, g: &Geometry, j: usize) -> Spans {
        match g.code.covers_all() {
            true => self.parity,
            false => self.spans_over(g, g.code.support(j)),
        }
    }

    /// The bytes of data unit `i` that must be known to compute parity `j` afresh and that are not
    /// new.
    pub fn leftover(&self, g: &Geometry, i: usize, j: usize) -> Spans {
        self.spans(g, j).minus(self.cover(g, i))
    }

    /// Whether the column of data unit `i` cannot be used.
    pub fn data_lost(&self, g: &Geometry, i: usize) -> bool {
        !self.avoid.is_empty() && self.avoid.contains(g.layout.data_column(self.stripe, i))
    }

    /// Whether the column of data unit `i`, or of a parity that covers it, can be used.
    fn is_remembered(&self, g: &Geometry, i: usize) -> bool {
        let known = self.parities().union(self.copied);
        !self.data_lost(g, i) || !known.intersection(g.code.parities_of(i)).is_empty()
    }

    /// The parities, counted from 0, that are out of date after it.
    pub fn waits(&self) -> ColumnSet {
        self.marked.union(self.relied_on)
    }

    /// The parities, counted from 0, that are computed.
    pub fn parities(&self) -> ColumnSet {
        self.changed.union(self.afresh)
    }

    /// Whether the originator solves for lost data.
    pub fn decodes(&self) -> bool {
        !self.solves_from.is_empty() && self.target.is_none()
    }

    /// Whether the target is copied from another disk.
    pub fn copies(&self) -> bool {
        self.target.is_some() && self.solves_from.is_empty() && !self.loses
    }

    /// How the row's parity comes about; `None` if some parities take in changes and some are
    /// computed afresh.
    pub fn strategy(&self, g: &Geometry) -> Option<Strategy> {
        if self.target.is_some() {
            return Some(Strategy::Rebuild);
        }
        match (self.changed.is_empty(), self.afresh.is_empty()) {
            (_, true) => Some(Strategy::Small),
            (false, false) => None,
            (true, false) => {
                let known =
                    |j: usize| g.code.support(j).iter().all(|i| self.leftover(g, i, j).is_empty());
                let full = self.afresh.iter().all(known);
                Some(if full { Strategy::Full } else { Strategy::Large })
            }
        }
    }

    /// Where parity is computed. Of a volume with a controller that no data passes a column gathers what has to be.
    fn choose_place(&mut self, g: &Geometry, policy: Policy) {
        self.choose_cheapest(g, policy);
        let there = self.calculated_at == CalculatedAt::Originator && policy.sees_no_data();
        if there && self.cell(g, Role::Calculator).gathers() {
            self.calculated_at = CalculatedAt::Balanced;
        }
    }

    /// Fewest bytes on the wire, then fewest steps one after the other.
    fn choose_cheapest(&mut self, g: &Geometry, policy: Policy) {
        let columns_do = match policy.calculated_at {
            Some(there @ (CalculatedAt::Balanced | CalculatedAt::Tree)) if !self.commanded => {
                Some(there)
            }
            _ => None,
        };
        if let Some(there) = columns_do.filter(|_| !self.parities().is_empty()) {
            self.calculated_at = there;
            return;
        }
        if self.decodes() || self.commanded || columns_do.is_some() {
            self.calculated_at = CalculatedAt::Originator;
            return;
        }
        let places = [CalculatedAt::Originator, CalculatedAt::Solely, CalculatedAt::Parity];
        let cheapest =
            || places.into_iter().min_by_key(|&p| self.place_cost(g, p)).expect("three places");
        self.calculated_at = policy.calculated_at.unwrap_or_else(cheapest);
    }

    /// Bytes on the wire beyond the new data itself, and messages in a chain.
    fn place_cost(&self, g: &Geometry, place: CalculatedAt) -> (u64, u32) {
        if g.code.covers_all() {
            return self.place_cost_of_all(g, place);
        }
        let new = self.new_units(g);
        let new_in = |units: ColumnSet| -> u64 {
            new.intersection(units).iter().map(|i| self.cover(g, i).len()).sum()
        };
        let (mut bytes, mut chain) = (0, 0);
        for j in self.changed.iter() {
            let covered = new_in(g.code.support(j));
            bytes += match place {
                CalculatedAt::Originator => self.spans(g, j).len(),
                CalculatedAt::Solely => 2 * covered,
                CalculatedAt::Parity | CalculatedAt::Balanced | CalculatedAt::Tree => covered,
            };
            chain = if place == CalculatedAt::Originator { 4 } else { 3 };
        }
        for j in self.afresh.iter() {
            let support = g.code.support(j);
            let old: u64 = support.iter().map(|i| self.leftover(g, i, j).len()).sum();
            let spans = self.spans(g, j).len();
            let (of_parity, hops) = match (place, old > 0) {
                (CalculatedAt::Originator, true) => (spans, 4),
                (CalculatedAt::Originator, false) => (spans, 2),
                (CalculatedAt::Solely, true) => (old + new_in(support), 3),
                (CalculatedAt::Solely, false) => (new_in(support), 2),
                (CalculatedAt::Parity | CalculatedAt::Balanced | CalculatedAt::Tree, _) => {
                    (spans * support.len() as u64, 3)
                }
            };
            bytes += of_parity;
            chain = chain.max(hops);
        }
        if place == CalculatedAt::Originator {
            // What the originator is shown, it is shown once.
            let shown = |i: usize| self.needs_old(g, i).len();
            bytes += (0..g.data_columns()).map(shown).sum::<u64>();
        }
        (bytes, chain)
    }

    /// The same where all parities cover all data, and so go one way.
    fn place_cost_of_all(&self, g: &Geometry, place: CalculatedAt) -> (u64, u32) {
        let parities = self.parities().len() as u64;
        let new = if parities == 0 { 0 } else { self.hi - self.lo };
        let result = parities * self.parity.len();
        if self.afresh.is_empty() {
            return match place {
                CalculatedAt::Originator => (new + result, if parities == 0 { 0 } else { 4 }),
                CalculatedAt::Solely => (2 * parities * new, if parities == 0 { 0 } else { 3 }),
                CalculatedAt::Parity | CalculatedAt::Balanced | CalculatedAt::Tree => {
                    (parities * new, if parities == 0 { 0 } else { 3 })
                }
            };
        }
        let old = g.data_columns() as u64 * self.parity.len() - new;
        let reads = old > 0;
        match place {
            CalculatedAt::Originator => (old + result, if reads { 4 } else { 2 }),
            CalculatedAt::Solely => (parities * (old + new), if reads { 3 } else { 2 }),
            CalculatedAt::Parity | CalculatedAt::Balanced | CalculatedAt::Tree => {
                (result * g.data_columns() as u64, 3)
            }
        }
    }

    /// The old bytes of data unit `i` that somebody needs to know: those that change, where a parity
    /// takes in changes, and those that stay, where one is computed afresh.
    pub fn needs_old(&self, g: &Geometry, i: usize) -> Spans {
        if g.code.covers_all() {
            // All parities go one way.
            return match (self.changed.is_empty(), self.afresh.is_empty()) {
                (false, _) => self.cover(g, i).into(),
                (true, false) => self.parity.minus(self.cover(g, i)),
                (true, true) => Spans::EMPTY,
            };
        }
        let covering = g.code.parities_of(i);
        let changed = match self.changed.intersection(covering).is_empty() {
            true => Span::EMPTY,
            false => self.cover(g, i),
        };
        let afresh = self.afresh.intersection(covering);
        let left = afresh.iter().map(|j| self.leftover(g, i, j));
        Spans::union(left.flat_map(Spans::iter).chain([changed]))
    }

    /// The seats of which something changes.
    pub fn changed_seats(&self, g: &Geometry) -> ColumnSet {
        let data = self.new_units(g).iter().map(|i| g.layout.data_column(self.stripe, i));
        let kept = self.marked.union(self.copied);
        let parity = self.seats_of(g, self.parities().union(kept));
        let target = self.target.filter(|_| !self.parity.is_empty());
        data.collect::<ColumnSet>()
            .union(parity)
            .minus(self.avoid)
            .union(target.into_iter().collect())
    }

    /// The seats that may have something to do.
    pub(super) fn busy_seats(&self, g: &Geometry) -> ColumnSet {
        let others_show = !self.afresh.is_empty()
            || !self.solves_from.is_empty()
            || self.calculated_at == CalculatedAt::Tree;
        match others_show {
            true => ColumnSet::first(g.layout.seats()),
            false => self.changed_seats(g),
        }
    }

    /// The seats of these parities.
    pub fn seats_of(&self, g: &Geometry, parities: ColumnSet) -> ColumnSet {
        parities.iter().map(|j| g.layout.parity_seat(self.stripe, j)).collect()
    }
}
