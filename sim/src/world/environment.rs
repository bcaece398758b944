//! What becomes of nodes' outputs: what passes the gate of a process, the network with its faults, slow disks,
//! the authority.

use weft_core::cluster::AuthorityInput;
use weft_core::node::{Envelope, Environment, HostData, HostError, MemberReport, Spent, Timer};
use weft_core::store::{DiskOp, DiskRequest, FormatError, SUPERBLOCKS};
use weft_core::units::{Nanos, NodeId, SECTOR};
use weft_member::Input as Heard;

use super::lives::EARLY;
use super::{Event, MICROS, World, describe};

impl Environment for World {
    type End = ();

    fn send(&mut self, id: NodeId, envelope: Box<Envelope>) {
        match self.together.is_some() && envelope.to != id {
            true => self.through_gate(id, envelope),
            false => self.send_letter(*envelope),
        }
    }

    fn start_disk(&mut self, id: NodeId, request: DiskRequest) {
        let (lo, hi) = self.conditions.disk;
        let mut delay = self.rng.u64(lo..=hi);
        if let Some((slow, times)) = self.conditions.slow
            && slow == id
        {
            delay *= times;
        }
        let in_superblock = |offset: u64| offset < SUPERBLOCKS * SECTOR;
        self.superblock_writes +=
            u64::from(matches!(request.op, DiskOp::Write { offset, .. } if in_superblock(offset)));
        let place = &mut self.places[id.0 as usize];
        place.disk.start(request.id, request.op);
        if place.disk.is_early(request.id) {
            self.queue.push(MICROS, Event::Disk(id, place.life, request.id | EARLY));
        }
        self.queue.push(delay, Event::Disk(id, place.life, request.id));
    }

    fn set_timer(&mut self, id: NodeId, timer: Timer, after: Nanos) {
        let life = self.places[usize::from(id.0)].life;
        self.queue.push(after, Event::Timer(id, life, timer));
    }

    /// Only said to operators.
    fn spent(&mut self, _: NodeId, _: u64, _: Spent) {}

    fn reply(
        &mut self,
        id: NodeId,
        request: u64,
        result: Result<HostData, HostError>,
    ) -> Result<(), ()> {
        match self.together {
            Some(_) => self.answer_through_gate(id, (request, result)),
            None => self.replies.push((request, result)),
        }
        Ok(())
    }

    fn report(&mut self, id: NodeId, report: MemberReport) {
        self.rests.1 += u64::from(matches!(report, MemberReport::Wake { .. }));
        if let MemberReport::CaughtUp { .. } = report {
            self.places[usize::from(id.0)].caught_up = true;
        }
        if self.together.is_some() {
            return self.hear(id, Heard::Report(id, report));
        }
        let delay = self.rng.u64(MICROS..100 * MICROS);
        let input = AuthorityInput::Report(id, report);
        self.queue.push(delay, Event::Authority(input, self.authority_life));
    }

    /// A node's disk is open.
    fn ready(&mut self, id: NodeId) {
        self.assert_it_remembers(id);
        if self.together.is_some() {
            let arrival = self.arrival(id);
            return self.hear(id, Heard::NodeReady(arrival));
        }
        if let Some(awaited) = &mut self.awaited {
            awaited.insert(id, true);
            self.start_authority();
            return;
        }
        let input = AuthorityInput::NodeUp(self.arrival(id));
        self.queue.push(MICROS, Event::Authority(input, self.authority_life));
    }

    /// A node does not take its disk: damage and a crash have cost both superblocks. It dies, and the operator
    /// gives it an empty one.
    fn disk_refused(&mut self, id: NodeId, why: FormatError) {
        assert!(self.disk(id).harmed.ever(), "{id}: its disk was refused: {why}");
        self.tell(|| format!("{id}: its disk was refused: {why}"));
        self.dead_alone.extend(self.hosted_with(id));
        self.kill(id, false);
        self.replace_disk(id);
        self.start_node(id);
    }

    /// A node's disk answers with errors: the node dies, and only it.
    fn disk_failed(&mut self, id: NodeId, why: String) {
        self.tell(|| format!("{id}: its disk failed: {why}"));
        self.dead_alone.push(id);
        match self.together {
            Some(_) => {
                self.hear(id, Heard::DiskFailed(id));
                self.fell_alone(id);
            }
            None => {
                let failed = AuthorityInput::DiskFailed(id);
                self.queue.push(MICROS, Event::Authority(failed, self.authority_life));
                self.kill(id, false);
            }
        }
    }

    fn log(&mut self, id: NodeId, line: String) {
        self.tell(|| format!("{id} says: {line}"));
    }

    /// Nobody counts it.
    fn delayed(&mut self, _: NodeId, _: NodeId) {}
}

impl World {
    /// A disk that nothing has happened to has not forgotten anything, whatever crashes came.
    fn assert_it_remembers(&mut self, id: NodeId) {
        let node = self.places[usize::from(id.0)].node.as_ref().expect("it is ready");
        let forgot = node.forgot();
        assert!(
            !forgot || self.disk(id).harmed.ever(),
            "{id}: an undamaged disk has forgotten something"
        );
    }

    pub(super) fn send_letter(&mut self, mut envelope: Envelope) {
        let c = self.conditions;
        let lateness = c.lateness(&envelope);
        if lateness > 0 && !envelope.notices.is_empty() {
            // They go by themselves.
            let notices = std::mem::take(&mut envelope.notices);
            self.send_letter(Envelope { notices, body: None, ..envelope.clone() });
        }
        let life = self.places[envelope.to.0 as usize].life;
        self.forge(&envelope, life, self.conditions.latency.1);
        if envelope.from == envelope.to {
            self.queue.push(MICROS, Event::Deliver(envelope, life));
            return;
        }
        self.sent += 1;
        let Some(envelope) = self.by_circuit(envelope, life) else { return };
        if self.is_cut(envelope.from, envelope.to) || self.chance(c.drop_ppm) {
            self.tell(|| format!("lost: {}", describe(&envelope)));
            return;
        }
        if self.chance(c.repeat_ppm) {
            let delay = self.rng.u64(c.latency.0..=c.latency.1 * 20);
            self.queue.push(delay, Event::Deliver(envelope.clone(), life));
        }
        let mut delay = self.rng.u64(c.latency.0..=c.latency.1);
        if self.chance(c.straggle_ppm) {
            delay *= 100;
        }
        delay += lateness;
        let delay = self.over_lossy_link(envelope.from, envelope.to, delay);
        self.queue.push(delay, Event::Deliver(envelope, life));
    }
}
