//! `weft scrub`: reads and verifies every stripe of a volume.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::Value;
use weft_core::node::UNBOUNDED;
use weft_host::status::{ScrubStatus, Status};
use weft_host::{Believed, ControlRequest, SCRUB_RATE};
use weft_terminal::{Counts, Stage, bytes, say, say_json};

use crate::args::{self, Target};
use crate::output::NO_THREAD;

/// How often one looks how far it is.
const EVERY: Duration = Duration::from_millis(200);

/// Read and verify every stripe of a volume, and repair what cannot be read or is found wrong. Where it cannot be
/// told whether data or parity is wrong nothing is changed unless you say whom to trust. Can be interrupted at
/// any time, and begun again where it was.
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
    /// Where it cannot be told whether data or parity is wrong: whom to believe. The other is made to fit it
    #[arg(long, value_enum)]
    trust: Option<Trust>,
    /// With '--trust parity': the node on whose disk the data is that is not believed
    #[arg(long, value_name = "NODE")]
    suspect: Option<u16>,
    #[command(flatten)]
    target: Target,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Whom to believe.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Trust {
    Data,
    Parity,
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
        let trust = self.trust.map(|t| match t {
            Trust::Data => Believed::Data,
            Trust::Parity => Believed::Parity,
        });
        let (volume, from, suspect) = (self.volume.clone(), self.from, self.suspect);
        let request = ControlRequest::Scrub { volume, from, rate, trust, suspect };
        let (mut asks, mut watches) = (self.target.connect()?, self.target.connect()?);
        let stage = Stage::new(format!("scrubbing {}, stripes", self.volume), 0, Counts::Things);
        let answer = thread::scope(|scope| {
            let asking = move || asks.request(&request);
            let asked = thread::Builder::new().spawn_scoped(scope, asking).context(NO_THREAD)?;
            while !asked.is_finished() {
                thread::sleep(EVERY);
                // That there is nothing to be seen just now does not matter.
                if let Ok(status) = watches.status() {
                    self.show(&stage, &status);
                }
            }
            anyhow::Ok(asked.join())
        });
        let answer = match answer? {
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

    fn show(&self, stage: &Stage, status: &Status) {
        // Others may be asked of other processes.
        let here = status.cluster.as_ref().map(|c| &c.nodes);
        let ours = |s: &&ScrubStatus| {
            s.volume.as_ref() == Some(&self.volume) && here.is_none_or(|n| n.contains(&s.node))
        };
        let Some(scrub) = status.scrubs.iter().find(ours) else { return };
        stage.bar().set_length(scrub.stripes);
        stage.at(scrub.done());
        stage.bar().set_message(format!(
            "{} rebuilt, {} wrong, {} unclear, {} skipped",
            scrub.rebuilt, scrub.mismatched, scrub.unclear, scrub.skipped
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
    ["mismatched", "unclear", "skipped"].iter().all(|key| answer[key] == 0)
}

/// What a scrub found, in words, and what to do about it.
fn verdict(answer: &Value) -> &'static str {
    let none = |key: &str| answer[key] == 0;
    if !none("unclear") {
        return match (answer["journal"] == false, none("data_lost")) {
            (true, _) => {
                "parity does not fit the data in the stripes named below, as a crash may leave them \
                 without a journal; they are left as they are: '--trust data' makes parity fit"
            }
            (false, true) => {
                "parity does not fit the data in the stripes named below, and it cannot be told which \
                 is wrong; they are left as they are until you say '--trust data' or '--trust parity'"
            }
            (false, false) => {
                "parity is newer than the data in stripes named below: a disk has lost data that it had \
                 written. They are left as they are: '--trust parity --suspect NODE' makes good what that \
                 node's disk has lost, '--trust data' gives it up"
            }
        };
    }
    match (none("mismatched"), none("skipped")) {
        (true, true) => "all parity is consistent",
        (true, false) => {
            "what was skipped could not be verified: start all nodes, wait until they have caught up, and scrub again"
        }
        (false, _) if answer["ordering"] == "none" => {
            "parity was wrong, which ordering=none may do when writes to one stripe run at the same time; it fits the data now"
        }
        (false, _) if answer["journal"] == false => {
            "parity was wrong, which a crash may do without a journal; it fits the data now"
        }
        (false, _) => {
            "units were older than the rest of their stripes, or did not fit them: a disk has lost what was \
             written to it. They have been made anew; replace that disk"
        }
    }
}

/// The result in a line, and then where it could not be told who is wrong.
pub fn describe(answer: &Value) -> String {
    let begun = match number(answer, "from") {
        0 => String::new(),
        from => format!(" from {from} on"),
    };
    let read = match answer["read_bytes"].as_u64() {
        Some(read) => format!(", {} read", bytes(read)),
        None => String::new(),
    };
    let mut text = format!(
        "volume {}: {} stripes{begun}{read}, {} verified, {} units rebuilt, {} wrong, {} stripes unclear, {} skipped; {}",
        answer["volume"].as_str().unwrap_or("?"),
        answer["stripes"],
        answer["verified"],
        answer["rebuilt"],
        answer["mismatched"],
        number(answer, "unclear"),
        answer["skipped"],
        verdict(answer),
    );
    for on in answer["mended"].as_array().into_iter().flatten() {
        text.push_str(&format!(
            "\n  on the disk of node {}: {} units mended",
            on["node"], on["units"]
        ));
    }
    for range in answer["unclear_ranges"].as_array().into_iter().flatten() {
        text.push_str(&format!("\n  bytes {}+{}", range[0], range[1]));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn wrong_parity_is_a_lost_write_unless_nothing_was_ordered() {
        let found = |ordering| {
            let (mismatched, unclear, skipped) = (1, 0, 0);
            json!({
                "mismatched": mismatched, "unclear": unclear, "skipped": skipped,
                "ordering": ordering, "journal": true,
            })
        };
        assert!(describe(&found("timestamps")).ends_with("replace that disk"));
        let none = describe(&found("none"));
        assert!(none.contains("ordering=none may") && !none.contains("replace"), "{none}");
    }

    #[test]
    fn the_disks_on_which_something_was_mended_are_named() {
        let found = json!({
            "mismatched": 0, "unclear": 0, "skipped": 0, "rebuilt": 136,
            "mended": [{ "node": 3, "units": 136 }],
        });
        let text = describe(&found);
        assert!(text.ends_with("consistent\n  on the disk of node 3: 136 units mended"), "{text}");
    }

    #[test]
    fn what_is_unclear_is_named_and_left_to_the_operator() {
        let found = |journal, lost| {
            json!({
                "mismatched": 0, "unclear": 1, "skipped": 0, "data_lost": lost, "journal": journal,
                "unclear_ranges": [[8192, 4096]],
            })
        };
        assert!(!is_clean(&found(true, 0)));
        let text = describe(&found(true, 0));
        assert!(text.contains("--trust data") && text.ends_with("\n  bytes 8192+4096"), "{text}");
        assert!(describe(&found(true, 1)).contains("--suspect"));
        let crashed = describe(&found(false, 1));
        assert!(
            crashed.contains("without a journal") && !crashed.contains("--suspect"),
            "{crashed}"
        );
    }
}
