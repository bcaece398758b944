//! A block device whose operations can be held up: a loop device over a file that nbdfuse serves from nbdkit. No
//! operation of the device ends while nbdfuse is stopped. Needs root, FUSE, `losetup`, `nbdkit` and `nbdfuse`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process};

use super::device::Device;

/// How long the file may take to appear.
const APPEARS: Duration = Duration::from_secs(10);

/// The server between a file and the device over it.
pub struct HeldUp {
    mount_point: PathBuf,
    nbdfuse: Child,
}

impl HeldUp {
    /// Makes a file of `size` bytes, and a device over it.
    pub fn attach(file: &Path, size: u64) -> Result<(HeldUp, Device)> {
        File::create(file)?.set_len(size)?;
        let served = HeldUp::serve(file);
        let attached = served.and_then(|held_up| {
            let device = Device::past_the_cache(&held_up.mount_point)?;
            Ok((held_up, device))
        });
        // Without it the disk becomes a file, which must not be there yet.
        attached.or_else(|e| fs::remove_file(file).map_err(Into::into).and(Err(e)))
    }

    /// Serves the file as another, beside it.
    fn serve(file: &Path) -> Result<HeldUp> {
        let (mount_point, log) = (file.with_extension("served"), file.with_extension("log"));
        File::create(&mount_point)?;
        // Both die with this process.
        let nbdfuse = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "nbdfuse"])
            .arg(&mount_point)
            .args(["[", "nbdkit", "--exit-with-parent", "file"])
            .arg(file)
            .arg("]")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .spawn()
            .context("cannot run nbdfuse")?;
        let mut held_up = HeldUp { mount_point, nbdfuse };
        let since = Instant::now();
        while fs::metadata(&held_up.mount_point)?.len() == 0 {
            if held_up.nbdfuse.try_wait()?.is_some() || since.elapsed() > APPEARS {
                bail!("nbdfuse serves nothing: {}", fs::read_to_string(&log)?.trim());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(held_up)
    }

    /// From now on no operation ends.
    pub fn hang(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// All operations go on.
    pub fn go_on(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(self.nbdfuse.id() as i32).context("a process has a number")?;
        kill_process(pid, signal).context("cannot send a signal")
    }
}

impl Drop for HeldUp {
    fn drop(&mut self) {
        // Operations under way fail.
        let _ = self.nbdfuse.kill();
        let _ = self.nbdfuse.wait();
        let _ = unmount(&self.mount_point, UnmountFlags::DETACH);
    }
}
