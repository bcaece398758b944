//! The lives of nodes: how they start, stop and are killed.

use std::sync::Arc;

use weft_core::SECTOR;
use weft_core::cluster::{Arrival, Change};
use weft_core::node::{FillRates, Node, NodeConfig};
use weft_core::store::StoreConfig;
use weft_core::units::{MILLIS, Nanos, NodeId};

use super::{Engine, Ticket};
use crate::disk::format::{is_rotating, most_data_sectors, refuse_others};
use crate::disk::handle::Aside;
use crate::disk::{self, Backend, Disk};
use crate::durable::random;
use crate::engine::errors::Errors;
use crate::engine::failures::Failures;
use crate::engine::hung::{DiskFile, OPENS_WITHIN, OpeningDisk};
use crate::engine::instance::{Instance, Phase, back_off};
use crate::engine::lane::Seat;
use crate::engine::taking::Held;
use crate::error::{Error, Result, fail};
use crate::log::About;
use crate::size::rounded;

/// How long a node that is being stopped may take to finish what it has begun. While others
/// are busy it may never come to rest, since it takes part in their requests.
const PATIENCE: Nanos = 5_000 * MILLIS;

/// How long it is waited for the operations that the disk of a killed node has in progress: a disk that hangs has them for ever.
const RESTS_WITHIN: Nanos = 2_000 * MILLIS;

/// How long notices wait for a message to ride on when they have to wake another process. It
/// is long enough that at a few thousand writes a second those of many go together: what
/// follows a write once its host is answered costs more than the write itself otherwise.
const NOTICE_DELAY: Nanos = 10 * MILLIS;

/// From so many answers of each node it is judged which nodes are slow.
const FEW_ANSWERS: u64 = 32;

/// What free slots of a disk hold is discarded when for so many ticks (of 100 ms) nothing was to be put in place.
const IDLE_LOOKS: u32 = 50;

/// What is known of the disk of a node that starts; none, if it has no disk.
#[derive(Debug, Default)]
pub(super) struct Opened {
    disk: Option<Disk>,
    size: u64,
    rotating: bool,
    /// Why it could not be allocated whole, though its configuration says so.
    not_allocated: Option<Error>,
}

impl Engine {
    /// Starts every node; those whose disks are missing or wrong stay down.
    pub(crate) fn start_all(&mut self) {
        for name in self.rule.take_given_up() {
            self.log
                .on(About::volume(&name))
                .warn(&format!("the creation of volume '{name}' was not completed; it is removed"));
        }
        for n in 0..self.instances.len() {
            if self.instances[n].phase == Phase::Down {
                self.try_to_open(n);
            }
        }
    }

    fn try_to_open(&mut self, n: usize) {
        if let Err(e) = self.open_node(n) {
            self.log.on(About::node(n)).error(&format!("node {n} stays down: {e}"));
            self.instances[n].why = e.to_string();
            self.died(n, false);
        }
    }

    /// Starts a node that is down.
    pub(crate) fn start_node(&mut self, n: usize) -> Result<()> {
        if self.instance(n)?.phase != Phase::Down {
            return fail(format!("node {n} is already running"));
        }
        self.instances[n].failures = Failures::default();
        self.instances[n].back_off = back_off();
        if !self.starting && self.nobody_runs() && self.start_over() {
            for other in (0..self.instances.len()).filter(|other| *other != n) {
                if self.map().is_up(NodeId(other as u16)) {
                    self.try_to_open(other);
                }
            }
        }
        self.open_node(n).inspect_err(|e| self.instances[n].why = e.to_string())
    }

    /// Opens the disk of a node and starts the node. If the disk does not answer soon, the node is started when it does.
    fn open_node(&mut self, n: usize) -> Result<()> {
        let instance = &mut self.instances[n];
        if instance.opening.is_some() {
            return Ok(());
        }
        if instance.is_taken.now() {
            return fail(is_being_replaced(n));
        }
        instance.wanted = false;
        if instance.path.as_os_str().is_empty() {
            let none = Opened { size: instance.size, ..Opened::default() };
            return self.begin_node(n, none);
        }
        if self.disk_ops(n) > 0 {
            self.instances[n].wanted = true;
            return Ok(());
        }
        let backend = if self.disks.have_ring() { None } else { Some(Backend::Sync) };
        let (id, cluster) = (NodeId(n as u16), self.rule.cluster());
        let together = self.rule.together().is_some();
        let (since, instance) = (self.clock.now(), &mut self.instances[n]);
        let (path, size, options) = (instance.path.clone(), instance.size, instance.disk_options);
        let open = move || -> Result<Opened> {
            refuse_others(&path, cluster, id)?;
            // It may not have been there before, or another may have come.
            let size = if together { disk::size(&path)? } else { size };
            let disk = Disk::open(&path, size, backend)?.queued(options.queue);
            let (disk, not_allocated) = match options.preallocate {
                true => disk.preallocated(),
                false => (disk, None),
            };
            let rotating = is_rotating(&disk.file);
            Ok(Opened { size, rotating, disk: Some(disk), not_allocated })
        };
        let aside = Aside::begin(open);
        match aside.within(OPENS_WITHIN) {
            Some(opened) => self.begin_node(n, opened?),
            None => {
                instance.phase = Phase::Opening;
                instance.opening = Some(OpeningDisk { aside, since });
                Ok(())
            }
        }
    }

    /// Starts a node on its disk, which is open.
    pub(super) fn begin_node(&mut self, n: usize, opened: Opened) -> Result<()> {
        let config = self.node_config();
        let (id, cluster) = (NodeId(n as u16), self.rule.cluster());
        if let Some(why) = opened.not_allocated {
            self.log.on(About::node(n)).warn(&format!("node {n}: its disk stays sparse: {why}"));
        }
        let instance = &mut self.instances[n];
        instance.phase = Phase::Opening;
        instance.file = DiskFile::default();
        (instance.size, instance.rotating) = (opened.size, opened.rotating);
        let mut node = Box::new(Node::new(id, cluster, opened.size / SECTOR, config));
        let mut outputs = Vec::new();
        node.start(&mut outputs);
        if let Some(seat) = self.seat_mut(n) {
            seat.begin(node, opened.disk.map(Arc::new));
        }
        self.keep_copies(n);
        self.lanes.lane_of(n).apply(n, outputs);
        self.hear();
        Ok(())
    }

    /// Drops a node with all it knew, as if its process had died.
    pub(super) fn drop_node(&mut self, n: usize, why: &str) {
        self.keep_errors(n);
        self.instances[n].is_dropped(why);
        if let Some(seat) = self.seat_mut(n) {
            seat.drop_node();
        }
    }

    fn node_config(&self) -> NodeConfig {
        let store = StoreConfig { discards_free: Some(IDLE_LOOKS), ..StoreConfig::default() };
        let usual = NodeConfig::default();
        let config = NodeConfig { secret: random(), store, detours: Some(FEW_ANSWERS), ..usual };
        let fill = self.fill_rates();
        match self.rule.together() {
            Some(_) => NodeConfig { notice_delay: NOTICE_DELAY, fill, ..config },
            None => NodeConfig { fill, ..config },
        }
    }

    /// The rates at which disks are filled, unless the map says others.
    pub(crate) fn fill_rates(&self) -> FillRates {
        self.rule.together().map_or_else(FillRates::default, |t| t.home().config.fill)
    }

    /// Stops a node at once, as if its process had died.
    pub(crate) fn kill_node(&mut self, n: usize, why: &str) -> Result<()> {
        let was = self.instance(n)?.phase;
        if was == Phase::Down && self.stays_down(n) {
            return Ok(());
        }
        if was == Phase::Down {
            return fail(format!("node {n} is already down"));
        }
        self.take_measures();
        if let Some(status) = self.status_of(n) {
            self.last_epoch = self.last_epoch.max(status.epoch);
        }
        self.drop_node(n, why);
        self.log.on(About::node(n)).warn(&format!("node {n} is down: {why}"));
        if was != Phase::Opening {
            self.stopped.push(n);
        }
        self.died(n, was != Phase::Opening);
        Ok(())
    }

    /// Starts a node anew that the others have gone on without.
    pub(super) fn restart_node(&mut self, n: usize) {
        let stops = self.instances[n].phase == Phase::Draining;
        if self.kill_node(n, "the other nodes continued without it").is_ok() {
            let now = self.clock.now();
            self.instances[n].wanted = !stops;
            let rest = self.instances[n].rest.begin(now);
            if rest > 0 && !stops {
                self.log.on(About::node(n)).warn(&format!(
                    "the other nodes have continued without node {n} again; it waits {:.2} s before it starts",
                    rest as f64 / 1e9
                ));
            }
        }
    }

    /// Stops a node when it has finished the requests that it has begun and nothing of its
    /// writes is undecided or out of place, or when that takes too long: then it is stopped
    /// as it is, and what it had in work is given to others. Meanwhile new requests go to
    /// others.
    pub(crate) fn drain_node(&mut self, n: usize) -> Result<()> {
        let instance = self.instance(n)?;
        let starts = instance.wanted || instance.opening.is_some();
        match instance.phase {
            Phase::Running => {
                self.instances[n].phase = Phase::Draining;
                self.instances[n].patience = Some(self.clock.now() + PATIENCE);
            }
            Phase::Draining => {}
            // It waits for its disk, or rests, and would start by itself.
            Phase::Down if starts => drop(self.stays_down(n)),
            Phase::Down => return fail(format!("node {n} is already down")),
            Phase::Opening => return fail(format!("node {n} is just starting; wait or kill it")),
            Phase::Elsewhere => return fail(format!("node {n} belongs to another process")),
        }
        Ok(())
    }

    /// Has a node not start that would by itself, if one does.
    fn stays_down(&mut self, n: usize) -> bool {
        let instance = &mut self.instances[n];
        let starts = instance.wanted || instance.opening.is_some();
        (instance.wanted, instance.opening, instance.trouble) = (false, None, None);
        if starts {
            instance.why = "it was stopped".to_string();
        }
        starts
    }

    /// Refuses a node that there is not.
    pub(crate) fn known(&self, n: usize) -> Result<()> {
        let removed = self.map().nodes.get(n).is_some_and(|i| i.removed);
        if removed {
            fail(format!("node {n} has left the cluster; `weft node list` lists the nodes"))
        } else {
            self.instance(n).map(drop)
        }
    }

    /// Starts a node of this process on a disk that it has not been on before, which has been made empty.
    pub(crate) fn start_on(&mut self, n: usize, held: Held) -> Result<()> {
        let Some(together) = self.rule.together_mut() else {
            return fail("an array in one process has its disks in its directory");
        };
        let path = held.path();
        together.take_disk(NodeId(n as u16), path.clone())?;
        held.keep();
        let life = self.instances[n].life + 1;
        self.instances[n] = self.rule.new_instance(n);
        self.instances[n].life = life;
        self.give_seat(n);
        self.log.on(About::node(n)).info(&format!("node {n} has the new disk {}", path.display()));
        self.start_node(n)
    }

    /// Whether a node that has no disk is known here, and gets none already.
    pub(crate) fn is_without_disk(&self, n: usize) -> bool {
        self.instances.get(n).is_some_and(|instance| !instance.is_taken.now())
    }

    /// Refuses if a node is not down, or gets another disk already.
    pub(crate) fn may_get_disk(&self, n: usize) -> Result<()> {
        if self.instance(n)?.is_taken.now() {
            return fail(is_being_replaced(n));
        }
        self.must_be_down(n)
    }

    fn must_be_down(&self, n: usize) -> Result<()> {
        let instance = self.instance(n)?;
        let is_done = self.disk_ops(n) == 0 || instance.trouble.is_some();
        match instance.phase {
            Phase::Down if is_done => Ok(()),
            Phase::Down => fail(format!(
                "node {n} is down, and its disk has operations in progress; try again when they have ended"
            )),
            _ => fail(format!(
                "node {n} runs; stop it before its disk is replaced (`weft node stop {n}`)"
            )),
        }
    }

    /// Whether the disk of a node that is down has ended all operations, or is not expected to soon.
    pub(crate) fn disk_rests(&mut self, n: usize) -> bool {
        let now = self.clock.now();
        let oldest = self.seat(n).and_then(Seat::oldest_of_any_life);
        let is_old = |begun: Nanos| now.saturating_sub(begun) >= RESTS_WITHIN;
        self.disk_ops(n) == 0 || oldest.is_none_or(is_old)
    }

    /// Refuses if the disk of a node that is down cannot be replaced by one of this size.
    pub(crate) fn may_replace(&self, n: usize, size: u64, accepted: &[String]) -> Result<()> {
        self.must_be_down(n)?;
        let needed = self.map().needed_on(NodeId(n as u16)) * SECTOR;
        let room = most_data_sectors(size)?.saturating_mul(SECTOR);
        if room < needed {
            return fail(format!(
                "the disk has {} of capacity, and volumes use node {n}'s disk up to {}; use a \
                 larger disk, or rebuild its content elsewhere (`weft disk fail {n}`)",
                rounded(room),
                rounded(needed)
            ));
        }
        self.can_do_without(&[NodeId(n as u16)], accepted)
    }

    fn instance(&self, n: usize) -> Result<&Instance> {
        let there = || {
            let left = |n: usize| self.map().nodes.get(n).is_some_and(|i| i.removed);
            in_runs((0..self.instances.len()).filter(|n| !left(*n)))
        };
        self.instances
            .get(n)
            .ok_or_else(|| Error(format!("there is no node {n}; choose from {}", there())))
    }

    /// Starts and stops nodes that had to wait for something.
    pub(super) fn follow_lives(&mut self) {
        self.follow_measures();
        self.follow_errors();
        self.follow_disks();
        let now = self.clock.now();
        for n in 0..self.instances.len() {
            let instance = &self.instances[n];
            let waits = instance.rest.is_on(now)
                || instance.failures.pauses(now)
                || instance.is_taken.now()
                || self.stays_away(n, now);
            if instance.wanted && self.disk_ops(n) == 0 && !waits {
                if let Err(e) = self.open_node(n) {
                    self.drop_node(n, &e.to_string());
                    self.start_failed(n, &e.to_string());
                }
            } else if instance.phase == Phase::Draining {
                self.follow_drain(n);
            }
        }
        let waits = |s: &Instance| s.phase == Phase::Opening || (s.wanted && s.trouble.is_none());
        if self.starting && !self.instances.iter().any(waits) {
            self.starting = false;
            self.all_are_open();
        }
    }

    fn follow_drain(&mut self, n: usize) {
        let instance = &self.instances[n];
        // Of one that was not let in, or that the others have gone on without, nothing is to be finished.
        let finished = !self.map().is_up(NodeId(n as u16))
            || self.status_of(n).is_some_and(|s| s.in_flight == 0 && s.quiet);
        let impatient = instance.patience.is_some_and(|p| p <= self.clock.now());
        let why = match (finished, impatient) {
            (true, _) => "it was stopped",
            (_, true) => "it was stopped; other nodes finish its work",
            _ => return,
        };
        // That it runs has been seen.
        let _ = self.kill_node(n, why);
    }

    pub(super) fn node_ready(&mut self, n: usize) {
        self.count_on(n);
        let now = self.clock.now();
        self.instances[n].failures.is_over();
        self.instances[n].back_off.is_back(now);
        self.instances[n].phase = Phase::Running;
        if !self.starting {
            self.log.on(About::node(n)).info(&format!("node {n} is up"));
        }
        let Some(arrival) = self.arrival(n) else { return };
        if !self.stops_without_room(arrival) {
            self.arrived(arrival);
        }
    }

    /// Stops a node whose new disk has less room than the map has put on the one before. Says whether it has.
    fn stops_without_room(&mut self, arrival: Arrival) -> bool {
        let Arrival { node, disk, sectors } = arrival;
        let (n, room) = (usize::from(node.0), self.map().has_room_on(node, (disk, sectors)));
        if !room {
            let why = format!(
                "its new disk has {} of capacity, and volumes have grown to {} there in the \
                 meantime; replace it again (`weft disk replace {n}`)",
                rounded(sectors * SECTOR),
                rounded(self.map().needed_on(node) * SECTOR)
            );
            // That it runs has been seen.
            let _ = self.kill_node(n, &why);
        }
        !room
    }

    /// There is a new map: nodes that it leaves out, since they have no room for what was put on their disks, are stopped.
    pub(super) fn stop_without_room(&mut self) {
        for n in 0..self.instances.len() {
            let out = !self.map().is_up(NodeId(n as u16));
            if let Some(arrival) = self.arrival(n).filter(|_| out) {
                self.stops_without_room(arrival);
            }
        }
    }

    /// A node that runs, and its disk.
    pub(super) fn arrival(&self, n: usize) -> Option<Arrival> {
        let instance = &self.instances[n];
        let node = self.seat(n)?.node.as_ref().filter(|_| instance.runs())?;
        let (disk, sectors) = (node.disk(), node.data_sectors());
        Some(Arrival { node: NodeId(n as u16), disk, sectors })
    }

    /// Declares a node's disk lost: the node is killed if it runs here, and what was on the
    /// disk is rebuilt on others that have room.
    pub(crate) fn fail_disk(&mut self, n: usize, accepted: &[String]) -> Result<Ticket> {
        self.lose_disk(n, accepted)?;
        Ok(self.change(Change::GiveUp(NodeId(n as u16))))
    }

    /// Has a node be down because its disk is lost, if no volume needs it but those whose loss is accepted.
    pub(crate) fn lose_disk(&mut self, n: usize, accepted: &[String]) -> Result<()> {
        let phase = self.instance(n)?.phase;
        self.can_do_without(&[NodeId(n as u16)], accepted)?;
        match phase {
            Phase::Elsewhere if self.runs(NodeId(n as u16)) => fail(format!(
                "node {n} is running in another process; stop it first (`weft node stop {n}`)"
            )),
            Phase::Down | Phase::Elsewhere => Ok(()),
            _ => self.kill_node(n, "its disk was declared lost"),
        }
    }

    /// A place for a node that is to be added, with its disk, which has been made empty.
    pub(crate) fn add_slot(&mut self, n: usize, held: Held) -> Result<()> {
        // An earlier one may have been taken back, which the cluster map does not hold.
        if self.instances.len() != n {
            return fail("another disk was being added, and was not; try again");
        }
        held.keep();
        let instance = self.rule.new_instance(n);
        self.instances.push(instance);
        self.give_seat(n);
        self.log.on(About::node(n)).info(&format!("node {n} is added"));
        Ok(())
    }

    /// Starts a node that is down on its disk, in whose place an empty one has been made.
    pub(crate) fn replace_disk(&mut self, n: usize, held: Held) -> Result<()> {
        held.keep();
        self.instances[n].errors = Errors::default();
        self.log.on(About::node(n)).info(&format!("node {n} has an empty disk"));
        self.start_node(n)
    }
}

fn is_being_replaced(n: usize) -> String {
    format!("the disk of node {n} is being replaced; wait until that is done")
}

/// Numbers in ascending order, in words: those that follow one another as a run.
fn in_runs(numbers: impl Iterator<Item = usize>) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for n in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == n => *last = n,
            _ => runs.push((n, n)),
        }
    }
    let run = |(first, last): &(usize, usize)| match first == last {
        true => first.to_string(),
        false => format!("{first} to {last}"),
    };
    runs.iter().map(run).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::in_runs;

    #[test]
    fn nodes_that_have_left_are_not_offered() {
        assert_eq!(in_runs([0, 1, 2, 4, 6, 7].into_iter()), "0 to 2, 4, 6 to 7");
        assert_eq!(in_runs([3].into_iter()), "3");
    }
}
