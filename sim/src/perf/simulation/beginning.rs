//! A system as it is described becomes nodes, disks, links and hosts, and everything begins.

use std::io::Read;
use std::sync::Arc;

use weft_core::cluster::{ClusterMap, NodeInfo, NodeKind, Volume};
use weft_core::node::{MapMessage, NodeConfig, Rebuilding};
use weft_core::units::{SECTOR, Timestamp};
use weft_load::random::Streams;
use weft_load::stats::Level;
use weft_load::workload::{Arrivals, Generator};
use weft_model::disk::{Disk, Model};

use super::super::setup::{config, disks, nvram, of_trace, replay, volume};
use super::super::system::{Fabric, Problem};
use super::environment::AtFirst;
use super::*;

impl Simulation {
    /// The `replication`-th run of a system whose requests are drawn. If a test is to say how long
    /// the warm-up is, there is none: see [`System::warmed_up`].
    ///
    /// # Errors
    /// What is wrong with the description.
    pub fn new(system: &System, replication: u64) -> Result<Simulation, Problem> {
        Simulation::reading(system, replication, std::io::empty())
    }

    /// The `replication`-th run of a system. If its requests are a trace's, they are read from
    /// `input` as they are made; else nothing is.
    ///
    /// # Errors
    /// What is wrong with the description, or with the beginning of the trace.
    pub fn reading(
        system: &System,
        replication: u64,
        input: impl Read + 'static,
    ) -> Result<Simulation, Problem> {
        system.check()?;
        let streams = Streams::new(system.measure.seed, replication);
        let model = Model::new(&system.disks.spec()?);
        let disk_bytes = system.disk_bytes()?;
        let volume = Arc::new(volume(system, system.data_bytes()?)?);
        let volume_bytes = volume.size;
        let workload = &system.workload;
        let generator = Generator::new(workload, volume_bytes).map_err(|p| p.within("workload"))?;
        let workers = usize::from(system.nodes.workers);
        let count = workers + system.nodes.diskless() + diskless::count(system);
        let gap = gap(&volume);
        let processors = system.nodes.processors.map_or(count, usize::from);
        let devices = system.disks.devices.map_or(workers, usize::from);
        let diskless = Diskless::new(system, streams);
        // A controller is another with room and nothing on it; a host has no room.
        let sectors = |n: usize| if diskless.has(n as u32) { 0 } else { disk_bytes / SECTOR };
        let first_disk = usize::from(system.first_disk());
        let place = |n: usize| Place {
            node: node(system, n as u16, sectors(n), gap),
            processor: (n % processors) as u32,
            disk: n
                .checked_sub(first_disk)
                .filter(|n| *n < workers)
                .map(|n| ((n % devices) as u32, (n / devices) as u64 * disk_bytes)),
            nvram: nvram(system, disk_bytes),
            soon: None,
            life: 0,
        };
        let device = |(n, disk): (usize, Disk)| {
            let bus = system.disks.per_bus.map(|so_many| (n / usize::from(so_many)) as u32);
            Device { disk, queue: Level::new(0), due: None, busy_before: 0, bus }
        };
        let mut simulation = Simulation {
            system: system.clone(),
            queue: Queue::default(),
            places: (0..count).map(place).collect(),
            processors: (0..processors).map(|_| Processor::new(system.nodes.mips)).collect(),
            threads: (0..workload.hosts).map(|_| Thread::default()).collect(),
            devices: disks(system, &model, streams, devices).enumerate().map(device).collect(),
            buses: (0..system.disks.buses(devices)).map(|_| shared_bus(&model)).collect(),
            network: Network::new(system, count, streams.stream("links", 0)),
            host_links: system.hosts.links.as_ref().map(|links| {
                let chance = streams.stream("host links", 0);
                HostLinks::new(links, workload.hosts as usize, count, chance)
            }),
            lines: Lines::new(system, count, streams.stream("links", 0)),
            coming: Coming::new(),
            acceptance: Acceptance::new(system, count),
            volume: volume.clone(),
            messages: 0,
            delays: Delays::default(),
            drivers: Driver::all(system),
            exposure: Seen::new(count),
            defers: volume.defers(),
            failing: None,
            delayed: 0,
            sector_bytes: model.sector_bytes(),
            generator,
            replay: replay(system, volume_bytes, input)?,
            chances: (0..workload.hosts).map(|h| streams.stream("host", h.into())).collect(),
            requests: Vec::new(),
            free: Vec::new(),
            used_lists: Vec::new(),
            run: Run::new(0, system.measure.warm_up.requests()),
            work: Work::default(),
            pace: Pace::default(),
            completed: Vec::new(),
            volume_bytes,
            asked: 0,
            timeline: None,
            pilot: None,
            diskless,
        };
        simulation.begin(volume).map_err(|e| of_trace(system, e))?;
        Ok(simulation)
    }

    /// The nodes enter their map, and hosts begin to ask.
    fn begin(&mut self, volume: Arc<Volume>) -> Result<(), String> {
        let kind = |n: u32| match (self.diskless.has(n), self.diskless.is_host(n)) {
            (false, _) => NodeKind::Disk,
            (true, true) => NodeKind::Host,
            (true, false) => NodeKind::Controller,
        };
        let info = |(n, p): (usize, &Place)| NodeInfo {
            kind: kind(n as u32),
            ..NodeInfo::new(1, p.node.data_sectors())
        };
        let nodes = self.places.iter().enumerate().map(info).collect();
        let volumes = [(VOLUME, volume)].into();
        let map = Arc::new(ClusterMap { nodes, volumes, epoch: 1, ..ClusterMap::default() });
        for (node, place) in self.places.iter_mut().enumerate() {
            let mut out = Vec::new();
            place.node.start(&mut out);
            let map = MapMessage::Enter { map: map.clone(), floor: Timestamp::ZERO };
            place.node.handle(0, Input::Map(map), &mut out);
            drive(&mut AtFirst(&mut self.queue), NodeId(node as u16), out)?;
        }
        let config = config(&self.system, gap(&map.volumes[&VOLUME]));
        self.failing = Failing::new(&self.system, &map, config).map(Box::new);
        self.await_faults()?;
        let population = match self.system.workload.arrivals {
            Arrivals::Closed { population, .. } => population,
            Arrivals::Open { .. } | Arrivals::Saturating => 1,
            // Hosts take turns.
            Arrivals::Traced { .. } => return self.next_ask(0),
        };
        for host in 0..self.system.workload.hosts {
            for _ in 0..population {
                self.next_ask(host)?;
            }
        }
        Ok(())
    }
}

fn node(system: &System, number: u16, sectors: u64, gap: u64) -> Node {
    Node::new(NodeId(number), 1, sectors, led(system, number.into(), config(system, gap)))
}

/// A node's configuration, with who leads the rebuilds of its disk: where buses are over one another, its controller
/// (DR-net 4.2).
pub(super) fn led(system: &System, node: u32, config: NodeConfig) -> NodeConfig {
    let workers = system.nodes.workers;
    let leader = |node: u16| match node < workers {
        true => workers + system.controller_of(node) as u16,
        false => node,
    };
    let is_below = system.links.fabric == Fabric::Hierarchy;
    let led_by = is_below.then(|| NodeId(leader(node as u16)));
    NodeConfig { rebuilding: Rebuilding { led_by, ..config.rebuilding }, ..config }
}

/// Reads go on through parity.
fn gap(volume: &Volume) -> u64 {
    volume.geometry.layout.parity_run() as u64 * volume.unit_sectors()
}

fn shared_bus(model: &Model) -> SharedBus {
    SharedBus { bus: model.new_bus(), busy_before: 0, queue_before: 0 }
}
