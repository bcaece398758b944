//! What a plan costs.

use smallvec::SmallVec;

use super::{Cell, Destination, ReadPlan, Role, Send, Span, Spans, WritePlan, WriteRow, runs};
use crate::layout::Geometry;
use crate::policy::Policy;
use crate::units::ColumnSet;

/// The costs of a request, as a plan promises them and as nodes count them.
///
/// Messages are those between originator and workers until the host is answered; the host's
/// own request and answer are not among them, nor are notices of the outcome, which ride on
/// later messages. Disk transfers are those of the volume's data and parity, whether made
/// before the answer or after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Transfers from disks.
    pub disk_reads: u64,
    /// Transfers to disks, in place.
    pub disk_writes: u64,
    /// Records journalled before the votes.
    pub journal_writes: u64,
    /// Messages.
    pub messages: u64,
    /// Bytes of data and parity in those messages.
    pub wire_bytes: u64,
    /// Round trips between originator and workers, one after the other.
    pub round_trips: u64,
}

impl std::ops::AddAssign for Totals {
    /// Adds what another chunk costs; chunks go side by side, so round trips do not add.
    fn add_assign(&mut self, other: Totals) {
        self.disk_reads += other.disk_reads;
        self.disk_writes += other.disk_writes;
        self.journal_writes += other.journal_writes;
        self.messages += other.messages;
        self.wire_bytes += other.wire_bytes;
        self.round_trips = self.round_trips.max(other.round_trips);
    }
}

impl ReadPlan {
    /// What the read costs.
    pub fn totals(&self, g: &Geometry) -> Totals {
        let mut tally = Tally::new(g);
        for row in &self.rows {
            for cell in row.cells(g) {
                if let Role::Column(seat) = cell.at {
                    tally.add_disk(row.stripe, seat, &cell);
                }
            }
        }
        // Each column that has a part is asked; those that have something for the endpoint answer with all of it.
        let (asked, answering) = (self.columns(g).len() as u64, self.answering(g).len() as u64);
        let disk_reads = tally.read.iter().map(|r| runs(r.iter().copied(), g.unit).len() as u64);
        let (mut messages, mut wire_bytes) = (asked + answering, 0);
        for row in &self.rows {
            let (between, bytes) = row.between_columns(g);
            let answers = (0..g.layout.width()).flat_map(|column| row.to_endpoint(g, column));
            messages += between;
            wire_bytes += bytes + answers.map(|(_, spans)| spans.len()).sum::<u64>();
        }
        let chain = self.rows.iter().map(|row| row.serial_messages(g)).max().unwrap_or(2);
        let round_trips = u64::from(chain.div_ceil(2));
        let disk_reads = disk_reads.sum();
        Totals { disk_reads, messages, wire_bytes, round_trips, ..Totals::default() }
    }
}

impl WritePlan {
    /// What the write costs.
    pub fn totals(&self, g: &Geometry, policy: Policy) -> Totals {
        let mut tally = Tally::new(g);
        for row in &self.rows {
            for cell in row.cells(g) {
                match row.columns_compute() {
                    true => tally.add_of_columns(row, &cell),
                    false => tally.add(row.stripe, &cell),
                }
            }
            if !row.asks_first {
                tally.hand_out();
            }
        }
        // Where all are asked first, they get what to write of all stripes in one message.
        tally.hand_out();
        let participants = self.participants(g).len() as u64;
        let mut t = tally.written_totals();
        // Each votes.
        t.messages += participants;
        if policy.is_journaled() {
            t.journal_writes = participants;
        }
        let mut chain = self.rows.iter().map(|r| r.serial_messages(g)).max().unwrap_or(0);
        if !policy.is_journaled() && policy.commit.is_voted() {
            // The host is answered when all have heard and say that it is in place.
            chain += 2;
        }
        t.round_trips = u64::from(chain.div_ceil(2));
        self.add_controller(g, policy, &mut t);
        t
    }
}

/// Counts the steps of a plan's cells. Endpoint, calculator and coordinator are one node, apart from the
/// columns': what they send each other costs nothing.
struct Tally<'a> {
    g: &'a Geometry,
    totals: Totals,
    /// The columns that are told to begin, and seats of second units for which something goes to them at once.
    begun: ColumnSet,
    /// For each column: the seats to which it sends something that takes no read, all stripes in one message.
    shown: Vec<ColumnSet>,
    /// The columns that calculate, to which the endpoint sends something.
    told: ColumnSet,
    /// The seats to which the calculator sends what it gathered for, and that message has yet to be
    /// counted.
    handed: ColumnSet,
    /// For each column what is read, in bytes of its disk; what is written; and what of that is added
    /// to what is there.
    read: Vec<Vec<Span>>,
    written: Vec<Vec<Span>>,
    added: Vec<Vec<Span>>,
}

impl<'a> Tally<'a> {
    fn new(g: &'a Geometry) -> Tally<'a> {
        let width = g.layout.width();
        Tally {
            g,
            totals: Totals::default(),
            begun: ColumnSet::EMPTY,
            shown: vec![ColumnSet::EMPTY; width],
            told: ColumnSet::EMPTY,
            handed: ColumnSet::EMPTY,
            read: vec![Vec::new(); width],
            written: vec![Vec::new(); width],
            added: vec![Vec::new(); width],
        }
    }

    fn add(&mut self, stripe: u64, cell: &Cell) {
        match cell.at {
            Role::Column(seat) => {
                let column = self.add_disk(stripe, seat, cell);
                cell.sends().for_each(|send| self.add_share(column, cell, send));
            }
            Role::Source(_) => {
                let sends = cell.sends().count() as u64;
                // It is told to begin.
                self.totals.messages += 1 + sends;
                self.totals.disk_reads += cell.reads().count() as u64;
                self.totals.wire_bytes += cell.sends().map(|s| s.spans.len()).sum::<u64>();
            }
            Role::Calculator | Role::Endpoint | Role::Coordinator => {
                for send in cell.sends() {
                    let seats = send.to.columns();
                    self.totals.wire_bytes += seats.len() as u64 * send.spans.len();
                    // What takes no gathering rides on the message that tells a column to begin; but what is
                    // for a second unit goes by itself.
                    let into = if cell.gathers() { &mut self.handed } else { &mut self.begun };
                    *into = into.union(seats);
                }
            }
        }
    }

    /// What a column's cell does at its disk. Returns the column.
    fn add_disk(&mut self, stripe: u64, seat: usize, cell: &Cell) -> usize {
        let column = self.g.layout.column_at(stripe, seat);
        let base = self.g.layout.units_before_seat(stripe, seat) * self.g.unit;
        let on_disk = |spans: Spans| spans.iter().map(move |s| Span::new(base + s.lo, base + s.hi));
        if cell.begins() {
            self.begun.insert(column);
        }
        self.read[column].extend(on_disk(cell.reads()));
        if !cell.marks() && cell.copies().is_none() {
            self.written[column].extend(on_disk(cell.writes()));
        }
        if cell.adds() {
            self.added[column].extend(on_disk(cell.writes()));
        }
        column
    }

    /// The same where columns compute for one another: what a cell sends goes in one message to each who gets it, and
    /// what stays in its node costs nothing.
    fn add_of_columns(&mut self, row: &WriteRow, cell: &Cell) {
        if cell.at == Role::Endpoint {
            self.add(row.stripe, cell);
            let new = cell.sends().filter(|s| s.to == Destination::Role(Role::Calculator));
            for send in new {
                self.totals.wire_bytes += send.spans.len();
                row.calculator.iter().for_each(|column| self.told.insert(*column));
            }
            return;
        }
        if let Role::Column(seat) = cell.at {
            self.add_disk(row.stripe, seat, cell);
        }
        let mut to: SmallVec<[Role; 4]> = SmallVec::new();
        for send in cell.sends() {
            for role in send.to.roles().filter(|role| !row.stays(self.g, cell.at, *role)) {
                self.totals.wire_bytes += send.spans.len();
                if !to.contains(&role) {
                    to.push(role);
                }
            }
        }
        self.totals.messages += to.len() as u64;
    }

    /// What a column sends.
    fn add_share(&mut self, column: usize, cell: &Cell, send: &Send) {
        let seats = send.to.columns();
        let copies = seats.len().max(1) as u64;
        self.totals.wire_bytes += copies * send.spans.len();
        match seats.is_empty() || !cell.reads().is_empty() {
            true => self.totals.messages += copies,
            false => self.shown[column] = self.shown[column].union(seats),
        }
    }

    /// The calculator sends what it has computed.
    fn hand_out(&mut self) {
        self.totals.messages += std::mem::take(&mut self.handed).len() as u64;
    }

    /// What it comes to, if it was a write.
    fn written_totals(mut self) -> Totals {
        let shown = self.shown.iter().map(|to| to.len()).sum::<usize>();
        self.totals.messages += (self.begun.len() + self.told.len() + shown) as u64;
        let transfers = |all: &[Vec<Span>]| -> u64 {
            // What stands next to each other is put in place together, stripes or not.
            all.iter().map(|spans| runs(spans.iter().copied(), 0).len() as u64).sum()
        };
        let read = self.read.iter().map(|spans| spans.len() as u64).sum::<u64>();
        self.totals.disk_reads += read + transfers(&self.added);
        self.totals.disk_writes = transfers(&self.written);
        self.totals
    }
}
