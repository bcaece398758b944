//! Device-side admission by timestamps (shared storage, 4.5.1 and 4.5.2).
//!
//! For each sector the highest timestamps that read and wrote it, and the prewrites that
//! are not yet resolved. A read is refused when something later was written; it waits
//! behind an earlier prewrite. A write is refused when something later was read or written.
//! Changes that are added (parity deltas) commute, so they are refused only by later reads
//! and later content, and never wait for one another.
//!
//! Timestamps are volatile: what is older than the *floor* is forgotten and everything
//! below the floor is refused. A disk that starts anew has forgotten all. It takes part in a new epoch only,
//! and all that comes in an epoch is later than what came before it: whoever enters one has its
//! clock past that first.

use std::collections::BTreeMap;
use std::ops::Range;

use smallvec::SmallVec;

use crate::units::{SPACE_SECTORS, Timestamp};

const GRANULE: u64 = 16;

/// Of more stretches that were swept the earlier ones are forgotten.
const MOST_SWEPT: usize = 256;

/// What a transaction wants of a range of sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// See the content.
    Read,
    /// Replace the content.
    Content,
    /// Add to the content.
    Delta,
}

/// What a transaction wants: mostly it is little, which needs no room of its own.
pub type Accesses = SmallVec<[(Range<u64>, Access); 2]>;

/// The answer to a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admittance {
    /// It may go on.
    Admitted,
    /// It comes too late; a timestamp above this one would do.
    Rejected(Timestamp),
}

/// The latest writes of a sector.
#[derive(Clone, Copy, Debug, Default, Hash)]
struct Writes {
    content: Timestamp,
    delta: Timestamp,
    /// The latest that has committed.
    committed: Timestamp,
}

/// Neighbouring sectors. What is not touched is not there: most are only read, or not in use at all.
#[derive(Clone, Debug, Default, Hash)]
struct Granule {
    /// The latest read of each.
    reads: Option<Box<[Timestamp; GRANULE as usize]>>,
    writes: Option<Box<[Writes; GRANULE as usize]>>,
    newest: Timestamp,
    prewrites: Vec<Prewrite>,
}

impl Granule {
    /// The latest timestamp that stands against an access to these places at `ts`. What has read at the same time is the
    /// same transaction, which writes what follows from that.
    fn against(&self, ts: Timestamp, within: Range<usize>, access: Access) -> Timestamp {
        let mut latest = Timestamp::ZERO;
        for w in self.writes(within.clone()) {
            latest = latest.max(w.content);
            if access != Access::Delta {
                latest = latest.max(w.delta);
            }
        }
        if let (Some(reads), Access::Content | Access::Delta) = (&self.reads, access) {
            let others = reads[within].iter().copied().filter(|read| *read != ts);
            latest = others.fold(latest, Timestamp::max);
        }
        latest
    }

    /// The latest write of these places that has committed.
    fn committed(&self, within: Range<usize>) -> Timestamp {
        self.writes(within).iter().map(|w| w.committed).max().unwrap_or_default()
    }

    fn writes(&self, within: Range<usize>) -> &[Writes] {
        self.writes.as_ref().map_or(&[], |w| &w[within])
    }

    /// Notes an access to the places `within` it; `range` is all that the access is to. It is a prewrite unless it is a read.
    fn stamp(&mut self, ts: Timestamp, within: Range<usize>, range: Range<u64>, access: Access) {
        self.newest = self.newest.max(ts);
        if access == Access::Read {
            let reads = &mut self.reads.get_or_insert_default()[within];
            reads.iter_mut().for_each(|r| *r = ts.max(*r));
            return;
        }
        let delta = access == Access::Delta;
        for w in &mut self.writes.get_or_insert_default()[within] {
            let stamp = if delta { &mut w.delta } else { &mut w.content };
            *stamp = ts.max(*stamp);
        }
        self.prewrites.push(Prewrite { ts, lo: range.start, hi: range.end, delta });
    }

    /// The prewrite `ts` of the places `within` is decided. Returns how many prewrites that was here.
    fn resolve(&mut self, ts: Timestamp, within: Range<usize>, committed: bool) -> usize {
        let before = self.prewrites.len();
        self.prewrites.retain(|p| p.ts != ts);
        if committed {
            self.newest = self.newest.max(ts);
            let writes = &mut self.writes.get_or_insert_default()[within];
            writes.iter_mut().for_each(|w| w.committed = ts.max(w.committed));
        }
        before - self.prewrites.len()
    }
}

#[derive(Clone, Copy, Debug, Hash)]
struct Prewrite {
    ts: Timestamp,
    lo: u64,
    hi: u64,
    delta: bool,
}

/// Sectors of which it was seen that nothing is there: a read of however many, kept as one.
#[derive(Clone, Debug, Hash)]
struct Swept {
    sectors: Range<u64>,
    ts: Timestamp,
}

/// The timestamps of one disk.
#[derive(Clone, Debug, Default, Hash)]
pub struct Admission {
    granules: BTreeMap<u64, Granule>,
    /// The address spaces with unresolved prewrites: how many, a prewrite once in each granule.
    unresolved: BTreeMap<u64, usize>,
    swept: Vec<Swept>,
    floor: Timestamp,
}

impl Admission {
    /// Refuses everything at or below `floor` from now on and forgets what lies below it.
    pub fn raise_floor(&mut self, floor: Timestamp) {
        if floor > self.floor {
            self.floor = floor;
            self.granules.retain(|_, g| g.newest > floor || !g.prewrites.is_empty());
            self.swept.retain(|s| s.ts > floor);
        }
    }

    /// Remembers timestamps of at most `most` units of 16 sectors: if it does of more, it forgets
    /// the older half, and refuses what is not later than that. So memory stays bounded also where
    /// clocks are so far ahead of this disk's that nothing ever gets old.
    pub fn bound(&mut self, most: usize) {
        if self.granules.len() > most {
            let mut newest: Vec<Timestamp> = self.granules.values().map(|g| g.newest).collect();
            let half = newest.len() / 2;
            let (_, floor, _) = newest.select_nth_unstable(half);
            self.raise_floor(*floor);
        }
    }

    /// From now on no write that comes before `ts` is admitted to these sectors: it was seen at `ts` that nothing is there.
    /// What is [busy](Admission::busy) there must be looked at by itself.
    pub fn sweep(&mut self, ts: Timestamp, sectors: &Range<u64>) -> Admittance {
        if ts <= self.floor {
            return Admittance::Rejected(self.floor);
        }
        let adjoins = |s: &Swept| s.sectors.start <= sectors.end && sectors.start <= s.sectors.end;
        match self.swept.iter_mut().find(|s| adjoins(s)) {
            // One after the other they are one: that refuses more than it must, and only for a moment.
            Some(near) => {
                let start = near.sectors.start.min(sectors.start);
                near.sectors = start..near.sectors.end.max(sectors.end);
                near.ts = near.ts.max(ts);
            }
            None => self.swept.push(Swept { sectors: sectors.clone(), ts }),
        }
        if self.swept.len() > MOST_SWEPT {
            let mut times: Vec<Timestamp> = self.swept.iter().map(|s| s.ts).collect();
            let (_, floor, _) = times.select_nth_unstable(MOST_SWEPT / 2);
            self.raise_floor(*floor);
        }
        Admittance::Admitted
    }

    /// The sectors in `range`, and some beside them, that have an unresolved prewrite, or were written at `ts` or later.
    pub fn busy(&self, ts: Timestamp, range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let near = self.granules.range(range.start / GRANULE..range.end.div_ceil(GRANULE));
        let later = move |w: &Writes| w.content.max(w.delta).max(w.committed) >= ts;
        let busy = near.filter(move |(_, g)| {
            !g.prewrites.is_empty() || g.writes(0..GRANULE as usize).iter().any(later)
        });
        busy.map(move |(n, _)| (n * GRANULE).max(range.start)..((n + 1) * GRANULE).min(range.end))
    }

    /// Whether what was written at `ts` or later may be forgotten.
    pub fn has_forgotten(&self, ts: Timestamp) -> bool {
        ts <= self.floor
    }

    /// The latest time at which it was seen that nothing is in sectors of this range.
    fn swept(&self, range: &Range<u64>, access: Access) -> Timestamp {
        if access == Access::Read {
            return Timestamp::ZERO;
        }
        let meets = |s: &&Swept| s.sectors.start < range.end && range.start < s.sectors.end;
        self.swept.iter().filter(meets).map(|s| s.ts).max().unwrap_or_default()
    }

    /// Admits transaction `ts` to all of `accesses`, or to none.
    pub fn admit(&mut self, ts: Timestamp, accesses: &[(Range<u64>, Access)]) -> Admittance {
        if ts <= self.floor {
            return Admittance::Rejected(self.floor);
        }
        if let [(range, _), others @ ..] = accesses
            && others.iter().all(|(other, _)| other == range)
            && let Some(verdict) = self.admit_in_one(ts, range.clone(), accesses)
        {
            return verdict;
        }
        let latest = accesses.iter().map(|(r, a)| self.latest_against(ts, r.clone(), *a)).max();
        if let Some(latest) = latest.filter(|&l| l >= ts) {
            return Admittance::Rejected(latest);
        }
        for (range, access) in accesses {
            self.stamp(ts, range.clone(), *access);
        }
        Admittance::Admitted
    }

    /// The same for accesses to one range in one granule, most often what there is: it is looked up once.
    fn admit_in_one(
        &mut self,
        ts: Timestamp,
        range: Range<u64>,
        accesses: &[(Range<u64>, Access)],
    ) -> Option<Admittance> {
        let (number, within) = granules(range.clone()).next()?;
        if range.end > (number + 1) * GRANULE {
            return None;
        }
        let swept = accesses.iter().map(|a| self.swept(&range, a.1)).max().unwrap_or_default();
        let granule = self.granules.entry(number).or_default();
        let against =
            |(_, access): &(_, Access)| granule.against(ts, within.clone(), *access).max(swept);
        let latest = accesses.iter().map(against).max().unwrap_or_default();
        if latest >= ts && latest > Timestamp::ZERO {
            return Some(Admittance::Rejected(latest));
        }
        for (_, access) in accesses {
            granule.stamp(ts, within.clone(), range.clone(), *access);
        }
        let prewrites = accesses.iter().filter(|a| a.1 != Access::Read).count();
        self.expect(range.start, prewrites);
        Some(Admittance::Admitted)
    }

    /// Admits a transaction whatever came before it; its place among those that are put in place
    /// later is as always.
    pub fn admit_unchecked(&mut self, ts: Timestamp, accesses: &[(Range<u64>, Access)]) {
        for (range, access) in accesses.iter().filter(|a| a.1 != Access::Read) {
            self.stamp(ts, range.clone(), *access);
        }
    }

    /// From now on no write that comes before `ts` is admitted to these sectors, as if they had been read then.
    pub fn bar(&mut self, ts: Timestamp, range: Range<u64>) {
        self.stamp(ts, range, Access::Read);
    }

    /// The latest timestamp in `range` that stands against an access.
    fn latest_against(&self, ts: Timestamp, range: Range<u64>, access: Access) -> Timestamp {
        let mut latest = self.swept(&range, access);
        for (number, within) in granules(range) {
            let Some(granule) = self.granules.get(&number) else { continue };
            latest = latest.max(granule.against(ts, within, access));
        }
        latest
    }

    fn stamp(&mut self, ts: Timestamp, range: Range<u64>, access: Access) {
        for (number, within) in granules(range.clone()) {
            self.granules.entry(number).or_default().stamp(ts, within, range.clone(), access);
            self.expect(range.start, usize::from(access != Access::Read));
        }
    }

    /// This many more prewrites in the address space of a sector are unresolved.
    fn expect(&mut self, sector: u64, prewrites: usize) {
        if prewrites > 0 {
            *self.unresolved.entry(sector / SPACE_SECTORS).or_default() += prewrites;
        }
    }

    /// The address spaces with unresolved prewrites.
    pub fn unresolved_spaces(&self) -> impl Iterator<Item = u64> + '_ {
        self.unresolved.keys().copied()
    }

    /// What a read at `ts` finds: whether it must wait, and the latest write that has committed, or
    /// may have and is forgotten.
    pub fn before_read(&self, ts: Timestamp, range: Range<u64>) -> (bool, Timestamp) {
        let (mut waits, mut latest) = (false, self.floor);
        for (number, within) in granules(range.clone()) {
            let Some(granule) = self.granules.get(&number) else { continue };
            let earlier = |p: &Prewrite| p.lo < range.end && range.start < p.hi && p.ts < ts;
            waits |= granule.prewrites.iter().any(earlier);
            latest = latest.max(granule.committed(within));
        }
        (waits, latest)
    }

    /// Whether a read at `ts` must wait: an earlier prewrite in `range` is unresolved.
    pub fn must_wait(&self, ts: Timestamp, range: Range<u64>) -> bool {
        self.earlier_unresolved(ts, range).next().is_some()
    }

    /// The prewrites in `range` that are unresolved, whenever they come; one may come several times.
    pub fn all_unresolved(&self, range: Range<u64>) -> impl Iterator<Item = Timestamp> {
        self.unresolved(range).map(|p| p.ts)
    }

    /// The earlier prewrites in `range` that are unresolved; one may come several times.
    pub fn earlier_unresolved(
        &self,
        ts: Timestamp,
        range: Range<u64>,
    ) -> impl Iterator<Item = Timestamp> {
        self.unresolved(range).filter(move |p| p.ts < ts).map(|p| p.ts)
    }

    /// The content before `ts` that is not resolved; one write may come several times.
    pub fn earlier_content(
        &self,
        ts: Timestamp,
        range: Range<u64>,
    ) -> impl Iterator<Item = Timestamp> {
        self.unresolved(range).filter(move |p| p.ts < ts && !p.delta).map(|p| p.ts)
    }

    /// Whether committed content of `sector`, which is from `ts`, may not go to its place yet, because a
    /// prewrite that comes before it is unresolved: if that is decided later it must not go on top. Changes
    /// alone may go. No order matters among them, and a worker prepares none on top of undecided content.
    pub fn holds_back(&self, sector: u64, ts: Timestamp) -> bool {
        self.must_wait(ts, sector..sector + 1)
    }

    /// The prewrites in `range` that are unresolved; one may come several times.
    fn unresolved(&self, range: Range<u64>) -> impl Iterator<Item = &Prewrite> {
        let near = granules(range.clone()).filter_map(|(number, _)| self.granules.get(&number));
        near.flat_map(|g| &g.prewrites).filter(move |p| p.lo < range.end && range.start < p.hi)
    }

    /// The latest write of `range` that has committed. A read that had to wait may find that
    /// one later than itself went by meanwhile; then it comes too late after all. So it does when
    /// the floor has gone by, below which all is forgotten.
    pub fn latest_committed(&self, range: Range<u64>) -> Timestamp {
        let latest = granules(range)
            .filter_map(|(number, within)| Some(self.granules.get(&number)?.committed(within)));
        latest.max().unwrap_or_default().max(self.floor)
    }

    /// The prewrite of `ts` in `range` is committed or aborted.
    pub fn resolve(&mut self, ts: Timestamp, range: Range<u64>, committed: bool) {
        let space = range.start / SPACE_SECTORS;
        let mut resolved = 0;
        for (number, within) in granules(range) {
            if let Some(granule) = self.granules.get_mut(&number) {
                resolved += granule.resolve(ts, within, committed);
            }
        }
        if let Some(left) = self.unresolved.get_mut(&space).filter(|_| resolved > 0) {
            *left -= resolved;
            if *left == 0 {
                self.unresolved.remove(&space);
            }
        }
    }

    /// Checks what takes a walk over all sectors.
    ///
    /// # Panics
    ///
    /// If it does not hold.
    pub fn check_sums(&self) {
        let mut unresolved = BTreeMap::new();
        for (number, granule) in self.granules.iter().filter(|(_, g)| !g.prewrites.is_empty()) {
            *unresolved.entry(number * GRANULE / SPACE_SECTORS).or_default() +=
                granule.prewrites.len();
        }
        assert_eq!(unresolved, self.unresolved, "unresolved prewrites of each space");
    }

    /// A prewrite that was admitted before a crash and is still in doubt stands again.
    pub fn reinstate(&mut self, ts: Timestamp, range: Range<u64>, access: Access) {
        self.stamp(ts, range, access);
    }
}

/// The granules of a range of sectors, and the places within each.
fn granules(range: Range<u64>) -> impl Iterator<Item = (u64, Range<usize>)> {
    let (first, last) = (range.start / GRANULE, range.end.div_ceil(GRANULE));
    (first..last).map(move |number| {
        let base = number * GRANULE;
        let lo = range.start.max(base) - base;
        let hi = range.end.min(base + GRANULE) - base;
        (number, lo as usize..hi as usize)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::NodeId;

    fn at(n: u64) -> Timestamp {
        Timestamp::new(n, NodeId(0))
    }

    fn one(a: &mut Admission, ts: u64, access: Access) -> bool {
        a.admit(at(ts), &[(10..20, access)]) == Admittance::Admitted
    }

    #[test]
    fn the_rules_of_shared_storage_4_5() {
        let mut a = Admission::default();
        assert!(one(&mut a, 10, Access::Read));
        assert!(!one(&mut a, 5, Access::Content), "a write below a read");
        assert!(one(&mut a, 20, Access::Content));
        assert!(!one(&mut a, 15, Access::Read), "a read below a write");
        assert!(one(&mut a, 30, Access::Read));
        assert!(a.must_wait(at(30), 10..20), "behind the earlier prewrite");
        assert!(one(&mut a, 40, Access::Content), "later writes do not wait for readers");
        a.resolve(at(40), 10..20, true);
        a.resolve(at(20), 10..20, true);
        assert!(!a.must_wait(at(30), 10..20));
        assert_eq!(a.latest_committed(15..16), at(40), "but the reader must see that");
        assert!(!one(&mut a, 20, Access::Content), "never twice");
    }

    #[test]
    fn deltas_commute_with_deltas_only() {
        let mut a = Admission::default();
        assert!(one(&mut a, 20, Access::Delta));
        assert!(one(&mut a, 10, Access::Delta));
        assert!(!one(&mut a, 15, Access::Content));
        assert!(one(&mut a, 25, Access::Content));
        assert!(!one(&mut a, 24, Access::Delta));
        assert!(a.holds_back(12, at(25)), "content waits for earlier deltas");
    }

    #[test]
    fn a_refusal_leaves_no_trace_and_names_the_latest() {
        let mut a = Admission::default();
        assert!(one(&mut a, 20, Access::Content));
        let both = [(0..5, Access::Content), (19..21, Access::Content)];
        assert_eq!(a.admit(at(15), &both), Admittance::Rejected(at(20)));
        assert!(!a.must_wait(at(100), 0..5));
    }

    #[test]
    fn of_too_many_the_older_half_is_forgotten() {
        let mut a = Admission::default();
        for n in 0..10 {
            let sector = n * GRANULE;
            let verdict = a.admit(at(100 - n), &[(sector..sector + 1, Access::Read)]);
            assert_eq!(verdict, Admittance::Admitted);
        }
        a.bound(10);
        assert_eq!(a.granules.len(), 10);
        a.bound(9);
        assert_eq!(a.granules.keys().copied().collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert_eq!(a.admit(at(96), &[(900..901, Access::Read)]), Admittance::Rejected(at(96)));
        assert_eq!(a.admit(at(97), &[(900..901, Access::Read)]), Admittance::Admitted);
    }

    #[test]
    fn what_was_swept_admits_no_earlier_write_however_much_it_is() {
        let mut a = Admission::default();
        assert!(one(&mut a, 10, Access::Content));
        assert_eq!(a.sweep(at(20), &(0..1 << 40)), Admittance::Admitted);
        assert!(a.busy(at(20), 0..1 << 40).eq([0..16, 16..32]), "what is undecided, by units");
        a.resolve(at(10), 10..20, true);
        assert_eq!(a.busy(at(20), 0..1 << 40).count(), 0);
        assert!(a.busy(at(10), 12..1 << 40).eq([12..16, 16..32]), "what is as late");
        for (access, first) in [(Access::Content, 100), (Access::Delta, 1000)] {
            let (one, many) = (first..first + 1, first..first + 99);
            assert_eq!(a.admit(at(20), &[(one, access)]), Admittance::Rejected(at(20)));
            assert_eq!(a.admit(at(20), &[(many.clone(), access)]), Admittance::Rejected(at(20)));
            assert_eq!(a.admit(at(21), &[(many, access)]), Admittance::Admitted);
        }
        assert_eq!(a.admit(at(15), &[(500..600, Access::Read)]), Admittance::Admitted);
        // Side by side they are one; of many that are apart the older ones go.
        assert_eq!(a.sweep(at(30), &(1 << 40..1 << 41)), Admittance::Admitted);
        assert_eq!(a.swept.len(), 1);
        for n in 0..MOST_SWEPT as u64 {
            assert_eq!(
                a.sweep(at(40 + n), &((2 + n) << 41..(2 + n) << 41 | 5)),
                Admittance::Admitted
            );
        }
        assert!(a.swept.len() <= MOST_SWEPT / 2 + 1, "{}", a.swept.len());
        assert!(a.has_forgotten(at(30)) && !a.has_forgotten(at(1000)));
        assert!(!one(&mut a, 30, Access::Content), "what is forgotten is refused");
        a.raise_floor(at(1000));
        assert!(a.swept.is_empty());
    }

    #[test]
    fn below_the_floor_everything_is_refused_and_forgotten() {
        let mut a = Admission::default();
        assert!(one(&mut a, 10, Access::Read));
        a.raise_floor(at(50));
        assert_eq!(a.admit(at(50), &[(0..1, Access::Read)]), Admittance::Rejected(at(50)));
        let late = (a.before_read(at(40), 0..1), a.latest_committed(0..1));
        assert_eq!(late, ((false, at(50)), at(50)), "what a read would miss is forgotten");
        assert!(a.granules.is_empty());
        assert!(one(&mut a, 51, Access::Content));
    }
}
