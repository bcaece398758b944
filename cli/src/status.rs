//! `weft status`: how a running array is.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde_json::Value;
use weft_core::SECTOR;
use weft_host::ControlRequest;
use weft_terminal::{align_right, bytes, say, say_json, table};

use crate::args::Target;
use crate::output::say_cut_off;
use crate::scrub::done;
use crate::volume::{troubles, volumes};

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
            let status = control.request(&ControlRequest::Status)?;
            match (self.json, self.watch) {
                (true, false) => say_json(status)?,
                (true, true) => say(status)?,
                (false, watch) => {
                    if watch && weft_terminal::is_terminal() {
                        // Home, and clear what is below.
                        say("\x1b[H\x1b[2J")?;
                    }
                    say_cut_off(&status)?;
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
    for line in list("volumes").iter().flat_map(troubles).chain(list("scrubs").iter().map(scrub)) {
        out += &format!("\n{line}");
    }
    out += &balance(&status["balance"]);
    for listen in list("listens") {
        out += &format!("\nlistens at {}", listen.as_str().unwrap_or("?"));
    }
    for line in list("nodes").iter().filter_map(wrong_clock) {
        out += &format!("\nwarning: {line}");
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

/// How far a scrub is.
fn scrub(scrub: &Value) -> String {
    format!(
        "a scrub of volume {} by node {}: {} of {} stripes, {} rebuilt, {} wrong, {} skipped",
        scrub["volume"].as_str().unwrap_or("?"),
        scrub["node"],
        done(scrub),
        scrub["stripes"],
        scrub["rebuilt"],
        scrub["mismatched"],
        scrub["skipped"],
    )
}

/// That the clock of a node's machine is wrong, if it is.
fn wrong_clock(node: &Value) -> Option<String> {
    let ahead = node["clock_is_ahead_seconds"].as_u64()?;
    Some(format!(
        "the clock of node {}'s machine is {ahead} s ahead of the cluster's time, which it goes by; set it, and start \
         its process again",
        node["node"]
    ))
}

/// The state of a node, and why it is down.
pub fn state(node: &Value) -> String {
    let state = node["state"].as_str().unwrap_or("-");
    node["why"].as_str().map_or(state.to_string(), |why| format!("{state}: {why}"))
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
        let mut behind =
            node["stale_sectors"].as_u64().map_or("-".to_string(), |n| bytes(n * SECTOR));
        if let Some(rate) = node["rebuilt_bytes_per_second"].as_u64() {
            behind += &format!(", {}/s, {} s left", bytes(rate), node["rebuild_seconds_left"]);
        }
        let counters = &node["counters"];
        table.add_row([
            number(&node["node"]),
            state(node),
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
    fn how_fast_a_node_catches_up_and_why_one_is_down_are_said() {
        let list = json!([
            {
                "node": 1, "state": "catching-up", "stale_sectors": 2048,
                "rebuilt_bytes_per_second": 2 << 20, "rebuild_seconds_left": 4,
            },
            { "node": 2, "state": "down", "why": "there is no connection to its process" },
        ]);
        let text = nodes(list.as_array().unwrap());
        assert!(text.contains("8.00 MiB, 2.00 MiB/s, 4 s left"), "{text}");
        assert!(text.contains("down: there is no connection"), "{text}");
    }

    #[test]
    fn scrubs_are_said() {
        let (volumes, nodes) = (json!([]), json!([]));
        let scrubs = json!([{
            "volume": "v", "node": 2, "from": 10, "verified": 5, "skipped": 1, "stripes": 40,
            "rebuilt": 0, "mismatched": 0,
        }]);
        let text = describe(&json!({ "volumes": volumes, "nodes": nodes, "scrubs": scrubs }));
        assert!(text.contains("a scrub of volume v by node 2: 16 of 40 stripes"), "{text}");
    }
}
