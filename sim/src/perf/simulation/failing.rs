//! Nodes that die and come back, and the authority that has the others go on without them.
//!
//! The authority is the nodes' own ([`Authority`]), and so is what they do to catch up. One that is dead goes on
//! by itself: it has its disk and its memory, and reaches nobody, as behind a cut cable. What it was asked its
//! hosts ask another when they find that it is dead. With an empty disk it begins anew.

use weft_core::cluster::{
    Arrival, Authority, AuthorityInput, AuthorityOutput, ClusterMap, NodeInfo,
};
use weft_core::node::{HostError, NodeConfig};

use super::super::recovered::{Phase, Phases};
use super::super::setup::VOLUME;
use super::super::system::{Fault, FaultKind};
use super::beginning::led;
use super::*;

/// What is known of faults.
pub(super) struct Failing {
    /// In the order in which they happen.
    faults: Vec<Fault>,
    /// How many have happened.
    happened: usize,
    authority: Authority,
    standing: Vec<Standing>,
    pub(super) phases: Phases,
    /// Sectors put back by nodes that have begun anew since, less those of before measuring began.
    rebuilt: i64,
    /// How an empty disk's node is run.
    config: NodeConfig,
}

/// How a node stands.
#[derive(Clone, Copy, Default)]
struct Standing {
    dead: bool,
    /// Whether hosts know.
    is_known: bool,
    deaths: u32,
    /// How many disks it had before this one.
    disks: u64,
}

impl Failing {
    pub fn new(system: &System, map: &ClusterMap, config: NodeConfig) -> Option<Failing> {
        let faults: Vec<Fault> = system.faults_in_order().into_iter().map(|f| f.1).collect();
        (!faults.is_empty()).then(|| Failing {
            faults,
            happened: 0,
            authority: Authority::new(map.clone()),
            standing: vec![Standing::default(); map.nodes.len()],
            phases: Phases::default(),
            rebuilt: 0,
            config,
        })
    }

    fn is_dead(&self, node: u32) -> bool {
        self.standing[node as usize].dead
    }

    /// What the array is in now.
    fn phase(&self) -> Phase {
        let map = self.authority.map();
        let fills = map.up().any(|n| map.is_stale(n));
        // The map may not know yet that one is dead, or back with another disk.
        let known =
            |(s, info): (&Standing, &NodeInfo)| !s.dead && info.up && info.disk == 1 + s.disks;
        let lacks = || {
            let all = self.standing.iter().zip(&map.nodes).all(known);
            !all || !self.authority.is_settled()
        };
        match fills {
            true => Phase::Rebuilding,
            false if lacks() => Phase::Degraded,
            false => Phase::Whole,
        }
    }
}

impl Simulation {
    /// The authority takes up its work, and faults are to happen.
    pub(super) fn await_faults(&mut self) -> Result<(), String> {
        let Some(failing) = &self.failing else { return Ok(()) };
        for (n, fault) in failing.faults.iter().enumerate() {
            let at = (fault.at_s * 1e9).round() as Nanos;
            self.queue.push(at, Event::Fault { fault: n as u32 });
        }
        let nodes = (0..self.places.len() as u32).map(|n| self.arrival(n)).collect();
        self.authority_hears(AuthorityInput::Start(nodes))
    }

    /// Whether anything is to fail.
    pub(super) fn has_faults(&self) -> bool {
        self.failing.is_some()
    }

    /// Whether a message is from or to a dead node, and from one to another.
    pub(super) fn is_lost(&self, message: &Envelope) -> bool {
        let dead = |node: NodeId| self.is_dead(node.0.into());
        message.from != message.to && (dead(message.from) || dead(message.to))
    }

    /// Whether a node is dead.
    pub(super) fn is_dead(&self, node: u32) -> bool {
        self.failing.as_ref().is_some_and(|f| f.is_dead(node))
    }

    /// The one of so many originators that a host asks: its own, or the next that it does not know to be dead.
    pub(super) fn living(&self, own: u32, originators: u32) -> u32 {
        let Some(failing) = &self.failing else { return own };
        let known = |n: u32| failing.standing[n as usize].is_known;
        let mut others = (0..originators).map(|n| (own + n) % originators);
        others.find(|n| !known(*n)).unwrap_or(own)
    }

    /// Whether all faults are past and everything is whole.
    pub(super) fn is_whole(&self) -> bool {
        let Some(failing) = &self.failing else { return true };
        failing.happened == failing.faults.len() && failing.phase() == Phase::Whole
    }

    fn arrival(&self, node: u32) -> Arrival {
        let place = &self.places[node as usize];
        let failing = self.failing.as_ref().expect("there are faults");
        Arrival {
            node: NodeId(node as u16),
            disk: 1 + failing.standing[node as usize].disks,
            sectors: place.node.data_sectors(),
        }
    }

    /// The next fault happens.
    pub(super) fn fails(&mut self, fault: u32) -> Result<(), String> {
        let failing = self.failing.as_mut().expect("there are faults");
        failing.happened += 1;
        let Fault { what, node, link, .. } = failing.faults[fault as usize];
        if let Some([a, b]) = link {
            let (ends, dies) = ((a.into(), b.into()), what == FaultKind::LinkDies);
            self.lines_change(|lines, now, out| lines.sets_link(now, ends, dies, out));
            return Ok(());
        }
        let node = u32::from(node.expect("a fault without a link has a node"));
        let dies = what == FaultKind::NodeDies;
        self.lines_change(|lines, now, out| lines.sets_node(now, node, dies, out));
        let failing = self.failing.as_mut().expect("there are faults");
        let standing = &mut failing.standing[node as usize];
        standing.dead = dies;
        match what {
            FaultKind::NodeDies => {
                standing.deaths += 1;
                let deaths = standing.deaths;
                let notice = micros(self.system.recovery.notice_ms * 1e3);
                self.queue.push(notice, Event::Missed { node, deaths });
            }
            FaultKind::NodeReturns => self.returned(node)?,
            FaultKind::DiskReplaced => self.begins_anew(node)?,
            FaultKind::LinkDies | FaultKind::LinkReturns => {}
        }
        self.note_phase();
        Ok(())
    }

    /// The others, and hosts, would find that a node is dead.
    pub(super) fn missed(&mut self, node: u32, deaths: u32) -> Result<(), String> {
        let failing = self.failing.as_mut().expect("there are faults");
        let standing = &mut failing.standing[node as usize];
        if !standing.dead || standing.deaths != deaths {
            return Ok(());
        }
        standing.is_known = true;
        self.asked_elsewhere(node)?;
        self.authority_hears(AuthorityInput::NodeDown(NodeId(node as u16)))
    }

    /// A node is back: it takes part again from the next map on.
    fn returned(&mut self, node: u32) -> Result<(), String> {
        self.failing.as_mut().expect("there are faults").standing[node as usize].is_known = false;
        // Nobody may have missed it yet.
        self.asked_elsewhere(node)?;
        let arrival = self.arrival(node);
        self.authority_hears(AuthorityInput::NodeUp(arrival))
    }

    /// A node begins on an empty disk; when that is open, it is back.
    fn begins_anew(&mut self, node: u32) -> Result<(), String> {
        self.asked_elsewhere(node)?;
        let failing = self.failing.as_mut().expect("there are faults");
        let standing = &mut failing.standing[node as usize];
        (standing.disks, standing.is_known) = (standing.disks + 1, false);
        let place = &mut self.places[node as usize];
        failing.rebuilt += place.node.status().counters.rebuilt_sectors as i64;
        let sectors = self.system.disk_bytes().map_err(|p| p.to_string())? / SECTOR;
        let config = led(&self.system, node, failing.config);
        place.node = Node::new(NodeId(node as u16), 1, sectors, config);
        (place.life, place.soon) = (place.life + 1, None);
        let mut out = Vec::new();
        place.node.start(&mut out);
        self.forgets_work(node);
        self.apply(node, out)
    }

    /// A node's disk is open.
    pub(super) fn is_open(&mut self, node: u32) {
        let arrival = self.arrival(node);
        self.queue.push(0, Event::Authority(Box::new(AuthorityInput::NodeUp(arrival))));
    }

    /// What its processor was to do for the node that was before is not done.
    fn forgets_work(&mut self, node: u32) {
        let now = self.queue.now();
        let processor = &mut self.processors[self.places[node as usize].processor as usize];
        let before = processor.waiting.len();
        processor.waiting.retain(|(n, _)| *n != node);
        (processor.waiting.len()..before).for_each(|_| processor.load.down(now));
        if let Some((_, steps)) = processor.in_hand.as_mut().filter(|(n, _)| *n == node) {
            steps.forget();
        }
    }

    /// Hosts ask others what this node has not answered.
    fn asked_elsewhere(&mut self, node: u32) -> Result<(), String> {
        let at = |r: &AskedRequest| r.originator == node && r.asked > 0;
        let those = self.requests.iter().enumerate();
        let those: Vec<usize> =
            those.filter(|(_, r)| r.as_ref().is_some_and(at)).map(|(n, _)| n).collect();
        for old in those {
            // Its number is not used again: the node may still answer.
            let request = self.requests[old].take();
            self.requests.push(request);
            let request = (self.requests.len() - 1) as u32;
            self.delays.done(old as u32);
            self.input(node, Input::HostGone(old as u64))?;
            self.queue.push(0, Event::Request { request });
        }
        Ok(())
    }

    /// A request comes to a dead node. Until its host finds that, it waits.
    pub(super) fn finds_dead(&mut self, request: u32, node: u32) -> Result<(), String> {
        let known = |f: &Failing| f.standing[node as usize].is_known;
        if self.failing.as_deref().is_some_and(known) {
            self.queue.push(0, Event::Request { request });
        }
        Ok(())
    }

    /// A node answers a request: whether that is the end of it.
    pub(super) fn is_answered(
        &mut self,
        node: NodeId,
        request: u32,
        failed: Option<HostError>,
    ) -> Result<bool, String> {
        let Some(failing) = &self.failing else {
            return failed.map_or(Ok(true), |error| Err(format!("a request failed: {error}")));
        };
        let node = u32::from(node.0);
        let its = self.requests[request as usize].as_ref().is_some_and(|r| r.originator == node);
        if failing.is_dead(node) || !its {
            return Ok(false);
        }
        match failed {
            None => Ok(true),
            Some(HostError::NotServing | HostError::NoProgress { .. }) => {
                let notice = micros(self.system.recovery.notice_ms * 1e3).max(1);
                self.queue.push(notice, Event::Request { request });
                Ok(false)
            }
            Some(error) => Err(format!("a request failed: {error}")),
        }
    }

    /// The authority takes something in.
    pub(super) fn authority_hears(&mut self, input: AuthorityInput) -> Result<(), String> {
        let failing = self.failing.as_mut().expect("there are faults");
        let mut out = Vec::new();
        failing.authority.handle(input, &mut out);
        let safe = micros(self.system.recovery.map_ms * 1e3);
        for output in out {
            match output {
                AuthorityOutput::Tell(node, message) => {
                    let (node, message) = (u32::from(node.0), Box::new(message));
                    let life = self.places[node as usize].life;
                    self.queue.push(0, Event::Tell { node, life, message });
                }
                AuthorityOutput::Store(map) => {
                    let stored = AuthorityInput::Stored(map.epoch);
                    self.queue.push(safe, Event::Authority(Box::new(stored)));
                }
            }
        }
        self.note_phase();
        let failing = self.failing.as_ref().expect("there are faults");
        let map = failing.authority.map();
        let sleeps = map.volumes.get(&VOLUME).is_some_and(|v| map.is_asleep(v));
        if sleeps && map.epoch > 1 {
            let at = self.queue.now() as f64 / 1e9;
            return Err(format!(
                "at {at:.3} s more columns are lost than the layout tolerates: a disk counts as \
                 lost until it is rebuilt; let nodes die later, or give another volume.layout"
            ));
        }
        Ok(())
    }

    /// The authority tells a node.
    pub(super) fn told(&mut self, node: u32, life: u32, message: MapMessage) -> Result<(), String> {
        if self.is_dead(node) || self.places[node as usize].life != life {
            return Ok(());
        }
        self.input(node, Input::Map(message))
    }

    fn note_phase(&mut self) {
        let now = self.queue.now();
        if let Some(failing) = &mut self.failing {
            let map = failing.authority.map();
            let filled = map.up().filter(|n| map.is_stale(*n)).collect();
            let phase = failing.phase();
            failing.phases.enter(now, phase, filled);
        }
    }

    /// Measuring begins.
    pub(super) fn restart_phases(&mut self) {
        let (now, rebuilt) = (self.queue.now(), self.rebuilt_by_all());
        if let Some(failing) = &mut self.failing {
            failing.rebuilt -= rebuilt;
            failing.phases.restart(now);
        }
    }

    /// Sectors put back since measuring began.
    fn rebuilt_by_all(&self) -> i64 {
        let Some(failing) = &self.failing else { return 0 };
        let of_nodes = self.places.iter().map(|p| p.node.status().counters.rebuilt_sectors);
        failing.rebuilt + of_nodes.sum::<u64>() as i64
    }

    /// What was seen of faults.
    pub(super) fn recovered(&self) -> Option<Recovered> {
        let failing = self.failing.as_ref()?;
        let bytes = self.rebuilt_by_all().max(0) as u64 * SECTOR;
        Some(failing.phases.outcome(self.queue.now(), bytes))
    }
}
