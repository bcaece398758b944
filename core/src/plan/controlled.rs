//! What it costs more that a controller coordinates: the request goes to it and the answer comes from it. If no data
//! passes it, those who take part in a write fetch what they need from the endpoint, and what is read is placed there.

use super::{Part, ReadPlan, Role, Totals, Value, WritePlan, WriteRow};
use crate::layout::Geometry;
use crate::policy::{Controller, Policy};
use crate::units::ColumnSet;

/// `Request` and `Done`.
pub(super) const AROUND: u64 = 2;

impl ReadPlan {
    /// What the read costs in a volume with this policy.
    pub fn totals_with(&self, g: &Geometry, policy: Policy) -> Totals {
        let mut totals = self.totals(g);
        let Some(controller) = policy.controller else { return totals };
        totals.messages += AROUND;
        totals.round_trips += 1;
        match controller {
            Controller::InBand => {
                totals.wire_bytes += self.rows.iter().map(|r| r.hi - r.lo).sum::<u64>()
            }
            // Each that answers the controller has placed what it has at the endpoint.
            Controller::OutOfBand => totals.messages += self.answering(g).len() as u64,
        }
        totals
    }
}

impl WritePlan {
    /// Adds to what the write costs without a controller what one makes of it.
    pub(super) fn add_controller(&self, g: &Geometry, policy: Policy, totals: &mut Totals) {
        let len = self.rows.iter().map(|r| r.hi - r.lo).sum::<u64>();
        match policy.controller {
            None => {}
            Some(Controller::InBand) => {
                totals.messages += AROUND;
                totals.round_trips += 1;
                totals.wire_bytes += len;
            }
            Some(Controller::OutOfBand) => {
                let is_inline = len <= policy.inline;
                self.add_fetches(g, is_inline, totals);
                totals.messages += AROUND;
                totals.wire_bytes += if is_inline { len } else { 0 };
                let mut chain = self.rows.iter().map(|r| r.chain(g, is_inline)).max().unwrap_or(0);
                if !policy.is_journaled() && policy.commit.is_voted() {
                    chain += 2;
                }
                totals.round_trips = u64::from(chain.div_ceil(2)) + 1;
            }
        }
    }

    /// Columns are told, and fetch what the endpoint has for them, instead of getting it with the word.
    fn add_fetches(&self, g: &Geometry, is_inline: bool, totals: &mut Totals) {
        let (mut with_word, mut told) = (ColumnSet::EMPTY, ColumnSet::EMPTY);
        let (mut fetching, mut given) = (ColumnSet::EMPTY, ColumnSet::EMPTY);
        for row in &self.rows {
            if let Some(column) = row.calculator {
                // It is told, whether it has a part of its own or not.
                told.insert(column);
                if row.given_to_calculator(g) > 0 {
                    fetching.insert(column);
                }
            }
            for seat in 0..g.layout.seats() {
                let column = g.layout.column_at(row.stripe, seat);
                let parts = row.given(g, seat).count();
                if row.cell(g, Role::Column(seat)).begins() {
                    told.insert(column);
                    with_word.insert(column);
                }
                if row.gets(g, seat) {
                    told.insert(column);
                }
                if parts > 0 {
                    with_word.insert(seat);
                }
                if parts > if is_inline { row.inline(g, seat) } else { 0 } {
                    fetching.insert(column);
                }
            }
        }
        for row in &self.rows {
            let seats = (0..g.layout.seats()).filter(|s| row.given(g, *s).next().is_some());
            let its = seats.filter(|s| fetching.contains(g.layout.column_at(row.stripe, *s)));
            its.for_each(|seat| given.insert(seat));
        }
        let second = if is_inline { with_word.minus(told).len() } else { 0 };
        totals.messages += (told.len() + second + fetching.len() + given.len()) as u64;
        totals.messages -= with_word.len() as u64;
    }
}

impl WriteRow {
    /// How many parts the controller has for a seat, if it has the bytes.
    fn inline(&self, g: &Geometry, seat: usize) -> usize {
        let endpoint = self.cell(g, Role::Endpoint);
        endpoint.sends().filter(|s| s.to.columns().contains(seat)).count()
    }

    /// Messages in the longest chain that ends with a vote, from the controller's word on.
    fn chain(&self, g: &Geometry, is_inline: bool) -> u32 {
        let fetched = 3;
        let new = if is_inline { 1 } else { fetched };
        if self.columns_compute() {
            return self.serial_messages_of_columns(g, new as u8);
        }
        let shown = |code_column: usize| {
            let cell = self.cell(g, Role::Column(g.seat_of(self.stripe, code_column)));
            let depends = |v: &Value| matches!(v, Value::Change | Value::Content);
            let needs_new = !cell.new.is_empty() && cell.sends().any(|s| depends(&s.value));
            if needs_new { new + 1 } else { 2 }
        };
        let arrival = |part: &Part| match part {
            Part::From(column) => shown(*column),
            Part::Result => fetched,
            Part::New | Part::NewOf(_) | Part::Solved(_) | Part::Sum { .. } => new,
        };
        let vote = |seat| self.cell(g, Role::Column(seat)).messages_to_vote(arrival);
        (0..g.layout.seats()).filter_map(vote).max().unwrap_or(2)
    }
}
