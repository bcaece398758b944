//! A process's own side: its nodes, what they last heard and said, and the lease that they serve
//! by.
//!
//! Everything that the leader should know of the process is in one message, [`Alive`], which is
//! sent whole each time: a lost or repeated one does no harm.

use std::collections::BTreeMap;

use weft_core::cluster::Arrival;
use weft_core::node::{MapMessage, MemberReport};
use weft_core::units::{Epoch, Nanos, NodeId};

use crate::decision::Life;
use crate::hearing::Unheard;
use crate::message::{Alive, NodeState, Word};

/// A node of this process.
#[derive(Default)]
struct Local {
    /// How often it has become ready.
    number: u64,
    /// While it is ready.
    state: Option<NodeState>,
    /// It has been neither ready nor dead yet.
    opening: bool,
    /// In this life it was told to enter an epoch.
    entered: bool,
    /// It is down because its disk has failed.
    failed: bool,
}

pub(crate) struct Holder {
    /// Which start of the process this is.
    start: u64,
    /// Messages sent.
    number: u64,
    /// When the last of them was.
    last_stamp: Nanos,
    nodes: BTreeMap<NodeId, Local>,
    /// The last probe seen: term and round.
    probe: (u64, u64),
    /// The highest term of which a word was obeyed.
    obeyed: u64,
    lease_until: Option<Nanos>,
    suspended: bool,
}

impl Holder {
    pub fn new(start: u64, nodes: &[NodeId]) -> Holder {
        let opening = || Local { opening: true, ..Local::default() };
        Holder {
            start,
            number: 0,
            last_stamp: 0,
            nodes: nodes.iter().map(|n| (*n, opening())).collect(),
            probe: (0, 0),
            obeyed: 0,
            lease_until: None,
            suspended: true,
        }
    }

    /// A node is ready: a new life of it.
    pub fn ready(&mut self, arrival: Arrival) {
        let local = self.nodes.entry(arrival.node).or_default();
        local.number += 1;
        (local.opening, local.entered, local.failed) = (false, false, false);
        let life = Life { start: self.start, number: local.number };
        let heard = (0, 0);
        let (frozen, caught_up, wakes, parity_done) = (None, None, None, None);
        local.state =
            Some(NodeState { arrival, life, heard, frozen, caught_up, wakes, parity_done });
    }

    pub fn died(&mut self, node: NodeId) {
        let local = self.nodes.entry(node).or_default();
        local.opening = false;
        local.state = None;
    }

    /// A node is about to die because its disk has failed.
    pub fn disk_failed(&mut self, node: NodeId) {
        self.nodes.entry(node).or_default().failed = true;
    }

    pub fn report(&mut self, node: NodeId, report: MemberReport) {
        let Some(state) = self.nodes.get_mut(&node).and_then(|l| l.state.as_mut()) else { return };
        let kept = match report {
            MemberReport::Frozen { .. } => &mut state.frozen,
            // One that has caught up is answered with a new map, in which it reports again what it has merged.
            MemberReport::CaughtUp { .. } | MemberReport::Merged { .. } => &mut state.caught_up,
            MemberReport::Wake { .. } => &mut state.wakes,
            MemberReport::ParityDone { .. } => &mut state.parity_done,
        };
        let has_caught_up = matches!(kept, Some(MemberReport::CaughtUp { epoch, .. }) if *epoch == epoch_of(&report));
        let is_less = has_caught_up && matches!(report, MemberReport::Merged { .. });
        if !is_less && kept.as_ref().is_none_or(|k| epoch_of(k) <= epoch_of(&report)) {
            *kept = Some(report);
        }
    }

    /// A probe has come.
    pub fn probed(&mut self, term: u64, round: u64) {
        self.probe = self.probe.max((term, round));
    }

    /// What there is to say now, in this term or that of a later leader who has asked. Whoever
    /// has said something in a term obeys no word of an earlier one. `unheard` is what there is to say
    /// of the others.
    pub fn alive(&mut self, now: Nanos, term: u64, unheard: Vec<Unheard>) -> Alive {
        self.number += 1;
        self.last_stamp = now;
        let term = term.max(self.probe.0);
        let nodes = self.nodes.values();
        Alive {
            term,
            round: if self.probe.0 == term { self.probe.1 } else { 0 },
            start: self.start,
            number: self.number,
            stamp: now,
            opening: nodes.clone().any(|l| l.opening),
            nodes: nodes.filter_map(|l| l.state.clone()).collect(),
            unheard,
            failed: self.nodes.iter().filter(|(_, l)| l.failed).map(|(n, _)| *n).collect(),
        }
    }

    /// Checks what must hold when an input has been handled.
    pub fn check(&self) {
        for (node, local) in &self.nodes {
            assert!(local.number > 0 || !local.entered, "{node} entered before it was ready");
            let Some(state) = &local.state else { continue };
            assert!(!local.opening, "{node} is ready and still opens");
            assert_eq!(state.arrival.node, *node, "a node arrives as itself");
            let life = Life { start: self.start, number: local.number };
            assert_eq!(state.life, life, "{node} lives its last life");
            assert!(state.heard.0 <= self.obeyed, "{node} obeyed a later term than the process");
        }
    }

    /// When it last told a leader how things stand.
    pub fn last_stamp(&self) -> Nanos {
        self.last_stamp
    }

    /// The life that a node is in, while it is ready.
    pub fn life_of(&self, node: NodeId) -> Option<Life> {
        self.nodes.get(&node)?.state.as_ref().map(|s| s.life)
    }

    /// A majority stood behind the leader after this process had sent `stamp`.
    pub fn granted(&mut self, start: u64, stamp: Nanos, lease: Nanos) {
        if start == self.start {
            self.lease_until = self.lease_until.max(Some(stamp.saturating_add(lease)));
        }
    }

    /// Takes a word of the authority, if it is for a node that lives and the first of its kind.
    /// `term` is the highest that this member has seen.
    pub fn word(&mut self, word: Word, term: u64) -> Option<(NodeId, MapMessage)> {
        if word.term < term.max(self.obeyed).max(self.probe.0) {
            return None;
        }
        let local = self.nodes.get_mut(&word.node)?;
        let state = local.state.as_mut()?;
        if state.life != word.life || state.heard >= (word.term, word.number) {
            return None;
        }
        self.obeyed = word.term;
        state.heard = (word.term, word.number);
        local.entered |= matches!(word.message, MapMessage::Enter { .. });
        Some((word.node, word.message))
    }

    /// The leader of `of` does not take a node back in this life of it: the others may have gone on
    /// without it. Returns the node if it has to start anew. One that never took part may stay as
    /// it is; only the name of its life is another. `term` is the highest that this member has seen.
    pub fn outlived(&mut self, of: u64, node: NodeId, life: Life, term: u64) -> Option<NodeId> {
        if of < term.max(self.obeyed).max(self.probe.0) {
            return None;
        }
        let state = self.nodes.get(&node)?.state.as_ref().filter(|s| s.life == life)?;
        match self.nodes[&node].entered {
            true => self.died(node),
            false => self.ready(state.arrival),
        }
        self.nodes[&node].state.is_none().then_some(node)
    }

    /// Whether local nodes may serve at this moment.
    pub fn may_serve(&self, now: Nanos) -> bool {
        self.lease_until.is_some_and(|until| now < until)
    }

    pub fn lease_until(&self) -> Option<Nanos> {
        self.lease_until
    }

    /// Whether the lease has begun (`true`) or run out since the last call.
    pub fn change(&mut self, now: Nanos) -> Option<bool> {
        let serve = self.may_serve(now);
        (serve == self.suspended).then(|| {
            self.suspended = !serve;
            serve
        })
    }
}

fn epoch_of(report: &MemberReport) -> Epoch {
    match report {
        MemberReport::Frozen { epoch, .. }
        | MemberReport::CaughtUp { epoch, .. }
        | MemberReport::Merged { epoch, .. }
        | MemberReport::ParityDone { epoch, .. }
        | MemberReport::Wake { epoch } => *epoch,
    }
}

#[cfg(test)]
mod tests {
    use weft_core::units::VolumeId;

    use super::*;

    fn word(term: u64, number: u64, life: Life) -> Word {
        let message = MapMessage::Freeze { epoch: number };
        Word { term, number, node: NodeId(4), life, message }
    }

    #[test]
    fn what_a_node_has_merged_does_not_replace_that_it_has_caught_up() {
        let node = NodeId(4);
        let mut holder = Holder::new(1, &[node]);
        holder.ready(Arrival { node, disk: 1, sectors: 1000 });
        let caught_up = |epoch| MemberReport::CaughtUp { epoch, volumes: vec![VolumeId(1)] };
        let merged = |epoch| MemberReport::Merged { epoch, merged: true, flattened: false };
        let mut kept = |report| {
            holder.report(node, report);
            holder.alive(0, 1, Vec::new()).nodes[0].caught_up.clone()
        };
        assert_eq!(kept(merged(3)), Some(merged(3)));
        assert_eq!(kept(caught_up(3)), Some(caught_up(3)));
        assert_eq!(kept(merged(3)), Some(caught_up(3)));
        assert_eq!(kept(merged(4)), Some(merged(4)));
    }

    #[test]
    fn only_the_newest_word_of_the_highest_term_reaches_the_life_it_is_for() {
        let mut h = Holder::new(7, &[NodeId(4)]);
        let first = Life { start: 7, number: 1 };
        assert!(h.word(word(2, 1, first), 2).is_none(), "not ready");
        h.ready(Arrival { node: NodeId(4), disk: 1, sectors: 9 });
        assert!(h.word(word(2, 5, first), 2).is_some());
        assert!(h.word(word(2, 5, first), 2).is_none(), "repeated");
        assert!(h.word(word(2, 4, first), 2).is_none(), "overtaken");
        assert!(h.word(word(3, 1, first), 2).is_some(), "a later leader counts afresh");
        assert!(h.word(word(2, 9, first), 2).is_none(), "of a deposed leader");
        assert!(h.word(word(3, 2, first), 4).is_none(), "of one that an election deposed");
        h.died(NodeId(4));
        h.ready(Arrival { node: NodeId(4), disk: 1, sectors: 9 });
        assert!(h.word(word(3, 3, first), 3).is_none(), "for an earlier life");
        let second = Life { start: 7, number: 2 };
        assert!(h.word(word(3, 3, second), 3).is_some());
        h.probed(5, 1);
        assert_eq!(h.alive(0, 3, Vec::new()).term, 5);
        assert!(h.word(word(4, 1, second), 3).is_none(), "a later leader has asked");
    }

    #[test]
    fn who_has_taken_part_starts_anew_and_who_has_not_gets_another_name() {
        let mut h = Holder::new(7, &[NodeId(4)]);
        h.ready(Arrival { node: NodeId(4), disk: 1, sectors: 9 });
        let (first, second) = (Life { start: 7, number: 1 }, Life { start: 7, number: 2 });
        assert!(h.word(word(2, 5, first), 2).is_some());
        assert_eq!(h.outlived(1, NodeId(4), first, 2), None, "of a deposed leader");
        assert_eq!(h.alive(0, 2, Vec::new()).nodes[0].life, first);
        assert_eq!(h.outlived(2, NodeId(4), first, 2), None, "it only froze");
        let state = h.alive(0, 2, Vec::new()).nodes[0].clone();
        assert_eq!((state.life, state.heard), (second, (0, 0)));
        let map = Default::default();
        let message = MapMessage::Enter { map, floor: weft_core::units::Timestamp::ZERO };
        assert!(h.word(Word { message, ..word(2, 6, second) }, 2).is_some());
        assert_eq!(h.outlived(2, NodeId(4), first, 2), None, "an earlier life");
        assert_eq!(h.outlived(2, NodeId(4), second, 2), Some(NodeId(4)));
        assert!(h.alive(0, 2, Vec::new()).nodes.is_empty() && !h.alive(0, 2, Vec::new()).opening);
        assert_eq!(h.outlived(2, NodeId(4), second, 2), None, "it is known already");
    }

    #[test]
    fn a_disk_has_failed_until_its_node_is_back() {
        let mut h = Holder::new(7, &[NodeId(4), NodeId(5)]);
        let arrival = Arrival { node: NodeId(4), disk: 1, sectors: 9 };
        h.ready(arrival);
        h.disk_failed(NodeId(4));
        h.died(NodeId(4));
        h.died(NodeId(5));
        let alive = h.alive(0, 1, Vec::new());
        assert_eq!((alive.nodes.len(), &alive.failed[..]), (0, &[NodeId(4)][..]));
        h.ready(arrival);
        assert!(h.alive(0, 1, Vec::new()).failed.is_empty());
    }

    #[test]
    fn a_lease_counts_from_the_stamp_and_not_from_its_arrival() {
        let mut h = Holder::new(7, &[]);
        assert_eq!(h.change(10), None, "suspended from the start");
        h.granted(7, 100, 50);
        assert_eq!((h.change(149), h.change(149)), (Some(true), None));
        h.granted(7, 90, 50);
        h.granted(6, 500, 50);
        assert_eq!(h.change(150), Some(false), "neither an older stamp nor an older start helps");
        h.granted(7, 100, 50);
        assert_eq!(h.change(160), None, "a grant that comes too late");
    }
}
