//! A journalled file system over NBD while nodes suffer, as a user has one: QEMU's NBD client, which
//! goes to another node when its own is gone, a block device over it, ext4, and on it fio and files
//! that are made durable one after the other. Needs root, FUSE, loop devices, `qemu-storage-daemon`,
//! `mkfs.ext4` and `fio`.
//!
//! No program may meet an error; in the end the file system must be clean, and what was durable be
//! there, read from another node with nothing cached.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use fastrand::Rng;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::geteuid;
use weft_front::nbd::client::Client;

use super::cluster::FILES_VOLUME;
use super::device::Device;
use super::watch::Watch;

/// How long QEMU's client waits for a node that answers before it fails a request.
const RECONNECT: u64 = 60;

/// A node that answers no read for so long is left for the next one.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long the export may take to come.
const APPEARS: Duration = Duration::from_secs(10);

/// So many names are written again and again.
const NAMES: u64 = 100;

/// The longest file.
const LONGEST: u64 = 100_000;

/// Between two files.
const PAUSE: Duration = Duration::from_millis(20);

/// The file system is to stop at its first error.
const OPTIONS: &CStr = c"errors=remount-ro";

/// The programs that it takes, and how each says its version.
const PROGRAMS: [(&str, &str); 5] = [
    ("qemu-storage-daemon", "--version"),
    ("setpriv", "--version"),
    ("mkfs.ext4", "-V"),
    ("fsck.ext4", "-V"),
    ("fio", "--version"),
];

/// What was durable: of each name, what its content is drawn from.
type Durable = BTreeMap<u64, u64>;

/// The file system and the programs on it.
pub struct Files {
    watch: Arc<Watch>,
    stack: Stack,
    files: JoinHandle<Result<Durable>>,
    fio: JoinHandle<Result<u64>>,
    follower: JoinHandle<Result<()>>,
}

/// What was seen of them.
pub struct Seen {
    /// Files that were read back.
    pub files: usize,
    /// Runs of fio, each of which verified what it wrote.
    pub fio_runs: u64,
}

impl Files {
    /// Fails if something that it takes is not here.
    pub fn possible() -> Result<()> {
        ensure!(geteuid().is_root(), "that takes root");
        for device in ["/dev/fuse", "/dev/loop-control"] {
            ensure!(Path::new(device).exists(), "there is no {device}");
        }
        for (program, version) in PROGRAMS {
            let mut command = Command::new(program);
            command.arg(version).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let ran = command.status().with_context(|| format!("cannot run {program}"))?;
            ensure!(ran.success(), "{program} {version}: {ran}");
        }
        Ok(())
    }

    /// Makes a file system in the volume [`FILES_VOLUME`], which the nodes serve at `sockets`, and starts the
    /// programs. `dir` is for its mount points.
    pub fn start(dir: &Path, sockets: &[PathBuf], seed: u64) -> Result<Files> {
        let watch = Arc::new(Watch::default());
        let now = dir.join("now.sock");
        let first = sockets.first().context("there is no node")?;
        symlink(first, &now)?;
        let stack = Stack::make(dir, &now)?;
        let follower = {
            let (watch, sockets) = (watch.clone(), sockets.to_vec());
            thread::spawn(move || watch.tell(follow(&watch, &sockets, &now)))
        };
        let files = {
            let (watch, dir) = (watch.clone(), stack.mount_point());
            thread::spawn(move || watch.tell(write_files(&watch, &dir, seed)))
        };
        let fio = {
            let (watch, dir) = (watch.clone(), stack.mount_point());
            thread::spawn(move || watch.tell(run_fio(&watch, &dir)))
        };
        Ok(Files { watch, stack, files, fio, follower })
    }

    /// Fails if a program has.
    pub fn check(&self) -> Result<()> {
        self.watch.check()
    }

    /// Ends the programs, and looks at what there is: on the device, and as read from the node at `other`.
    pub fn finish(self, other: &Path) -> Result<Seen> {
        self.watch.stop();
        let panicked = |_| anyhow!("a program's thread panicked");
        let durable = self.files.join().map_err(panicked)??;
        let fio_runs = self.fio.join().map_err(panicked)??;
        self.follower.join().map_err(panicked)??;
        let dir = self.stack.dir.clone();
        self.stack.end()?;
        let copy = dir.join("copy.img");
        copy_volume(other, &copy).context("cannot copy the file system's volume")?;
        let device = Device::over(&copy)?;
        fsck(device.path())?;
        let mounted = Mounted::new(device.path(), &dir.join("mnt"), MountFlags::empty(), None)?;
        for (name, content) in &durable {
            let found = fs::read(mounted.0.join(name.to_string()))?;
            ensure!(found == bytes(*content), "file {name} differs from its last durable content");
        }
        if fio_runs > 0 {
            fio(&mounted.0, fio_runs - 1, &["--verify_only"])?;
        }
        Ok(Seen { files: durable.len(), fio_runs })
    }
}

/// Keeps the link `now` at the socket of a node that answers.
fn follow(watch: &Watch, sockets: &[PathBuf], now: &Path) -> Result<()> {
    let mut node = 0;
    while watch.goes_on() {
        if connect(&sockets[node], PATIENCE).and_then(|mut c| Ok(c.read_at(0, 4096)?)).is_ok() {
            thread::sleep(Duration::from_millis(100));
            continue;
        }
        node = (node + 1) % sockets.len();
        let next = now.with_extension("next");
        symlink(&sockets[node], &next)?;
        fs::rename(&next, now)?;
    }
    Ok(())
}

fn connect(socket: &Path, patience: Duration) -> Result<Client<UnixStream>> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    Ok(Client::connect(stream, FILES_VOLUME)?)
}

/// Writes one file after the other, each durable before the next, over older ones of its name.
fn write_files(watch: &Watch, dir: &Path, seed: u64) -> Result<Durable> {
    let mut rng = Rng::with_seed(seed);
    let mut durable = Durable::new();
    while watch.goes_on() {
        let (name, content) = (rng.u64(0..NAMES), rng.u64(..));
        write_file(dir, name, content).with_context(|| format!("cannot write file {name}"))?;
        durable.insert(name, content);
        thread::sleep(PAUSE);
    }
    Ok(durable)
}

fn write_file(dir: &Path, name: u64, content: u64) -> Result<()> {
    let new = dir.join("new");
    let mut file = File::create(&new)?;
    file.write_all(&bytes(content))?;
    file.sync_all()?;
    fs::rename(&new, dir.join(name.to_string()))?;
    Ok(File::open(dir)?.sync_all()?)
}

fn bytes(content: u64) -> Vec<u8> {
    let mut rng = Rng::with_seed(content);
    let mut bytes = vec![0; rng.u64(1..=LONGEST) as usize];
    rng.fill(&mut bytes);
    bytes
}

/// Runs fio again and again; it verifies what it has written. Returns how often.
fn run_fio(watch: &Watch, dir: &Path) -> Result<u64> {
    let mut runs = 0;
    while watch.goes_on() {
        fio(dir, runs, &[])?;
        runs += 1;
    }
    Ok(runs)
}

/// Run `run` of fio, or what `more` makes of it.
fn fio(dir: &Path, run: u64, more: &[&str]) -> Result<()> {
    let job = "--name=verified --filename=fio --size=8m --rw=randwrite --bsrange=4k-64k --direct=1 \
               --ioengine=psync --fsync=16 --verify=crc32c --verify_fatal=1 --verify_state_save=0 --rate=,4m";
    let mut command = Command::new("fio");
    command.current_dir(dir).args(job.split_whitespace()).arg(format!("--randseed={run}"));
    run_command(command.args(more))
}

/// Copies the volume from one node into a file.
fn copy_volume(socket: &Path, file: &Path) -> Result<()> {
    // The machine may be busy with other things: a copy is not what is measured.
    let mut client = connect(socket, 30 * PATIENCE)?;
    let mut file = File::create(file)?;
    let mut at = 0;
    while at < client.size() {
        let len = (client.size() - at).min(1 << 20);
        file.write_all(&client.read_at(at, len as u32)?)?;
        at += len;
    }
    Ok(())
}

/// Fails if a file system is not clean, or has met an error since it was made.
fn fsck(device: &Path) -> Result<()> {
    run_command(Command::new("fsck.ext4").arg("-fn").arg(device))?;
    let about = Command::new("dumpe2fs").arg("-h").arg(device).output()?;
    let errors = String::from_utf8_lossy(&about.stdout).contains("FS Error count");
    ensure!(!errors, "the file system has met errors");
    Ok(())
}

fn run_command(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let out = command.stdin(Stdio::null()).output();
    let out = out.with_context(|| format!("cannot run {program}"))?;
    if out.status.success() {
        return Ok(());
    }
    let said = [out.stdout, out.stderr].concat();
    bail!("{program}: {}; {}", out.status, String::from_utf8_lossy(&said).trim())
}

/// A mounted file system.
struct Mounted(PathBuf);

impl Mounted {
    fn new(device: &Path, at: &Path, flags: MountFlags, options: Option<&CStr>) -> Result<Mounted> {
        fs::create_dir_all(at)?;
        mount(device, at, "ext4", flags, options)
            .with_context(|| format!("cannot mount {}", device.display()))?;
        Ok(Mounted(at.to_path_buf()))
    }

    /// Unmounts it, with everything written.
    fn end(self) -> Result<()> {
        unmount(&self.0, UnmountFlags::empty()).context("cannot unmount the file system")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // It may have been unmounted in good order.
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

/// All that is between the volume and the programs, the uppermost first.
struct Stack {
    dir: PathBuf,
    mounted: Option<Mounted>,
    device: Option<Device>,
    qemu: Child,
}

impl Stack {
    fn make(dir: &Path, socket: &Path) -> Result<Stack> {
        let export = dir.join("volume");
        File::create(&export)?;
        // Should this process die, so does QEMU.
        let qemu = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "qemu-storage-daemon", "--blockdev"])
            .arg(format!(
                "driver=nbd,node-name=v,export={FILES_VOLUME},server.type=unix,server.path={},reconnect-delay={RECONNECT}",
                socket.display()
            ))
            .arg("--export")
            .arg(format!("type=fuse,id=e,node-name=v,mountpoint={},writable=on", export.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(dir.join("qemu.log"))?)
            .spawn()
            .context("cannot run qemu-storage-daemon")?;
        let mut stack = Stack { dir: dir.to_path_buf(), mounted: None, device: None, qemu };
        let since = Instant::now();
        while fs::metadata(&export)?.len() == 0 {
            if stack.qemu.try_wait()?.is_some() || since.elapsed() > APPEARS {
                let log = fs::read_to_string(dir.join("qemu.log"))?;
                bail!("qemu-storage-daemon exports nothing: {}", log.trim());
            }
            thread::sleep(Duration::from_millis(20));
        }
        let device = stack.device.insert(Device::over(&export)?);
        run_command(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(device.path()))?;
        let at = dir.join("mnt");
        stack.mounted = Some(Mounted::new(device.path(), &at, MountFlags::empty(), Some(OPTIONS))?);
        Ok(stack)
    }

    fn mount_point(&self) -> PathBuf {
        self.dir.join("mnt")
    }

    /// Takes it down in good order; fails if the file system is not clean then.
    fn end(mut self) -> Result<()> {
        if let Some(mounted) = self.mounted.take() {
            mounted.end()?;
        }
        match self.device.take() {
            Some(device) => fsck(device.path()),
            None => Ok(()),
        }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // First, so that nothing above waits for nodes any more.
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
        self.mounted = None;
        self.device = None;
        let _ = unmount(self.dir.join("volume"), UnmountFlags::DETACH);
    }
}
