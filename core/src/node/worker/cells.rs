//! A cell at its disk: the sectors that it reads and writes, and their effect on other transactions. Its computation is
//! the plan's ([`Execution`]).

use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;

use super::{Header, Task, sectors};
use crate::cluster::Volume;
use crate::layout::ColumnRole;
use crate::node::task::Cast;
use crate::order::{Access, Accesses};
use crate::plan::{Execution, Role, Send, Sending, Span, Value, WriteRow};
use crate::policy::Redundancy;
use crate::store::{Change, ChangeKind, Changed, Kept};
use crate::units::{ColumnSet, SECTOR, VolumeId};

/// The numbers of the cells of a write, which are few.
pub(super) type CellNumbers = SmallVec<[usize; 4]>;

/// The sectors that a cell reads.
pub(super) type Ranges = SmallVec<[Range<u64>; 2]>;

/// A cell in progress.
#[derive(Clone, Hash)]
pub(super) struct Cell {
    pub header: Header,
    pub row: WriteRow,
    pub column: usize,
    pub seat: usize,
    pub execution: Execution,
    volume: Arc<Volume>,
    /// The disk's sector where the unit begins.
    base: u64,
    /// The number in a chain of messages of its output.
    pub sent_at: u8,
    /// It has done all steps before the write is prepared.
    pub is_finished: bool,
}

impl Cell {
    /// A cell of the column that a disk holds, or that is copied from it.
    pub fn new(volume: &Arc<Volume>, header: Header, row: WriteRow, role: Role) -> Cell {
        let (seat, base) = match role {
            Role::Source(seat) => {
                (seat, volume.sector_leaving(row.stripe, seat).expect("a column that leaves"))
            }
            Role::Column(seat) => (seat, volume.sector(row.stripe, seat)),
            other => unreachable!("a disk has the role of {other:?}"),
        };
        let column = volume.geometry.layout.column_at(row.stripe, seat);
        let g = &volume.geometry;
        let execution = Execution::new(row.cell(g, role));
        let new_at = header.task.new_at(volume, header.holder.is_some());
        let sent_at = if row.columns_compute() { row.sent_at(g, role, new_at) } else { 2 };
        let volume = volume.clone();
        Cell { header, row, column, seat, execution, volume, base, sent_at, is_finished: false }
    }

    /// The nodes by role.
    pub fn cast(&self) -> Cast<'_> {
        let extent = self.volume.extent_of(self.row.stripe);
        let Header { ts, calculators, holder, .. } = self.header;
        let (originator, endpoint) = (ts.originator(), holder.map(|h| h.node));
        Cast { volume: &self.volume, extent, originator, calculators, endpoint }
    }

    /// Adds the cell's accesses to the disk, for admission.
    pub fn add_accesses(&self, to: &mut Accesses) {
        // Each is added by itself: there are one or two, and `extend` would reserve space for many.
        self.read_ranges().for_each(|r| to.push((r, Access::Read)));
        // A copy at parity's disk, too, must not come after a later change of its data, which may have been folded: the disk
        // of the data may die before it refuses it.
        self.writes().for_each(|c| to.push((c.sectors, access(self.kind()))));
        // No disk with the data refuses an earlier change of it.
        let is_fold = matches!(self.header.task, Task::Fold { .. });
        if is_fold && self.is_parity() && !self.header.avoid.is_empty() {
            self.writes().for_each(|c| to.push((c.sectors, Access::Read)));
        }
    }

    /// Whether this output needs the new data.
    pub fn shows_new(&self, sending: &Sending) -> bool {
        let cell = self.execution.cell();
        let is_it = |s: &&Send| s.part == sending.part && s.to == sending.to;
        let value = cell.sends().find(is_it).map(|s| &s.value);
        !cell.new.is_empty() && matches!(value, Some(Value::Change | Value::Content))
    }

    /// The number of parts that the endpoint gives it.
    pub fn given(&self) -> usize {
        self.row.given(&self.volume.geometry, self.seat).count()
    }

    /// Its write.
    pub fn writes(&self) -> impl Iterator<Item = Changed> + '_ {
        let ranges = self.execution.cell().writes().iter().map(|s| sectors(self.base, s));
        ranges.map(|sectors| Changed { sectors, kind: self.kind() })
    }

    /// Its effect on the present content.
    pub fn kind(&self) -> ChangeKind {
        match self.execution.cell() {
            cell if cell.adds() => ChangeKind::Delta,
            cell if cell.marks() => ChangeKind::Mark,
            cell => match cell.copies() {
                Some(unit) => ChangeKind::Copy(Kept { unit: unit as u8, volume: self.volume.id }),
                None => ChangeKind::Content,
            },
        }
    }

    /// The data units whose new content it puts in its place, or into parity, or after which parity is out of date: their
    /// earlier copies are replaced.
    pub fn folded(&self) -> impl Iterator<Item = (u8, Span)> + '_ {
        let g = &self.volume.geometry;
        let writes =
            matches!(self.header.task, Task::Write(_) | Task::Accept(_) | Task::Fold { .. })
                && self.row.copied.is_empty()
                && self.execution.cell().write().is_some();
        let units = match g.layout.role(self.row.stripe, self.seat) {
            ColumnRole::Data(i) => ColumnSet::of(i),
            ColumnRole::Parity(j) => g.code.support(j),
        };
        let units =
            if writes { self.row.new_units(g).intersection(units) } else { ColumnSet::EMPTY };
        units.iter().map(|i| (i as u8, self.row.cover(g, i)))
    }

    /// The sectors of these bytes of the unit, whole ones.
    pub fn sectors_of(&self, span: Span) -> Range<u64> {
        sectors(self.base, span)
    }

    /// The columns that have these parities of the stripe.
    pub fn columns_of(&self, parities: ColumnSet) -> impl Iterator<Item = usize> + '_ {
        let (layout, stripe) = (&self.volume.geometry.layout, self.row.stripe);
        parities.iter().map(move |j| layout.column_at(stripe, layout.parity_seat(stripe, j)))
    }

    /// The column that has a data unit of the stripe.
    pub fn data_column(&self, unit: u8) -> usize {
        let layout = &self.volume.geometry.layout;
        layout.column_at(self.row.stripe, layout.data_column(self.row.stripe, unit.into()))
    }

    /// Whether all parity that covers its data is out of date once the write has happened. For parity it tells nothing.
    pub fn outdates_parity(&self) -> bool {
        let g = &self.volume.geometry;
        match g.layout.role(self.row.stripe, self.seat) {
            ColumnRole::Data(i) => self.row.waits().covers(g.code.parities_of(i)),
            ColumnRole::Parity(_) => true,
        }
    }

    /// Whether its output for a role stays at this disk.
    pub fn stays(&self, to: Role) -> bool {
        self.row.stays(&self.volume.geometry, self.execution.cell().at, to)
    }

    /// When the parity of its stripe is written.
    pub fn redundancy(&self) -> &Redundancy {
        self.volume.redundancy_at(self.row.stripe)
    }

    /// Its volume.
    pub fn volume_id(&self) -> VolumeId {
        self.volume.id
    }

    /// Whether the unit holds parity.
    pub fn is_parity(&self) -> bool {
        self.execution.cell().is_parity()
    }

    /// Its seat, and its whole write: the stripe and the bytes of the unit.
    pub fn whole(&self) -> (usize, (u64, Span)) {
        let spans = || self.execution.cell().writes().iter();
        let lo = spans().map(|s| s.lo).min().unwrap_or(0);
        let hi = spans().map(|s| s.hi).max().unwrap_or(0);
        (self.seat, (self.row.stripe, Span::new(lo, hi)))
    }

    /// The sectors to read.
    pub fn read_ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.execution.cell().reads().iter().map(|s| sectors(self.base, s))
    }

    /// The bytes of the unit at these sectors.
    pub fn span_of(&self, range: Range<u64>) -> Span {
        Span::new((range.start - self.base) * SECTOR, (range.end - self.base) * SECTOR)
    }

    /// Its outputs, once they can be computed.
    pub fn advance(&mut self) -> impl Iterator<Item = Sending> + use<> {
        self.execution.advance().into_iter()
    }

    /// Adds the finished cell's changes.
    pub fn add_changes(&mut self, changes: &mut Vec<Change>) {
        let Some(content) = self.execution.take_content() else { return };
        let cell = self.execution.cell();
        let mut at = 0;
        for span in cell.writes().iter() {
            let end = at + span.len() as usize;
            changes.push(Change {
                sector: self.base + span.lo / SECTOR,
                kind: self.kind(),
                data: content.slice(at, end),
            });
            at = end;
        }
    }
}

/// What a change does, for admission.
pub fn access(kind: ChangeKind) -> Access {
    match kind {
        ChangeKind::Content | ChangeKind::Mark | ChangeKind::Copy(_) => Access::Content,
        ChangeKind::Delta | ChangeKind::Fold(_) => Access::Delta,
    }
}
