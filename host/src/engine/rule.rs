//! Who rules: which map is in force, and how it changes.
//!
//! An array in one process has an authority of its own and keeps the map in its directory. The
//! processes of a cluster agree on the map together ([`Together`]). The nodes do not know the
//! difference.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weft_core::cluster::{
    Absence, Arrival, Authority, AuthorityInput, AuthorityOutput, Change, ClusterMap, Extent,
    NodeInfo, PolicyChange, Volume, VolumeSize,
};
use weft_core::node::MemberReport;
use weft_core::store::map_area::MapCopy;
use weft_core::units::{MILLIS, Nanos, NodeId, VolumeId};

use super::Engine;
use crate::clock::boot_time;
use crate::cluster::{Effect, Together};
use crate::disk::claim::Claimer;
use crate::doors::keeper::Keeper;
use crate::doors::vault::Vault;
use crate::engine::instance::{Instance, Phase};
use crate::error::{Error, Result};
use crate::log::{About, Level};
use crate::state::State;

/// Who rules.
pub(crate) enum Rule {
    /// The authority of this process.
    Alone(Box<Alone>),
    /// The processes of a cluster.
    Together(Box<Together>),
}

/// An authority that keeps the map in the directory of the array.
pub(crate) struct Alone {
    authority: Authority,
    state: State,
    /// A map that could not be stored yet.
    unstored: Option<Unstored>,
    /// Why the change that was asked for last was refused.
    refusal: Option<Error>,
    /// When it is told the time next, if anybody is down or is to be given up for being down for long.
    next_tick: Nanos,
}

/// A map that waits until it can be stored.
struct Unstored {
    map: Arc<ClusterMap>,
    retry_at: Nanos,
}

impl Alone {
    /// Whether it is told the time: it counts for how long nodes are down or lost.
    fn ticks(&self) -> bool {
        let map = self.authority.map();
        let away = |n: &NodeInfo| !n.up && !n.removed;
        map.settings.give_up_after.is_some() || map.nodes.iter().any(away)
    }
}

/// How often an authority is told the time.
const TICK: Nanos = 1000 * MILLIS;

/// How long a map waits that could not be stored before that is tried again.
const RETRY_AFTER: Nanos = 1000 * MILLIS;

/// The reason in errors and log lines.
const CANNOT_STORE: &str = "the map cannot be stored";

/// A change of the map that has been asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(pub(crate) u64);

impl Ticket {
    /// Of a change that has been made.
    pub(crate) const MADE: Ticket = Ticket(u64::MAX);

    /// Of a change that was refused because it could not have been stored.
    const REFUSED: Ticket = Ticket(u64::MAX - 1);
}

impl Rule {
    /// The directory.
    pub(crate) fn dir(&self) -> &Path {
        match self {
            Rule::Alone(alone) => alone.state.dir(),
            Rule::Together(together) => together.home().dir(),
        }
    }

    /// The certificates by which hosts are served.
    pub(crate) fn keeper(&self) -> Keeper {
        match self {
            Rule::Alone(alone) => Keeper::alone(alone.state.dir(), self.cluster()),
            Rule::Together(together) => together.home().keeper(),
        }
    }

    /// The keys that the secrets of hosts are sealed with.
    pub(crate) fn vault(&self) -> Result<Vault> {
        Vault::open(self.dir(), self.cluster())
    }

    /// The rule of the array in `state`.
    pub(crate) fn alone(state: State) -> Rule {
        let authority = Authority::new(state.content.map.clone());
        Rule::Alone(Box::new(Alone {
            authority,
            state,
            unstored: None,
            refusal: None,
            next_tick: 0,
        }))
    }

    /// The map in force, as far as is known here.
    pub(crate) fn map(&self) -> &ClusterMap {
        match self {
            Rule::Alone(alone) => alone.authority.map(),
            Rule::Together(together) => together.map(),
        }
    }

    /// The number of the cluster, which its disks bear.
    pub(super) fn cluster(&self) -> u128 {
        match self {
            Rule::Alone(alone) => alone.state.content.cluster,
            Rule::Together(together) => together.home().cluster(),
        }
    }

    /// What the disks are to keep a copy of, if there is a map yet.
    pub(super) fn copy(&self) -> Option<MapCopy> {
        match self {
            Rule::Alone(alone) => Some(alone.state.copy()),
            Rule::Together(together) => together.copy(),
        }
    }

    /// A place for every node.
    pub(super) fn instances(&self) -> Vec<Instance> {
        match self {
            Rule::Alone(alone) => (0..alone.state.nodes()).map(|n| self.new_instance(n)).collect(),
            Rule::Together(together) => {
                let ours: Vec<usize> =
                    together.ours().iter().map(|node| usize::from(node.0)).collect();
                let last = ours.iter().max().map_or(0, |n| n + 1);
                let known = together.map().nodes.len().max(last);
                let mut instances: Vec<Instance> =
                    (0..known).map(|_| Instance::elsewhere()).collect();
                for n in ours {
                    instances[n] = self.new_instance(n);
                }
                instances
            }
        }
    }

    /// A place for a node of this process.
    pub(super) fn new_instance(&self, n: usize) -> Instance {
        match self {
            Rule::Alone(alone) => {
                let content = &alone.state.content;
                Instance::new(alone.state.disk_path(n), content.disk_size)
                    .with(content.disk_options)
            }
            Rule::Together(together) => Instance::at_home(together.home(), NodeId(n as u16)),
        }
    }

    /// Where the disk of a node of this process is, and how it is claimed, to make it an empty one.
    pub(crate) fn claimer(&self, n: usize, force: bool) -> Result<(PathBuf, Claimer)> {
        match self {
            Rule::Alone(alone) => Ok((alone.state.disk_path(n), alone.state.claimer(n, force))),
            Rule::Together(together) => together.home().claimer(NodeId(n as u16), force),
        }
    }

    /// Names of volumes that were being made when the array last stopped.
    pub(super) fn take_given_up(&mut self) -> Vec<String> {
        match self {
            Rule::Alone(alone) => std::mem::take(&mut alone.state.given_up),
            Rule::Together(_) => Vec::new(),
        }
    }

    /// Whether the nodes may serve at this moment; if not, answers and messages wait.
    pub(super) fn may_serve(&self) -> bool {
        match self {
            Rule::Alone(_) => true,
            Rule::Together(together) => together.may_serve(),
        }
    }

    /// Whether there is something for it to do at once.
    pub(super) fn has_work(&self) -> bool {
        match self {
            Rule::Alone(_) => false,
            Rule::Together(together) => together.has_work(),
        }
    }

    /// Nanoseconds until something is due.
    pub(super) fn next_due(&self) -> Option<Nanos> {
        match self {
            Rule::Alone(alone) => {
                let tick = alone.ticks().then_some(alone.next_tick);
                let retry = alone.unstored.as_ref().map(|unstored| unstored.retry_at);
                let due = tick.into_iter().chain(retry).min();
                due.map(|due| due.saturating_sub(boot_time()))
            }
            Rule::Together(together) => together.next_due(),
        }
    }

    /// The nodes that are down and not given up, and what is to become of each: known where the authority is.
    pub(crate) fn absences(&self) -> Vec<Absence> {
        match self {
            Rule::Alone(alone) => alone.authority.absences(),
            Rule::Together(together) => together.absences(),
        }
    }

    /// The processes of the cluster, if there are several.
    pub(crate) fn together(&self) -> Option<&Together> {
        match self {
            Rule::Alone(_) => None,
            Rule::Together(together) => Some(together),
        }
    }

    /// The processes of the cluster, if there are several.
    pub(crate) fn together_mut(&mut self) -> Option<&mut Together> {
        match self {
            Rule::Alone(_) => None,
            Rule::Together(together) => Some(together),
        }
    }
}

impl Engine {
    /// Whether the nodes of this process have been started and stand in the map in force, or
    /// none of them runs.
    pub(crate) fn is_settled(&self) -> bool {
        !self.starting && (self.nobody_runs() || self.agrees())
    }

    fn agrees(&self) -> bool {
        match &self.rule {
            Rule::Alone(alone) => alone.authority.is_settled(),
            Rule::Together(together) => {
                let epoch = together.map().epoch;
                let seats = (0..self.instances.len()).filter_map(|n| self.seat(n));
                let mut ours = seats.filter_map(|s| s.node.as_ref()).peekable();
                ours.peek().is_some() && ours.all(|node| node.serves_in(epoch))
            }
        }
    }

    /// Whether no node of this process runs or is to.
    pub(super) fn nobody_runs(&self) -> bool {
        let rests = |s: &Instance| match s.phase {
            Phase::Down => !s.wanted,
            phase => phase == Phase::Elsewhere,
        };
        self.instances.iter().all(rests)
    }

    /// Whether nobody goes on without the nodes of this process who does not know yet that they are
    /// down. When the last node goes nobody is left to agree on a map that says so. Of processes that
    /// have `stopped` too the map may say the same.
    pub(crate) fn is_handed_over(&self, stopped: impl Fn(NodeId) -> bool) -> bool {
        let instance = |n: NodeId| self.instances.get(usize::from(n.0));
        let ours = |n: NodeId| instance(n).is_some_and(|s| s.phase != Phase::Elsewhere);
        is_handed_over(self.map(), ours, |n| stopped(self.map().process_of(n)))
    }

    /// Asks for a change of the map.
    pub(crate) fn change(&mut self, change: Change) -> Ticket {
        match &mut self.rule {
            Rule::Alone(alone) => {
                match alone.state.can_store(change.made_on(alone.authority.map())) {
                    Ok(()) => {
                        self.tell_authority(AuthorityInput::Change(change));
                        Ticket(0)
                    }
                    Err(e) => {
                        alone.refusal =
                            Some(Error(format!("{CANNOT_STORE}: {e}; nothing was changed")));
                        Ticket::REFUSED
                    }
                }
            }
            Rule::Together(together) => {
                let ticket = together.change(change);
                self.take_effects();
                Ticket(ticket)
            }
        }
    }

    /// What became of a change that was asked for, if that is known. That it was made says only
    /// that there is a map after it; the map says what it holds.
    pub(crate) fn outcome(&mut self, ticket: Ticket) -> Option<Result<()>> {
        match &mut self.rule {
            Rule::Alone(alone) if ticket == Ticket::REFUSED => alone.refusal.clone().map(Err),
            Rule::Alone(alone) => {
                (alone.authority.is_settled() || self.nobody_runs()).then_some(Ok(()))
            }
            Rule::Together(together) => together.outcome(ticket.0),
        }
    }

    /// Changes how large a volume is.
    pub(crate) fn size_volume(&mut self, id: VolumeId, size: VolumeSize) -> Ticket {
        self.change(Change::SizeVolume(id, size))
    }

    /// Changes a volume's policy.
    pub(crate) fn set_policy(&mut self, id: VolumeId, change: PolicyChange) -> Ticket {
        self.change(Change::SetPolicy(id, change))
    }

    /// Adds a volume.
    pub(crate) fn add_volume(&mut self, volume: Volume) -> Ticket {
        self.change(Change::AddVolume(Arc::new(volume)))
    }

    /// Removes a volume.
    pub(crate) fn remove_volume(&mut self, id: VolumeId) -> Ticket {
        self.change(Change::RemoveVolume(id))
    }

    /// When no node runs any more, those that ran last start together, as they do when the
    /// process starts: nobody has gone on without anybody, and only together do they know
    /// which writes have happened. Says whether the others that ran last are to be started; in
    /// a cluster their processes see to that.
    pub(super) fn start_over(&mut self) -> bool {
        let Rule::Alone(alone) = &mut self.rule else { return false };
        alone.authority = Authority::new(alone.authority.map().clone());
        self.gate.forget();
        self.spent.clear();
        self.lanes.forget();
        self.starting = true;
        true
    }

    /// Every node of this process is open or refused.
    pub(super) fn all_are_open(&mut self) {
        if let Rule::Alone(_) = self.rule {
            self.begin();
        }
    }

    /// The array begins.
    fn begin(&mut self) {
        let arrived: Vec<Arrival> =
            (0..self.instances.len()).filter_map(|n| self.arrival(n)).collect();
        let runs: Vec<NodeId> = arrived.iter().map(|a| a.node).collect();
        let missing = self.instances.len() - runs.len();
        if missing > 0 {
            let total = self.instances.len();
            self.log.warn(&format!("{missing} of {total} nodes are down"));
        }
        let lost = |v: &Volume| {
            let down = |e: &Extent| {
                (0..e.columns.len()).filter(|c| !runs.contains(&e.columns[*c].0)).collect()
            };
            v.extents.iter().any(|e| !v.geometry.is_always_recoverable(down(e)))
        };
        for volume in self.map().volumes.values().filter(|v| lost(v)) {
            self.log.on(About::volume(&volume.name)).error(&format!(
                "volume '{}': too few nodes are running; requests wait for more nodes, or fail",
                volume.name
            ));
        }
        self.tell_authority(AuthorityInput::Start(arrived));
    }

    /// A node of this process can take part.
    pub(super) fn arrived(&mut self, arrival: Arrival) {
        match &mut self.rule {
            // At the start they are all told of together.
            Rule::Alone(_) if self.starting => {}
            Rule::Alone(_) => self.tell_authority(AuthorityInput::NodeUp(arrival)),
            Rule::Together(together) => {
                together.arrived(arrival);
                self.take_effects();
            }
        }
    }

    /// A node of this process has died; one that had not run yet could not be opened.
    pub(super) fn died(&mut self, n: usize, ran: bool) {
        let node = NodeId(n as u16);
        match &mut self.rule {
            Rule::Alone(_) if !ran => {}
            Rule::Alone(_) => self.tell_authority(AuthorityInput::NodeDown(node)),
            Rule::Together(together) => {
                together.died(node);
                self.take_effects();
            }
        }
    }

    /// The disk of a node of this process has failed, and the node dies of it.
    pub(super) fn note_failure(&mut self, node: NodeId) {
        match &mut self.rule {
            Rule::Alone(_) => self.tell_authority(AuthorityInput::DiskFailed(node)),
            Rule::Together(together) => {
                together.disk_failed(node);
                self.take_effects();
            }
        }
    }

    /// A node of this process reports.
    pub(super) fn report_of(&mut self, n: usize, report: MemberReport) {
        let node = NodeId(n as u16);
        match &mut self.rule {
            Rule::Alone(_) => self.tell_authority(AuthorityInput::Report(node, report)),
            Rule::Together(together) => {
                together.report(node, report);
                self.take_effects();
            }
        }
    }

    fn tell_authority(&mut self, input: AuthorityInput) {
        let Rule::Alone(alone) = &mut self.rule else { return };
        let (mut inputs, mut stored) = (VecDeque::from([input]), false);
        while let Some(input) = inputs.pop_front() {
            let mut outputs = Vec::new();
            alone.authority.handle(input, &mut outputs);
            for output in outputs {
                match output {
                    AuthorityOutput::Tell(node, message) => self.gate.word(node, message),
                    AuthorityOutput::Store(map) => match alone.state.store(&map) {
                        Ok(()) => {
                            (stored, alone.unstored) = (true, None);
                            inputs.push_back(AuthorityInput::Stored(map.epoch));
                        }
                        Err(e) => {
                            self.log.error(&format!(
                                "{CANNOT_STORE}: {e}; it is retried every second, and hosts wait until it succeeds"
                            ));
                            let retry_at = boot_time() + RETRY_AFTER;
                            alone.unstored = Some(Unstored { map, retry_at });
                        }
                    },
                }
            }
        }
        if stored {
            self.is_stored();
        }
    }

    /// Stores a map again that could not be stored before, if it is time for that.
    fn retry_to_store(&mut self, now: Nanos) {
        let Rule::Alone(alone) = &mut self.rule else { return };
        let Some(unstored) = alone.unstored.as_mut().filter(|u| u.retry_at <= now) else { return };
        unstored.retry_at = now + RETRY_AFTER;
        let map = unstored.map.clone();
        if alone.state.store(&map).is_ok() {
            alone.unstored = None;
            self.log.info("the map is stored");
            self.tell_authority(AuthorityInput::Stored(map.epoch));
            self.is_stored();
        }
    }

    /// Another map is stored.
    fn is_stored(&mut self) {
        self.copy_map();
        self.stop_without_room();
    }

    /// There is something to read from another process, or room to write to it.
    pub(crate) fn peer_is_ready(&mut self, event: &mio::event::Event) {
        if let Rule::Together(together) = &mut self.rule {
            together.peer_is_ready(event);
        }
    }

    /// Takes what other processes have sent.
    pub(super) fn receive_mail(&mut self) {
        if let Rule::Together(together) = &mut self.rule {
            together.turn();
            self.take_effects();
            self.renew_lease();
        }
    }

    /// What other lanes than the reactor's are to know of the lease.
    fn renew_lease(&mut self) {
        if let Rule::Together(together) = &self.rule {
            self.lanes.renew(together.lease_until());
        }
    }

    /// Sends other processes what there is for them, if the nodes may serve.
    pub(super) fn send_mail(&mut self) {
        let Rule::Together(together) = &mut self.rule else { return };
        let outgoing = self.gate.take_outgoing(|| together.may_serve());
        outgoing.into_iter().for_each(|message| together.send(*message));
        together.turn();
        self.take_effects();
    }

    /// Does what is due.
    pub(super) fn follow_rule(&mut self) {
        match &mut self.rule {
            Rule::Together(together) => {
                together.follow();
                self.take_effects();
                self.renew_lease();
            }
            Rule::Alone(alone) => {
                let now = boot_time();
                if alone.ticks() && now >= alone.next_tick {
                    alone.next_tick = now + TICK;
                    self.tell_authority(AuthorityInput::Tick(now));
                }
                self.retry_to_store(now);
            }
        }
    }

    fn take_effects(&mut self) {
        let Rule::Together(together) = &mut self.rule else { return };
        let effects = together.take_effects();
        let agreed = effects.iter().any(|effect| matches!(effect, Effect::Agreed(_)));
        for effect in effects {
            match effect {
                Effect::Tell(node, message) => self.gate.word(node, message),
                Effect::Restart(node) => self.restart_node(usize::from(node.0)),
                Effect::Message(message) => self.send_envelope(Box::new(message)),
                Effect::Agreed(map) => {
                    while self.instances.len() < map.nodes.len() {
                        self.instances.push(Instance::elsewhere());
                    }
                    for (instance, info) in self.instances.iter_mut().zip(&map.nodes) {
                        if info.removed && instance.phase == Phase::Down {
                            (instance.phase, instance.wanted) = (Phase::Elsewhere, false);
                        }
                    }
                }
                Effect::Log(note) => {
                    let level = if note.is_warning { Level::Warning } else { Level::Info };
                    let (node, process) = (note.node.map(|n| n.0), note.process.map(|p| p.0));
                    let about = About { node, process, ..About::default() };
                    self.log.say(level, &about, &note.text);
                }
                Effect::Fatal(error) => self.fatal = Some(error),
            }
        }
        if agreed {
            self.copy_map();
            self.stop_without_room();
        }
    }
}

/// As [`Engine::is_handed_over`], of these nodes.
fn is_handed_over(
    map: &ClusterMap,
    ours: impl Fn(NodeId) -> bool,
    stopped: impl Fn(NodeId) -> bool,
) -> bool {
    let goes_on = |n: NodeId| !ours(n) && !stopped(n);
    !map.up().any(&ours) || !map.up().any(goes_on)
}

#[cfg(test)]
mod tests {
    use weft_core::cluster::NodeInfo;

    use super::*;

    #[test]
    fn one_that_has_nobody_to_hand_over_to_does_not_wait_for_that() {
        let handed_over = |up: [bool; 3], stopped: bool| {
            let nodes = up.map(|up| NodeInfo { up, ..NodeInfo::new(1, 1000) }).to_vec();
            let map = ClusterMap { nodes, ..ClusterMap::default() };
            is_handed_over(&map, |n| n.0 < 2, |_| stopped)
        };
        assert!(!handed_over([true, false, true], false), "the other is to know");
        assert!(handed_over([false, false, true], false), "it does");
        assert!(handed_over([true, true, false], false), "there is none");
        assert!(handed_over([true, true, true], true), "it has stopped as well");
    }
}
