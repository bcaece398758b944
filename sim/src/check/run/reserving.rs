//! Hosts that reserve the volume and take it from one another, compare before they write, and lose their sessions while
//! they have something in work.
//!
//! A host looks at its node's map for its permission to write, and half of the time asks only later for what it was
//! permitted then. Once any node has entered a map that forbids a host to write, or in which the volume was reset, nothing
//! of what that host has asked may happen any more: whatever is seen of it must have happened by then.
//!
//! All of it is drawn from a stream of its own, and only in some runs, so that older seeds stay what they were.

use fastrand::Rng;
use weft_core::cluster::{
    Registrant, ReservationAction, ReservationChange, ReservationKind, Reservations, Volume,
};
use weft_core::node::{HostError, HostOp, Modification};
use weft_core::order::{Asker, HostId, Origin, RequestId};
use weft_core::plan::Range;
use weft_core::units::{MILLIS, Nanos, NodeId};

use super::super::history::{BLOCK, Did, Op, content};
use super::faults::Fault;
use super::{CLIENT, LOST, Run, VOLUME};
use crate::check::Reserved;

/// The draw of reservations, in runs that have some.
pub(super) struct Reserving {
    rng: Rng,
    /// How many changes were asked for.
    changes: u64,
    /// The latest reservations that a node has entered.
    entered: Reservations,
    /// The next request is an operator's, who may write whatever is reserved.
    by_operator: bool,
    /// The blocks that a host has read last, and their numbers.
    saw: Option<(u64, Vec<u32>)>,
    hosts: Vec<Reserver>,
    counts: Reserved,
}

/// A host.
#[derive(Clone, Default)]
struct Reserver {
    /// The version of the reservations that it looked at, and whether they let it write.
    looked: (u64, bool),
    /// Under which version its request in work was asked for.
    asked: u64,
    /// Its session was lost with a request for these blocks: it writes to them again.
    lost: Option<std::ops::Range<u64>>,
}

fn registrant(n: usize) -> Registrant {
    Registrant { host: format!("host {n}"), port: 0 }
}

/// The key of a host: some share one.
fn key(n: usize) -> u64 {
    n as u64 / 2 + 1
}

impl Reserving {
    /// In one run of four, if it is open.
    pub(super) fn draw(seed: u64, hosts: usize, reserves: Option<bool>) -> Option<Reserving> {
        let mut rng = Rng::with_seed(seed ^ 0x04e5_e4f3_0001);
        let drawn = rng.u8(0..4) == 0;
        reserves.unwrap_or(drawn).then(|| Reserving {
            rng,
            changes: 0,
            entered: Reservations::default(),
            by_operator: false,
            saw: None,
            hosts: vec![Reserver { looked: (0, true), ..Reserver::default() }; hosts],
            counts: Reserved::default(),
        })
    }

    pub(super) fn counts(&self) -> Reserved {
        Reserved { changes: self.entered.version, ..self.counts }
    }

    /// What a host asks of the reservations as they are.
    fn action(&mut self, n: usize, now: &Reservations) -> ReservationAction {
        let kinds = ReservationKind::ALL;
        let kind = kinds[self.rng.usize(0..kinds.len())];
        let Some(key) = now.registered.get(&registrant(n)).copied() else {
            return ReservationAction::Register { key: 0, new: key(n), ignores: self.rng.bool() };
        };
        let keys: Vec<u64> = now.registered.values().copied().filter(|k| *k != key).collect();
        let held = now.reservation.as_ref().map(|r| r.kind);
        match self.rng.u8(0..9) {
            8 => ReservationAction::Reset,
            0 => ReservationAction::Register { key, new: 0, ignores: false },
            1 => ReservationAction::Clear { key },
            2 => ReservationAction::Release { key, kind: held.unwrap_or(kind) },
            3 if held.is_some() => {
                let to = registrant(self.rng.usize(0..self.hosts.len()));
                ReservationAction::Move { key, to, new: key, leaves: self.rng.bool() }
            }
            3..5 if held.is_none() => ReservationAction::Reserve { key, kind },
            _ => {
                let victim = self.rng.choice(keys).unwrap_or(key);
                ReservationAction::Preempt { key, victim, kind }
            }
        }
    }
}

impl Run {
    /// Some changes in a phase.
    pub(super) fn draw_reservations(&mut self, span: Nanos) {
        let hosts = self.clients.len();
        let Some(mut reserving) = self.reserving.take() else { return };
        for _ in 0..reserving.rng.usize(4..=24) {
            let at = reserving.rng.u64(0..span);
            self.plan(at, Fault::Reserve(reserving.rng.usize(0..hosts)));
        }
        self.reserving = Some(reserving);
    }

    /// A host asks for a change.
    pub(super) fn reserve(&mut self, n: usize) {
        let Some(volume) = self.world.map().volumes.get(&VOLUME) else { return };
        let Some(reserving) = self.reserving.as_mut() else { return };
        let action = reserving.action(n, &volume.reservations);
        reserving.changes += 1;
        let stamp = reserving.changes;
        self.world.reserve(ReservationChange { volume: VOLUME, who: registrant(n), action, stamp });
    }

    /// The volume in the map of a host's node.
    fn volume_of(&self, n: usize) -> Option<&Volume> {
        let map = self.world.map_of(self.clients[n].node)?;
        map.volumes.get(&VOLUME).map(|volume| &**volume)
    }

    /// A host looks whether it may write.
    pub(super) fn look_at_permission(&mut self, n: usize) {
        let Some(now) = self.volume_of(n).map(|v| &v.reservations) else { return };
        let looked = (now.version, now.permit(Some(&registrant(n)), true));
        if let Some(reserving) = &mut self.reserving {
            reserving.hosts[n].looked = looked;
        }
    }

    /// Whether a host may write by the map of its node, if reservations matter in this run.
    pub(super) fn may_write_now(&mut self, n: usize) -> bool {
        self.look_at_permission(n);
        self.reserving.as_ref().is_none_or(|r| r.hosts[n].looked.1)
    }

    /// An operator asks for the next request.
    pub(super) fn by_operator(&mut self) {
        if let Some(reserving) = &mut self.reserving {
            reserving.by_operator = true;
        }
    }

    /// What a host asks for instead where it may not write; half of the time it goes by what it has seen before. It also
    /// compares what it has read before it writes, and repeats what a lost session was about.
    pub(super) fn heed_reservations(
        &mut self,
        n: usize,
        (did, op, blocks): (Did, HostOp, std::ops::Range<u64>),
    ) -> (Did, HostOp, std::ops::Range<u64>) {
        let compares = self.volume_of(n).is_some_and(|v| v.policy.can_modify());
        let Some(reserving) = self.reserving.as_mut() else { return (did, op, blocks) };
        if reserving.rng.bool() {
            self.look_at_permission(n);
        }
        let all = self.volume.size / BLOCK;
        let Some(reserving) = self.reserving.as_mut() else { return (did, op, blocks) };
        let host = &mut reserving.hosts[n];
        if !host.looked.1 && did.writes() {
            reserving.counts.forbidden += 1;
            let len = (blocks.end - blocks.start) * BLOCK;
            let range = Range { offset: blocks.start * BLOCK, len };
            return (Did::Read(Vec::new()), HostOp::Read(range), blocks);
        }
        if let Some(blocks) =
            host.lost.take().filter(|b| host.looked.1 && !b.is_empty() && b.end <= all)
        {
            let op = HostOp::Write(blocks.start * BLOCK, self.content_of(&blocks).into());
            return (Did::Wrote { zeros: false }, op, blocks);
        }
        let compares = compares && matches!(did, Did::Wrote { zeros: false });
        let saw = reserving.saw.clone().filter(|_| compares && reserving.rng.bool());
        let saw = saw.filter(|(first, saw)| first + saw.len() as u64 <= all);
        let Some((first, saw)) = saw else { return (did, op, blocks) };
        let at = reserving.rng.usize(0..saw.len());
        let len = reserving.rng.usize(1..=8).min(saw.len() - at);
        let blocks = first + at as u64..first + (at + len) as u64;
        // It must fit one transaction.
        let blocks = self.pieces(&blocks).into_iter().next().unwrap_or(blocks);
        let found = saw[at..at + (blocks.end - blocks.start) as usize].to_vec();
        let expected: Vec<u8> = found.iter().zip(blocks.clone()).flat_map(expected).collect();
        let by = Modification::IfEqual(expected.into());
        let op = HostOp::Modify {
            offset: blocks.start * BLOCK,
            data: content(self.next_op, blocks.clone()).into(),
            by,
        };
        (Did::Replaced(found), op, blocks)
    }

    /// What a host writes next to these blocks.
    pub(super) fn content_of(&self, blocks: &std::ops::Range<u64>) -> Vec<u8> {
        let pieces = self.pieces(blocks).into_iter().zip(self.next_op..);
        pieces.map(|(piece, id)| content(id, piece)).collect::<Vec<_>>().concat()
    }

    /// Where a request comes from that was permitted, if reservations matter in this run.
    pub(super) fn origin_permitted(&mut self, n: usize) -> Option<Origin> {
        let number = self.clients[n].asked;
        let reserving = self.reserving.as_mut()?;
        let by_operator = std::mem::take(&mut reserving.by_operator);
        let host = &mut reserving.hosts[n];
        host.asked = if by_operator { u64::MAX } else { host.looked.0 };
        let permitted = host.asked;
        let entered = &reserving.entered;
        if permitted < entered.version && !entered.permit(Some(&registrant(n)), true) {
            self.rule_out(n);
        }
        let id = RequestId { host: HostId(n as u64 + 1), number };
        Some(Origin { asker: Asker { id, oldest: number }, again: None, permitted })
    }

    /// Under which version of the reservations a host may ask for a write again; `None` if it may not.
    pub(super) fn permitted_again(&mut self, n: usize) -> Option<u64> {
        if self.reserving.is_none() {
            return Some(0);
        }
        let first = self.clients[n].op?;
        let forbidden = self.ops.get(&first).is_some_and(|op| op.by.is_some());
        self.look_at_permission(n);
        let host = &mut self.reserving.as_mut()?.hosts[n];
        host.asked = host.looked.0;
        (host.looked.1 && !forbidden).then_some(host.asked)
    }

    /// A host may not ask again for what it has in work, and goes on with something else.
    pub(super) fn gives_up(&mut self, n: usize) {
        self.world.tell(|| format!("host {n} may not ask again"));
        self.rule_out(n);
        if let Some(first) = self.clients[n].op.take() {
            self.left_open(first..first + self.clients[n].pieces);
        }
        self.world.call_after(MILLIS, CLIENT | n as u64);
    }

    /// The request in work of a host has no effect from now on.
    fn rule_out(&mut self, n: usize) {
        if let Some(first) = self.clients[n].op {
            self.is_over(first..first + self.clients[n].pieces);
        }
    }

    /// Nothing of a request happens from now on.
    fn is_over(&mut self, pieces: std::ops::Range<u32>) {
        let now = self.world.now();
        for piece in pieces {
            if let Some(op) = self.ops.get_mut(&piece) {
                op.by = Some(op.by.unwrap_or(now).min(now));
            }
        }
    }

    /// A write was refused: reservations have changed since it was permitted, or what it was to replace is not there.
    pub(super) fn is_refused(&mut self, n: usize, pieces: std::ops::Range<u32>, error: &HostError) {
        if let Err(why) = self.may_refuse(n, pieces.start, error) {
            self.error = Some(format!("request {} is refused, and {why}: {error}", pieces.start));
            return;
        }
        if let Some(reserving) = &mut self.reserving {
            reserving.counts.outdated += u64::from(*error == HostError::Outdated);
            let differs = matches!(error, HostError::Differs { .. });
            reserving.counts.replaced.1 += u64::from(differs);
        }
        match error {
            HostError::Outdated => {
                self.is_over(pieces.clone());
                self.left_open(pieces);
            }
            _ => self.did_nothing(pieces),
        }
    }

    /// Whether there is a reason to refuse a request. Where content is said to differ, that is taken down.
    fn may_refuse(&mut self, n: usize, first: u32, error: &HostError) -> Result<(), &'static str> {
        let Some(Op { did, blocks, start, .. }) = self.ops.get(&first).cloned() else {
            return Ok(());
        };
        let asked = self.reserving.as_ref().map_or(0, |r| r.hosts[n].asked);
        let newest = self.world.map().volumes.get(&VOLUME).map_or(0, |v| v.reservations.version);
        match (error, did) {
            (HostError::Outdated, did) if !did.writes() => Err("writes nothing"),
            (HostError::Outdated, _) if newest <= asked => Err("nothing has changed"),
            (HostError::Differs { at }, Did::Replaced(found)) => {
                let at = at / BLOCK;
                let missed = found.get(at as usize).ok_or("compared no such block")?;
                let block = blocks.start + at;
                self.also_saw(start, Did::Missed(*missed), block..block + 1);
                Ok(())
            }
            (HostError::Differs { .. } | HostError::NotOffered, did)
                if !matches!(did, Did::Replaced(_)) =>
            {
                Err("compares nothing")
            }
            _ => Ok(()),
        }
    }

    /// Looks whether a node has entered other reservations; called after everything that happens.
    pub(super) fn look_at_reservations(&mut self) {
        let Some(reserving) = &mut self.reserving else { return };
        let nodes = (0..self.world.size() as u16).map(NodeId);
        let maps = nodes.filter_map(|n| self.world.map_of(n));
        let mut known = maps.filter_map(|m| m.volumes.get(&VOLUME)).map(|v| &v.reservations);
        let Some(later) = known.find(|r| r.version > reserving.entered.version) else { return };
        let (was, now) = (reserving.entered.resets, later.clone());
        reserving.entered = now.clone();
        let asked_before = |n: &usize| reserving.hosts[*n].asked < now.version;
        let forbidden = |n: &usize| now.resets > was || !now.permit(Some(&registrant(*n)), true);
        let concerned = (0..self.clients.len()).filter(asked_before).filter(forbidden);
        for n in concerned.collect::<Vec<_>>() {
            self.rule_out(n);
        }
        self.world.tell(|| format!("a node has entered version {} of reservations", now.version));
    }

    /// Perhaps a host's session will be lost while its request is in work.
    pub(super) fn may_lose_session(&mut self, n: usize) {
        let Some(first) = self.clients[n].op else { return };
        let Some(reserving) = self.reserving.as_mut() else { return };
        if reserving.rng.u8(0..8) == 0 {
            let after = reserving.rng.u64(0..2 * MILLIS);
            self.world.call_after(after, LOST | u64::from(first));
        }
    }

    /// A host's session is lost: it goes to another node, and writes there again what it was about to write.
    pub(super) fn session_is_lost(&mut self, request: u32) {
        let Some(n) = self.clients.iter().position(|c| c.op == Some(request)) else { return };
        if self.clients[n].has_repeated() {
            return;
        }
        let (node, pieces) = (self.clients[n].node, self.clients[n].pieces);
        self.world.tell(|| format!("host {n} loses the session of request {request}"));
        let blocks =
            self.ops.get(&request).filter(|op| op.did.writes()).map(|op| op.blocks.clone());
        self.world.host_gone(node, self.clients[n].asked);
        (self.clients[n].op, self.clients[n].repeats) = (None, None);
        self.never_hears(request..request + pieces);
        self.clients[n].node = self.next_node(node);
        self.world.call_after(MILLIS / 10, CLIENT | n as u64);
        let Some(reserving) = self.reserving.as_mut() else { return };
        reserving.counts.lost_sessions += 1;
        reserving.hosts[n].lost = blocks.filter(|_| reserving.rng.bool());
    }

    /// A host is answered: what it has read, hosts may compare with later.
    pub(super) fn has_seen(&mut self, first: u32) {
        let saw = self.ops.get(&first).and_then(|op| match &op.did {
            Did::Read(values) if !values.is_empty() => Some((op.blocks.start, values.clone())),
            _ => None,
        });
        let did = self.ops.get(&first).map(|op| matches!(op.did, Did::Replaced(_)));
        if let Some(reserving) = &mut self.reserving {
            reserving.counts.replaced.0 += u64::from(did == Some(true));
            reserving.saw = saw.or(reserving.saw.take());
        }
    }
}

/// The content of a block that holds this number.
fn expected((number, block): (&u32, u64)) -> Vec<u8> {
    match number {
        0 => vec![0; BLOCK as usize],
        number => content(*number, block..block + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Options;

    #[test]
    fn what_is_refused_without_a_reason_is_found() {
        let options = Options { members: Some(false), reserves: Some(true), ..Options::DEFAULT };
        let seed = (0..).find(|seed| Run::draw(*seed, options, 0).reserving.is_some()).unwrap();
        let differs = |at| HostError::Differs { at };
        let (write, replace) = (Did::Wrote { zeros: false }, Did::Replaced(vec![7, 8]));
        for (did, error, why) in [
            (write.clone(), HostError::Outdated, Some("nothing has changed")),
            (Did::Read(Vec::new()), HostError::Outdated, Some("writes nothing")),
            (write.clone(), HostError::NotOffered, Some("compares nothing")),
            (write, differs(0), Some("compares nothing")),
            (replace.clone(), differs(2 * BLOCK), Some("no such block")),
            (replace.clone(), HostError::NotOffered, None),
            (replace, differs(BLOCK + 5), None),
        ] {
            let mut run = Run::draw(seed, options, 0);
            let nothing = HostOp::Flush;
            let request = run.announce(0, &did, 4..6, &nothing);
            run.is_refused(0, request..run.next_op, &error);
            let found = run.error.take();
            assert_eq!(found.is_some(), why.is_some(), "{did:?} {error} {found:?}");
            assert!(found.is_none_or(|found| found.contains(why.unwrap())));
            let missed = run.ops.values().find(|op| op.did == Did::Missed(8));
            let missed = missed.map(|op| op.blocks.clone());
            assert_eq!(missed, (error == differs(BLOCK + 5)).then_some(5..6));
        }
    }
}
