//! The order of requests on nodes that do nothing else, over wires that lose, repeat and reorder:
//! what begins is seen, whoever let it.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;

use super::*;
use crate::cluster::{Extent, NodeInfo};
use crate::layout::{Geometry, LayoutSpec};
use crate::node::{Body, Envelope, Output};
use crate::order::Ordering;
use crate::policy::Policy;
use crate::units::{MILLIS, SECTOR};

const VOLUME: VolumeId = VolumeId(1);
const NODES: u16 = 5;
/// How many requests are asked in a run.
const ASKED: u64 = 60;

/// A request that its host was not answered yet.
#[derive(Clone, Debug)]
struct Asked {
    node: usize,
    id: RequestId,
    after: Vec<RequestId>,
    reach: Option<Reach>,
}

struct Net {
    rng: Rng,
    now: Nanos,
    map: ClusterMap,
    nodes: Vec<(Sequencing, Outbox)>,
    wires: Vec<Envelope>,
    asked: BTreeMap<u64, Asked>,
    running: BTreeSet<u64>,
    done: BTreeSet<RequestId>,
    /// For each host the numbers that it has not heard the good end of, and its next.
    hosts: Vec<(BTreeSet<u64>, u64)>,
    begun: u64,
    refused: u64,
}

fn map(form: SequencerForm) -> ClusterMap {
    let layout: LayoutSpec = "raid5".parse().unwrap();
    let geometry = Geometry::new(layout.over(usize::from(NODES)).unwrap(), SECTOR);
    let columns = (0..NODES).map(|n| (NodeId(n), 0)).collect();
    let extents = vec![Extent::new(0, columns)];
    let size = geometry.stripe_bytes();
    let policy = Policy { ordering: Ordering::Sequencer, sequencer: form, ..Policy::default() };
    let volume = Volume::new(VOLUME, "v", size, &layout, geometry, extents);
    let volume = Volume { policy, ..volume };
    let nodes = vec![NodeInfo::new(1, 100); usize::from(NODES)];
    let volumes = [(VOLUME, Arc::new(volume))].into();
    ClusterMap { epoch: 1, nodes, volumes, next_volume: 2, ..ClusterMap::default() }
}

impl Net {
    fn new(form: SequencerForm, seed: u64) -> Net {
        let config = NodeConfig { patience: 40 * MILLIS, ..NodeConfig::default() };
        let node = |n| (Sequencing::new(NodeId(n), config), Outbox::new(NodeId(n), MILLIS));
        let mut net = Net {
            rng: Rng::with_seed(seed),
            now: 0,
            map: map(form),
            nodes: (0..NODES).map(node).collect(),
            wires: Vec::new(),
            asked: BTreeMap::new(),
            running: BTreeSet::new(),
            done: BTreeSet::new(),
            hosts: vec![(BTreeSet::new(), 1); 3],
            begun: 0,
            refused: 0,
        };
        net.enter();
        net
    }

    fn up(&self) -> Vec<usize> {
        self.map.up().map(|n| usize::from(n.0)).collect()
    }

    /// All nodes that are up enter the map's epoch, one after another.
    fn enter(&mut self) {
        self.wires.clear();
        let map = Arc::new(self.map.clone());
        self.up().into_iter().for_each(|n| self.nodes[n].0.freeze());
        for n in self.up() {
            self.with(n, |node, outbox| {
                outbox.enter(map.epoch);
                node.enter(&map, outbox);
            });
        }
    }

    /// Has a node do something, and sees what it puts out.
    fn with(&mut self, n: usize, act: impl FnOnce(&mut Sequencing, &mut Outbox)) {
        let (node, outbox) = &mut self.nodes[n];
        outbox.now = self.now;
        act(node, outbox);
        while node.run(outbox) {}
        let begun: Vec<_> = std::iter::from_fn(|| node.next_begun()).collect();
        outbox.take_answered();
        let mut out = Vec::new();
        outbox.finish(crate::store::Reached::default(), &mut out);
        for output in out {
            match output {
                Output::Send(envelope) => self.wires.push(*envelope),
                Output::Reply(number, result) => {
                    assert!(result.is_err() && !self.running.contains(&number));
                    self.asked.remove(&number).expect("it was asked");
                    self.refused += 1;
                }
                _ => {}
            }
        }
        begun.into_iter().for_each(|(number, ..)| self.begins(number));
    }

    /// A request begins: all that it names are done, and none that it overlaps with runs.
    fn begins(&mut self, number: u64) {
        let asked = &self.asked[&number];
        for other in &asked.after {
            assert!(self.done.contains(other), "{} before {other}", asked.id);
        }
        for other in self.running.iter().map(|n| &self.asked[n]) {
            let both = asked.reach.zip(other.reach);
            let meet = both.is_some_and(|(a, b)| a.conflicts(&b));
            assert!(!meet, "{} while {} runs", asked.id, other.id);
        }
        assert!(self.running.insert(number), "it begins twice");
        self.begun += 1;
    }

    fn ask(&mut self, number: u64) {
        let up = self.up();
        let node = up[self.rng.usize(0..up.len())];
        let host = self.rng.usize(0..self.hosts.len());
        let mine = self.hosts[host].1;
        let id = RequestId { host: HostId(host as u64), number: mine };
        let mut after = Vec::new();
        for _ in 0..self.rng.usize(0..3) {
            let other = self.rng.usize(0..self.hosts.len());
            // Most have been asked; some come next, or never.
            let next = self.hosts[other].1;
            let number = self.rng.u64(next.saturating_sub(6).max(1)..=next);
            after.push(RequestId { host: HostId(other as u64), number });
        }
        after.retain(|other| *other != id);
        self.hosts[host].0.insert(mine);
        self.hosts[host].1 += 1;
        let oldest = *self.hosts[host].0.first().expect("this one");
        let place = Place { id, after: after.clone(), oldest };
        let range = Range { offset: self.rng.u64(0..8) * 512, len: self.rng.u64(1..3) * 512 };
        let op = match self.rng.bool() {
            true => HostOp::Read(range),
            false => HostOp::Trim(range),
        };
        let reach = reach_of(VOLUME, &op);
        self.asked.insert(number, Asked { node, id, after, reach });
        self.with(node, |node, outbox| node.ordered(number, VOLUME, place, op, outbox));
    }

    /// One that runs ends.
    fn end(&mut self) {
        let which = self.rng.usize(0..self.running.len().max(1));
        let Some(number) = self.running.iter().nth(which).copied() else { return };
        let Asked { node, id, .. } = self.asked.remove(&number).expect("it runs");
        self.running.remove(&number);
        let well = self.rng.u8(0..8) > 0;
        if well {
            self.done.insert(id);
            self.hosts[id.host.0 as usize].0.remove(&id.number);
        }
        let result = if well { Ok(()) } else { Err(HostError::TooManyLost) };
        self.with(node, |node, outbox| node.answered(number, &result, outbox));
    }

    /// A message arrives: any.
    fn arrive(&mut self, lossy: bool) {
        if self.wires.is_empty() {
            return;
        }
        let which = self.rng.usize(0..self.wires.len());
        let repeated = lossy && self.rng.u8(0..20) == 0;
        let envelope = match repeated {
            true => self.wires[which].clone(),
            false => self.wires.swap_remove(which),
        };
        if lossy && self.rng.u8(0..40) == 0 {
            return;
        }
        let Envelope { from, to, hops, body: Some(Body::Sequence(message)), .. } = envelope else {
            panic!("nothing else is said")
        };
        self.with(usize::from(to.0), |node, outbox| {
            outbox.hops = hops;
            node.message(from, message, outbox);
        });
    }

    /// Time passes.
    fn tick(&mut self, by: Nanos) {
        self.now += by;
        for n in self.up() {
            self.with(n, |node, outbox| node.tick(outbox));
        }
    }

    /// The next epoch begins; a node may be gone, and another form may keep the graph.
    fn change(&mut self) {
        let up = self.up();
        if up.len() > 2 && self.rng.bool() {
            let victim = up[self.rng.usize(0..up.len())];
            self.map.nodes[victim].up = false;
            let gone: Vec<u64> =
                self.asked.iter().filter(|a| a.1.node == victim).map(|a| *a.0).collect();
            for number in gone {
                self.asked.remove(&number);
                self.running.remove(&number);
            }
        } else {
            let form = SequencerForm::ALL[self.rng.usize(0..4)];
            let volume = self.map.volumes.get_mut(&VOLUME).expect("it is there");
            Arc::make_mut(volume).policy.sequencer = form;
        }
        self.map.epoch += 1;
        self.enter();
    }

    /// Lets all come to an end.
    fn rest(&mut self) {
        for round in 0.. {
            let busy = self.up().into_iter().any(|n| self.nodes[n].0.is_busy());
            if !busy && self.wires.is_empty() && self.asked.is_empty() {
                return;
            }
            let words: Vec<_> = self.up().iter().map(|n| self.nodes[*n].0.waiting()).collect();
            assert!(round < 2000, "{:?}\n{words:#?}", self.asked);
            while !self.wires.is_empty() {
                self.arrive(false);
            }
            self.end();
            self.tick(41 * MILLIS);
        }
    }
}

/// A run: requests come and end, messages arrive in any order, and now and then an epoch begins.
fn run(form: SequencerForm, seed: u64, changes: bool) -> (u64, u64) {
    let mut net = Net::new(form, seed);
    let mut left = 1..=ASKED;
    while !left.is_empty() {
        match net.rng.u8(0..64) {
            0 if changes => net.change(),
            0 | 1 => net.tick(41 * MILLIS),
            2..8 => net.ask(left.next().expect("not empty")),
            8..14 => net.end(),
            _ => net.arrive(true),
        }
    }
    net.rest();
    (net.begun, net.refused)
}

fn runs(changes: bool) {
    for form in SequencerForm::ALL {
        let (mut begun, mut refused) = (0, 0);
        for seed in 0..300 {
            let (b, r) = run(form, seed, changes);
            begun += b;
            refused += r;
        }
        assert!(begun > 6000 && refused > 300, "{form}: {begun} begun, {refused} refused");
    }
}

#[test]
fn what_begins_comes_after_all_it_names_and_alone_where_it_overlaps() {
    runs(false);
}

#[test]
fn that_holds_when_nodes_are_lost_and_when_forms_take_over_from_one_another() {
    runs(true);
}
