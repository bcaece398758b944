//! What messages travel on.

use weft_core::units::Nanos;

use super::system::{Fabric, Links};

/// Bytes of a message besides the data that it carries.
const HEADER: u64 = 64;

/// The links between nodes. Each carries one message at a time, in the order in which they were
/// handed over; a DMA engine at each end moves the bytes, so that processors do not.
pub(super) struct Network {
    nodes: usize,
    fabric: Fabric,
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

impl Network {
    pub fn new(links: &Links, nodes: usize, chance: fastrand::Rng) -> Network {
        let nanos = |us: f64| (us * 1e3).round() as Nanos;
        let latency = nanos(links.latency_us);
        let count = match links.fabric {
            Fabric::PointToPoint => nodes * nodes,
            Fabric::Bus => 1,
            // A port in and a port out for each.
            Fabric::Switch => 2 * nodes,
        };
        Network {
            nodes,
            fabric: links.fabric,
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

    /// Sends so many bytes of data; says when they are there.
    pub fn send(&mut self, now: Nanos, from: usize, to: usize, data: u64) -> Nanos {
        let time = self.set_up + ((data + HEADER) as f64 * self.byte).round() as Nanos;
        let there = match self.fabric {
            Fabric::PointToPoint => self.take(from * self.nodes + to, now, time),
            Fabric::Bus => self.take(0, now, time),
            Fabric::Switch => {
                // It cuts through: the port out of the switch takes the bytes as they come, but
                // not before it is free.
                let out = self.take(from, now, time);
                self.take(self.nodes + to, out - time, time)
            }
        };
        let more = if self.spread == 0 { 0 } else { self.chance.u64(0..=self.spread) };
        there + self.latency + more
    }

    fn take(&mut self, link: usize, now: Nanos, time: Nanos) -> Nanos {
        let begins = now.max(self.free[link]);
        self.free[link] = begins + time;
        self.busy[link] += time;
        self.held[link] += begins + time - now;
        begins + time
    }

    /// The links that were used, by number: for how long each was in use, and how many messages waited
    /// for it or crossed it on average, of so much time.
    pub fn used(&self, time: Nanos) -> impl Iterator<Item = (usize, Nanos, f64)> {
        let all = self.busy.iter().zip(&self.held).enumerate();
        let used = all.filter(|(_, (busy, _))| **busy > 0);
        used.map(move |(n, (busy, held))| (n, *busy, *held as f64 / time.max(1) as f64))
    }

    /// What a link is called.
    pub fn name(&self, link: usize) -> String {
        match self.fabric {
            Fabric::PointToPoint => format!("{} to {}", link / self.nodes, link % self.nodes),
            Fabric::Bus => "bus".to_string(),
            Fabric::Switch if link < self.nodes => format!("{link} to switch"),
            Fabric::Switch => format!("switch to {}", link - self.nodes),
        }
    }

    /// Begins to measure.
    pub fn restart(&mut self) {
        self.busy.fill(0);
        self.held.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(fabric: Fabric) -> Network {
        let links =
            Links { fabric, mb_s: 1.0, latency_us: 10.0, set_up_us: 5.0, ..Links::default() };
        Network::new(&links, 3, fastrand::Rng::with_seed(1))
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
        let mut w = Network::new(&links, 2, fastrand::Rng::with_seed(1));
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
}
