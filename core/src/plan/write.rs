//! Rows and cells of a write.
//!
//! Parity is linear, so whatever reaches a parity column is a *contribution*: bytes that
//! belong to one data unit and count with that unit's coefficient. A small write contributes
//! old xor new (or old and new apart), a large or full one contributes content. The sum of
//! the contributions is the change of the parity, or its new content.

use super::{Dispatch, ParityAt, PlanError, Policy, Range, Span, Spans, Strategy};
use crate::layout::{ColumnRole, Geometry};
use crate::units::ColumnSet;

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
    /// The columns that cannot be used.
    pub avoid: ColumnSet,
    /// How parity comes about.
    pub strategy: Strategy,
    /// Where parity is computed.
    pub parity_at: ParityAt,
    /// Whether the originator hands out new data only when it knows all that is to be written,
    /// and changes of parity as content.
    pub commanded: bool,
    /// Whether every column that will write is asked first and says that it may, and gets what to
    /// write when all have.
    pub asks_first: bool,
    /// Whether lost data has to be solved for: the originator then reads k whole columns.
    pub decode: bool,
    /// The bytes of each parity unit that change: whole sectors.
    pub parity: Spans,
    /// The column that a rebuild puts back.
    pub target: Option<usize>,
}

/// What a cell sends of its old or new content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sends {
    /// Its old content.
    Old,
    /// Its old content xor its new content.
    Delta,
    /// Its new content, with the old where nothing is new.
    Content,
}

/// Where a cell sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Destination {
    /// To every parity column that can be used.
    Parities,
    /// To the originator.
    Originator,
}

/// The contributions that a cell waits for before it can write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Awaits {
    /// From the columns of these data units (or, at the originator, these columns of the
    /// code).
    pub data: ColumnSet,
    /// From the originator, on behalf of these data units.
    pub originator: ColumnSet,
    /// The finished parity (or rebuilt content) from the originator.
    pub result: bool,
}

/// One column's part in one stripe of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WriteCell {
    /// What the column holds.
    pub role: ColumnRole,
    /// New data that the originator sends to it.
    pub new: Span,
    /// Old content to read: whole sectors.
    pub read: Spans,
    /// What to send, which bytes, and where.
    pub send: Option<(Sends, Spans, Destination)>,
    /// What to wait for.
    pub awaits: Awaits,
    /// What to prepare and write: whole sectors.
    pub write: Spans,
    /// Whether what is written is a change to be added, not content.
    pub delta: bool,
}

impl WriteCell {
    /// Whether the column has nothing to do.
    pub fn is_idle(&self) -> bool {
        self.read.is_empty() && self.write.is_empty()
    }
}

impl WritePlan {
    /// Plans a write of `range` when the columns of `avoid` cannot be used.
    pub fn new(
        g: &Geometry,
        range: Range,
        avoid: ColumnSet,
        policy: Policy,
    ) -> Result<WritePlan, PlanError> {
        check_lost(g, avoid)?;
        let stripes = range.stripes(g);
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
                _ => WriteRow::new(g, range, stripe, avoid, policy)?,
            };
            rows.push(row);
        }
        Ok(WritePlan { rows })
    }

    /// Plans the rebuilding of the bytes `part` (whole sectors) of `column` of `stripe`.
    pub fn rebuild(
        g: &Geometry,
        stripe: u64,
        column: usize,
        part: Span,
        avoid: ColumnSet,
    ) -> Result<WritePlan, PlanError> {
        let avoid = avoid.union(ColumnSet::of(column));
        check_lost(g, avoid)?;
        Ok(WritePlan { rows: vec![WriteRow::put_back(stripe, column, part, avoid)] })
    }

    /// Plans the copying of the bytes `part` (whole sectors) of `column` of `stripe` from another
    /// disk: the column waits for its content, and no other takes part.
    pub fn copy(g: &Geometry, stripe: u64, column: usize, part: Span) -> WritePlan {
        let all = (0..g.layout.width()).collect();
        WritePlan { rows: vec![WriteRow::put_back(stripe, column, part, all)] }
    }

    /// The columns that change something on their disks.
    pub fn participants(&self, g: &Geometry) -> ColumnSet {
        let columns = 0..g.layout.width();
        columns.filter(|&c| self.rows.iter().any(|r| r.changes(g, c))).collect()
    }

    /// The columns that show something and change nothing.
    pub fn readers(&self, g: &Geometry) -> ColumnSet {
        let (mut shows, mut writes) = (ColumnSet::EMPTY, ColumnSet::EMPTY);
        for row in &self.rows {
            for column in 0..g.layout.width() {
                let cell = row.cell(g, column);
                if cell.send.is_some() {
                    shows.insert(column);
                }
                if !cell.write.is_empty() {
                    writes.insert(column);
                }
            }
        }
        shows.minus(writes)
    }
}

fn check_lost(g: &Geometry, avoid: ColumnSet) -> Result<(), PlanError> {
    let (lost, bears) = (avoid.len(), g.layout.parity);
    if lost > bears { Err(PlanError::TooManyLost { lost, bears }) } else { Ok(()) }
}

impl WriteRow {
    fn new(
        g: &Geometry,
        range: Range,
        stripe: u64,
        avoid: ColumnSet,
        policy: Policy,
    ) -> Result<WriteRow, PlanError> {
        let (lo, hi) = range.within(g, stripe);
        let mut row = WriteRow {
            stripe,
            lo,
            hi,
            avoid,
            strategy: Strategy::Small,
            parity_at: ParityAt::Parity,
            commanded: policy.dispatch == Dispatch::Commanded,
            asks_first: policy.asks_first(),
            decode: false,
            parity: Spans::EMPTY,
            target: None,
        };
        let (first, last) = row.units(g);
        row.parity = Spans::union((first..=last).map(|i| row.cover(g, i).sectors_out()));
        row.choose_strategy(g, policy);
        row.choose_place(g, policy);
        Ok(row)
    }

    /// A row that writes nothing but the bytes `part` of one column, which come from the originator.
    fn put_back(stripe: u64, column: usize, part: Span, avoid: ColumnSet) -> WriteRow {
        WriteRow {
            stripe,
            lo: 0,
            hi: 0,
            avoid,
            strategy: Strategy::Rebuild,
            parity_at: ParityAt::Originator,
            commanded: false,
            asks_first: false,
            decode: true,
            parity: part.sectors_out().into(),
            target: Some(column),
        }
    }

    /// Whether all data of the stripe is new.
    fn is_whole(&self, g: &Geometry) -> bool {
        self.lo == 0 && self.hi == g.stripe_bytes()
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

    /// The bytes of data unit `i` that parity covers here and that are not new.
    pub fn leftover(&self, g: &Geometry, i: usize) -> Spans {
        self.parity.minus(self.cover(g, i))
    }

    fn data_lost(&self, g: &Geometry, i: usize) -> bool {
        !self.avoid.is_empty() && self.avoid.contains(g.layout.data_column(self.stripe, i))
    }

    /// The parity units whose columns can be used.
    pub fn live_parities(&self, g: &Geometry) -> ColumnSet {
        if self.avoid.is_empty() {
            return ColumnSet::first(g.layout.parity);
        }
        let live = |j: &usize| !self.avoid.contains(g.layout.parity_column(self.stripe, *j));
        (0..g.layout.parity).filter(live).collect()
    }

    /// Fewest reads among what is possible; small where they tie (TickerTAIP, Figure 7).
    fn choose_strategy(&mut self, g: &Geometry, policy: Policy) {
        let (first, last) = self.units(g);
        let parities = self.live_parities(g).len();
        if parities == 0 {
            self.strategy = Strategy::Small;
            return;
        }
        let all = || 0..g.layout.data;
        if all().all(|i| self.leftover(g, i).is_empty()) {
            self.strategy = Strategy::Full;
            return;
        }
        let small_possible = (first..=last).all(|i| !self.data_lost(g, i));
        let small_reads = (last - first + 1) + parities * self.parity.count();
        let unread = all().filter(|&i| !self.leftover(g, i).is_empty());
        let large_possible = unread.clone().all(|i| !self.data_lost(g, i));
        let large_reads: usize = unread.map(|i| self.leftover(g, i).count()).sum();
        let prefers_large = match policy.strategy {
            Some(Strategy::Small) => false,
            Some(Strategy::Large) => true,
            _ => large_reads < small_reads,
        };
        self.strategy = match (small_possible, large_possible) {
            (true, true) if prefers_large => Strategy::Large,
            (true, _) => Strategy::Small,
            (false, _) => Strategy::Large,
        };
        self.decode = !small_possible && !large_possible;
    }

    /// Fewest bytes on the wire, then fewest steps one after the other.
    fn choose_place(&mut self, g: &Geometry, policy: Policy) {
        if self.decode || self.commanded {
            self.parity_at = ParityAt::Originator;
            return;
        }
        let places = [ParityAt::Originator, ParityAt::Solely, ParityAt::Parity];
        let cheapest =
            || places.into_iter().min_by_key(|&p| self.place_cost(g, p)).expect("three places");
        self.parity_at = policy.parity_at.unwrap_or_else(cheapest);
    }

    /// Bytes on the wire beyond the new data itself, and messages in a chain.
    fn place_cost(&self, g: &Geometry, place: ParityAt) -> (u64, u32) {
        let parities = self.live_parities(g).len() as u64;
        let units = || 0..g.layout.data;
        let new: u64 = units().map(|i| self.cover(g, i).len()).sum();
        let result = parities * self.parity.len();
        if self.strategy == Strategy::Small {
            return match place {
                ParityAt::Originator => (new + result, 4),
                ParityAt::Solely => (2 * parities * new, 3),
                ParityAt::Parity => (parities * new, 3),
            };
        }
        let old: u64 = units().map(|i| self.leftover(g, i).len()).sum();
        let reads = old > 0;
        match place {
            ParityAt::Originator => (old + result, if reads { 4 } else { 2 }),
            ParityAt::Solely => (parities * (old + new), if reads { 3 } else { 2 }),
            ParityAt::Parity => (result * g.layout.data as u64, 3),
        }
    }

    /// Whether `column` changes something on its disk: its cell has something to write.
    pub fn changes(&self, g: &Geometry, column: usize) -> bool {
        if self.target == Some(column) {
            return !self.parity.is_empty();
        }
        if self.avoid.contains(column) {
            return false;
        }
        match g.layout.role(self.stripe, column) {
            ColumnRole::Data(i) => !self.cover(g, i).is_empty(),
            ColumnRole::Parity(_) => self.target.is_none() && !self.parity.is_empty(),
        }
    }

    /// The part of `column`.
    pub fn cell(&self, g: &Geometry, column: usize) -> WriteCell {
        let role = g.layout.role(self.stripe, column);
        let idle = WriteCell {
            role,
            new: Span::EMPTY,
            read: Spans::EMPTY,
            send: None,
            awaits: Awaits::default(),
            write: Spans::EMPTY,
            delta: false,
        };
        if self.target == Some(column) {
            let awaits = Awaits { result: true, ..Awaits::default() };
            return WriteCell { awaits, write: self.parity, ..idle };
        }
        if self.avoid.contains(column) {
            return idle;
        }
        let cell = match role {
            ColumnRole::Data(i) => self.data_cell(g, i, idle),
            ColumnRole::Parity(_) if self.target.is_some() => idle,
            ColumnRole::Parity(_) => self.parity_cell(g, idle),
        };
        let cell = if self.decode { self.decode_cell(g, column, cell) } else { cell };
        if self.asks_first && cell.send.is_none() && !cell.write.is_empty() {
            // It has nothing to show; that it answers says that it may write.
            let send = Some((Sends::Old, Spans::EMPTY, Destination::Originator));
            return WriteCell { send, ..cell };
        }
        cell
    }

    fn data_cell(&self, g: &Geometry, i: usize, idle: WriteCell) -> WriteCell {
        let new = self.cover(g, i);
        let write = Spans::from(new.sectors_out());
        let leftover = self.leftover(g, i);
        let parities = !self.live_parities(g).is_empty();
        let at = self.parity_at;
        let (read, send) = match self.strategy {
            Strategy::Rebuild => (Spans::EMPTY, None),
            Strategy::Small if new.is_empty() => (Spans::EMPTY, None),
            Strategy::Small if !parities => {
                let aligned = write == Spans::from(new);
                (if aligned { Spans::EMPTY } else { write }, None)
            }
            Strategy::Small => match at {
                ParityAt::Parity => (write, Some((Sends::Delta, new.into()))),
                _ => (write, Some((Sends::Old, new.into()))),
            },
            Strategy::Large | Strategy::Full => match at {
                ParityAt::Parity => (leftover.sectors_out(), Some((Sends::Content, self.parity))),
                _ if leftover.is_empty() => (Spans::EMPTY, None),
                _ => (leftover.sectors_out(), Some((Sends::Old, leftover))),
            },
        };
        let to = match at {
            ParityAt::Originator => Destination::Originator,
            _ => Destination::Parities,
        };
        WriteCell { new, read, send: send.map(|(what, spans)| (what, spans, to)), write, ..idle }
    }

    fn parity_cell(&self, g: &Geometry, idle: WriteCell) -> WriteCell {
        let small = self.strategy == Strategy::Small;
        let (first, last) = self.units(g);
        let new: ColumnSet = (first..=last).collect();
        let units = |which: &dyn Fn(usize) -> bool| -> ColumnSet {
            (0..g.layout.data).filter(|&i| which(i)).collect()
        };
        let awaits = match (self.parity_at, small) {
            (ParityAt::Originator, _) => Awaits { result: true, ..Awaits::default() },
            (ParityAt::Parity, true) => Awaits { data: new, ..Awaits::default() },
            (ParityAt::Solely, true) => Awaits { data: new, originator: new, result: false },
            (ParityAt::Parity, false) => {
                let lost = units(&|i| self.data_lost(g, i));
                let data = ColumnSet::first(g.layout.data).minus(lost);
                Awaits { data, originator: new.minus(new.minus(lost)), result: false }
            }
            (ParityAt::Solely, false) => {
                let old = units(&|i| !self.leftover(g, i).is_empty());
                Awaits { data: old, originator: new, result: false }
            }
        };
        let cell = WriteCell { awaits, write: self.parity, delta: small, ..idle };
        if small && self.commanded {
            let send = Some((Sends::Old, self.parity, Destination::Originator));
            return WriteCell { read: self.parity, send, delta: false, ..cell };
        }
        cell
    }

    /// When lost data must be solved for, k columns show the originator all they have.
    fn decode_cell(&self, g: &Geometry, column: usize, cell: WriteCell) -> WriteCell {
        let chosen = g.sources(self.stripe, self.avoid).is_some_and(|s| s.contains(column));
        if !chosen {
            return cell;
        }
        let send = Some((Sends::Old, self.parity, Destination::Originator));
        WriteCell { read: self.parity, send, ..cell }
    }

    /// What the originator waits for before it can compute parity: data units, or where it
    /// decodes, columns of the code.
    pub fn originator_awaits(&self, g: &Geometry) -> ColumnSet {
        if self.parity_at != ParityAt::Originator && !self.asks_first {
            return ColumnSet::EMPTY;
        }
        let sends =
            |c: &usize| matches!(self.cell(g, *c).send, Some((_, _, Destination::Originator)));
        (0..g.layout.width()).filter(sends).map(|c| g.code_column(self.stripe, c)).collect()
    }

    /// The columns that wait for what the originator computes: parity, or a rebuilt column.
    pub fn result_columns(&self, g: &Geometry) -> ColumnSet {
        match self.target {
            Some(target) => ColumnSet::of(target),
            None if self.parity_at != ParityAt::Originator => ColumnSet::EMPTY,
            None => {
                let column = |j| g.layout.parity_column(self.stripe, j);
                self.live_parities(g).iter().map(column).collect()
            }
        }
    }

    /// Whether the originator keeps new data until it has gathered what it needs of the old.
    pub fn keeps_new(&self, g: &Geometry) -> bool {
        self.commanded && !self.originator_awaits(g).is_empty()
    }

    /// Whether the originator must say something at once to the column of a cell.
    pub fn tells(&self, g: &Geometry, cell: &WriteCell) -> bool {
        let new = !cell.new.is_empty() && !self.keeps_new(g);
        new || !cell.read.is_empty() || cell.send.is_some() || !cell.awaits.originator.is_empty()
    }

    /// Messages in the longest chain that ends with a vote.
    pub fn serial_messages(&self, g: &Geometry) -> u32 {
        let gathers = !self.originator_awaits(g).is_empty();
        match self.parity_at {
            ParityAt::Originator if gathers => 4,
            ParityAt::Originator => 2,
            _ if self.live_parities(g).is_empty() => 2,
            place => self.place_cost(g, place).1,
        }
    }
}
