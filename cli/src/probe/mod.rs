//! `weft probe`: measures this machine, and writes what the simulator needs to predict it.
//!
//! - [`disk`]: the disk under a directory, as a flash model
//! - [`cpu`]: the work of nodes and hosts
//! - [`loopback`]: sockets between processes

mod cpu;
mod disk;
mod loopback;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::json;
use weft_terminal::{Counts, Stage, align_right, say, say_json, table};

use crate::args;
use weft_trial::scratch::{MEMORY, Scratch};

/// Measure this machine's disk, processor and loopback, for `weft sim --params`.
#[derive(Debug, Args)]
pub struct Probe {
    /// Directory on the disk to measure [default: the current one]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Write the parameters to this file, and the disk's to another file next to it
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Measure less data for less time
    #[arg(long)]
    quick: bool,
    /// Size of the measured volume: as large as the predicted one
    #[arg(long, value_name = "SIZE", default_value = "512M", value_parser = args::size)]
    volume_size: u64,
    /// Seconds to retry a run while other programs use the processors; then the least disturbed run counts
    #[arg(long, value_name = "SECONDS", default_value_t = 3)]
    patience: u32,
    /// Print the measurements as JSON
    #[arg(long)]
    json: bool,
    /// The peer process of the loopback measurement
    #[arg(long, hide = true)]
    echo: Option<SocketAddr>,
}

/// All that was measured.
struct Found {
    disk: Vec<disk::Measured>,
    /// None if the disk is in memory.
    flash: Option<disk::Flash>,
    loopback: loopback::Loopback,
    costs: cpu::Costs,
    /// What an operation costs more on the disk than in memory, in nanoseconds.
    disk_more: f64,
    calibrated: Vec<cpu::Calibrated>,
}

impl Probe {
    /// Measures, prints, and writes.
    pub fn run(&self) -> Result<ExitCode> {
        if let Some(address) = self.echo {
            loopback::echo(address)?;
            return Ok(ExitCode::SUCCESS);
        }
        let dir = self.dir.clone().unwrap_or_else(|| ".".into());
        ensure!(dir.is_dir(), "{} is not a directory; give another with --dir", dir.display());
        ensure!(
            Path::new(MEMORY).is_dir(),
            "{MEMORY} does not exist; without a file system in memory the processor's work cannot be separated \
                 from the disk's"
        );
        if let Some(out) = &self.out {
            let beside = out.parent().filter(|d| !d.as_os_str().is_empty());
            let beside = beside.unwrap_or(Path::new("."));
            ensure!(beside.is_dir(), "--out: {} is not a directory", beside.display());
            ensure!(!out.is_dir(), "--out: {} is a directory; give a file", out.display());
        }
        let found = self.measure(&dir)?;
        if let Some(out) = &self.out {
            self.write(&found, out)?;
        }
        match self.json {
            true => say_json(json!({
                "dir": dir,
                "disk": found.disk,
                "flash": found.flash,
                "loopback": found.loopback,
                "nanoseconds": found.costs,
                "disk_more_nanoseconds": found.disk_more,
                "calibration": found.calibrated,
            }))?,
            false => say(self.describe(&found))?,
        }
        Ok(ExitCode::SUCCESS)
    }

    fn measure(&self, dir: &Path) -> Result<Found> {
        let (size, time) = match self.quick {
            true => (64 << 20, Duration::from_millis(150)),
            false => (1 << 30, Duration::from_secs(2)),
        };
        let (requests, runs) = if self.quick { (200, 1) } else { (2_000, 5) };
        let each = cpu::Effort {
            volume: self.volume_size,
            requests,
            runs,
            patience: Duration::from_secs(self.patience.into()),
        };
        cpu::check(Path::new(MEMORY), each).context("--volume-size")?;
        let in_memory = weft_host::is_in_memory(dir)?;
        let disk = match in_memory {
            true => Vec::new(),
            false => {
                let scratch = Scratch::new("weft-probe-", dir)?;
                let stage = Stage::new("the disk", 15, Counts::Things);
                let all = disk::measure(scratch.path(), size, time, |_| stage.advance(1))?;
                stage.done("measured");
                all
            }
        };
        let loopback = loopback::measure(time)?;
        let (costs, calibrated) = cpu::measure(Path::new(MEMORY), each, time)?;
        let disk_more = match in_memory {
            true => 0.0,
            false => cpu::disk_more(dir, &calibrated, each)?,
        };
        let flash = (!in_memory).then(|| disk::fit(&disk));
        Ok(Found { flash, disk, loopback, costs, disk_more, calibrated })
    }

    fn describe(&self, found: &Found) -> String {
        let mut lines = table(["disk access", "depth", "accesses/s", "MB/s", "mean µs", "p99 µs"]);
        for m in &found.disk {
            let c = &m.case;
            let what = match (c.flush, c.write) {
                (true, _) => "flush after a write",
                (_, true) => "write",
                (_, false) => "read",
            };
            let order = if c.random { "random" } else { "sequential" };
            lines.add_row([
                format!("{order} {what} of {} KiB", c.bytes >> 10),
                c.depth.to_string(),
                format!("{:.0}", m.accesses_s),
                format!("{:.1}", m.mb_s),
                format!("{:.1}", m.mean_us),
                format!("{:.1}", m.quantiles_us.last().copied().unwrap_or(0.0)),
            ]);
        }
        align_right(&mut lines, 1..6);
        let mut checked = table([
            "calibration",
            "nodes, ns",
            "error %",
            "host, ns",
            "error %",
            "median µs",
            "error %",
            "others %",
        ]);
        for c in &found.calibrated {
            let what = if c.read_share == 1.0 { "reads" } else { "writes" };
            let error =
                |predicted: f64, real: f64| format!("{:+.1}", (predicted / real - 1.0) * 100.0);
            checked.add_row([
                format!("{} outstanding {what} of {} KiB", c.outstanding, c.bytes >> 10),
                format!("{:.0}", c.nodes_ns),
                error(c.nodes_ns_predicted, c.nodes_ns),
                format!("{:.0}", c.hosts_ns),
                error(c.hosts_ns_predicted, c.hosts_ns),
                format!("{:.1}", c.response_ns / 1e3),
                error(c.response_ns_predicted, c.response_ns),
                format!("{:.0}", c.others * 100.0),
            ]);
        }
        align_right(&mut checked, 1..8);
        let disk = match &found.flash {
            None => "The disk is in memory.".to_string(),
            Some(flash) => format!("{lines}\nAs flash: {} channels.", flash.channels),
        };
        let (l, c) = (&found.loopback, &found.costs);
        format!(
            "{disk}\nLoopback: {:.1} µs there and back, {:.0} MB/s.\n{checked}\n\
             Nodes, in ns: round {:.0}, sleep {:.0}, request {:.0}, message {:.0}, disk operation {:.0}; byte of \
             hosts {:.3}, of disks {:.3}, written {:.3} more, of XOR {:.4}. Host: {:.0}, {:.3} a byte \
             asked to be written, {:.3} a byte read, and {:.0} to sleep. Until one wakes up: {:.0}.",
            l.round_trip_us,
            l.mb_s,
            c.round,
            c.sleep,
            c.request,
            c.message,
            c.disk + found.disk_more,
            c.host_byte,
            c.disk_byte,
            c.write_byte,
            c.xor_byte,
            c.host,
            c.ask_byte,
            c.reply_byte,
            c.host_sleep,
            c.wake,
        )
    }

    /// Writes the parameters, and the disk's file beside them.
    fn write(&self, found: &Found, out: &Path) -> Result<()> {
        let stem = out.file_stem().context("--out needs the name of a file")?.to_string_lossy();
        let model = match &found.flash {
            None => "flash".to_string(),
            Some(flash) => {
                let model = format!("{stem}-disk.toml");
                let disk = out.with_file_name(&model);
                let about = "a disk measured by weft probe";
                fs::write(&disk, flash.parameter_file(about, 1 << 40))
                    .with_context(|| disk.display().to_string())?;
                model
            }
        };
        fs::write(out, parameters(found, &model)).with_context(|| out.display().to_string())
    }
}

/// The parameters of nodes in one process, as `weft sim --world real` runs them.
fn parameters(found: &Found, model: &str) -> String {
    let (c, l) = (&found.costs, &found.loopback);
    let half = |ns: f64| (ns / 2.0).round();
    let (disk, in_memory) = (c.disk + found.disk_more, found.flash.is_none());
    format!(
        "# Measured by weft probe. Nodes in one process, on files of one disk: one thread does the \
         work of all.\n\
         # An instruction is a nanosecond. The costs are those with which the simulator comes to the \
         CPU time\n# that real nodes used for its calibration workloads.\n\
         [nodes]\nstore = \"journalled\"\nmips = 1000\nprocessors = 1\nrounds = true\n\
         wake_us = {:.3}\n\n\
         [nodes.path]\n\
         round = {}\nsleep = {}\n\
         # A request, a message and a disk operation are split in halves; a message of a node to itself \
         is in them.\n\
         request = {}\nreply = {}\nlocal = 0\n\
         send = {}\nreceive = {}\n\
         disk_start = {}\ndisk_end = {}\n\
         copy_byte = 0\nhost_byte = {:.5}\ndisk_byte = {:.5}\nwrite_byte = {:.5}\n\
         unit = 0\ntimer = 0\nxor_byte = {:.5}\n\n\
         [disks]\nmodel = \"{model}\"\ndevices = 1\nscheduler = \"fcfs\"\nsynchronized = false\n\
         in_memory = {in_memory}\n\n\
         # Messages within a process go nowhere. Between processes on this machine it would be\n\
         # mb_s = {:.0} and latency_us = {:.1}.\n\
         [links]\nfabric = \"point-to-point\"\nmb_s = 1e9\nlatency_us = 0\nset_up_us = 0\n\n\
         # A host's own work, in halves.\n\
         [hosts]\nthreads = true\nask_us = {:.3}\nreply_us = {:.3}\nask_byte_ns = {:.5}\n\
         reply_byte_ns = {:.5}\n\
         wake_us = {:.3}\n",
        c.wake / 1e3,
        c.round.round(),
        c.sleep.round(),
        half(c.request),
        half(c.request),
        half(c.message),
        half(c.message),
        half(disk),
        half(disk),
        c.host_byte,
        c.disk_byte,
        c.write_byte,
        c.xor_byte,
        l.mb_s,
        l.round_trip_us / 2.0,
        c.host / 2e3,
        c.host / 2e3,
        c.ask_byte,
        c.reply_byte,
        c.wake / 1e3,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_a_scenarios_hardware() {
        let costs = cpu::Costs {
            round: 7000.0,
            sleep: 3000.0,
            request: 9000.0,
            message: 2000.0,
            disk: 3000.0,
            host_byte: 0.25,
            disk_byte: 0.125,
            write_byte: 0.5,
            xor_byte: 0.05,
            host: 20_000.0,
            ask_byte: 0.1,
            reply_byte: 0.2,
            host_sleep: 2000.0,
            wake: 15_000.0,
        };
        let flash = disk::Flash {
            channels: 4,
            read_ms: vec![0.1; 9],
            write_ms: vec![0.2; 9],
            flush_ms: vec![0.3; 9],
            read_bytes_per_s: 1_000_000_000,
            write_bytes_per_s: 500_000_000,
        };
        let loopback = loopback::Loopback { round_trip_us: 50.0, mb_s: 2000.0 };
        let workload = "[workload]\narrivals.closed.population = 1\n\
                        requests.fixed = { bytes = 4096, read_share = 1.0 }\n";
        let mut found = Found {
            disk: Vec::new(),
            flash: Some(flash),
            loopback,
            costs,
            disk_more: 1000.0,
            calibrated: Vec::new(),
        };
        let text = parameters(&found, "d.toml") + workload;
        let mut system: weft_sim::perf::System = toml::from_str(&text).unwrap();
        let device = found.flash.as_ref().map(|f| f.parameter_file("a test", 1 << 40));
        system.disks.parameters = device;
        assert_eq!(system.check(), Ok(()));
        assert_eq!((system.nodes.path.request, system.nodes.path.send), (4500, 1000));
        assert_eq!((system.nodes.path.disk_start, system.disks.in_memory), (2000, false));
        assert_eq!((system.hosts.ask_us, system.hosts.wake_us), (10.0, 15.0));
        // In memory they are what the calibration itself was simulated with.
        (found.flash, found.disk_more) = (None, 0.0);
        let text = parameters(&found, "flash") + workload;
        let mut system: weft_sim::perf::System = toml::from_str(&text).unwrap();
        assert_eq!(system.check(), Ok(()));
        let read = system.clone();
        found.costs.put(&mut system);
        assert_eq!((system.nodes, system.hosts), (read.nodes, read.hosts));
        assert!(read.disks.in_memory);
    }
}
