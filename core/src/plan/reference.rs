//! A byte-level array that executes plans cell by cell, the plainest way there is: what
//! tests hold against naive RAID.

use super::*;
use crate::Buffer;
use crate::layout::{ColumnRole, Geometry};
use crate::units::ColumnSet;

pub(super) struct Array {
    pub g: Geometry,
    pub columns: Vec<Vec<u8>>,
    pub lost: ColumnSet,
}

impl Array {
    pub fn new(g: Geometry, stripes: u64) -> Array {
        let bytes = (stripes * g.unit) as usize;
        let columns = vec![vec![0; bytes]; g.layout.width()];
        Array { g, columns, lost: ColumnSet::EMPTY }
    }

    /// Loses a column and what it held.
    pub fn lose(&mut self, column: usize) {
        self.lost.insert(column);
        self.columns[column].fill(0xee);
    }

    fn get(&self, stripe: u64, column: usize, spans: Spans) -> Buffer {
        let base = (stripe * self.g.unit) as usize;
        let parts =
            spans.iter().map(|s| &self.columns[column][base + s.lo as usize..base + s.hi as usize]);
        Buffer::from(parts.flatten().copied().collect::<Vec<u8>>())
    }

    fn put(&mut self, stripe: u64, column: usize, spans: Spans, bytes: &[u8]) {
        let base = (stripe * self.g.unit) as usize;
        let mut at = 0;
        for s in spans.iter() {
            let n = s.len() as usize;
            self.columns[column][base + s.lo as usize..][..n].copy_from_slice(&bytes[at..at + n]);
            at += n;
        }
    }

    pub fn read(&self, range: Range) -> Result<Vec<u8>, PlanError> {
        let plan = ReadPlan::new(&self.g, range, self.lost)?;
        let mut out = Vec::new();
        for row in &plan.rows {
            for i in 0..self.g.data_columns() {
                let cover = row.cover(&self.g, i);
                let column = self.g.layout.data_column(row.stripe, i);
                if cover.is_empty() {
                    continue;
                }
                let bytes = if self.lost.contains(column) {
                    let sources = self.g.code_columns(row.stripe, row.sources);
                    let solved = self.solve_from(row.stripe, sources, i, row.solve);
                    compose(cover.into(), &[(row.solve, &solved)])
                } else {
                    let cell = row.cell(&self.g, column);
                    compose(cover.into(), &[(cell.send, &self.get(row.stripe, column, cell.send))])
                };
                out.extend_from_slice(&bytes.to_bytes());
            }
        }
        Ok(out)
    }

    /// Computes a column of the code from others.
    fn solve_from(&self, stripe: u64, have: ColumnSet, wanted: usize, spans: Spans) -> Buffer {
        let g = &self.g;
        let get = |c| self.get(stripe, g.column_of(stripe, c), spans).to_bytes();
        let bytes: Vec<_> = have.iter().map(get).collect();
        let views: Vec<&[u8]> = bytes.iter().map(|b| &b[..]).collect();
        let mut out = vec![0; spans.len() as usize];
        g.code.decoder(have, wanted).unwrap().decode(&views, &mut out);
        out.into()
    }

    pub fn write(&mut self, offset: u64, data: &[u8], policy: Policy) -> Result<(), PlanError> {
        let range = Range { offset, len: data.len() as u64 };
        let plan = WritePlan::new(&self.g, range, self.lost, policy)?;
        let mut at = 0;
        for row in &plan.rows {
            let n = (row.hi - row.lo) as usize;
            self.write_row(row, &Buffer::from(data[at..at + n].to_vec()));
            at += n;
        }
        Ok(())
    }

    /// The new bytes of unit `i`.
    fn fresh(&self, row: &WriteRow, data: &Buffer, i: usize) -> Buffer {
        let cover = row.cover(&self.g, i);
        let start = (i as u64 * self.g.unit + cover.lo).saturating_sub(row.lo) as usize;
        if cover.is_empty() {
            Buffer::Zero(0)
        } else {
            data.slice(start, start + cover.len() as usize)
        }
    }

    fn write_row(&mut self, row: &WriteRow, data: &Buffer) {
        let g = self.g.clone();
        let n = g.layout.width();
        let cells: Vec<WriteCell> = (0..n).map(|c| row.cell(&g, c)).collect();
        short_cuts_agree(&g, row, &cells);
        let old: Vec<Buffer> = (0..n).map(|c| self.get(row.stripe, c, cells[c].read)).collect();
        let mut sent: Vec<Vec<(Send, Buffer)>> = vec![Vec::new(); n];
        for c in 0..n {
            let new = match cells[c].role {
                ColumnRole::Data(i) => self.fresh(row, data, i),
                ColumnRole::Parity(_) => Buffer::Zero(0),
            };
            let read = (cells[c].read, &old[c]);
            for send in &cells[c].sends {
                let spans = send.spans;
                let bytes = match send.what {
                    Sends::Old => compose(spans, &[read]),
                    Sends::Content => compose(spans, &[read, (cells[c].new.into(), &new)]),
                    Sends::Delta => {
                        let mut delta = compose(spans, &[read]).to_bytes().to_vec();
                        new.add_to(&mut delta, 1);
                        delta.into()
                    }
                };
                sent[c].push((*send, bytes));
            }
        }
        let mut results = Vec::new();
        for c in 0..n {
            let (read, write) = (cells[c].read, cells[c].write);
            if write.is_empty() {
                continue;
            }
            let bytes = match cells[c].role {
                ColumnRole::Data(i) => {
                    let new = self.fresh(row, data, i);
                    compose(write, &[(read, &old[c]), (cells[c].new.into(), &new)])
                        .to_bytes()
                        .to_vec()
                }
                ColumnRole::Parity(j) => self.parity(row, data, j, &cells[c], &sent),
            };
            let mut bytes = bytes;
            if cells[c].delta {
                self.get(row.stripe, c, write).add_to(&mut bytes, 1);
            }
            results.push((c, write, bytes));
        }
        for (c, write, bytes) in results {
            self.put(row.stripe, c, write, &bytes);
        }
    }

    fn parity(
        &self,
        row: &WriteRow,
        data: &Buffer,
        j: usize,
        cell: &WriteCell,
        sent: &[Vec<(Send, Buffer)>],
    ) -> Vec<u8> {
        let g = &self.g;
        let at = cell.write;
        let mut sum = vec![0; at.len() as usize];
        let mut add = |spans: Spans, bytes: &Buffer, c: u8| {
            accumulate(&mut sum, at, spans, bytes, c);
        };
        if !cell.awaits.result {
            for i in cell.awaits.data.iter() {
                let column = g.column_of(row.stripe, i);
                let to_me = |s: &&(Send, Buffer)| matches!(s.0.to, Destination::Parities(to) if to.contains(j));
                let (send, bytes) = sent[column].iter().find(to_me).expect("was sent");
                add(send.spans, bytes, g.code.coefficient(j, i));
            }
            for i in cell.awaits.originator.iter() {
                let new = self.fresh(row, data, i);
                add(row.cover(g, i).into(), &new, g.code.coefficient(j, i));
            }
            return sum;
        }
        // The originator has what it was shown and the new data, and nothing else.
        let shown = |c: usize| {
            let sends = &sent[g.column_of(row.stripe, c)];
            sends.iter().find(|s| s.0.to == Destination::Originator)
        };
        let changes = row.changed.contains(j);
        for i in g.code.support(j).iter() {
            let c = g.code.coefficient(j, i);
            let cover = Spans::from(row.cover(g, i));
            let new = self.fresh(row, data, i);
            let stays = if changes { cover } else { row.leftover(g, i, j) };
            if !stays.is_empty() {
                let old = match shown(i) {
                    Some((send, bytes)) => compose(stays, &[(send.spans, bytes)]),
                    None => {
                        assert!(row.decodes() && row.data_lost(g, i), "{i} was not shown");
                        self.solve_from(row.stripe, row.solves_from, i, stays)
                    }
                };
                add(stays, &old, c);
            }
            add(cover, &new, c);
        }
        if row.commanded && changes {
            let (send, bytes) = shown(g.data_columns() + j).expect("old parity was shown");
            add(at, &compose(at, &[(send.spans, bytes)]), 1);
        }
        sum
    }
}

/// What the originator asks of a row without looking at its cells is what the cells say.
fn short_cuts_agree(g: &Geometry, row: &WriteRow, cells: &[WriteCell]) {
    let those = |is: &dyn Fn(&WriteCell) -> bool| -> Vec<usize> {
        cells.iter().enumerate().filter(|(_, cell)| is(cell)).map(|(c, _)| c).collect()
    };
    let changed: Vec<usize> = (0..cells.len()).filter(|c| row.changes(g, *c)).collect();
    assert_eq!(changed, those(&|cell| !cell.write.is_empty()));
    let results: Vec<usize> = row.result_columns(g).iter().collect();
    assert_eq!(results, those(&|cell| cell.awaits.result));
    let to_originator = |c: &WriteCell| c.shows().is_some();
    let gathered: ColumnSet =
        those(&to_originator).iter().map(|c| g.code_column(row.stripe, *c)).collect();
    assert_eq!(row.originator_awaits(g), gathered);
}
