//! vhost-user-blk: a disk of a virtual machine, whose memory this process shares.
//!
//! A front end, such as QEMU, connects and sets the disk up by messages. From then on requests come in queues in the
//! machine's memory, and a bell (an eventfd) tells of them. So this is no byte machine behind a socket, and
//! a [`Session`] of its own; requests go the same way as those of all hosts. Each byte is copied once, between the
//! machine's memory and a buffer of this process.
//!
//! What a machine writes into its queues is not trusted. Whatever makes no sense breaks the queue, and nothing else.
//!
//! | module | contents |
//! |---|---|
//! | this file | the session: messages and requests in, answers out |
//! | `channel` | messages of the front end |
//! | `device`, `config` | the disk as those set it up, and what it offers |
//! | `ring`, `chain`, `request` | a queue, the descriptors of a request, and what they ask for |
//! | `inflight` | requests in work, for the next process |
//! | `memory` | the machine's memory |
//! | `work` | what nodes have in work |

mod chain;
mod channel;
mod config;
mod device;
mod inflight;
mod memory;
mod request;
mod ring;
#[cfg(test)]
mod tests;
mod work;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use weft_core::cluster::{Access, Registrant, ReservationOutcome, Volume};
use weft_core::node::{HostData, HostError};
use weft_core::order::HostId;
use weft_core::units::VolumeId;

use chain::{Broken, Chain};
use channel::{Channel, Message, Over, Quiet};
use config::{Space, features};
use device::Device;
use memory::Guest;
use request::{Parts, Status, Wish};
use work::{Begun, Work};

use super::budget::Use;
use super::link::End;
use super::numbered::Failure;
use super::receive_timeout::ReceiveTimeout;
use super::room::Room;
use super::{Arrival, Asked, Attach, FrontEnd, Parting, Refused, Said, Session, Turn};
use crate::doors::who::Who;
use crate::socket::{Ready, Stream};
use crate::volumes::Exports;

const KEY: &str = "vhost-user";

/// Requests of a queue that are taken before everything else has its turn.
const AT_ONCE: usize = 256;

/// vhost-user-blk among the protocols of hosts.
pub(super) const FRONT_END: FrontEnd = FrontEnd {
    key: KEY,
    prefix: "vhost-user:",
    spoken_by: "virtual machines by vhost-user-blk",
    socket: None,
    scheme: "vhost-user",
    has_chap: false,
    names_volume: true,
    announced: None,
    begin,
};

fn begin(arrival: Arrival) -> Box<dyn Session> {
    Box::new(VhostUser::new(arrival))
}

/// How far a front end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It has just connected.
    New,
    /// It waits to be let in.
    Waits,
    In,
    /// It has been turned away, for which the protocol has no words.
    Refused,
}

/// A request that has been taken from its queue.
struct Taken {
    begun: Begun,
    wish: Wish,
}

/// The session of a front end.
pub(super) struct VhostUser {
    stream: Stream,
    device: Arc<Mutex<Device>>,
    /// If it could be made.
    channel: Result<Channel, String>,
    peer: String,
    who: Arc<Who>,
    node: usize,
    /// The volume's name, as the address has it.
    wanted: String,
    state: State,
    volume: Option<VolumeId>,
    /// The volume's name, and its size as the front end was told.
    name: String,
    size: u64,
    access: Option<Access>,
    login: Option<VolumeId>,
    work: Work,
    /// A request that waits for memory.
    waiting: Option<Taken>,
    /// A message that waits until a queue has nothing in work.
    quiet: Option<Message>,
    /// There may be a message or a request.
    ready: bool,
    ended: bool,
    /// The queue that is looked at first.
    first: usize,
    last_failure: Option<String>,
    complaint: Option<String>,
    receive_timeout: ReceiveTimeout,
}

impl VhostUser {
    fn new(arrival: Arrival) -> VhostUser {
        let Arrival { stream, peer, node, memory, door, volume, watch, .. } = arrival;
        let device = Arc::new(Mutex::new(Device::new(watch)));
        let channel = match &stream {
            Stream::Unix(socket) => {
                use std::os::fd::AsFd;
                Channel::new(socket.as_fd(), device.clone()).map_err(|e| e.to_string())
            }
            Stream::Tcp(_) => Err("memory is shared by a Unix socket alone".to_string()),
        };
        VhostUser {
            stream,
            device,
            channel,
            peer,
            who: Arc::new(door.stranger()),
            node,
            wanted: volume.unwrap_or_default(),
            state: State::New,
            volume: None,
            name: String::new(),
            size: 0,
            access: None,
            login: None,
            work: Work::new(memory),
            waiting: None,
            quiet: None,
            ready: true,
            ended: false,
            first: 0,
            last_failure: None,
            complaint: None,
            receive_timeout: ReceiveTimeout::with_nobody(),
        }
    }

    fn failed(&self, why: impl std::fmt::Display) -> End {
        End::Failed(format!("connection of {}: {why}", self.peer))
    }

    /// Whether what a message needs to be quiet is so.
    fn is_quiet(&self, needs: Quiet) -> bool {
        if needs == Quiet::Nothing {
            return true;
        }
        let device = lock(&self.device);
        let waiting = self.waiting.iter().map(|taken| (taken.begun.ring, taken.begun.life));
        let mut busy = self.work.rings().chain(waiting);
        let mut rings = device.rings.iter().enumerate();
        !busy.any(|(ring, life)| needs.covers(ring) && device.rings[ring].life() == life)
            && !rings.any(|(ring, of)| needs.covers(ring) && of.owes())
    }

    /// Handles messages, until there is none or one has to wait.
    fn hear(&mut self) -> Result<(), End> {
        let Ok(channel) = &self.channel else { return Ok(()) };
        self.quiet = channel.next().map_err(|over| self.over(over))?;
        while let Some(message) = self.quiet {
            // The poll says when there is room for a reply.
            if !self.is_quiet(message.needs()) {
                return Ok(());
            }
            let Ok(channel) = &mut self.channel else { return Ok(()) };
            if !channel.has_room() {
                return Ok(());
            }
            let next = channel.handle(message).and_then(|()| channel.next());
            self.quiet = next.map_err(|over| self.over(over))?;
        }
        Ok(())
    }

    fn over(&self, over: Over) -> End {
        match over {
            Over::Closed => End::Closed,
            Over::Failed(why) => self.failed(why),
        }
    }

    /// Takes requests from the queues, until there is none or enough is in work.
    fn take(&mut self, said: &mut Vec<Said>) {
        let device = self.device.clone();
        let mut device = lock(&device);
        let guest = device.memory.guest().clone();
        if let Some(taken) = self.waiting.take()
            && let Some(taken) = self.begin(&mut device, taken, said)
        {
            (self.waiting, self.ready) = (Some(taken), true);
            return;
        }
        let rings = device.rings.len();
        self.first = (self.first + 1) % rings;
        let first = self.first;
        for ring in (0..rings).map(|n| (first + n) % rings) {
            if let Err(broken) = self.take_of(&mut device, ring, &guest, said) {
                self.break_off(&mut device, ring, broken);
            }
        }
    }

    /// Takes requests from one queue. One that stops begins nothing but what another process had in work.
    fn take_of(
        &mut self,
        device: &mut Device,
        ring: usize,
        guest: &Arc<Guest>,
        said: &mut Vec<Said>,
    ) -> Result<(), Broken> {
        let stops = self.quiet.is_some_and(|message| message.needs().covers(ring));
        for _ in 0..AT_ONCE {
            if stops && !device.rings[ring].owes() {
                return Ok(());
            }
            if self.waiting.is_some() || self.work.is_full() {
                break;
            }
            // Without anything in work the message is next.
            self.ready |= stops;
            let Some((head, chain)) = device.rings[ring].next(guest)? else { return Ok(()) };
            self.taken(device, (ring, head), guest, chain, said)?;
        }
        // The rest is looked for when there is room for it.
        self.ready = true;
        Ok(())
    }

    /// A request has come.
    fn taken(
        &mut self,
        device: &mut Device,
        (ring, head): (usize, u16),
        guest: &Arc<Guest>,
        chain: Chain,
        said: &mut Vec<Said>,
    ) -> Result<(), Broken> {
        let (parts, header) = Parts::of(guest, chain)?;
        let wish = header.ok_or(Status::Failed).and_then(|header| parts.wish(guest, &header));
        let done = match wish {
            Ok(Wish::Name) => match parts.name(guest, &self.name) {
                Ok(written) => (Status::Done, written),
                Err(_) => (Status::Failed, 0),
            },
            Ok(wish) => {
                let (life, guest) = (device.rings[ring].life(), guest.clone());
                let begun = Begun { ring, life, head, guest, parts, bytes: wish.bytes() };
                self.waiting = self.begin(device, Taken { begun, wish }, said);
                return Ok(());
            }
            Err(status) => (status, 0),
        };
        parts.end(guest, done.0)?;
        device.rings[ring].answer(guest, head, done.1 + 1)
    }

    /// Begins a request. Gives it back if there is no memory for it.
    fn begin(&mut self, device: &mut Device, taken: Taken, said: &mut Vec<Said>) -> Option<Taken> {
        let Taken { begun, wish } = taken;
        if !self.work.has_room_for(begun.bytes) {
            return Some(Taken { begun, wish });
        }
        let op = match begun.parts.op(&begun.guest, wish) {
            Ok(op) => op,
            Err(_) => {
                self.give(device, &begun, Status::Failed, 0);
                return None;
            }
        };
        let bytes = begun.bytes;
        let number = self.work.begin(begun);
        let durable = wish.changes() && !device.flushes();
        said.push(Said::Ask(Asked {
            number,
            op,
            elsewhere: None,
            bytes,
            durable,
            came: None,
            order: None,
        }));
        None
    }

    /// Answers a request, unless its queue has been stopped since.
    fn give(&mut self, device: &mut Device, begun: &Begun, status: Status, filled: u32) {
        let Begun { ring, life, head, guest, parts, .. } = begun;
        if device.rings[*ring].life() != *life {
            return;
        }
        let rings = device.memory.guest().clone();
        let given = parts.end(guest, status);
        let given = given.and_then(|()| device.rings[*ring].answer(&rings, *head, filled + 1));
        if let Err(broken) = given {
            self.break_off(device, *ring, broken);
        }
    }

    /// A queue is not looked at any more.
    fn break_off(&mut self, device: &mut Device, ring: usize, broken: Broken) {
        device.rings[ring].break_off(broken);
        self.ready |= self.quiet.is_some();
        self.complaint = Some(format!(
            "queue {ring} of {} for volume '{}' is stopped: {broken}; the driver of the virtual machine must reset it",
            self.peer, self.name
        ));
    }

    /// Whether nothing stands in the way of more.
    fn has_room(&self) -> bool {
        let waits = self.waiting.as_ref().map_or(0, |taken| taken.begun.bytes);
        !self.work.is_full() && self.work.has_room_for(waits)
    }
}

/// The disk; only this thread uses it.
fn lock(device: &Mutex<Device>) -> MutexGuard<'_, Device> {
    device.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session for VhostUser {
    fn ready(&mut self, ready: Ready) {
        // A bell says only that it was rung.
        self.ready = true;
        self.ended |= ready.ended;
    }

    fn wants_to_receive(&self) -> bool {
        match self.state {
            State::New => true,
            State::Waits | State::Refused => false,
            State::In => self.ready && self.has_room(),
        }
    }

    fn waits_for_memory(&self) -> Option<bool> {
        self.waiting.as_ref().map(|_| !self.work.is_full())
    }

    fn memory(&self) -> &Use {
        self.work.memory()
    }

    fn receive(
        &mut self,
        exports: Exports<'_>,
        said: &mut Vec<Said>,
        _: Turn<'_>,
    ) -> Result<(), End> {
        match self.state {
            State::New => {
                if let Err(why) = &self.channel {
                    return Err(self.failed(why));
                }
                self.state = State::Waits;
                let exports = exports.to(&self.who);
                let found = exports.wanted(&self.wanted).map(|v| v.name.clone());
                let volume = found.unwrap_or_else(|| self.wanted.clone());
                said.push(Said::Attach(Attach { volume, host: None, resumes: false }));
            }
            State::In => {
                self.ready = false;
                self.hear()?;
                self.take(said);
            }
            State::Waits | State::Refused => {}
        }
        Ok(())
    }

    fn is_given_up(&self, away: bool) -> bool {
        self.ended || (away && self.stream.is_given_up())
    }

    fn let_in(&mut self, volume: &Volume, _: bool, access: Access) {
        lock(&self.device).offer(features(access), Space::of(volume));
        (self.state, self.ready) = (State::In, true);
        (self.name, self.size) = (volume.name.clone(), volume.visible);
        (self.volume, self.login) = (Some(volume.id), Some(volume.id));
        self.access = Some(access);
    }

    fn turn_away(&mut self, _: Refused, _: String) -> bool {
        self.state = State::Refused;
        true
    }

    fn proved(&mut self, who: Who, _: Option<Vec<u8>>) {
        self.who = Arc::new(who);
    }

    fn disproved(&mut self, _: bool) {}

    fn answer(&mut self, number: u64, result: Result<HostData, Failure>) -> Option<String> {
        let begun = self.work.end(number)?;
        let device = self.device.clone();
        let mut device = lock(&device);
        let is_there = device.rings[begun.ring].life() == begun.life;
        let (filled, failure) = match result {
            Ok(data) if is_there => match begun.parts.fill(&begun.guest, &data) {
                Ok(filled) => (Some(filled), None),
                Err(e) => (None, Some(e.to_string())),
            },
            Ok(_) => (None, None),
            Err(failure) => (None, Some(failure.to_string())),
        };
        let status = if filled.is_some() { Status::Done } else { Status::Failed };
        self.give(&mut device, &begun, status, filled.unwrap_or(0));
        self.ready |= self.quiet.is_some();
        if failure == self.last_failure {
            return None;
        }
        self.last_failure = failure;
        let text = self.last_failure.as_ref()?;
        Some(format!("a request of {} failed: {text}", self.peer))
    }

    fn registrants(&mut self, _: u64, _: Result<&Volume, HostError>) {}

    fn reserved(&mut self, _: u64, _: Result<ReservationOutcome, HostError>) {}

    fn look_at(&mut self, volume: &Volume) {
        if volume.visible == self.size {
            return;
        }
        self.size = volume.visible;
        let mut device = lock(&self.device);
        device.space = Space::of(volume);
        if let Ok(channel) = &self.channel
            && device.can_tell()
        {
            channel.tell_change();
        }
    }

    fn send(&mut self) -> Result<(), End> {
        if self.state == State::Refused {
            return Err(End::Closed);
        }
        let mut device = lock(&self.device);
        let guest = device.memory.guest().clone();
        device.rings.iter_mut().for_each(|ring| ring.tell(&guest));
        Ok(())
    }

    fn part(&mut self, _: Parting) -> bool {
        false
    }

    fn is_heard_out(&self) -> bool {
        false
    }

    fn has_moved(&self) -> bool {
        false
    }

    fn is_idle(&self) -> bool {
        self.work.is_empty() && self.waiting.is_none()
    }

    fn volume(&self) -> Option<VolumeId> {
        self.volume
    }

    fn host(&self) -> Option<HostId> {
        None
    }

    fn name(&self) -> Option<&str> {
        None
    }

    fn registrant(&self) -> Option<Arc<Registrant>> {
        None
    }

    fn is_numbered(&self) -> bool {
        false
    }

    fn node(&self) -> usize {
        self.node
    }

    fn protocol(&self) -> &'static str {
        KEY
    }

    fn peer(&self) -> &str {
        &self.peer
    }

    fn who(&self) -> &Arc<Who> {
        &self.who
    }

    fn is_secured(&self) -> bool {
        false
    }

    fn user(&self) -> Option<u32> {
        self.stream.user()
    }

    fn access(&self) -> Option<Access> {
        self.access
    }

    fn take_login(&mut self) -> Option<VolumeId> {
        self.login.take()
    }

    fn take_complaint(&mut self) -> Option<String> {
        self.complaint.take()
    }

    fn is_new(&self) -> bool {
        false
    }

    fn check_receive_timeout(&mut self, _: Instant) -> &ReceiveTimeout {
        &self.receive_timeout
    }

    fn leave_room(&mut self, _: usize, _: &mut Room) {}
}
