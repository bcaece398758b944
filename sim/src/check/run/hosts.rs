//! The hosts: what they ask, and what they are answered.

use std::collections::BTreeSet;

use weft_core::Buffer;
use weft_core::node::{HostData, HostError, HostOp};
use weft_core::plan::{Range, chunks, together};
use weft_core::policy::{Commit, Policy};
use weft_core::units::{Epoch, MILLIS, Nanos, NodeId};

use super::super::history::{BLOCK, Did, Op, numbers};
use super::members::Members;
use super::repeats::Repeats;
use super::verdict::LOSS;
use super::{CLIENT, GONE, Run, TIRED, VOLUME};

/// One that has one request in work at a time.
pub(super) struct Client {
    pub node: NodeId,
    /// The request in work: the number of its first operation. A request of several atomic
    /// pieces is as many operations.
    pub op: Option<u32>,
    /// How many they are.
    pub pieces: u32,
    /// The number under which the node was asked.
    pub asked: u64,
    /// If it may be asked for again.
    pub repeats: Option<Repeats>,
    /// A disk has been away or behind since it was asked.
    pub missed: bool,
    /// The epoch in which it was asked for first.
    epoch: Epoch,
    /// Some node has known since it was asked that its disk is full.
    pub meets_full: bool,
    /// Where it asks for holes, if it does.
    holes_in: Option<Range>,
}

/// What hosts have heard.
#[derive(Default)]
pub(super) struct Heard {
    /// The numbers of the requests that were answered.
    answers: BTreeSet<u64>,
    /// How often they learned something beside what they asked for.
    learned: u32,
}

impl Client {
    pub fn new(node: NodeId) -> Client {
        Client {
            node,
            op: None,
            pieces: 0,
            asked: 0,
            repeats: None,
            missed: false,
            epoch: 0,
            meets_full: false,
            holes_in: None,
        }
    }
}

impl Run {
    pub(super) fn issue(&mut self, n: usize) {
        if self.clients[n].op.is_some() {
            return self.ask_again(n);
        }
        if self.to_issue == 0 {
            return;
        }
        let now = self.world.now();
        if let Some(wait) = self.lulls.as_mut().and_then(|l| l.wait(now)) {
            self.world.call_after(wait, CLIENT | n as u64);
            return;
        }
        let (left, all) = (self.to_issue, self.options.operations);
        if let Some(wait) = self.relapses.as_ref().and_then(|r| r.wait(now, left, all)) {
            self.world.call_after(wait, CLIENT | n as u64);
            return;
        }
        let node = self.clients[n].node;
        if !self.world.is_open(node) {
            self.clients[n].node = self.next_node(node);
            self.world.call_after(MILLIS, CLIENT | n as u64);
            return;
        }
        self.to_issue -= 1;
        let hot = self.hot_block(node);
        let reads = hot.as_ref().is_some_and(|(_, reads)| *reads);
        let blocks = hot.map_or_else(|| self.draw_blocks(), |(block, _)| block);
        let range =
            Range { offset: blocks.start * BLOCK, len: (blocks.end - blocks.start) * BLOCK };
        let what = self.rng.u8(0..20);
        let what = if self.is_restless() { what.max(4 + what / 2) } else { what };
        if self.issue_rare(n, range) {
            return;
        }
        let (did, op) = match what {
            _ if reads => (Did::Read(Vec::new()), HostOp::Read(range)),
            0..8 => (Did::Read(Vec::new()), HostOp::Read(range)),
            8 => (Did::Wrote { zeros: true }, HostOp::WriteZeroes(range)),
            _ => {
                let data = self.content_of(&blocks);
                (Did::Wrote { zeros: false }, HostOp::Write(range.offset, data.into()))
            }
        };
        let (did, op, blocks) = self.heed_reservations(n, (did, op, blocks));
        self.ask_in_order(n, &did, blocks, op);
    }

    /// The atomic pieces of a request.
    pub(super) fn pieces(&self, blocks: &std::ops::Range<u64>) -> Vec<std::ops::Range<u64>> {
        let range =
            Range { offset: blocks.start * BLOCK, len: (blocks.end - blocks.start) * BLOCK };
        let v = &self.volume;
        let most = together(&v.geometry, v.policy.commands, self.max_chunk);
        let chunks_from = |offset| {
            let rest = Range { offset, len: range.end() - offset };
            chunks(&v.geometry, rest, most, |s| v.extent_end(s)).map(|r| r.end())
        };
        let mut ends: BTreeSet<u64> = chunks_from(range.offset).collect();
        // Parity may wait: what lies in one stripe unit happens or does not.
        if self.exposes {
            ends.extend(multiples(v.geometry.unit, range));
        }
        // A request is cut where a range of stripes begins that chooses for itself, and from there on as if it began
        // there. Which ranges there are when it is taken, only its node knows.
        if self.range_rng.is_some() {
            let borders = multiples(v.geometry.stripe_bytes(), range);
            ends.extend(borders.flat_map(|b| chunks_from(b).chain([b])));
        }
        let starts = [range.offset].into_iter().chain(ends.iter().copied());
        starts.zip(&ends).map(|(start, end)| start / BLOCK..end / BLOCK).collect()
    }

    /// A host asks its node for something that reads or writes these blocks.
    pub(super) fn ask(&mut self, n: usize, did: &Did, blocks: std::ops::Range<u64>, op: HostOp) {
        let (node, first) = (self.clients[n].node, self.announce(n, did, blocks, &op));
        match self.takes_down(n, did, &op) {
            Some(origin) => self.world.host_by_name(node, u64::from(first), VOLUME, origin, op),
            None => self.world.host(node, u64::from(first), VOLUME, op),
        }
    }

    /// The same, and says what must come first, if hosts do so in this run.
    pub(super) fn ask_in_order(
        &mut self,
        n: usize,
        did: &Did,
        blocks: std::ops::Range<u64>,
        op: HostOp,
    ) {
        let node = self.clients[n].node;
        let Some(places) = self.places.as_mut() else {
            self.ask(n, did, blocks, op);
            self.may_lose_session(n);
            return self.lose_patience(n);
        };
        let (place, goes) = (places.next(n, node), places.goes_after());
        let first = self.announce(n, did, blocks, &op);
        if let Some(places) = self.places.as_mut() {
            places.asked(&place, node, first..self.next_op);
        }
        self.world.tell(|| format!("request {first} is {}, after {:?}", place.id, place.after));
        if let Some(after) = goes {
            self.world.call_after(after, GONE | u64::from(first));
        }
        self.world.host_in_order(node, u64::from(first), VOLUME, place, op);
        self.lose_patience(n);
    }

    /// In a run with processes a host may wait only for some time. (What is asked at rest waits for
    /// good.)
    fn lose_patience(&mut self, n: usize) {
        let patience = self.members.as_mut().and_then(Members::host_patience);
        if let (Some(patience), Some(first)) = (patience, self.clients[n].op) {
            self.world.call_after(patience, TIRED | u64::from(first));
        }
    }

    /// Takes down that a host asks; returns the request's number.
    pub(super) fn announce(
        &mut self,
        n: usize,
        did: &Did,
        blocks: std::ops::Range<u64>,
        op: &HostOp,
    ) -> u32 {
        let (node, start, first) = (self.clients[n].node, self.world.now(), self.next_op);
        let what = match op {
            HostOp::Write(..) => "write".into(),
            other => format!("{other:?}"),
        };
        self.world
            .tell(|| format!("host {n} asks {node}: request {first}, {what}, blocks {blocks:?}"));
        let mut pieces = self.pieces(&blocks);
        if pieces.is_empty() {
            pieces.push(blocks);
        }
        for blocks in pieces {
            let id = self.next_op;
            self.next_op += 1;
            self.ops.insert(id, Op { id, did: did.clone(), blocks, start, end: None, by: None });
        }
        self.clients[n].op = Some(first);
        self.clients[n].pieces = self.next_op - first;
        (self.clients[n].asked, self.clients[n].repeats) = (u64::from(first), None);
        self.clients[n].epoch = self.world.map().epoch;
        self.clients[n].meets_full = self.full.is_any_told();
        self.clients[n].holes_in = match op {
            HostOp::Holes(range) => Some(*range),
            _ => None,
        };
        first
    }

    /// In a wide run, now and then something other than to read or write. Says whether.
    pub(super) fn issue_rare(&mut self, n: usize, range: Range) -> bool {
        let Some(rng) = self.wide_rng.as_mut() else { return false };
        let stripe = self.volume.geometry.stripe_bytes();
        let nothing = range.offset / BLOCK..range.offset / BLOCK;
        let (did, op, blocks) = match rng.u8(0..30) {
            // Half of the flushes there are for parity of a range alone.
            0 if self.exposes && self.next_op.is_multiple_of(2) => {
                (Did::Read(Vec::new()), HostOp::Refresh(range), nothing)
            }
            0 => (Did::Read(Vec::new()), HostOp::Flush, nothing),
            1 => (Did::Read(Vec::new()), HostOp::Holes(range), nothing),
            2 => {
                // What lies in whole stripes reads as zeros, the rest is left as it is.
                let (from, to) =
                    (range.offset.next_multiple_of(stripe), range.end() / stripe * stripe);
                let inner = from / BLOCK..to.max(from) / BLOCK;
                let did = Did::Wrote { zeros: true };
                match self.may_write_now(n) {
                    true => (did, HostOp::Trim(range), inner),
                    false => return false,
                }
            }
            _ => return false,
        };
        self.ask_in_order(n, &did, blocks, op);
        true
    }

    /// A run of blocks inside one atomic piece; half of them in a small hot region.
    pub(super) fn draw_blocks(&mut self) -> std::ops::Range<u64> {
        let all = self.volume.size / BLOCK;
        let region = if self.rng.bool() { all.min(64) } else { all };
        let start = self.rng.u64(0..region);
        let most = match self.rng.u8(0..4) {
            _ if self.is_restless() => 128,
            0 => 128,
            1 => 24,
            _ => 8,
        };
        let mut start = start;
        let mut len = self.rng.u64(1..=most);
        if self.rng.bool() {
            start = start / 8 * 8;
            len = len.next_multiple_of(8);
        }
        start..(start + len).min(all)
    }

    /// A node answers; says whether a host's request is over by it.
    pub(super) fn answered(&mut self, number: u64, result: Result<HostData, HostError>) -> bool {
        let request = number as u32;
        // Each is asked once, of one life of a node.
        if !self.heard.answers.insert(number) {
            self.error = Some(format!("request {request} is answered twice, now with {result:?}"));
            return false;
        }
        if self.scrub == Some(request) {
            self.scrub = None;
            self.scrub_done(result);
            return true;
        }
        if self.losses == Some(request) {
            self.losses_are(result);
            return true;
        }
        let waits = |c: &Client| c.op == Some(request) && c.asked == number;
        let Some(n) = self.clients.iter().position(waits) else { return false };
        if self.asks_elsewhere(n, &result) {
            return false;
        }
        self.clients[n].op = None;
        let missed = std::mem::take(&mut self.clients[n].missed);
        let pieces = request..request + self.clients[n].pieces;
        let think = self.rng.u64(1..2 * MILLIS);
        let think = self.members.as_mut().map_or(think, Members::think);
        let think = self.rare.as_ref().map_or(think, |r| r.think(think));
        self.world.call_after(think, CLIENT | n as u64);
        match result {
            Ok(HostData::Bytes(parts)) => {
                let bytes = Buffer::join(&parts);
                self.saw(pieces.clone(), &bytes);
            }
            Ok(HostData::Extents(extents)) => {
                self.saw_holes(n, request, &extents);
                self.ended(pieces.clone());
            }
            Ok(_) => self.ended(pieces.clone()),
            Err(error) => self.failed(n, pieces.clone(), error, missed),
        }
        self.has_seen(pieces.start);
        self.tell_answer(n, pieces);
        true
    }

    /// A host's request has failed.
    fn failed(&mut self, n: usize, pieces: std::ops::Range<u32>, error: HostError, missed: bool) {
        let request = pieces.start;
        match error {
            HostError::NotServing => self.did_nothing(pieces),
            HostError::Outdated | HostError::Differs { .. } | HostError::NotOffered
                if self.reserving.is_some() =>
            {
                self.is_refused(n, pieces, &error);
            }
            HostError::Place(why) if self.places.is_some() => {
                self.world.tell(|| format!("request {request} is refused: {why}"));
                self.did_nothing(pieces);
            }
            // It may have begun.
            HostError::Gone if self.places.is_some() => self.left_open(pieces),
            HostError::OutcomeUnknown if self.may_stay_unknown(n, &pieces) => {
                self.again.1 += 1;
                self.left_open(pieces);
            }
            HostError::NoSpace if self.may_find_no_space(n, request) => {
                self.found_no_space(n, pieces);
            }
            // What a failed write did is not known.
            HostError::TooManyLost if self.beyond && !self.waits_for_lost() => {
                self.left_open(pieces);
            }
            HostError::TooManyLost if self.may_lose() || (self.exposes && missed) => {
                self.lacks = true;
                self.left_open(pieces);
            }
            error => {
                let lost = if error == HostError::TooManyLost { LOSS } else { "" };
                let text = format!(
                    "{lost}request {request} failed though the layout bears the faults: {error}"
                );
                self.error = Some(text);
            }
        }
    }

    /// Whether the request of a host may have been asked for more than once: by the host, or by its endpoint.
    pub(super) fn may_be_unknown(&self, n: usize) -> bool {
        let controlled = self.volume.policy.controller.is_some() || self.choice_rng.is_some();
        self.clients[n].has_repeated() || controlled
    }

    /// Whether all who had a say in an attempt at the request of a host may have lost it since, so that its node cannot
    /// ask them what became of it.
    pub(super) fn may_be_in_doubt(&self, n: usize) -> bool {
        self.world.map().epoch > self.clients[n].epoch
    }

    /// Whether a request may be refused for lack of space. No read is; other requests only if a disk's file system was
    /// full since they were asked for, or if the volume is thin.
    fn may_find_no_space(&self, n: usize, request: u32) -> bool {
        let may_lack = self.clients[n].meets_full || self.volume.is_thin();
        may_lack && self.ops[&request].did.writes()
    }

    /// A request was refused since a disk's file system is full. One of a single piece has not happened, but
    /// zeros are written in pieces that nobody counts.
    fn found_no_space(&mut self, n: usize, pieces: std::ops::Range<u32>) {
        self.full.refused += 1;
        let may_have_begun = !self.ops[&pieces.start].did.is_known_by_number()
            || self.places.is_some()
            || self.volume.policy.commit == Commit::Limited
            || self.may_be_unknown(n);
        match pieces.len() == 1 && !may_have_begun {
            true => self.did_nothing(pieces),
            false => self.left_open(pieces),
        }
    }

    fn is_restless(&self) -> bool {
        self.rare.as_ref().is_some_and(|r| r.restless)
    }

    /// Content may be on one disk alone: requests that are in work while a disk is away or behind may fail.
    pub(super) fn note_missing(&mut self) {
        let map = self.world.map();
        let mut nodes = (0..self.world.size() as u16).map(NodeId);
        let is_missing = |n| self.world.belongs(n) && (!map.is_up(n) || map.is_stale(n));
        if self.exposes && nodes.any(is_missing) {
            self.clients.iter_mut().for_each(|c| c.missed |= c.op.is_some());
        }
    }

    /// Whether requests wait for lost nodes for as long as it takes.
    fn waits_for_lost(&self) -> bool {
        self.volume.policy.lost_wait == Policy::FOREVER
    }

    /// A request was refused before anything of it was done.
    pub(super) fn did_nothing(&mut self, pieces: std::ops::Range<u32>) {
        if let Some(places) = self.places.as_mut() {
            places.refused(pieces.start);
        }
        pieces.for_each(|p| drop(self.ops.remove(&p)));
    }

    /// A request failed, and what it did is not known.
    pub(super) fn left_open(&mut self, pieces: std::ops::Range<u32>) {
        if let Some(places) = self.places.as_mut() {
            places.failed(pieces.start);
        }
        for piece in pieces {
            if matches!(self.ops[&piece].did, Did::Read(_)) {
                self.ops.remove(&piece);
            }
        }
    }

    /// What a read returned.
    pub(super) fn saw(&mut self, pieces: std::ops::Range<u32>, bytes: &[u8]) {
        let mut at = 0;
        for piece in pieces.clone() {
            let op = self.ops.get_mut(&piece).expect("issued");
            let len = ((op.blocks.end - op.blocks.start) * BLOCK) as usize;
            match numbers(op.blocks.start, &bytes[at..at + len]) {
                Ok(values) => op.did = Did::Read(values),
                Err(block) => {
                    let text =
                        format!("read {piece} saw content in block {block} that nobody wrote");
                    self.error = Some(text);
                }
            }
            at += len;
        }
        self.ended(pieces);
    }

    /// What a host was told of holes: whatever is one was zeros at some time since it asked.
    fn saw_holes(&mut self, n: usize, request: u32, extents: &[(u64, bool)]) {
        let range = self.clients[n].holes_in.take();
        let all: u64 = extents.iter().map(|e| e.0).sum();
        let Some(mut at) = range.filter(|r| r.len == all).map(|r| r.offset) else {
            self.error =
                Some(format!("request {request} asked for {range:?}, not for {extents:?}"));
            return;
        };
        let start = self.ops[&request].start;
        for (len, is_hole) in extents {
            let blocks = at.div_ceil(BLOCK)..(at + len) / BLOCK;
            at += len;
            if *is_hole && !blocks.is_empty() {
                let zeros = vec![0; (blocks.end - blocks.start) as usize];
                self.also_saw(start, Did::Read(zeros), blocks);
            }
        }
    }

    /// What a host has learned since this time beside what it asked for. It has a number that no content has.
    pub(super) fn also_saw(&mut self, start: Nanos, did: Did, blocks: std::ops::Range<u64>) {
        self.heard.learned += 1;
        let (id, end) = (u32::MAX - self.heard.learned, Some(self.world.now()));
        self.ops.insert(id, Op { id, did, blocks, start, end, by: None });
    }

    pub(super) fn ended(&mut self, pieces: std::ops::Range<u32>) {
        let now = self.world.now();
        if let Some(places) = self.places.as_mut() {
            places.done(pieces.start);
        }
        for piece in pieces {
            self.ops.get_mut(&piece).expect("issued").end = Some(now);
        }
    }

    pub(super) fn tell_answer(&mut self, n: usize, pieces: std::ops::Range<u32>) {
        let mut saw = String::new();
        for op in pieces.clone().filter_map(|p| self.ops.get(&p)) {
            if let Did::Read(values) = &op.did {
                let runs = values.chunk_by(|a, b| a == b).map(|r| (r[0], r.len()));
                let runs: Vec<_> = runs.collect();
                saw += &format!(", sees (write, blocks) {runs:?} from {}", op.blocks.start);
            }
        }
        self.world.tell(|| format!("host {n} is answered: request {}{saw}", pieces.start));
    }
}

/// The multiples of `of` inside a range.
fn multiples(of: u64, range: Range) -> impl Iterator<Item = u64> {
    (range.offset / of + 1..range.end().div_ceil(of)).map(move |n| n * of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{Options, check_history as check};

    #[test]
    fn a_hole_that_was_none_is_found() {
        let mut run = Run::draw(1, Options::DEFAULT, 0);
        let blocks = 8..16;
        run.announce(0, &Did::Wrote { zeros: false }, blocks, &HostOp::Flush);
        run.answered(1, Ok(HostData::Done));
        run.world.call_after(MILLIS, 0);
        while run.world.now() < MILLIS {
            run.world.step();
        }
        for (holes_in, extents, is_found) in [
            (0..32, vec![(8 * BLOCK, true), (8 * BLOCK, false), (16 * BLOCK, true)], false),
            (8..16, vec![(BLOCK, false), (7 * BLOCK, true)], true),
        ] {
            let offset = holes_in.start * BLOCK;
            let op = HostOp::Holes(Range { offset, len: holes_in.end * BLOCK - offset });
            let request = run.announce(0, &Did::Read(Vec::new()), 0..0, &op);
            run.answered(u64::from(request), Ok(HostData::Extents(extents)));
            assert_eq!(run.error, None);
            let ops: Vec<Op> = run.ops.values().cloned().collect();
            assert_eq!(check(&ops).is_err(), is_found, "{ops:?}");
        }
        let request = run.announce(0, &Did::Read(Vec::new()), 0..0, &HostOp::Holes(range(4)));
        run.answered(u64::from(request), Ok(HostData::Extents(vec![(3 * BLOCK, false)])));
        assert!(run.error.is_some(), "not what it asked for");
    }

    fn range(blocks: u64) -> Range {
        Range { offset: 0, len: blocks * BLOCK }
    }

    #[test]
    fn a_second_answer_is_found() {
        let mut run = Run::draw(1, Options::DEFAULT, 0);
        // Its host may be gone.
        for (number, error) in [(7, None), (8, None), (7 | 1 << 32, None), (8, Some("twice"))] {
            run.answered(number, Ok(HostData::Done));
            let found = run.error.take();
            assert_eq!(found.is_some(), error.is_some(), "{number}: {found:?}");
        }
    }
}
