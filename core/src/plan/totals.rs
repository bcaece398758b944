//! What a plan costs.

use super::{Destination, Policy, ReadPlan, Span, WritePlan, WriteRow, runs};
use crate::layout::Geometry;
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
        let mut t = Totals { round_trips: 1, ..Totals::default() };
        for column in 0..g.layout.width() {
            let cells = || self.rows.iter().map(|r| (r.stripe, r.cell(g, column).send));
            let bytes: u64 = cells().map(|(_, s)| s.len()).sum();
            if bytes == 0 {
                continue;
            }
            let ranges = cells().flat_map(|(stripe, spans)| {
                let base = stripe * g.unit;
                spans.sectors_out().iter().map(move |s| Span::new(base + s.lo, base + s.hi))
            });
            t.disk_reads += runs(ranges, g.unit).len() as u64;
            t.messages += 2;
            t.wire_bytes += bytes;
        }
        t
    }
}

impl WritePlan {
    /// What the write costs.
    pub fn totals(&self, g: &Geometry, policy: Policy) -> Totals {
        let mut t = Totals::default();
        for column in 0..g.layout.width() {
            self.add_column(g, column, &mut t);
        }
        // The columns to which the originator hands what they write, all stripes in one message,
        // when all have been asked.
        let mut handed = ColumnSet::EMPTY;
        for row in &self.rows {
            let later = add_results(g, row, &mut t);
            match row.asks_first {
                true => handed = handed.union(later),
                false => t.messages += later.len() as u64,
            }
        }
        t.messages += handed.len() as u64;
        let participants = self.participants(g).len() as u64;
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
        t
    }

    fn add_column(&self, g: &Geometry, column: usize, t: &mut Totals) {
        let mut told = false;
        // The columns to which it shows something that takes no read: it goes in one message.
        let mut shown = ColumnSet::EMPTY;
        let (mut written, mut added_to) = (Vec::new(), Vec::new());
        for row in &self.rows {
            let cell = row.cell(g, column);
            let at_once = cell.awaits.result && row.originator_awaits(g).is_empty();
            told |= row.tells(g, &cell) || at_once;
            t.disk_reads += cell.read.count() as u64;
            let base = row.stripe * g.unit;
            for span in cell.write.iter().map(|s| Span::new(base + s.lo, base + s.hi)) {
                written.push(span);
                added_to.extend(cell.delta.then_some(span));
            }
            t.wire_bytes += cell.new.len();
            t.wire_bytes +=
                cell.awaits.originator.iter().map(|i| row.cover(g, i).len()).sum::<u64>();
            for send in &cell.sends {
                let copies = match send.to {
                    Destination::Originator => 1,
                    Destination::Parities(to) => to.len() as u64,
                };
                t.wire_bytes += copies * send.spans.len();
                match send.to {
                    Destination::Parities(to) if cell.read.is_empty() => {
                        shown = shown.union(row.columns_of(g, to));
                    }
                    _ => t.messages += copies,
                }
            }
        }
        t.messages += u64::from(told) + shown.len() as u64;
        // What stands next to each other is put in place together, stripes or not.
        t.disk_reads += runs(added_to, 0).len() as u64;
        t.disk_writes += runs(written, 0).len() as u64;
    }
}

/// Parity (or rebuilt content) that the originator computes and sends, and new data that it
/// sends only then. Returns the columns to which that takes a message of its own.
fn add_results(g: &Geometry, row: &WriteRow, t: &mut Totals) -> ColumnSet {
    let columns = || 0..g.layout.width();
    let receivers = row.result_columns(g);
    t.wire_bytes += receivers.iter().map(|c| row.cell(g, c).write.len()).sum::<u64>();
    let gathers = !row.originator_awaits(g).is_empty();
    debug_assert!(gathers || row.target.is_none());
    let mut later = if gathers { receivers } else { ColumnSet::EMPTY };
    if row.keeps_new(g) {
        later = later.union(columns().filter(|&c| !row.cell(g, c).new.is_empty()).collect());
    }
    later
}
