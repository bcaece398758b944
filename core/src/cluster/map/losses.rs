//! How many more losses a volume survives, of nodes or of whole failure domains.

use std::collections::{BTreeMap, BTreeSet};

use super::{ClusterMap, Extent, PolicyRange, Volume};
use crate::exposure::{Disks, Rates};
use crate::units::{ColumnSet, NodeId};

impl Volume {
    /// How many parities take each write at once wherever parity may wait; by its own policy if it may nowhere.
    fn immediate_parities(&self) -> usize {
        let waiting = self.redundancies().filter(|r| r.defers());
        let fewest = waiting.map(|r| r.immediate_parities).min();
        fewest.unwrap_or(self.policy.redundancy.immediate_parities).into()
    }

    /// The disks that hold it, and how its operator says that they fail.
    pub fn disks(&self) -> Disks {
        Disks::new(self.nodes().len(), self.policy.redundancy.disk_mttf as f64)
    }

    /// Mean times until its disks lose data, with all parity there and with what may wait out of date. As in AFRAID's (2a)
    /// it counts as a loss if as many disks are lost as cannot be borne, whichever they are.
    pub fn rates(&self) -> Rates {
        self.rates_with(self.immediate_parities())
    }

    /// The same of a range of it: until its disks lose data of that.
    pub fn rates_of(&self, range: &PolicyRange) -> Rates {
        self.rates_with(range.redundancy.immediate_parities.into())
    }

    fn rates_with(&self, immediate: usize) -> Rates {
        let g = &self.geometry;
        Rates::new(&self.disks(), g.any_losses(), g.any_losses_with(immediate))
    }

    /// Bytes an hour that its disks lose, with so many bytes exposed on average (AFRAID's (5)).
    pub fn mdlr(&self, mean_lag: f64) -> f64 {
        self.mdlr_with(self.immediate_parities(), self.size, mean_lag)
    }

    /// The same of a range of it.
    pub fn mdlr_of(&self, range: &PolicyRange, mean_lag: f64) -> f64 {
        let stripe = self.geometry.stripe_bytes();
        let bytes = (range.end * stripe).min(self.size) - range.first * stripe;
        self.mdlr_with(range.redundancy.immediate_parities.into(), bytes, mean_lag)
    }

    fn mdlr_with(&self, immediate: usize, bytes: u64, mean_lag: f64) -> f64 {
        let (disks, g) = (self.disks(), &self.geometry);
        let on_each = bytes as f64 / disks.count;
        disks.mdlr_catastrophic(g.any_losses() + 1, on_each, 1.0)
            + disks.mdlr_unprotected(g.any_losses_with(immediate) + 1, mean_lag)
    }
}

impl ClusterMap {
    /// How many failure domains by a label may be lost together, whichever they are, without a
    /// loss of what is in a volume. Of an extent by its number, the columns on nodes that `lacks`
    /// are lost or behind already.
    pub fn survives(
        &self,
        volume: &Volume,
        label: &str,
        lacks: impl Fn(usize, NodeId) -> bool,
    ) -> usize {
        let domains = self.domains(label);
        let mut seen: BTreeMap<(ColumnSet, Vec<ColumnSet>), usize> = BTreeMap::new();
        let of = |(n, extent): (usize, &Extent)| {
            let mut lost = ColumnSet::EMPTY;
            let mut groups = BTreeMap::<usize, ColumnSet>::new();
            for (column, (node, _)) in extent.columns.iter().enumerate() {
                match lacks(n, *node) {
                    true => lost.insert(column),
                    false => groups.entry(domains[usize::from(node.0)]).or_default().insert(column),
                }
            }
            let mut groups: Vec<ColumnSet> = groups.into_values().collect();
            groups.sort_unstable();
            *seen.entry((lost, groups)).or_insert_with_key(|(lost, groups)| {
                volume.geometry.survives(*lost, groups).unwrap_or(0)
            })
        };
        volume.extents.iter().enumerate().map(of).min().unwrap_or(0)
    }

    /// Of the sets of `size` more nodes that hold parts of a volume, the share that may be lost without a
    /// loss of what is in it; `None` if there are too many to look at. Columns on nodes that `lacks` are
    /// lost already, as in [`ClusterMap::survives`].
    pub fn survived_share(
        &self,
        volume: &Volume,
        size: usize,
        lacks: impl Fn(usize, NodeId) -> bool,
    ) -> Option<f64> {
        /// Beyond this a figure for people is not worth the time.
        const MOST_LOOKS: usize = 200_000;
        let mut kinds: BTreeSet<(ColumnSet, Vec<NodeId>)> = BTreeSet::new();
        for (n, extent) in volume.extents.iter().enumerate() {
            let nodes: Vec<NodeId> = extent.columns.iter().map(|c| c.0).collect();
            let lost = (0..nodes.len()).filter(|c| lacks(n, nodes[*c])).collect();
            kinds.insert((lost, nodes));
        }
        let here = |(lost, nodes): &(ColumnSet, Vec<NodeId>)| -> Vec<NodeId> {
            (0..nodes.len()).filter(|c| !lost.contains(*c)).map(|c| nodes[c]).collect()
        };
        let nodes: Vec<NodeId> =
            kinds.iter().flat_map(here).collect::<BTreeSet<_>>().into_iter().collect();
        let sets = subsets(&nodes, size, MOST_LOOKS / kinds.len().max(1))?;
        let survives = |set: &&Vec<NodeId>| {
            kinds.iter().all(|(lost, nodes)| {
                let more = (0..nodes.len()).filter(|c| set.contains(&nodes[*c])).collect();
                volume.geometry.is_always_recoverable(lost.union(more))
            })
        };
        let survived = sets.iter().filter(survives).count();
        (!sets.is_empty()).then(|| survived as f64 / sets.len() as f64)
    }
}

/// All sets of so many of these nodes, if they are not more than `most`.
fn subsets(nodes: &[NodeId], size: usize, most: usize) -> Option<Vec<Vec<NodeId>>> {
    let mut sets: Vec<Vec<NodeId>> = vec![Vec::new()];
    let mut firsts = vec![0];
    for _ in 0..size {
        let (before, starts) = (std::mem::take(&mut sets), std::mem::take(&mut firsts));
        for (set, first) in before.iter().zip(starts) {
            for (n, node) in nodes.iter().enumerate().skip(first) {
                sets.push(set.iter().copied().chain([*node]).collect());
                firsts.push(n + 1);
            }
            if sets.len() > most {
                return None;
            }
        }
    }
    Some(sets)
}
