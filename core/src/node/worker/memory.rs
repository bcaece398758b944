//! Outcomes of hosts' requests, for repeated requests (as in RIFL: Lee, Park, Kejriwal, Matsushita and Ousterhout, SOSP
//! 2015).
//!
//! A host, or the node that has its requests, may stop during a write. When it continues, the others have settled the
//! write and forgotten it, and may have written over it. So each participant remembers the writes of a request, by the
//! request's name, until the host reports that it knows the end. This memory is lost when the node stops; a write that
//! may have happened before is recognised by the versions of the sectors that it would have changed.

use super::*;
use crate::cluster::ClusterMap;
use crate::order::{Asker, HostId, RequestId};
use crate::plan::{Calculators, Waits};
use crate::store::Scan;
use crate::units::ColumnSet;

/// A part of a request that has happened.
#[derive(Clone, Copy, Debug, Hash)]
struct Done {
    ts: Timestamp,
    volume: VolumeId,
    range: VolumeRange,
    /// Parity was marked here, and nothing else: the data's state is unknown.
    marked: bool,
}

/// The memory of a host.
#[derive(Clone, Debug, Default, Hash)]
struct Remembered {
    /// The host knows the end of all earlier requests.
    oldest: u64,
    /// By the request's number.
    done: BTreeMap<u64, Vec<Done>>,
}

/// Happened parts of the requests that hosts may repeat.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Memory {
    /// The outcomes of all later attempts are known here.
    from: Timestamp,
    hosts: BTreeMap<HostId, Remembered>,
    count: usize,
    /// The number up to which hosts know the ends of their requests: nothing is kept of those.
    heard: BTreeMap<HostId, u64>,
}

/// The most hosts for which that number is kept.
const MOST_HOSTS: usize = 4096;

impl Memory {
    /// Nothing is known of attempts up to this time.
    pub fn begin_after(&mut self, ts: Timestamp) {
        self.from = self.from.max(ts);
    }

    /// Whether the outcomes of all attempts at a request are known. The first may be as early as `since`.
    fn reaches(&self, id: RequestId, since: Timestamp) -> bool {
        // Attempts at requests without a name are not remembered.
        let is_named = id.attempt().is_none();
        is_named
            && self.from < since
            && self.heard.get(&id.host).is_none_or(|oldest| *oldest <= id.number)
    }

    /// The host of this attempt's request knows the end of others. It does not repeat those; but an endpoint may, which
    /// still has one that its host has given up.
    pub fn hear(&mut self, asker: Asker, ts: Timestamp) {
        let heard = self.heard.entry(asker.id.host).or_default();
        *heard = asker.oldest.max(*heard);
        if self.heard.len() > MOST_HOSTS {
            self.heard.clear();
            self.begin_after(ts);
        }
        let Some(host) = self.hosts.get_mut(&asker.id.host) else { return };
        if asker.oldest <= host.oldest {
            return;
        }
        host.oldest = asker.oldest;
        let left = host.done.split_off(&asker.oldest);
        let heard = std::mem::replace(&mut host.done, left);
        self.count -= heard.values().map(Vec::len).sum::<usize>();
        if host.done.is_empty() {
            self.hosts.remove(&asker.id.host);
        }
    }

    /// A part of a request has happened. Beyond `most` parts the older half is forgotten.
    fn note(&mut self, asker: Asker, done: Done, most: usize) {
        let host = self.hosts.entry(asker.id.host).or_default();
        if asker.id.number < host.oldest {
            return;
        }
        host.done.entry(asker.id.number).or_default().push(done);
        self.count += 1;
        if self.count > most {
            self.forget_half();
        }
    }

    fn forget_half(&mut self) {
        let all = self.hosts.values().flat_map(|h| h.done.values().flatten());
        let mut times: Vec<Timestamp> = all.map(|d| d.ts).collect();
        let half = times.len() / 2;
        let (_, last, _) = times.select_nth_unstable(half);
        let last = *last;
        self.begin_after(last);
        self.count = 0;
        self.hosts.retain(|_, host| {
            host.done.retain(|_, done| {
                done.retain(|d| d.ts > last);
                self.count += done.len();
                !done.is_empty()
            });
            !host.done.is_empty()
        });
    }

    /// The happened parts of a request.
    fn of(&self, id: RequestId, volume: VolumeId) -> Vec<VolumeRange> {
        let host = self.hosts.get(&id.host);
        let done = host.and_then(|h| h.done.get(&id.number)).into_iter().flatten();
        done.filter(|d| d.volume == volume && !d.marked).map(|d| d.range).collect()
    }

    /// Whether parity was marked for a request.
    fn has_marked(&self, id: RequestId) -> bool {
        let host = self.hosts.get(&id.host);
        host.and_then(|h| h.done.get(&id.number)).into_iter().flatten().any(|d| d.marked)
    }
}

/// The nodes that must be told of writes where the outcome of a request is not remembered.
#[derive(Clone, Debug, Hash)]
pub(super) struct Recalling {
    to: NodeId,
    id: u64,
    volume: VolumeId,
    happened: Vec<VolumeRange>,
    since: Timestamp,
    /// Sectors to scan next: those of the snapshots below the volume.
    left: Vec<Range<u64>>,
}

impl Worker {
    /// A write of a host's request has happened.
    pub(super) fn remember(&mut self, ts: Timestamp) {
        let txn = &self.txns[&ts];
        let Some(asker) = txn.asker else { return };
        let marked = txn.markers.contains(txn.column);
        let done = Done { ts, volume: txn.named, range: txn.writes, marked };
        self.memory.note(asker, done, self.config.remembered_writes);
    }

    /// A column that comes to this disk brings no memory of earlier writes.
    pub(super) fn remember_less(&mut self) {
        let extents = self.map.volumes.values().flat_map(|v| &v.extents);
        let filled = extents.filter_map(|e| e.filling_on(self.node)).max();
        self.memory.begin_after(self.entered.first().max(filled.unwrap_or_default()));
    }

    /// Where writes could rely on marks until now, parity has not heard of all of them, and those without votes are not
    /// remembered: the memory is incomplete.
    pub(super) fn remember_less_of_choices(&mut self, before: &ClusterMap) {
        let forgot = |v: &Volume| v.relies_on_marks() || !v.policy.commit.is_voted();
        let forgets = |id| self.map.volumes.get(id).is_some_and(|v| forgot(v));
        if before.volumes.values().filter(|v| forgot(v)).any(|v| !forgets(&v.id)) {
            self.memory.begin_after(self.entered.floor());
        }
    }

    /// A host's request is repeated: its outcome here is wanted.
    pub fn on_recall(
        &mut self,
        from: NodeId,
        id: u64,
        request: RequestId,
        since: Timestamp,
        (volume, range): (VolumeId, VolumeRange),
        outbox: &mut Outbox,
    ) {
        let (happened, has_marked) = match request.attempt() {
            Some(ts) => self.attempted(ts, volume),
            None => (self.memory.of(request, volume), self.memory.has_marked(request)),
        };
        let recollection =
            if self.is_undecided(request, since, volume) || self.has_unsafe_aborts(since) {
                Recollection::Undecided
            } else if has_marked {
                Recollection::Touched
            } else if self.memory.reaches(request, since) {
                Recollection::All
            } else if self.catchup.will_know() || !self.knows_marks() {
                Recollection::Undecided
            } else if let Some(left) = self.sectors_to_scan(volume, range, since) {
                let to = from;
                let recalling = Recalling { to, id, volume, happened, since, left };
                return self.scan_next(recalling, outbox);
            } else {
                Recollection::Touched
            };
        outbox.send(from, Body::Recalled { id, happened, recollection });
    }

    /// Whether writes of this time or later were aborted, and are prepared again if power fails now.
    fn has_unsafe_aborts(&mut self, since: Timestamp) -> bool {
        let waits = self.config.waits_for_safe_aborts();
        let unsafe_abort = waits && self.store.unsafe_aborts().iter().any(|ts| *ts >= since);
        if unsafe_abort {
            self.store.flush_outcomes();
        }
        unsafe_abort
    }

    /// The sectors whose versions tell whether a range of a volume was changed on this disk since a time; `None` if they do
    /// not tell it.
    fn sectors_to_scan(
        &self,
        id: VolumeId,
        range: VolumeRange,
        since: Timestamp,
    ) -> Option<Vec<Range<u64>>> {
        if self.has_dropped(id, since) || self.catchup.is_asking() {
            return None;
        }
        // Writes from before a snapshot are in its address space.
        let below = self.map.all_below(id).filter_map(|v| self.sectors_changed(v.id, range));
        let all: Vec<_> = [self.sectors_changed(id, range)?].into_iter().chain(below).collect();
        // A mark is no version: marked content may have been changed by any number of writes.
        let tells = |s: &Range<u64>| !self.is_stale(s.clone()) && !self.exposure.has(s);
        all.iter().all(tells).then_some(all)
    }

    /// Whether an empty slot may have been given back that was written since a time, and took its versions with it.
    fn has_dropped(&self, id: VolumeId, since: Timestamp) -> bool {
        let is_thin = self.map.volumes.get(&id).is_none_or(|volume| volume.is_thin());
        is_thin && self.store.dropped() >= since
    }

    fn scan_next(&mut self, mut recalling: Recalling, outbox: &mut Outbox) {
        let Some(sectors) = recalling.left.pop() else {
            let Recalling { to, id, volume, happened, since, .. } = recalling;
            // Meanwhile one may have been given back.
            let recollection = match self.has_dropped(volume, since) {
                true => Recollection::Touched,
                false => Recollection::Untouched,
            };
            return outbox.send(to, Body::Recalled { id, happened, recollection });
        };
        let (since, count) = (recalling.since, sectors.end - sectors.start);
        let ticket = self.tickets.issue(Ticket::Recall(recalling));
        // Inclusive: the first attempt may have been issued in the microsecond of the request.
        self.store.scan(ticket, sectors.start, count, Scan::Since(since));
    }

    /// What has happened of an attempt whose originator still asks after it, and whether parity was only marked for it
    /// here.
    fn attempted(&self, ts: Timestamp, volume: VolumeId) -> (Vec<VolumeRange>, bool) {
        let txn = self.txns.get(&ts).filter(|txn| txn.named == volume);
        match txn.filter(|txn| matches!(txn.phase, Phase::Committed { .. })) {
            Some(txn) if txn.markers.contains(txn.column) => (Vec::new(), true),
            Some(txn) => (vec![txn.writes], false),
            None => (Vec::new(), false),
        }
    }

    /// Whether an undecided write here is, or may be, part of a request. The names of those found in the journal are
    /// unknown.
    fn is_undecided(&self, request: RequestId, since: Timestamp, volume: VolumeId) -> bool {
        self.txns.iter().any(|(ts, txn)| {
            let its = match (request.attempt(), txn.asker) {
                (Some(attempt), _) => *ts == attempt,
                (None, Some(asker)) => asker.id == request,
                (None, None) => txn.epoch == 0 && *ts >= since,
            };
            its && txn.named == volume && !matches!(txn.phase, Phase::Committed { .. })
        })
    }

    /// The sectors that a write of a range changes on this disk, and perhaps some between.
    fn sectors_changed(&self, volume: VolumeId, range: VolumeRange) -> Option<Range<u64>> {
        let volume = self.map.volumes.get(&volume).filter(|v| v.holds(range))?;
        let extent = volume.extent(range.stripes(&volume.geometry).start);
        let column = extent.column_of(self.node)?;
        let task = Task::Write(range);
        let (ts, avoid, waits) = (Timestamp::ZERO, ColumnSet::EMPTY, Waits::NONE);
        let plan = task.plan(volume, avoid, waits).ok()?;
        let (calculators, volume_id) = (Calculators::default(), volume.id);
        let (asker, holder) = (None, None);
        let header =
            Header { ts, volume: volume_id, avoid, waits, calculators, task, asker, holder };
        let cells = plan.rows.iter().flat_map(|row| {
            let seats = volume.geometry.layout.seats_of(row.stripe, column);
            seats.map(move |seat| Cell::new(volume, header, *row, Role::Column(seat)))
        });
        let all: Vec<_> = cells.flat_map(|c| c.writes().collect::<Vec<_>>()).collect();
        let first = all.iter().map(|r| r.sectors.start).min()?;
        let end = all.iter().map(|r| r.sectors.end).max()?;
        Some(first..end)
    }

    /// It is known whether there were writes since.
    pub(super) fn recall_done(&mut self, asked: Recalling, found: bool, outbox: &mut Outbox) {
        if !found {
            return self.scan_next(asked, outbox);
        }
        let Recalling { to, id, happened, .. } = asked;
        outbox.send(to, Body::Recalled { id, happened, recollection: Recollection::Touched });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Attendance;
    use crate::node::test_bench::{Bench, PEER, UNIT, VOLUME, map};
    use crate::store::Reached;
    use crate::units::SPACE_SECTORS;

    fn at(micros: u64) -> Timestamp {
        Timestamp::new(micros, NodeId(0))
    }

    fn asker(number: u64, oldest: u64) -> Asker {
        Asker { id: RequestId { host: HostId(7), number }, oldest }
    }

    fn note(memory: &mut Memory, number: u64, ts: u64) {
        let range = VolumeRange { offset: number * 4096, len: 4096 };
        memory.note(
            asker(number, 1),
            Done { ts: at(ts), volume: VolumeId(1), range, marked: false },
            4,
        );
    }

    #[test]
    fn what_has_happened_is_known_until_its_host_has_heard() {
        let mut memory = Memory::default();
        memory.begin_after(at(50));
        note(&mut memory, 1, 100);
        note(&mut memory, 2, 110);
        let happened = |m: &Memory, number| m.of(asker(number, 1).id, VolumeId(1)).len();
        assert_eq!((happened(&memory, 1), happened(&memory, 2), happened(&memory, 3)), (1, 1, 0));
        assert!(memory.of(asker(1, 1).id, VolumeId(2)).is_empty(), "of another volume");
        memory.hear(asker(3, 2), at(120));
        assert_eq!((happened(&memory, 1), happened(&memory, 2), memory.count), (0, 1, 1));
        let reaches = |m: &Memory, number, since| m.reaches(asker(number, 1).id, at(since));
        assert!(reaches(&memory, 2, 51));
        assert!(!reaches(&memory, 2, 50), "the first attempt may be of that time");
        assert!(!reaches(&memory, 1, 50), "its host has heard the end of it");
        memory.hear(asker(3, 3), at(130));
        assert!(memory.hosts.is_empty());
    }

    #[test]
    fn of_too_much_the_older_half_is_forgotten_and_that_is_known() {
        let mut memory = Memory::default();
        for number in 1..=5 {
            note(&mut memory, number, 100 + number);
        }
        assert_eq!(memory.count, 2);
        assert!(memory.of(asker(3, 1).id, VolumeId(1)).is_empty());
        assert_eq!(memory.of(asker(4, 1).id, VolumeId(1)).len(), 1);
        let reaches = |since| memory.reaches(asker(5, 1).id, at(since));
        assert!(!reaches(103), "what was forgotten last is of that time");
        assert!(reaches(104));
    }

    /// What a thin volume's slot was changed by is not known any more once it has been given back.
    #[test]
    fn a_slot_that_is_given_back_during_the_search_may_have_been_written() {
        for (dropped, is_thin) in [(0, true), (899, true), (900, true), (900, false)] {
            let mut bench = Bench::new();
            let mut map = ClusterMap::clone(&map(2, Attendance::default()));
            let volume = Arc::make_mut(map.volumes.get_mut(&VOLUME).expect("its own"));
            for (_, sector) in volume.extents.iter_mut().flat_map(|e| &mut e.columns) {
                *sector += u64::from(is_thin) * 3 * SPACE_SECTORS;
            }
            bench.enter(Arc::new(map), at(1));
            let worker = &mut bench.node.worker;
            let AnyStore::Journal(store) = &mut worker.store else { unreachable!("it has one") };
            store.drops_up_to(at(dropped));
            let range = VolumeRange { offset: 0, len: UNIT };
            let since = at(900);
            let begins = worker.sectors_to_scan(VOLUME, range, since).is_some();
            assert_eq!(begins, !is_thin || dropped < 900, "{dropped}");
            let (to, id, happened, left) = (PEER, 1, Vec::new(), Vec::new());
            let search = Recalling { to, id, volume: VOLUME, happened, since, left };
            let mut outbox = Outbox::new(worker.node, 0);
            worker.scan_next(search, &mut outbox);
            let mut out = Vec::new();
            outbox.finish(Reached::default(), &mut out);
            bench.take(out);
            let untouched = |b: &Body| {
                matches!(b, Body::Recalled { recollection: Recollection::Untouched, .. })
            };
            assert_eq!(bench.has_sent(untouched), begins, "{dropped}, {is_thin}");
        }
    }
}
