//! The real world of a scenario: an array of real nodes in this process, on files, with the scenario's
//! workload over NBD connections.
//!
//! - [`limits`]: what a real array cannot be
//! - [`hosts`]: the workload

mod hosts;
pub mod limits;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use weft_core::plan;
use weft_host::{Array, Control, Handle, Listen, Request, Spec};
use weft_sim::perf::{Commit, Layout, Outcome, ParityAt, Stripes, Summary, System, VolumeSpec};

use super::result::Measured;
use crate::load::{Host, connect, fill};
use crate::output::{Counts, Stage};
use crate::scratch::Scratch;

const VOLUME: &str = "sim";

/// What a disk holds besides its part of the volume: its journal (64 MiB), extents that are
/// not full, and some.
const BESIDES: u64 = 128 << 20;

/// Runs these systems one after the other, each with a name for errors, on files in a directory, and
/// tells of each that is done, by its number in the list. Neighbours that need the same array
/// share it.
///
/// # Errors
/// The first that failed; what was done before has been told.
pub fn run(
    systems: &[(String, &System)],
    dir: &Path,
    mut done: impl FnMut(usize, Measured) -> Result<()>,
) -> Result<()> {
    let mut there: Option<Running> = None;
    for (n, (name, system)) in systems.iter().enumerate() {
        let array = match there.take().filter(|a| a.needs == Needs::of(system)) {
            Some(array) => array,
            None => Running::start(system, dir).with_context(|| name.clone())?,
        };
        let array = there.insert(array);
        let measure = &system.measure;
        let each = measure.warm_up + system.measured_requests();
        let requests = u64::from(measure.replications) * each;
        let stage = Stage::new(name.as_str(), requests, Counts::Things);
        let mut outcomes = Vec::new();
        for replication in 0..u64::from(measure.replications) {
            let outcome = array.replication(system, replication);
            outcomes.push(outcome.with_context(|| format!("{name}, run {replication}"))?);
            stage.advance(each);
        }
        let measured = Measured::of_hosts(&Summary::of(&outcomes));
        stage.done(format!("{:9.1} MB/s", measured.throughput_mb_s.mean));
        done(n, measured)?;
    }
    Ok(())
}

/// What an array depends on.
#[derive(Clone, Debug, PartialEq)]
struct Needs {
    workers: u16,
    volume: VolumeSpec,
}

impl Needs {
    fn of(system: &System) -> Needs {
        Needs { workers: system.nodes.workers, volume: system.volume.clone() }
    }
}

/// An array that is filled and runs. Its files go when it does.
struct Running {
    needs: Needs,
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
    fn start(system: &System, dir: &Path) -> Result<Running> {
        let scratch = Scratch::new("weft-sim-", dir)?;
        let socket = scratch.path().join("nbd.sock");
        let listens = [Listen::Unix(socket.clone())];
        let silent = Arc::new(|_: &str| {});
        let array = Array::start(scratch.path(), &spec(system)?, &listens, silent)?.spawn()?;
        let control = Control::connect(scratch.path())?;
        let needs = Needs::of(system);
        let mut running =
            Running { needs, connections: 0, socket, control, _array: array, _dir: scratch };
        fill(&mut running.connect()?, "filling the volume")?;
        Ok(running)
    }

    fn connect(&mut self) -> Result<Host> {
        self.connections += 1;
        connect(&self.socket, VOLUME)
    }

    /// One run, after which nothing is in work.
    fn replication(&mut self, system: &System, replication: u64) -> Result<Outcome> {
        self.control.request(&Request::Quiesce)?;
        let mut connections = Vec::new();
        for host in 0..system.workload.hosts as usize {
            connections.push(self.connect_to(host % usize::from(system.nodes.originators))?);
        }
        hosts::run(system, replication, &mut connections)
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

/// How large the volume is.
fn volume_bytes(system: &System) -> Result<u64> {
    system.volume.size_bytes.context("volume.size_bytes: a real volume has a size")
}

/// How large a disk has to be.
fn disk_bytes(system: &System) -> Result<u64> {
    let Layout(name) = &system.volume.layout;
    let spec: weft_core::layout::LayoutSpec = name.parse()?;
    let workers = u64::from(system.nodes.workers);
    let layout = spec.over(usize::from(system.nodes.workers))?;
    let size = volume_bytes(system)?;
    let geometry = weft_core::layout::Geometry::new(layout, system.volume.unit);
    let stripes = size.div_ceil(geometry.stripe_bytes());
    let column = stripes * system.volume.unit * layout.width() as u64 / workers;
    // For each sector of 4,096 bytes 16 in the table, and a little.
    Ok((column + column / 128 + BESIDES).next_multiple_of(1 << 20))
}

/// The array.
fn spec(system: &System) -> Result<Spec> {
    let volume = &system.volume;
    let size = volume_bytes(system)?;
    Ok(Spec {
        nodes: Some(usize::from(system.nodes.workers)),
        disk_size: Some(disk_bytes(system)?),
        volumes: vec![(VOLUME.to_string(), size)],
        layout: Some(volume.layout.0.parse()?),
        stripe_unit: Some(volume.unit),
        journal: Some(false),
        commanded: limits::is_commanded(system),
        ordering: Some(volume.ordering.into()),
        sequencer: Some(volume.sequencer.into()),
        strategy: match volume.stripes {
            Stripes::Small => Some(plan::Strategy::Small),
            Stripes::Large => None,
        },
        parity_at: match volume.parity_at {
            ParityAt::Auto => None,
            ParityAt::Originator => Some(plan::ParityAt::Originator),
            ParityAt::Solely => Some(plan::ParityAt::Solely),
            ParityAt::Parity => Some(plan::ParityAt::Parity),
        },
        commit: Some(match volume.commit {
            Commit::None => plan::Commit::None,
            Commit::Early => plan::Commit::Early,
            Commit::Late => plan::Commit::Late,
            Commit::Limited => plan::Commit::Limited,
        }),
        apart: None,
    })
}
