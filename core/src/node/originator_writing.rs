//! Writes and rebuilds at the originator: telling the workers, computing parity where the
//! plan says that it is computed here, and counting votes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Job, Originator, Purpose, State, Txn, What};
use crate::Buffer;
use crate::cluster::Volume;
use crate::layout::{ColumnRole, Geometry};
use crate::node::outbox::Outbox;
use crate::node::{Body, Bug, Header, HostData, Item, Notice, Refusal, Slot, Task};
use crate::plan::{PlanError, Range, Spans, Strategy, WritePlan, WriteRow, accumulate, compose};
use crate::units::{ColumnSet, NodeId, Timestamp};

/// A write in work.
#[derive(Clone, Hash)]
pub(super) struct Writing {
    header: Header,
    plan: WritePlan,
    pub participants: Vec<(usize, NodeId)>,
    votes_missing: ColumnSet,
    /// For each row what has been gathered.
    gathered: Vec<Gathered>,
    /// Rows of which not everything has been gathered.
    gathering: usize,
    /// The columns that only show something.
    pub readers: ColumnSet,
    /// Whether anyone may have written something.
    pub is_past_commit_point: bool,
    /// Messages in the longest chain that ended here so far.
    hops: u8,
}

/// Old content of a row, for who computes its parity.
#[derive(Clone, Default, Hash)]
struct Gathered {
    /// By column of the code.
    columns: BTreeMap<usize, Buffer>,
    /// All of it has been here.
    is_complete: bool,
}

impl Writing {
    /// Messages in the longest chain that ends with a vote, or with what stands for one.
    pub fn hops_to_votes(&self, g: &Geometry) -> u8 {
        self.plan.rows.iter().map(|r| r.serial_messages(g) as u8).max().unwrap_or(0)
    }

    /// A participant has written its part. Says whether that was the last.
    pub fn wrote(&mut self, node: NodeId) -> bool {
        for (column, _) in self.participants.iter().filter(|p| p.1 == node) {
            self.votes_missing.remove(*column);
        }
        self.votes_missing.is_empty()
    }
}

impl Originator {
    pub(super) fn launch_write(
        &mut self,
        ts: Timestamp,
        job: Job,
        volume: Arc<Volume>,
        extent: usize,
        avoid: ColumnSet,
        outbox: &mut Outbox,
    ) {
        let g = &volume.geometry;
        let source = self.source_of(&job, &volume);
        let (task, plan) = match &job.what {
            What::Write(range, _) => {
                (Task::Write(*range), WritePlan::new(g, *range, avoid, volume.policy))
            }
            What::Rebuild { stripe, column, part } if source.is_some() => {
                let (stripe, column, part) = (*stripe, *column, *part);
                let plan = WritePlan::copy(g, stripe, column, part);
                (Task::Copy { stripe, column, part }, Ok(plan))
            }
            What::Rebuild { stripe, column, part } => {
                let (stripe, column, part) = (*stripe, *column, *part);
                let task = Task::Rebuild { stripe, column, part };
                let down = self.map.lost(&volume, extent).contains(column);
                let plan = WritePlan::rebuild(g, stripe, column, part, avoid);
                // A column that is down cannot be written to.
                let bears = g.layout.parity;
                let gone = Err(PlanError::TooManyLost { lost: avoid.len(), bears });
                (task, if down { gone } else { plan })
            }
            _ => unreachable!("not a write"),
        };
        let Ok(plan) = plan else {
            return self.lacks_nodes(job, outbox);
        };
        let node_of = |c: usize| (c, volume.extents[extent].columns[c].0);
        let participants: Vec<_> = plan.participants(g).iter().map(node_of).collect();
        let header = Header { ts, volume: volume.id, avoid, task, asker: self.asker(&job) };
        let writing = Writing {
            header,
            votes_missing: participants.iter().map(|p| p.0).collect(),
            participants,
            gathered: vec![Gathered::default(); plan.rows.len()],
            gathering: plan.rows.iter().filter(|r| !r.originator_awaits(g).is_empty()).count(),
            readers: plan.readers(g),
            is_past_commit_point: !plan.rows.iter().any(|r| r.asks_first),
            plan,
            hops: 0,
        };
        match source {
            Some(node) => {
                let body = Body::Write { header: writing.header, items: Vec::new() };
                outbox.send_after(node, body, 1);
            }
            None => {
                let announce = self.config.store.plain.is_some();
                tell_workers(&writing, &job, &volume, extent, announce, outbox);
            }
        }
        self.tell_outcomes(&job, &volume, &writing.participants, outbox);
        let state = State::Writing(Box::new(writing));
        self.txns.insert(ts, Txn::new(job, volume, extent, state, outbox.now));
    }

    /// Old content for a row whose parity is computed here.
    pub fn on_part(&mut self, header: Header, items: Vec<Item>, outbox: &mut Outbox) {
        let Some(txn) = self.txns.get_mut(&header.ts) else { return };
        let State::Writing(w) = &mut txn.state else { return };
        let g = &txn.volume.geometry;
        for item in items {
            let Slot::Gathered(code_column) = item.slot else { continue };
            let at = w.plan.rows.iter().position(|r| r.stripe == item.stripe);
            let Some(n) = at else { continue };
            let row = w.plan.rows[n];
            let awaits = row.originator_awaits(g);
            let gathered = &mut w.gathered[n];
            let twice =
                gathered.is_complete || gathered.columns.insert(code_column, item.data).is_some();
            if twice || !awaits.iter().all(|c| gathered.columns.contains_key(&c)) {
                continue;
            }
            gathered.is_complete = true;
            // What was sent only to say yes is nothing to compute with.
            gathered.columns.retain(|_, data| !data.is_empty());
            w.gathering -= 1;
            if !row.asks_first {
                hand_out(w, &txn.job, &txn.volume, txn.extent, n..n + 1, outbox);
            } else if w.gathering == 0 {
                // The commit point (shared storage 3.2.3).
                w.is_past_commit_point = true;
                let all = 0..w.plan.rows.len();
                hand_out(w, &txn.job, &txn.volume, txn.extent, all, outbox);
            }
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
            return self.give_up(ts, from, Some(refusal), outbox);
        }
        w.votes_missing.remove(column);
        w.hops = w.hops.max(outbox.hops);
        let early = self.config.bug == Some(Bug::AnswerBeforeLastVote);
        if early && w.votes_missing.len() == 1 {
            // The bug: what comes after this concerns no host any more.
            let job = txn.job.clone();
            (txn.job.purpose, txn.job.has_room) = (Purpose::Repair, false);
            self.finish(job, Ok(HostData::Done), outbox);
            return;
        }
        if w.votes_missing.is_empty() {
            // Without journal the host waits until all have heard and said that it is in place.
            let policy = txn.volume.policy;
            let journaled = policy.is_journaled();
            let hops = w.hops + if journaled { 0 } else { 2 };
            let participants = w.participants.iter().map(|p| p.1).collect();
            let txn = self.txns.remove(&ts).expect("just seen");
            self.count_round_trips(txn.job.purpose, hops);
            self.commit(ts, txn, participants, outbox);
        }
    }
}

/// Computes what could not be computed before old content was here, for some rows of a write, and
/// gives it, and the new data that was kept until now, to the workers.
fn hand_out(
    w: &mut Writing,
    job: &Job,
    volume: &Volume,
    extent: usize,
    rows: std::ops::Range<usize>,
    outbox: &mut Outbox,
) {
    let g = &volume.geometry;
    let mut messages: Vec<(usize, Vec<Item>)> = Vec::new();
    for n in rows {
        let row = w.plan.rows[n];
        let gathered = std::mem::take(&mut w.gathered[n].columns);
        outbox.counters.xor_bytes += added(g, &row, &gathered);
        let kept = if row.keeps_new(g) { fresh_of_all(g, &row, &job.what) } else { Vec::new() };
        let kept = kept.into_iter().map(|(column, data)| (column, Slot::New, data));
        let results = results(g, &row, &job.what, &gathered);
        let results = results.into_iter().map(|(column, data)| (column, Slot::Result, data));
        for (column, slot, data) in kept.chain(results) {
            let item = Item { stripe: row.stripe, slot, data };
            match messages.iter_mut().find(|m| m.0 == column) {
                Some(message) => message.1.push(item),
                None => messages.push((column, vec![item])),
            }
        }
    }
    for (column, items) in messages {
        let node = volume.extents[extent].columns[column].0;
        outbox.send(node, Body::Part { header: w.header, items });
    }
}

/// Tells every worker that cannot know otherwise to take part, and gives it its data.
/// With `announce` those who will change parity hear of it too, so that they can fetch the old
/// parity meanwhile.
fn tell_workers(
    w: &Writing,
    job: &Job,
    volume: &Volume,
    extent: usize,
    announce: bool,
    outbox: &mut Outbox,
) {
    let g = &volume.geometry;
    let nothing = BTreeMap::new();
    let mut told = vec![false; g.layout.width()];
    let mut items: Vec<Vec<Item>> = vec![Vec::new(); g.layout.width()];
    for row in &w.plan.rows {
        for column in 0..g.layout.width() {
            let cell = row.cell(g, column);
            told[column] |= row.tells(g, &cell) || announce && cell.delta;
            let stripe = row.stripe;
            for i in cell.awaits.originator.iter() {
                let data = fresh(g, row, &job.what, i);
                items[column].push(Item { stripe, slot: Slot::Originator(i), data });
            }
        }
        if !row.keeps_new(g) {
            for (column, data) in fresh_of_all(g, row, &job.what) {
                items[column].push(Item { stripe: row.stripe, slot: Slot::New, data });
            }
        }
        let at_once = row.strategy != Strategy::Rebuild && row.originator_awaits(g).is_empty();
        if at_once {
            outbox.counters.xor_bytes += added(g, row, &nothing);
            for (column, data) in results(g, row, &job.what, &nothing) {
                told[column] = true;
                items[column].push(Item { stripe: row.stripe, slot: Slot::Result, data });
            }
        }
    }
    for (column, items) in items.into_iter().enumerate().filter(|(c, _)| told[*c]) {
        let node = volume.extents[extent].columns[column].0;
        outbox.send_after(node, Body::Write { header: w.header, items }, 1);
    }
}

/// The new bytes of a row, for each column that gets any.
fn fresh_of_all(g: &Geometry, row: &WriteRow, what: &What) -> Vec<(usize, Buffer)> {
    if row.lo == row.hi {
        return Vec::new();
    }
    let (first, last) = row.units(g);
    let columns = (first..=last).map(|i| (g.layout.data_column(row.stripe, i), i));
    let live = columns.filter(|(column, _)| !row.avoid.contains(*column));
    let mut new: Vec<_> = live.map(|(column, i)| (column, fresh(g, row, what, i))).collect();
    new.sort_unstable_by_key(|(column, _)| *column);
    new
}

/// The new bytes of data unit `i` of a row.
fn fresh(g: &Geometry, row: &WriteRow, what: &What, i: usize) -> Buffer {
    let What::Write(Range { offset, .. }, data) = what else { return Buffer::Zero(0) };
    let cover = row.cover(g, i);
    if cover.is_empty() {
        return Buffer::Zero(0);
    }
    let start = row.stripe * g.stripe_bytes() + i as u64 * g.unit + cover.lo - offset;
    data.slice(start as usize, (start + cover.len()) as usize)
}

/// What the originator computes for a row: finished parity (or its change), or the content
/// of a rebuilt column, for each column that awaits it.
fn results(
    g: &Geometry,
    row: &WriteRow,
    what: &What,
    gathered: &BTreeMap<usize, Buffer>,
) -> Vec<(usize, Buffer)> {
    if let Some(target) = row.target {
        let code_column = g.code_column(row.stripe, target);
        return vec![(target, solve(g, gathered, code_column, row.parity))];
    }
    let awaiting = row.result_columns(g);
    if awaiting.is_empty() {
        return Vec::new();
    }
    let shares = contributions(g, row, what, gathered);
    let sum = |column: usize| {
        let ColumnRole::Parity(j) = g.layout.role(row.stripe, column) else {
            unreachable!("only parity awaits results")
        };
        let old_parity =
            gathered.get(&(g.layout.data + j)).filter(|_| row.commanded && !row.decode);
        (column, combine(g, row, j, &shares, old_parity))
    };
    awaiting.iter().map(sum).collect()
}

/// Bytes that are added up to compute a row's parity here.
fn added(g: &Geometry, row: &WriteRow, gathered: &BTreeMap<usize, Buffer>) -> u64 {
    let awaiting = row.result_columns(g).len() as u64;
    let new: u64 = (0..g.layout.data).map(|i| row.cover(g, i).len()).sum();
    let old: u64 = gathered.values().map(|b| b.len() as u64).sum();
    if row.target.is_some() { old } else { awaiting * (new + old) }
}

/// What each data unit contributes to the parity: where, and the bytes.
fn contributions(
    g: &Geometry,
    row: &WriteRow,
    what: &What,
    gathered: &BTreeMap<usize, Buffer>,
) -> Vec<(usize, Spans, Buffer)> {
    let mut out = Vec::with_capacity(g.layout.data);
    for i in 0..g.layout.data {
        let cover = Spans::from(row.cover(g, i));
        let new = fresh(g, row, what, i);
        if row.decode {
            let old = match gathered.get(&i) {
                Some(old) => old.clone(),
                None => solve(g, gathered, i, row.parity),
            };
            let all = compose(row.parity, &[(row.parity, &old), (cover, &new)]);
            out.push((i, row.parity, all));
            continue;
        }
        if !cover.is_empty() {
            out.push((i, cover, new));
        }
        if let Some(old) = gathered.get(&i) {
            let at = if row.strategy == Strategy::Small { cover } else { row.leftover(g, i) };
            out.push((i, at, old.clone()));
        }
    }
    out
}

/// The sum of the contributions for parity unit `j`, added to its old content if that is given.
fn combine(
    g: &Geometry,
    row: &WriteRow,
    j: usize,
    shares: &[(usize, Spans, Buffer)],
    old: Option<&Buffer>,
) -> Buffer {
    let len = row.parity.len() as usize;
    if shares.iter().all(|s| s.2.is_zero()) {
        return old.cloned().unwrap_or(Buffer::Zero(len));
    }
    if shares.iter().map(|s| &s.2).chain(old).any(Buffer::is_length) {
        return Buffer::Length(len);
    }
    let mut sum = old.map_or_else(|| vec![0; len], |old| old.to_bytes().to_vec());
    let whole = old.is_none() && shares.iter().all(|s| s.1 == row.parity);
    if whole {
        let bytes = shares.iter().filter_map(|(i, _, data)| match data {
            Buffer::Bytes(b) => Some((g.code.coefficient(j, *i), &b[..])),
            Buffer::Zero(_) | Buffer::Length(_) => None,
        });
        weft_code::dot(&mut sum, &bytes.collect::<Vec<_>>());
    } else {
        for (i, spans, data) in shares {
            accumulate(&mut sum, row.parity, *spans, data, g.code.coefficient(j, *i));
        }
    }
    sum.into()
}

/// The content of a column of the code over `at`, from k others.
pub(in crate::node) fn solve(
    g: &Geometry,
    have: &BTreeMap<usize, Buffer>,
    code_column: usize,
    at: Spans,
) -> Buffer {
    let len = at.len() as usize;
    let sources: Vec<(usize, &Buffer)> =
        have.iter().take(g.layout.data).map(|(c, b)| (*c, b)).collect();
    if sources.iter().all(|s| s.1.is_zero()) {
        return Buffer::Zero(len);
    }
    if sources.iter().any(|s| s.1.is_length()) {
        return Buffer::Length(len);
    }
    let columns: Vec<usize> = sources.iter().map(|s| s.0).collect();
    let decoder = g.code.decoder(&columns, &[code_column]).expect("any k columns decode");
    let bytes: Vec<_> = sources.iter().map(|s| s.1.to_bytes()).collect();
    let views: Vec<&[u8]> = bytes.iter().map(|b| &b[..]).collect();
    let mut out = vec![0; len];
    decoder.decode(0, &views, &mut out);
    out.into()
}
