//! What `weft explain` promises.

use std::process::Command;

use serde_json::Value;
use weft_core::plan::Totals;
use weft_core::policy::CalculatedAt;

use super::{Request, Setup};

/// The totals, and the number of pieces that the request is cut into.
pub fn totals(setup: Setup, failed: &[usize], request: Request) -> (Totals, u64) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
    let text = |n: u64| n.to_string();
    command.args(["explain", if request.write { "write" } else { "read" }, "--json"]);
    command.args(["--layout", setup.layout, "--nodes", &text(setup.nodes as u64)]);
    command.args(["--stripe-unit", &text(setup.unit)]);
    command.args(["--offset", &text(request.offset), "--length", &text(request.length)]);
    for column in failed {
        command.args(["--failed", &text(*column as u64)]);
    }
    command.args(["--calculator", name(setup.roles)]);
    if request.write {
        command.args(["--journal", if setup.journal { "on" } else { "off" }]);
        if setup.waits {
            command.args(["--redundancy", "never"]);
        }
        if setup.marked {
            command.arg("--marked");
        }
        if setup.commanded {
            command.args(["--dispatch", "commanded"]);
        }
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    (of(&json["totals"]), json["chunks"].as_u64().unwrap())
}

fn name(roles: Option<CalculatedAt>) -> &'static str {
    match roles {
        None => "auto",
        Some(CalculatedAt::Originator) => "originator",
        Some(CalculatedAt::Solely) => "solely",
        Some(CalculatedAt::Parity) => "parity",
        Some(CalculatedAt::Balanced) => "balanced",
        Some(CalculatedAt::Tree) => "tree",
    }
}

/// Totals as they are written in JSON.
pub fn of(json: &Value) -> Totals {
    let count = |name: &str| json[name].as_u64().unwrap_or_else(|| panic!("no {name} in {json}"));
    Totals {
        disk_reads: count("disk_reads"),
        disk_writes: count("disk_writes"),
        journal_writes: count("journal_writes"),
        messages: count("messages"),
        wire_bytes: count("wire_bytes"),
        round_trips: count("round_trips"),
    }
}
