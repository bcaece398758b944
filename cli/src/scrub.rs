//! `weft scrub`: reads and verifies every stripe of a volume.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::{Value, json};
use weft_core::node::UNBOUNDED;
use weft_host::status::{ScrubStatus, Status, VolumeStatus};
use weft_host::{Believed, ControlRequest, SCRUB_RATE};
use weft_terminal::{Counts, Stage, bytes, say, say_json};

use crate::args::{self, Target};
use crate::output::NO_THREAD;
use crate::transfer::Stopped;

/// How often one looks how far it is.
const EVERY: Duration = Duration::from_millis(200);

/// Read and verify every stripe of a volume, and repair unreadable or wrong content. If either data or parity may
/// be wrong, nothing is changed without --trust. An interrupted scrub can resume with --from. Snapshots and volumes whose content
/// the volume shows are scrubbed after it; --snapshots adds its other snapshots.
#[derive(Debug, Args)]
pub struct Scrub {
    /// Name of the volume
    volume: String,
    /// Maximum bytes per second to read from each disk, such as 50M; 'max' for no limit [default: 100M]
    #[arg(long, value_parser = rate)]
    rate: Option<u64>,
    /// First stripe, to resume an interrupted scrub
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// If either data or parity may be wrong: the one to trust. The other is recomputed from it
    #[arg(long, value_enum)]
    trust: Option<Trust>,
    /// With '--trust parity': the node with the wrong data
    #[arg(long, value_name = "NODE")]
    wrong: Option<u16>,
    /// Scrub all of the volume's snapshots as well, also those that it does not lie over
    #[arg(long, conflicts_with_all = ["from", "trust", "wrong"])]
    snapshots: bool,
    #[command(flatten)]
    target: Target,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// The content to trust.
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
            0 => Err("the rate cannot be 0; give a rate such as 50M".to_string()),
            rate => Ok(rate),
        },
    }
}

impl Scrub {
    /// Scrubs; fails if redundancy was not true, or could not be looked at.
    pub fn run(&self) -> Result<ExitCode> {
        let (stopped, mut answers) = (Stopped::by_signals(true)?, Vec::new());
        let first = self.scrub(&self.volume, false, &stopped)?;
        self.tell(&first)?;
        answers.push(first);
        for snapshot in self.others(&answers[0])? {
            let answer = self.scrub(&snapshot, true, &stopped)?;
            self.tell(&answer)?;
            answers.push(answer);
        }
        let all_clean = answers.iter().all(is_clean);
        if self.json {
            match self.snapshots {
                true => say_json(json!({ "scrubs": apart(answers) }))?,
                false => answers.into_iter().try_for_each(say_json)?,
            }
        }
        Ok(if all_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Prints a result, unless all are printed together.
    fn tell(&self, answer: &Value) -> Result<()> {
        if self.json {
            return Ok(());
        }
        std::iter::once(answer).chain(below(answer)).try_for_each(|one| say(describe(one)))
    }

    /// The names of the volume's snapshots, if they are wanted, but for those that were scrubbed with it.
    fn others(&self, done: &Value) -> Result<Vec<String>> {
        if !self.snapshots {
            return Ok(Vec::new());
        }
        let request = ControlRequest::VolumeList { snapshots: true };
        let answer = self.target.connect()?.request(&request)?;
        let mut names =
            snapshots_of(&self.volume, serde_json::from_value(answer["volumes"].clone())?);
        names.retain(|name| !below(done).any(|one| one["volume"] == **name));
        Ok(names)
    }

    /// Scrubs a volume or a snapshot; `alone` without those below it.
    fn scrub(&self, name: &str, alone: bool, stopped: &Stopped) -> Result<Value> {
        let rate = Some(self.rate.unwrap_or(SCRUB_RATE));
        let trust = self.trust.map(|t| match t {
            Trust::Data => Believed::Data,
            Trust::Parity => Believed::Parity,
        });
        let (volume, from, suspect) = (name.to_string(), self.from, self.wrong);
        let request = ControlRequest::Scrub { volume, from, rate, trust, suspect, alone };
        let (mut asks, mut watches) = (self.target.connect()?, self.target.connect()?);
        let (hang_up, mut reached) = (asks.hang_up()?, (name.to_string(), from));
        let stage = Stage::new(format!("scrubbing {name}, stripes"), 0, Counts::Things);
        let answer = thread::scope(|scope| {
            let asking = move || asks.request(&request);
            let asked = thread::Builder::new().spawn_scoped(scope, asking).context(NO_THREAD)?;
            while !asked.is_finished() {
                thread::sleep(EVERY);
                // That there is nothing to be seen just now does not matter.
                if let Ok(status) = watches.status() {
                    reached = show(name, &stage, &status).unwrap_or(reached);
                }
                if stopped.is_set() {
                    hang_up.now();
                    let (volume, reached) = reached;
                    bail!(interrupted(&volume, if volume == name { from } else { 0 }, reached));
                }
            }
            anyhow::Ok(asked.join())
        });
        let answer = match answer? {
            Ok(answer) => answer?,
            Err(_) => bail!("the scrub ended without an answer; run it again"),
        };
        stage.done(format!("{} of {}", done(&answer), answer["stripes"]));
        Ok(answer)
    }
}

/// The results of the volumes below one, which were scrubbed after it.
fn below(answer: &Value) -> impl Iterator<Item = &Value> {
    answer["below"].as_array().into_iter().flatten()
}

/// Results with those of volumes below as results of their own.
fn apart(answers: Vec<Value>) -> Vec<Value> {
    let both = |mut answer: Value| {
        let below = answer.as_object_mut().and_then(|answer| answer.remove("below"));
        let below = below.and_then(|below| below.as_array().cloned()).unwrap_or_default();
        std::iter::once(answer).chain(below)
    };
    answers.into_iter().flat_map(both).collect()
}

/// The names of a volume's snapshots, out of all snapshots, in the order in which they were taken.
fn snapshots_of(volume: &str, all: Vec<VolumeStatus>) -> Vec<String> {
    let is_of = |one: &VolumeStatus| one.snapshot_of.as_deref() == Some(volume);
    let mut found: Vec<_> =
        all.into_iter().filter(is_of).map(|one| (one.taken, one.name)).collect();
    found.sort();
    found.into_iter().map(|(_, name)| name).collect()
}

/// Stripes are verified in no strict order: of this many before the last, some may be missing.
const ON_THE_WAY: u64 = 64;

/// The progress of an interrupted scrub, and how to continue it.
fn interrupted(volume: &str, from: u64, reached: u64) -> String {
    let next = reached.saturating_sub(ON_THE_WAY).max(from);
    format!(
        "the scrub was interrupted at stripe {reached}; `weft scrub {volume} --from {next}` continues it"
    )
}

/// Shows how far the scrub of a volume is, or of one below it. Returns which and the stripe that it has reached, if it is seen.
fn show(volume: &str, stage: &Stage, status: &Status) -> Option<(String, u64)> {
    // Others may be asked of other processes.
    let here = status.cluster.as_ref().map(|c| &c.nodes);
    let is_here = |s: &&ScrubStatus| here.is_none_or(|n| n.contains(&s.node));
    let is_its = |s: &&ScrubStatus| s.volume.as_deref() == Some(volume);
    // Then those of snapshots below follow.
    let is_below = |s: &&ScrubStatus| s.volume.as_deref().is_some_and(|v| v.contains('@'));
    let all = || status.scrubs.iter().filter(is_here);
    let its = all().find(is_its);
    let scrub = its.or_else(|| all().find(is_below))?;
    stage.bar().set_length(scrub.stripes);
    stage.at(scrub.done());
    stage.bar().set_message(format!(
        "{} rebuilt, {} wrong, {} unclear, {} skipped",
        scrub.rebuilt, scrub.mismatched, scrub.unclear, scrub.skipped
    ));
    Some((scrub.volume.clone()?, scrub.done()))
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
    let is_clean =
        |one: &Value| ["mismatched", "unclear", "skipped"].iter().all(|key| one[key] == 0);
    is_clean(answer) && below(answer).all(is_clean)
}

/// What a scrub found, in words, and what to do about it.
fn verdict(answer: &Value) -> &'static str {
    let none = |key: &str| answer[key] == 0;
    if !none("unclear") {
        return match (answer["journal"] == false, none("data_lost")) {
            (true, _) => {
                "parity does not match the data in the stripes below, as after a crash without a journal; they are \
             unchanged: '--trust data' recomputes parity"
            }
            (false, true) => {
                "parity does not match the data in the stripes below, and either may be wrong; they are unchanged until you give \
             '--trust data' or '--trust parity'"
            }
            (false, false) => {
                "parity is newer than the data in the stripes below: a disk has lost acknowledged data. They are unchanged: \
             '--trust parity --wrong NODE' rebuilds the lost data of that node's disk, '--trust data' gives it up"
            }
        };
    }
    match (none("mismatched"), none("skipped")) {
        (true, true) => "all parity is consistent",
        (true, false) => {
            "skipped stripes could not be verified. If data in them is lost, `weft volume lost` lists it, and it must be written \
             or accepted; otherwise start all nodes, wait until they have caught up, and scrub again"
        }
        (false, _) if answer["ordering"] == "none" => {
            "parity was wrong, which ordering=none may cause with concurrent writes to one stripe; it is now correct"
        }
        (false, _) if answer["journal"] == false => {
            "parity was wrong, which a crash without a journal may cause; it is now correct"
        }
        (false, _) => {
            "units were older than the rest of their stripes, or did not match them: a disk has lost acknowledged writes. They \
             have been rebuilt; replace that disk"
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
            "\n  on the disk of node {}: {} units repaired",
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
    use super::*;

    #[test]
    fn an_interrupted_scrub_says_how_to_go_on() {
        assert_eq!(
            interrupted("v", 0, 1000),
            "the scrub was interrupted at stripe 1000; `weft scrub v --from 936` continues it"
        );
        assert!(interrupted("v", 990, 1000).contains("--from 990`"));
        assert!(interrupted("v", 0, 3).contains("--from 0`"));
    }

    #[test]
    fn the_snapshots_of_a_volume_are_found_in_the_order_they_were_taken() {
        let one = |name: &str, of: Option<&str>, taken: &str| VolumeStatus {
            name: name.to_string(),
            snapshot_of: of.map(str::to_string),
            taken: Some(taken.to_string()),
            ..VolumeStatus::default()
        };
        let all = || {
            vec![
                one("v@b", Some("v"), "2026-11-29T02:00:00Z"),
                one("vv@a", Some("vv"), "2026-11-28T00:00:00Z"),
                one("v@a", Some("v"), "2026-11-29T01:00:00Z"),
                one("v", None, ""),
            ]
        };
        assert_eq!(snapshots_of("v", all()), ["v@a", "v@b"]);
        let (good, bad) = (json!({ "mismatched": 0, "unclear": 0, "skipped": 0 }), json!({}));
        let with = |below: &Value| json!({ "mismatched": 0, "unclear": 0, "skipped": 0, "below": [good.clone(), below] });
        assert!(is_clean(&with(&good)) && !is_clean(&with(&bad)));
        assert_eq!(
            apart(vec![with(&bad), good.clone()]),
            [&good, &good, &bad, &good].map(Clone::clone)
        );
        assert!(snapshots_of("w", all()).is_empty());
    }

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
        assert!(
            text.ends_with("consistent\n  on the disk of node 3: 136 units repaired"),
            "{text}"
        );
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
        assert!(describe(&found(true, 1)).contains("--wrong"));
        let crashed = describe(&found(false, 1));
        assert!(crashed.contains("without a journal") && !crashed.contains("--wrong"), "{crashed}");
    }
}
