//! The real world of a scenario: an array of real nodes in this process, on files, with the scenario's
//! workload over NBD connections.
//!
//! - [`limits`]: what a real array cannot be
//! - `spec`: the array that a scenario's system is
//! - [`hosts`]: the workload

mod hosts;
pub mod limits;
mod spec;

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use rustix::time::ClockId;
use weft_core::policy::Setting;
use weft_host::{Array, Control, ControlRequest, Emulation, Handle, LOCK, Lanes, Listen};
use weft_sim::perf::{Disks, Outcome, Summary, System, VolumeSpec};

use self::hosts::cpu_seconds;
use self::spec::{VOLUME, spec};
use crate::result::Measured;
use weft_terminal::{Counts, Stage};
use weft_trial::load::{Host, connect, fill};
use weft_trial::scratch::Scratch;

/// What the names of runs' directories begin with.
const SCRATCH: &str = "weft-sim-";
/// Where hosts connect.
const SOCKET: &str = "nbd.sock";

/// Whether an array in such a directory makes a file of this name.
fn array_makes(name: &str) -> bool {
    let disk = name.strip_prefix("disk-").and_then(|rest| rest.strip_suffix(".img"));
    disk.is_some_and(|number| number.parse::<u16>().is_ok())
        || [SOCKET, "control.sock", LOCK, "weft.toml", "weft.toml.new"].contains(&name)
}

/// Runs these systems one after the other, each with a name for errors, on files in a directory,
/// with so much patience for a run that others of the machine do not disturb, and tells of each that is done, by its number in the list. Neighbours that need the same array
/// share it.
///
/// # Errors
/// The first that failed; what was done before has been told.
pub fn run(
    systems: &[(String, &System)],
    dir: &Path,
    patience: Duration,
    mut done: impl FnMut(usize, Measured) -> Result<()>,
) -> Result<()> {
    let mut there: Option<Running> = None;
    for (n, (name, system)) in systems.iter().enumerate() {
        let array = match there.take().filter(|a| a.needs == Needs::of(system)) {
            Some(array) => array,
            None => Running::start(system, dir, patience).with_context(|| name.clone())?,
        };
        let array = there.insert(array);
        let measure = &system.measure;
        let each = measure.warm_up.requests() + system.measured_requests();
        let requests = u64::from(measure.replications) * each;
        let stage = Stage::new(name.as_str(), requests, Counts::Things);
        let (mut outcomes, mut others, mut nodes) = (Vec::new(), 0.0_f64, 0.0);
        for replication in 0..u64::from(measure.replications) {
            let run = array.replication(system, replication);
            let run = run.with_context(|| format!("{name}, run {replication}"))?;
            others = others.max(run.others);
            nodes += run.nodes_ns / f64::from(measure.replications);
            outcomes.push(run.outcome);
            stage.advance(each);
        }
        let mut measured = Measured::of_hosts(&Summary::of(&outcomes));
        (measured.others, measured.processor_us) = (Some(others), Some(nodes / 1e3));
        stage.done(format!("{:9.1} MB/s", measured.throughput_mb_s.mean));
        done(n, measured)?;
    }
    Ok(())
}

/// How long to wait before a run is tried again that others disturbed.
const PAUSE: Duration = Duration::from_millis(50);
/// The share of the machine's processors that others may use during a run.
const DISTURBED: f64 = 0.03;

/// Ticks of `/proc/stat` in a second: Linux tells all programs in hundredths.
const TICKS: f64 = 100.0;

/// What the machine's processors have done so far, by `/proc/stat`.
struct Machine {
    at: Instant,
    /// Seconds of all processors together.
    busy: f64,
    processors: f64,
}

impl Machine {
    fn now() -> Result<Machine> {
        let text = fs::read_to_string("/proc/stat").context("/proc/stat")?;
        let (busy, processors) =
            busy_ticks(&text).context("/proc/stat has an unexpected format")?;
        Ok(Machine { at: Instant::now(), busy: busy / TICKS, processors })
    }

    /// The share that others used since then, if this process used so many seconds.
    fn others_since(&self, then: &Machine, own: f64) -> f64 {
        let time = (self.at - then.at).as_secs_f64() * self.processors;
        ((self.busy - then.busy - own) / time).max(0.0)
    }
}

/// Ticks that all processors were busy, and how many processors there are.
fn busy_ticks(stat: &str) -> Option<(f64, f64)> {
    let all = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<f64> = all.split_whitespace().map(|t| t.parse().ok()).collect::<Option<_>>()?;
    // user, nice, system, idle, waiting, interrupts, soft interrupts, stolen; proc_stat(5).
    let busy = ticks.get(..3)?.iter().sum::<f64>() + ticks.get(5..8)?.iter().sum::<f64>();
    let each = |l: &&str| l.starts_with("cpu") && !l.starts_with("cpu ");
    Some((busy, stat.lines().filter(each).count() as f64))
}

/// What a run came to, and the CPU time that it took.
pub struct Ran {
    /// What the hosts saw.
    pub outcome: Outcome,
    /// Nanoseconds of the nodes for a request, with all that is done for them outside of the
    /// hosts' threads.
    pub nodes_ns: f64,
    /// Nanoseconds of the hosts' threads for a request.
    pub hosts_ns: f64,
    /// The share of the machine's processors that others used meanwhile.
    pub others: f64,
}

/// Runs systems that need the same array on one in a directory; of each all its replications.
///
/// # Errors
/// If the array cannot be run there, or a run fails.
pub fn measure(
    systems: &[System],
    dir: &Path,
    patience: Duration,
    mut told: impl FnMut(),
) -> Result<Vec<Vec<Ran>>> {
    let Some(first) = systems.first() else { return Ok(Vec::new()) };
    let mut array = Running::start(first, dir, patience)?;
    let mut all: Vec<Vec<Ran>> = systems.iter().map(|_| Vec::new()).collect();
    // In turns, so that what changes about the machine meets all of them.
    for replication in 0..u64::from(first.measure.replications) {
        for (system, runs) in systems.iter().zip(&mut all) {
            runs.push(array.replication(system, replication)?);
            told();
        }
    }
    Ok(all)
}

/// What an array depends on.
#[derive(Clone, Debug, PartialEq)]
struct Needs {
    workers: u16,
    volume: VolumeSpec,
    /// What its disks are to be like.
    emulated: Option<Disks>,
}

impl Needs {
    fn of(system: &System) -> Needs {
        Needs {
            workers: system.nodes.workers,
            volume: system.volume.clone(),
            emulated: system.disks.emulated.then(|| system.disks.clone()),
        }
    }
}

/// An array that is filled and runs. Its files go when it does.
struct Running {
    needs: Needs,
    /// For how long a run may be tried again that others disturbed.
    patience: Duration,
    /// How many connections hosts have made so far.
    connections: usize,
    socket: PathBuf,
    control: Control,
    // Before its directory.
    _array: Handle,
    _dir: Scratch,
}

impl Running {
    /// Starts one and fills its volume.
    fn start(system: &System, dir: &Path, patience: Duration) -> Result<Running> {
        Scratch::clear_leftovers(SCRATCH, dir, array_makes)?;
        let scratch = Scratch::new(SCRATCH, dir)?;
        let socket = scratch.path().join(SOCKET);
        let listens = [Listen::unix(socket.clone())];
        let silent = weft_host::Log::silent();
        let emulation = Emulation::default();
        // As the model has it: the nodes take turns with one processor.
        let array =
            Array::start(scratch.path(), &spec(system)?, &listens, silent)?.lanes(Lanes::ONE);
        let array = match system.disks.emulated {
            true => array.emulating(emulation.clone())?,
            false => array,
        };
        let array = array.spawn()?;
        let control = Control::connect(scratch.path())?;
        let needs = Needs::of(system);
        let mut running = Running {
            needs,
            patience,
            connections: 0,
            socket,
            control,
            _array: array,
            _dir: scratch,
        };
        // That takes no longer than in memory.
        fill(&mut running.connect()?, "filling the volume")?;
        running.set_ranges()?;
        running.control.request(&ControlRequest::Quiesce)?;
        if system.disks.emulated {
            let disks = system.model_disks(0).map_err(|p| anyhow!("{p}"))?;
            emulation.begin(disks, system.sector_bytes().map_err(|p| anyhow!("{p}"))?);
        }
        Ok(running)
    }

    /// Gives the volume the ranges that the scenario's has.
    fn set_ranges(&mut self) -> Result<()> {
        for range in &self.needs.volume.ranges {
            let change = range.change();
            let word = |s: &Setting| {
                let said = s.to_string();
                said.split_once('=').map(|(key, word)| (key.to_string(), word.to_string()))
            };
            self.control.request(&ControlRequest::VolumeSet {
                name: VOLUME.to_string(),
                set: change.settings.iter().filter_map(word).collect(),
                force: false,
                range: change.range.map(|r| (r.offset, r.len)),
            })?;
        }
        Ok(())
    }

    fn connect(&mut self) -> Result<Host> {
        self.connections += 1;
        connect(&self.socket, VOLUME)
    }

    /// One run that others of the machine disturb little, if there is one before patience ends; else
    /// the one that they disturb least.
    fn replication(&mut self, system: &System, replication: u64) -> Result<Ran> {
        let begun = Instant::now();
        let mut best = self.once(system, replication)?;
        while best.others > DISTURBED && begun.elapsed() < self.patience {
            // What disturbs is seldom over at once.
            thread::sleep(PAUSE);
            let again = self.once(system, replication)?;
            if again.others < best.others {
                best = again;
            }
        }
        Ok(best)
    }

    /// One run, before which nothing is in work.
    fn once(&mut self, system: &System, replication: u64) -> Result<Ran> {
        self.control.request(&ControlRequest::Quiesce)?;
        let mut connections = Vec::new();
        for host in 0..system.workload.hosts as usize {
            connections.push(self.connect_to(host % usize::from(system.nodes.originators))?);
        }
        let machine = Machine::now()?;
        let before = cpu_seconds(ClockId::ProcessCPUTime);
        let (outcome, spent) = hosts::run(system, replication, &mut connections)?;
        let own = cpu_seconds(ClockId::ProcessCPUTime) - before;
        let others = Machine::now()?.others_since(&machine, own);
        let each = |seconds: f64| seconds * 1e9 / spent.requests.max(1) as f64;
        let (nodes_ns, hosts_ns) = (each(spent.nodes), each(spent.hosts));
        Ok(Ran { outcome, nodes_ns, hosts_ns, others })
    }

    /// A connection that this node serves. Nodes take turns with connections, so those that would
    /// be others' are made and left.
    fn connect_to(&mut self, node: usize) -> Result<Host> {
        while self.connections % usize::from(self.needs.workers) != node {
            self.connect()?;
        }
        self.connect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_use_is_what_the_machine_did_and_this_process_did_not() {
        let stat = "cpu  10 20 30 4000 50 6 7 8 0 0\ncpu0 5 10 15 2000 25 3 3 4 0 0\n\
                    cpu1 5 10 15 2000 25 3 4 4 0 0\nintr 1\n";
        assert_eq!(busy_ticks(stat), Some((81.0, 2.0)));
        assert_eq!(busy_ticks("cpu  1 2\n"), None);
        let at = Instant::now();
        let then = Machine { at, busy: 10.0, processors: 2.0 };
        let now = Machine { at: at + Duration::from_secs(5), busy: 14.0, processors: 2.0 };
        assert!((now.others_since(&then, 3.0) - 0.1).abs() < 1e-9);
        assert_eq!(now.others_since(&then, 4.5), 0.0);
    }
}
