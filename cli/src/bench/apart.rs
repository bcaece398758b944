//! `weft bench --processes`: what it costs that nodes are processes of their own, and how fast a
//! lost disk comes back.
//!
//! Small requests, one at a time, to the same array twice: its nodes in one process, and each in
//! one of its own with TLS between them. Beside that stands what the bare sockets take for the
//! messages that such a request needs one after the other: from the originator to the data's
//! worker, for a write from there to the parity's worker, and back to the originator.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use weft_core::units::SECTOR;
use weft_host::status::{NodeState, Status};
use weft_host::{Array, Control, ControlRequest, Listen, NodeAction};
use weft_terminal::{Counts, Stage, align_right, mb_per_s, say, say_json, table};

use super::workload::{self, Case, Measured};
use super::{Bench, Medium, NODES, VICTIM, VOLUME, is_whole};
use crate::args::node_dir;
use weft_trial::load::{connect, fill};
use weft_trial::scratch::Scratch;

/// How long nodes may take to start, and a disk to be rebuilt.
const PATIENCE: Duration = Duration::from_secs(300);

/// Round trips of the raw sockets.
const ROUNDS: usize = 5000;

/// A message with a sector in it, and one without.
const LARGE: usize = 4200;
const SMALL: usize = 80;

/// What a disk takes and gives in one request when its ceiling is measured.
const PIECE: usize = 1 << 20;

/// A workload in both forms.
struct Pair {
    case: Case,
    /// Messages between nodes, one after the other.
    messages: u32,
    together: Measured,
    apart: Measured,
}

/// The rebuild of a disk.
struct Rebuild {
    /// Of what was put back, from the command until all was whole.
    mb_per_s: f64,
    /// The same from when the first of it was back; `None` if it was over too soon to tell.
    once_begun_mb_per_s: Option<f64>,
    /// The same if the disk under all nodes did nothing else than read and write it in large
    /// pieces; `None` in memory.
    ceiling_mb_per_s: Option<f64>,
}

/// Measures it.
pub(super) fn run(bench: &Bench) -> Result<ExitCode> {
    let trip = raw_round_trip()?;
    let mut media = Vec::new();
    for medium in bench.media()? {
        let (pairs, rebuild) = measure(bench, &medium)?;
        media.push((medium.name, pairs, rebuild));
    }
    if bench.json {
        let media = media.iter().map(|(name, pairs, rebuild)| as_json(name, pairs, rebuild, trip));
        say_json(json!({
            "volume_bytes": bench.size(),
            "seconds": bench.seconds(),
            "raw_round_trip_us": trip,
            "media": media.collect::<Vec<_>>(),
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut lines = table([
        "on",
        "workload",
        "one process, p50 µs",
        "5 processes, p50 µs",
        "sockets, µs",
        "beyond the sockets",
    ]);
    for (name, pairs, _) in &media {
        for pair in pairs {
            lines.add_row([
                name.to_string(),
                pair.case.to_string(),
                pair.together.p50_us.to_string(),
                pair.apart.p50_us.to_string(),
                format!("{:.0}", pair.sockets(trip)),
                format!("{:.2} times", pair.ratio(trip)),
            ]);
        }
    }
    align_right(&mut lines, 2..6);
    say(&lines)?;
    for (name, _, rebuild) in &media {
        say(match rebuild.ceiling_mb_per_s {
            Some(ceiling) => format!(
                "{name}: {}; the common disk alone would read and write it at {ceiling:.0} MB/s in pieces of 1 MiB: {:.2} of \
             that{}",
                rebuild.describe(),
                rebuild.mb_per_s / ceiling,
                rebuild.once_begun(|rate| format!("{:.2}", rate / ceiling))
            ),
            None => format!("{name}: {}", rebuild.describe()),
        })?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Rebuild {
    fn describe(&self) -> String {
        let begun = self.once_begun(|rate| format!("{rate:.0} MB/s"));
        format!("a disk was rebuilt at {:.0} MB/s{begun}", self.mb_per_s)
    }

    fn once_begun(&self, say: impl Fn(f64) -> String) -> String {
        self.once_begun_mb_per_s.map_or(String::new(), |rate| format!(", {} once begun", say(rate)))
    }
}

impl Pair {
    /// Microseconds that the bare sockets take.
    fn sockets(&self, trip: f64) -> f64 {
        trip / 2.0 * f64::from(self.messages)
    }

    /// What is beyond the sockets, to what it takes in one process.
    fn ratio(&self, trip: f64) -> f64 {
        (self.apart.p50_us as f64 - self.sockets(trip)) / self.together.p50_us.max(1) as f64
    }
}

fn as_json(name: &str, pairs: &[Pair], rebuild: &Rebuild, trip: f64) -> serde_json::Value {
    let pair = |p: &Pair| {
        json!({
            "workload": p.case.to_string(),
            "one_process_p50_us": p.together.p50_us,
            "processes_p50_us": p.apart.p50_us,
            "sockets_us": p.sockets(trip),
            "ratio_beyond_sockets": p.ratio(trip),
        })
    };
    json!({
        "medium": name,
        "cases": pairs.iter().map(pair).collect::<Vec<_>>(),
        "rebuild_mb_per_s": rebuild.mb_per_s,
        "rebuild_once_begun_mb_per_s": rebuild.once_begun_mb_per_s,
        "rebuild_ceiling_mb_per_s": rebuild.ceiling_mb_per_s,
    })
}

fn measure(bench: &Bench, medium: &Medium) -> Result<(Vec<Pair>, Rebuild)> {
    // A write that changes a part of a unit passes on to the parity's worker; a read does not.
    let cases: Vec<(Case, u32)> = workload::CASES
        .into_iter()
        .filter(|c| c.random && c.depth == 1)
        .map(|c| (c, if c.write { 3 } else { 2 }))
        .collect();
    let together = {
        let dir = Scratch::new("weft-bench-", &medium.dir)?;
        let socket = dir.path().join("nbd.sock");
        let listens = [Listen::unix(socket.clone())];
        let array = Array::start(dir.path(), &bench.spec(), &listens, weft_host::Log::silent())?;
        let array = array.spawn()?;
        let name = format!("{}, one process", medium.name);
        let measured = run_cases(bench, &name, &socket, dir.path(), &cases)?;
        array.shutdown()?;
        measured
    };
    let dir = Scratch::new("weft-bench-", &medium.dir)?;
    let processes = Processes::start(bench, dir.path())?;
    let name = format!("{}, {NODES} processes by Unix sockets", medium.name);
    let socket = dir.path().join("nbd.sock");
    let apart = run_cases(bench, &name, &socket, &node_dir(dir.path(), 0), &cases)?;
    let rebuild = rebuild(bench, medium, dir.path())?;
    processes.stop()?;
    let pairs = cases.into_iter().zip(together.into_iter().zip(apart));
    let pairs = pairs
        .map(|((case, messages), (together, apart))| Pair { case, messages, together, apart })
        .collect();
    Ok((pairs, rebuild))
}

fn run_cases(
    bench: &Bench,
    name: &str,
    socket: &Path,
    control: &Path,
    cases: &[(Case, u32)],
) -> Result<Vec<Measured>> {
    let mut host = connect(socket, VOLUME)?;
    let mut control = Control::connect(control)?;
    fill(&mut host, &format!("{name}: filling the volume"))?;
    let mut out = Vec::new();
    for (case, _) in cases {
        let stage = Stage::new(format!("{name}: {case}"), 1, Counts::Things);
        let time = Duration::from_secs(bench.seconds());
        let measured = workload::run(&mut host, &mut control, *case, time)?;
        stage.done(&measured);
        out.push(measured);
    }
    Ok(out)
}

/// Loses a disk and waits until an empty one in its place holds all again.
fn rebuild(bench: &Bench, medium: &Medium, dir: &Path) -> Result<Rebuild> {
    // Of each stripe of this volume the disk has one unit.
    let share = bench.size() / (NODES as u64 - 1);
    let mut control = Control::connect(&node_dir(dir, 0))?;
    let stage = Stage::new(format!("{}: a disk is rebuilt", medium.name), share, Counts::Bytes);
    control.request(&ControlRequest::Node { action: NodeAction::Kill, node: VICTIM })?;
    wait_for(&mut control, "no other node noticed", |s| s.nodes[VICTIM].state != NodeState::Up)?;
    let mut victim = Control::connect(&node_dir(dir, VICTIM))?;
    let asked = Instant::now();
    control.request(&ControlRequest::disk_replace(VICTIM))?;
    let mut put_back = 0;
    wait_for(&mut victim, "nothing was rebuilt", |s| {
        put_back = s.nodes[VICTIM].counters.map_or(0, |c| c.rebuilt_sectors) * SECTOR;
        put_back > 0
    })?;
    let begun = Instant::now();
    wait_for(&mut control, "the disk was not rebuilt", is_whole)?;
    let rate = mb_per_s(share, asked.elapsed().as_secs_f64());
    let left = Some(share.saturating_sub(put_back)).filter(|left| *left > share / 2);
    let once_begun = left.map(|left| mb_per_s(left, begun.elapsed().as_secs_f64()));
    stage.done(format!("{rate:9.1} MB/s"));
    let ceiling = (!medium.volatile).then(|| ceiling(dir, share)).transpose()?;
    Ok(Rebuild { mb_per_s: rate, once_begun_mb_per_s: once_begun, ceiling_mb_per_s: ceiling })
}

fn wait_for(
    control: &mut Control,
    why: &str,
    mut is_so: impl FnMut(&Status) -> bool,
) -> Result<()> {
    let since = Instant::now();
    while !is_so(&control.status()?) {
        ensure!(since.elapsed() < PATIENCE, "{why} within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// The rate at which `share` bytes would come back if the one disk that all nodes lie on read the
/// four others' shares and wrote this one, in large pieces, past the page cache, and nothing else.
fn ceiling(dir: &Path, share: u64) -> Result<f64> {
    let mut pieces = aligned();
    let begun = Instant::now();
    for node in (0..NODES).filter(|n| *n != VICTIM) {
        let mut disk = open_direct(&node_dir(dir, node).join("disk.img"), false)?;
        for _ in 0..share / PIECE as u64 {
            disk.read_exact(pieces.piece())?;
        }
    }
    let path = dir.join("ceiling");
    let mut written = open_direct(&path, true)?;
    for _ in 0..share / PIECE as u64 {
        written.write_all(pieces.piece())?;
    }
    written.sync_data()?;
    let rate = mb_per_s(share, begun.elapsed().as_secs_f64());
    fs::remove_file(&path)?;
    Ok(rate)
}

fn open_direct(path: &Path, new: bool) -> Result<File> {
    OpenOptions::new()
        .read(true)
        .write(new)
        .create(new)
        .custom_flags(OFlags::DIRECT.bits() as i32)
        .open(path)
        .with_context(|| format!("cannot open {} with direct I/O", path.display()))
}

/// A buffer with room to begin where direct transfers may.
struct Aligned(Vec<u8>);

fn aligned() -> Aligned {
    Aligned(vec![1; PIECE + 4096])
}

impl Aligned {
    fn piece(&mut self) -> &mut [u8] {
        let skip = self.0.as_ptr().align_offset(4096);
        &mut self.0[skip..skip + PIECE]
    }
}

/// The median of a round trip over loopback between two processes, there with a sector and back
/// without, in microseconds.
fn raw_round_trip() -> Result<f64> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut other = Command::new(std::env::current_exe()?)
        .args(["bench", "--echo", &listener.local_addr()?.to_string()])
        .spawn()?;
    let (mut socket, _) = listener.accept()?;
    socket.set_nodelay(true)?;
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        socket.write_all(&[0; LARGE])?;
        socket.read_exact(&mut [0; SMALL])?;
        times.push(begun.elapsed());
    }
    drop(socket);
    let status = other.wait()?;
    ensure!(status.success(), "the peer process of the sockets failed ({status})");
    times.sort_unstable();
    Ok(times[ROUNDS / 2].as_secs_f64() * 1e6)
}

/// The other end.
pub(super) fn echo(address: SocketAddr) -> Result<ExitCode> {
    let mut socket = TcpStream::connect(address)?;
    socket.set_nodelay(true)?;
    let mut large = [0; LARGE];
    while socket.read_exact(&mut large).is_ok() && socket.write_all(&[0; SMALL]).is_ok() {}
    Ok(ExitCode::SUCCESS)
}

/// `weft up --processes`, which ends with this.
struct Processes(Child);

impl Processes {
    fn start(bench: &Bench, dir: &Path) -> Result<Processes> {
        let spec = bench.spec();
        let child = Command::new(std::env::current_exe()?)
            .args(["up", "--processes", "--local", "unix", "--nodes", &NODES.to_string()])
            .args(["--disk-size", &spec.disk_size().to_string()])
            .args(["--volume", &format!("{VOLUME}:{}", bench.size())])
            .arg("--dir")
            .arg(dir)
            .arg("--listen")
            .arg(dir.join("nbd.sock"))
            .stdout(Stdio::null())
            .spawn()?;
        let mut processes = Processes(child);
        let since = Instant::now();
        while connect(&dir.join("nbd.sock"), VOLUME).is_err() {
            if let Some(status) = processes.0.try_wait()? {
                bail!("the processes ended before serving ({status})");
            }
            ensure!(since.elapsed() < PATIENCE, "the processes are not serving");
            thread::sleep(Duration::from_millis(50));
        }
        Ok(processes)
    }

    fn stop(mut self) -> Result<()> {
        self.signal();
        let status = self.0.wait()?;
        ensure!(status.success(), "the processes failed while stopping ({status})");
        Ok(())
    }

    fn signal(&self) {
        if let Some(pid) = Pid::from_raw(self.0.id() as i32) {
            // One that has ended needs no signal.
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            self.signal();
            let _ = self.0.wait();
        }
    }
}
