//! Deferred parity at the originator (AFRAID): the deferred parities of a write, how its request is cut, when an
//! attempt is given up after a failure, and content that nothing determines any more. Of volumes that this node controls
//! the account (`node/account`) is asked and told.

use super::{Job, Originator, Purpose, What};
use crate::Buffer;
use crate::cluster::Volume;
use crate::layout::ColumnRole;
use crate::node::background::Background;
use crate::node::outbox::Outbox;
use crate::node::settle::waiting;
use crate::node::{Exposed, HostError, Task};
use crate::plan::{self, MOST_COPIED, Range, Span, Waits};
use crate::units::{ColumnSet, MILLIS, Nanos, NodeId, SECTOR, VolumeId};

/// For this time a refused deferral is not tried again.
const NOT_ASKED_FOR: Nanos = 50 * MILLIS;

/// Cuts a range that is zeroed where it is lost into jobs, one for each stripe unit.
pub(super) fn accepting(volume: &Volume, range: Range, request: u64) -> Vec<Job> {
    let unit = volume.geometry.unit;
    let (from, to) = (range.offset / SECTOR * SECTOR, range.end().next_multiple_of(SECTOR));
    let range = Range { offset: from, len: to - from };
    let units = range.offset / unit..range.end().div_ceil(unit);
    let job = |n: u64| {
        let (from, to) = (range.offset.max(n * unit), range.end().min((n + 1) * unit));
        let piece = Range { offset: from, len: to - from };
        let what = What::Write(piece, Buffer::Zero(piece.len as usize));
        // Where data is lost, the data that parity covers is unknown: so parity is computed later.
        Job { must_wait: true, accepts: true, ..Job::new(Purpose::Host(request), volume.id, what) }
    };
    units.map(job).collect()
}

/// Whether a job is cut as deferred parity needs it. It is not if its volume, or a range of it, has chosen that since.
fn is_cut(job: &Job, volume: &Volume) -> bool {
    let What::Write(range, _) = job.what else { return true };
    let (g, stripe) = (&volume.geometry, job.what.first_stripe(volume));
    range.end() <= volume.redundancy_end(stripe) * g.stripe_bytes()
        && plan::cut(g, &volume.policy_at(stripe), range).len() <= 1
}

impl Originator {
    /// The deferred parities of an attempt at a job. There are none while a disk of the extent is lost or stale,
    /// because parity determines its content, nor while one may be lost soon or columns are to move.
    pub(super) fn parities_that_wait(
        &mut self,
        job: &Job,
        volume: &Volume,
        extent: usize,
        now: Nanos,
    ) -> ColumnSet {
        // Mark and data must be durable before anyone sees them: in the journal, or in the plain store's marking memory.
        let lasts = volume.policy.is_journaled() || self.config.store.plain.is_some();
        let may_be = matches!(job.what, What::Write(..)) && lasts;
        if !may_be || job.must_not_wait {
            return ColumnSet::EMPTY;
        }
        let waits = match job.must_wait {
            true => ColumnSet::first(volume.geometry.code.parity_columns()),
            false => {
                plan::waiting(&volume.geometry, &volume.policy_at(job.what.first_stripe(volume)))
            }
        };
        if !job.must_wait && (!is_cut(job, volume) || self.meets_unwilling(job, volume, now)) {
            return ColumnSet::EMPTY;
        }
        let stripe = job.what.first_stripe(volume);
        let suspects =
            || self.config.heeds_suspects() && self.map.has_suspect(volume, stripe..stripe + 1);
        let at_risk = !job.must_wait && (self.accounts.moving.contains(&volume.id) || suspects());
        let may = waits.is_empty()
            || (!at_risk
                && self.is_whole(volume, extent)
                && (job.must_wait || self.account_allows(job, volume, waits, now)));
        if may { waits } else { ColumnSet::EMPTY }
    }

    /// Whether an attempt at a job is kept as copies at parity's disks: if it is a small write of a host, of whole sectors of one
    /// unit, and all disks of the extent are there and have missed nothing.
    pub(super) fn is_to_be_copied(
        &self,
        job: &Job,
        volume: &Volume,
        extent: usize,
        avoid: ColumnSet,
        now: Nanos,
    ) -> bool {
        let What::Write(range, _) = job.what else { return false };
        let is_host = matches!(job.purpose, Purpose::Host(_)) && !job.accepts && !job.must_wait;
        let g = &volume.geometry;
        let policy = volume.policy_at(job.what.first_stripe(volume));
        let is_small = range.len > 0
            && range.len <= MOST_COPIED
            && range.offset / g.unit == (range.end() - 1) / g.unit
            && range.offset.is_multiple_of(SECTOR)
            && range.len.is_multiple_of(SECTOR);
        if !is_host || !policy.redundancy.copies() {
            return false;
        }
        is_small
            && policy.is_journaled()
            && !job.must_not_wait
            && !self.accounts.moving.contains(&volume.id)
            && avoid.is_empty()
            && self.is_whole(volume, extent)
            && !self.meets_unwilling(job, volume, now)
    }

    /// Whether the controller, if the volume has one, lets a write defer these parities.
    pub(super) fn account_allows(
        &mut self,
        job: &Job,
        volume: &Volume,
        parities: ColumnSet,
        now: Nanos,
    ) -> bool {
        let What::Write(range, _) = job.what else { return true };
        if !volume.has_one_account() {
            return true;
        }
        let txns = &self.txns;
        self.accounts.keep_coming(volume.id, |ts| txns.contains_key(&ts));
        self.accounts.may_defer(volume, range, parities, now)
    }

    /// Has the next parity computed, if some is due.
    pub(super) fn refresh_next(&mut self, background: &mut Background, outbox: &mut Outbox) {
        let (now, is_busy) = (outbox.now, self.requests.len() > self.scrubs.len());
        let rebuilds = &self.rebuilds;
        let is_in_work = |place| rebuilds.has_in_work(&place);
        if let Some(unit) = self.accounts.next(&self.map, is_busy, is_in_work, background, now) {
            self.forget_marks(unit.0, unit.1);
            self.refresh_unit(unit);
        }
        if let Some(at) = self.accounts.next_look(is_busy, now) {
            outbox.want_refresh(at);
        }
    }

    /// The exposure of a volume that this node controls, now and so far.
    pub fn accounted(&self, volume: VolumeId, now: Nanos) -> Option<Exposed> {
        self.accounts.exposed(volume, now)
    }

    /// A request waits until a range is redundant.
    pub fn wants_redundant(&mut self, volume: VolumeId, range: Range, now: Nanos) {
        self.accounts.wants(volume, range, now);
    }

    /// The nodes with the deferred parities of a job's first stripe. Jobs without an immediate parity have one stripe.
    fn waiting_nodes(job: &Job, volume: &Volume) -> Vec<NodeId> {
        let g = &volume.geometry;
        let stripe = job.what.first_stripe(volume);
        let policy = volume.policy_at(stripe);
        let (waits, copies) = (plan::waiting(g, &policy), policy.redundancy.copies());
        let unit = (job.what.offset() % g.stripe_bytes() / g.unit) as usize;
        let waits = |seat: &usize| match g.layout.role(stripe, *seat) {
            ColumnRole::Parity(j) => waits.contains(j) || copies,
            ColumnRole::Data(i) => copies && i == unit,
        };
        let columns = &volume.extent(stripe).columns;
        (0..g.layout.seats())
            .filter(waits)
            .map(|s| columns[g.layout.column_at(stripe, s)].0)
            .collect()
    }

    /// A deferral was refused. It is not tried for a moment, because a refused attempt takes longer.
    pub(super) fn is_unwilling(&mut self, job: &Job, now: Nanos) {
        let Some(volume) = self.map.volumes.get(&job.volume) else { return };
        for node in Originator::waiting_nodes(job, volume) {
            self.known_marks
                .unwilling
                .insert((job.volume, node), now.saturating_add(NOT_ASKED_FOR));
        }
    }

    fn meets_unwilling(&self, job: &Job, volume: &Volume, now: Nanos) -> bool {
        let is = |n: NodeId| {
            self.known_marks.unwilling.get(&(volume.id, n)).is_some_and(|until| now < *until)
        };
        !self.known_marks.unwilling.is_empty()
            && Originator::waiting_nodes(job, volume).into_iter().any(is)
    }

    /// Whether all disks of an extent are present and have missed nothing.
    pub(super) fn is_whole(&self, volume: &Volume, extent: usize) -> bool {
        let columns = &volume.extents[extent].columns;
        let behind = |node: NodeId| self.map.behind_since(volume, extent, node).is_some();
        self.map.lost(volume, extent).is_empty() && !columns.iter().any(|c| behind(c.0))
    }

    /// Whether the content of participants outside these voters is not determined by the voters' content. A commit
    /// would then mark the parity that determines it, and no node could tell whether the write has happened there.
    pub(super) fn would_lose(
        &self,
        job: &Job,
        volume: &Volume,
        participants: &[(usize, NodeId)],
        voters: &[NodeId],
        waits: Waits,
    ) -> bool {
        let missing = participants.iter().filter(|(_, node)| !voters.contains(node));
        let missing: ColumnSet = missing.map(|(column, _)| *column).collect();
        let What::Write(range, _) = job.what else { return false };
        if waits.parities.is_empty() || missing.is_empty() || !self.config.trusts_no_mark() {
            return false;
        }
        let g = &volume.geometry;
        let Ok(plan) = Task::Write(range).plan(volume, job.avoid, waits) else { return true };
        plan.rows.iter().any(|row| {
            waiting::is_undetermined(g, row.stripe, g.seats_of(row.stripe, missing), row.waits())
        })
    }

    /// The next step for a job without a plan. If disks are away, it waits for them, because they may come back. A disk
    /// that does not know yet what it has missed will know: perhaps nothing. Without either, if the others have marked
    /// or lost content that a rebuild needs, nothing determines the content any more. Of a longer part the first half
    /// is tried by itself, since perhaps only some sectors are lost.
    pub(super) fn nothing_determines(&mut self, mut job: Job, outbox: &mut Outbox) {
        if job.joined().is_some() {
            return self.part(job, outbox);
        }
        let Some(volume) = self.map.volumes.get(&job.volume).cloned() else {
            return self.lacks_nodes(job, outbox);
        };
        let stripe = job.what.first_stripe(&volume);
        let extent = volume.extent_of(stripe);
        let of = match job.what {
            What::Rebuild { column, .. } => {
                ColumnSet::of(volume.geometry.layout.column_at(stripe, column))
            }
            _ => ColumnSet::EMPTY,
        };
        let others = job.avoid.minus(job.bad).minus(of);
        if !others.minus(self.map.lost(&volume, extent)).is_empty() {
            job.look_anew();
            return self.retry_later(job, outbox);
        }
        let What::Rebuild { stripe, column, part, .. } = job.what else {
            return self.lacks_nodes(job, outbox);
        };
        // The disk that the column leaves may have it, unless it has reported otherwise.
        let leaving = &volume.extents[extent].leaving;
        let moves = of.iter().any(|c| leaving.contains_key(&c)) && !job.computes;
        let known = (!job.bad.is_empty() || !volume.geometry.is_redundant())
            && others.is_empty()
            && job.mistrusts.is_empty();
        // Lost content is marked as such where there is a journal.
        let for_good = known && volume.policy.is_journaled();
        if !for_good || moves || !self.map.lost(&volume, extent).is_empty() {
            return self.lacks_nodes(job, outbox);
        }
        job.look_anew();
        if part.len() > SECTOR {
            let half = (part.len() / 2).next_multiple_of(SECTOR);
            let part = Span::new(part.lo, part.lo + half);
            job.what = What::Rebuild { stripe, stripes: 1, column, part };
        } else {
            job.what = What::Lose { stripe, column, part };
        }
        self.retry(job);
    }

    /// A column reports that the wanted content is permanently lost. A reader avoids the column. A writer need not know
    /// the content: parity is computed later, from the data of that time.
    pub(super) fn lacks_for_good(&mut self, mut job: Job, column: usize, outbox: &mut Outbox) {
        match job.what {
            What::Write(..) if !job.must_wait => {
                (job.must_wait, job.must_not_wait) = (true, false);
                self.retry(job);
            }
            // It begins or ends within a sector whose rest is lost.
            What::Write(..) | What::Verify { .. } => {
                self.finish(job, Err(HostError::TooManyLost), outbox);
            }
            _ => {
                job.avoid.insert(column);
                self.retry(job);
            }
        }
    }
}

#[cfg(test)]
mod tests;
