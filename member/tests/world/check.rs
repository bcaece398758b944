//! What must always hold, and what must hold in the end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weft_core::cluster::ClusterMap;
use weft_core::node::MapMessage;
use weft_core::units::{Epoch, NodeId, VolumeId};
use weft_member::{MemberId, Output, epoch_parts, member_of, node_of};

use super::World;

#[derive(Default)]
pub struct Checks {
    /// Every map that was agreed on.
    pub agreed: BTreeMap<Epoch, Arc<ClusterMap>>,
    /// What each process has last heard agreed in this life.
    last: BTreeMap<MemberId, Epoch>,
    /// Who led in each term.
    leaders: BTreeMap<u64, MemberId>,
    dead: BTreeMap<MemberId, Vec<MemberId>>,
    /// Volumes that were answered for and not removed since.
    pub volumes: BTreeSet<VolumeId>,
    /// A hash over all outputs, and how many there were.
    pub fingerprint: u64,
    pub outputs: u64,
    pub deaths: u64,
    pub terms: u64,
    /// Leases that ran out.
    pub suspended: u64,
    /// Members whose logs were damaged, and how many there were.
    pub lost: BTreeSet<MemberId>,
    pub damaged: u64,
}

impl Checks {
    pub fn crashed(&mut self, id: MemberId) {
        self.last.remove(&id);
        self.dead.remove(&id);
    }

    pub fn count(&mut self, output: &Output) {
        self.outputs += 1;
        let mut mix = |bytes: &[u8]| {
            for b in bytes {
                self.fingerprint = (self.fingerprint ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3);
            }
        };
        match output {
            Output::Send(to, bytes) => {
                mix(&to.0.to_le_bytes());
                mix(bytes);
            }
            Output::Persist(_, weft_member::Persist::Append(b)) => mix(b),
            Output::Persist(_, weft_member::Persist::Replace(b)) => mix(b),
            Output::Wake(at) => mix(&at.to_le_bytes()),
            Output::Log(line) => mix(line.text.as_bytes()),
            Output::Tell(node, _) => mix(&node.0.to_le_bytes()),
            Output::Restart(node) => mix(&[b'r', node.0 as u8]),
            Output::Stop(why) => mix(why.to_string().as_bytes()),
            Output::Suspend => {
                mix(b"suspend");
                self.suspended += 1;
            }
            Output::Resume => mix(b"resume"),
            Output::Answer(id, _) => mix(&id.to_le_bytes()),
            Output::Agreed(map) => mix(&map.epoch.to_le_bytes()),
        }
    }
}

/// One history: an epoch is one map everywhere, and nobody hears it go back.
pub fn agreed(world: &mut World, id: MemberId, map: &Arc<ClusterMap>) -> String {
    let known = world.checks.agreed.entry(map.epoch).or_insert_with(|| map.clone());
    assert_eq!(known, map, "two maps at one epoch");
    let last = world.checks.last.insert(id, map.epoch).unwrap_or(0);
    assert!(map.epoch >= last, "{id} hears epoch {} after {last}", map.epoch);
    let up: Vec<u16> = map.up().map(|n| n.0).collect();
    format!("{id} has epoch {:?} agreed on, up {up:?}", epoch_parts(map.epoch))
}

/// A node is told only what is agreed on, and nobody serves in an older epoch then.
pub fn word(world: &mut World, id: MemberId, node: NodeId, message: &MapMessage) {
    let epoch = match message {
        MapMessage::Freeze { epoch } => *epoch,
        MapMessage::Enter { map, .. } => map.epoch,
    };
    let n = world.processes.get_mut(&id).unwrap().nodes.get_mut(&node).unwrap();
    let term = epoch_parts(epoch).0;
    assert!(term >= n.term, "{node} is told of term {term} after {}", n.term);
    n.term = term;
    let own = n.epoch;
    let MapMessage::Enter { map, .. } = message else { return };
    assert_eq!(world.checks.agreed.get(&map.epoch), Some(map), "told a map not agreed on");
    if map.epoch <= own {
        return;
    }
    for (other, p) in &world.processes {
        let Some(member) = &p.member else { continue };
        let serving = p.nodes.iter().find(|(_, n)| n.serving && n.epoch < map.epoch);
        if let Some((old, n)) = serving
            && member.may_serve(world.clock(*other))
        {
            panic!(
                "{node} enters epoch {:?} while {old} may serve in {:?}",
                epoch_parts(map.epoch),
                epoch_parts(n.epoch)
            );
        }
    }
}

/// A node starts anew only if others have agreed to go on without it, or none of them runs.
pub fn restarts(world: &World, id: MemberId, node: NodeId) {
    let Some((epoch, newest)) = world.checks.agreed.last_key_value() else { return };
    let nodes = || world.processes.values().filter(|p| p.member.is_some()).flat_map(|p| &p.nodes);
    let alone = !nodes().any(|(n, state)| *n != node && state.ready && newest.is_up(*n));
    let takes_part = world.processes[&id].nodes[&node].epoch == *epoch && newest.is_up(node);
    assert!(!takes_part || alone, "{node} is to start anew, and takes part in the newest map");
}

/// After each input: one leader in a term, and nobody is dead who holds a lease.
pub fn after(world: &mut World, id: MemberId) {
    let Some(member) = &world.processes[&id].member else { return };
    let status = member.status();
    if status.leader != Some(member.id()) {
        world.checks.dead.remove(&id);
        return;
    }
    world.checks.terms = world.checks.terms.max(status.term);
    let us = member.id();
    let first = *world.checks.leaders.entry(status.term).or_insert(us);
    assert_eq!(first, us, "two leaders in term {}", status.term);
    if status.term < world.checks.terms {
        // Deposed and does not know: nothing that it decides can be agreed on.
        return;
    }
    let before = world.checks.dead.insert(id, status.dead.clone()).unwrap_or_default();
    for dead in status.dead.iter().filter(|m| !before.contains(m)) {
        world.checks.deaths += 1;
        let process = member_of(node_of(*dead));
        let lease = world.processes[&process].member.as_ref().filter(|m| m.id() == *dead);
        let holds = lease.is_some_and(|m| m.may_serve(world.clock(process)));
        assert!(!holds, "{dead} is declared dead and holds a lease");
    }
}

/// When all is well again for a while: one map, everyone in it, everyone serves.
pub fn converged(world: &World) {
    let leader = world.leader().expect("nobody leads");
    let status = world.processes[&leader].member.as_ref().unwrap().status();
    let newest = world.checks.agreed.last_key_value().expect("nothing was agreed on");
    assert!(status.map.epoch >= *newest.0, "a map that was agreed on is lost");
    for (id, p) in world.processes.iter().filter(|p| !p.1.removed) {
        let member = p.member.as_ref().expect("restarted");
        assert_eq!(member.map(), &status.map, "{id} has another map");
        assert!(member.may_serve(world.clock(*id)), "{id} has no lease");
        for (node, n) in &p.nodes {
            assert!(status.map.is_up(*node), "{node} is not up");
            assert!(!status.map.is_stale(*node), "{node} is stale");
            assert!(n.serving && n.epoch == status.map.epoch, "{node} does not serve");
        }
    }
    for volume in &world.checks.volumes {
        assert!(status.map.volumes.contains_key(volume), "{volume:?} is lost");
    }
    let group: BTreeSet<MemberId> = status.voters.iter().chain(&status.learners).copied().collect();
    let members = world.processes.values().filter(|p| !p.removed).flat_map(|p| &p.member);
    assert_eq!(group, members.map(|m| m.id()).collect(), "who lost its log is still counted on");
    let (voters, all) = (status.voters.len(), world.processes.values().filter(|p| !p.removed));
    let all = all.count();
    assert!(voters >= all.min(world.config.voters).saturating_sub(1).max(1), "{status:?}");
}
