//! `weft probe`: measures this machine, and writes what the simulator needs to predict it.
//!
//! - [`disk`]: the disk under a directory, as a flash model
//! - [`cpu`]: the nodes' work
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

use crate::output::{Counts, Stage, align_right, say, say_json, table};
use crate::scratch::Scratch;

/// A file system in memory.
const MEMORY: &str = "/dev/shm";

/// Measure this machine's disk, processor and loopback, for `weft sim --params`.
#[derive(Debug, Args)]
pub struct Probe {
    /// Directory on the disk to measure [default: the current one]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Write the parameters to this file, and the disk's to another beside it
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Less data and less time
    #[arg(long)]
    quick: bool,
    /// Print what was measured as JSON
    #[arg(long)]
    json: bool,
    /// What the measurement of loopback runs as the other process
    #[arg(long, hide = true)]
    echo: Option<SocketAddr>,
}

/// All that was measured.
struct Found {
    disk: Vec<disk::Measured>,
    flash: disk::Flash,
    loopback: loopback::Loopback,
    costs: cpu::Costs,
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
            "{MEMORY} is not there, and without a file system in memory the processor's work cannot be \
             told from the disk's"
        );
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
        let disk = {
            let scratch = Scratch::new("weft-probe-", dir)?;
            let stage = Stage::new("the disk", 15, Counts::Things);
            let all = disk::measure(scratch.path(), size, time, |_| stage.advance(1))?;
            stage.done("measured");
            all
        };
        let loopback = loopback::measure(time)?;
        let costs = cpu::measure(Path::new(MEMORY), dir, size.min(256 << 20), time)?;
        Ok(Found { flash: disk::fit(&disk), disk, loopback, costs })
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
        let (l, c) = (&found.loopback, &found.costs);
        format!(
            "{lines}\nAs flash: {} channels. Loopback: {:.1} µs there and back, {:.0} MB/s.\n\
             Nodes, in ns: request {:.0}, message {:.0}, disk operation {:.0}, byte {:.3}, byte of \
             XOR {:.4}; host {:.0}.",
            found.flash.channels,
            l.round_trip_us,
            l.mb_s,
            c.request,
            c.message,
            c.disk,
            c.byte,
            c.xor_byte,
            c.host
        )
    }

    /// Writes the parameters, and the disk's file beside them.
    fn write(&self, found: &Found, out: &Path) -> Result<()> {
        let stem = out.file_stem().context("--out needs the name of a file")?.to_string_lossy();
        let model = format!("{stem}-disk.toml");
        let disk = out.with_file_name(&model);
        let about = "a disk as weft probe found it";
        fs::write(&disk, found.flash.parameter_file(about, 1 << 40))
            .with_context(|| disk.display().to_string())?;
        fs::write(out, parameters(found, &model)).with_context(|| out.display().to_string())
    }
}

/// The parameters of nodes in one process, as `weft sim --world real` runs them.
fn parameters(found: &Found, model: &str) -> String {
    let (c, l) = (&found.costs, &found.loopback);
    let half = |ns: f64| (ns / 2.0).round();
    format!(
        "# Measured by weft probe. Nodes in one process, on files of one disk: one thread does the \
         work of all.\n\
         # An instruction is a nanosecond.\n\
         [nodes]\nmips = 1000\nprocessors = 1\n\n\
         [nodes.path]\n\
         # Reads from memory, one node: a request is split in halves, local messages are in it.\n\
         request = {}\nreply = {}\nlocal = 0\n\
         # Five nodes instead of one, for each message; split in halves.\n\
         send = {}\nreceive = {}\n\
         # The same reads from the disk instead of from memory; split in halves.\n\
         disk_start = {}\ndisk_end = {}\n\
         # 64 KiB instead of 4 KiB; units cost nothing but their bytes.\n\
         copy_byte = {:.4}\nunit = 0\ntimer = 0\n\
         xor_byte = {:.5}\n\n\
         [disks]\nmodel = \"{model}\"\ndevices = 1\nscheduler = \"fcfs\"\nsynchronized = false\n\n\
         # Messages within a process go nowhere. Between processes on this machine it would be\n\
         # mb_s = {:.0} and latency_us = {:.1}.\n\
         [links]\nfabric = \"point-to-point\"\nmb_s = 1e9\nlatency_us = 0\nset_up_us = 0\n\n\
         # What one small read took beyond the nodes' work: the host's own, and waking up; in halves.\n\
         [hosts]\nask_us = {:.3}\nreply_us = {:.3}\n",
        half(c.request),
        half(c.request),
        half(c.message),
        half(c.message),
        half(c.disk),
        half(c.disk),
        c.byte,
        c.xor_byte,
        l.mb_s,
        l.round_trip_us / 2.0,
        c.host / 2e3,
        c.host / 2e3,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_a_scenarios_hardware() {
        let costs = cpu::Costs {
            request: 9000.0,
            message: 2000.0,
            disk: 4000.0,
            byte: 0.25,
            xor_byte: 0.05,
            host: 20_000.0,
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
        let found = Found { disk: Vec::new(), flash, loopback, costs };
        let workload = "[workload]\narrivals.closed.population = 1\n\
                        requests.fixed = { bytes = 4096, read_share = 1.0 }\n";
        let text = parameters(&found, "d.toml") + workload;
        let mut system: weft_sim::perf::System = toml::from_str(&text).unwrap();
        system.disks.parameters = Some(found.flash.parameter_file("a test", 1 << 40));
        assert_eq!(system.check(), Ok(()));
        assert_eq!((system.nodes.path.request, system.nodes.path.send), (4500, 1000));
        assert_eq!(system.hosts.ask_us, 10.0);
    }
}
