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
use crate::plan::{ParityAt, PlanError, Range, Spans, WritePlan, WriteRow, accumulate, compose};
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
                let gone = Err(PlanError::NotRecoverable { lost: avoid });
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
        let at_once = row.target.is_none() && row.originator_awaits(g).is_empty();
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
    let old = old_data(g, row, gathered);
    let sum = |column: usize| {
        let ColumnRole::Parity(j) = g.layout.role(row.stripe, column) else {
            unreachable!("only parity awaits results")
        };
        let shares = contributions(g, row, what, &old, j);
        let old_parity = old_parity(g, row, gathered, j);
        (column, combine(g, row, j, &shares, old_parity.as_ref()))
    };
    awaiting.iter().map(sum).collect()
}

/// Bytes that are added up to compute a row's parity here.
fn added(g: &Geometry, row: &WriteRow, gathered: &BTreeMap<usize, Buffer>) -> u64 {
    let shown = |c: &usize| gathered.get(c).map_or(0, |b| b.len() as u64);
    let solved = row.solves_from.iter().map(|c| shown(&c)).sum::<u64>();
    if row.target.is_some() || row.parity_at != ParityAt::Originator {
        return solved;
    }
    let of_parity = |j: usize| {
        let own = shown(&(g.data_columns() + j)).min(row.spans(g, j).len());
        let old = if row.commanded && row.changed.contains(j) { own } else { 0 };
        let share = |i: usize| match row.changed.contains(j) {
            true => 2 * row.cover(g, i).len(),
            false => row.leftover(g, i, j).len() + row.cover(g, i).len(),
        };
        g.code.support(j).iter().map(share).sum::<u64>() + old
    };
    row.parities().iter().map(of_parity).sum::<u64>() + solved
}

/// What is known of the old content of data units: where, and the bytes. What was shown, and what
/// is solved for from that.
fn old_data(
    g: &Geometry,
    row: &WriteRow,
    gathered: &BTreeMap<usize, Buffer>,
) -> BTreeMap<usize, (Spans, Buffer)> {
    let mut out = BTreeMap::new();
    for i in 0..g.data_columns() {
        let needed = row.needs_old(g, i);
        if let Some(bytes) = gathered.get(&i) {
            let spans = if row.solves_from.contains(i) { row.parity } else { needed };
            out.insert(i, (spans, bytes.clone()));
        } else if row.decodes() && !needed.is_empty() {
            let from = row.solves_from.iter().filter_map(|c| Some((c, gathered.get(&c)?.clone())));
            out.insert(i, (row.parity, solve(g, &from.collect(), i, row.parity)));
        }
    }
    out
}

/// The old content of parity `j`, if what is computed here is content though the parity takes in
/// changes.
fn old_parity(
    g: &Geometry,
    row: &WriteRow,
    gathered: &BTreeMap<usize, Buffer>,
    j: usize,
) -> Option<Buffer> {
    if !row.commanded || !row.changed.contains(j) {
        return None;
    }
    let code_column = g.data_columns() + j;
    let spans = row.spans(g, j);
    let shown = if row.solves_from.contains(code_column) { row.parity } else { spans };
    Some(compose(spans, &[(shown, gathered.get(&code_column)?)]))
}

/// What each data unit contributes to parity `j`: where, and the bytes.
fn contributions(
    g: &Geometry,
    row: &WriteRow,
    what: &What,
    old: &BTreeMap<usize, (Spans, Buffer)>,
    j: usize,
) -> Vec<(usize, Spans, Buffer)> {
    let support = g.code.support(j);
    let mut out = Vec::with_capacity(2 * support.len());
    for i in support.iter() {
        let cover = Spans::from(row.cover(g, i));
        if !cover.is_empty() {
            out.push((i, cover, fresh(g, row, what, i)));
        }
        let changed = row.changed.contains(j);
        let stays = if changed { cover } else { row.leftover(g, i, j) };
        if let Some((at, bytes)) = old.get(&i).filter(|_| !stays.is_empty()) {
            let bytes = if *at == stays { bytes.clone() } else { compose(stays, &[(*at, bytes)]) };
            out.push((i, stays, bytes));
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
    let at = row.spans(g, j);
    let len = at.len() as usize;
    if shares.iter().all(|s| s.2.is_zero()) {
        return old.cloned().unwrap_or(Buffer::Zero(len));
    }
    if shares.iter().map(|s| &s.2).chain(old).any(Buffer::is_length) {
        return Buffer::Length(len);
    }
    let mut sum = old.map_or_else(|| vec![0; len], |old| old.to_bytes().to_vec());
    let whole = old.is_none() && shares.iter().all(|s| s.1 == at);
    if whole {
        let bytes = shares.iter().filter_map(|(i, _, data)| match data {
            Buffer::Bytes(b) => Some((g.code.coefficient(j, *i), &b[..])),
            Buffer::Zero(_) | Buffer::Length(_) => None,
        });
        weft_code::dot(&mut sum, &bytes.collect::<Vec<_>>());
    } else {
        for (i, spans, data) in shares {
            accumulate(&mut sum, at, *spans, data, g.code.coefficient(j, *i));
        }
    }
    sum.into()
}

/// The content of a column of the code over `at`, from others that determine it.
///
/// # Panics
///
/// If they do not.
pub(in crate::node) fn solve(
    g: &Geometry,
    have: &BTreeMap<usize, Buffer>,
    code_column: usize,
    at: Spans,
) -> Buffer {
    let len = at.len() as usize;
    if have.values().all(Buffer::is_zero) {
        return Buffer::Zero(len);
    }
    if have.values().any(Buffer::is_length) {
        return Buffer::Length(len);
    }
    let columns = have.keys().copied().collect();
    let decoder = g.code.decoder(columns, code_column).expect("they determine it");
    let bytes: Vec<_> = have.values().map(Buffer::to_bytes).collect();
    let views: Vec<&[u8]> = bytes.iter().map(|b| &b[..]).collect();
    let mut out = vec![0; len];
    decoder.decode(&views, &mut out);
    out.into()
}
