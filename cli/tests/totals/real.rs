//! What running nodes count.

use std::os::unix::net::UnixStream;

use fastrand::Rng;
use tempfile::TempDir;
use weft_core::plan::Totals;
use weft_core::policy::{Dispatch, Setting, Timing};
use weft_front::nbd::client::Client;
use weft_host::{Array, Control, ControlRequest as Asked, Handle, Lanes, Listen, NodeAction, Spec};

use super::{DISK, MIB, Request, Setup, VOLUME, World, explained, noise};

/// An array that runs in a directory of its own, and a host.
pub struct Running {
    control: Control,
    host: Client<UnixStream>,
    _array: Handle,
    _dir: TempDir,
}

/// Starts it with so many lanes.
pub fn start(setup: Setup, lanes: usize) -> Running {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("nbd.sock");
    let spec = Spec {
        nodes: Some(setup.nodes),
        disk_size: Some(DISK),
        volumes: vec![("v".into(), VOLUME)],
        layout: Some(setup.layout.parse().unwrap()),
        stripe_unit: Some(setup.unit),
        policy: vec![
            Setting::Journal(setup.journal),
            Setting::Redundancy(match setup.waits {
                true => Timing::Never,
                false => Timing::Immediate,
            }),
            Setting::Dispatch(match setup.commanded {
                true => Dispatch::Commanded,
                false => Dispatch::Collaborative,
            }),
        ],
        ..Spec::default()
    };
    let listens = [Listen::unix(socket.clone())];
    let array = Array::start(dir.path(), &spec, &listens, weft_host::Log::silent()).unwrap();
    let array = array.lanes(Lanes::new(lanes).unwrap()).spawn().unwrap();
    let control = Control::connect(dir.path()).unwrap();
    let host = Client::connect(UnixStream::connect(socket).unwrap(), "v").unwrap();
    let mut running = Running { control, host, _array: array, _dir: dir };
    let mut rng = Rng::with_seed(1);
    for offset in (0..VOLUME).step_by(MIB as usize) {
        running.host.write_at(offset, &noise(&mut rng, MIB), false).unwrap();
    }
    running.control.request(&Asked::Quiesce).unwrap();
    running
}

impl Running {
    fn counted(&mut self) -> Totals {
        explained::of(&self.control.request(&Asked::Status).unwrap()["totals"])
    }
}

impl World for Running {
    fn kill(&mut self, node: usize) {
        self.control.request(&Asked::Node { action: NodeAction::Kill, node }).unwrap();
        self.control.request(&Asked::Quiesce).unwrap();
    }

    fn cost(&mut self, request: Request, data: Vec<u8>) -> Totals {
        let before = self.counted();
        match request.write {
            true => self.host.write_at(request.offset, &data, false).unwrap(),
            false => {
                self.host.read_at(request.offset, request.length as u32).unwrap();
            }
        }
        self.control.request(&Asked::Quiesce).unwrap();
        difference(self.counted(), before)
    }
}

/// What was counted between two moments.
pub fn difference(after: Totals, before: Totals) -> Totals {
    Totals {
        disk_reads: after.disk_reads - before.disk_reads,
        disk_writes: after.disk_writes - before.disk_writes,
        journal_writes: after.journal_writes - before.journal_writes,
        messages: after.messages - before.messages,
        wire_bytes: after.wire_bytes - before.wire_bytes,
        round_trips: after.round_trips - before.round_trips,
    }
}
