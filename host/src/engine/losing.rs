//! Whether disks may be given up: what volumes bear, and what to do about one that does not bear it.

use weft_core::cluster::{ClusterMap, Extent, Volume};
use weft_core::units::NodeId;
use weft_member::listed;

use super::Engine;
use crate::error::{Result, fail};

impl Engine {
    /// Refuses if a volume needs what is on the disks of these nodes, all of which are to be given up together. Volumes
    /// may go whose loss is `accepted`.
    pub(crate) fn can_do_without(&self, nodes: &[NodeId], accepted: &[String]) -> Result<()> {
        let losses = Losses { map: self.map(), nodes, runs: &|n| self.runs(n) };
        losses.are_borne(accepted)
    }

    /// Whether the volumes on a node's disk bear any other loss without it.
    pub(crate) fn can_spare(&self, node: NodeId) -> bool {
        is_spare(self.map(), node, &|n| self.runs(n))
    }
}

fn is_spare(map: &ClusterMap, node: NodeId, runs: &dyn Fn(NodeId) -> bool) -> bool {
    let its = map.volumes.values().filter(|v| !v.is_deleted() && v.nodes().contains(&node));
    let bears = |volume: &Volume, other: NodeId| {
        !Losses { map, nodes: &[node, other], runs }.are_unborne_by(volume)
    };
    its.into_iter().all(|v| v.nodes().into_iter().all(|other| bears(v, other)))
}

/// Disks that are to be given up.
struct Losses<'a> {
    map: &'a ClusterMap,
    nodes: &'a [NodeId],
    runs: &'a dyn Fn(NodeId) -> bool,
}

impl Losses<'_> {
    fn are_borne(&self, accepted: &[String]) -> Result<()> {
        let volumes = || self.map.volumes.values().filter(|v| !v.is_deleted());
        if let Some(name) = accepted.iter().find(|name| !volumes().any(|v| v.name == **name)) {
            return fail(format!("there is no volume '{name}'; `weft volume list` lists them"));
        }
        let concerned = |v: &Volume| self.nodes.iter().any(|n| v.nodes().contains(n));
        let is_lost = |v: &Volume| concerned(v) && self.are_unborne_by(v);
        let lost: Vec<&Volume> =
            volumes().filter(|v| !accepted.contains(&v.name) && is_lost(v)).map(|v| &**v).collect();
        match &lost[..] {
            [] => Ok(()),
            [first, others @ ..] => fail(self.in_words(first, others)),
        }
    }

    fn are_unborne_by(&self, volume: &Volume) -> bool {
        volume.is_lost_with(|n| self.is_given_up(n) || self.is_unsound(volume, n))
    }

    fn is_given_up(&self, node: NodeId) -> bool {
        self.nodes.contains(&node)
    }

    /// Whether a node lacks something of a volume beside columns that are being filled, of which each extent knows.
    fn is_unsound(&self, volume: &Volume, node: NodeId) -> bool {
        !(self.runs)(node) || self.has_missed(volume, node)
    }

    fn has_missed(&self, volume: &Volume, node: NodeId) -> bool {
        let attendance = self.map.attendance.get(&volume.id);
        attendance.is_some_and(|a| a.stale_since.contains_key(&node) || a.forgot.contains(&node))
    }

    /// Why a volume and others would lose data, and what to do about it.
    fn in_words(&self, volume: &Volume, others: &[&Volume]) -> String {
        let why = self.in_words_of(volume, others);
        match others {
            [] => why,
            others => {
                let names: Vec<String> = others.iter().map(|v| format!("'{}'", v.name)).collect();
                let volumes = if others.len() == 1 { "volume" } else { "volumes" };
                format!("{why}; {volumes} {} would lose data, too", names.join(", "))
            }
        }
    }

    fn in_words_of(&self, volume: &Volume, others: &[&Volume]) -> String {
        let (name, on) = (&volume.name, disks_of(self.nodes));
        let flags: String =
            [volume].iter().chain(others).map(|v| format!(" --accept-loss {}", v.name)).collect();
        let whose = if others.is_empty() { "its" } else { "their" };
        let accept = format!("or accept the loss of {whose} data there ({})", flags.trim_start());
        if !volume.geometry.is_redundant() {
            return format!(
                "volume '{name}' ({}) has no redundancy: its data on {on} cannot be rebuilt. Copy its readable data, and delete it \
                 (`weft volume delete {name}`), {accept}",
                volume.layout
            );
        }
        let kept = || volume.nodes().into_iter().filter(|n| !self.is_given_up(*n));
        let lost = |n: &NodeId| self.map.nodes[usize::from(n.0)].given_up && !(self.runs)(*n);
        let rebuilt: Vec<NodeId> = kept().filter(lost).collect();
        let behind: Vec<NodeId> =
            kept().filter(|n| (self.runs)(*n) && self.has_missed(volume, *n)).collect();
        let down: Vec<NodeId> = kept().filter(|n| !(self.runs)(*n) && !lost(n)).collect();
        let is_gone = |n: NodeId| self.is_given_up(n) || down.contains(&n);
        let bears = |e: &Extent| {
            let gone = (0..e.columns.len()).filter(|c| is_gone(e.columns[*c].0)).collect();
            volume.geometry.is_always_recoverable(gone)
        };
        if volume.extents.iter().all(bears) {
            return format!(
                "volume '{name}' does not survive the loss of {on} yet: wait until {}",
                waits(volume, &rebuilt, &behind)
            );
        }
        match down.is_empty() {
            true => format!(
                "volume '{name}' does not survive the loss of {on} together; give them up one after the other, {accept}"
            ),
            false => format!(
                "volume '{name}' needs {on} while {} down; start {} first (`weft node start {}`), {accept}",
                are_nodes(&down),
                if down.len() == 1 { "it" } else { "them" },
                down[0].0
            ),
        }
    }
}

fn disks_of(nodes: &[NodeId]) -> String {
    match nodes {
        [node] => format!("the disk of node {}", node.0),
        nodes => format!("the disks of nodes {}", numbers(nodes)),
    }
}

fn are_nodes(nodes: &[NodeId]) -> String {
    match nodes {
        [node] => format!("node {} is", node.0),
        nodes => format!("nodes {} are", numbers(nodes)),
    }
}

fn numbers(nodes: &[NodeId]) -> String {
    listed(&nodes.iter().map(|n| n.0).collect::<Vec<_>>())
}

/// What a volume's redundancy waits for: that these nodes' content is rebuilt, and that those have caught up.
fn waits(volume: &Volume, rebuilt: &[NodeId], behind: &[NodeId]) -> String {
    let is_filled = |e: &Extent| e.filling.keys().all(|column| e.leaving.contains_key(column));
    let is_whole = |e: &&Extent| is_filled(e) && !e.columns.iter().any(|c| rebuilt.contains(&c.0));
    let whole = volume.extents.iter().filter(is_whole).count();
    let share = format!("({} % of the volume is whole)", whole * 100 / volume.extents.len().max(1));
    let what = match rebuilt {
        [] => "earlier lost content".to_string(),
        [node] => format!("the content of node {}", node.0),
        nodes => format!("the content of nodes {}", numbers(nodes)),
    };
    let mut all = Vec::new();
    if whole < volume.extents.len() {
        all.push(format!("{what} is rebuilt {share}"));
    }
    match behind {
        [] => {}
        [node] => all.push(format!("node {} has caught up", node.0)),
        nodes => all.push(format!("nodes {} have caught up", numbers(nodes))),
    }
    format!("{}; `weft status` shows the progress", all.join(", and until "))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weft_core::cluster::{Attendance, NodeInfo};
    use weft_core::layout::{Geometry, LayoutSpec};
    use weft_core::units::{Timestamp, VolumeId};

    use super::*;

    /// A map of six nodes with a volume `v` whose extents have their columns on these.
    fn map(layout: &str, extents: &[&[u16]]) -> ClusterMap {
        let spec: LayoutSpec = layout.parse().unwrap();
        let geometry = Geometry::new(spec.over(extents[0].len()).unwrap(), 4096);
        let columns = |on: &[u16]| on.iter().map(|n| (NodeId(*n), 0)).collect();
        let of = |(n, on): (usize, &&[u16])| Extent::new(n as u64, columns(on));
        let size = geometry.stripe_bytes() * extents.len() as u64;
        let extents = extents.iter().enumerate().map(of).collect();
        let volume = Volume::new(VolumeId(1), "v", size, &spec, geometry, extents);
        ClusterMap {
            nodes: vec![NodeInfo::new(1, 1000); 6],
            volumes: [(VolumeId(1), Arc::new(volume))].into(),
            ..ClusterMap::default()
        }
    }

    fn said(map: &ClusterMap, nodes: &[u16], down: &[u16], accepted: &[&str]) -> String {
        let nodes: Vec<NodeId> = nodes.iter().copied().map(NodeId).collect();
        let accepted: Vec<String> = accepted.iter().map(|name| name.to_string()).collect();
        let losses = Losses { map, nodes: &nodes, runs: &|n| !down.contains(&n.0) };
        losses.are_borne(&accepted).map_or_else(|e| e.0, |()| "borne".to_string())
    }

    #[test]
    fn a_volume_without_redundancy_is_named_and_its_loss_can_be_accepted() {
        let map = map("raid0", &[&[0, 1, 2]]);
        assert_eq!(
            said(&map, &[1], &[], &[]),
            "volume 'v' (raid0) has no redundancy: its data on the disk of node 1 cannot be rebuilt. Copy its readable data, and \
             delete it (`weft volume delete v`), or accept the loss of its data there (--accept-loss v)"
        );
        assert_eq!(said(&map, &[1], &[], &["v"]), "borne");
        assert_eq!(said(&map, &[4], &[], &[]), "borne", "it has nothing there");
        assert!(said(&map, &[1], &[], &["w"]).contains("no volume 'w'"));
        let mut deleted = map.clone();
        Arc::make_mut(deleted.volumes.get_mut(&VolumeId(1)).unwrap()).deletion.since = Some(1);
        assert_eq!(said(&deleted, &[1], &[], &[]), "borne");
    }

    #[test]
    fn all_volumes_that_would_lose_data_are_named() {
        let mut map = map("raid0", &[&[0, 1, 2]]);
        let first = Volume::clone(&map.volumes[&VolumeId(1)]);
        for (id, name) in [(2, "w"), (3, "x")] {
            let other = Volume { id: VolumeId(id), name: name.into(), ..first.clone() };
            map.volumes.insert(other.id, Arc::new(other));
        }
        let text = said(&map, &[1], &[], &["w"]);
        assert!(
            text.ends_with(
                "or accept the loss of their data there (--accept-loss v --accept-loss x); volume 'x' would lose data, too"
            ),
            "{text}"
        );
        let text = said(&map, &[1], &[], &[]);
        assert!(text.ends_with("; volumes 'w', 'x' would lose data, too"), "{text}");
        assert_eq!(said(&map, &[1], &[], &["v", "w", "x"]), "borne");
    }

    #[test]
    fn a_disk_can_be_spared_if_any_other_may_be_lost_too() {
        let spares = |layout: &str, node: u16, down: &[u16]| {
            let map = map(layout, &[&[0, 1, 2, 3], &[1, 2, 3, 4]]);
            is_spare(&map, NodeId(node), &|n| !down.contains(&n.0))
        };
        assert!(spares("raid6", 1, &[]));
        assert!(!spares("raid6", 1, &[2]), "one is lost already");
        assert!(spares("raid6", 0, &[4]), "no extent has both");
        assert!(!spares("raid5", 1, &[]));
        assert!(!spares("raid0", 1, &[]));
        assert!(spares("raid0", 5, &[]), "it has nothing there");
    }

    #[test]
    fn it_is_said_what_to_wait_for_or_to_start() {
        let mut map = map("raid5", &[&[0, 1, 2], &[0, 1, 3], &[2, 3, 4]]);
        assert_eq!(said(&map, &[1], &[], &[]), "borne");
        assert_eq!(
            said(&map, &[1], &[0], &[]),
            "volume 'v' needs the disk of node 1 while node 0 is down; start it first (`weft node start 0`), \
             or accept the loss of its data there (--accept-loss v)"
        );
        assert_eq!(
            said(&map, &[0, 1], &[0, 1], &[]),
            "volume 'v' does not survive the loss of the disks of nodes 0 and 1 together; give them up one after the \
             other, or accept the loss of its data there (--accept-loss v)"
        );
        assert_eq!(said(&map, &[0, 4], &[0, 4], &[]), "borne", "no extent has both");
        map.nodes[0].given_up = true;
        assert_eq!(
            said(&map, &[1], &[0], &[]),
            "volume 'v' does not survive the loss of the disk of node 1 yet: wait until the content of node 0 is rebuilt (33 % of \
             the volume is whole); `weft status` shows the progress"
        );
        // Of one extent it is on another disk by now, and being filled there; of the other it is done.
        let volume = Arc::make_mut(map.volumes.get_mut(&VolumeId(1)).unwrap());
        volume.extents[0].columns[0].0 = NodeId(5);
        volume.extents[1].columns[0].0 = NodeId(5);
        volume.extents[0].filling.insert(0, Timestamp::ZERO);
        let text = said(&map, &[1], &[0], &[]);
        assert!(text.contains("wait until earlier lost content is rebuilt (66 %"), "{text}");
        assert_eq!(
            said(&map, &[3], &[0], &[]),
            "borne",
            "the extent that is being filled has nothing there"
        );
        let volume = Arc::make_mut(map.volumes.get_mut(&VolumeId(1)).unwrap());
        volume.extents[0].filling.clear();
        let stale_since = [(NodeId(2), Timestamp::ZERO)].into();
        map.attendance.insert(VolumeId(1), Attendance { stale_since, ..Attendance::default() });
        let text = said(&map, &[1], &[0], &[]);
        assert!(text.contains("yet: wait until node 2 has caught up"), "{text}");
    }
}
