//! How much the machines around a switch are used, where one of them is the controller that all requests pass: what
//! each of three kinds could carry more, if nothing else stopped it.

use serde::Serialize;

/// The machines of a system with one controller at a switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Machines {
    /// The controller.
    pub controller: Machine,
    /// A machine with a disk, on average.
    pub target: Machine,
    /// A host, on average.
    pub host: Machine,
    /// How many hosts there are.
    pub hosts: u32,
}

/// The shares of time in which what a machine has was in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Machine {
    /// Its processor.
    pub processor: f64,
    /// The busier way of its port.
    pub port: f64,
    /// Its memory, if that takes time.
    pub memory: f64,
    /// 10^6 bytes a second through its port, both ways.
    pub port_mb_s: f64,
}

impl Machine {
    /// What was in use most.
    pub fn busiest(&self) -> f64 {
        self.processor.max(self.port).max(self.memory)
    }

    /// The mean of several.
    pub(super) fn mean(all: impl ExactSizeIterator<Item = Machine>) -> Machine {
        let count = all.len().max(1) as f64;
        let add = |sum: Machine, m: Machine| Machine {
            processor: sum.processor + m.processor / count,
            port: sum.port + m.port / count,
            memory: sum.memory + m.memory / count,
            port_mb_s: sum.port_mb_s + m.port_mb_s / count,
        };
        all.fold(Machine::default(), add)
    }
}

impl Machines {
    /// How many hosts, each of which asks as much as its port carries, the controller can carry. What a request costs a
    /// machine does not depend on how many there are, so shares of time are in proportion to load.
    pub fn hosts_of_controller(&self) -> f64 {
        f64::from(self.hosts) * self.host.port / self.controller.busiest()
    }

    /// How many the controller and these targets can.
    pub fn hosts_of_all(&self) -> f64 {
        let busiest = self.controller.busiest().max(self.target.busiest());
        f64::from(self.hosts) * self.host.port / busiest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_busiest_says_how_many_hosts_there_can_be() {
        let busy = |processor, port| Machine { processor, port, ..Machine::default() };
        let machines = Machines {
            controller: busy(0.2, 0.1),
            target: busy(0.3, 0.4),
            host: busy(0.0, 0.25),
            hosts: 2,
        };
        // Two hosts at a quarter of their ports are half a host; that is a fifth of the controller.
        assert!((machines.hosts_of_controller() - 2.5).abs() < 1e-9);
        assert!((machines.hosts_of_all() - 1.25).abs() < 1e-9);
        let mean = Machine::mean([busy(0.2, 0.1), busy(0.4, 0.3)].into_iter());
        assert!((mean.processor - 0.3).abs() < 1e-9 && (mean.port - 0.2).abs() < 1e-9);
    }
}
