//! A host's driver that has so many requests in the array at once and no more (AFRAID 4.1): the others wait in its queue.

use weft_model::schedule::{Positions, Queue};

use super::*;

/// What waits in a driver: a request, and where on the volume it begins.
type Waiting = (u32, u64);

/// One host's driver.
pub(super) struct Driver {
    /// Requests in the array.
    inside: u32,
    queue: Queue<Waiting>,
    /// Where the request ends that left last.
    here: u64,
}

/// A driver knows addresses alone: neighbours are taken to be near.
struct Here(u64);

impl Positions<Waiting> for Here {
    fn address(&self, request: &Waiting) -> u64 {
        request.1
    }

    fn here(&self) -> u64 {
        self.0
    }

    fn seek(&self, request: &Waiting) -> u64 {
        request.1.abs_diff(self.0)
    }

    fn access(&self, request: &Waiting) -> u64 {
        self.seek(request)
    }
}

impl Driver {
    /// Those of a system's hosts; none if all requests are admitted.
    pub fn all(system: &System) -> Vec<Driver> {
        let queue = || Queue::new(system.hosts.scheduler);
        let hosts = system.hosts.admits.map_or(0, |_| system.workload.hosts);
        (0..hosts).map(|_| Driver { inside: 0, queue: queue(), here: 0 }).collect()
    }
}

impl Simulation {
    /// A request is to leave its host: now if the driver admits it, else later.
    pub(super) fn is_to_leave(&mut self, request: u32) -> Result<(), String> {
        let Some(r) = self.requests[request as usize].as_mut() else { return Ok(()) };
        let (host, offset, end) = (r.host as usize, r.ask.offset, r.ask.offset + r.ask.len);
        let Some(driver) = self.drivers.get_mut(host).filter(|_| !r.is_admitted) else {
            return self.leaves(request);
        };
        if Some(driver.inside) >= self.system.hosts.admits {
            driver.queue.push((request, offset));
            return Ok(());
        }
        (driver.inside, driver.here, r.is_admitted) = (driver.inside + 1, end, true);
        self.leaves(request)
    }

    /// A request of a host is done: another may leave.
    pub(super) fn admits_another(&mut self, host: u32) {
        let Some(driver) = self.drivers.get_mut(host as usize) else { return };
        driver.inside -= 1;
        if let Some((request, _)) = driver.queue.take(&Here(driver.here)) {
            self.queue.push(0, Event::Request { request });
        }
    }
}
