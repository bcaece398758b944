//! Executing one cell: read old, send, await, combine, and hand over what to prepare
//! (TickerTAIP, Table V).

use std::ops::Range;
use std::sync::Arc;

use super::{Header, Task, sectors};
use crate::Buffer;
use crate::cluster::Volume;
use crate::layout::ColumnRole;
use crate::node::{Item, Slot};
use crate::order::Access;
use crate::plan::{
    Destination, Send, Sends, Span, Spans, WriteCell, WriteRow, accumulate, compose,
};
use crate::store::Change;
use crate::units::{ColumnSet, NodeId, SECTOR};

#[derive(Clone, Hash)]
enum Old {
    NotNeeded,
    Wanted,
    Reading(Vec<Option<Buffer>>),
    Here(Buffer),
}

/// A cell in work.
#[derive(Clone, Hash)]
pub(super) struct Cell {
    pub header: Header,
    pub row: WriteRow,
    pub plan: WriteCell,
    pub column: usize,
    volume: Arc<Volume>,
    /// The disk's sector where the unit begins.
    base: u64,
    old: Old,
    new: Option<Buffer>,
    shared: bool,
    sum: Sum,
    from_columns: ColumnSet,
    from_originator: ColumnSet,
    result: Option<Buffer>,
    finished: Option<Buffer>,
    /// It has done all that it must before the write is prepared.
    pub is_finished: bool,
    /// Bytes added up that have not been told yet.
    xored: u64,
}

/// The contributions so far.
#[derive(Clone, Hash)]
enum Sum {
    Nothing,
    /// One alone that is the whole sum.
    Whole(Buffer),
    Bytes(Vec<u8>),
}

impl Cell {
    pub fn new(volume: &Arc<Volume>, header: Header, row: WriteRow, column: usize) -> Cell {
        let plan = row.cell(&volume.geometry, column);
        let old = if plan.read.is_empty() { Old::NotNeeded } else { Old::Wanted };
        Cell {
            header,
            row,
            column,
            volume: volume.clone(),
            base: volume.sector(row.stripe, column),
            old,
            new: plan.new.is_empty().then_some(Buffer::Zero(0)),
            shared: plan.sends.is_empty(),
            plan,
            sum: Sum::Nothing,
            from_columns: ColumnSet::EMPTY,
            from_originator: ColumnSet::EMPTY,
            result: None,
            finished: None,
            is_finished: false,
            xored: 0,
        }
    }

    /// Bytes that have been added up since this was last asked.
    pub fn take_xored(&mut self) -> u64 {
        std::mem::take(&mut self.xored)
    }

    /// The cell of a disk from which a column is copied.
    pub fn source(volume: &Arc<Volume>, header: Header, row: WriteRow, column: usize) -> Cell {
        let part = row.parity;
        let mut plan = row.cell(&volume.geometry, column);
        plan.read = part;
        plan.write = Spans::EMPTY;
        plan.awaits = Default::default();
        plan.sends = smallvec::smallvec![Send {
            what: Sends::Old,
            spans: part,
            to: Destination::Originator
        }];
        let extent = volume.extent(row.stripe);
        let first = extent.leaving[&column].1;
        let base = first + (row.stripe - extent.first) * volume.unit_sectors();
        let cell = Cell::new(volume, header, row, column);
        Cell { plan, base, old: Old::Wanted, shared: false, ..cell }
    }

    /// Where what it reads goes, if it is a source of a copy.
    pub fn copies_to(&self) -> Option<NodeId> {
        let copies = matches!(self.header.task, Task::Copy { .. }) && !self.plan.read.is_empty();
        copies.then(|| self.volume.extent(self.row.stripe).columns[self.column].0)
    }

    /// What the cell does to the disk, for admission.
    pub fn accesses(&self) -> impl Iterator<Item = (Range<u64>, Access)> + '_ {
        let access = if self.plan.delta { Access::Delta } else { Access::Content };
        let reads = self.read_ranges().map(|r| (r, Access::Read));
        reads.chain(self.plan.write.iter().map(move |s| (sectors(self.base, s), access)))
    }

    /// What it writes: first sector, sectors, whether a delta.
    pub fn writes(&self) -> impl Iterator<Item = (u64, u64, bool)> + '_ {
        let ranges = self.plan.write.iter().map(|s| sectors(self.base, s));
        ranges.map(|r| (r.start, r.end - r.start, self.plan.delta))
    }

    /// Whether the unit holds parity.
    pub fn is_parity(&self) -> bool {
        matches!(self.plan.role, ColumnRole::Parity(_))
    }

    /// Its column, and all that it writes: the stripe and the bytes of the unit.
    pub fn whole(&self) -> (usize, (u64, Span)) {
        let spans = || self.plan.write.iter();
        let lo = spans().map(|s| s.lo).min().unwrap_or(0);
        let hi = spans().map(|s| s.hi).max().unwrap_or(0);
        (self.column, (self.row.stripe, Span::new(lo, hi)))
    }

    /// The sectors to read.
    pub fn read_ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.plan.read.iter().map(|s| sectors(self.base, s))
    }

    /// The bytes of the unit at these sectors.
    pub fn span_of(&self, range: Range<u64>) -> Span {
        Span::new((range.start - self.base) * SECTOR, (range.end - self.base) * SECTOR)
    }

    /// Whether a read has yet to be started.
    pub fn must_read(&self) -> bool {
        matches!(self.old, Old::Wanted)
    }

    /// The read has been started, in so many parts.
    pub fn reading(&mut self, parts: usize) {
        self.old = Old::Reading(vec![None; parts]);
    }

    /// A part of the read is here.
    pub fn read_arrived(&mut self, part: usize, data: Buffer) {
        let Old::Reading(parts) = &mut self.old else { return };
        parts[part] = Some(data);
        if parts.iter().all(Option::is_some) {
            let parts: Vec<Buffer> = parts.drain(..).flatten().collect();
            self.old = Old::Here(joined(parts));
        }
    }

    /// Takes in data; what comes twice counts once.
    pub fn take(&mut self, item: Item) {
        let ColumnRole::Parity(j) = self.plan.role else {
            match item.slot {
                Slot::New => self.new = Some(item.data),
                Slot::Result => self.result = Some(item.data),
                Slot::Column(_) | Slot::Gathered(_) | Slot::Originator(_) => {}
            }
            return;
        };
        let g = &self.volume.geometry;
        match item.slot {
            Slot::Result => self.result = Some(item.data),
            Slot::New | Slot::Gathered(_) => {}
            Slot::Column(i) if self.from_columns.contains(i) => {}
            Slot::Originator(i) if self.from_originator.contains(i) => {}
            Slot::Column(i) => {
                self.from_columns.insert(i);
                let sender = self.row.cell(g, g.column_of(self.row.stripe, i));
                let spans = sender.contributes(j).map_or(Spans::EMPTY, |s| s.spans);
                let c = g.code.coefficient(j, i);
                self.add(spans, item.data, c);
            }
            Slot::Originator(i) => {
                self.from_originator.insert(i);
                let c = g.code.coefficient(j, i);
                self.add(self.row.cover(g, i).into(), item.data, c);
            }
        }
    }

    fn add(&mut self, spans: Spans, data: Buffer, c: u8) {
        let at = self.plan.write;
        self.xored += data.len() as u64;
        if data.is_zero() {
            return;
        }
        let alone = self.plan.awaits.data.len() + self.plan.awaits.originator.len() == 1;
        if alone && c == 1 && spans == at {
            self.sum = Sum::Whole(data);
            return;
        }
        if data.is_length() {
            self.sum = Sum::Whole(Buffer::Length(at.len() as usize));
            return;
        }
        if let Sum::Nothing = self.sum {
            self.sum = Sum::Bytes(vec![0; at.len() as usize]);
        }
        if let Sum::Bytes(sum) = &mut self.sum {
            accumulate(sum, at, spans, &data, c);
        }
    }

    fn old(&self) -> Option<(Spans, Buffer)> {
        match &self.old {
            Old::NotNeeded => Some((Spans::EMPTY, Buffer::Zero(0))),
            Old::Here(data) => Some((self.plan.read, data.clone())),
            Old::Wanted | Old::Reading(_) => None,
        }
    }

    /// What the cell has to show, once it has it all; and to whom.
    pub fn share(&mut self) -> Vec<(Destination, Item)> {
        if self.shared {
            return Vec::new();
        }
        let sends = std::mem::take(&mut self.plan.sends);
        let shares = sends.iter().map(|send| Some((send.to, self.shown(send)?))).collect();
        self.plan.sends = sends;
        let shares: Option<Vec<(Destination, Item)>> = shares;
        self.shared = shares.is_some();
        shares.unwrap_or_default()
    }

    /// What is to be sent, if it is there.
    fn shown(&mut self, send: &Send) -> Option<Item> {
        let spans = send.spans;
        let (read, old) = self.old()?;
        let new_at = Spans::from(self.plan.new);
        let data = match send.what {
            Sends::Old => compose(spans, &[(read, &old)]),
            Sends::Content => compose(spans, &[(read, &old), (new_at, self.new.as_ref()?)]),
            Sends::Delta => {
                let new = self.new.as_ref()?;
                self.xored += new.len() as u64;
                difference(compose(spans, &[(read, &old)]), new)
            }
        };
        let code_column = self.volume.geometry.code_column(self.row.stripe, self.column);
        let slot = match send.to {
            Destination::Parities(_) => Slot::Column(code_column),
            Destination::Originator => Slot::Gathered(code_column),
        };
        Some(Item { stripe: self.row.stripe, slot, data })
    }

    /// The nodes of the columns of these parities.
    pub fn parity_nodes(&self, parities: ColumnSet) -> Vec<NodeId> {
        let columns = self.row.columns_of(&self.volume.geometry, parities);
        let extent = self.volume.extent(self.row.stripe);
        columns.iter().map(|column| extent.columns[column].0).collect()
    }

    /// Computes what is to be written, if everything is there. Says whether the cell has
    /// done all it must before preparing.
    pub fn finish(&mut self) -> bool {
        if !self.shared {
            return false;
        }
        if self.plan.write.is_empty() || self.finished.is_some() {
            return true;
        }
        self.finished = self.content();
        self.finished.is_some()
    }

    fn content(&mut self) -> Option<Buffer> {
        let awaits = self.plan.awaits;
        if awaits.result {
            return self.result.clone();
        }
        if let ColumnRole::Data(_) = self.plan.role {
            let (read, old) = self.old()?;
            let new = self.new.as_ref()?;
            return Some(compose(self.plan.write, &[(read, &old), (self.plan.new.into(), new)]));
        }
        let missing = awaits
            .data
            .minus(self.from_columns)
            .union(awaits.originator.minus(self.from_originator));
        if !missing.is_empty() {
            return None;
        }
        Some(match std::mem::replace(&mut self.sum, Sum::Nothing) {
            Sum::Nothing => Buffer::Zero(self.plan.write.len() as usize),
            Sum::Whole(data) => data,
            Sum::Bytes(bytes) => bytes.into(),
        })
    }

    /// The finished cell's changes.
    pub fn changes(&mut self) -> Vec<Change> {
        let Some(content) = self.finished.take() else { return Vec::new() };
        let mut at = 0;
        let mut changes = Vec::with_capacity(2);
        for span in self.plan.write.iter() {
            let end = at + span.len() as usize;
            changes.push(Change {
                sector: self.base + span.lo / SECTOR,
                delta: self.plan.delta,
                data: content.slice(at, end),
            });
            at = end;
        }
        changes
    }
}

fn joined(parts: Vec<Buffer>) -> Buffer {
    match <[Buffer; 1]>::try_from(parts) {
        Ok([one]) => one,
        Err(parts) if parts.iter().all(Buffer::is_zero) => {
            Buffer::Zero(parts.iter().map(Buffer::len).sum())
        }
        Err(parts) if parts.iter().any(Buffer::is_length) => {
            Buffer::Length(parts.iter().map(Buffer::len).sum())
        }
        Err(parts) => {
            let mut bytes = Vec::with_capacity(parts.iter().map(Buffer::len).sum());
            parts.iter().for_each(|p| bytes.extend_from_slice(&p.to_bytes()));
            bytes.into()
        }
    }
}

fn difference(old: Buffer, new: &Buffer) -> Buffer {
    match (&old, new) {
        (Buffer::Zero(_), new) => new.clone(),
        (old, Buffer::Zero(_)) => old.clone(),
        (Buffer::Length(len), _) | (_, Buffer::Length(len)) => Buffer::Length(*len),
        (Buffer::Bytes(a), Buffer::Bytes(b)) => {
            let mut delta = vec![0; a.len()];
            weft_code::delta(&mut delta, a, b);
            delta.into()
        }
    }
}
