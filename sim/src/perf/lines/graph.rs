//! Links from node to node: a torus, or one between any two.

use smallvec::SmallVec;

use super::Hop;
use crate::perf::system::System;

/// How far what cannot be reached is.
const NEVER: u16 = u16::MAX;

/// Nodes and the links between them. Shortest ways round what is dead.
pub(in crate::perf) struct Graph {
    /// Of each node its neighbours, with the line to each.
    next: Vec<SmallVec<[(u32, u32); 4]>>,
    /// Where each line begins and ends.
    ends: Vec<(u32, u32)>,
    dead_lines: Vec<bool>,
    dead_nodes: Vec<bool>,
    /// How far each node is from a destination, once that has been asked for.
    far: Vec<Option<Box<[u16]>>>,
}

/// The links in whose middle interface nodes stand, each by its node and whether it leads down (or to the right).
/// They are spread evenly: first every fifth node's link to the right, the nodes a knight's move from each other.
fn interfaces(count: usize, (width, height): (u16, u16)) -> Vec<(u32, bool)> {
    let (w, h) = (u32::from(width), u32::from(height));
    let class = |c: u32| (0..w * h).filter(move |n| (n % w + 2 * (n / w)) % 5 == c);
    let first = class(0).count();
    if count <= first {
        let all: Vec<u32> = class(0).collect();
        return (0..count).map(|k| (all[k * first / count], false)).collect();
    }
    let links =
        [false, true].into_iter().flat_map(|down| (0..5).flat_map(class).map(move |n| (n, down)));
    links.take(count).collect()
}

impl Graph {
    fn new(nodes: usize) -> Graph {
        Graph {
            next: vec![SmallVec::new(); nodes],
            ends: Vec::new(),
            dead_lines: Vec::new(),
            dead_nodes: vec![false; nodes],
            far: vec![None; nodes],
        }
    }

    /// A torus, its disks numbered row by row, and its interface nodes after them, each in the middle of a link.
    pub fn torus(system: &System) -> Graph {
        let (width, height) = system.torus_sides();
        let (w, h) = (u32::from(width), u32::from(height));
        let controllers = system.nodes.diskless();
        let mut graph = Graph::new((w * h) as usize + controllers);
        let disks = u32::from(system.first_disk());
        let diskless = u32::from(system.first_diskless());
        let between = interfaces(controllers, (width, height));
        for n in 0..w * h {
            let (x, y) = (n % w, n / w);
            for (down, to) in [(false, y * w + (x + 1) % w), (true, (y + 1) % h * w + x)] {
                match between.iter().position(|b| *b == (n, down)) {
                    None => graph.join(disks + n, disks + to),
                    Some(k) => {
                        let middle = diskless + k as u32;
                        graph.join(disks + n, middle);
                        graph.join(middle, disks + to);
                    }
                }
            }
        }
        graph
    }

    /// A link between any two.
    pub fn direct(nodes: usize) -> Graph {
        let mut graph = Graph::new(nodes);
        for a in 0..nodes as u32 {
            (0..a).for_each(|b| graph.join(a, b));
        }
        graph
    }

    /// A link each way.
    fn join(&mut self, a: u32, b: u32) {
        for (from, to) in [(a, b), (b, a)] {
            self.next[from as usize].push((to, self.ends.len() as u32));
            self.ends.push((from, to));
            self.dead_lines.push(false);
        }
    }

    pub fn lines(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is a link between two ends.
    pub fn has_link(&self, (a, b): (u32, u32)) -> bool {
        self.next.get(a as usize).is_some_and(|next| next.iter().any(|(to, _)| *to == b))
    }

    /// The nodes to which a node has links.
    pub fn neighbours(&self, node: u32) -> impl Iterator<Item = u32> {
        self.next[node as usize].iter().map(|(to, _)| *to)
    }

    pub fn sets_link(&mut self, (a, b): (u32, u32), is_dead: bool) {
        for (n, ends) in self.ends.iter().enumerate() {
            if *ends == (a, b) || *ends == (b, a) {
                self.dead_lines[n] = is_dead;
            }
        }
        self.far.fill(None);
    }

    pub fn sets_node(&mut self, node: u32, is_dead: bool) {
        self.dead_nodes[node as usize] = is_dead;
        self.far.fill(None);
    }

    /// Whether all nodes that live reach one another.
    pub fn is_connected(&mut self) -> bool {
        let lives = |dead: &[bool]| (0..dead.len()).filter(|n| !dead[*n]).collect::<Vec<_>>();
        let living = lives(&self.dead_nodes);
        let Some(first) = living.first() else { return true };
        let far = self.far_from(*first as u32);
        living.iter().all(|n| far[*n] != NEVER)
    }

    /// How far all nodes are from one: nobody goes through a dead node.
    fn far_from(&mut self, to: u32) -> &[u16] {
        if self.far[to as usize].is_none() {
            let mut far = vec![NEVER; self.next.len()];
            far[to as usize] = 0;
            let mut reached = vec![to];
            let mut looked_at = 0;
            while let Some(here) = reached.get(looked_at).copied() {
                looked_at += 1;
                for (next, line) in &self.next[here as usize] {
                    // All links die both ways.
                    let is_dead =
                        self.dead_lines[*line as usize] || self.dead_nodes[*next as usize];
                    if far[*next as usize] == NEVER && !is_dead {
                        far[*next as usize] = far[here as usize] + 1;
                        reached.push(*next);
                    }
                }
            }
            self.far[to as usize] = Some(far.into());
        }
        self.far[to as usize].as_deref().expect("just set")
    }

    /// The next line of a shortest way. Of several half of all pairs go across first and half down.
    pub(super) fn hop(&mut self, from: u32, here: u32, to: u32) -> Option<Hop> {
        if self.dead_nodes[to as usize] {
            return None;
        }
        self.far_from(to);
        let far = self.far[to as usize].as_deref().expect("just set");
        let nearer = |(next, line): &&(u32, u32)| {
            let is_dead = self.dead_lines[*line as usize];
            far[*next as usize] < far[here as usize] && !is_dead
        };
        let next = &self.next[here as usize];
        let found = match (from + to).is_multiple_of(2) {
            true => next.iter().find(nearer),
            false => next.iter().rev().find(nearer),
        };
        found.map(|(next, line)| Hop { line: *line, to: *next, is_last: *next == to })
    }

    pub fn name(&self, line: usize) -> String {
        let (from, to) = self.ends[line];
        format!("{from} to {to}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifth_of_the_nodes_have_an_interface_beside_them_evenly() {
        let all = interfaces(20, (10, 10));
        // From each to the next: a knight's move, in every row and column two.
        for row in 0..10 {
            assert_eq!(all.iter().filter(|(n, _)| n / 10 == row).count(), 2, "row {row}");
            assert_eq!(all.iter().filter(|(n, _)| n % 10 == row).count(), 2, "column {row}");
        }
        assert_eq!(interfaces(250, (10, 10)).len(), 200, "a link has room for one");
        assert_eq!(interfaces(5, (10, 10)).len(), 5);
    }
}
