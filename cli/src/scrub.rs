//! `weft scrub`: reads and verifies every stripe of a volume.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::Value;
use weft_host::Request;

use crate::args::Target;
use crate::output::{say, say_json};

/// Read and verify every stripe of a volume.
#[derive(Debug, Args)]
pub struct Scrub {
    /// Name of the volume
    volume: String,
    #[command(flatten)]
    target: Target,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Scrub {
    /// Scrubs; fails if redundancy was not true, or could not be looked at.
    pub fn run(&self) -> Result<ExitCode> {
        let request = Request::Scrub { volume: self.volume.clone() };
        let answer = self.target.connect()?.request(&request)?;
        let clean = is_clean(&answer);
        if self.json {
            say_json(answer)?;
        } else {
            say(describe(&answer))?;
        }
        Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Whether every stripe was looked at and none was found wrong.
pub fn is_clean(answer: &Value) -> bool {
    ["mismatched", "skipped"].iter().all(|key| answer[key] == 0)
}

/// The result in a line.
pub fn describe(answer: &Value) -> String {
    let verdict = match (answer["mismatched"] == 0, answer["skipped"] == 0) {
        (true, true) => "all is true",
        (true, false) => {
            "what was skipped could not be verified: start all nodes, wait until they have caught up, and scrub again"
        }
        (false, _) => "parity was wrong: report this",
    };
    format!(
        "volume {}: {} stripes, {} verified, {} units rebuilt, {} with wrong parity, {} skipped; {verdict}",
        answer["volume"].as_str().unwrap_or("?"),
        answer["stripes"],
        answer["verified"],
        answer["rebuilt"],
        answer["mismatched"],
        answer["skipped"],
    )
}
