//! Answering the control socket: what can be answered at once is, the rest waits for
//! something to come about and is looked at again after every round of the reactor.

use std::io::{self, Read, Write};

use mio::net::UnixStream;
use serde_json::{Value, json};
use weft_core::cluster::Volume;
use weft_core::layout::LayoutSpec;
use weft_core::node::{HostData, HostError, HostOp};
use weft_core::plan::Range;
use weft_core::units::{NodeId, VolumeId};

use crate::control::{DiskAction, NodeAction, Request, error, ok};
use crate::engine::Engine;
use crate::error::{Error, Result, fail};
use crate::requests::{Owner, Requests};
use crate::slot::Phase;
use crate::spec::Spec;
use crate::status::{self, Clients};
use crate::volumes::NewVolume;

/// The most that is kept of what a connection sends ahead.
const MOST_INPUT: usize = 64 << 10;

/// What a control connection waits for.
pub(crate) enum Wait {
    /// The node takes part.
    NodeUp(usize),
    /// The node is down, and the map says so.
    NodeDown(usize),
    /// The map holds the volume, as it is here.
    VolumeThere(Volume),
    /// The map holds the volume in whole stripes, so that its room can be cleared.
    RoomThere(Volume),
    /// The volume's room is being cleared.
    Clearing(Volume),
    /// Nothing is in work, so that the volume can go: writes to it that are not settled
    /// could never be, without its map.
    Removable(VolumeId),
    /// The map does not hold the volume any more.
    VolumeGone(VolumeId),
    /// The scrub is done.
    Scrub(String),
    /// Everything is in place.
    Quiet,
    /// Everything has stopped.
    Shutdown,
}

/// What becomes of a request.
pub(crate) enum Outcome {
    Answer(Value),
    Wait(Wait),
}

/// What a request is about.
pub(crate) struct Desk<'a> {
    pub(crate) engine: &'a mut Engine,
    pub(crate) requests: &'a mut Requests,
    pub(crate) clients: Clients<'a>,
    pub(crate) listens: &'a [String],
    pub(crate) uptime: f64,
}

impl Desk<'_> {
    /// Takes up a request of connection `conn`.
    pub(crate) fn handle(&mut self, conn: usize, line: &[u8]) -> Outcome {
        let request: Request = match serde_json::from_slice(line) {
            Ok(request) => request,
            Err(e) => return Outcome::Answer(error(format!("the request is not understood: {e}"))),
        };
        self.try_handle(conn, request).unwrap_or_else(|e| Outcome::Answer(error(e)))
    }

    fn try_handle(&mut self, conn: usize, request: Request) -> Result<Outcome> {
        Ok(match request {
            Request::Status => Outcome::Answer(ok(status::status(
                self.engine,
                self.clients,
                self.listens,
                self.uptime,
            ))),
            Request::VolumeList => {
                let list = status::volumes(self.engine, self.clients);
                Outcome::Answer(ok(json!({ "volumes": list })))
            }
            Request::VolumeShow { name } => {
                let (volume, clients) = (self.volume(&name)?, self.clients);
                let shown = status::volume(self.engine, &volume, clients(volume.id));
                Outcome::Answer(ok(json!({ "volume": shown })))
            }
            Request::Node { action, node } => Outcome::Wait(self.node(action, node)?),
            Request::Disk { action, node } => Outcome::Wait(self.disk(action, node)?),
            Request::VolumeCreate { name, size, layout, stripe_unit, journal } => {
                let parse = |l: String| l.parse::<LayoutSpec>().map_err(|e| Error(e.to_string()));
                let layout = layout.map(parse).transpose()?;
                let spec = Spec { layout, stripe_unit, journal, ..Spec::default() };
                Outcome::Wait(self.create(name, size, &spec)?)
            }
            Request::VolumeDelete { name } => Outcome::Wait(self.delete(&name)?),
            Request::Scrub { volume } => {
                let volume = self.volume(&volume)?;
                self.submit(conn, volume.id, HostOp::Scrub);
                Outcome::Wait(Wait::Scrub(volume.name))
            }
            Request::Quiesce => Outcome::Wait(Wait::Quiet),
            Request::Shutdown => Outcome::Wait(Wait::Shutdown),
        })
    }

    fn submit(&mut self, conn: usize, volume: VolumeId, op: HostOp) {
        // That a room is clear is only said of what is safe.
        let then_flush = matches!(op, HostOp::WriteZeroes(_));
        self.requests.submit(self.engine, Owner::Control { conn }, 0, volume, op, then_flush);
    }

    fn volume(&self, name: &str) -> Result<Volume> {
        let exports = self.engine.exports();
        let names: Vec<&str> = exports.all().map(|v| v.name.as_str()).collect();
        match exports.named(name) {
            Some(volume) => Ok(Volume::clone(volume)),
            None if names.is_empty() => fail("there are no volumes; create one first"),
            None => fail(format!("there is no volume '{name}'; there are: {}", names.join(", "))),
        }
    }

    fn node(&mut self, action: NodeAction, node: usize) -> Result<Wait> {
        match action {
            NodeAction::Stop => self.engine.drain_node(node).map(|()| Wait::NodeDown(node)),
            NodeAction::Kill => {
                self.engine.kill_node(node, "it was killed").map(|()| Wait::NodeDown(node))
            }
            NodeAction::Start => self.engine.start_node(node).map(|()| Wait::NodeUp(node)),
        }
    }

    fn disk(&mut self, action: DiskAction, node: usize) -> Result<Wait> {
        match action {
            DiskAction::Fail => self.engine.fail_disk(node).map(|()| Wait::NodeDown(node)),
            DiskAction::Replace => self.engine.replace_disk(node).map(|()| Wait::NodeUp(node)),
        }
    }

    fn create(&mut self, name: String, size: u64, spec: &Spec) -> Result<Wait> {
        if !self.engine.is_settled() || self.engine.originator(0).is_none() {
            return fail("the nodes are just starting or changing; try again in a moment");
        }
        let (layout, stripe_unit) = (spec.layout(), spec.stripe_unit());
        let new = NewVolume { name, size, layout, stripe_unit, journal: spec.journal() };
        let reused = self.engine.state.has_had_more_volumes(self.engine.map());
        let volume = self.engine.place_volume(&new)?;
        if reused {
            // What a deleted volume left has parity of another layout: it must be
            // overwritten in whole stripes, so the volume is whole stripes at first.
            let size = volume.stripes() * volume.geometry.stripe_bytes();
            self.engine.state.begin_clearing(volume.id);
            self.engine.add_volume(Volume { size, ..volume.clone() });
            return Ok(Wait::RoomThere(volume));
        }
        self.engine.add_volume(volume.clone());
        Ok(Wait::VolumeThere(volume))
    }

    fn delete(&mut self, name: &str) -> Result<Wait> {
        if name.is_empty() {
            return fail("say which volume to delete, by its name");
        }
        let volume = self.volume(name)?;
        match (self.clients)(volume.id) {
            0 => Ok(Wait::Removable(volume.id)),
            n => fail(format!("{n} connections use volume '{name}'; disconnect the hosts first")),
        }
    }

    /// Looks whether what is waited for has come about.
    pub(crate) fn check(&mut self, conn: usize, wait: Wait) -> Outcome {
        let (settled, epoch) = (self.engine.is_settled(), self.engine.map().epoch);
        let nobody = settled && self.engine.originator(0).is_none();
        let there = |id: VolumeId, size: u64| {
            settled && self.engine.map().volumes.get(&id).is_some_and(|v| v.size == size)
        };
        match &wait {
            Wait::NodeUp(n) | Wait::NodeDown(n) => match self.node_arrived(&wait, *n) {
                Some(Ok(())) => Outcome::Answer(ok(json!({ "node": n, "epoch": epoch }))),
                Some(Err(e)) => Outcome::Answer(error(e)),
                None => Outcome::Wait(wait),
            },
            Wait::VolumeThere(_) | Wait::RoomThere(_) | Wait::VolumeGone(_) if nobody => {
                Outcome::Answer(error("no node runs any more; start nodes and look again"))
            }
            Wait::VolumeThere(v) if there(v.id, v.size) => {
                let shown = status::volume(self.engine, v, 0);
                Outcome::Answer(ok(json!({ "volume": shown })))
            }
            Wait::RoomThere(v) => {
                let whole = v.stripes() * v.geometry.stripe_bytes();
                if !there(v.id, whole) {
                    return Outcome::Wait(wait);
                }
                let all = Range { offset: 0, len: whole };
                self.submit(conn, v.id, HostOp::WriteZeroes(all));
                Outcome::Wait(Wait::Clearing(v.clone()))
            }
            Wait::Removable(id) if (self.clients)(*id) > 0 => {
                Outcome::Answer(error("a host has connected to the volume meanwhile"))
            }
            Wait::Removable(id) if self.engine.is_quiet() => {
                self.engine.remove_volume(*id);
                Outcome::Wait(Wait::VolumeGone(*id))
            }
            Wait::VolumeGone(id) if settled && !self.engine.map().volumes.contains_key(id) => {
                Outcome::Answer(ok(json!({})))
            }
            Wait::Quiet if self.engine.is_quiet() => Outcome::Answer(ok(json!({}))),
            _ => Outcome::Wait(wait),
        }
    }

    /// Whether a node is where it was to be, or can never come there.
    fn node_arrived(&self, wait: &Wait, n: usize) -> Option<Result<()>> {
        let slot = &self.engine.slots[n];
        let in_map = self.engine.map().is_up(NodeId(n as u16));
        match wait {
            Wait::NodeUp(_) if slot.phase == Phase::Down && !slot.wanted => {
                Some(fail(format!("node {n} did not start: {}", slot.why)))
            }
            Wait::NodeUp(_) => {
                (self.engine.is_settled() && slot.runs() && in_map).then_some(Ok(()))
            }
            _ => {
                let down = slot.phase == Phase::Down;
                let nobody = self.engine.originator(0).is_none();
                (down && self.engine.is_settled() && (!in_map || nobody)).then_some(Ok(()))
            }
        }
    }

    /// Takes the nodes' answer to what was waited for.
    pub(crate) fn answered(
        &mut self,
        wait: Wait,
        result: std::result::Result<HostData, HostError>,
    ) -> Outcome {
        match (wait, result) {
            (Wait::Scrub(volume), Ok(HostData::Scrubbed(p))) => Outcome::Answer(ok(json!({
                "volume": volume,
                "stripes": p.stripes,
                "verified": p.verified,
                "rebuilt": p.rebuilt,
                "mismatched": p.mismatched,
                "skipped": p.skipped,
            }))),
            (Wait::Clearing(volume), Ok(_)) => {
                self.engine.state.cleared(volume.id, volume.size);
                self.engine.add_volume(volume.clone());
                Outcome::Wait(Wait::VolumeThere(volume))
            }
            (Wait::Clearing(volume), Err(e)) => {
                self.engine.remove_volume(volume.id);
                Outcome::Answer(error(format!("the room could not be cleared: {e}")))
            }
            (_, Err(e)) => Outcome::Answer(error(e)),
            (wait, Ok(_)) => Outcome::Wait(wait),
        }
    }
}

/// A connection to the control socket.
pub(crate) struct ControlConnection {
    pub(crate) stream: UnixStream,
    pub(crate) wait: Option<Wait>,
    input: Vec<u8>,
    output: Vec<u8>,
    closed: bool,
}

impl ControlConnection {
    /// A connection that has just come in.
    pub(crate) fn new(stream: UnixStream) -> ControlConnection {
        ControlConnection {
            stream,
            wait: None,
            input: Vec::new(),
            output: Vec::new(),
            closed: false,
        }
    }

    /// Reads what has come.
    pub(crate) fn receive(&mut self) {
        let mut buffer = [0; 4096];
        while !self.closed && self.input.len() <= MOST_INPUT {
            match self.stream.read(&mut buffer) {
                Ok(0) => self.closed = true,
                Ok(n) => self.input.extend_from_slice(&buffer[..n]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.closed = true,
            }
        }
        // So much at once is not a request: whoever sends it does not speak this language.
        self.closed |= self.input.len() > MOST_INPUT;
    }

    /// The next request, unless one is being waited for.
    pub(crate) fn next_line(&mut self) -> Option<Vec<u8>> {
        if self.wait.is_some() {
            return None;
        }
        let end = self.input.iter().position(|b| *b == b'\n')?;
        Some(self.input.drain(..=end).collect())
    }

    /// Takes note of what became of a request.
    pub(crate) fn settle(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Wait(wait) => self.wait = Some(wait),
            Outcome::Answer(value) => {
                self.output.extend_from_slice(value.to_string().as_bytes());
                self.output.push(b'\n');
            }
        }
    }

    /// Writes what there is to say. Says whether the connection goes on.
    pub(crate) fn send(&mut self) -> bool {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(n) => drop(self.output.drain(..n)),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return true,
                Err(_) => return false,
            }
        }
        !self.closed || self.wait.is_some()
    }
}
