//! `weft up --processes`: every node in a process of its own, on loopback.
//!
//! Each node has a directory, `node-0` and so on, with its configuration, disk and log of
//! messages; what runs is `weft node --config` on each, so that they can be killed and started
//! again one by one.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, kill_process};
use rustix::time::Timespec;
use signal_hook::consts::{SIGINT, SIGTERM};
use weft_core::node::FillRates;
use weft_host::status::{NodeState, Status, VolumeMode};
use weft_host::{
    Configuration, DiskOptions, DiskTimeout, Doors, How, LOCK, Lanes, Limits, LimitsInWords,
    Listen, LocalLinks, Polling, Size, SlowDiskTimeout, Spec, found, is_there, lock,
    make_private_directory, private_file, replace_private,
};
use weft_terminal::say;

use crate::args::node_dir;
use crate::doors::DoorOptions;
use crate::output::NO_THREAD;
use crate::serving::{Greeted, absolute, greet_when};

/// How often one looks after the processes.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// How long a node may take to stop.
const PATIENCE: Duration = Duration::from_secs(20);

/// What each of the processes is told, as far as it is said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Each {
    /// How it connects to the others.
    pub local: Option<LocalLinks>,
    /// Whether it looks for input for a while before it sleeps.
    pub polling: Option<Polling>,
    /// How many threads run its nodes.
    pub lanes: Option<Lanes>,
    /// How long a disk may take for one operation.
    pub disk_timeout: Option<DiskTimeout>,
    /// How long a disk may be slow.
    pub slow_disk_timeout: Option<SlowDiskTimeout>,
    /// Who may come in.
    pub doors: DoorOptions,
}

/// Where hosts reach the first process.
#[derive(Clone, Copy, Debug)]
pub struct Addresses<'a> {
    /// Where it listens.
    pub listens: &'a [Listen],
    /// What they are told instead, if anything is said of that.
    pub announced: &'a [Listen],
}

/// Runs the nodes in `dir`, making them first if there are none, until Ctrl-C or SIGTERM.
pub fn run(
    dir: &Path,
    spec: &Spec,
    Addresses { listens, announced }: Addresses<'_>,
    limits: &LimitsInWords,
    each: Each,
) -> Result<ExitCode> {
    Listen::check_announced(announced, listens, "--iscsi-announce")?;
    let listens = hosts_listens(listens);
    let mut held = dir.is_dir().then(|| lock(dir)).transpose()?;
    listens.iter().try_for_each(Listen::check)?;
    let is_new = held.is_none();
    if is_new {
        make_private_directory(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        held = Some(lock(dir)?);
    }
    let fresh = !node_dir(dir, 0).is_dir();
    if fresh {
        refuse_taken(dir, spec).inspect_err(|_| undo(dir, 0, is_new))?;
    }
    let up = Arc::new(AtomicBool::new(false));
    let ran = match fresh {
        true => make(dir, spec, &each),
        false => existing(dir, spec, &each),
    }
    .and_then(|paths| limit_hosts(&paths, limits).map(|()| paths))
    .and_then(|paths| {
        let addresses = Addresses { listens: &listens, announced };
        serve(dir, &paths, addresses, fresh, &up)
    });
    if ran.is_err() && fresh && !up.load(Ordering::Relaxed) {
        undo(dir, spec.nodes(), is_new);
    }
    ran?;
    say("stopped")?;
    drop(held);
    Ok(ExitCode::SUCCESS)
}

/// Removes the nodes that could not be made or started, so that the same command finds what it found this time: nothing
/// was stored here yet. A directory with anything else in it stays, and so does one that was there before.
fn undo(dir: &Path, nodes: usize, is_new: bool) {
    for own in (0..nodes).map(|n| node_dir(dir, n)) {
        let _ = fs::remove_dir_all(own);
    }
    if is_new {
        let _ = fs::remove_file(dir.join(LOCK));
        let _ = fs::remove_dir(dir);
    }
}

/// Runs the nodes of these configurations. Of a cluster that has just been made all must come `up`;
/// of one that has been up before, one that does not is a node that is down.
fn serve(
    dir: &Path,
    paths: &[PathBuf],
    addresses: Addresses<'_>,
    fresh: bool,
    up: &Arc<AtomicBool>,
) -> Result<()> {
    serve_hosts(dir, addresses)?;
    let (ours, theirs) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM] {
        signal_hook::low_level::pipe::register(signal, theirs.try_clone()?)?;
    }
    let mut nodes = Vec::new();
    for path in paths {
        nodes.push(start(path)?);
    }
    let (greeted, is_up) = (Greeted { dir: dir.to_path_buf(), is_new: fresh }, up.clone());
    let greeting = thread::Builder::new().spawn(move || greet_when_up(&greeted, &is_up));
    if let Err(e) = greeting {
        stop(&mut nodes)?;
        return Err(e).context(NO_THREAD);
    }
    let watched = watch(dir, &mut nodes, &ours, || !fresh || up.load(Ordering::Relaxed));
    stop(&mut nodes)?;
    watched
}

fn config_path(dir: &Path, node: usize) -> PathBuf {
    node_dir(dir, node).join("node.toml")
}

/// The configurations of the nodes that are there.
fn existing(dir: &Path, spec: &Spec, each: &Each) -> Result<Vec<PathBuf>> {
    let count = (0..).take_while(|n| node_dir(dir, *n).is_dir()).count();
    if let Some(nodes) = spec.nodes.filter(|n| *n != count) {
        bail!(
            "{} holds {count} nodes, not {nodes}; omit the option, or choose another directory",
            dir.display()
        );
    }
    let paths: Vec<PathBuf> = (0..count).map(|n| config_path(dir, n)).collect();
    for path in &paths {
        if !is_there(path)? {
            bail!(
                "{} is missing; restore it, or if this array has never run, remove {}/node-* and start again",
                path.display(),
                dir.display()
            );
        }
    }
    let size = Configuration::load(&paths[0])?.disk_size;
    if let (Some(asked), Some(size)) = (spec.disk_size, size)
        && asked != size
    {
        bail!(
            "the disks in {} have {}, not {}; omit the option, or choose another directory",
            dir.display(),
            Size(size),
            Size(asked)
        );
    }
    let of_volumes = spec.layout.is_some() || spec.stripe_unit.is_some() || !spec.policy.is_empty();
    if of_volumes || !spec.volumes.is_empty() {
        bail!(
            "{} already holds a cluster; create volumes with `weft volume create` while it runs",
            dir.display()
        );
    }
    if spec.queue.is_some() || spec.preallocate.is_some() || *each != Each::default() {
        for path in &paths {
            let before = Configuration::load(path)?;
            let disk_options = spec.disk_options_over(before.disk_options);
            let local = each.local.unwrap_or(before.local);
            let polling = each.polling.unwrap_or(before.polling);
            let lanes = each.lanes.unwrap_or(before.lanes);
            let disk_timeout = each.disk_timeout.unwrap_or(before.disk_timeout);
            let slow_disk_timeout = each.slow_disk_timeout.unwrap_or(before.slow_disk_timeout);
            let doors = each.doors.over(before.doors.clone());
            let config = Configuration {
                disk_options,
                local,
                polling,
                lanes,
                disk_timeout,
                slow_disk_timeout,
                doors,
                ..before
            };
            write_config(path, &config)?;
        }
    }
    Ok(paths)
}

/// Refuses a directory in which something else is where nodes would be made.
fn refuse_taken(dir: &Path, spec: &Spec) -> Result<()> {
    if is_there(&dir.join("weft.toml"))? {
        bail!("{} holds an array in one process; choose another directory", dir.display());
    }
    match (0..spec.nodes()).map(|n| node_dir(dir, n)).find(|own| own.exists()) {
        Some(own) => {
            bail!("{} already exists; move it away, or choose another directory", own.display())
        }
        None => Ok(()),
    }
}

/// Makes the nodes, and the cluster of them.
fn make(dir: &Path, spec: &Spec, each: &Each) -> Result<Vec<PathBuf>> {
    let dir = std::path::absolute(dir)?;
    // All ports are held until each node has one, so that no two get the same.
    let mut held = Vec::new();
    let mut configs = Vec::new();
    for n in 0..spec.nodes() {
        let own = node_dir(&dir, n);
        let [address, admit] = [free_port(&mut held)?, free_port(&mut held)?];
        configs.push(Configuration {
            name: format!("node-{n}").parse()?,
            disks: vec![own.join("disk.img")],
            disk_size: Some(spec.disk_size()),
            address,
            admit: (n == 0).then_some(admit),
            metrics: None,
            page: None,
            listens: Listen::usual(&own).into_iter().map(absolute).collect(),
            announced: Vec::new(),
            labels: [("box".to_string(), format!("b{n}"))].into(),
            fill: FillRates::default(),
            disk_options: spec.disk_options_over(DiskOptions::default()),
            limits: Limits::default(),
            only: None,
            local: each.local.unwrap_or_default(),
            polling: each.polling.unwrap_or_default(),
            patience: Default::default(),
            lanes: each.lanes.unwrap_or_default(),
            disk_timeout: each.disk_timeout.unwrap_or_default(),
            slow_disk_timeout: each.slow_disk_timeout.unwrap_or_default(),
            doors: each.doors.over(Doors::default()),
            controller: false,
            dir: own,
        });
    }
    found(&configs, Some(spec), false)?;
    let mut paths = Vec::new();
    for (n, config) in configs.iter().enumerate() {
        let path = config_path(&dir, n);
        write_config(&path, config)?;
        paths.push(path);
    }
    Ok(paths)
}

fn free_port(held: &mut Vec<TcpListener>) -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    held.push(listener);
    Ok(address)
}

fn write_config(path: &Path, config: &Configuration) -> Result<()> {
    let text = config.to_toml()?;
    replace_private(path, text.as_bytes())
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Where hosts reach the first node, besides its own sockets.
fn hosts_listens(listens: &[Listen]) -> Vec<Listen> {
    match listens.is_empty() {
        true => vec![Listen::tcp("127.0.0.1:10809")],
        false => listens.iter().cloned().map(absolute).collect(),
    }
}

/// Writes what hosts may take into the nodes' configurations, as far as it is said.
fn limit_hosts(paths: &[PathBuf], limits: &LimitsInWords) -> Result<()> {
    for path in paths {
        let before = Configuration::load(path)?;
        let config = Configuration { limits: limits.over(before.limits)?, ..before.clone() };
        if config != before {
            write_config(path, &config)?;
        }
    }
    Ok(())
}

/// Writes that into its configuration.
fn serve_hosts(dir: &Path, Addresses { listens, announced }: Addresses<'_>) -> Result<()> {
    let path = config_path(dir, 0);
    let mut config = Configuration::load(&path)?;
    // Its own sockets come first, one for each protocol.
    let mut keys = BTreeSet::new();
    config.listens.retain(|own| keys.insert(own.key()));
    config.listens.extend_from_slice(listens);
    config.announced = announced.to_vec();
    listens.iter().try_for_each(|l| l.check_door(&config.doors, "--listen", How::Options))?;
    write_config(&path, &config)
}

fn start(config: &Path) -> Result<Child> {
    let log = config.with_file_name("node.log");
    let open = || {
        let log = private_file().create(true).append(true).open(&log)?;
        Command::new(std::env::current_exe()?)
            .args(["node", "--with-parent", "--config"])
            .arg(config)
            .stdout(log.try_clone()?)
            .stderr(log)
            // Ctrl-C is for this process, which then stops them in good order.
            .process_group(0)
            .spawn()
    };
    open().with_context(|| format!("cannot start the node of {}", config.display()))
}

/// Whether the nodes are in, and what hosts may use can be used.
fn are_in(status: &Status) -> bool {
    use NodeState::{CatchingUp, Draining, Suspect, Up};
    status.settled
        && status.cut_off.is_none()
        && status.nodes.iter().all(|n| matches!(n.state, Up | CatchingUp | Draining | Suspect))
        && !status.volumes.iter().any(|v| v.mode == VolumeMode::Failed)
}

fn greet_when_up(array: &Greeted, up: &AtomicBool) {
    let dir = &array.dir;
    let since = Instant::now();
    // If some do not come, what there is then is said.
    let ready = |status: &Status| are_in(status) || since.elapsed() > PATIENCE;
    // The first node serves hosts where all are told to look. If it does not come another says where they may.
    let first = node_dir(dir, 0);
    let asked = || if since.elapsed() > PATIENCE / 4 { dir } else { &first };
    while let Err(e) = greet_when(asked(), array, ready) {
        if since.elapsed() > PATIENCE {
            eprintln!(
                "weft: the nodes do not answer: {e:#}; see {}/node-*/node.log",
                dir.display()
            );
            return;
        }
        thread::sleep(Duration::from_millis(100));
    }
    up.store(true, Ordering::Relaxed);
}

/// Says which nodes end, until a signal comes or none runs any more. One that fails is the end if it
/// must not.
fn watch(
    dir: &Path,
    nodes: &mut [Child],
    signals: &UnixStream,
    may_fail: impl Fn() -> bool,
) -> Result<()> {
    let mut running: Vec<bool> = vec![true; nodes.len()];
    while running.contains(&true) {
        for (n, node) in
            nodes.iter_mut().enumerate().filter(|(n, _)| running[*n]).collect::<Vec<_>>()
        {
            if let Some(status) = node.try_wait()? {
                running[n] = false;
                let config = config_path(dir, n);
                let log = config.with_file_name("node.log");
                let why = last_line(&log);
                if status.code().is_some_and(|code| code != 0) && !may_fail() {
                    bail!("the process of node {n} has ended ({status}): {why}");
                }
                eprintln!(
                    "weft: the process of node {n} has ended ({status}): {why}; see {}; start it again \
                     with weft node --config {}",
                    log.display(),
                    config.display()
                );
            }
        }
        let fd = signals.as_fd();
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&LOOK)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(e) => return Err(e.into()),
        }
    }
    bail!("no node is running")
}

/// Bytes in which the last line of a log is.
const LAST_LINE: u64 = 64 << 10;

/// The end of a file, however long that is.
fn end_of(file: &Path) -> io::Result<String> {
    let mut file = File::open(file)?;
    let len = file.metadata()?.len();
    file.seek(SeekFrom::Start(len.saturating_sub(LAST_LINE)))?;
    let mut end = Vec::new();
    file.take(LAST_LINE).read_to_end(&mut end)?;
    Ok(String::from_utf8_lossy(&end).into_owned())
}

/// What a log ends with.
fn last_line(log: &Path) -> String {
    let text = end_of(log).unwrap_or_default();
    let line = text.lines().last().unwrap_or("it has logged nothing");
    line.strip_prefix("weft: ").unwrap_or(line).to_string()
}

fn stop(nodes: &mut [Child]) -> Result<()> {
    let since = Instant::now();
    for node in nodes.iter_mut() {
        if node.try_wait()?.is_none()
            && let Some(pid) = Pid::from_raw(node.id() as i32)
        {
            // One that has just ended is what is wanted.
            let _ = kill_process(pid, Signal::TERM);
        }
    }
    for node in nodes {
        while node.try_wait()?.is_none() {
            if since.elapsed() > PATIENCE {
                match node.kill() {
                    Err(e) if e.kind() != ErrorKind::InvalidInput => return Err(e.into()),
                    _ => {}
                }
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
    io::stdout().flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use weft_host::status::{NodeStatus, VolumeStatus};

    use super::*;

    #[test]
    fn one_is_greeted_when_the_nodes_are_in() {
        let status = |states: [NodeState; 2], mode: VolumeMode| Status {
            settled: true,
            nodes: states.map(|state| NodeStatus { state, ..NodeStatus::default() }).into(),
            volumes: vec![VolumeStatus { mode, ..VolumeStatus::default() }],
            ..Status::default()
        };
        let up = NodeState::Up;
        assert!(are_in(&status([up, NodeState::CatchingUp], VolumeMode::Reconstructing)));
        assert!(!are_in(&status([up, NodeState::Expected], VolumeMode::Failed)));
        assert!(!are_in(&status([up, up], VolumeMode::Failed)));
        let cut_off = Some("by all".to_string());
        assert!(!are_in(&Status { cut_off, ..status([up, up], VolumeMode::NotServed) }));
    }
}
