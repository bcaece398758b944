//! The endpoint: holds a host's request, and its bytes, to the end, and decides nothing (TPT-RAID). It asks the
//! controller to carry it out, again and again until it is answered, and in a new epoch the controller of that.
//!
//! A request is cut into parts as an originator cuts it, each of which is a request to the controller. In an epoch
//! the controller does each of them once. It may have been begun in an earlier one: so from then on it is asked for
//! with the epoch, and with a time before all attempts. The controller finds out first what became of those.

mod giving;
mod part;
mod placed;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::controlling::AHEAD;
use super::outbox::Outbox;
use super::{
    Ask, Body, Header, Holder, HostData, HostError, HostOp, Key, NodeClock, NodeConfig, Stage,
    Task, Wish, whole_stripes,
};
use crate::Buffer;
use crate::cluster::{ClusterMap, Volume};
use crate::layout::Geometry;
use crate::order::{Again, Asker, HostId, Origin, RequestId};
use crate::plan::{Calculators, Range, chunks};
use crate::policy::Controller;
use crate::units::{ColumnSet, Epoch, Nanos, NodeId, Timestamp, VolumeId};

use giving::Giving;
use part::Part;

/// Parts that an endpoint has in work at once; more wait.
pub(super) const MOST_PARTS: usize = 256;

/// A node's endpoint.
#[derive(Clone, Hash)]
pub(crate) struct Endpoint {
    node: NodeId,
    config: NodeConfig,
    map: Arc<ClusterMap>,
    requests: BTreeMap<u64, Open>,
    parts: BTreeMap<PartId, Part>,
    /// Those that have yet to be asked for.
    waiting: VecDeque<PartId>,
    /// Bytes of those that have been.
    bytes: u64,
    in_work: usize,
    /// The next number, by volume.
    next: BTreeMap<VolumeId, u64>,
    /// Under which name it asks for what has none.
    name: Option<HostId>,
    named: u64,
}

/// Volume and number.
type PartId = (VolumeId, u64);

/// A host's request.
#[derive(Clone, Hash)]
struct Open {
    volume: VolumeId,
    op: HostOp,
    origin: Origin,
    /// Parts that are not over.
    left: usize,
    /// A time before all attempts at those that are over, if there were any.
    begun: Option<Timestamp>,
    /// What has been read, by place.
    read: BTreeMap<u64, Vec<Buffer>>,
    error: Option<HostError>,
    round_trips: u64,
    is_gone: bool,
}

/// A request that is the node's own originator's from now on.
pub(super) struct Returned {
    pub id: u64,
    pub volume: VolumeId,
    pub op: HostOp,
    pub origin: Origin,
    /// Its host is gone: nothing of it begins any more.
    pub is_gone: bool,
}

impl Endpoint {
    pub fn new(node: NodeId, config: NodeConfig) -> Endpoint {
        Endpoint {
            node,
            config,
            map: Arc::new(ClusterMap::default()),
            requests: BTreeMap::new(),
            parts: BTreeMap::new(),
            waiting: VecDeque::new(),
            bytes: 0,
            in_work: 0,
            next: BTreeMap::new(),
            name: None,
            named: 0,
        }
    }

    /// Whether any request is not over.
    pub fn is_busy(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Hosts' requests that are not over.
    pub fn in_flight(&self) -> usize {
        self.requests.len()
    }

    /// Takes a host's request, if a controller carries it out. `None` if it is taken.
    pub fn host(
        &mut self,
        id: u64,
        volume: VolumeId,
        op: HostOp,
        origin: Option<Origin>,
        most: impl Fn(&Geometry) -> u64,
        outbox: &mut Outbox,
    ) -> Option<HostOp> {
        let controlled = |v: &&Arc<Volume>| v.policy.controller.is_some() && moves_data(&op);
        let Some(volume) = self.map.volumes.get(&volume).filter(controlled).cloned() else {
            return Some(op);
        };
        let range = match (&op, op.range()) {
            (HostOp::Trim(range), _) => match whole_stripes(&volume, *range) {
                Some(inner) if volume.holds(*range) => inner,
                _ => return Some(op),
            },
            (_, Some(range)) if range.len > 0 && volume.holds(range) => range,
            // The originator says what is wrong with it.
            _ => return Some(op),
        };
        let origin = origin.unwrap_or_else(|| self.own_origin(outbox.now));
        let g = &volume.geometry;
        let cut: Vec<Range> = chunks(g, range, most(g), |s| volume.extent_end(s)).collect();
        for range in &cut {
            let number = self.next.entry(volume.id).or_insert(0);
            *number += 1;
            let number = *number;
            let wish = wish_of(&op, *range);
            let key = self.key(volume.id, number, &wish);
            let again = origin.again;
            let part = Part::new(id, wish, key, again);
            self.parts.insert((volume.id, number), part);
            self.waiting.push_back((volume.id, number));
        }
        let open = Open {
            volume: volume.id,
            op,
            origin,
            left: cut.len(),
            begun: None,
            read: BTreeMap::new(),
            error: None,
            round_trips: 0,
            is_gone: false,
        };
        self.requests.insert(id, open);
        None
    }

    /// The name of a request that comes without one.
    fn own_origin(&mut self, now: Nanos) -> Origin {
        let host = *self.name.get_or_insert_with(|| {
            // The time tells this life of the node from others.
            let of = [u64::from(self.node.0), now];
            HostId(Key::derive(self.config.secret, &of).half())
        });
        self.named += 1;
        let its = self.requests.values().map(|r| r.origin.asker.id).filter(|id| id.host == host);
        let oldest = its.map(|id| id.number).min().unwrap_or(self.named);
        let id = RequestId { host, number: self.named };
        Origin { asker: Asker { id, oldest }, again: None, permitted: u64::MAX }
    }

    /// It is good for one part, its range, and one direction.
    fn key(&self, volume: VolumeId, number: u64, wish: &Wish) -> Key {
        let Range { offset, len } = wish.range();
        let of = [
            u64::from(self.node.0),
            u64::from(volume.0),
            number,
            offset,
            len,
            u64::from(wish.writes()),
        ];
        Key::derive(self.config.secret, &of)
    }

    /// Asks for what waits, as far as there is room. Says whether there was anything.
    pub fn run(&mut self, clock: &mut NodeClock, outbox: &mut Outbox) -> bool {
        if self.waiting.is_empty() {
            return false;
        }
        let mut worked = false;
        let mut left = VecDeque::new();
        while let Some(id) = self.waiting.pop_front() {
            let Some(part) = self.parts.get(&id) else { continue };
            let len = part.wish.range().len;
            let has_room = self.in_work < MOST_PARTS
                && (self.bytes == 0 || self.bytes + len <= self.config.max_in_flight);
            if !has_room {
                self.waiting.push_front(id);
                break;
            }
            if id.1 - self.oldest(id.0) >= AHEAD {
                left.push_back(id);
                continue;
            }
            worked = true;
            (self.in_work, self.bytes) = (self.in_work + 1, self.bytes + len);
            let part = self.parts.get_mut(&id).expect("just seen");
            part.since = clock.earliest(outbox.now);
            self.ask(id, Stage::New, clock, outbox);
        }
        left.append(&mut self.waiting);
        self.waiting = left;
        worked
    }

    /// The oldest of a volume's parts that is not over.
    fn oldest(&self, volume: VolumeId) -> u64 {
        let first = self.parts.range((volume, 0)..).next();
        first.filter(|(id, _)| id.0 == volume).map_or(u64::MAX, |(id, _)| id.1)
    }

    /// Asks the controller for a part, once more perhaps.
    fn ask(&mut self, id: PartId, stage: Stage, clock: &mut NodeClock, outbox: &mut Outbox) {
        let oldest = self.oldest(id.0);
        let policy = self.map.volumes.get(&id.0).map(|v| v.policy);
        let out_of_band = policy.filter(|p| p.controller == Some(Controller::OutOfBand));
        let part = self.parts.get_mut(&id).expect("a part in work");
        part.asked = Some(outbox.now);
        let len = part.wish.range().len;
        part.stays = out_of_band.is_some_and(|p| len > p.inline);
        let (Some(server), Some(open)) = (self.map.server(), self.requests.get(&part.request))
        else {
            return;
        };
        let stage = if open.is_gone { Stage::Abandoned } else { stage };
        let ask = Ask {
            number: id.1,
            oldest,
            key: part.key,
            volume: id.0,
            wish: part.sent_wish(stage),
            origin: Origin { again: part.again, ..open.origin },
            after: clock.reading(outbox.now),
            stage,
        };
        outbox.send_after(server, Body::Request(ask), 1);
    }

    /// The controller says what became of a part.
    pub fn on_done(
        &mut self,
        from: NodeId,
        id: PartId,
        result: Result<Vec<Buffer>, HostError>,
        counted: Vec<Timestamp>,
        outbox: &mut Outbox,
    ) {
        if self.map.server() != Some(from) {
            outbox.refuse(from, || {
                "is not the controller, and reports that a request is done".into()
            });
            return;
        }
        let Some(part) = self.parts.get_mut(&id).filter(|p| p.asked.is_some()) else { return };
        if result.is_err() || counted.is_empty() {
            return self.end(id, result, outbox);
        }
        part.counted = Some(counted);
        part.hops = part.hops.max(outbox.hops);
        self.look_at_pieces(id, outbox);
    }

    /// The controller does not know a part that has been repeated, and is asked anew.
    pub fn on_anew(
        &mut self,
        from: NodeId,
        id: PartId,
        clock: &mut NodeClock,
        outbox: &mut Outbox,
    ) {
        if self.map.server() != Some(from) {
            outbox.refuse(from, || {
                "is not the controller, and wants to receive requests again".into()
            });
            return;
        }
        // What it has said the end of it need not be asked for.
        if self.parts.get(&id).is_some_and(|p| p.asked.is_some() && p.counted.is_none()) {
            self.ask(id, Stage::New, clock, outbox);
        }
    }

    /// If the controller has said what counts and all of it is here, the part is over.
    fn look_at_pieces(&mut self, id: PartId, outbox: &mut Outbox) {
        let (Some(part), Some(volume)) = (self.parts.get(&id), self.map.volumes.get(&id.0)) else {
            return;
        };
        let Some(counted) = &part.counted else { return };
        if !part.placed.has_all(counted) && self.config.waits_for_pieces() {
            return;
        }
        let (read, added) = part.placed.assemble(&volume.geometry, counted);
        outbox.counters.xor_bytes += added;
        let result = part.judge(read);
        outbox.hops = part.hops;
        self.end(id, result, outbox);
    }

    /// The part of a request that somebody acts for, if it shows that it may.
    fn part_of(
        &mut self,
        from: NodeId,
        holder: Holder,
        (volume, range): (VolumeId, Range),
        outbox: &mut Outbox,
    ) -> Option<PartId> {
        let id = (volume, holder.number);
        let volume = self.map.volumes.get(&volume)?;
        let whole = self.parts.get(&id).filter(|p| p.asked.is_some()).map(|p| p.wish.range());
        let inside = whole.is_some_and(|w| w.offset <= range.offset && range.end() <= w.end());
        if !inside || range.len == 0 || !volume.holds(range) {
            if whole.is_some() {
                outbox.refuse(from, || "fetches bytes outside the request that it names".into());
            }
            return None;
        }
        let extent = volume.extent(range.stripes(&volume.geometry).start);
        let is_worker = extent.columns.iter().any(|c| c.0 == from);
        let has_key = self.parts[&id].key == holder.key && holder.node == self.node;
        if has_key && is_worker || !self.config.checks_senders() {
            return Some(id);
        }
        let name = &volume.name;
        outbox.refuse(from, || {
            format!("does not have the key of a request of volume '{name}' that it acts for")
        });
        None
    }

    /// A worker wants what its column needs of a write, and says which attempt it takes part in.
    pub fn on_fetch(&mut self, from: NodeId, header: Header, column: usize, outbox: &mut Outbox) {
        let Some(id) = self.knows_attempt(from, &header, outbox) else { return };
        let volume = self.map.volumes[&id.0].clone();
        let extent = volume.extent(header.task.first_stripe(&volume));
        if extent.columns.get(column).is_none_or(|c| c.0 != from) && self.config.checks_senders() {
            outbox.refuse(from, || "fetches for a column that it does not have".into());
            return;
        }
        let part = self.parts.get_mut(&id).expect("just seen");
        if let Some(giving) = part.giving(&header) {
            giving.give(from, column, outbox);
        }
    }

    /// Takes note of an attempt at a write. Nothing of it is given away if its host is gone, or if a later attempt is known.
    fn knows_attempt(
        &mut self,
        from: NodeId,
        header: &Header,
        outbox: &mut Outbox,
    ) -> Option<PartId> {
        let Task::Write(range) = header.task else { return None };
        let id = self.part_of(from, header.holder?, (header.volume, range), outbox)?;
        let part = self.parts.get_mut(&id).expect("just seen");
        if self.requests.get(&part.request).is_none_or(|r| r.is_gone) {
            return None;
        }
        if part.is_outdated(header) {
            return None;
        }
        if part.giving(header).is_none() {
            let Wish::Write(whole, Some(data)) = &part.wish else { return None };
            let volume = self.map.volumes.get(&id.0)?;
            let giving = Giving::new(*header, volume, (whole.offset, data), outbox)?;
            part.giving.push(giving);
        }
        part.seen = Some(part.seen.map_or(header.ts, |seen| seen.min(header.ts)));
        Some(id)
    }

    /// A worker places what it has read.
    pub fn on_place(
        &mut self,
        from: NodeId,
        holder: Holder,
        volume: VolumeId,
        attempt: (Timestamp, Range, ColumnSet, Calculators),
        (column, pieces): (usize, Vec<(u64, Buffer)>),
        outbox: &mut Outbox,
    ) {
        let Some(id) = self.part_of(from, holder, (volume, attempt.1), outbox) else { return };
        let volume = &self.map.volumes[&id.0];
        let extent = volume.extent(attempt.1.stripes(&volume.geometry).start);
        if extent.columns.get(column).is_none_or(|c| c.0 != from) && self.config.checks_senders() {
            outbox.refuse(from, || "places content of a column that it does not have".into());
            return;
        }
        let part = self.parts.get_mut(&id).expect("just seen");
        part.placed.take(volume, attempt, column, pieces);
        part.hops = part.hops.max(outbox.hops);
        self.look_at_pieces(id, outbox);
    }

    /// A part is over.
    fn end(&mut self, id: PartId, result: Result<Vec<Buffer>, HostError>, outbox: &mut Outbox) {
        let Some(part) = self.parts.remove(&id) else { return };
        let range = part.wish.range();
        if part.asked.is_some() {
            (self.in_work, self.bytes) = (self.in_work - 1, self.bytes - range.len);
        }
        let Some(open) = self.requests.get_mut(&part.request) else { return };
        open.left -= 1;
        open.begun = [open.begun, part.before_attempts()].into_iter().flatten().min();
        open.round_trips = open.round_trips.max(u64::from(outbox.hops.div_ceil(2)));
        match result {
            Ok(pieces) => drop(open.read.insert(range.offset, pieces)),
            // An unknown outcome of one part matters more than the error of another.
            Err(_) if open.error == Some(HostError::OutcomeUnknown) => {}
            Err(error) => open.error = Some(error),
        }
        if open.left == 0 {
            let open = self.requests.remove(&part.request).expect("just seen");
            outbox.counters.totals.round_trips += open.round_trips;
            outbox.reply(part.request, open.result());
        }
    }

    /// The host of a request is gone. Says whether the request is one of this endpoint's.
    pub fn abandon(&mut self, request: u64, clock: &mut NodeClock, outbox: &mut Outbox) -> bool {
        let Some(open) = self.requests.get_mut(&request) else { return false };
        open.is_gone = true;
        let its: Vec<PartId> =
            self.parts.iter().filter(|(_, p)| p.request == request).map(|(id, _)| *id).collect();
        for id in its {
            match self.parts[&id].asked {
                Some(_) => self.ask(id, Stage::Abandoned, clock, outbox),
                None => self.end(id, Err(HostError::Gone), outbox),
            }
        }
        true
    }

    /// Asks again for what has not been answered: a message may have been lost.
    pub fn tick(&mut self, clock: &mut NodeClock, outbox: &mut Outbox) {
        let (now, patience) = (outbox.now, self.config.patience);
        let late = |p: &Part| p.asked.is_some_and(|at| now.saturating_sub(at) >= patience);
        let late = self.parts.iter().filter(|(_, p)| late(p));
        for id in late.map(|(id, _)| *id).collect::<Vec<_>>() {
            let part = self.parts.get_mut(&id).expect("just seen");
            match (part.counted.take(), part.wish.writes()) {
                (None, _) => self.ask(id, Stage::Repeated, clock, outbox),
                // What was placed is lost. Of a write the controller does not look again.
                (Some(_), true) => self.end(id, Err(HostError::OutcomeUnknown), outbox),
                (Some(_), false) => self.ask(id, Stage::New, clock, outbox),
            }
        }
    }

    /// A new epoch, perhaps with another controller: what has been asked for is asked for again. Says what is
    /// the node's own originator's now, since its volume has no controller any more.
    pub fn enter(
        &mut self,
        map: &Arc<ClusterMap>,
        before: Epoch,
        clock: &mut NodeClock,
        outbox: &mut Outbox,
    ) -> Vec<Returned> {
        self.map = map.clone();
        self.parts.values_mut().for_each(|part| part.enter(before));
        let returned = self.give_back(before);
        for id in self.parts.keys().copied().collect::<Vec<_>>() {
            if self.parts[&id].asked.is_some() {
                self.ask(id, Stage::New, clock, outbox);
            }
        }
        returned
    }

    /// What is not for a controller any more. Of such a request any part may have happened, also one that is over: all of it
    /// is begun again, once it is known what became of it.
    fn give_back(&mut self, before: Epoch) -> Vec<Returned> {
        let map = self.map.clone();
        let controlled =
            |v: VolumeId| map.volumes.get(&v).is_some_and(|v| v.policy.controller.is_some());
        let gone = self.requests.extract_if(.., |_, r| !controlled(r.volume));
        let mut returned = Vec::new();
        for (id, open) in gone {
            let mut again = open.begun.map(|since| Again { since, epoch: before });
            again = earliest(again, open.origin.again);
            for (_, part) in self.parts.extract_if(.., |_, p| p.request == id) {
                if part.asked.is_some() {
                    (self.in_work, self.bytes) =
                        (self.in_work - 1, self.bytes - part.wish.range().len);
                }
                again = earliest(again, part.again);
            }
            let Open { volume, op, origin, is_gone, .. } = open;
            let origin = Origin { again, ..origin };
            returned.push(Returned { id, volume, op, origin, is_gone });
        }
        returned
    }
}

/// What holds of all attempts of which one or the other holds.
fn earliest(one: Option<Again>, other: Option<Again>) -> Option<Again> {
    match (one, other) {
        (Some(a), Some(b)) => {
            Some(Again { since: a.since.min(b.since), epoch: a.epoch.max(b.epoch) })
        }
        (one, other) => one.or(other),
    }
}

impl Open {
    fn result(self) -> Result<HostData, HostError> {
        match (self.error, self.op) {
            (Some(error), _) => Err(error),
            (None, HostOp::Read(_)) => {
                Ok(HostData::Bytes(self.read.into_values().flatten().collect()))
            }
            (None, _) => Ok(HostData::Done),
        }
    }
}

/// Whether a request reads or writes data; what is asked of all disks goes past the controller.
fn moves_data(op: &HostOp) -> bool {
    matches!(op, HostOp::Read(_) | HostOp::Write(..) | HostOp::WriteZeroes(_) | HostOp::Trim(_))
}

/// What a part of a request asks for.
fn wish_of(op: &HostOp, part: Range) -> Wish {
    match op {
        HostOp::Read(_) => Wish::Read(part),
        HostOp::Write(offset, data) => {
            let at = (part.offset - offset) as usize;
            Wish::Write(part, Some(data.slice(at, at + part.len as usize)))
        }
        _ => Wish::Write(part, Some(Buffer::Zero(part.len as usize))),
    }
}
