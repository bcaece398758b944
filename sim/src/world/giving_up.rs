//! Nodes that the authority gives up by itself: the time that it is told, and what must hold of each of them.

use weft_core::node::Bug;

use super::*;

/// What is known of nodes that were given up.
#[derive(Default)]
pub(super) struct GivenUp {
    /// Nodes that operators gave up.
    asked: BTreeSet<NodeId>,
    /// How often the authority of a world without processes is told the time, if it is.
    ticks: Option<Nanos>,
    /// How many nodes were given up by themselves.
    count: u64,
}

impl GivenUp {
    pub fn was_asked(&mut self, node: NodeId) {
        self.asked.insert(node);
    }
}

impl World {
    /// Nodes are to be given up when they have been down for so long, or no more by themselves.
    pub fn give_up_after(&mut self, after: Option<Nanos>) {
        self.tell(|| format!("nodes that are down are given up after {after:?} ns"));
        self.operator(Change::Set(ClusterSetting::GiveUpAfter(after)));
        if let Some(after) = after.filter(|_| self.together.is_none()) {
            let every = (after / 4).max(MICROS);
            if self.given_up.ticks.replace(every).is_none() {
                self.queue.push(every, Event::Tick);
            }
        }
    }

    /// The authority is told the time, and will be again.
    pub(super) fn tick(&mut self) {
        let Some(every) = self.given_up.ticks else { return };
        self.queue.push(every, Event::Tick);
        if self.awaited.is_none() {
            self.authority_input(AuthorityInput::Tick(self.now()));
        }
    }

    /// How many nodes were given up by themselves.
    pub fn given_up(&self) -> u64 {
        self.given_up.count
    }

    pub(super) fn new_authority(&self, map: ClusterMap) -> Authority {
        let bug = match self.config.bug {
            Some(Bug::Authority(bug)) => Some(bug),
            _ => None,
        };
        Authority::new(map).with_bug(bug)
    }

    /// A map is made from another. Those that are given up in it, and that no operator gave up, are of one failure domain,
    /// nothing else is being rebuilt, and every volume can go on without them: that is worked out here anew.
    pub(super) fn judge_giving_up(&mut self, before: &ClusterMap, after: &ClusterMap) {
        let is = |map: &ClusterMap, n: NodeId| {
            map.nodes.get(usize::from(n.0)).is_some_and(|info| info.given_up)
        };
        let all = (0..after.nodes.len() as u16).map(NodeId);
        let own: Vec<NodeId> = all
            .clone()
            .filter(|n| is(after, *n) && !is(before, *n) && !self.given_up.asked.contains(n))
            .collect();
        let Some(first) = own.first() else { return };
        self.given_up.count += own.len() as u64;
        self.tell(|| format!("{own:?} are given up"));
        assert!(
            after.settings.give_up_after.is_some(),
            "{own:?} are given up, and the setting says never"
        );
        let domains = after.domains("box");
        let domain = |n: &NodeId| domains[usize::from(n.0)];
        assert!(own.iter().all(|n| domain(n) == domain(first)), "{own:?} are given up together");
        let left = |n: &NodeId| {
            is(before, *n) && is(after, *n) && before.columns_on(*n) > 0 && after.columns_on(*n) > 0
        };
        let left: Vec<NodeId> = all.filter(left).collect();
        assert!(left.is_empty(), "{own:?} are given up while {left:?} still have columns");
        for volume in after.volumes.values() {
            let Some(earlier) = before.volumes.get(&volume.id) else { continue };
            for extent in &volume.extents {
                let Some(old) = earlier.extents.iter().find(|e| e.first == extent.first) else {
                    continue;
                };
                let computed =
                    |e: &Extent, c: &usize| e.filling.contains_key(c) && !e.leaving.contains_key(c);
                let still = |c: &usize| {
                    computed(old, c) && computed(extent, c) && old.columns[*c] == extent.columns[*c]
                };
                let filled = (0..extent.columns.len()).find(still);
                assert!(filled.is_none(), "{own:?} are given up while {filled:?} is being rebuilt");
                if own.iter().all(|n| old.place_on(*n).is_none()) {
                    continue;
                }
                let missed = |n: NodeId| {
                    let attendance = after.attendance.get(&volume.id);
                    attendance
                        .is_some_and(|a| a.stale_since.contains_key(&n) || a.forgot.contains(&n))
                };
                let lost = |c: &usize| {
                    let node = extent.columns[*c].0;
                    !after.is_up(node) || missed(node) || computed(extent, c)
                };
                let lost: ColumnSet = (0..extent.columns.len()).filter(lost).collect();
                assert!(
                    volume.geometry.is_always_recoverable(lost),
                    "{own:?} are given up, and the volume needs them: {lost:?} are lost"
                );
            }
        }
    }
}
