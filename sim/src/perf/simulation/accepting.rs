//! Hosts that ask on as soon as their request is accepted, and buffers that bound what is (DR-net, 3.1.1).
//!
//! A request is accepted if whoever it is for has room in his buffer: the controller, or on a torus the disk that it
//! begins at. It has its place there until it is answered. Else its host is stuck until there is room. A host whose
//! request is accepted asks the next when it has left: when it is at its controller, or, where it asks a node on
//! a torus, when nothing of that node waits for its first link any more, or crosses it.

use std::collections::VecDeque;

use super::super::system::Fabric;
use super::*;

/// Who has accepted how much, and who is stuck.
pub(super) struct Acceptance {
    buffers: u32,
    accepted: Vec<u32>,
    /// Requests that wait for room at a node.
    stuck: Vec<VecDeque<u32>>,
    /// Hosts that ask on when what their node sends has left it.
    leaving: Vec<u32>,
}

impl Acceptance {
    pub fn new(system: &System, nodes: usize) -> Option<Acceptance> {
        Some(Acceptance {
            buffers: system.nodes.buffers?,
            accepted: vec![0; nodes],
            stuck: vec![VecDeque::new(); nodes],
            leaving: Vec::new(),
        })
    }
}

impl Simulation {
    /// Whose buffer a request at this place of the volume needs room in, when a node is asked for it.
    fn accepting(&self, offset: u64, originator: u32) -> u32 {
        let nodes = &self.system.nodes;
        match self.system.links.fabric == Fabric::Torus && nodes.originators == 0 {
            true => self.disk_at(offset),
            false => originator,
        }
    }

    /// The node that has the volume's byte on its disk.
    pub(super) fn disk_at(&self, offset: u64) -> u32 {
        let g = &self.volume.geometry;
        let unit = offset / g.unit;
        let columns = g.data_columns() as u64;
        let (stripe, i) = (unit / columns, (unit % columns) as usize);
        self.volume.extent(stripe).columns[g.layout.data_column(stripe, i)].0.0.into()
    }

    /// A host is to ask a request: now if there is room for it; else it is stuck.
    pub(super) fn asks_if_room(&mut self, request: u32) -> Result<(), String> {
        let r = self.requests[request as usize].as_ref().expect("a request in work");
        let at = self.accepting(r.ask.offset, r.originator) as usize;
        let Some(acceptance) = &mut self.acceptance else { return self.ask(request) };
        if acceptance.accepted[at] >= acceptance.buffers {
            acceptance.stuck[at].push_back(request);
            return Ok(());
        }
        acceptance.accepted[at] += 1;
        self.ask(request)
    }

    /// A request is where it is taken in: its host asks on.
    pub(super) fn is_taken_in(&mut self, host: u32, node: u32) -> Result<(), String> {
        let leaves = self.lines.as_ref().is_some_and(|l| !l.has_hosts() && l.leaving(node) > 0);
        match &mut self.acceptance {
            Some(acceptance) if leaves => acceptance.leaving.push(host),
            Some(_) => self.next_ask(host)?,
            None => {}
        }
        Ok(())
    }

    /// Hosts ask on whose nodes have nothing any more that leaves.
    pub(super) fn ask_on_where_left(&mut self) -> Result<(), String> {
        let (Some(acceptance), Some(lines)) = (&mut self.acceptance, &self.lines) else {
            return Ok(());
        };
        if acceptance.leaving.is_empty() {
            return Ok(());
        }
        let first = u32::from(self.system.first_diskless());
        let nodes = self.system.nodes.diskless().max(1) as u32;
        let originators = u32::from(self.system.nodes.originators);
        let node = |host: u32| match originators {
            0 => first + host % nodes,
            n => host % n,
        };
        let (on, still): (Vec<u32>, Vec<u32>) =
            acceptance.leaving.drain(..).partition(|host| lines.leaving(node(*host)) == 0);
        acceptance.leaving = still;
        on.into_iter().try_for_each(|host| self.next_ask(host))
    }

    /// A request is answered: there is room for another.
    pub(super) fn makes_room(&mut self, offset: u64, originator: u32) -> Result<(), String> {
        let at = self.accepting(offset, originator) as usize;
        let Some(acceptance) = &mut self.acceptance else { return Ok(()) };
        acceptance.accepted[at] -= 1;
        match acceptance.stuck[at].pop_front() {
            Some(request) => self.asks_if_room(request),
            None => Ok(()),
        }
    }
}
