//! Jobs that a worker has refused, and rebuilds of content that a disk lacks: copied from the disk that the column
//! leaves, if there is one, or computed from the other columns.
//! The disk's own node leads that, or a controller that computes parity (`roles=central`; DR-net 4.2).

use super::lacking::FULL_PAUSE;
use super::{Job, MOST_DOUBLINGS_BUSY, Originator, Purpose, What};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::cluster::Volume;
use crate::layout::ColumnRole;
use crate::node::outbox::Outbox;
use crate::node::task::joins;
use crate::node::worker::{FoldEnd, FoldOf, Folded};
use crate::node::{Body, HostData, HostError, Refusal, Run, Trust};
use crate::plan::{self, Span};
use crate::policy::Controller;
use crate::store::Kept;
use crate::units::{ColumnSet, Nanos, NodeId, SECTOR, Timestamp, VolumeId};

/// A part of a unit: volume, stripe, seat, bytes of the unit.
type UnitPart = (VolumeId, u64, usize, Span);

/// A unit of a volume: volume, stripe, seat.
type Unit = (VolumeId, u64, usize);

/// What a column lacks, as its node says ([`Refusal::Erased`]).
struct Lacked {
    seat: usize,
    parts: Vec<(u64, Span)>,
    why: Lack,
}

#[derive(PartialEq)]
enum Lack {
    /// It has missed writes.
    Behind,
    /// It has missed writes, and does not know yet which.
    Unknown,
    Lost,
    Marked,
}

/// Content being rebuilt, and the jobs that wait for it.
#[derive(Clone, Default, Hash)]
pub(super) struct Rebuilds {
    in_work: BTreeSet<Unit>,
    /// Rebuilds of units whose rebuild is already in progress, to begin when that ends: a unit was found wrong after
    /// its rebuild had read the others, or in another part.
    again: BTreeMap<Unit, Job>,
    /// Each with the units that it waits for.
    waiting: Vec<(BTreeSet<Unit>, Job)>,
    /// Rebuilt units, to be reported to the node's disk.
    done: Vec<Unit>,
    /// Parts of columns that are permanently lost, also to be reported to it.
    unrecoverable: Vec<(VolumeId, u64, usize, Span)>,
    /// The folds that have ended, also to be reported to it.
    pub(super) folded: Vec<FoldEnd>,
    /// When a rebuild onto each of these disks was last refused for lack of space.
    full: BTreeMap<NodeId, Nanos>,
}

impl Rebuilds {
    /// Whether a unit is being rebuilt.
    pub fn has_in_work(&self, unit: &Unit) -> bool {
        self.in_work.contains(unit)
    }

    /// The number of jobs that wait for a rebuild.
    pub fn are_awaited_by(&self) -> usize {
        self.waiting.len()
    }

    /// Removes and returns all waiting jobs.
    pub fn take_all_waiting(&mut self) -> impl Iterator<Item = Job> + use<> {
        std::mem::take(&mut self.waiting).into_iter().map(|(_, job)| job)
    }

    /// A unit that is being rebuilt must be rebuilt once more. Two such requests are done as one, for both parts.
    fn rebuild_again(&mut self, unit: Unit, job: Job) {
        let earlier = self.again.remove(&unit);
        let job = match (job.what.clone(), earlier.map(|j| j.what)) {
            (
                What::Rebuild { stripe, stripes, column, part },
                Some(What::Rebuild { part: other, .. }),
            ) => {
                let part = Span::new(part.lo.min(other.lo), part.hi.max(other.hi));
                Job { what: What::Rebuild { stripe, stripes, column, part }, ..job }
            }
            _ => job,
        };
        self.again.insert(unit, job);
    }

    /// Removes and returns the jobs that wait for a unit, and if it is `there` for no other.
    fn take_waiting(&mut self, unit: Unit, there: bool) -> Vec<Job> {
        let all = std::mem::take(&mut self.waiting).into_iter();
        let (its, others): (Vec<_>, Vec<_>) = all
            .map(|(mut units, job)| {
                let goes_on = units.remove(&unit) && (!there || units.is_empty());
                (goes_on, units, job)
            })
            .partition(|(goes_on, ..)| *goes_on);
        self.waiting = others.into_iter().map(|(_, units, job)| (units, job)).collect();
        its.into_iter().map(|(.., job)| job).collect()
    }
}

impl Originator {
    /// Unrecoverable parts, which the node's own disk should know.
    pub fn take_unrecoverable(&mut self) -> Vec<(VolumeId, u64, usize, Span)> {
        std::mem::take(&mut self.rebuilds.unrecoverable)
    }

    /// Whether the node's own worker has something to learn.
    pub fn has_news_for_worker(&self) -> bool {
        !(self.rebuilds.done.is_empty()
            && self.rebuilds.unrecoverable.is_empty()
            && self.rebuilds.folded.is_empty())
    }

    /// The worker asks for a fold.
    pub fn fold(&mut self, fold: FoldOf) {
        self.jobs.fold(fold);
    }

    /// A fold of copies of this write has ended.
    pub(super) fn folded(
        &mut self,
        mut job: Job,
        (of, kept): (Timestamp, Kept),
        result: Result<Folded, HostError>,
    ) {
        self.jobs.give_room(&mut job);
        let What::Write(range, _) = job.what else { unreachable!("a fold writes") };
        self.rebuilds.folded.push(FoldEnd { range, of, kept, result });
    }

    /// A fold has found that its copies are gone.
    fn not_copied(&mut self, mut job: Job, outbox: &mut Outbox) {
        let Purpose::Fold(of, kept) = job.purpose else { unreachable!("no other job folds") };
        self.unlock_job(&mut job, outbox);
        self.folded(job, (of, kept), Ok(Folded::Gone));
    }

    /// Folds that have ended.
    pub fn take_folded(&mut self) -> Vec<FoldEnd> {
        std::mem::take(&mut self.rebuilds.folded)
    }

    /// Rebuilt units, which the node's own disk should know.
    pub fn take_put_back(&mut self) -> Vec<Unit> {
        std::mem::take(&mut self.rebuilds.done)
    }

    /// A worker could not do its part of this job; the attempt has ended.
    pub(super) fn refused(&mut self, mut job: Job, refusal: Refusal, outbox: &mut Outbox) {
        if job.joined().is_some() {
            if let Refusal::Late(latest) = refusal {
                self.clock.see(latest);
            }
            return self.part(job, outbox);
        }
        match refusal {
            Refusal::Late(latest) => {
                self.clock.see(latest);
                self.is_passed_over(&mut job);
                self.retry_later(job, outbox);
            }
            Refusal::NotCopied => self.not_copied(job, outbox),
            // A slow disk's content is not read round it while copies wait to be put in place.
            Refusal::Busy if job.takes_detour() => {
                job.detour = Some(ColumnSet::EMPTY);
                self.retry_later(job, outbox);
            }
            Refusal::Busy => {
                job.doubts_loss();
                // Jobs that conflict with each other are refused at about the same time. They would conflict again
                // without pauses that grow and differ.
                let most = (self.config.lock_timeout / 4) << job.attempts.min(MOST_DOUBLINGS_BUSY);
                self.retry_after(job, most, outbox);
            }
            // The content to copy is there by now.
            Refusal::Aborted if self.is_copied(&job) => {
                self.finish(job, Ok(HostData::Done), outbox);
            }
            // Nothing there is lost or needs a mark any more.
            Refusal::Aborted if job.accepts || matches!(job.what, What::Lose { .. }) => {
                self.finish(job, Ok(HostData::Done), outbox);
            }
            Refusal::Aborted => self.retry(job),
            Refusal::Full => self.lacks_space(job, outbox),
            // Single stripes may be computable, from other columns.
            _ if !job.with.is_empty() => {
                job.with = ColumnSet::EMPTY;
                self.retry(job);
            }
            Refusal::MarksAreGone => self.marks_are_gone(job),
            Refusal::MustNotWait => {
                self.is_unwilling(&job, outbox.now);
                job.must_not_wait = true;
                self.retry(job);
            }
            Refusal::Erased { column: seat, parts, behind, marked, known } => {
                let why = match (behind, marked) {
                    (true, _) if known => Lack::Behind,
                    (true, _) => Lack::Unknown,
                    (false, true) => Lack::Marked,
                    (false, false) => Lack::Lost,
                };
                self.lacks_content(job, Lacked { seat, parts, why }, outbox);
            }
        }
    }

    /// A column lacks the content that a job needs.
    fn lacks_content(&mut self, mut job: Job, lacked: Lacked, outbox: &mut Outbox) {
        let Lacked { seat, parts, why } = lacked;
        let behind = matches!(why, Lack::Behind | Lack::Unknown);
        // The column's node said so before it was lost, and the map knows now: the column is avoided.
        if self.is_away(&job, parts[0].0, seat) {
            return self.retry(job);
        }
        // What a detour needs may be out of date where the column itself is not, and other stripes may need it.
        if job.takes_detour() {
            job.detour = Some(ColumnSet::EMPTY);
            return self.retry(job);
        }
        let volume = self.map.volumes.get(&job.volume);
        let column = volume.map_or(seat, |v| v.geometry.layout.column_at(parts[0].0, seat));
        if why != Lack::Unknown {
            job.bad.insert(column);
        }
        if why == Lack::Marked {
            job.marked.insert(column);
        }
        if job.folds().is_some() && why == Lack::Behind {
            return self.jobs.fold_without(job, column);
        }
        let needs_all = job.purpose == Purpose::Rebuild || job.reads_first();
        if why == Lack::Marked && !needs_all && self.is_data(&job, &parts, seat) {
            return self.lacks_for_good(job, column, outbox);
        }
        let verifies = matches!(job.what, What::Verify { .. });
        if verifies && behind && self.is_full(&job, parts[0].0, column, outbox.now) {
            return self.finish(job, Err(HostError::NoSpace), outbox);
        }
        let lacking = self.volumes_lacking(job.volume, parts[0].0, column, behind);
        let copied = lacking.iter().any(|id| self.copies_column(*id, parts[0].0, column));
        // A rebuild avoids missing columns. If it had those rebuilt first, two columns of one stripe could wait for
        // each other forever; a copy waits for no other.
        let own = matches!(job.what, What::Rebuild { column: its, .. } if its == seat);
        let goes_round = job.can_avoid_columns() && !copied && !self.config.rebuilding.on_demand;
        if (job.purpose != Purpose::Rebuild && !goes_round) || (copied && !own) {
            for id in &lacking {
                for (stripe, part) in &parts {
                    self.put_back(*id, *stripe, seat, *part, !behind);
                }
            }
        }
        if own {
            // One of the two disks lacks the content, and the other must not get it from there.
            job.computes = true;
            return self.retry(job);
        }
        // Readers avoid the column. Writers that need it wait until it is rebuilt, and so do all requests if it is only
        // copied.
        if job.can_avoid_columns() && !copied {
            job.avoid.insert(column);
            return self.retry(job);
        }
        if job.folds().is_some() {
            // The rebuild may wait for it, and it can do without the column once that column knows its gaps.
            return self.retry_after(job, self.config.lock_timeout, outbox);
        }
        job.attempts += 1;
        if verifies {
            self.rebuilds_to_verify(&job, parts[0].0, column, parts.len() as u64);
        }
        // The rebuild that it waits for needs locks, too.
        self.unlock_job(&mut job, outbox);
        let units = lacking.into_iter().map(|id| (id, parts[0].0, seat)).collect();
        self.rebuilds.waiting.push((units, job));
    }

    /// The volumes whose column a disk may lack if it refuses a read of a volume: that volume, or those that it lies over. What
    /// a disk lacks of a deleted snapshot it lacks of the volume into which that is merged: the other disks may have merged it.
    fn volumes_lacking(
        &self,
        id: VolumeId,
        stripe: u64,
        column: usize,
        behind: bool,
    ) -> Vec<VolumeId> {
        let lacks = |volume: &&Arc<Volume>| {
            let extent = volume.extent_of(stripe);
            let node = volume.extents[extent].columns[column].0;
            match self.config.rebuilds_what_is_shown() {
                true => {
                    self.map.shown_in(volume.id) == volume.id
                        && self.map.lacks_since(volume, extent, node).is_some()
                }
                false => self.map.behind_since(volume, extent, node).is_some(),
            }
        };
        let below = self.map.all_below(id).take_while(|volume| stripe < volume.stripes());
        let all = self.map.volumes.get(&id).into_iter().chain(below);
        let mut lacking: Vec<VolumeId> = all.filter(lacks).map(|volume| volume.id).collect();
        if lacking.is_empty() || !behind {
            lacking = vec![id];
        }
        lacking
    }

    /// Whether a column is copied from a disk that can be had.
    fn copies_column(&self, id: VolumeId, stripe: u64, column: usize) -> bool {
        self.map.volumes.get(&id).is_some_and(|volume| {
            let leaving = &volume.extent(stripe).leaving;
            leaving.get(&column).is_some_and(|place| self.map.is_up(place.0))
        })
    }

    /// A rebuild that fails for several stripes together is done stripe by stripe: an obstacle to one need not be one
    /// to the others.
    pub(super) fn part(&mut self, mut job: Job, outbox: &mut Outbox) {
        let What::Rebuild { column, part, .. } = job.what else { return };
        self.unlock_job(&mut job, outbox);
        self.give_up_claim(&mut job);
        for stripe in job.joined().into_iter().flatten() {
            let what = What::Rebuild { stripe, stripes: 1, column, part };
            let alone = Job::new(Purpose::Rebuild, job.volume, what);
            self.jobs.ready(Job { computes: job.computes, ..alone });
        }
    }

    /// Whether the stripes of a joint rebuild can no longer be rebuilt together: the volume has become smaller, or they
    /// must be copied.
    pub(super) fn must_part(&self, job: &Job, volume: &Volume) -> bool {
        let Some(stripes) = job.joined() else { return false };
        stripes.end > volume.stripes() || self.source_of(job, volume).is_some()
    }

    /// Whether the node of a seat's column cannot be used by the map.
    fn is_away(&self, job: &Job, stripe: u64, seat: usize) -> bool {
        let Some(volume) = self.map.volumes.get(&job.volume) else { return false };
        let extent = volume.extent_of(stripe);
        extent < volume.extents.len()
            && self
                .map
                .lost(volume, extent)
                .contains(volume.geometry.layout.column_at(stripe, seat))
    }

    /// Whether a seat holds data in the first of these parts.
    fn is_data(&self, job: &Job, parts: &[(u64, Span)], seat: usize) -> bool {
        let volume = self.map.volumes.get(&job.volume);
        let role = volume.map(|v| v.geometry.layout.role(parts[0].0, seat));
        matches!(role, Some(ColumnRole::Data(_)))
    }

    /// The disk from which a rebuild's column can be copied.
    pub(super) fn source_of(&self, job: &Job, volume: &Volume) -> Option<NodeId> {
        let What::Rebuild { stripe, column: seat, .. } = job.what else { return None };
        let column = volume.geometry.layout.column_at(stripe, seat);
        let (source, _) = *volume.extent(stripe).leaving.get(&column)?;
        (!job.computes && self.map.is_up(source)).then_some(source)
    }

    fn is_copied(&self, job: &Job) -> bool {
        self.map.volumes.get(&job.volume).is_some_and(|v| self.source_of(job, v).is_some())
    }

    /// Rebuilds a part of a column that its disk still lacks, in adjacent stripes.
    pub fn rebuild(&mut self, run: Run) {
        let Run { volume, stripe, stripes, seat: column, part } = run;
        let mut begun: Vec<Run> = Vec::new();
        for stripe in stripe..stripe + stripes {
            // A part that is already being rebuilt is done by itself.
            if self.rebuilds.in_work.insert((volume, stripe, column)) {
                match begun.last_mut().filter(|last| last.stripe + last.stripes == stripe) {
                    Some(last) => last.stripes += 1,
                    None => begun.push(Run { stripe, stripes: 1, ..run }),
                }
            }
        }
        for Run { stripe, stripes, .. } in begun {
            let what = What::Rebuild { stripe, stripes, column, part };
            self.jobs.ready(Job::new(Purpose::Rebuild, volume, what));
        }
    }

    /// The node that leads a volume's rebuilds, if it is not each disk's own.
    fn leader(&self, volume: &Volume) -> Option<NodeId> {
        match volume.policy.controller {
            Some(Controller::InBand) => self.map.server(),
            _ => self.config.rebuilding.led_by,
        }
    }

    /// Has parts of the node's own column put back. Those that another leads are asked for again at each tick while they
    /// are missing.
    pub fn lead(&mut self, runs: Vec<Run>, outbox: &mut Outbox) {
        let mut of_others: BTreeMap<NodeId, Vec<Run>> = BTreeMap::new();
        for run in runs {
            let volume = self.map.volumes.get(&run.volume);
            match volume.and_then(|v| self.leader(v)) {
                Some(leader) if leader != outbox.node() => {
                    of_others.entry(leader).or_default().push(run);
                }
                _ => self.rebuild(run),
            }
        }
        for (leader, runs) in of_others {
            outbox.send(leader, Body::PutBack { runs });
        }
    }

    /// Another node lacks parts of its column, and this one leads their rebuild.
    pub fn on_put_back(&mut self, from: NodeId, runs: Vec<Run>, outbox: &mut Outbox) {
        for run in runs {
            if !self.may_lead(from, &run, outbox.node()) {
                outbox.refuse(from, || "asks to rebuild what this node does not lead".into());
                return;
            }
            self.rebuild(run);
        }
    }

    /// Whether a run is of the node's column, and of a volume that this node leads.
    fn may_lead(&self, from: NodeId, run: &Run, own: NodeId) -> bool {
        let Run { stripe, stripes, seat, part, .. } = *run;
        let Some(volume) = self.map.volumes.get(&run.volume) else { return false };
        self.leader(volume) == Some(own)
            && joins(volume, stripe, stripes, seat, part)
            && volume.seats_on(from, stripe).any(|its| its == seat)
            && part.lo < part.hi
            && part.hi <= volume.unit_sectors() * SECTOR
            && part == part.sectors_out()
    }

    /// Verifies stripes that a lost host may have written in part, and makes their parity match the data (shared
    /// storage 3.2.3).
    pub fn repair(&mut self, stripes: impl IntoIterator<Item = (VolumeId, u64)>) {
        for (volume, stripe) in stripes {
            let what = What::Verify { stripe, trust: Trust::Data };
            self.jobs.ready(Job::new(Purpose::Repair, volume, what));
        }
    }

    /// Computes deferred parity, a part of a column; if that column has the first of the parities that are computed
    /// together, the others too.
    pub fn refresh_unit(&mut self, (id, stripe, column, part): UnitPart) {
        let Some(volume) = self.map.volumes.get(&id) else { return };
        let g = &volume.geometry;
        let together = plan::refreshed_together(g, &volume.policy_at(stripe));
        let seat = |j| g.layout.parity_seat(stripe, j);
        let with = match g.layout.role(stripe, column) {
            ColumnRole::Parity(_) if together.iter().next().map(seat) == Some(column) => together,
            ColumnRole::Parity(j) if g.code.covers_all() => ColumnSet::of(j),
            _ => ColumnSet::EMPTY,
        };
        let what = What::Rebuild { stripe, stripes: 1, column, part };
        self.begin_rebuild(Job { with, ..Job::new(Purpose::Rebuild, id, what) });
    }

    /// Rebuilds a part of a column that its disk has lost: it must be computed.
    pub(super) fn put_back(
        &mut self,
        volume: VolumeId,
        stripe: u64,
        column: usize,
        part: Span,
        computes: bool,
    ) {
        let what = What::Rebuild { stripe, stripes: 1, column, part };
        let job = Job::new(Purpose::Rebuild, volume, what);
        self.begin_rebuild(Job { computes, ..job });
    }

    /// Computes and rewrites a part of a column that is wrong, and not from other wrong parts.
    pub(super) fn make_anew(
        &mut self,
        volume: VolumeId,
        stripe: u64,
        seat: usize,
        part: Span,
        wrong: ColumnSet,
    ) {
        let volume_of = self.map.volumes.get(&volume);
        let column = volume_of.map_or(seat, |v| v.geometry.layout.column_at(stripe, seat));
        let mistrusts = wrong.minus(ColumnSet::of(column));
        let what = What::Rebuild { stripe, stripes: 1, column: seat, part };
        let job = Job::new(Purpose::Rebuild, volume, what);
        let job = Job { computes: true, mistrusts, ..job };
        let unit = (volume, stripe, seat);
        if self.rebuilds.in_work.contains(&unit) {
            self.rebuilds.rebuild_again(unit, job);
        } else {
            self.begin_rebuild(job);
        }
    }

    fn begin_rebuild(&mut self, job: Job) {
        let What::Rebuild { stripe, column, .. } = job.what else { return };
        if self.rebuilds.in_work.insert((job.volume, stripe, column)) {
            self.jobs.ready(job);
        }
    }

    /// Whether all disks of the extent in which a job begins are there.
    pub(super) fn nobody_is_lost(&self, job: &Job) -> bool {
        let volume = self.map.volumes.get(&job.volume);
        let extent = |v: &Volume| v.extent_of(job.what.first_stripe(v));
        volume
            .is_some_and(|v| extent(v) < v.extents.len() && self.map.lost(v, extent(v)).is_empty())
    }

    /// A rebuild has ended, or is impossible: the jobs that waited for it continue.
    pub(super) fn rebuilt(&mut self, job: &Job, good: bool, outbox: &mut Outbox) {
        let (stripes, column) = match job.what {
            What::Rebuild { stripe, stripes, column, .. } => (stripe..stripe + stripes, column),
            What::Lose { stripe, column, part } => {
                self.rebuilds.unrecoverable.push((job.volume, stripe, column, part));
                self.accounts.give_up((job.volume, stripe, column, part));
                (stripe..stripe + 1, column)
            }
            _ => return,
        };
        let good = good && !matches!(job.what, What::Lose { .. });
        for stripe in stripes {
            self.unit_rebuilt((job.volume, stripe, column), good, outbox);
        }
    }

    /// The disk of a job's column has no space for a rebuild.
    pub(super) fn note_full(&mut self, job: &Job, now: Nanos) {
        let What::Rebuild { stripe, column: seat, .. } = job.what else { return };
        if let Some(volume) = self.map.volumes.get(&job.volume) {
            let column = volume.geometry.layout.column_at(stripe, seat);
            self.rebuilds.full.insert(volume.extent(stripe).columns[column].0, now);
        }
    }

    /// Whether a rebuild onto the disk of a column was refused for lack of space just now. A scrub skips the stripe then: it
    /// would wait at each for a disk that may be full for long.
    fn is_full(&self, job: &Job, stripe: u64, column: usize, now: Nanos) -> bool {
        let node = self.map.volumes[&job.volume].extent(stripe).columns[column].0;
        let since = self.rebuilds.full.get(&node);
        since.is_some_and(|since| now.saturating_sub(*since) < 2 * FULL_PAUSE)
    }

    /// The jobs that wait for what a job rebuilds.
    pub(super) fn take_waiting_for(&mut self, job: &Job) -> Vec<Job> {
        match job.what {
            What::Rebuild { stripe, stripes, column, .. } => (stripe..stripe + stripes)
                .flat_map(|stripe| self.rebuilds.take_waiting((job.volume, stripe, column), false))
                .collect(),
            _ => Vec::new(),
        }
    }

    fn unit_rebuilt(&mut self, unit: Unit, good: bool, outbox: &mut Outbox) {
        self.rebuilds.in_work.remove(&unit);
        self.accounts.ended(unit, good, outbox.now);
        if let Some(job) = self.rebuilds.again.remove(&unit) {
            self.begin_rebuild(job);
        }
        if good {
            self.rebuilds.done.push(unit);
        }
        let volume = self.map.volumes.get(&unit.0);
        let defers = volume.is_some_and(|v| v.policy.is_journaled());
        let column = volume.map(|v| v.geometry.layout.column_at(unit.1, unit.2));
        for mut job in self.rebuilds.take_waiting(unit, good) {
            if good {
                self.jobs.ready(job);
            } else if let (true, Some(column)) = (job.can_avoid_columns(), column) {
                // The column stays as it is, so there is nothing to wait for.
                job.avoid.insert(column);
                self.retry_later(job, outbox);
            } else if job.reads_first() {
                self.lacks_nodes(job, outbox);
            } else if matches!(job.what, What::Write(..)) && !job.must_wait && defers {
                // The write can go on without the lost content if its parity is computed later, from the new content.
                self.jobs.ready(Job { must_wait: true, must_not_wait: false, ..job });
            } else if matches!(job.what, What::Write(..)) && defers && self.nobody_is_lost(&job) {
                // Its parity can be computed later, when no disk is stale, and no request waits for it.
                self.retry_later(Job { must_not_wait: false, ..job }, outbox);
            } else {
                self.lacks_nodes(job, outbox);
            }
        }
    }
}

#[cfg(test)]
mod tests;
