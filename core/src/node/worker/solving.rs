//! Lost data that a worker solves for in a read: as the calculator of stripes, or as a part of a tree of columns.
//!
//! Columns send one another their content as soon as all of it is read. The reader has told every column of the read.
//! Messages that arrive before that are kept, and count only if they come from the planned sender.

use std::collections::{BTreeMap, VecDeque};

use smallvec::SmallVec;

use super::Worker;
use super::reading::RowPart;
use crate::Buffer;
use crate::cluster::Volume;
use crate::layout::Geometry;
use crate::node::outbox::Outbox;
use crate::node::{Body, Item, Refusal};
use crate::plan::{Destination, Execution, Part, ReadPlan, ReadRow, Role, Sending, Spans};
use crate::units::{Nanos, NodeId, Timestamp};

/// The most messages kept that arrive before the request to read.
const MOST_SHOWN: usize = 1024;

/// A column's message for a read that has not been requested here yet.
#[derive(Clone, Hash)]
struct Shown {
    from: NodeId,
    ts: Timestamp,
    to: Role,
    items: Vec<Item>,
    since: Nanos,
}

/// Columns' messages for reads that have not been requested here yet, the oldest first.
#[derive(Clone, Default, Hash)]
pub(super) struct ShownItems(VecDeque<Shown>);

impl ShownItems {
    /// Keeps a message. Beyond the limit the oldest is dropped, and its read returned.
    fn keep(&mut self, shown: Shown) -> Option<Timestamp> {
        let dropped = if self.0.len() >= MOST_SHOWN { self.0.pop_front() } else { None };
        self.0.push_back(shown);
        dropped.map(|shown| shown.ts)
    }

    /// Removes and returns the messages of a read.
    fn take(&mut self, ts: Timestamp) -> VecDeque<Shown> {
        if self.0.is_empty() {
            return VecDeque::new();
        }
        let (its, others) =
            std::mem::take(&mut self.0).into_iter().partition(|shown| shown.ts == ts);
        self.0 = others;
        its
    }

    /// Drops messages with such arrival times.
    fn drop_where(&mut self, late: impl Fn(Nanos) -> bool) {
        self.0.retain(|shown| !late(shown.since));
    }

    /// Drops all.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// A column's part in a read whose lost content columns solve for.
#[derive(Clone, Hash)]
pub(super) struct Solving {
    plan: ReadPlan,
    /// By stripe, the column's own cells before that of the calculator.
    cells: Vec<Solver>,
    /// The output for the endpoint.
    answer: BTreeMap<(u64, Part), Buffer>,
    /// The number of the last message in a chain.
    answered_at: u8,
    is_fed: bool,
}

#[derive(Clone, Hash)]
struct Solver {
    row: ReadRow,
    role: Role,
    execution: Execution,
    sent_at: u8,
}

/// A message to another column: the receiver, the number in the chain, and the content.
type Parcel = (u64, Role, u8, Vec<Item>);

impl Solving {
    /// The part of a column, if columns solve for something.
    pub fn new(g: &Geometry, plan: ReadPlan, column: usize) -> Option<Box<Solving>> {
        if !plan.columns_solve() {
            return None;
        }
        let cells_of = |row: &ReadRow| {
            let own = g.layout.seats_of(row.stripe, column).map(Role::Column);
            let calculator = (row.calculator == Some(column)).then_some(Role::Calculator);
            own.chain(calculator).collect::<SmallVec<[Role; 3]>>()
        };
        let cells = plan.rows.iter().flat_map(|row| {
            let solver = |role| Solver {
                row: *row,
                role,
                execution: Execution::new(row.cell(g, role)),
                sent_at: row.sent_at(g, role),
            };
            cells_of(row).into_iter().map(solver)
        });
        let cells = cells.filter(|c| !c.execution.cell().is_idle()).collect();
        let answer = BTreeMap::new();
        Some(Box::new(Solving { plan, cells, answer, answered_at: 0, is_fed: false }))
    }

    /// Content of a seat has been read; `of` gives whole sectors.
    pub fn has_read(&mut self, part: &RowPart, of: impl Fn(Spans) -> Buffer) {
        let is_it =
            |c: &&mut Solver| (c.row.stripe, c.role) == (part.stripe, Role::Column(part.seat));
        let Some(solver) = self.cells.iter_mut().find(is_it) else { return };
        let reads: SmallVec<[Spans; 2]> =
            solver.execution.cell().reads().iter().map(Spans::from).collect();
        solver.execution.reading(reads.len());
        reads.iter().enumerate().for_each(|(n, span)| solver.execution.read_arrived(n, of(*span)));
    }

    /// Takes the message of another column.
    fn take(&mut self, to: Role, item: Item) {
        let is_it = |c: &&mut Solver| (c.row.stripe, c.role) == (item.stripe, to);
        if let Some(solver) = self.cells.iter_mut().find(is_it) {
            solver.execution.take(item.part, item.data);
        }
    }

    /// Advances until it must wait. Returns messages for other columns.
    fn advance(&mut self, g: &Geometry) -> Vec<Parcel> {
        let mut parcels: Vec<Parcel> = Vec::new();
        for n in 0..self.cells.len() {
            let Solver { row, role, sent_at, .. } = self.cells[n];
            let before = parcels.len();
            for Sending { to, part, data } in self.cells[n].execution.advance() {
                if to == Destination::Role(Role::Endpoint) {
                    let at = if let Part::From(_) = part { 2 } else { sent_at };
                    self.answered_at = self.answered_at.max(at);
                    self.answer.insert((row.stripe, part), data);
                    continue;
                }
                let item = Item { stripe: row.stripe, part, data };
                for to in to.roles() {
                    if let Role::Column(seat) = role
                        && row.stays(g, seat, to)
                    {
                        // The calculator comes after the column's own cells.
                        self.take(to, item.clone());
                        continue;
                    }
                    match parcels[before..].iter_mut().find(|parcel| parcel.1 == to) {
                        Some(parcel) => parcel.3.push(item.clone()),
                        None => parcels.push((row.stripe, to, sent_at, vec![item.clone()])),
                    }
                }
            }
        }
        parcels
    }

    fn is_done(&self) -> bool {
        self.cells.iter().all(|c| c.execution.is_done())
    }

    fn take_added(&mut self) -> u64 {
        self.cells.iter_mut().map(|c| c.execution.take_added()).sum()
    }

    /// The number in a chain of the endpoint's message.
    pub fn answered_at(&self) -> u8 {
        self.answered_at
    }

    /// The output for the endpoint, in the plan's order.
    fn pieces(&mut self, g: &Geometry, column: usize) -> Vec<(u64, Buffer)> {
        let mut pieces = Vec::new();
        for row in &self.plan.rows {
            for (part, _) in row.to_endpoint(g, column) {
                let data = self.answer.remove(&(row.stripe, part)).expect("all is here");
                pieces.push((row.stripe, data));
            }
        }
        pieces
    }
}

impl Worker {
    /// Continues with a read whose lost content columns solve for, and answers it when complete.
    pub(super) fn solve(&mut self, ts: Timestamp, outbox: &mut Outbox) {
        let Some(job) = self.reads.get_mut(&ts) else { return };
        let (Some(solving), Some(volume)) = (&mut job.solving, self.map.volumes.get(&job.volume))
        else {
            return;
        };
        let g = &volume.geometry;
        solving.is_fed = true;
        let parcels = solving.advance(g);
        outbox.counters.xor_bytes += solving.take_added();
        let is_done = solving.is_done();
        let pieces = if is_done { solving.pieces(g, job.column) } else { Vec::new() };
        for (stripe, to, sent_at, items) in parcels {
            let node = node_of(volume, stripe, to, &solving.plan).expect("a role in this plan");
            outbox.send_after(node, Body::Show { ts, to, items }, sent_at);
        }
        if !is_done {
            return;
        }
        let job = self.reads.remove(&ts).expect("just seen");
        // A repeated message must not begin it again: the other messages would not come.
        self.fenced.insert_read(ts);
        match pieces.is_empty() {
            true => self.lend(ts, outbox.now),
            false => self.reply_read(&job, ts, Ok(pieces), outbox),
        }
    }

    /// A column sends its content for a read.
    pub fn on_show(
        &mut self,
        from: NodeId,
        ts: Timestamp,
        to: Role,
        items: Vec<Item>,
        outbox: &mut Outbox,
    ) {
        if self.fenced.has_read(&ts) {
            return;
        }
        let Some(job) = self.reads.get_mut(&ts) else {
            return self.keep_shown(Shown { from, ts, to, items, since: outbox.now }, outbox);
        };
        let (Some(solving), Some(volume)) = (&mut job.solving, self.map.volumes.get(&job.volume))
        else {
            outbox.refuse(from, || {
                format!("sends content for read {ts}, which does not need to solve")
            });
            return;
        };
        let shows = |item: &Item| {
            let (Part::From(column) | Part::Sum { from: column, .. }) = item.part else {
                return false;
            };
            let g = &volume.geometry;
            if item.stripe >= volume.stripes() || column >= g.code.columns() {
                return false;
            }
            let sender = Role::Column(g.seat_of(item.stripe, column));
            node_of(volume, item.stripe, sender, &solving.plan) == Some(from)
        };
        if self.config.checks_senders() && !items.iter().all(shows) {
            outbox.refuse(from, || format!("is not a node that sends content for read {ts}"));
            return;
        }
        for mut item in items {
            if let Part::Sum { .. } = item.part {
                item.data = self.sent.sum(&self.config, item.data);
            }
            solving.take(to, item);
        }
        if solving.is_fed {
            self.solve(ts, outbox);
        }
    }

    /// Keeps messages that arrive before the request to read. Beyond the limit the oldest is dropped, and its read
    /// tried again.
    fn keep_shown(&mut self, shown: Shown, outbox: &mut Outbox) {
        if let Some(ts) = self.shown.keep(shown) {
            let result = Err(Refusal::Busy);
            outbox.send(ts.originator(), Body::ReadReply { ts, column: 0, result });
        }
    }

    /// A read has been requested: its kept messages are processed now.
    pub fn hear_shown(&mut self, ts: Timestamp, outbox: &mut Outbox) {
        let its = self.shown.take(ts);
        if self.reads.contains_key(&ts) {
            its.into_iter().for_each(|s| self.on_show(s.from, ts, s.to, s.items, outbox));
        }
    }

    /// Gives up reads whose messages from other columns are overdue: these have refused, or messages are lost.
    pub(super) fn give_up_solving(&mut self, patience: Nanos, outbox: &mut Outbox) {
        let late = |since: Nanos| outbox.now.saturating_sub(since) >= patience;
        self.shown.drop_where(late);
        let waits = |solving: &Option<Box<Solving>>| solving.as_ref().is_some_and(|s| s.is_fed);
        let stuck = self.reads.iter().filter(|(_, job)| waits(&job.solving) && late(job.since));
        for ts in stuck.map(|(ts, _)| *ts).collect::<Vec<_>>() {
            let job = self.reads.remove(&ts).expect("just seen");
            self.reply_read(&job, ts, Err(Refusal::Busy), outbox);
        }
    }
}

/// The node that has a role in a stripe of a read.
fn node_of(volume: &Volume, stripe: u64, role: Role, plan: &ReadPlan) -> Option<NodeId> {
    let row = plan.rows.iter().find(|row| row.stripe == stripe)?;
    let column = match role {
        Role::Column(seat) => volume.geometry.layout.column_at(stripe, seat),
        Role::Calculator => row.calculator?,
        Role::Source(_) | Role::Endpoint | Role::Coordinator => return None,
    };
    Some(volume.extent(stripe).columns.get(column)?.0)
}
