//! What an operator looks for first: whether the array is well, and if not, what is wrong.
//!
//! It follows from the rest of the status, so that who reads the status of an older process knows it too.

use std::fmt;

use serde::{Deserialize, Serialize};
use weft_core::policy::time::about;

use crate::size::exactly;

use super::{ClusterStatus, NodeState, NodeStatus, Status, VolumeMode, VolumeStatus};

/// How an array is, in a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Health {
    /// All data is there, as redundant as it is to be.
    #[default]
    Healthy,
    /// All data is there, and something is to be seen to.
    Degraded,
    /// Some data cannot be read now, or is lost.
    Failed,
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Health::Healthy => "healthy",
            Health::Degraded => "degraded",
            Health::Failed => "failed",
        })
    }
}

/// How an array is, and why it is not healthy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// In a word: that of the worst reason.
    pub health: Health,
    /// What is wrong, the worst first; nothing if all is well.
    pub reasons: Vec<String>,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reasons.is_empty() {
            true => write!(f, "{}", self.health),
            false => write!(f, "{}: {}", self.health, self.reasons.join("; ")),
        }
    }
}

impl Status {
    /// How the array is, and why.
    pub fn summary(&self) -> Summary {
        let all = self.reasons();
        Summary {
            health: all.first().map_or(Health::Healthy, |(health, _)| *health),
            reasons: all.into_iter().map(|(_, text)| text).collect(),
        }
    }

    /// The reasons, each with the health that it alone means: the worst first.
    pub fn reasons(&self) -> Vec<(Health, String)> {
        let mut all: Vec<(Health, String)> = Vec::new();
        all.extend(self.cut_off.iter().map(|text| (Health::Failed, text.clone())));
        all.extend(self.volumes.iter().flat_map(|v| self.of_volume(v)));
        all.extend(self.nodes.iter().filter_map(|n| self.of_lost(n).or_else(|| self.of_node(n))));
        let warnings = self.cluster.iter().flat_map(|c| &c.warnings);
        let warnings = warnings.chain(&self.host_warnings);
        all.extend(warnings.map(|text| (Health::Degraded, text.clone())));
        all.extend(self.cluster.iter().filter_map(|c| {
            let bad = c.detours.iter().filter(|d| d.bad).count();
            let links = match bad {
                0 => return None,
                1 => "1 link between processes is bad".to_string(),
                bad => format!("{bad} links between processes are bad"),
            };
            Some((Health::Degraded, links))
        }));
        all.extend(self.of_numbers());
        // Of one kind they stay in order.
        all.sort_by_key(|(health, _)| std::cmp::Reverse(*health));
        all
    }
}

/// Which disks have no space, in words.
fn full_disks(nodes: &[u16]) -> String {
    let nodes: Vec<String> = nodes.iter().map(u16::to_string).collect();
    match nodes.len() {
        1 => format!("the disk of node {} has no free space", nodes[0]),
        _ => format!("the disks of nodes {} have no free space", nodes.join(", ")),
    }
}

impl Status {
    /// When half of the numbers are gone, there is time to move to another array.
    fn of_numbers(&self) -> Option<(Health, String)> {
        let (given, all) = (u64::from(self.numbers.given), u64::from(self.numbers.all));
        (all > 0 && given >= all.div_ceil(2)).then(|| {
            let text = format!(
                "{} % of the numbers for volumes, snapshots and clones are used; when all are, no more can be created",
                given * 100 / all
            );
            (Health::Degraded, text)
        })
    }

    fn of_volume(&self, volume: &VolumeStatus) -> Vec<(Health, String)> {
        if volume.mode == VolumeMode::Deleted || self.stands_with_another(volume) {
            return Vec::new();
        }
        let name = &volume.name;
        let more = match volume.survives {
            Some(1) => "survives one more loss".to_string(),
            Some(n) if n > 1 => format!("survives {n} more losses"),
            _ => "survives no more losses".to_string(),
        };
        let now = match volume.mode {
            VolumeMode::NotServed => {
                Some((Health::Failed, format!("volume {name} is not served here")))
            }
            VolumeMode::Failed => {
                let lacks: Vec<String> =
                    volume.missing.iter().map(|m| m.node.to_string()).collect();
                let nodes = match lacks.is_empty() {
                    true => String::new(),
                    false => format!("; missing nodes: {}", lacks.join(", ")),
                };
                let (failed, all) = (volume.extents_failed, volume.extents);
                let s = if all == 1 { "" } else { "s" };
                let text =
                    format!("volume {name} cannot be read in {failed} of {all} extent{s}{nodes}");
                Some((Health::Failed, text))
            }
            VolumeMode::Degraded => {
                let is = match self.degraded_seconds(volume) {
                    Some(seconds) => format!("has been degraded for {}", about(seconds)),
                    None => "is degraded".to_string(),
                };
                Some((Health::Degraded, format!("volume {name} {is}, and {more}")))
            }
            VolumeMode::Reconstructing => {
                Some((Health::Degraded, format!("volume {name} is being rebuilt, and {more}")))
            }
            VolumeMode::Unfinished
            | VolumeMode::Deleted
            | VolumeMode::Migrating
            | VolumeMode::FaultFree => None,
        };
        let lost = volume.exposed.as_ref().map_or(0, |e| e.lost_bytes);
        let lost = (lost > 0).then(|| {
            (Health::Failed, format!("{} of volume {name} are permanently lost", exactly(lost)))
        });
        let full = volume.flattening.as_ref().filter(|f| !f.full.is_empty()).map(|f| {
            let text = format!("volume {name} cannot be flattened: {}", full_disks(&f.full));
            (Health::Degraded, text)
        });
        let snapshots = of_schedule(volume).chain(full);
        now.into_iter().chain(lost).chain(of_promise(volume)).chain(snapshots).collect()
    }

    /// Whether it is a snapshot that is no worse than its volume, so that nothing more needs to be said.
    fn stands_with_another(&self, volume: &VolumeStatus) -> bool {
        let lost = |v: &VolumeStatus| v.exposed.as_ref().map_or(0, |e| e.lost_bytes);
        let Some(origin) = &volume.snapshot_of else { return false };
        let origin =
            self.volumes.iter().find(|v| v.name == *origin && v.mode != VolumeMode::Deleted);
        origin.is_some_and(|origin| volume.mode == origin.mode && lost(volume) == 0)
    }

    /// For how long the first of the nodes has been away that a volume lacks, if that is known.
    fn degraded_seconds(&self, volume: &VolumeStatus) -> Option<u64> {
        let its = self.nodes.iter().filter(|n| volume.nodes.contains(&n.node));
        its.filter_map(|n| n.absence.as_ref()).map(|a| a.down_seconds).max()
    }

    /// What to do about the content of a lost node that cannot be rebuilt, if that is all that is left of it.
    fn unrebuildable(&self, node: &NodeStatus) -> Option<String> {
        let its = || self.volumes.iter().filter(|v| v.nodes.contains(&node.node));
        let name = &its().find(|v| v.layout == "raid0")?.name;
        its().all(|v| v.layout == "raid0").then(|| {
            format!(
                "volume {name} (raid0) has no redundancy, so its content there is gone: delete it (`weft volume delete {name}`)"
            )
        })
    }

    /// What has a lost node's content rebuilt.
    fn instead_of(&self, node: &NodeStatus) -> String {
        let reached = |process: u16| {
            let by = |c: &ClusterStatus| c.node == process || c.connected.contains(&process);
            self.cluster.as_ref().is_none_or(by)
        };
        match (node.process, &node.name, &node.address) {
            (Some(_), Some(name), None) => self.unrebuildable(node).unwrap_or_else(|| {
                format!(
                    "another process has replaced {name}, and its content is rebuilt on disks with enough free space"
                )
            }),
            (Some(process), Some(name), _) if !reached(process) => format!(
                "`weft cluster replace {name}` on a new machine replaces {name} and rebuilds its content"
            ),
            _ => format!("`weft disk replace {}` rebuilds it on an empty disk", node.node),
        }
    }

    /// A node that was given up, while that is still felt, and what to do about it.
    fn of_lost(&self, node: &NodeStatus) -> Option<(Health, String)> {
        if node.state != NodeState::Lost {
            return None;
        }
        let rebuilds = self.volumes.iter().any(|v| v.mode == VolumeMode::Reconstructing);
        let n = node.node;
        let then = match node.columns {
            0 if rebuilds => "its content is being rebuilt on other disks".to_string(),
            0 => return None,
            _ => self.instead_of(node),
        };
        let lost = match &node.absence {
            Some(a) => format!("has been lost for {}", about(a.down_seconds)),
            None => "is lost".to_string(),
        };
        Some((Health::Degraded, format!("node {n} {lost}; {then}")))
    }
}

/// A promise that is not kept.
fn of_promise(volume: &VolumeStatus) -> Option<(Health, String)> {
    let seconds = volume.promise?.missed_seconds?;
    let (name, within, time) = (&volume.name, volume.choice("p99"), about(seconds));
    let text = format!(
        "more than 1 % of the requests to volume {name} have taken longer than {within} for \
         {time}, though background work is at its minimum"
    );
    Some((Health::Degraded, text))
}

/// Scheduled snapshots that cannot be taken.
fn of_schedule(volume: &VolumeStatus) -> impl Iterator<Item = (Health, String)> + '_ {
    let name = &volume.name;
    volume.schedule.iter().filter_map(move |of| {
        let (kind, hindrance) = (&of.kind, of.hindrance.as_ref()?);
        let text = format!("the {kind} snapshot of volume {name} cannot be taken: {hindrance}");
        Some((Health::Degraded, text))
    })
}

impl Status {
    fn of_node(&self, node: &NodeStatus) -> Option<(Health, String)> {
        of_node(node, self.volumes.iter().any(|volume| volume.takes_slots_of(node)))
    }
}

impl VolumeStatus {
    /// Whether its writes may take slots of a node's disk: it is thin, which one with snapshots is too. One that has been
    /// deleted is written no more.
    fn takes_slots_of(&self, node: &NodeStatus) -> bool {
        self.thin && self.mode != VolumeMode::Deleted && self.nodes.contains(&node.node)
    }

    /// What to know of the fullest of its disks, if it is thin.
    pub fn room_warning(&self, nodes: &[NodeStatus]) -> Option<String> {
        let its = nodes.iter().filter(|node| self.takes_slots_of(node));
        let fullest = its.max_by_key(|node| node.slots.and_then(|slots| slots.full_percent()))?;
        of_full(fullest).map(|(_, text)| text)
    }
}

/// The trouble of a node. A thin volume may have a column on its disk.
fn of_node(node: &NodeStatus, has_thin: bool) -> Option<(Health, String)> {
    let n = node.node;
    if let Some(trouble) = &node.trouble {
        return Some((Health::Degraded, format!("node {n}: {trouble}")));
    }
    let text = match node.state {
        // Hosts that are their own controllers come and go.
        NodeState::Down if node.host => return None,
        NodeState::Hung | NodeState::Slow | NodeState::Down => {
            let state = node.state;
            let why = node.why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
            match &node.absence {
                Some(a) => {
                    format!("node {n} has been {state} for {}{why}", about(a.down_seconds))
                }
                None => format!("node {n} is {state}{why}"),
            }
        }
        NodeState::CatchingUp if has_thin && node.slots.is_some_and(|s| s.is_full()) => format!(
            "node {n} is catching up, and its disk is full: delete or discard something, or add disks"
        ),
        NodeState::CatchingUp => match node.rebuild_seconds_left {
            Some(left) => format!("node {n} is catching up, for about {left} s more"),
            None => format!("node {n} is catching up"),
        },
        NodeState::Opening => format!("node {n} is opening its disk"),
        // What was on it is elsewhere, or its volumes say that it is missing.
        NodeState::Lost | NodeState::Expected => return of_slow_or_clock(node, has_thin),
        NodeState::Up | NodeState::Draining | NodeState::Suspect | NodeState::Stopping => {
            return of_slow_or_clock(node, has_thin);
        }
    };
    Some((Health::Degraded, text))
}

/// From this percentage on a disk with thin volumes counts as nearly full, and from that as full soon.
const NEARLY_FULL: u64 = 80;
const FULL_SOON: u64 = 90;

/// Whether thin volumes may soon find no space on a disk.
fn of_full(node: &NodeStatus) -> Option<(Health, String)> {
    let slots = node.slots?;
    let full = slots.full_percent().filter(|full| *full >= NEARLY_FULL)?;
    let then = match full {
        100.. => {
            "writes that need space in thin volumes fail; delete or discard something, or add disks"
        }
        FULL_SOON.. => {
            "writes to thin volumes will soon fail; delete or discard something, or add disks"
        }
        _ => "delete or discard something, or add disks, before thin volumes are full",
    };
    Some((Health::Degraded, format!("the disk of node {} is {full} % full: {then}", node.node)))
}

/// Whether damage destroyed a disk's record of its used space.
fn of_lost_claims(node: &NodeStatus) -> Option<(Health, String)> {
    let n = node.node;
    let text = format!(
        "damage destroyed the record of the used space on the disk of node {n}: stop the node, and `weft disk replace {n}` \
         rebuilds it on an empty disk"
    );
    node.lost_claims.then_some((Health::Degraded, text))
}

/// What is wrong with a node that takes part as it should.
fn of_slow_or_clock(node: &NodeStatus, has_thin: bool) -> Option<(Health, String)> {
    if let Some(lost) = of_lost_claims(node) {
        return Some(lost);
    }
    if let Some(full) = of_full(node).filter(|_| has_thin) {
        return Some(full);
    }
    if let Some(slow) = node.slow {
        let millis = |microseconds: u64| microseconds as f64 / 1000.0;
        let reads = ("read", slow.read_microseconds, slow.others_microseconds);
        let writes = ("write", slow.write_microseconds, slow.others_write_microseconds);
        let said = [reads, writes].into_iter().filter_map(|(what, its, others)| {
            let (its, others) = (millis(its?), millis(others?));
            Some(format!(
                "its median {what} takes {its:.1} ms, and that of the others {others:.1} ms"
            ))
        });
        let said: Vec<String> = said.collect();
        let text = format!("node {} is slow: {}", node.node, said.join("; "));
        return Some((Health::Degraded, text));
    }
    let ahead = node.clock_is_ahead_seconds?;
    let text = format!("the clock of node {}'s machine is {ahead} s ahead", node.node);
    Some((Health::Degraded, text))
}

#[cfg(test)]
mod tests {
    use super::super::{
        AbsenceStatus, ExposedStatus, MissingNode, NumberStatus, ScheduleStatus, SlotsStatus,
    };
    use super::*;

    #[test]
    fn what_is_said_of_a_volume_is_not_said_again_of_its_snapshots() {
        let volume = |name: &str, of: Option<&str>, mode| VolumeStatus {
            name: name.to_string(),
            snapshot_of: of.map(str::to_string),
            mode,
            ..VolumeStatus::default()
        };
        let reasons = |modes: [VolumeMode; 2]| {
            let volumes = vec![volume("a", None, modes[0]), volume("a@s", Some("a"), modes[1])];
            Status { volumes, ..Status::default() }.summary().reasons
        };
        let degraded = "volume a is degraded, and survives no more losses";
        assert_eq!(reasons([VolumeMode::Degraded; 2]), [degraded]);
        let worse = reasons([VolumeMode::Degraded, VolumeMode::Failed]);
        assert_eq!(worse, ["volume a@s cannot be read in 0 of 0 extents", degraded]);
    }

    #[test]
    fn a_scheduled_snapshot_that_cannot_be_taken_is_named() {
        let kind = |kind: &str, hindrance: Option<&str>| ScheduleStatus {
            kind: kind.to_string(),
            hindrance: hindrance.map(str::to_string),
            ..ScheduleStatus::default()
        };
        let schedule = vec![kind("hourly", None), kind("daily", Some("no votes"))];
        let volume = VolumeStatus { schedule, ..volume(VolumeMode::FaultFree) };
        let expected = "degraded: the daily snapshot of volume v cannot be taken: no votes";
        assert_eq!(said(vec![volume], vec![]), expected);
    }

    #[test]
    fn a_disk_that_lost_the_record_of_its_slots_is_to_be_replaced() {
        let node = NodeStatus { node: 3, lost_claims: true, ..NodeStatus::default() };
        let node = NodeStatus { state: NodeState::Up, ..node };
        let expected = "degraded: damage destroyed the record of the used space on the disk of node 3: stop the node, and \
                        `weft disk replace 3` rebuilds it on an empty disk";
        assert_eq!(said(vec![], vec![node]), expected);
    }

    #[test]
    fn a_disk_that_thin_volumes_fill_is_named_in_time() {
        let node = |thin, promised| {
            let slots = SlotsStatus { usable: 100, thin, promised, ..SlotsStatus::default() };
            NodeStatus {
                node: 4,
                state: NodeState::Up,
                slots: Some(slots),
                ..NodeStatus::default()
            }
        };
        let said = |thin, promised| of_node(&node(thin, promised), true).map(|(_, text)| text);
        assert_eq!(of_node(&node(0, 100), false), None, "what is reserved is never full");
        assert_eq!(of_node(&node(40, 60), false), None, "nor is what a deleted volume has");
        let behind = NodeStatus { state: NodeState::CatchingUp, ..node(60, 40) };
        assert!(of_node(&behind, true).unwrap().1.contains("and its disk is full"));
        assert_eq!(said(39, 40), None);
        assert!(said(40, 40).unwrap().starts_with("the disk of node 4 is 80 % full: delete"));
        assert!(said(90, 0).unwrap().contains("90 % full: writes to thin volumes will soon fail"));
        assert!(
            said(60, 40)
                .unwrap()
                .contains("100 % full: writes that need space in thin volumes fail")
        );
    }

    #[test]
    fn a_thin_volume_that_finds_no_slot_at_all_degrades_until_it_is_deleted() {
        let slots = SlotsStatus { usable: 100, promised: 100, ..SlotsStatus::default() };
        let (state, slots) = (NodeState::Up, Some(slots));
        let node = NodeStatus { node: 4, state, slots, ..NodeStatus::default() };
        let volume = |thin, mode, on| VolumeStatus { thin, nodes: vec![on], ..volume(mode) };
        let said = |volume: VolumeStatus| said(vec![volume], vec![node.clone()]);
        let full = said(volume(true, VolumeMode::FaultFree, 4));
        assert!(full.starts_with("degraded: the disk of node 4 is 100 % full: writes"), "{full}");
        assert_eq!(said(volume(false, VolumeMode::FaultFree, 4)), "healthy");
        assert_eq!(said(volume(true, VolumeMode::FaultFree, 3)), "healthy");
        assert_eq!(said(volume(true, VolumeMode::Deleted, 4)), "healthy");
    }

    fn volume(mode: VolumeMode) -> VolumeStatus {
        let missing = vec![MissingNode { node: 3, ..MissingNode::default() }];
        let (extents, extents_failed) = (4, 2);
        let name = "v".to_string();
        VolumeStatus { name, mode, missing, extents, extents_failed, ..VolumeStatus::default() }
    }

    fn said(volumes: Vec<VolumeStatus>, nodes: Vec<NodeStatus>) -> String {
        Status { volumes, nodes, ..Status::default() }.summary().to_string()
    }

    #[test]
    fn what_is_well_is_healthy() {
        let up = NodeStatus { state: NodeState::Up, ..NodeStatus::default() };
        let gone_host = NodeStatus { host: true, ..NodeStatus::default() };
        let migrating = volume(VolumeMode::Migrating);
        assert_eq!(said(vec![migrating], vec![up, gone_host]), "healthy");
    }

    #[test]
    fn the_worst_comes_first_and_decides() {
        let why = Some("killed".to_string());
        let absence = Some(AbsenceStatus { down_seconds: 90, ..AbsenceStatus::default() });
        let down = NodeStatus { node: 3, why, absence, ..NodeStatus::default() };
        let catching = NodeStatus {
            node: 1,
            state: NodeState::CatchingUp,
            rebuild_seconds_left: Some(9),
            ..NodeStatus::default()
        };
        let mut degraded = volume(VolumeMode::Degraded);
        degraded.survives = Some(1);
        assert_eq!(
            said(vec![degraded], vec![catching.clone(), down.clone()]),
            "degraded: volume v is degraded, and survives one more loss; node 1 is catching up, for about 9 s more; \
             node 3 has been down for 90s (killed)"
        );
        assert_eq!(
            said(vec![volume(VolumeMode::Reconstructing), volume(VolumeMode::Failed)], vec![down]),
            "failed: volume v cannot be read in 2 of 4 extents; missing nodes: 3; volume v is being rebuilt, and \
             survives no more losses; node 3 has been down for 90s (killed)"
        );
        let exposed = Some(ExposedStatus { lost_bytes: 4096, ..ExposedStatus::default() });
        let lost = VolumeStatus { exposed, ..volume(VolumeMode::FaultFree) };
        assert_eq!(said(vec![lost], vec![]), "failed: 4 KiB of volume v are permanently lost");
    }

    #[test]
    fn a_disk_that_was_given_up_is_named_with_since_when_and_what_to_do() {
        let absence = Some(AbsenceStatus { down_seconds: 90, ..AbsenceStatus::default() });
        let state = NodeState::Lost;
        let lost = NodeStatus { node: 3, state, columns: 4, absence, ..NodeStatus::default() };
        let degraded = VolumeStatus { nodes: vec![2, 3], ..volume(VolumeMode::Degraded) };
        assert_eq!(
            said(vec![degraded], vec![lost.clone()]),
            "degraded: volume v has been degraded for 90s, and survives no more losses; node 3 has been lost for 90s; \
             `weft disk replace 3` rebuilds it on an empty disk"
        );
        let moved = NodeStatus { columns: 0, ..lost };
        assert_eq!(
            said(vec![volume(VolumeMode::Reconstructing)], vec![moved.clone()]),
            "degraded: volume v is being rebuilt, and survives no more losses; node 3 has been lost for 90s; \
             its content is being rebuilt on other disks"
        );
        assert_eq!(said(vec![volume(VolumeMode::FaultFree)], vec![moved]), "healthy");
    }

    #[test]
    fn a_disk_of_a_machine_that_is_lost_is_replaced_with_the_machine() {
        let text = |s: &str| Some(s.to_string());
        let (state, name, address) = (NodeState::Lost, text("box5"), text("10.0.0.5:1"));
        let process = Some(8);
        let lost = NodeStatus {
            node: 9,
            process,
            state,
            columns: 4,
            name,
            address,
            ..NodeStatus::default()
        };
        let said = |node: &NodeStatus, connected: Vec<u16>| {
            let cluster = Some(ClusterStatus { connected, ..ClusterStatus::default() });
            Status { cluster, nodes: vec![node.clone()], ..Status::default() }.summary().to_string()
        };
        assert_eq!(
            said(&lost, vec![3]),
            "degraded: node 9 is lost; `weft cluster replace box5` on a new machine replaces box5 and rebuilds its content"
        );
        assert_eq!(
            said(&lost, vec![3, 8]),
            "degraded: node 9 is lost; `weft disk replace 9` rebuilds it on an empty disk"
        );
        let replaced = NodeStatus { address: None, ..lost };
        assert_eq!(
            said(&replaced, vec![3]),
            "degraded: node 9 is lost; another process has replaced box5, and its content is rebuilt on disks with enough free space"
        );
        let of = |name: &str, layout: &str| VolumeStatus {
            name: name.to_string(),
            layout: layout.to_string(),
            nodes: vec![3, 9],
            ..VolumeStatus::default()
        };
        let told = |volumes| Status { volumes, ..Status::default() }.of_lost(&replaced).unwrap().1;
        assert_eq!(
            told(vec![of("w", "raid0")]),
            "node 9 is lost; volume w (raid0) has no redundancy, so its content there is gone: delete it (`weft volume delete w`)"
        );
        assert!(told(vec![of("w", "raid0"), of("v", "raid5")]).contains("is rebuilt"));
    }

    #[test]
    fn a_process_that_is_cut_off_has_failed_and_warnings_degrade() {
        let host_warnings = vec!["h".to_string()];
        let summary = Status { host_warnings, ..Status::default() }.summary();
        assert_eq!(summary.to_string(), "degraded: h");
        let cut_off = Some("cut off".to_string());
        let summary = Status { cut_off, ..Status::default() }.summary();
        assert_eq!(
            (summary.health, summary.to_string().as_str()),
            (Health::Failed, "failed: cut off")
        );
        let cluster = ClusterStatus { warnings: vec!["w".to_string()], ..ClusterStatus::default() };
        let summary = Status { cluster: Some(cluster), ..Status::default() }.summary();
        assert_eq!(summary.to_string(), "degraded: w");
    }

    #[test]
    fn it_is_said_long_before_the_numbers_of_volumes_run_out() {
        let summary = |given, all| {
            let numbers = NumberStatus { given, all };
            Status { numbers, ..Status::default() }.summary().to_string()
        };
        // A process of an earlier version does not say.
        for well in [(0, 0), (499, 1000), (1, 3)] {
            assert_eq!(summary(well.0, well.1), "healthy");
        }
        assert!(summary(500, 1000).starts_with("degraded: 50 % of the numbers"));
        assert!(summary(1000, 1000).starts_with("degraded: 100 % of the numbers"));
    }
}
