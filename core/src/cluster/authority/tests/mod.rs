//! Tests of the authority: what it makes of the map, with nodes that answer at once.

mod attendance;
mod columns;
mod coming;
mod copies;
mod forgetting;
mod giving_up;
mod operators;
mod ranges;
mod replacing;
mod rest;

use super::*;
use crate::cluster::message::{Memory, Undescribed};
use crate::cluster::{Extent, Home, NodeInfo, NodeKind, Place, Volume, place_volume};
use crate::layout::{Geometry, LayoutSpec};
use crate::store::Reached;
use crate::units::VolumeId;

const UNIT: u64 = 4096;
const DISK: u64 = 1000;

/// An authority over nodes that all run, with one volume of extents of two stripes.
fn started(layout: &str, nodes: u16, stripes: u64) -> Authority {
    let spec: LayoutSpec = layout.parse().unwrap();
    let geometry = Geometry::new(spec.over(usize::from(nodes)).unwrap(), UNIT);
    let size = stripes * geometry.stripe_bytes();
    let disks = Place::apart(&vec![DISK; usize::from(nodes)]);
    let extents = place_volume(&geometry, size, &disks, &[], 2 * UNIT).unwrap();
    let volume = Volume::new(VolumeId(1), "v", size, &spec, geometry, extents);
    let map = ClusterMap {
        nodes: vec![NodeInfo::unseen(); usize::from(nodes)],
        volumes: [(volume.id, Arc::new(volume))].into(),
        ..ClusterMap::default()
    };
    let mut authority = Authority::new(map);
    let all = (0..nodes).map(|n| arrival(n, 1)).collect();
    change(&mut authority, AuthorityInput::Start(all), 10);
    authority
}

impl From<Change> for AuthorityInput {
    fn from(change: Change) -> AuthorityInput {
        AuthorityInput::Change(change)
    }
}

fn arrival(node: u16, disk: u64) -> Arrival {
    Arrival { node: NodeId(node), disk, sectors: DISK }
}

fn admit(n: u16, home: Arc<Home>) -> Change {
    Change::AddNodes(NewNodes { home: Some(home), ..NewNodes::one(NodeId(n)) })
}

fn at(time: u64) -> Timestamp {
    Timestamp::new(time, NodeId(0))
}

/// A node has stopped at this time, with copies of these volumes, and has nothing else to say.
fn stopped(epoch: Epoch, time: u64, copied: Vec<VolumeId>) -> MemberReport {
    MemberReport::Frozen {
        epoch,
        oldest: at(time - 1),
        clock: at(time),
        written: at(time),
        busy: true,
        memory: Memory { began: 1, ..Memory::default() },
        heard: Vec::new(),
        undescribed: Undescribed { copied, ..Undescribed::default() },
    }
}

/// Every write until now is earlier, and every later one is later than whatever stands in the map.
fn assert_floor(map: &ClusterMap, floor: Timestamp, time: u64) {
    assert!(floor > at(time) && floor >= map.latest_timestamp(), "{floor}");
}

/// Has a change made, with every node saying that its oldest unsettled write is at `time - 1`
/// and its clock at `time`. Returns the map that the nodes enter, if there is a change.
fn change(
    a: &mut Authority,
    input: impl Into<AuthorityInput>,
    time: u64,
) -> Option<Arc<ClusterMap>> {
    change_while(true, &knows_nothing, a, input, time)
}

/// What a node says of its own disk, and of others'.
type Knows<'a> = &'a dyn Fn(NodeId) -> (Memory, Vec<(NodeId, Reached)>);

fn knows_nothing(_: NodeId) -> (Memory, Vec<(NodeId, Reached)>) {
    (Memory { began: 1, ..Memory::default() }, Vec::new())
}

/// The same while nobody has anything in work.
fn change_idle(a: &mut Authority, input: impl Into<AuthorityInput>, time: u64) -> Arc<ClusterMap> {
    change_while(false, &knows_nothing, a, input, time).unwrap()
}

fn change_while(
    busy: bool,
    knows: Knows<'_>,
    a: &mut Authority,
    input: impl Into<AuthorityInput>,
    time: u64,
) -> Option<Arc<ClusterMap>> {
    change_exposed(busy, knows, &[], a, input, time)
}

/// The same while parity of these volumes is out of date.
fn change_exposed(
    busy: bool,
    knows: Knows<'_>,
    exposed: &[VolumeId],
    a: &mut Authority,
    input: impl Into<AuthorityInput>,
    time: u64,
) -> Option<Arc<ClusterMap>> {
    let undescribed = Undescribed { exposed: exposed.to_vec(), ..Undescribed::default() };
    change_said(busy, knows, &undescribed, a, input, time)
}

/// The same while all nodes have copies of the writes of these volumes.
fn change_copied(
    copied: &[VolumeId],
    a: &mut Authority,
    input: impl Into<AuthorityInput>,
    time: u64,
) -> Option<Arc<ClusterMap>> {
    let undescribed = Undescribed { copied: copied.to_vec(), ..Undescribed::default() };
    change_said(true, &knows_nothing, &undescribed, a, input, time)
}

fn change_said(
    busy: bool,
    knows: Knows<'_>,
    undescribed: &Undescribed,
    a: &mut Authority,
    input: impl Into<AuthorityInput>,
    time: u64,
) -> Option<Arc<ClusterMap>> {
    let mut inputs = vec![input.into()];
    let mut entered = None;
    while let Some(input) = inputs.pop() {
        let mut out = Vec::new();
        a.handle(input, &mut out);
        for output in out {
            match output {
                AuthorityOutput::Store(map) => inputs.push(AuthorityInput::Stored(map.epoch)),
                AuthorityOutput::Tell(node, MapMessage::Freeze { epoch }) => {
                    let (oldest, clock, written) = (at(time - 1), at(time), at(time));
                    let (memory, heard) = knows(node);
                    let undescribed = undescribed.clone();
                    let report = MemberReport::Frozen {
                        epoch,
                        oldest,
                        clock,
                        written,
                        busy,
                        memory,
                        heard,
                        undescribed,
                    };
                    inputs.push(AuthorityInput::Report(node, report));
                }
                AuthorityOutput::Tell(_, MapMessage::Enter { map, floor }) => {
                    assert_floor(&map, floor, time);
                    entered = Some(map);
                }
            }
        }
    }
    entered
}

fn caught_up(a: &mut Authority, node: u16, time: u64) -> Option<Arc<ClusterMap>> {
    let volumes = a.map().volumes.keys().copied().collect();
    let report = MemberReport::CaughtUp { epoch: a.map().epoch, volumes };
    change(a, AuthorityInput::Report(NodeId(node), report), time)
}

/// Disks that were found at frame 50 of life 3, of which others have heard that they had reached frame 60.
fn forgot(which: &[u16]) -> impl Fn(NodeId) -> (Memory, Vec<(NodeId, Reached)>) {
    let which = which.to_vec();
    move |node| {
        let reached = |frame| Reached { disk: 1, life: 3, frame, sequence: 1 };
        let memory = Memory { found: reached(50), ..Memory::default() };
        let heard = which.iter().filter(|n| **n != node.0).map(|n| (NodeId(*n), reached(60)));
        (memory, heard.collect())
    }
}

fn volume(map: &ClusterMap) -> &Volume {
    &map.volumes[&VolumeId(1)]
}
