//! Writes and rebuilds at the originator, which coordinates, holds the host's bytes and calculates where the plan says
//! so. It tells the workers, hands out their input, and counts votes.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::{Attempt, Job, Originator, Purpose, RunningJob, State, Unplanned, What};
use crate::Buffer;
use crate::cluster::Volume;
use crate::layout::Geometry;
use crate::node::calculator::Calculator;
use crate::node::outbox::Outbox;
use crate::node::task::Cast;
use crate::node::{Body, Header, HostData, Item, Notice, Refusal, Task};
use crate::plan::{
    Calculators, Cell, Destination, Execution, Part, PlanError, Range, Role, Sending, Waits,
    WritePlan, WriteRow,
};
use crate::units::{ColumnSet, NodeId, Timestamp};

/// A write in progress.
#[derive(Clone, Hash)]
pub(super) struct Writing {
    header: Header,
    plan: WritePlan,
    pub participants: Vec<(usize, NodeId)>,
    votes_missing: ColumnSet,
    /// The calculator's cell of each row, where it gathers columns' messages.
    calculators: Vec<Option<Box<Calculator>>>,
    /// The computation that it has assigned to columns' nodes.
    given: Vec<(NodeId, u64)>,
    /// Rows that are not completely gathered.
    gathering: usize,
    /// The columns that only send content.
    pub readers: ColumnSet,
    /// Whether any node may have written something.
    pub is_past_commit_point: bool,
    /// Messages in the longest chain that ended here so far.
    hops: u8,
}

impl Writing {
    /// The deferred parities.
    pub fn waits(&self) -> Waits {
        self.header.waits
    }

    /// Messages in the longest chain that ends with a vote, or with its equivalent.
    pub fn hops_to_votes(&self, g: &Geometry) -> u8 {
        self.plan.rows.iter().map(|r| r.serial_messages(g) as u8).max().unwrap_or(0)
    }

    /// Missing votes are of participants, and incomplete cells wait for something.
    pub fn check(&self, ts: Timestamp) {
        let participants = self.participants.iter().map(|p| p.0).collect::<ColumnSet>();
        assert!(participants.covers(self.votes_missing), "{ts} waits for votes of others");
        let calculators = self.calculators.iter().flatten();
        let gathering = calculators.filter(|c| !c.has_gathered()).count();
        assert_eq!(gathering, self.gathering, "rows of {ts} that wait for what columns show");
        assert!(self.readers.intersection(participants).is_empty(), "readers of {ts} write");
    }

    /// A participant has written its part. Returns whether that was the last one.
    pub fn wrote(&mut self, node: NodeId) -> bool {
        for (column, _) in self.participants.iter().filter(|p| p.1 == node) {
            self.votes_missing.remove(*column);
        }
        self.votes_missing.is_empty()
    }
}

impl Originator {
    /// Tells the participants of a write to begin.
    pub(super) fn begin_write(
        &mut self,
        attempt: &Attempt,
        outbox: &mut Outbox,
    ) -> Result<Box<Writing>, Unplanned> {
        let Attempt { ts, job, volume, extent, avoid } = attempt;
        let (ts, extent, avoid) = (*ts, *extent, *avoid);
        let g = &volume.geometry;
        let task = self.task_of(job, volume);
        // A column that is down cannot be written to.
        let gone = match task {
            Task::Rebuild { stripe, column: seat, .. } => {
                self.map.lost(volume, extent).contains(g.layout.column_at(stripe, seat))
            }
            Task::Write(_)
            | Task::Accept(_)
            | Task::Fold { .. }
            | Task::Refresh { .. }
            | Task::Lose { .. }
            | Task::Copy { .. } => false,
        };
        let waits = self.waits(attempt, outbox);
        let plan = match gone {
            true => Err(PlanError::NotRecoverable { lost: avoid }),
            false => task.plan(volume, avoid, waits),
        };
        let mut plan = plan.map_err(|_| Unplanned::Undetermined)?;
        self.accounts.begins(ts, volume.id, &plan);
        let (calculators, given) = self.choose_calculators(&mut plan, volume, extent);
        let node_of = |c: usize| (c, volume.extents[extent].columns[c].0);
        let participants: Vec<_> = plan.participants(g).iter().map(node_of).collect();
        let asker = self.asker(job);
        let held = self.holder(job);
        let holder = held.map(|(holder, _)| holder);
        let volume_id = volume.id;
        let header =
            Header { ts, volume: volume_id, avoid, waits, calculators, task, asker, holder };
        let mut writing = Writing {
            header,
            votes_missing: participants.iter().map(|p| p.0).collect(),
            participants,
            calculators: Vec::with_capacity(plan.rows.len()),
            given,
            gathering: 0,
            readers: ColumnSet::EMPTY,
            is_past_commit_point: !plan.rows.iter().any(|r| r.asks_first),
            plan,
            hops: 0,
        };
        let endpoint = holder.map(|holder| holder.node);
        let originator = ts.originator();
        let cast = Cast { volume, extent, originator, calculators, endpoint };
        let announce = self.config.store.plain.is_some();
        let (beginning, added) = match held {
            Some((_, is_inline)) => {
                let beginning = writing.tell(g, &job.what, is_inline, announce);
                let payload = if is_inline { 0 } else { beginning.payload() };
                outbox.counters.controlled_bytes += payload;
                (beginning, 0)
            }
            None => writing.begin(volume, &job.what, announce),
        };
        outbox.counters.xor_bytes += added;
        beginning.send(header, cast, outbox);
        self.tell_outcomes(job, volume, &writing.participants, outbox);
        Ok(Box::new(writing))
    }

    /// Chooses the calculators, where columns calculate, and assigns computation to the nodes.
    fn choose_calculators(
        &self,
        plan: &mut WritePlan,
        volume: &Volume,
        extent: usize,
    ) -> (Calculators, Vec<(NodeId, u64)>) {
        let (g, columns) = (&volume.geometry, &volume.extents[extent].columns);
        let chosen = plan.choose_calculators(g, |column| self.given_to(columns[column].0));
        let given = plan.computed_by(g).map(|(column, bytes)| (columns[column].0, bytes));
        (chosen, given.collect())
    }

    /// Bytes of computation in progress that a node was assigned.
    pub(super) fn given_to(&self, node: NodeId) -> u64 {
        let of = |txn: &'_ RunningJob| match &txn.state {
            State::Writing(w) => w.given.clone(),
            State::Reading(r) => r.given.clone(),
            State::Asking(..) | State::GivingUp(..) => Vec::new(),
        };
        let its = self.txns.values().map(Box::as_ref).flat_map(of).filter(|given| given.0 == node);
        its.map(|(_, bytes)| bytes).sum()
    }

    /// What parity of an attempt at a write waits for, or its copies; counts it.
    fn waits(&mut self, attempt: &Attempt, outbox: &mut Outbox) -> Waits {
        let Attempt { job, volume, extent, avoid, .. } = attempt;
        let waits = self.parities_that_wait(job, volume, *extent, outbox.now);
        let waits = match self.is_to_be_copied(job, volume, *extent, *avoid, outbox.now) {
            true => Waits::COPIED,
            false => self.relying(job, volume, waits, outbox.now),
        };
        outbox.counters.relied_on_marks += u64::from(waits.marked_since.is_some());
        outbox.counters.copied.0 += u64::from(waits.copied);
        outbox.counters.copied.1 += u64::from(job.folds().is_some());
        waits
    }

    /// The workers' instructions for a job.
    fn task_of(&self, job: &Job, volume: &Volume) -> Task {
        match job.what {
            What::Write(range, _) if job.accepts => Task::Accept(range),
            What::Write(range, _) => match job.folds() {
                Some(of) => Task::Fold { range, of },
                None => Task::Write(range),
            },
            What::Rebuild { stripe, part, .. } if !job.with.is_empty() => {
                Task::Refresh { stripe, part, parities: job.with }
            }
            What::Rebuild { stripe, stripes, column, part } => match self.source_of(job, volume) {
                Some(_) => Task::Copy { stripe, column, part },
                None => Task::Rebuild { stripe, stripes, column, part },
            },
            What::Lose { stripe, column, part } => Task::Lose { stripe, column, part },
            _ => unreachable!("not a write"),
        }
    }

    /// Columns' content, for the cells that calculate here.
    pub fn on_part(&mut self, header: Header, items: Vec<Item>, outbox: &mut Outbox) {
        let Some(txn) = self.txns.get_mut(&header.ts) else { return };
        let State::Writing(w) = &mut txn.state else { return };
        let originator = header.ts.originator();
        let calculators = header.calculators;
        let (volume, extent) = (&txn.volume, txn.extent);
        let cast = Cast { volume, extent, originator, calculators, endpoint: None };
        // A joint rebuild continues as a whole.
        let is_joined = header.task.is_joined();
        let mut gathered: SmallVec<[usize; 4]> = SmallVec::new();
        for item in items {
            let Ok(n) = w.plan.rows.binary_search_by_key(&item.stripe, |r| r.stripe) else {
                continue;
            };
            let Some(calculator) = w.calculators.get_mut(n).and_then(Option::as_mut) else {
                continue;
            };
            if calculator.has_gathered() {
                continue;
            }
            calculator.take(item.part, item.data);
            if !calculator.has_gathered() {
                continue;
            }
            w.gathering -= 1;
            if is_joined {
                gathered.push(n);
            } else if !w.plan.rows[n].asks_first {
                hand_out(w, n..n + 1, cast, outbox);
            } else if w.gathering == 0 {
                // The commit point (shared storage 3.2.3).
                w.is_past_commit_point = true;
                hand_out(w, 0..w.plan.rows.len(), cast, outbox);
            }
        }
        if !gathered.is_empty() {
            hand_out(w, gathered, cast, outbox);
        }
    }

    /// A participant's vote.
    pub fn on_vote(
        &mut self,
        from: NodeId,
        ts: Timestamp,
        column: usize,
        vote: Result<(), Refusal>,
        outbox: &mut Outbox,
    ) {
        let Some(txn) = self.txns.get_mut(&ts) else {
            let mine = ts.originator() == outbox.node();
            if vote.is_ok() && mine && !self.settling.contains_key(&ts) {
                outbox.notice(from, Notice::Abort(ts));
            }
            return;
        };
        let State::Writing(w) = &mut txn.state else {
            return self.voted_late(from, ts, vote, outbox);
        };
        if let Err(refusal) = vote {
            let takes_part = w.participants.iter().any(|p| p.1 == from);
            if takes_part || !w.is_past_commit_point || !txn.policy.commit.is_voted() {
                return self.give_up(ts, Some(from), Some(refusal), outbox);
            }
            // A helper may have sent its content and refuse the same repeated message. Then all may be prepared, and
            // settle it among themselves: so they are asked.
            txn.refusal = Some(refusal);
            return self.inquire(ts, outbox);
        }
        w.votes_missing.remove(column);
        w.hops = w.hops.max(outbox.hops);
        let missing = w.votes_missing.len();
        if matches!(txn.job.purpose, Purpose::Host(_)) {
            self.detours.has_voted(from, txn.started, outbox.now);
        }
        if missing > 0 && missing == self.config.votes_waived() {
            // The steps after this concern no host.
            let job = txn.job.clone();
            (txn.job.purpose, txn.job.has_room) = (Purpose::Repair, false);
            self.finish(job, Ok(HostData::Done), outbox);
            return;
        }
        if w.votes_missing.is_empty() {
            // Without journal the host waits until all participants report that it is in place.
            let policy = txn.volume.policy;
            let journaled = policy.is_journaled();
            let hops = w.hops + if journaled { 0 } else { 2 };
            let participants = w.participants.iter().map(|p| p.1).collect();
            let txn = self.txns.remove(&ts).expect("just seen");
            self.count_round_trips(txn.job.purpose, hops);
            self.commit(ts, *txn, participants, outbox);
        }
    }
}

/// Computes content that needed columns' messages, for some rows of a write, and sends it, with the new data kept until
/// now, to the workers.
fn hand_out(
    w: &mut Writing,
    rows: impl IntoIterator<Item = usize>,
    cast: Cast,
    outbox: &mut Outbox,
) {
    let mut parcels: Vec<(NodeId, Role, Vec<Item>)> = Vec::new();
    for n in rows {
        let Some(calculator) = w.calculators.get_mut(n).and_then(Option::as_mut) else { continue };
        let stripe = w.plan.rows[n].stripe;
        for (role, item) in calculator.advance() {
            let node = cast.node(stripe, role).expect("a role in this plan");
            match parcels.iter_mut().find(|p| (p.0, p.1) == (node, role)) {
                Some(parcel) => parcel.2.push(item),
                None => parcels.push((node, role, vec![item])),
            }
        }
        outbox.counters.xor_bytes += calculator.take_added();
        w.calculators[n] = None;
    }
    for (node, to, items) in parcels {
        outbox.send(node, Body::Part { header: w.header, to, items });
    }
}

/// The workers' messages when a write begins.
#[derive(Default)]
struct Beginning {
    /// The columns that must be told, because no message of others will tell them.
    told: ColumnSet,
    /// Input for columns' own seats that is available at once, by column.
    items: SmallVec<[(usize, Vec<Item>); 1]>,
    /// Input for other roles of columns that is available at once: for the seats of second units, and for calculators.
    others: BTreeMap<(usize, Role), Vec<Item>>,
    /// The disk that a column leaves, and the stripe that is copied from it.
    source: Option<(u64, Role)>,
}

impl Writing {
    /// Begins all cells, and advances those of the endpoint and the calculator until they must wait. With `announce` the
    /// nodes whose parity changes are told too, so that they can read the old parity meanwhile.
    fn begin(&mut self, volume: &Volume, what: &What, announce: bool) -> (Beginning, u64) {
        let g = &volume.geometry;
        let mut beginning = Beginning::default();
        let (mut writers, mut added) = (ColumnSet::EMPTY, 0);
        for row in &self.plan.rows {
            let (mut calculator, mut handed_out) = (None, SmallVec::<[Sending; 4]>::new());
            for role in row.roles(g) {
                let cell = row.cell(g, role);
                if cell.is_idle() {
                    continue;
                }
                match role {
                    Role::Column(seat) => {
                        let column = g.layout.column_at(row.stripe, seat);
                        if cell.begins() || (announce && cell.adds()) {
                            beginning.told.insert(column);
                        }
                        if cell.sends().next().is_some() {
                            self.readers.insert(column);
                        }
                        if cell.write().is_some() {
                            writers.insert(column);
                        }
                    }
                    Role::Calculator if row.calculator.is_some() => {}
                    Role::Calculator => {
                        calculator =
                            Some(Box::new(Calculator::new(volume, self.header, row, cell)));
                    }
                    Role::Endpoint => handed_out.extend(new_data(g, row, what.written(), cell)),
                    Role::Source(_) => beginning.source = Some((row.stripe, role)),
                    Role::Coordinator => {}
                }
            }
            for Sending { to, part, data } in handed_out {
                match to {
                    Destination::Columns(columns) => {
                        beginning.add(g, columns, Item { stripe: row.stripe, part, data });
                    }
                    Destination::Role(role) => match row.calculator {
                        None => calculator.as_mut().expect("it is sent to").take(part, data),
                        Some(column) => {
                            let item = Item { stripe: row.stripe, part, data };
                            beginning.others.entry((column, role)).or_default().push(item);
                        }
                    },
                }
            }
            let gathers = calculator.as_ref().is_some_and(|c| c.gathers());
            if let Some(calculator) = calculator.as_mut().filter(|_| !gathers) {
                for (to, item) in calculator.advance() {
                    beginning.add(g, Destination::Role(to).columns(), item);
                }
                added += calculator.take_added();
            }
            self.gathering += usize::from(gathers);
            self.calculators.push(calculator.filter(|_| gathers));
        }
        self.readers = self.readers.minus(writers);
        (beginning, added)
    }
}

impl Writing {
    /// The same where an endpoint holds the bytes: columns are told, and fetch their input there. Inline bytes are sent
    /// at once.
    fn tell(&mut self, g: &Geometry, what: &What, is_inline: bool, announce: bool) -> Beginning {
        let mut beginning = Beginning::default();
        let mut writers = ColumnSet::EMPTY;
        for row in &self.plan.rows {
            // A calculator learns its senders from the controller.
            row.calculator.iter().for_each(|column| beginning.told.insert(*column));
            for seat in 0..g.layout.seats() {
                let cell = row.cell(g, Role::Column(seat));
                let column = g.layout.column_at(row.stripe, seat);
                if row.gets(g, seat) || cell.begins() || (announce && cell.adds()) {
                    beginning.told.insert(column);
                }
                if cell.sends().next().is_some() {
                    self.readers.insert(column);
                }
                if cell.write().is_some() {
                    writers.insert(column);
                }
            }
            let cell = row.cell(g, Role::Endpoint);
            let inline = what.written().filter(|_| is_inline);
            let handed_out = inline.map(|new| new_data(g, row, Some(new), cell));
            for Sending { to, part, data } in handed_out.into_iter().flatten() {
                beginning.add(g, to.columns(), Item { stripe: row.stripe, part, data });
            }
        }
        self.readers = self.readers.minus(writers);
        beginning
    }
}

impl Beginning {
    fn add(&mut self, g: &Geometry, seats: ColumnSet, item: Item) {
        for seat in seats.iter() {
            let item = item.clone();
            match g.layout.column_at(item.stripe, seat) {
                column if column == seat => {
                    self.told.insert(column);
                    match self.items.binary_search_by_key(&column, |of| of.0) {
                        Ok(n) => self.items[n].1.push(item),
                        Err(n) => self.items.insert(n, (column, vec![item])),
                    }
                }
                column => {
                    let role = Role::Column(seat);
                    self.others.entry((column, role)).or_default().push(item);
                }
            }
        }
    }

    /// Bytes of data in it.
    fn payload(&self) -> u64 {
        let items = self.items.iter().map(|of| &of.1).chain(self.others.values()).flatten();
        items.map(|item| item.data.len() as u64).sum()
    }

    /// Sends the messages.
    fn send(self, header: Header, cast: Cast, outbox: &mut Outbox) {
        let first = |column: usize| cast.volume.extents[cast.extent].columns[column].0;
        let mut items = self.items.into_iter().peekable();
        let mut items_of = |column| items.next_if(|of| of.0 == column).map(|of| of.1);
        let columns = self.told.iter().map(|c| (first(c), items_of(c).unwrap_or_default()));
        let source = self.source.map(|(stripe, role)| {
            (cast.node(stripe, role).expect("a role in this plan"), Vec::new())
        });
        for (node, items) in columns.chain(source) {
            outbox.send_after(node, Body::Write { header, items }, 1);
        }
        for ((column, to), items) in self.others {
            outbox.send_after(first(column), Body::Part { header, to, items }, 1);
        }
    }
}

/// The endpoint's output for a host's write of these bytes.
pub(in crate::node) fn new_data(
    g: &Geometry,
    row: &WriteRow,
    new: Option<(Range, &Buffer)>,
    cell: Cell,
) -> SmallVec<[Sending; 1]> {
    let mut endpoint = Execution::new(cell);
    for i in row.new_units(g).iter() {
        endpoint.take(Part::NewOf(i), fresh(g, row, new, i));
    }
    endpoint.advance()
}

/// The new bytes of data unit `i` of a row.
fn fresh(g: &Geometry, row: &WriteRow, new: Option<(Range, &Buffer)>, i: usize) -> Buffer {
    let Some((Range { offset, .. }, data)) = new else { return Buffer::Zero(0) };
    let cover = row.cover(g, i);
    if cover.is_empty() {
        return Buffer::Zero(0);
    }
    let start = row.stripe * g.stripe_bytes() + i as u64 * g.unit + cover.lo - offset;
    data.slice(start as usize, (start + cover.len()) as usize)
}
