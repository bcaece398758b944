//! `weft up`: runs an array until it is stopped.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use weft_core::layout::LayoutSpec;
use weft_host::status::{Status, VolumeStatus};
use weft_host::{Array, DiskQueue, Limits, Listen, Size, Spec, Stopped, to_stderr};
use weft_terminal::say;

use crate::args::{self, HostLimits};
use crate::choices::{Choices, ForVolumes};
use crate::output::uri;
use crate::processes;
use crate::volume::survives;

/// How long to wait between looks whether the nodes agree on a map.
const PAUSE: Duration = Duration::from_millis(20);

/// Run an array, making it first if there is none. What is not given takes the default in a
/// new array, and stays as it is in one that is there.
#[derive(Debug, Args)]
pub struct Up {
    /// Directory of the array: its disks, its map, its sockets
    #[arg(long, default_value = "./weft-data")]
    dir: PathBuf,
    /// Number of nodes, each with one disk [default: 5]
    #[arg(long)]
    nodes: Option<usize>,
    /// Size of each disk [default: 1G]
    #[arg(long, value_parser = args::size)]
    disk_size: Option<u64>,
    /// In which order a disk is given its operations: fcfs, sstf or c-look [default: fcfs, or what
    /// the array had]
    #[arg(long, value_name = "ORDER")]
    queue: Option<String>,
    /// How many operations a disk is given at a time, 1 to 256 [default: 256, or 2 in an order
    /// other than fcfs]
    #[arg(long, value_name = "N", requires = "queue")]
    queue_depth: Option<u32>,
    /// A volume; may be repeated; SIZE 'all' takes the room that is left [default: vol0:all]
    #[arg(long, value_name = "NAME:SIZE", value_parser = args::volume)]
    volume: Vec<(String, u64)>,
    /// raid0, raid1, raid4, raid5 (or raid5:left-asymmetric and the like), raid6, rs:K+M, lrc:K+L+G or grid:RxC, by default raid5
    #[arg(long, value_parser = args::layout)]
    layout: Option<LayoutSpec>,
    /// Bytes on one disk before the next one's turn [default: 64K]
    #[arg(long, value_parser = args::size)]
    stripe_unit: Option<u64>,
    #[command(flatten)]
    choices: Choices<ForVolumes>,
    /// Where to serve hosts: NBD, or with 'native:' before the address what weft-client speaks; may
    /// be repeated [default: DIR/nbd.sock, 127.0.0.1:10809 and native:DIR/weft.sock]
    #[arg(long, value_name = "[native:]PATH.sock|HOST:PORT")]
    listen: Vec<Listen>,
    /// Run each node in a process of its own, on loopback
    #[arg(long)]
    processes: bool,
    #[command(flatten)]
    limits: HostLimits,
}

impl Up {
    /// Runs until Ctrl-C, SIGTERM or a request to shut down.
    pub fn run(&self) -> Result<ExitCode> {
        let queue = DiskQueue::new(self.queue.as_deref(), self.queue_depth);
        let spec = Spec {
            nodes: self.nodes,
            disk_size: self.disk_size,
            queue: self.queue.as_ref().map(|_| queue).transpose()?,
            volumes: self.volume.clone(),
            layout: self.layout,
            stripe_unit: self.stripe_unit,
            policy: self.choices.given.clone(),
            ..Spec::default()
        };
        let limits = self.limits.words().over(Limits::default())?;
        if self.processes {
            return processes::run(&self.dir, &spec, &self.listen, &self.limits.words());
        }
        if args::node_dir(&self.dir, 0).is_dir() {
            bail!(
                "{} holds nodes that run in processes of their own; add --processes, or choose \
                 another directory",
                self.dir.display()
            );
        }
        let array = Array::start(&self.dir, &spec, &self.listens(), to_stderr())?.limited(limits);
        let dir = self.dir.clone();
        thread::spawn(move || {
            if let Err(e) = greet(&dir) {
                eprintln!("weft: the array runs, but cannot say so: {e:#}");
            }
        });
        say(farewell(&array.run()?))?;
        Ok(ExitCode::SUCCESS)
    }

    fn listens(&self) -> Vec<Listen> {
        match self.listen.is_empty() {
            true => vec![
                absolute(Listen::unix(self.dir.join("nbd.sock"))),
                Listen::tcp("127.0.0.1:10809"),
                absolute(Listen::native_unix(self.dir.join("weft.sock"))),
            ],
            false => self.listen.iter().cloned().map(absolute).collect(),
        }
    }
}

/// What is to be said at the end.
pub fn farewell(stopped: &Stopped) -> String {
    let down: Vec<String> = stopped.down.iter().map(usize::to_string).collect();
    if down.len() == stopped.nodes {
        return "stopped; no node ran any more. What was answered as written is on the disks"
            .to_string();
    }
    let absent = match down.len() {
        0 => String::new(),
        _ => format!(", except those of nodes that were down ({})", down.join(", ")),
    };
    if stopped.unfinished.is_empty() {
        return format!("stopped; everything is on the disks{absent}");
    }
    let mut out = "stopped, after waiting in vain for:\n".to_string();
    for line in &stopped.unfinished {
        out += &format!("  {line}\n");
    }
    out +=
        "What was answered as written is safe; with the journal the next start finishes the rest.";
    if !stopped.without_journal.is_empty() {
        out += &format!(
            "\nWithout journal, a write that was not answered may be there in part, with parity \
             that does not fit: after the next start run `weft scrub` on {}.",
            stopped.without_journal.join(", ")
        );
    }
    out
}

/// The longest path that a Unix socket can have.
const LONGEST_PATH: usize = 107;

/// A socket's whole path, so that it can be told to whoever asks from another directory. One
/// that is too long then is better used as it was given.
pub fn absolute(listen: Listen) -> Listen {
    match listen.path().map(std::path::absolute) {
        Some(Ok(whole)) if whole.as_os_str().len() <= LONGEST_PATH => listen.at_path(whole),
        _ => listen,
    }
}

/// Waits until the array serves, then says how to use it.
pub fn greet(dir: &Path) -> Result<()> {
    greet_when(dir, |status| status.settled)
}

/// Waits until the array is like this, then says how to use it.
pub fn greet_when(dir: &Path, ready: impl Fn(&Status) -> bool) -> Result<()> {
    let mut control = args::connect(dir)?;
    loop {
        let status = control.status()?;
        if ready(&status) {
            return say(greeting(dir, &status));
        }
        thread::sleep(PAUSE);
    }
}

fn greeting(dir: &Path, status: &Status) -> String {
    let Status { nodes, volumes, listens, .. } = status;
    let mut out = format!("weft serves {} from {} nodes\n", dir.display(), nodes.len());
    for volume in volumes {
        let VolumeStatus { name, layout, mode, .. } = volume;
        let size = Size(volume.size);
        out += &format!("\n  {name}: {size}, {layout}, {mode}; survives: {}\n", survives(volume));
        for listen in listens {
            out += &format!("    {}\n", uri(listen, name));
        }
    }
    let victim = nodes.len().saturating_sub(1).min(2);
    let name = volumes.first().map(|v| v.name.as_str());
    if let (Some(name), Some(listen)) = (name, listens.first()) {
        let (uri, dir) = (uri(listen, name), dir.display());
        out += &format!(
            "\nTry next:\n  \
             nbdinfo '{uri}'\n  \
             nbdcopy some.img '{uri}'\n  \
             qemu-img convert -n -O raw some.qcow2 '{uri}'\n  \
             fio --name=try --ioengine=nbd --uri='{uri}' --rw=randrw --bs=4k --iodepth=32 --size=64m\n  \
             weft status --dir {dir}\n  \
             weft node kill {victim} --dir {dir}\n"
        );
    }
    out + "\nCtrl-C stops it."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_words_are_true() {
        let clean = Stopped { nodes: 5, ..Stopped::default() };
        assert_eq!(farewell(&clean), "stopped; everything is on the disks");
        let degraded = Stopped { down: vec![1, 3], ..clean.clone() };
        assert!(farewell(&degraded).ends_with("nodes that were down (1, 3)"));
        let none = Stopped { down: vec![0, 1, 2, 3, 4], ..clean.clone() };
        assert!(farewell(&none).contains("no node ran"));
        let hasty = Stopped { unfinished: vec!["node 2: 3 requests".to_string()], ..clean };
        let words = farewell(&hasty);
        assert!(!words.contains("everything"), "{words}");
        assert!(words.contains("  node 2: 3 requests\n"), "{words}");
        assert!(!words.contains("scrub"), "{words}");
        let bare = Stopped { without_journal: vec!["scratch".to_string()], ..hasty };
        assert!(farewell(&bare).contains("`weft scrub` on scratch"));
    }
}
