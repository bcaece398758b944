//! A block device over a file, so that a node's disk returns the errors that a device returns. Needs
//! root and `losetup`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// A loop device. It goes when this is dropped.
pub struct Device(PathBuf);

impl Device {
    /// Makes a file of `size` bytes, and a device over it.
    pub fn attach(file: &Path, size: u64) -> Result<Device> {
        File::create(file)?.set_len(size)?;
        // If there is none the disk is to be a file, which must not be there yet.
        Device::over(file).or_else(|e| std::fs::remove_file(file).map_err(Into::into).and(Err(e)))
    }

    /// A device over a file that is there.
    pub fn over(file: &Path) -> Result<Device> {
        Device::attached(file, &[])
    }

    /// The same, but nothing of the file stays in the page cache.
    pub fn past_the_cache(file: &Path) -> Result<Device> {
        Device::attached(file, &["--direct-io=on"])
    }

    fn attached(file: &Path, more: &[&str]) -> Result<Device> {
        let out = losetup().args(["--find", "--show"]).args(more).arg(file).output();
        let out = out.context("cannot run losetup")?;
        if !out.status.success() {
            bail!("losetup: {}", String::from_utf8_lossy(&out.stderr).trim());
        }
        Ok(Device(PathBuf::from(String::from_utf8(out.stdout)?.trim())))
    }

    /// The device.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

fn losetup() -> Command {
    let mut command = Command::new("losetup");
    command.stdin(Stdio::null());
    command
}

impl Drop for Device {
    fn drop(&mut self) {
        // One that cannot go now goes when its last user does.
        let _ = losetup().arg("--detach").arg(&self.0).status();
    }
}
