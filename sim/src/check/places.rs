//! Places of requests in the graph: what is drawn of them, and whether what happened kept the
//! order.
//!
//! A host here is a few clients that share a name, so that it has several requests in work, mostly
//! at different nodes. Its requests name earlier ones of its own and of others, ones that are yet
//! to be issued, and now and then one that never will be.
//!
//! *The order held* if whatever is known to have happened came after all that it names. A
//! request is known to have happened when it was answered, or when a read saw what it wrote; then
//! all that it names must have been complete before that. For those that were answered this is
//! checked here; those that were not (their node had died, or power was cut) get an end, the time at
//! which what depends on them is known to have happened, and the check of what the hosts saw
//! ([`super::history`]) then finds the ones that are not on disk after all.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use weft_core::order::{HostId, Ordering, Place, RequestId};
use weft_core::units::{MILLIS, Nanos, NodeId};

use super::history::{Did, Op};

/// How many clients share a host's name.
const SLOTS: usize = 3;
/// How many of the last requests may be named.
const RECENT: usize = 12;
/// A host that issues nothing.
const NOBODY: HostId = HostId(0x00dd_ba11);

/// What a request's host heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    /// Nothing, as yet or for good.
    Nothing,
    /// That it was done.
    Done,
    /// That it was not, and never will be.
    Refused,
    /// That it failed: perhaps a part was done.
    Failed,
}

#[derive(Clone, Debug)]
struct Placed {
    after: Vec<RequestId>,
    /// The numbers of its operations.
    ops: std::ops::Range<u32>,
    heard: Heard,
}

/// The hosts of one run and what they said of their requests.
pub(super) struct Places {
    rng: Rng,
    /// Whether a request may name those of other hosts and at other nodes.
    everywhere: bool,
    /// For each host the numbers that it has not heard the good end of, and its next.
    hosts: Vec<(BTreeSet<u64>, u64)>,
    recent: Vec<(RequestId, NodeId)>,
    placed: BTreeMap<RequestId, Placed>,
}

impl Places {
    /// Draws whether requests have places in the run of a seed.
    pub fn draw(seed: u64, ordering: Ordering, clients: usize) -> Option<Places> {
        let mut rng = Rng::with_seed(seed ^ 0x0009_1ace);
        let sequenced = ordering == Ordering::Sequencer;
        let has = rng.u8(0..6) < if sequenced { 5 } else { 1 };
        let hosts = vec![(BTreeSet::new(), 1); clients.div_ceil(SLOTS)];
        let (recent, placed) = (Vec::new(), BTreeMap::new());
        has.then_some(Places { rng, everywhere: sequenced, hosts, recent, placed })
    }

    /// The place of a client's next request, which is asked of `node`.
    pub fn next(&mut self, client: usize, node: NodeId) -> Place {
        let host = client / SLOTS;
        let host_id = HostId(host as u64 + 1);
        let number = self.hosts[host].1;
        let id = RequestId { host: host_id, number };
        let mut after = Vec::new();
        for _ in 0..self.rng.usize(0..=2) {
            let known = self.recent.len();
            let named = match self.rng.u8(0..40) {
                // Its own next but one, or another host's next: they may come, and may wait for it.
                0 => Some(RequestId { number: number + 1, ..id }),
                1 if self.everywhere => {
                    let other = self.rng.usize(0..self.hosts.len());
                    let number = self.hosts[other].1;
                    Some(RequestId { host: HostId(other as u64 + 1), number })
                }
                2 if self.everywhere => Some(RequestId { host: NOBODY, number }),
                _ if known > 0 => {
                    let (named, at) = self.recent[self.rng.usize(0..known)];
                    let near = named.host == host_id && at == node;
                    (self.everywhere || near).then_some(named)
                }
                _ => None,
            };
            after.extend(named.filter(|n| *n != id));
        }
        self.hosts[host].0.insert(number);
        self.hosts[host].1 += 1;
        // What is not known to be complete is not passed, so that nobody takes it to be.
        let oldest = *self.hosts[host].0.first().expect("the one that is asked");
        Place { id, after, oldest }
    }

    /// A request was asked.
    pub fn asked(&mut self, place: &Place, node: NodeId, ops: std::ops::Range<u32>) {
        let after = place.after.clone();
        self.placed.insert(place.id, Placed { after, ops, heard: Heard::Nothing });
        if self.recent.len() >= RECENT {
            self.recent.remove(0);
        }
        self.recent.push((place.id, node));
    }

    /// Whether the host of a request goes away before it is answered, and after how long.
    pub fn goes_after(&mut self) -> Option<Nanos> {
        (self.rng.u8(0..20) == 0).then(|| self.rng.u64(0..2 * MILLIS))
    }

    fn at(&mut self, op: u32) -> Option<(&RequestId, &mut Placed)> {
        self.placed.iter_mut().find(|p| p.1.ops.contains(&op))
    }

    /// The request of an operation is done.
    pub fn done(&mut self, op: u32) {
        let Some((id, placed)) = self.at(op) else { return };
        placed.heard = Heard::Done;
        let id = *id;
        self.hosts[id.host.0 as usize - 1].0.remove(&id.number);
    }

    /// The request of an operation was refused before it began.
    pub fn refused(&mut self, op: u32) {
        if let Some((_, placed)) = self.at(op) {
            placed.heard = Heard::Refused;
        }
    }

    /// The request of an operation failed.
    pub fn failed(&mut self, op: u32) {
        if let Some((_, placed)) = self.at(op) {
            placed.heard = Heard::Failed;
        }
    }

    /// How many requests had places, and how many of them were refused.
    pub fn counts(&self) -> (u64, u64) {
        let refused = self.placed.values().filter(|p| p.heard == Heard::Refused).count();
        (self.placed.len() as u64, refused as u64)
    }

    /// Checks the order of what is known to have happened, and gives the operations the times
    /// that follow from it.
    pub fn check(&self, ops: &mut BTreeMap<u32, Op>) -> Result<(), String> {
        let mut known = self.known(ops);
        // Those that must have been complete, all of them, and since when; of one that was only seen
        // a piece may be missing.
        let mut complete: BTreeMap<RequestId, Nanos> = BTreeMap::new();
        let mut left: Vec<RequestId> = known.keys().copied().collect();
        while let Some(id) = left.pop() {
            let at = known[&id];
            for first in &self.placed[&id].after {
                self.check_pair(id, *first, at, ops)?;
                let Some(placed) = self.placed.get(first) else { continue };
                let earlier = complete.get(first).is_none_or(|t| *t > at);
                if placed.heard == Heard::Nothing && earlier {
                    complete.insert(*first, at);
                    known.entry(*first).and_modify(|t| *t = at.min(*t)).or_insert(at);
                    left.push(*first);
                }
            }
        }
        self.give_times(known.keys(), &complete, ops);
        Ok(())
    }

    /// The requests of which it is known that they happened, and since when.
    fn known(&self, ops: &BTreeMap<u32, Op>) -> BTreeMap<RequestId, Nanos> {
        let mut seen: BTreeMap<u32, Nanos> = BTreeMap::new();
        for op in ops.values() {
            let Did::Read(values) = &op.did else { continue };
            for value in values {
                let end = op.end.unwrap_or(Nanos::MAX);
                seen.entry(*value).and_modify(|t| *t = end.min(*t)).or_insert(end);
            }
        }
        let since = |placed: &Placed| {
            let saw = placed.ops.clone().filter_map(|o| seen.get(&o).copied()).min();
            let first = ops.get(&placed.ops.start).and_then(|o| o.end);
            let answered = first.filter(|_| placed.heard == Heard::Done);
            saw.into_iter().chain(answered).min()
        };
        self.placed.iter().filter_map(|(id, p)| Some((*id, since(p)?))).collect()
    }

    /// `id` has happened at `at`: so must `first` have, which it names.
    fn check_pair(
        &self,
        id: RequestId,
        first: RequestId,
        at: Nanos,
        ops: &BTreeMap<u32, Op>,
    ) -> Result<(), String> {
        let wrong = |why: &str| {
            let op = self.placed[&id].ops.start;
            Err(format!(
                "{id} (operation {op}) happened, and {first}, which must come first, {why}"
            ))
        };
        match self.placed.get(&first).map(|p| (p.heard, &p.ops)) {
            None => wrong("was never issued"),
            Some((Heard::Refused, _)) => wrong("was refused"),
            Some((Heard::Failed, _)) => wrong("failed"),
            Some((Heard::Done, numbers)) => {
                let end = ops.get(&numbers.start).and_then(|o| o.end);
                if end.is_some_and(|end| end > at) { wrong("was not complete") } else { Ok(()) }
            }
            Some((Heard::Nothing, _)) => Ok(()),
        }
    }

    /// What is known to have happened began after what it names ended, and what must have been
    /// complete had ended.
    fn give_times<'a>(
        &self,
        known: impl Iterator<Item = &'a RequestId>,
        complete: &BTreeMap<RequestId, Nanos>,
        ops: &mut BTreeMap<u32, Op>,
    ) {
        for id in known {
            let placed = &self.placed[id];
            let ends = placed.after.iter().filter_map(|first| {
                let first = self.placed.get(first)?;
                ops.get(&first.ops.start).filter(|_| first.heard == Heard::Done)?.end
            });
            let begins = ends.max().unwrap_or(0);
            for number in placed.ops.clone() {
                let Some(op) = ops.get_mut(&number) else { continue };
                op.start = op.start.max(begins);
            }
        }
        for (id, at) in complete {
            for number in self.placed[id].ops.clone() {
                let Some(op) = ops.get_mut(&number) else { continue };
                op.end = op.end.or(Some(*at));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(id: u32, start: Nanos, end: Option<Nanos>) -> (u32, Op) {
        let did = Did::Wrote { zeros: false };
        let block = u64::from(id);
        (id, Op { id, did, blocks: block..block + 1, start, end, by: None })
    }

    fn read(id: u32, block: u64, sees: u32, start: Nanos) -> (u32, Op) {
        let did = Did::Read(vec![sees]);
        (id, Op { id, did, blocks: block..block + 1, start, end: Some(start + 1), by: None })
    }

    /// Two requests, of which the second names the first.
    fn pair() -> (Places, [RequestId; 2]) {
        let rng = Rng::with_seed(1);
        let hosts = vec![(BTreeSet::new(), 3)];
        let (recent, placed) = (Vec::new(), BTreeMap::new());
        let mut places = Places { rng, everywhere: true, hosts, recent, placed };
        let id = |number| RequestId { host: HostId(1), number };
        for (number, after) in [(1, vec![]), (2, vec![id(1)])] {
            let op = number as u32;
            places.asked(&Place { id: id(number), after, oldest: 1 }, NodeId(0), op..op + 1);
        }
        (places, [id(1), id(2)])
    }

    fn judge(places: &Places, ops: Vec<(u32, Op)>) -> Result<(), String> {
        let mut ops: BTreeMap<u32, Op> = ops.into_iter().collect();
        places.check(&mut ops)?;
        super::super::check_history(&ops.into_values().collect::<Vec<_>>())
    }

    #[test]
    fn an_order_that_was_kept_passes() {
        let (mut places, _) = pair();
        // Neither answered, and only the first there after a crash.
        let ops = vec![write(1, 1, None), write(2, 2, None), read(3, 1, 1, 9), read(4, 2, 0, 9)];
        assert_eq!(judge(&places, ops), Ok(()));
        places.done(1);
        places.done(2);
        let ops = vec![write(1, 1, Some(4)), write(2, 2, Some(6))];
        assert_eq!(judge(&places, ops), Ok(()));
    }

    #[test]
    fn an_order_that_was_broken_is_found() {
        // The second is there after a crash and the first is not.
        let (places, _) = pair();
        let ops = vec![write(1, 1, None), write(2, 2, None), read(3, 2, 2, 9), read(4, 1, 0, 20)];
        assert!(judge(&places, ops).unwrap_err().contains("zeros after write 1"));
        // The second is answered first.
        let (mut places, _) = pair();
        places.done(1);
        places.done(2);
        let early = judge(&places, vec![write(1, 1, Some(8)), write(2, 2, Some(6))]);
        assert!(early.unwrap_err().contains("was not complete"));
        // The first is refused, or failed, and the second goes on.
        let (mut places, _) = pair();
        places.done(2);
        places.refused(1);
        let ops = vec![write(2, 2, Some(6))];
        assert!(judge(&places, ops.clone()).unwrap_err().contains("was refused"));
        places.failed(1);
        assert!(judge(&places, ops.clone()).unwrap_err().contains("failed"));
        places.placed.remove(&RequestId { host: HostId(1), number: 1 });
        assert!(judge(&places, ops).unwrap_err().contains("never issued"));
    }
}
