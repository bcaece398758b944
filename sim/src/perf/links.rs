//! What messages travel on.

use std::ops::Range as Span;

use weft_core::units::Nanos;

use super::system::{Fabric, Links, System};

/// Bytes of a message besides the data that it carries.
pub(super) const HEADER: u64 = 64;

/// Links, each of which carries one message at a time, in the order in which they were handed over; a
/// DMA engine at each end moves the bytes, so that processors do not.
struct Wires {
    /// Nanoseconds that a byte takes.
    byte: f64,
    latency: Nanos,
    /// How much longer that may be.
    spread: Nanos,
    chance: fastrand::Rng,
    set_up: Nanos,
    /// Until when each link is taken.
    free: Vec<Nanos>,
    /// For how long each link has been in use.
    busy: Vec<Nanos>,
    /// For how long messages waited for each link or crossed it, all together.
    held: Vec<Nanos>,
}

impl Wires {
    fn new(links: &Links, count: usize, chance: fastrand::Rng) -> Wires {
        let nanos = |us: f64| (us * 1e3).round() as Nanos;
        let latency = nanos(links.latency_us);
        Wires {
            byte: 1e3 / links.mb_s,
            latency,
            spread: links.latency_most_us.map_or(0, nanos).saturating_sub(latency),
            chance,
            set_up: nanos(links.set_up_us),
            free: vec![0; count],
            busy: vec![0; count],
            held: vec![0; count],
        }
    }

    /// Sends so many bytes of data over a link; says when they are there.
    fn cross(&mut self, now: Nanos, link: usize, data: u64) -> Nanos {
        let time = self.time(data);
        let there = self.take(link, now, time);
        there + self.delay()
    }

    /// Sends so many bytes over one link to a switch, and from there over another. It cuts through: the
    /// port out of the switch takes the bytes as they come, but not before it is free.
    fn cross_switch(&mut self, now: Nanos, first: usize, second: usize, data: u64) -> Nanos {
        let time = self.time(data);
        self.cross_all(now, &[(first, time), (second, time)])
    }

    /// Takes one after the other, each for its time, as bytes come: none begins before the first byte can be there, and
    /// none ends before the one before it has.
    fn cross_all(&mut self, now: Nanos, legs: &[(usize, Nanos)]) -> Nanos {
        let (mut first_byte, mut there) = (now, now);
        for (link, time) in legs {
            let free = self.free[*link];
            there = self.take(*link, first_byte.max(there.saturating_sub(*time)), *time);
            first_byte = first_byte.max(free);
        }
        there + self.delay()
    }

    fn time(&self, data: u64) -> Nanos {
        self.set_up + ((data + HEADER) as f64 * self.byte).round() as Nanos
    }

    fn delay(&mut self) -> Nanos {
        let more = if self.spread == 0 { 0 } else { self.chance.u64(0..=self.spread) };
        self.latency + more
    }

    fn take(&mut self, link: usize, now: Nanos, time: Nanos) -> Nanos {
        let begins = now.max(self.free[link]);
        self.free[link] = begins + time;
        self.busy[link] += time;
        self.held[link] += begins + time - now;
        begins + time
    }

    /// Of those with these numbers, the ones that were used in so much time.
    fn used(&self, time: Nanos, which: Span<usize>) -> impl Iterator<Item = LinkUse> {
        let all = self.busy.iter().zip(&self.held).enumerate();
        let used = all.filter(move |(n, (busy, _))| which.contains(n) && **busy > 0);
        used.map(move |(n, (busy, held))| (n, *busy, *held as f64 / time.max(1) as f64))
    }

    fn restart(&mut self) {
        self.busy.fill(0);
        self.held.fill(0);
    }
}

/// A link that was used, by number: for how long, and how many messages waited for it or crossed it on
/// average.
pub(super) type LinkUse = (usize, Nanos, f64);

/// The links between nodes, and the memory that what they carry passes at both ends.
pub(super) struct Network {
    /// Nodes, and after them hosts if they are at the same switch.
    ends: usize,
    fabric: Fabric,
    /// Links, and after them memories if these take time: a machine's each.
    wires: Wires,
    links: usize,
    /// Nanoseconds that a byte takes of a memory.
    memory_byte: Option<f64>,
}

impl Network {
    pub fn new(system: &System, nodes: usize, chance: fastrand::Rng) -> Network {
        let links = &system.links;
        let ends = nodes + if system.hosts.at_switch { system.workload.hosts as usize } else { 0 };
        let count = match links.fabric {
            Fabric::PointToPoint => ends * ends,
            Fabric::Bus => 1,
            // A port in and a port out for each.
            Fabric::Switch => 2 * ends,
            // They have queues: see `lines`.
            Fabric::Torus | Fabric::Hierarchy => 0,
        };
        let memory_byte = system.nodes.memory_mb_s.map(|rate| 1e3 / rate);
        let memories = if memory_byte.is_some() { ends } else { 0 };
        let wires = Wires::new(links, count + memories, chance);
        Network { ends, fabric: links.fabric, wires, links: count, memory_byte }
    }

    /// Sends so many bytes of data; says when they are there.
    pub fn send(&mut self, now: Nanos, from: usize, to: usize, data: u64) -> Nanos {
        if let Some(byte) = self.memory_byte {
            return self.through_memory(now, (from, to), data, byte);
        }
        match self.fabric {
            Fabric::PointToPoint => self.wires.cross(now, from * self.ends + to, data),
            Fabric::Bus => self.wires.cross(now, 0, data),
            Fabric::Switch => self.wires.cross_switch(now, from, self.ends + to, data),
            Fabric::Torus | Fabric::Hierarchy => unreachable!("they have queues"),
        }
    }

    /// Out of one machine's memory, over a switch, and into another's: the data alone takes the memories.
    fn through_memory(
        &mut self,
        now: Nanos,
        (from, to): (usize, usize),
        data: u64,
        byte: f64,
    ) -> Nanos {
        let memory = (data as f64 * byte).round() as Nanos;
        let port = self.wires.time(data);
        self.wires.cross_all(
            now,
            &[
                (self.links + from, memory),
                (from, port),
                (self.ends + to, port),
                (self.links + to, memory),
            ],
        )
    }

    /// The end that a host is, if hosts are at the switch.
    pub fn host_end(&self, nodes: usize, host: u32) -> Option<usize> {
        (self.ends > nodes).then_some(nodes + host as usize)
    }

    /// The links that were used in so much time.
    pub fn used(&self, time: Nanos) -> impl Iterator<Item = LinkUse> {
        self.wires.used(time, 0..self.links)
    }

    /// The memories that were, by their machines.
    pub fn memories_used(&self, time: Nanos) -> impl Iterator<Item = LinkUse> {
        let used = self.wires.used(time, self.links..usize::MAX);
        used.map(|(n, busy, queue)| (n - self.links, busy, queue))
    }

    /// For how long a machine's port into the switch, its port out of it, and its memory were in use.
    pub fn busy_of(&self, end: usize) -> [Nanos; 3] {
        let busy = |n: usize| self.wires.busy.get(n).copied().unwrap_or(0);
        [busy(end), busy(self.ends + end), busy(self.links + end)]
    }

    /// What a link is called.
    pub fn name(&self, link: usize) -> String {
        match self.fabric {
            Fabric::PointToPoint => format!("{} to {}", link / self.ends, link % self.ends),
            Fabric::Bus => "bus".to_string(),
            Fabric::Switch if link < self.ends => format!("{link} to switch"),
            Fabric::Switch => format!("switch to {}", link - self.ends),
            Fabric::Torus | Fabric::Hierarchy => unreachable!("they have queues"),
        }
    }

    /// Begins to measure.
    pub fn restart(&mut self) {
        self.wires.restart();
    }
}

/// The links between hosts and the nodes that take their requests: one from each host to its node and one
/// back, one for all, or one from each host and each node to a switch and one back.
pub(super) struct HostLinks {
    hosts: usize,
    nodes: usize,
    fabric: Fabric,
    wires: Wires,
}

impl HostLinks {
    pub fn new(links: &Links, hosts: usize, nodes: usize, chance: fastrand::Rng) -> HostLinks {
        let count = match links.fabric {
            Fabric::PointToPoint => 2 * hosts,
            Fabric::Bus => 1,
            Fabric::Switch => 2 * (hosts + nodes),
            Fabric::Torus | Fabric::Hierarchy => unreachable!("hosts have no such links"),
        };
        let wires = Wires::new(links, count, chance);
        HostLinks { hosts, nodes, fabric: links.fabric, wires }
    }

    /// Sends a request with so many bytes of data; says when it is at the node.
    pub fn ask(&mut self, now: Nanos, host: usize, node: usize, data: u64) -> Nanos {
        self.send(now, host, self.hosts + node, host, data)
    }

    /// Sends a reply with so many bytes of data; says when it is at the host.
    pub fn reply(&mut self, now: Nanos, host: usize, node: usize, data: u64) -> Nanos {
        self.send(now, self.hosts + node, host, self.hosts + host, data)
    }

    /// From one end to another, hosts' first; if each host has links to itself, over this one.
    fn send(&mut self, now: Nanos, from: usize, to: usize, own: usize, data: u64) -> Nanos {
        match self.fabric {
            Fabric::PointToPoint => self.wires.cross(now, own, data),
            Fabric::Bus => self.wires.cross(now, 0, data),
            Fabric::Switch => {
                let ends = self.hosts + self.nodes;
                self.wires.cross_switch(now, from, ends + to, data)
            }
            Fabric::Torus | Fabric::Hierarchy => unreachable!("hosts have no such links"),
        }
    }

    /// The links that were used in so much time.
    pub fn used(&self, time: Nanos) -> impl Iterator<Item = LinkUse> {
        self.wires.used(time, 0..usize::MAX)
    }

    /// What a link is called.
    pub fn name(&self, link: usize) -> String {
        let end = |n: usize| match n.checked_sub(self.hosts) {
            None => format!("host {n}"),
            Some(node) => format!("node {node}"),
        };
        let ends = self.hosts + self.nodes;
        match self.fabric {
            Fabric::PointToPoint if link < self.hosts => format!("host {link} to array"),
            Fabric::PointToPoint => format!("array to host {}", link - self.hosts),
            Fabric::Bus => "bus".to_string(),
            Fabric::Switch if link < ends => format!("{} to switch", end(link)),
            Fabric::Switch => format!("switch to {}", end(link - ends)),
            Fabric::Torus | Fabric::Hierarchy => unreachable!("hosts have no such links"),
        }
    }

    /// Begins to measure.
    pub fn restart(&mut self) {
        self.wires.restart();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever is said, with one host.
    fn described(links: Links) -> System {
        let text = "[workload]\narrivals.closed.population = 1\nrequests.imitation = \"oltp\"\nhosts = 1\n";
        let mut system: System = toml::from_str(text).unwrap();
        system.links = links;
        system
    }

    fn slow(fabric: Fabric) -> Links {
        Links { fabric, mb_s: 1.0, latency_us: 10.0, set_up_us: 5.0, ..Links::default() }
    }

    fn of(system: &System, nodes: usize) -> Network {
        Network::new(system, nodes, fastrand::Rng::with_seed(1))
    }

    fn network(fabric: Fabric) -> Network {
        of(&described(slow(fabric)), 3)
    }

    /// 436 bytes and the header are 500 us at 1 MB/s.
    const DATA: u64 = 436;

    #[test]
    fn a_wire_carries_one_message_at_a_time_and_pairs_have_wires_of_their_own() {
        let mut w = network(Fabric::PointToPoint);
        assert_eq!(w.send(0, 0, 1, DATA), 515_000);
        assert_eq!(w.send(0, 0, 1, DATA), 1_020_000);
        assert_eq!(w.send(0, 1, 0, DATA), 515_000);
        assert_eq!(w.send(0, 0, 2, DATA), 515_000);
        assert_eq!(w.send(2_000_000, 0, 1, DATA), 2_515_000);
    }

    #[test]
    fn all_share_a_bus_and_at_saturation_it_is_never_idle() {
        let mut w = network(Fabric::Bus);
        let mut last = 0;
        for n in 0..100 {
            last = w.send(0, n % 3, (n + 1) % 3, DATA);
        }
        assert_eq!(last, 100 * 505_000 + 10_000);
        let all: Vec<_> = w.used(last - 10_000).collect();
        // The n-th of a hundred waits for those before it, so half of them are there on average.
        assert_eq!(all, [(0, last - 10_000, 50.5)]);
    }

    #[test]
    fn latencies_that_vary_lie_in_their_window_and_messages_overtake_one_another() {
        let links = Links {
            fabric: Fabric::Switch,
            latency_us: 1_000.0,
            latency_most_us: Some(2_000.0),
            ..Links::default()
        };
        let mut w = of(&described(links), 2);
        // 64 bytes at 10 MB/s are 6.4 us.
        let late: Vec<Nanos> =
            (0..1_000).map(|n| w.send(n * 10_000, 0, 1, 0) - n * 10_000 - 6_400).collect();
        assert!(late.iter().all(|l| (1_000_000..=2_000_000).contains(l)));
        let mean = late.iter().sum::<u64>() / 1_000;
        assert!((1_480_000..1_520_000).contains(&mean), "{mean}");
        assert!(late.windows(2).any(|l| l[0] > l[1] + 10_000), "nobody is overtaken");
    }

    #[test]
    fn a_switch_has_a_port_in_and_a_port_out_for_each() {
        let mut w = network(Fabric::Switch);
        assert_eq!(w.send(0, 0, 2, DATA), 515_000);
        assert_eq!(w.send(0, 1, 2, DATA), 1_020_000, "the port to node 2 is taken");
        assert_eq!(w.send(0, 2, 0, DATA), 515_000);
    }

    #[test]
    fn a_host_at_the_switch_shares_the_ports_that_nodes_have_among_themselves() {
        let mut system = described(slow(Fabric::Switch));
        system.hosts.at_switch = true;
        let mut w = of(&system, 3);
        let host = w.host_end(3, 0).unwrap();
        assert_eq!(w.send(0, host, 2, DATA), 515_000);
        assert_eq!(w.send(0, 1, 2, DATA), 1_020_000, "the port to node 2 is taken");
        assert_eq!(w.send(0, 2, host, DATA), 515_000, "the way back is another");
        let used: Vec<_> = w.used(1_010_000).map(|(n, ..)| w.name(n)).collect();
        let names = ["1 to switch", "2 to switch", "3 to switch", "switch to 2", "switch to 3"];
        assert_eq!(used, names);
        assert_eq!(w.busy_of(2), [505_000, 1_010_000, 0]);
        assert_eq!(network(Fabric::Switch).host_end(3, 0), None);
    }

    #[test]
    fn data_passes_a_machines_memory_as_it_comes_and_no_header_does() {
        // At 1 MB/s 436 bytes are 436 us of a memory as of a link, and at 4 MB/s 109.
        let at = |rate| {
            let mut system = described(slow(Fabric::Switch));
            system.nodes.memory_mb_s = Some(rate);
            of(&system, 3)
        };
        let mut fast = at(4.0);
        assert_eq!(fast.send(0, 0, 1, DATA), 515_000, "a link is slower");
        assert_eq!(fast.busy_of(0), [505_000, 0, 109_000]);
        assert_eq!(fast.busy_of(1), [0, 505_000, 109_000]);
        // Of half the link's rate it is 872 us, and the last byte leaves it then.
        let mut slow = at(0.5);
        assert_eq!(slow.send(0, 0, 1, DATA), 872_000 + 10_000);
        assert_eq!(slow.send(0, 2, 1, DATA), 2 * 872_000 + 10_000, "the memory of 1 is taken");
        assert_eq!(slow.send(0, 0, 2, 0), 872_000 + 69_000 + 10_000, "it waits for data before it");
        let used: Vec<_> = slow.memories_used(1).map(|(n, busy, _)| (n, busy)).collect();
        assert_eq!(used, [(0, 872_000), (1, 1_744_000), (2, 872_000)]);
    }

    fn host_links(fabric: Fabric) -> HostLinks {
        let links = slow(fabric);
        HostLinks::new(&links, 2, 3, fastrand::Rng::with_seed(1))
    }

    #[test]
    fn a_host_has_a_link_each_way_and_the_next_waits_for_it() {
        let mut w = host_links(Fabric::PointToPoint);
        assert_eq!(w.ask(0, 0, 0, DATA), 515_000);
        assert_eq!(w.ask(0, 0, 0, DATA), 1_020_000);
        assert_eq!(w.reply(0, 0, 0, DATA), 515_000, "the way back is another");
        assert_eq!(w.ask(0, 1, 0, DATA), 515_000, "so is another host's");
        let used: Vec<_> = w.used(1_010_000).map(|(n, ..)| w.name(n)).collect();
        assert_eq!(used, ["host 0 to array", "host 1 to array", "array to host 0"]);
    }

    #[test]
    fn hosts_share_a_bus_and_at_a_switch_those_of_one_node_share_its_port() {
        let mut w = host_links(Fabric::Bus);
        assert_eq!(w.ask(0, 0, 0, DATA), 515_000);
        assert_eq!(w.reply(0, 1, 2, DATA), 1_020_000);
        let mut w = host_links(Fabric::Switch);
        assert_eq!(w.ask(0, 0, 1, DATA), 515_000);
        assert_eq!(w.ask(0, 1, 1, DATA), 1_020_000, "the port to node 1 is taken");
        assert_eq!(w.reply(0, 1, 2, DATA), 515_000);
        let used: Vec<_> = w.used(1_010_000).map(|(n, ..)| w.name(n)).collect();
        let names = ["host 0 to switch", "host 1 to switch", "node 2 to switch"];
        assert_eq!(used, [&names[..], &["switch to host 1", "switch to node 1"]].concat());
    }
}
