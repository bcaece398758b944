//! `weft status`: how a running array is.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde_json::Value;
use weft_host::Request;

use crate::args::Target;
use crate::output::{self, align_right, bytes, say, say_json, table};
use crate::volume::volumes;

/// How often `--watch` looks.
const EVERY: Duration = Duration::from_secs(1);

/// How a running array is.
#[derive(Debug, Args)]
pub struct Status {
    #[command(flatten)]
    target: Target,
    /// Print the answer as JSON; with --watch, one line each time
    #[arg(long)]
    json: bool,
    /// Look again every second, until interrupted or the array stops
    #[arg(long)]
    watch: bool,
}

impl Status {
    /// Asks, once or again and again.
    pub fn run(&self) -> Result<ExitCode> {
        let mut control = self.target.connect()?;
        loop {
            let status = control.request(&Request::Status)?;
            match (self.json, self.watch) {
                (true, false) => say_json(status)?,
                (true, true) => say(status)?,
                (false, watch) => {
                    if watch && output::is_terminal() {
                        // Home, and clear what is below.
                        say("\x1b[H\x1b[2J")?;
                    }
                    say(describe(&status))?;
                }
            }
            if !self.watch {
                return Ok(ExitCode::SUCCESS);
            }
            thread::sleep(EVERY);
        }
    }
}

fn describe(status: &Value) -> String {
    let list = |key: &str| status[key].as_array().map_or(&[] as &[Value], Vec::as_slice);
    let mut out = format!(
        "{}  map {}{}  up {:.0} s\n",
        status["directory"].as_str().unwrap_or("?"),
        status["epoch"],
        if status["settled"] == true { "" } else { " (changing)" },
        status["uptime_seconds"].as_f64().unwrap_or(0.0),
    );
    out += &nodes(list("nodes"));
    out += "\n";
    out += &volumes(list("volumes"));
    out += &balance(&status["balance"]);
    for listen in list("listens") {
        out += &format!("\nlistens at {}", listen.as_str().unwrap_or("?"));
    }
    let totals = &status["totals"];
    out += &format!(
        "\nsince their start the nodes: {} requests, {} messages with {} of data, {} disk reads, \
         {} disk writes, {} journal writes, {} retries",
        totals["requests"],
        totals["messages"],
        bytes(totals["wire_bytes"].as_u64().unwrap_or(0)),
        totals["disk_reads"],
        totals["disk_writes"],
        totals["journal_writes"],
        totals["retries"],
    );
    out
}

/// Whether the disks are equally full, unless there is nothing to be said.
fn balance(balance: &Value) -> String {
    let percent = |key: &str| balance[key].as_f64().unwrap_or(0.0);
    let range = format!(
        "disks are {:.0} to {:.0} % full",
        percent("emptiest_percent"),
        percent("fullest_percent")
    );
    match (balance["rebalancing"] == true, balance["uneven"] == true) {
        (true, _) => format!("\n{range}; columns are being moved until they are equally full"),
        (_, true) => format!("\n{range}; `weft cluster rebalance` makes them equally full"),
        _ => String::new(),
    }
}

fn nodes(list: &[Value]) -> String {
    let mut table = table([
        "node",
        "state",
        "disk",
        "backend",
        "in flight",
        "behind",
        "requests",
        "reads",
        "writes",
    ]);
    for node in list {
        let number = |v: &Value| v.as_u64().map_or("-".to_string(), |n| n.to_string());
        let text = |v: &Value| v.as_str().unwrap_or("-").to_string();
        let state = match node["why"].as_str() {
            Some(why) => format!("{}: {why}", text(&node["state"])),
            None => text(&node["state"]),
        };
        let behind = node["stale_sectors"].as_u64().map_or("-".to_string(), |n| bytes(n * 4096));
        let counters = &node["counters"];
        table.add_row([
            number(&node["node"]),
            state,
            text(&node["disk"]),
            text(&node["backend"]),
            number(&node["in_flight"]),
            behind,
            number(&counters["requests"]),
            number(&counters["disk_reads"]),
            number(&counters["disk_writes"]),
        ]);
    }
    align_right(&mut table, [0, 4, 5, 6, 7, 8]);
    table.to_string()
}
