//! How much controller, targets and hosts were used, where they are machines at a switch.

use super::super::machines::{Machine, Machines};
use super::super::system::Fabric;
use super::*;

impl Simulation {
    /// How much each kind was, if there is one controller at a switch and hosts are there too.
    pub(super) fn machines(&self) -> Option<Machines> {
        let controller = self.system.controller()?;
        let hosts = self.system.workload.hosts;
        let nodes = self.places.len();
        let end_of = |host: u32| match self.network.host_end(nodes, host) {
            Some(end) => end,
            None => self.diskless.of_host(host) as usize,
        };
        Some(Machines {
            controller: self.machine(controller.into()),
            target: Machine::mean((0..self.system.nodes.workers.into()).map(|n| self.machine(n))),
            host: Machine::mean((0..hosts).map(|h| self.machine(end_of(h)))),
            hosts,
        })
    }

    /// How much what is at an end of the switch was. A host that is no node has no processor there.
    fn machine(&self, end: usize) -> Machine {
        let time = self.measured_time() as f64;
        let [out, back, memory] = self.network.busy_of(end);
        let processor =
            self.places.get(end).map_or(0, |place| self.processors[place.processor as usize].busy);
        Machine {
            processor: processor as f64 / time,
            port: out.max(back) as f64 / time,
            memory: memory as f64 / time,
            port_mb_s: (out + back) as f64 / time * self.system.links.mb_s,
        }
    }
}

impl System {
    /// The node that all requests pass, if there is one, at a switch where hosts have ports.
    fn controller(&self) -> Option<u16> {
        let has_hosts = self.hosts.at_switch || self.nodes.roles.is_controlled();
        let is_one = self.nodes.roles.is_controlled() || self.nodes.diskless() == 1;
        let at_switch = self.links.fabric == Fabric::Switch && has_hosts && is_one;
        at_switch.then(|| self.first_diskless())
    }
}
