//! The nodes' processes, each on a file system of its own; and one host that is its own controller
//! (`weft attach`), which has the number after theirs.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use weft_core::layout::LayoutSpec;
use weft_core::node::FillRates;
use weft_core::policy::{Setting, Timing};
use weft_host::status::Status;
use weft_host::{
    Configuration, Control, ControlRequest, DiskOptions, Lanes, Limits, Listen, LocalLinks,
    Polling, Spec, VolumeCreation, found,
};

use super::device::Device;
use super::fault::{Fault, HUNG_AFTER};
use super::held_up::HeldUp;
use super::network::{self, Network};

/// The size of each disk.
pub const DISK: u64 = 96 << 20;

/// The size of each node's file system: its disk, and little more.
const ROOM: &CStr = c"size=112m";

/// What holds a disk, in its node's file system.
const FILE: &str = "disk.img";

/// The volume that is written and read.
pub const VOLUME: &str = "vol0";

/// The size of the volume.
pub const VOLUME_BYTES: u64 = 64 << 20;

/// All nodes hear of a volume, or of another node, within this time.
const KNOWN: Duration = Duration::from_secs(10);

/// The volume that has a file system, and its size.
pub const FILES_VOLUME: &str = "files";
const FILES_BYTES: u64 = 32 << 20;

/// How long it may take to start everything, for each five nodes. They share the processors of one machine.
const START: Duration = Duration::from_secs(60);

/// What helps if a wait was too long only because of the machine.
pub const BUSY: &str = "if the machine is busy with other things, `--slack SECONDS` allows more";

/// How long everything may take to become whole.
pub const WHOLE: Duration = Duration::from_secs(90);

/// The directory that a node has all its files in.
fn node_dir(dir: &Path, node: usize) -> PathBuf {
    dir.join(format!("node-{node}"))
}

/// How parity may wait in a volume that chooses this.
fn waits(parities: usize, policy: &[Setting]) -> Option<Timing> {
    let copied = Setting::Redundancy(Timing::Copied);
    let timing = if policy.contains(&copied) { Timing::Copied } else { Timing::Deferred };
    (parities > 0).then_some(timing)
}

/// The nodes.
pub struct Cluster {
    dir: PathBuf,
    /// The `weft` program, whose commands the processes are.
    weft: PathBuf,
    configs: Vec<Configuration>,
    network: Option<Network>,
    mounted: bool,
    /// The block devices that are the disks of some nodes.
    devices: BTreeMap<usize, Device>,
    /// What can hold up some of them.
    held_up: BTreeMap<usize, HeldUp>,
    /// Why something is not possible.
    without: Option<String>,
    /// The volumes' layout, and how many nodes they bear to lose.
    layout: LayoutSpec,
    bears: usize,
    /// How parity may wait, if there is any: where small writes of the volumes are copied, as for these.
    waits: Option<Timing>,
    /// The host has been let in.
    attached: bool,
    /// The processes, the attached host's last.
    pub(super) running: Vec<Option<Child>>,
}

impl Cluster {
    /// Makes a cluster in `dir` and starts it; its volumes have this layout and policy, and [`VOLUME`] is thin if `thin`. If
    /// `holds_up`, some disks can be held up.
    pub fn start(
        weft: &Path,
        dir: &Path,
        (nodes, lanes): (usize, Lanes),
        (layout, policy, thin): (LayoutSpec, &[Setting], bool),
        holds_up: bool,
    ) -> Result<Cluster> {
        let code = layout.over(nodes)?.code()?;
        let (bears, waits) = (code.any_losses(), waits(code.parity_columns(), policy));
        let network = Network::new(nodes + 1);
        let mut without = network.as_ref().err().map(|e| format!("links stay whole: {e:#}"));
        let network = network.ok();
        let mut mounted = true;
        for n in 0..nodes {
            let own = node_dir(dir, n);
            fs::create_dir_all(&own)?;
            if let Err(e) = mount("tmpfs", &own, "tmpfs", MountFlags::empty(), ROOM) {
                without.get_or_insert(format!("no file system is filled: cannot mount one: {e}"));
                mounted = false;
            }
        }
        // Every other disk is a block device, so that both kinds suffer.
        let mut devices = BTreeMap::new();
        for n in (1..nodes).step_by(2) {
            match Device::attach(&node_dir(dir, n).join(FILE), DISK) {
                Ok(device) => drop(devices.insert(n, device)),
                Err(e) => drop(without.get_or_insert(format!("no disk returns errors: {e:#}"))),
            }
        }
        let mut held_up = BTreeMap::new();
        for n in (2..nodes).step_by(2).filter(|_| holds_up) {
            match HeldUp::attach(&node_dir(dir, n).join(FILE), DISK) {
                Ok((between, device)) => {
                    held_up.insert(n, between);
                    devices.insert(n, device);
                }
                Err(e) => drop(without.get_or_insert(format!("no disk can be held up: {e:#}"))),
            }
        }
        let mut held = Vec::new();
        let mut configs = Vec::new();
        let mut address = |n: usize, port: u16| -> Result<SocketAddr> {
            if network.is_some() {
                return Ok(SocketAddr::new(network::address(n).parse()?, port));
            }
            let listener = TcpListener::bind("127.0.0.1:0")?;
            let address = listener.local_addr()?;
            held.push(listener);
            Ok(address)
        };
        for n in 0..nodes {
            let own = node_dir(dir, n);
            let device = devices.get(&n).map(|d| d.path().to_path_buf());
            configs.push(Configuration {
                name: format!("node-{n}").parse()?,
                dir: own.join("state"),
                disk_size: device.is_none().then_some(DISK),
                disks: vec![device.unwrap_or_else(|| own.join(FILE))],
                address: address(n, 10810)?,
                admit: (n == 0).then(|| address(n, 10811)).transpose()?,
                metrics: None,
                page: None,
                listens: vec![Listen::unix(own.join("nbd.sock"))],
                announced: Vec::new(),
                labels: [("box".to_string(), format!("b{n}"))].into(),
                fill: FillRates::default(),
                disk_options: DiskOptions::default(),
                limits: Limits::default(),
                only: None,
                // What cuts links must cut all that is said.
                local: if network.is_some() { LocalLinks::Tls } else { LocalLinks::Unix },
                polling: Polling::default(),
                disk_timeout: match held_up.contains_key(&n) {
                    true => HUNG_AFTER.parse()?,
                    false => Default::default(),
                },
                slow_disk_timeout: Default::default(),
                doors: Default::default(),
                patience: Default::default(),
                lanes,
                controller: false,
            });
        }
        let mut cluster = Cluster {
            dir: dir.to_path_buf(),
            weft: weft.to_path_buf(),
            layout,
            bears,
            waits,
            attached: false,
            running: (0..=nodes).map(|_| None).collect(),
            configs,
            network,
            mounted,
            devices,
            held_up,
            without,
        };
        let mut volumes = vec![(FILES_VOLUME.to_string(), FILES_BYTES)];
        if !thin {
            volumes.insert(0, (VOLUME.to_string(), VOLUME_BYTES));
        }
        let spec =
            Spec { volumes, layout: Some(layout), policy: policy.to_vec(), ..Spec::default() };
        found(&cluster.configs, Some(&spec), false)?;
        drop(held);
        for n in 0..nodes {
            let text = cluster.configs[n].to_toml()?;
            fs::write(cluster.config_path(n), text)?;
            cluster.start_node(n)?;
        }
        let start = START * nodes.div_ceil(5) as u32;
        cluster.wait_until_whole(start, Duration::ZERO)?;
        if thin {
            until_known(|| cluster.create_thin(policy))?;
        }
        cluster.attach()?;
        cluster.wait_until_whole(start, Duration::ZERO)?;
        Ok(cluster)
    }

    /// Makes the volume that is written and read, as a thin one.
    fn create_thin(&self, policy: &[Setting]) -> Result<()> {
        let set = policy.iter().map(|s| (s.key().to_string(), s.word())).collect();
        let create = ControlRequest::VolumeCreate(VolumeCreation {
            name: VOLUME.to_string(),
            size: VOLUME_BYTES,
            thin: true,
            layout: Some(self.layout.to_string()),
            set,
            ..VolumeCreation::default()
        });
        self.ask(0, &create).map(drop)
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.configs.len()
    }

    /// How many the volumes bear to lose.
    pub fn bears(&self) -> usize {
        self.bears
    }

    /// The volumes' layout.
    pub fn layout(&self) -> LayoutSpec {
        self.layout
    }

    /// Whether the volumes' small writes are copied.
    pub fn copies(&self) -> bool {
        self.waits == Some(Timing::Copied)
    }

    /// Bytes of copied writes that have yet to be folded, on all disks.
    pub fn copied_bytes(&self, asked: usize) -> Result<u64> {
        let status = self.ask(asked, &ControlRequest::Status)?;
        let nodes = status["nodes"].as_array().context("a status has nodes")?;
        Ok(nodes.iter().filter_map(|node| node["copied_bytes"].as_u64()).sum())
    }

    /// How many data columns a stripe has.
    pub fn data_columns(&self) -> Result<u64> {
        Ok(self.layout.over(self.nodes())?.data_columns() as u64)
    }

    /// Where operators and where hosts reach each node: its directory and a socket.
    pub fn doors(&self) -> Vec<(PathBuf, PathBuf)> {
        self.configs.iter().map(|config| config.dir.clone()).zip(self.sockets()).collect()
    }

    /// Bytes of a disk that a snapshot of the volume takes at most, and some to spare.
    pub fn most_of_snapshot(&self) -> Result<u64> {
        Ok(VOLUME_BYTES / self.data_columns()? + (4 << 20))
    }

    /// The number of the attached host.
    fn host(&self) -> usize {
        self.configs.len()
    }

    /// Lets the host in, and starts it.
    fn attach(&mut self) -> Result<()> {
        let answer = self.ask(0, &ControlRequest::Token { seconds: 60 })?;
        let text = |key: &str| answer[key].as_str().context("a token and where it lets in");
        let first = ["--name", "host", "--token", text("token")?, "--at", text("admit")?];
        self.start_host(&first)?;
        self.attached = true;
        Ok(())
    }

    fn start_host(&mut self, first: &[&str]) -> Result<()> {
        let host = self.host();
        // Should this process die, so does the host.
        let mut command = self.inside(host, Path::new("setpriv"));
        command.args(["--pdeathsig", "KILL"]).arg(&self.weft).args([
            "attach",
            VOLUME,
            FILES_VOLUME,
            "--dir",
        ]);
        command.arg(self.home(host)).args(first);
        self.spawn(host, command)
    }

    /// What to call a process.
    pub fn called(&self, place: usize) -> String {
        match place == self.host() {
            true => "the attached host".to_string(),
            false => format!("node {place}"),
        }
    }

    /// The directory that a process has.
    fn home(&self, place: usize) -> PathBuf {
        match self.configs.get(place) {
            Some(config) => config.dir.clone(),
            None => self.dir.join("host"),
        }
    }

    /// All that run, or should.
    pub fn places(&self) -> Range<usize> {
        0..self.configs.len() + usize::from(self.attached)
    }

    /// The nodes that a fault is possible at, and the attached host's number if it is at that.
    pub fn victims(&self, fault: Fault) -> Vec<usize> {
        let can = |n: &usize| match fault {
            // It has no disk, and does not take part as nodes do.
            Fault::Outage
            | Fault::Stop
            | Fault::Fill
            | Fault::Flip
            | Fault::Replace
            | Fault::Wipe
                if *n == self.host() =>
            {
                false
            }
            Fault::Wipe => self.waits.is_some(),
            fault if fault.is_damage() && *n == self.host() => false,
            Fault::Fill => self.mounted,
            Fault::Errors => self.devices.contains_key(n) && !self.held_up.contains_key(n),
            fault if fault.holds_up_disks() => self.held_up.contains_key(n),
            fault => self.network.is_some() || !fault.is_of_links(),
        };
        self.places().filter(can).collect()
    }

    /// Where volumes have a controller: that, its backup and the attached host, an endpoint, in the first three of six
    /// rounds.
    pub fn principal(&self, round: u32) -> Result<Option<usize>> {
        let status = self.status(0)?;
        let Some(volume) = status.volumes.iter().find(|v| v.controller.is_some()) else {
            return Ok(None);
        };
        Ok(match round % 6 {
            0 => volume.controller.map(usize::from),
            1 => volume.controller_backup.map(usize::from),
            2 => Some(self.host()),
            _ => None,
        })
    }

    /// Whether a node's disk may say of a write that it was done when it was not. A loop device says so
    /// of a write of which the full file system under it took only the first part (`lo_complete_rq` in
    /// Linux's drivers/block/loop.c). What is missing is found by its checksum, as after [`Fault::Flip`].
    pub fn lies(&self, fault: Fault, node: usize) -> bool {
        fault == Fault::Fill && self.devices.contains_key(&node)
    }

    /// What is not possible here, and why.
    pub fn without(&self) -> Option<&str> {
        self.without.as_deref()
    }

    /// The links.
    pub fn network(&self) -> Result<&Network> {
        self.network.as_ref().context("there are no links to do anything to")
    }

    /// What can hold up the disk of a node.
    pub fn held_up(&self, node: usize) -> Result<&HeldUp> {
        self.held_up.get(&node).context("this disk cannot be held up")
    }

    /// Where hosts reach each node.
    pub fn sockets(&self) -> Vec<PathBuf> {
        let nodes = (0..self.configs.len()).map(|n| node_dir(&self.dir, n));
        nodes.chain([self.home(self.host())]).map(|dir| dir.join("nbd.sock")).collect()
    }

    /// The file that holds what is on the disk of a node.
    pub fn file(&self, node: usize) -> PathBuf {
        node_dir(&self.dir, node).join(FILE)
    }

    /// A file of another file system, for a copy of a node's disk.
    pub fn file_beside(&self, node: usize) -> PathBuf {
        self.dir.join(format!("node-{node}.copy"))
    }

    /// What a node has as its disk: that file, or a device over it.
    pub fn disk(&self, node: usize) -> &Path {
        &self.configs[node].disks[0]
    }

    fn config_path(&self, node: usize) -> PathBuf {
        self.dir.join(format!("node-{node}.toml"))
    }

    /// Starts a node's process, or the attached host.
    pub fn start_node(&mut self, node: usize) -> Result<()> {
        if node == self.host() {
            return self.start_host(&[]);
        }
        let mut command = self.inside(node, &self.weft);
        command.args(["node", "--with-parent", "--config"]).arg(self.config_path(node));
        self.spawn(node, command)
    }

    /// A command that runs a program at a process's place in the network.
    fn inside(&self, place: usize, program: &Path) -> Command {
        match &self.network {
            None => Command::new(program),
            Some(network) => network.inside(place, program),
        }
    }

    fn spawn(&mut self, place: usize, mut command: Command) -> Result<()> {
        let log = self.dir.join(format!("node-{place}.log"));
        let log = File::options().create(true).append(true).open(log)?;
        command.stdout(log.try_clone()?).stderr(log);
        self.running[place] = Some(command.spawn().context("cannot start a node")?);
        Ok(())
    }

    /// Sends a node's process a signal.
    pub fn signal(&self, node: usize, signal: Signal) -> Result<()> {
        let child = self.running[node].as_ref().context("the node does not run")?;
        let pid = Pid::from_raw(child.id() as i32).context("a process has a number")?;
        kill_process(pid, signal).context("cannot send a signal")
    }

    /// Ends a node's process at once.
    pub fn kill_node(&mut self, node: usize) -> Result<()> {
        if let Some(mut child) = self.running[node].take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Asks a node's process something.
    pub fn ask(&self, node: usize, request: &ControlRequest) -> Result<Value> {
        Ok(Control::connect(&self.home(node))?.request(request)?)
    }

    /// What a node's process says of how things are.
    pub(super) fn status(&self, node: usize) -> Result<Status> {
        Ok(Control::connect(&self.home(node))?.status()?)
    }

    /// Stops all nodes in good order.
    pub fn stop(&mut self) -> Result<()> {
        // The host first: alone it could do nothing.
        for n in (0..self.running.len()).rev() {
            if self.running[n].is_some() {
                self.signal(n, Signal::TERM)?;
            }
        }
        for (n, child) in self.running.iter_mut().enumerate() {
            if let Some(mut child) = child.take() {
                let status = child.wait()?;
                if !status.success() {
                    bail!("node {n} did not stop well: {status}");
                }
            }
        }
        Ok(())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // No process ends while its disk is held up.
        self.held_up.clear();
        for child in self.running.iter_mut().flatten() {
            // Whatever state they are in.
            let _ = child.kill();
            let _ = child.wait();
        }
        // Before the file systems that they are on.
        self.devices.clear();
        if self.mounted {
            for n in 0..self.configs.len() {
                let _ = unmount(node_dir(&self.dir, n), UnmountFlags::DETACH);
            }
        }
    }
}

/// A host's connection may have to end first, or a node to hear of the volume or of another node.
pub fn until_known<T>(mut does: impl FnMut() -> Result<T>) -> Result<T> {
    let since = Instant::now();
    loop {
        match does() {
            Err(_) if since.elapsed() < KNOWN => thread::sleep(Duration::from_millis(20)),
            result => return result,
        }
    }
}
