//! Answering questions to the control socket: what can be answered at once is, the rest waits
//! for something to come about and is looked at again after every round of the reactor.
//!
//! In a cluster every process answers every question. It hands on what another must do: a
//! node's own process what concerns the node or its disk, the leader's what changes the map.
//!
//! Nodes are in [`nodes`], their disks in [`disks`], volumes in [`volumes`], [`shrinking`], [`deleting`] and
//! [`snapshots`], with [`schedules`]; here is whose question it is, and what all have in common.

mod answers;
mod content;
mod deleting;
mod disks;
mod hosts;
mod imports;
mod nodes;
mod reserving;
mod schedules;
mod shrinking;
mod snapshots;
mod taking;
mod thin;
mod volumes;
mod waits;
mod witnessed;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{Value, json};
use weft_core::node::HostOp;
use weft_core::order::HostId;
use weft_core::plan::Range;
use weft_core::units::{Epoch, NodeId, VolumeId};

use crate::cluster::{Admission, Together};
use crate::control::losses::Losses;
use crate::control::peer_status::PeerStatus;
use crate::control::status;
use crate::control::usage::Usage;
use crate::control::{refresh, scrub, what_if};
use crate::control_protocol::{ControlRequest, DiskAction, ask_again, check_names, error, ok};
use crate::doors::book::Book;
use crate::doors::keeper::Keeper;
use crate::doors::vault::Vault;
use crate::engine::instance::Phase;
use crate::engine::{Engine, Ticket};
use crate::error::{Error, Result, fail};
use crate::holder::Holder;
use crate::hosts::Hosts;
use crate::hosts::requests::Job;
use crate::policy;
use crate::sessions::numbered::Departure;

pub(crate) use deleting::{forgettable, is_half_sized, seconds_left, time_of_day};
pub(crate) use schedules::Due;
pub(crate) use waits::Wait;
pub(crate) use witnessed::Witnessed;

/// How long a question for the leader waits for one.
pub(crate) const ELECTION: Duration = Duration::from_secs(10);

/// How long a command that hosts stand in the way of waits for them to be gone: one may have ended
/// its connection just now, and word of that is on its way.
const PARTING: Duration = Duration::from_secs(2);

/// A disk that is to be used.
pub(crate) struct NewDisk {
    pub(crate) path: PathBuf,
    /// How large to make it, if it is a file.
    pub(crate) size: Option<u64>,
}

/// What happens to a volume that is hidden from hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeletionKind {
    /// Its space is freed at once.
    Permanent,
    /// It can be restored for a day, until its space is needed.
    Restorable,
    /// It returns with the content of this snapshot of it.
    RollBack(VolumeId),
    /// It returns with the content of this hidden volume, which was imported on top of this snapshot of it.
    Import(VolumeId, VolumeId),
}

/// What becomes of a question.
pub(crate) enum Outcome {
    Answer(Value),
    Wait(Wait),
    /// Another process is to answer it.
    HandOn(NodeId),
    /// The connection goes on in the native protocol.
    Native,
}

/// So many connections use something.
fn used_by(connections: u64) -> String {
    match connections {
        1 => "1 connection uses".to_string(),
        n => format!("{n} connections use"),
    }
}

/// What to do about them.
const DISCONNECT: &str = "disconnect the hosts first (`weft host list` and `weft host disconnect` at the process that they use)";

/// What a question is about.
pub(crate) struct Commands<'a> {
    pub(crate) engine: &'a mut Engine,
    pub(crate) hosts: &'a mut Hosts,
    /// Volumes whose size others are changing.
    pub(crate) sizing: &'a [VolumeId],
    pub(crate) peer_status: &'a PeerStatus,
    pub(crate) admission: Option<&'a Admission>,
    pub(crate) listens: &'a [String],
    pub(crate) uptime: f64,
    pub(crate) keeper: &'a Keeper,
    pub(crate) vault: &'a Vault,
    pub(crate) book: &'a Book,
    pub(crate) witnessed: &'a Witnessed,
}

impl Commands<'_> {
    /// Takes up a question of connection `conn`; one that was handed on is not handed on again.
    pub(crate) fn handle(&mut self, conn: usize, line: &[u8], handed_on: bool) -> Outcome {
        let request: ControlRequest = match serde_json::from_slice(line) {
            Ok(request) => request,
            Err(e) => return Outcome::Answer(error(format!("the request is invalid: {e}"))),
        };
        if let Err(e) = check_names(&request) {
            return Outcome::Answer(error(e));
        }
        // Only the processes of the cluster have keys for secrets.
        if matches!(request, ControlRequest::SecretKey { .. }) && !handed_on {
            return Outcome::Answer(error("only another process of the cluster can ask for this"));
        }
        self.take_up(conn, request, handed_on, Instant::now())
    }

    /// Takes up a question that was asked at `since`. One for the leader waits a while for there to
    /// be one: elections take a second. It waits also until the leader knows which nodes run, since what
    /// has been begun cannot be asked of another process again, should that lead instead.
    fn take_up(
        &mut self,
        conn: usize,
        request: ControlRequest,
        handed_on: bool,
        since: Instant,
    ) -> Outcome {
        let route = self.route(&request).and_then(|elsewhere| match elsewhere {
            None if asks_the_leader(&request) => self.leader().map(|_| None),
            elsewhere => Ok(elsewhere),
        });
        let waits = since.elapsed() < ELECTION || self.begins_to_lead();
        if route.is_err() && self.leader().is_err() && waits {
            return Outcome::Wait(Wait::Leader(Box::new(request), handed_on, since));
        }
        let here = matches!(route, Ok(None));
        if here && since.elapsed() < ELECTION && !self.is_ready_for(&request) && self.gets_ready() {
            return Outcome::Wait(Wait::Leader(Box::new(request), handed_on, since));
        }
        if here && since.elapsed() < PARTING && self.hosts_in_the_way(&request) > 0 {
            return Outcome::Wait(Wait::Parting(Box::new(request), handed_on, since));
        }
        route
            .and_then(|elsewhere| match elsewhere {
                Some(_) if handed_on => Ok(Outcome::Answer(ask_again())),
                Some(node) => Ok(Outcome::HandOn(node)),
                None => self.try_handle(conn, request),
            })
            .unwrap_or_else(|e| Outcome::Answer(error(e)))
    }

    /// The process that must answer, if that is not this one.
    fn route(&self, request: &ControlRequest) -> Result<Option<NodeId>> {
        let Some(together) = self.engine.rule.together() else { return Ok(None) };
        let us = together.us();
        let process_of = |n: usize| {
            let process = together.process_of(NodeId(n as u16));
            match process == us || together.map().nodes.get(n).is_none() {
                true => Ok(None),
                false if together.is_connected(process) => Ok(Some(process)),
                false => fail(self.out_of_touch(n)),
            }
        };
        let runs = |n: usize| {
            let process = together.process_of(NodeId(n as u16));
            let up = together.map().is_up(NodeId(n as u16));
            (up && together.is_connected(process)) || process == us
        };
        match request {
            ControlRequest::Node { node, .. }
            | ControlRequest::DiskReplace { node, .. } => process_of(*node),
            ControlRequest::Disk { action: DiskAction::Clear, node, .. } => process_of(*node),
            // One that runs must go down first, at home.
            ControlRequest::Disk { action: DiskAction::Fail, node, .. } if runs(*node) => {
                process_of(*node)
            }
            ControlRequest::Disk { .. }
            | ControlRequest::VolumeCreate(_)
            | ControlRequest::VolumeDelete { .. }
            | ControlRequest::VolumeUndelete { .. }
            | ControlRequest::VolumeRename { .. }
            | ControlRequest::VolumeResize { .. }
            | ControlRequest::VolumeSet { .. }
            | ControlRequest::VolumeSnapshot { .. }
            | ControlRequest::VolumeClone { .. }
            | ControlRequest::VolumeFlatten { .. }
            | ControlRequest::VolumeRollback { .. }
            | ControlRequest::VolumeImport { .. }
            | ControlRequest::VolumeImportedUpTo { .. }
            | ControlRequest::VolumeImported { .. }
            // Also to plan: what others know of the map may be older.
            | ControlRequest::Rebalance { .. }
            | ControlRequest::ClusterSet { .. }
            | ControlRequest::NodeAdd { .. }
            | ControlRequest::DiskAdmit { .. }
            | ControlRequest::Reserve { .. }
            | ControlRequest::VolumeUnreserve { .. }
            | ControlRequest::NodeRemove { .. } => self.leader(),
            ControlRequest::Hosts { action } if !action.is_local() => self.leader(),
            ControlRequest::Status
            | ControlRequest::WhatIf { .. }
            | ControlRequest::ClusterShow
            | ControlRequest::NodeList
            | ControlRequest::Token { .. }
            | ControlRequest::DiskAdd { .. }
            | ControlRequest::VolumeList { .. }
            | ControlRequest::VolumeShow { .. }
            | ControlRequest::Scrub { .. }
            | ControlRequest::Refresh { .. }
            | ControlRequest::Lost { .. }
            | ControlRequest::VolumeUsage { .. }
            | ControlRequest::VolumeDiff { .. }
            | ControlRequest::VolumeCopy { .. }
            | ControlRequest::HostDisconnect { .. }
            | ControlRequest::HostLeave { .. }
            | ControlRequest::Hosts { .. }
            | ControlRequest::WriterComes { .. }
            | ControlRequest::SecretKey { .. }
            | ControlRequest::Native
            | ControlRequest::Quiesce
            | ControlRequest::Shutdown => Ok(None),
        }
    }

    /// The process that leads, if that is not this one.
    fn leader(&self) -> Result<Option<NodeId>> {
        let Some(together) = self.engine.rule.together() else { return Ok(None) };
        let us = together.us();
        match together.leader() {
            Some(_) if together.is_in_charge() => Ok(None),
            Some(node) if node != us && together.is_connected(node) => Ok(Some(node)),
            Some(_) if self.begins_to_lead() => fail(
                "this process has just been elected leader and is finding running nodes; try again",
            ),
            _ => fail(
                "the cluster has no leader now; check that a majority of the processes run and reach one another, and try again",
            ),
        }
    }

    /// Whether this process has been elected to lead and does not know yet which nodes run.
    fn begins_to_lead(&self) -> bool {
        let begins = |t: &Together| t.leader() == Some(t.us()) && !t.leads();
        self.engine.rule.together().is_some_and(begins)
    }

    /// Whether the nodes agree on a map and one runs, if what a volume is to be depends on that.
    fn is_ready_for(&self, request: &ControlRequest) -> bool {
        let depends = matches!(
            request,
            ControlRequest::VolumeCreate(_)
                | ControlRequest::VolumeResize { .. }
                | ControlRequest::VolumeSet { .. }
                | ControlRequest::VolumeDelete { .. }
                | ControlRequest::VolumeUndelete { .. }
                | ControlRequest::VolumeRename { .. }
                | ControlRequest::VolumeSnapshot { .. }
                | ControlRequest::VolumeClone { .. }
                | ControlRequest::VolumeFlatten { .. }
                | ControlRequest::VolumeRollback { .. }
                | ControlRequest::VolumeImport { .. }
                | ControlRequest::VolumeImportedUpTo { .. }
                | ControlRequest::VolumeImported { .. }
        );
        !depends || self.is_ready()
    }

    /// Whether that may come about by itself: nodes are starting, or changing their map.
    fn gets_ready(&self) -> bool {
        !self.engine.is_settled() || self.engine.instances.iter().any(|s| s.phase == Phase::Opening)
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.engine.is_settled() && self.engine.originator(0).is_some()
    }

    /// Refuses what is asked before the nodes agree on a map, or while no node runs here.
    fn require_ready(&self) -> Result<()> {
        match self.engine.rule.together().map(|t| t.us().0) {
            _ if self.is_ready() => Ok(()),
            _ if !self.engine.is_settled() => fail(
                "the nodes have not agreed on a cluster map in time; check `weft status`, and try again",
            ),
            None => fail("no node is running; start one with `weft node start` and try again"),
            Some(us) => fail(format!(
                "no node of the leading process, that of node {us}, is running; start one with `weft node start {us}` and try again, \
                     or stop that process so that another leads"
            )),
        }
    }

    fn try_handle(&mut self, conn: usize, request: ControlRequest) -> Result<Outcome> {
        let asked = request.clone();
        Ok(match request {
            ControlRequest::Status => Outcome::Answer(ok(json!(status::status(self)))),
            ControlRequest::VolumeList { snapshots } => {
                Outcome::Answer(ok(self.looked_at("volumes", &status::listed(self, snapshots))))
            }
            ControlRequest::VolumeShow { name } => {
                let volume = match self.hidden(&name) {
                    Some(volume) => volume,
                    None => self.volume(&name)?,
                };
                Outcome::Answer(ok(self.looked_at("volume", &status::volume(self, &volume))))
            }
            ControlRequest::NodeList => {
                Outcome::Answer(ok(self.looked_at("nodes", &status::nodes(self))))
            }
            ControlRequest::Node { action, node } => Outcome::Wait(self.node(action, node)?),
            ControlRequest::NodeAdd { name, home, key } => match self.add_node(name, &home, &key) {
                Ok(outcome) => outcome,
                // Nothing has been begun.
                Err(e) => {
                    let mut answer = error(e);
                    answer["refused"] = json!(true);
                    Outcome::Answer(answer)
                }
            },
            ControlRequest::NodeRemove { node } => Outcome::Wait(self.remove_node(node)?),
            ControlRequest::Token { seconds } => Outcome::Answer(self.token(seconds)?),
            ControlRequest::Disk { action: DiskAction::Clear, node, .. } => {
                let errors = self.engine.clear_errors(node)?;
                Outcome::Answer(ok(json!({ "node": node, "errors": errors })))
            }
            ControlRequest::Disk { action, node, accept_loss } => {
                Outcome::Wait(self.disk(action, node, accept_loss)?)
            }
            ControlRequest::DiskAdd { path, size, force } => {
                Outcome::Wait(match self.new_disk(path, size)? {
                    None => self.add_disk(force)?,
                    Some(new) => self.add_disk_at(&new, force)?,
                })
            }
            ControlRequest::DiskAdmit { process } => Outcome::Wait(self.admit_disk(process)?),
            ControlRequest::DiskReplace { node, path, size, force, accept_loss } => {
                let new = self.new_disk(path, size)?;
                Outcome::Wait(self.replace_disk(node, new.as_ref(), force, &accept_loss)?)
            }
            ControlRequest::VolumeCreate(new) => Outcome::Wait(self.create(&asked, new)?),
            ControlRequest::VolumeSet { name, set, force, range } => {
                Outcome::Wait(self.set_policy(&name, policy::change(&set, force, range)?)?)
            }
            ControlRequest::VolumeResize { name, size, force } => {
                Outcome::Wait(self.resize(&asked, (&name, size), force)?)
            }
            ControlRequest::Rebalance { action } => self.rebalance(action),
            ControlRequest::WhatIf { lost, added, layouts } => {
                Outcome::Wait(what_if::predict(self, &lost, &added, &layouts)?)
            }
            ControlRequest::ClusterSet { key, value } => Outcome::Wait(self.set(&key, &value)?),
            ControlRequest::ClusterShow => Outcome::Answer(self.settings()),
            ControlRequest::VolumeDelete { name, now } => Outcome::Wait(self.delete(&name, now)?),
            ControlRequest::VolumeUndelete { name } => Outcome::Wait(self.undelete(&name)?),
            ControlRequest::VolumeRename { name, to } => Outcome::Wait(self.rename(&name, to)?),
            ControlRequest::VolumeSnapshot { volumes, snapshot } => {
                Outcome::Wait(self.snapshot(&volumes, snapshot)?)
            }
            ControlRequest::VolumeClone { snapshot, to } => {
                Outcome::Wait(self.clone_snapshot(&snapshot, to)?)
            }
            ControlRequest::VolumeFlatten { name } => Outcome::Wait(self.flatten(&name)?),
            ControlRequest::VolumeRollback { name, snapshot } => {
                Outcome::Wait(self.roll_back(&name, &snapshot)?)
            }
            ControlRequest::VolumeImport { name, base, import } => {
                Outcome::Wait(self.import(&name, &base, import)?)
            }
            ControlRequest::VolumeImportedUpTo { name, source, done } => {
                Outcome::Wait(self.imported_up_to(&name, &source, done)?)
            }
            ControlRequest::VolumeImported { name, source } => {
                Outcome::Wait(self.imported(&name, &source)?)
            }
            ControlRequest::Native => Outcome::Native,
            ControlRequest::Reserve { change } => self.reserve(&change)?,
            ControlRequest::VolumeUnreserve { name } => self.unreserve(&name)?,
            ControlRequest::Scrub { volume, from, rate, trust, suspect, alone } => {
                let wish = scrub::Wish { from, rate, trust, suspect };
                Outcome::Wait(self.scrub(conn, &volume, wish, alone)?)
            }
            ControlRequest::Refresh { volume, offset, length } => {
                let volume = self.volume(&volume)?;
                self.submit(conn, volume.id, refresh::operation(&volume, offset, length)?);
                Outcome::Wait(Wait::Refresh(volume.name))
            }
            ControlRequest::Lost { volume, accept } => {
                let volume = self.volume(&volume)?;
                Outcome::Wait(self.ask_losses(conn, Box::new(Losses::of(&volume, accept))))
            }
            ControlRequest::VolumeUsage { name } => {
                let volume = self.volume(&name)?;
                self.look_at_content(conn, Box::new(Usage::of(volume, 0)))
            }
            ControlRequest::VolumeDiff { volume, since, until, offset } => {
                let diff = self.diff(&volume, since.as_deref(), until.as_deref(), offset)?;
                self.diff_on(conn, Box::new(diff))
            }
            ControlRequest::VolumeCopy { source, destination, offset, length } => {
                let range = Range { offset, len: length };
                let copying = self.copy((&source, &destination), range)?;
                self.copy_on(conn, Box::new(copying))
            }
            ControlRequest::Hosts { action } => self.known_hosts(&action)?,
            ControlRequest::HostDisconnect { address, volume } => {
                Outcome::Answer(self.disconnect(address.as_deref(), volume.as_deref())?)
            }
            ControlRequest::HostLeave { host, holder } => self.send_away(HostId(host), holder),
            ControlRequest::WriterComes { volume, process } => {
                let writers = self.writers(VolumeId(volume), NodeId(process));
                Outcome::Answer(ok(json!({ "writers": writers })))
            }
            ControlRequest::SecretKey { key } => {
                Outcome::Answer(ok(json!({ "secret_key": self.vault.key(key) })))
            }
            ControlRequest::Quiesce => Outcome::Wait(Wait::Quiet(Instant::now())),
            ControlRequest::Shutdown => Outcome::Wait(Wait::Shutdown),
        })
    }

    fn send_away(&mut self, host: HostId, holder: Option<Holder>) -> Outcome {
        if holder.is_some_and(|holder| self.hosts.is_anothers(host, &holder)) {
            return Outcome::Answer(ok(json!({ "anothers": true })));
        }
        self.hosts.send_away(self.engine, host);
        self.check_host_left(host, self.hosts.stay(host))
    }

    /// Whether a host that was sent away during this stay has left, so that its outcomes are known.
    fn check_host_left(&mut self, host: HostId, stay: u64) -> Outcome {
        match self.hosts.take_leave(host, stay) {
            Departure::InProgress => Outcome::Wait(Wait::HostLeft(host, stay)),
            Departure::Left(done) => Outcome::Answer(ok(json!({ "done": done }))),
            Departure::Returned => {
                let mut answer = error("the host has come back to this process");
                answer["returned"] = json!(true);
                Outcome::Answer(answer)
            }
        }
    }

    fn submit(&mut self, conn: usize, volume: VolumeId, op: HostOp) {
        // That a room is clear is only said of what is safe.
        let then_flush = matches!(op, HostOp::WriteZeroes(_));
        let job = Job::new(volume, op, then_flush);
        self.hosts.command(self.engine, conn, job);
    }

    /// An answer about how something is.
    fn looked_at(&self, what: &str, value: &impl Serialize) -> Value {
        status::with_cut_off(self.engine, json!({ what: value }))
    }

    /// The processes that have not yet said, in this epoch or a later one, who uses which volume. What
    /// hosts saw no more in that epoch they have not begun to use since.
    fn unheard_since(&self, epoch: Epoch) -> Vec<NodeId> {
        let Some(together) = self.engine.rule.together() else { return Vec::new() };
        let heard = |p: &NodeId| self.peer_status.is_of_epoch(*p, epoch);
        together.others().into_iter().filter(|p| !heard(p)).collect()
    }

    /// Whether nothing has been in work anywhere at some time after `since`, and everything is in
    /// place.
    fn is_quiet_since(&self, since: Instant) -> bool {
        let quiet_elsewhere = |node: NodeId| {
            let Some(together) = self.engine.rule.together() else { return true };
            let process = together.process_of(node);
            let epoch = together.map().epoch;
            process == together.us() || self.peer_status.is_quiet_since(process, since, epoch)
        };
        self.engine.is_quiet() && self.engine.map().up().all(quiet_elsewhere)
    }

    /// Looks whether what is waited for has come about.
    pub(crate) fn check(&mut self, conn: usize, wait: Wait) -> Outcome {
        self.try_check(conn, wait).unwrap_or_else(|e| Outcome::Answer(error(e)))
    }

    fn try_check(&mut self, conn: usize, wait: Wait) -> Result<Outcome> {
        match wait {
            Wait::NodeUp(_)
            | Wait::NodeDown(_)
            | Wait::DownHere(..)
            | Wait::GivenUp(..)
            | Wait::Draining(..)
            | Wait::Suspected(..)
            | Wait::Rebalancing(..)
            | Wait::Set(..)
            | Wait::NodeAdded(..)
            | Wait::DiskAdded(..)
            | Wait::NodeRemoved(..) => self.check_node(wait),
            Wait::DiskAdmitted(held, ticket, since) => {
                self.check_admitted(held, ticket, since).map(Outcome::Wait)
            }
            Wait::Taking(taking, taker) => self.check_taking(conn, taking, taker),
            Wait::Computing(aside) => Ok(aside
                .within(Duration::ZERO)
                .map_or_else(|| Outcome::Wait(Wait::Computing(aside)), Outcome::Answer)),
            Wait::VolumeThere(..)
            | Wait::PolicySet(..)
            | Wait::RoomThere(..)
            | Wait::ToClear(..)
            | Wait::LookOn(..)
            | Wait::Cut(..)
            | Wait::Cuttable(..)
            | Wait::Hidden(..)
            | Wait::Removable(..)
            | Wait::Kept(..)
            | Wait::VolumeGone(..) => self.check_volume(conn, wait),
            Wait::Deleted(..) | Wait::Back(..) | Wait::Renamed(..) => {
                self.check_deletion_wait(wait)
            }
            Wait::Snapped(..) | Wait::Cloned(..) | Wait::Flattens(..) | Wait::RolledBack(..) => {
                self.check_snapshots(wait)
            }
            Wait::Importing(..) | Wait::Imported(..) => self.check_imports(wait),
            Wait::CompareOn(diff, hidden) => Ok(self.compare_on(conn, diff, hidden)),
            Wait::Hosts(..) => self.check_hosts(wait),
            Wait::Sealing(name, secrets) => self.check_sealing(name, secrets),
            Wait::Reserved(..) => self.check_reserved(wait),
            Wait::Forgotten(request, tickets) => self.check_forgotten(conn, request, tickets),
            Wait::HostLeft(host, stay) => Ok(self.check_host_left(host, stay)),
            Wait::Quiet(since) if self.is_quiet_since(since) => Ok(Outcome::Answer(ok(json!({})))),
            Wait::Leader(request, handed_on, since) | Wait::Parting(request, handed_on, since) => {
                Ok(self.take_up(conn, *request, handed_on, since))
            }
            Wait::Accepting(losses) => Ok(Outcome::Wait(self.ask_losses(conn, losses))),
            Wait::CopyOn(copying) => Ok(self.copy_on(conn, copying)),
            Wait::LookAt(usage) => Ok(self.look_at_content(conn, usage)),
            Wait::DiffOn(diff) => Ok(self.diff_on(conn, diff)),
            Wait::ScrubOn(scrubbing) => Ok(self.scrub_on(conn, *scrubbing)),
            wait => Ok(Outcome::Wait(wait)),
        }
    }

    fn ask_losses(&mut self, conn: usize, mut losses: Box<Losses>) -> Wait {
        let (volume, op) = (losses.volume, losses.request());
        self.submit(conn, volume, op);
        Wait::Losses(losses)
    }

    /// Whether a change of the map has been made and our node stands in the map after it.
    fn is_made(&mut self, ticket: &mut Ticket) -> Result<bool> {
        if *ticket != Ticket::MADE {
            match self.engine.outcome(*ticket) {
                None => return Ok(false),
                Some(made) => made?,
            }
            *ticket = Ticket::MADE;
        }
        Ok(self.engine.is_settled())
    }

    /// Connections of hosts to a volume, in all processes.
    pub(crate) fn clients_of(&self, volume: VolumeId) -> u64 {
        self.hosts.users_of(volume) as u64 + self.peer_status.clients_of(volume)
    }
}

/// Whether who does this at home has the leader do the rest.
fn asks_the_leader(request: &ControlRequest) -> bool {
    matches!(
        request,
        ControlRequest::Disk { action: DiskAction::Fail, .. }
            | ControlRequest::DiskAdd { path: Some(_), .. }
    )
}

/// The change was not made because another came before it.
fn overtaken() -> Error {
    Error("not done, because the cluster changed in the meantime; try again".to_string())
}
