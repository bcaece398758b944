//! What becomes of a job that a worker refuses; having put back what its disk has not: copied from
//! the disk that the column leaves, if there is one, or computed from the other columns.

use super::{Job, MOST_DOUBLINGS_BUSY, Originator, Purpose, What};
use std::collections::{BTreeMap, BTreeSet};

use crate::cluster::Volume;
use crate::layout::ColumnRole;
use crate::node::outbox::Outbox;
use crate::node::worker::Run;
use crate::node::{HostData, Refusal};
use crate::plan::{self, Span};
use crate::units::{ColumnSet, NodeId, VolumeId};

/// A part of a unit: volume, stripe, seat, bytes of the unit.
type UnitPart = (VolumeId, u64, usize, Span);

/// A unit of a volume: volume, stripe, seat.
type Unit = (VolumeId, u64, usize);

/// What is being put back, and who waits for it.
#[derive(Clone, Default, Hash)]
pub(super) struct Rebuilds {
    in_work: BTreeSet<Unit>,
    /// Rebuilds of units that are in work already, to begin when those are over: a unit was found wrong after its
    /// rebuild had read the others, or in another part.
    again: BTreeMap<Unit, Job>,
    waiting: Vec<(Unit, Job)>,
    /// Units that have been put back, of which the node's disk is to be told.
    done: Vec<Unit>,
    /// Parts of columns that nothing determines any more, of which it is to be told, too.
    hopeless: Vec<(VolumeId, u64, usize, Span)>,
}

impl Rebuilds {
    /// How many jobs wait for a rebuild.
    pub fn are_awaited_by(&self) -> usize {
        self.waiting.len()
    }

    /// All jobs that wait, which wait no longer.
    pub fn take_all_waiting(&mut self) -> impl Iterator<Item = Job> + use<> {
        std::mem::take(&mut self.waiting).into_iter().map(|(_, job)| job)
    }

    /// A unit that is being rebuilt is to be rebuilt once more. What is asked for twice is done once, for both parts.
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

    /// The jobs that wait for a unit, which wait no longer.
    fn take_waiting(&mut self, unit: Unit) -> Vec<Job> {
        let (its, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.waiting).into_iter().partition(|w| w.0 == unit);
        self.waiting = others;
        its.into_iter().map(|(_, job)| job).collect()
    }
}

impl Originator {
    /// What cannot be computed, of which the node's own disk should know.
    pub fn take_hopeless(&mut self) -> Vec<(VolumeId, u64, usize, Span)> {
        std::mem::take(&mut self.rebuilds.hopeless)
    }

    /// Whether the node's own worker should know of anything.
    pub fn has_news_for_worker(&self) -> bool {
        !(self.rebuilds.done.is_empty() && self.rebuilds.hopeless.is_empty())
    }

    /// Units that have been put back, of which the node's own disk should know.
    pub fn take_put_back(&mut self) -> Vec<Unit> {
        std::mem::take(&mut self.rebuilds.done)
    }

    /// A worker could not do its part of this job; the attempt is over.
    pub(super) fn refused(&mut self, mut job: Job, refusal: Refusal, outbox: &mut Outbox) {
        if job.joined().is_some() {
            if let Refusal::Late(latest) = refusal {
                self.clock.see(latest);
            }
            return self.part(job, outbox);
        }
        let (seat, column, parts, behind) = match refusal {
            Refusal::Late(latest) => {
                self.clock.see(latest);
                self.is_passed_over(&mut job);
                return self.retry_later(job, outbox);
            }
            Refusal::Busy => {
                job.doubts_loss();
                // Those that wait for one another are refused at about the same time, and would
                // meet again if none of them stayed away for longer the longer it goes on.
                let most = (self.config.lock_timeout / 4) << job.attempts.min(MOST_DOUBLINGS_BUSY);
                return self.retry_after(job, most, outbox);
            }
            // What was to be copied is there by now.
            Refusal::Aborted if self.is_copied(&job) => {
                return self.finish(job, Ok(HostData::Done), outbox);
            }
            // Nothing need be marked there, or is lost any more.
            Refusal::Aborted if job.accepts || matches!(job.what, What::Lose { .. }) => {
                return self.finish(job, Ok(HostData::Done), outbox);
            }
            Refusal::Aborted => return self.retry(job),
            // Perhaps it can be computed by itself, from others.
            _ if !job.with.is_empty() => {
                job.with = ColumnSet::EMPTY;
                return self.retry(job);
            }
            Refusal::MarksAreGone => return self.marks_are_gone(job),
            // Where parity is immediate only a disk of an older format says so: it keeps no marks.
            Refusal::MustNotWait if job.must_wait && !self.defers(&job) => {
                return self.lacks_nodes(job, outbox);
            }
            Refusal::MustNotWait => {
                self.is_unwilling(&job, outbox.now);
                job.must_not_wait = true;
                return self.retry(job);
            }
            // The column's node said so before it was lost, and the map knows now: it is gone around.
            Refusal::Erased { column: seat, parts, .. } if self.is_away(&job, parts[0].0, seat) => {
                return self.retry(job);
            }
            Refusal::Erased { column: seat, parts, behind, marked, known } => {
                let volume = self.map.volumes.get(&job.volume);
                let column = volume.map_or(seat, |v| v.geometry.layout.column_at(parts[0].0, seat));
                if known {
                    job.bad.insert(column);
                }
                if marked {
                    job.marked.insert(column);
                }
                if marked && job.purpose != Purpose::Rebuild && self.is_data(&job, &parts, seat) {
                    return self.lacks_for_good(job, column, outbox);
                }
                (seat, column, parts, behind)
            }
        };
        let copied = self.map.volumes.get(&job.volume).is_some_and(|v| {
            let leaving = &v.extent(parts[0].0).leaving;
            leaving.get(&column).is_some_and(|l| self.map.is_up(l.0))
        });
        // A rebuild goes around what it cannot have. Were it to have that rebuilt first, two
        // columns of one stripe could wait for each other for good; a copy waits for no other.
        let own = matches!(job.what, What::Rebuild { column: its, .. } if its == seat);
        if job.purpose != Purpose::Rebuild || (copied && !own) {
            for (stripe, part) in &parts {
                self.put_back(job.volume, *stripe, seat, *part, !behind);
            }
        }
        if own {
            // One of the two disks does not have it, and the other must not have it from there.
            job.computes = true;
            return self.retry(job);
        }
        match job.what {
            // Readers go around the column; writers that need it wait until it is rebuilt, and
            // so does everyone if it is only copied.
            What::Read(_) | What::Holes(_) | What::Compare(..) | What::Rebuild { .. }
                if !copied =>
            {
                job.avoid.insert(column);
                self.retry(job);
            }
            _ => {
                job.attempts += 1;
                if let What::Verify { .. } = job.what {
                    self.count_rebuilt(&job, parts[0].0, column, parts.len() as u64);
                }
                // What it waits for needs locks, too.
                self.unlock_job(&mut job, outbox);
                let key = (job.volume, parts[0].0, seat);
                self.rebuilds.waiting.push((key, job));
            }
        }
    }

    /// What cannot be rebuilt together is rebuilt stripe by stripe: what is in the way of one is not in that of the others.
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

    /// Whether the stripes of a rebuild of several cannot be rebuilt together as things are: the volume has become smaller,
    /// or they are to be copied.
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

    /// Whether parity may wait in the volume of a job.
    fn defers(&self, job: &Job) -> bool {
        let volume = self.map.volumes.get(&job.volume);
        volume.is_some_and(|v| v.redundancy_at(job.what.first_stripe(v)).defers())
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

    /// Has a part of a column put back that its disk has yet to get, in adjacent stripes.
    pub fn rebuild(&mut self, run: Run) {
        let Run { volume, stripe, stripes, seat: column, part } = run;
        let mut begun: Vec<Run> = Vec::new();
        for stripe in stripe..stripe + stripes {
            // What is being put back already is done by itself.
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

    /// Has parity computed that waits, a part of a column; and if that column has the first of those that are computed
    /// together, the others, too.
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

    /// Has a part of a column put back; what its disk has lost must be computed.
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

    /// Has a part of a column computed and put back, because it is wrong; and not from others that are.
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

    /// Whether all disks are there of the extent that a job begins in.
    fn nobody_is_lost(&self, job: &Job) -> bool {
        let volume = self.map.volumes.get(&job.volume);
        let extent = |v: &Volume| v.extent_of(job.what.first_stripe(v));
        volume
            .is_some_and(|v| extent(v) < v.extents.len() && self.map.lost(v, extent(v)).is_empty())
    }

    /// A rebuild is done, or cannot be: those that waited for it go on.
    pub(super) fn rebuilt(&mut self, job: &Job, good: bool, outbox: &mut Outbox) {
        let (stripes, column) = match job.what {
            What::Rebuild { stripe, stripes, column, .. } => (stripe..stripe + stripes, column),
            What::Lose { stripe, column, part } => {
                self.rebuilds.hopeless.push((job.volume, stripe, column, part));
                (stripe..stripe + 1, column)
            }
            _ => return,
        };
        let good = good && !matches!(job.what, What::Lose { .. });
        for stripe in stripes {
            self.unit_rebuilt((job.volume, stripe, column), good, outbox);
        }
    }

    fn unit_rebuilt(&mut self, unit: Unit, good: bool, outbox: &mut Outbox) {
        self.rebuilds.in_work.remove(&unit);
        if let Some(job) = self.rebuilds.again.remove(&unit) {
            self.begin_rebuild(job);
        }
        if good {
            self.rebuilds.done.push(unit);
        }
        let volume = self.map.volumes.get(&unit.0);
        let defers = volume.is_some_and(|v| v.policy.is_journaled());
        for job in self.rebuilds.take_waiting(unit) {
            if good {
                self.jobs.ready(job);
            } else if matches!(job.what, What::Write(..)) && !job.must_wait && defers {
                // It can do without what is lost if its parity is computed later, from what it writes.
                self.jobs.ready(Job { must_wait: true, must_not_wait: false, ..job });
            } else if matches!(job.what, What::Write(..)) && defers && self.nobody_is_lost(&job) {
                // Its parity can be computed later, once no disk is behind, and nobody waits for it.
                self.retry_later(Job { must_not_wait: false, ..job }, outbox);
            } else {
                self.lacks_nodes(job, outbox);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What it makes ready now: units and their parts.
    fn begun(originator: &mut Originator) -> Vec<(u64, usize, Span, Job)> {
        let next = || originator.jobs.next(u64::MAX);
        let described = |job: Job| match job.what {
            What::Rebuild { stripe, column, part, .. } => (stripe, column, part, job),
            _ => panic!("no rebuild"),
        };
        std::iter::from_fn(next).map(described).collect()
    }

    /// A rebuild that is on its way has read the other columns before the unit was found wrong once more.
    #[test]
    fn a_unit_found_wrong_during_its_rebuild_is_rebuilt_again() {
        let (mut originator, mut outbox) = (
            Originator::new(NodeId(0), crate::node::NodeConfig::default()),
            Outbox::new(NodeId(0), 1),
        );
        let find = |originator: &mut Originator, lo, hi| {
            originator.make_anew(VolumeId(1), 3, 2, Span::new(lo, hi), ColumnSet::EMPTY);
        };
        find(&mut originator, 0, 512);
        let first = begun(&mut originator).pop().expect("it begins");
        find(&mut originator, 1024, 1536);
        find(&mut originator, 512, 1024);
        assert!(begun(&mut originator).is_empty(), "one at a time");
        originator.rebuilt(&first.3, true, &mut outbox);
        let second = begun(&mut originator).pop().expect("it begins again");
        assert_eq!((second.0, second.1, second.2), (3, 2, Span::new(512, 1536)));
        originator.rebuilt(&second.3, true, &mut outbox);
        assert!(begun(&mut originator).is_empty(), "once");
    }
}
