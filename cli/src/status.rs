//! `weft status`: how a running array is.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use serde_json::Value;
use weft_core::SECTOR;
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
        let mut pace = Pace::default();
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
                    say(describe(&status, &pace.look(&status)))?;
                }
            }
            if !self.watch {
                return Ok(ExitCode::SUCCESS);
            }
            thread::sleep(EVERY);
        }
    }
}

/// How fast nodes catch up, seen from one look to the next.
#[derive(Default)]
struct Pace {
    last: Option<(Instant, BTreeMap<u64, u64>)>,
}

/// Bytes that a node caught up on in a second, and the seconds that the rest takes at that rate.
type Rates = BTreeMap<u64, (f64, f64)>;

impl Pace {
    fn look(&mut self, status: &Value) -> Rates {
        self.look_at(status, Instant::now())
    }

    fn look_at(&mut self, status: &Value, now: Instant) -> Rates {
        let behind = |n: &Value| Some((n["node"].as_u64()?, n["stale_sectors"].as_u64()? * SECTOR));
        let nodes = status["nodes"].as_array().into_iter().flatten();
        let left: BTreeMap<u64, u64> = nodes.filter_map(behind).collect();
        let before = self.last.replace((now, left.clone()));
        let Some((then, before)) = before else { return Rates::new() };
        let seconds = now.duration_since(then).as_secs_f64().max(1e-3);
        let rate = |(node, left): (u64, u64)| {
            let done = before.get(&node)?.checked_sub(left).filter(|done| *done > 0)?;
            let rate = done as f64 / seconds;
            Some((node, (rate, left as f64 / rate)))
        };
        left.into_iter().filter_map(rate).collect()
    }
}

fn describe(status: &Value, rates: &Rates) -> String {
    let list = |key: &str| status[key].as_array().map_or(&[] as &[Value], Vec::as_slice);
    let mut out = format!(
        "{}  map {}{}  up {:.0} s\n",
        status["directory"].as_str().unwrap_or("?"),
        status["epoch"],
        if status["settled"] == true { "" } else { " (changing)" },
        status["uptime_seconds"].as_f64().unwrap_or(0.0),
    );
    out += &nodes(list("nodes"), rates);
    out += "\n";
    out += &volumes(list("volumes"));
    out += &balance(&status["balance"]);
    for listen in list("listens") {
        out += &format!("\nlistens at {}", listen.as_str().unwrap_or("?"));
    }
    for warning in status["cluster"]["warnings"].as_array().into_iter().flatten() {
        out += &format!("\nwarning: {}", warning.as_str().unwrap_or("?"));
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

fn nodes(list: &[Value], rates: &Rates) -> String {
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
        let mut behind =
            node["stale_sectors"].as_u64().map_or("-".to_string(), |n| bytes(n * SECTOR));
        if let Some((rate, left)) = node["node"].as_u64().and_then(|n| rates.get(&n)) {
            behind += &format!(", {}/s, {left:.0} s left", bytes(*rate as u64));
        }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_second_look_says_how_fast_nodes_catch_up() {
        let status = |left: [u64; 2]| {
            json!({ "nodes": [
                { "node": 0, "stale_sectors": left[0] },
                { "node": 1, "stale_sectors": left[1] },
                { "node": 2 },
            ]})
        };
        let (mut pace, begun) = (Pace::default(), Instant::now());
        assert!(pace.look_at(&status([0, 3072]), begun).is_empty());
        let rates = pace.look_at(&status([0, 2048]), begun + Duration::from_secs(2));
        assert_eq!(rates, [(1, (512.0 * 4096.0, 4.0))].into());
        let text = nodes(status([0, 2048])["nodes"].as_array().unwrap(), &rates);
        assert!(text.contains("8.00 MiB, 2.00 MiB/s, 4 s left"), "{text}");
        // What grew has no rate.
        assert!(pace.look_at(&status([9, 4096]), begun + Duration::from_secs(3)).is_empty());
    }
}
