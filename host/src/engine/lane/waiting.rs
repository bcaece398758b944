//! Disk operations that wait to be begun. Those that somebody waits for go first and all at once. Those that put in
//! place what is durable already go in small portions, and between two portions sockets have their turn: a
//! checkpoint of a thousand sectors would otherwise be a pause of many milliseconds for every host of the process. Each disk
//! has placing operations of its own in work, so one that does not answer does not stop the others' checkpoints. A slow
//! disk is given few at a time: what somebody waits for would have to wait for them, too.

use std::collections::{BTreeMap, VecDeque};

use weft_core::store::{DiskOp, DiskRequest, Urgency};
use weft_core::units::{MILLIS, Nanos};

use crate::disk::queue::DiskQueue;
use crate::disk::uring::Tag;

/// The most placing operations of a portion, and the bytes with which it is full.
const PORTION: usize = 32;
const PORTION_BYTES: u64 = 256 << 10;

/// The most placing operations of a disk in work: a quarter of what a device is given at a time.
const MOST_PLACING: usize = DiskQueue::DEEPEST as usize / 4;

/// The most of a slow disk: one whose placing operations take longer than this.
const FEWEST_PLACING: usize = 4;
const SLOW: Nanos = 2 * MILLIS;

/// See the module.
#[derive(Default)]
pub(super) struct Waiting {
    awaited: VecDeque<(Tag, DiskRequest)>,
    /// By node and life: what an earlier disk of a node does not end holds up no later one.
    placing: BTreeMap<(usize, u64), Placing>,
    /// The node whose disk has the next turn.
    turn: usize,
}

/// Placing operations of a disk.
struct Placing {
    waiting: VecDeque<(Tag, DiskRequest)>,
    in_work: usize,
    /// How many may be: fewer after each that took long, one more after each that did not.
    most: usize,
    /// That number stays, so that the disk takes the time that its model says.
    is_emulated: bool,
}

impl Default for Placing {
    fn default() -> Placing {
        Placing { waiting: VecDeque::new(), in_work: 0, most: MOST_PLACING, is_emulated: false }
    }
}

impl Placing {
    fn is_idle(&self) -> bool {
        self.in_work == 0 && self.waiting.is_empty()
    }

    fn next(&mut self) -> Option<(Tag, DiskRequest)> {
        if self.in_work < self.most { self.waiting.pop_front() } else { None }
    }

    fn ended(&mut self, took: Option<Nanos>) {
        self.in_work -= 1;
        self.most = match took {
            _ if self.is_emulated => MOST_PLACING,
            None => self.most,
            Some(took) if took > SLOW => (self.most * 3 / 4).max(FEWEST_PLACING),
            Some(_) => (self.most + 1).min(MOST_PLACING),
        };
    }
}

/// What may yet be begun before sockets have their turn.
pub(super) struct Portion {
    operations: usize,
    bytes: u64,
}

impl Default for Portion {
    fn default() -> Portion {
        Portion { operations: PORTION, bytes: PORTION_BYTES }
    }
}

impl Portion {
    /// Whether there is nothing left of it.
    pub fn is_used_up(&self) -> bool {
        self.operations == 0 || self.bytes == 0
    }

    fn take(&mut self, op: &DiskOp) {
        self.operations -= 1;
        self.bytes = self.bytes.saturating_sub(bytes(op));
    }
}

impl Waiting {
    /// Something is to be done.
    pub fn push(&mut self, tag: Tag, request: DiskRequest) {
        match request.urgency {
            Urgency::Awaited => self.awaited.push_back((tag, request)),
            Urgency::Placing => self.placing_of(tag).waiting.push_back((tag, request)),
        }
    }

    fn placing_of(&mut self, tag: Tag) -> &mut Placing {
        let key = (tag.node, tag.life);
        if !self.placing.contains_key(&key) {
            self.placing.retain(|(node, _), its| *node != tag.node || !its.is_idle());
        }
        self.placing.entry(key).or_default()
    }

    /// What is to be begun next of what `portion` leaves.
    pub fn next(&mut self, portion: &mut Portion) -> Option<(Tag, DiskRequest)> {
        if let Some(next) = self.awaited.pop_front() {
            return Some(next);
        }
        if portion.is_used_up() {
            return None;
        }
        let turn = (self.turn, 0);
        let next = self.placing.range_mut(turn..).find_map(|(_, placing)| placing.next());
        let from_first = || self.placing.range_mut(..turn).find_map(|(_, p)| p.next());
        let next = next.or_else(from_first)?;
        self.turn = next.0.node + 1;
        portion.take(&next.1.op);
        Some(next)
    }

    /// An operation with this tag has been begun, perhaps on an emulated disk.
    pub fn begun(&mut self, tag: Tag, is_emulated: bool) {
        if tag.urgency == Urgency::Placing {
            let placing = self.placing_of(tag);
            placing.in_work += 1;
            placing.is_emulated = is_emulated;
        }
    }

    /// One has ended, after this time, if that is known.
    pub fn ended(&mut self, tag: Tag, took: Option<Nanos>) {
        if tag.urgency == Urgency::Placing {
            let placing = self.placing.get_mut(&(tag.node, tag.life));
            placing.expect("it has been begun").ended(took);
        }
    }

    /// Whether something waits that somebody waits for.
    pub fn has_awaited(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.awaited.is_empty() && self.placing.values().all(|p| p.waiting.is_empty())
    }

    /// Whether something waits that could be begun now.
    pub fn has_work(&self) -> bool {
        let placing = |p: &Placing| !p.waiting.is_empty() && p.in_work < p.most;
        !self.awaited.is_empty() || self.placing.values().any(placing)
    }
}

fn bytes(op: &DiskOp) -> u64 {
    match op {
        DiskOp::Read { len, .. } => *len,
        DiskOp::Write { data, .. } => data.iter().map(|b| b.len() as u64).sum(),
        DiskOp::Flush | DiskOp::Discard { .. } => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(waiting: &mut Waiting, id: u64, urgency: Urgency, len: u64) {
        push_of(waiting, 0, id, urgency, len);
    }

    fn push_of(waiting: &mut Waiting, node: usize, id: u64, urgency: Urgency, len: u64) {
        let op = DiskOp::Read { offset: 0, len };
        waiting.push(Tag { node, life: 0, id, urgency }, DiskRequest { id, op, urgency });
    }

    fn begin(waiting: &mut Waiting) -> Vec<Tag> {
        let mut portion = Portion::default();
        let mut begun = Vec::new();
        while let Some((tag, _)) = waiting.next(&mut portion) {
            waiting.begun(tag, false);
            begun.push(tag);
        }
        begun
    }

    #[test]
    fn what_somebody_waits_for_goes_first_and_the_rest_in_portions() {
        let mut waiting = Waiting::default();
        (0..100).for_each(|id| push(&mut waiting, id, Urgency::Placing, 4096));
        (100..200).for_each(|id| push(&mut waiting, id, Urgency::Awaited, 4096));
        let first = begin(&mut waiting);
        assert_eq!(first.len(), 100 + PORTION);
        assert!(first[..100].iter().all(|tag| tag.urgency == Urgency::Awaited));
        assert!(waiting.has_work());
        let second = begin(&mut waiting);
        assert_eq!(second.len(), PORTION);
        assert_eq!(
            (begin(&mut waiting).len(), waiting.has_work()),
            (0, false),
            "enough are in work"
        );
        assert!(!waiting.is_empty());
        waiting.ended(second[0], None);
        assert_eq!(begin(&mut waiting).len(), 1);
        first[100..].iter().chain(&second[1..]).for_each(|tag| waiting.ended(*tag, None));
        assert_eq!(begin(&mut waiting).len(), PORTION);
        assert_eq!(begin(&mut waiting).len(), 100 - 3 * PORTION - 1);
        assert!(waiting.is_empty());
    }

    #[test]
    fn a_disk_that_ends_nothing_stops_no_other_disk() {
        let mut waiting = Waiting::default();
        (0..1000).for_each(|id| push(&mut waiting, id, Urgency::Placing, 4096));
        let stuck = (0..10).map(|_| begin(&mut waiting).len()).sum::<usize>();
        assert_eq!((stuck, waiting.has_work()), (MOST_PLACING, false));
        (0..1000).for_each(|id| push_of(&mut waiting, 1, id, Urgency::Placing, 4096));
        let mut ended = 0;
        while waiting.has_work() {
            let begun = begin(&mut waiting);
            ended += begun.len();
            begun.iter().for_each(|tag| waiting.ended(*tag, None));
        }
        assert_eq!(ended, 1000);
        assert!(!waiting.is_empty());
    }

    #[test]
    fn disks_take_turns() {
        let mut waiting = Waiting::default();
        for id in 0..8 {
            (0..3).for_each(|node| push_of(&mut waiting, node, id, Urgency::Placing, 4096));
        }
        let nodes: Vec<usize> = begin(&mut waiting).iter().map(|tag| tag.node).collect();
        assert_eq!(nodes[..7], [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn a_portion_is_full_with_so_many_bytes() {
        let mut waiting = Waiting::default();
        (0..8).for_each(|id| push(&mut waiting, id, Urgency::Placing, PORTION_BYTES / 2));
        assert_eq!(begin(&mut waiting).len(), 2);
    }

    #[test]
    fn a_slow_disk_is_given_few_at_a_time_until_it_is_fast_again() {
        let mut placing = Placing::default();
        let mut most_after = |operations: usize, took: Nanos| {
            for _ in 0..operations {
                placing.in_work += 1;
                placing.ended(Some(took));
            }
            placing.most
        };
        assert_eq!(most_after(100, SLOW), MOST_PLACING);
        assert_eq!(most_after(1, SLOW + 1), MOST_PLACING * 3 / 4);
        assert_eq!(most_after(100, SLOW + 1), FEWEST_PLACING);
        assert_eq!(most_after(20, 0), FEWEST_PLACING + 20);
        let mut waiting = Waiting { placing: [((0, 0), placing)].into(), ..Waiting::default() };
        (0..100).for_each(|id| push(&mut waiting, id, Urgency::Placing, 1));
        assert_eq!(begin(&mut waiting).len(), FEWEST_PLACING + 20);
        assert!(!waiting.has_work());
    }

    #[test]
    fn what_an_earlier_life_has_in_work_holds_up_no_later_one() {
        let mut waiting = Waiting::default();
        let tag = |life, id| Tag { node: 3, life, id, urgency: Urgency::Placing };
        let request = |id| {
            let op = DiskOp::Read { offset: 0, len: 4096 };
            DiskRequest { id, op, urgency: Urgency::Placing }
        };
        for id in 0..MOST_PLACING as u64 {
            waiting.begun(tag(1, id), false);
        }
        waiting.push(tag(1, 99), request(99));
        assert!(begin(&mut waiting).is_empty() && !waiting.has_work());
        waiting.push(tag(2, 7), request(7));
        assert_eq!(begin(&mut waiting), [tag(2, 7)]);
        for id in 0..MOST_PLACING as u64 {
            waiting.ended(tag(1, id), None);
        }
        assert_eq!(begin(&mut waiting), [tag(1, 99)]);
        waiting.ended(tag(1, 99), None);
        waiting.push(tag(3, 1), request(1));
        assert_eq!(waiting.placing.len(), 2, "what is idle is forgotten");
    }
}
