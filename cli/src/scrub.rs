//! `weft scrub`: reads and verifies every stripe of a volume.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use serde_json::Value;
use weft_core::node::UNBOUNDED;
use weft_host::{Request, SCRUB_RATE};

use crate::args::{self, Target};
use crate::output::{Counts, Stage, bytes, say, say_json};

/// How often one looks how far it is.
const EVERY: Duration = Duration::from_millis(200);

/// Read and verify every stripe of a volume, repair what cannot be read, and make parity fit. Can
/// be interrupted at any time, and begun again where it was.
#[derive(Debug, Args)]
pub struct Scrub {
    /// Name of the volume
    volume: String,
    /// Most bytes to read of each disk in a second, such as 50M; 'max' for as fast as it goes [default: 100M]
    #[arg(long, value_parser = rate)]
    rate: Option<u64>,
    /// The stripe to begin at: how far one that was interrupted had come
    #[arg(long, default_value_t = 0)]
    from: u64,
    #[command(flatten)]
    target: Target,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Reads a rate in bytes a second.
fn rate(text: &str) -> Result<u64, String> {
    match text {
        "max" => Ok(UNBOUNDED),
        _ => match args::size(text)? {
            0 => Err("at 0 bytes a second a scrub never ends; give a rate such as 50M".to_string()),
            rate => Ok(rate),
        },
    }
}

impl Scrub {
    /// Scrubs; fails if redundancy was not true, or could not be looked at.
    pub fn run(&self) -> Result<ExitCode> {
        let rate = Some(self.rate.unwrap_or(SCRUB_RATE));
        let request = Request::Scrub { volume: self.volume.clone(), from: self.from, rate };
        let (mut asks, mut watches) = (self.target.connect()?, self.target.connect()?);
        let stage = Stage::new(format!("scrubbing {}, stripes", self.volume), 0, Counts::Things);
        let answer = thread::scope(|scope| {
            let asked = scope.spawn(move || asks.request(&request));
            while !asked.is_finished() {
                thread::sleep(EVERY);
                // That there is nothing to be seen just now does not matter.
                if let Ok(status) = watches.request(&Request::Status) {
                    self.show(&stage, &status);
                }
            }
            asked.join()
        });
        let answer = match answer {
            Ok(answer) => answer?,
            Err(_) => bail!("the scrub ended without an answer; run it again"),
        };
        stage.done(format!("{} of {}", done(&answer), answer["stripes"]));
        let clean = is_clean(&answer);
        if self.json {
            say_json(answer)?;
        } else {
            say(describe(&answer))?;
        }
        Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn show(&self, stage: &Stage, status: &Value) {
        // Others may be asked of other processes.
        let here = status["cluster"]["nodes"].as_array();
        let ours = |s: &&Value| {
            s["volume"] == self.volume.as_str() && here.is_none_or(|n| n.contains(&s["node"]))
        };
        let Some(scrub) = status["scrubs"].as_array().into_iter().flatten().find(ours) else {
            return;
        };
        stage.bar().set_length(number(scrub, "stripes"));
        stage.at(done(scrub));
        stage.bar().set_message(format!(
            "{} rebuilt, {} wrong, {} skipped",
            scrub["rebuilt"], scrub["mismatched"], scrub["skipped"]
        ));
    }
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or(0)
}

/// How far a scrub has come.
pub fn done(scrub: &Value) -> u64 {
    ["from", "verified", "skipped"].iter().map(|key| number(scrub, key)).sum()
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
        (false, _) if answer["ordering"] == "none" => {
            "parity was wrong, which ordering=none may do when writes to one stripe run at the same time; it fits the data now"
        }
        (false, _) => "parity was wrong: report this",
    };
    let begun = match number(answer, "from") {
        0 => String::new(),
        from => format!(" from {from} on"),
    };
    let read = match answer["read_bytes"].as_u64() {
        Some(read) => format!(", {} read", bytes(read)),
        None => String::new(),
    };
    format!(
        "volume {}: {} stripes{begun}{read}, {} verified, {} units rebuilt, {} with wrong parity, {} skipped; {verdict}",
        answer["volume"].as_str().unwrap_or("?"),
        answer["stripes"],
        answer["verified"],
        answer["rebuilt"],
        answer["mismatched"],
        answer["skipped"],
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn wrong_parity_is_a_bug_unless_nothing_was_ordered() {
        let found = |ordering| json!({ "mismatched": 1, "skipped": 0, "ordering": ordering });
        assert!(describe(&found("timestamps")).ends_with("report this"));
        let none = describe(&found("none"));
        assert!(none.contains("ordering=none may") && !none.contains("report"), "{none}");
    }
}
