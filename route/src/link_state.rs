//! Which connections processes have, as far as is known, and the paths over them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weft_core::units::NodeId;

/// The most connections that a circuit goes over.
pub const MOST_HOPS: usize = 16;

/// Numbers of link states are below this: nobody counts so far, and one who says so says nothing.
pub(crate) const MOST_NUMBER: u64 = 1 << 62;

/// Which connections a process has, as it says itself (a link-state advertisement).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkState {
    /// The process.
    pub of: NodeId,
    /// Its life: a random number of this run of it.
    pub life: u64,
    /// Counts what it has said; of two the higher is the later.
    pub number: u64,
    /// Whether circuits may go through it.
    pub relays: bool,
    /// The processes at the other ends.
    pub links: BTreeSet<NodeId>,
    /// Those at the ends of connections that carry, and were bad a while ago.
    pub mending: BTreeSet<NodeId>,
}

/// Which connections a path may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// Good ones.
    Good,
    /// All that carry.
    All,
}

/// What is to be done with a link state that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Worth {
    /// It is later than what is known: all others are to hear it.
    New,
    /// It is known.
    Known,
    /// Something later is known: who said it is to hear that.
    Old,
    /// It is of a process that does not belong to the cluster.
    Strange,
}

/// The link states of all processes of the cluster.
pub(crate) struct Table {
    us: NodeId,
    /// Those that belong to the cluster, without us.
    listed: BTreeSet<NodeId>,
    known: BTreeMap<NodeId, LinkState>,
}

impl Table {
    pub fn new(us: NodeId) -> Table {
        Table { us, listed: BTreeSet::new(), known: BTreeMap::new() }
    }

    pub fn list(&mut self, process: NodeId) {
        self.listed.insert(process);
    }

    pub fn unlist(&mut self, process: NodeId) {
        self.listed.remove(&process);
        self.known.remove(&process);
    }

    pub fn lists(&self, process: NodeId) -> bool {
        self.listed.contains(&process)
    }

    pub fn of(&self, process: NodeId) -> Option<&LinkState> {
        self.known.get(&process)
    }

    pub fn all(&self) -> impl Iterator<Item = &LinkState> {
        self.known.values()
    }

    /// What others say of themselves or we of ourselves; that is kept if it is the latest.
    pub fn take(&mut self, state: LinkState) -> Worth {
        if state.of != self.us && !self.lists(state.of) {
            return Worth::Strange;
        }
        // Two lives of one number: either will do, if all choose the same.
        let age = |n: &LinkState| (n.number, n.life);
        match self.known.get(&state.of) {
            Some(known) if age(known) > age(&state) => Worth::Old,
            Some(known) if age(known) == age(&state) => Worth::Known,
            _ => {
                self.known.insert(state.of, state);
                Worth::New
            }
        }
    }

    /// The same for two that know the same.
    pub fn digest(&self) -> u64 {
        let one = |n: &LinkState| mix(mix(mix(u64::from(n.of.0)) ^ n.life) ^ n.number);
        self.known.values().fold(0, |all, n| all ^ one(n))
    }

    /// Whether both ends say that there is a connection between them. So a process that is gone has none, whatever
    /// it has said last.
    fn connects(&self, a: NodeId, b: NodeId, over: Over) -> bool {
        let says = |a, b| {
            self.known.get(&a).is_some_and(|n: &LinkState| {
                n.links.contains(&b) || (over == Over::All && n.mending.contains(&b))
            })
        };
        says(a, b) && says(b, a)
    }

    /// The shortest path to a process, with both ends, if there is one of two connections or more. Of several it is
    /// the same each time, and another for other ends: so relays share the load.
    pub fn path(&self, to: NodeId, over: Over) -> Option<Vec<NodeId>> {
        let mut before: BTreeMap<NodeId, NodeId> = BTreeMap::from([(self.us, self.us)]);
        let mut ring = VecDeque::from([(self.us, 0)]);
        let salt = mix(u64::from(self.us.0.min(to.0)) << 16 | u64::from(self.us.0.max(to.0)));
        while let Some((at, hops)) = ring.pop_front() {
            if at == to {
                return Some(self.walk(to, &before));
            }
            let Some(state) = self.known.get(&at) else { continue };
            if hops == MOST_HOPS || (at != self.us && !state.relays) {
                continue;
            }
            let mut next: Vec<NodeId> = state.links.union(&state.mending).copied().collect();
            next.sort_by_key(|n| (mix(salt ^ u64::from(n.0)), *n));
            for n in next {
                // A connection of our own that is good needs no path.
                let direct = at == self.us && n == to;
                if !direct && !before.contains_key(&n) && self.connects(at, n, over) {
                    before.insert(n, at);
                    ring.push_back((n, hops + 1));
                }
            }
        }
        None
    }

    fn walk(&self, to: NodeId, before: &BTreeMap<NodeId, NodeId>) -> Vec<NodeId> {
        let mut path = vec![to];
        let mut at = to;
        while at != self.us {
            at = before[&at];
            path.push(at);
        }
        path.reverse();
        path
    }
}

/// Mixes the bits of a number (splitmix64).
fn mix(n: u64) -> u64 {
    let n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ n >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that is gone has said last that it has all its connections.
    #[test]
    fn a_connection_counts_if_both_ends_say_that_they_have_it() {
        let to = NodeId(2);
        let path = |one: Over, links: [&[u16]; 3]| {
            let mut table = Table::new(NodeId(0));
            (1..3).for_each(|n| table.list(NodeId(n)));
            for (of, links) in (0..).map(NodeId).zip(links) {
                let all: BTreeSet<NodeId> = links.iter().copied().map(NodeId).collect();
                let (links, mending) = match one {
                    Over::Good => (all, BTreeSet::new()),
                    Over::All => (BTreeSet::new(), all),
                };
                table.take(LinkState { of, life: 1, number: 1, relays: true, links, mending });
            }
            table.path(to, one)
        };
        for over in [Over::Good, Over::All] {
            assert_eq!(path(over, [&[1], &[0, 2], &[1]]), Some([0, 1, 2].map(NodeId).to_vec()));
            assert_eq!(path(over, [&[1], &[0, 2], &[]]), None, "the far end has not heard of it");
            assert_eq!(path(over, [&[1], &[0], &[1]]), None, "the relay has lost it");
            assert_eq!(path(over, [&[1], &[2], &[1]]), None, "nor has it one with us");
        }
    }
}
