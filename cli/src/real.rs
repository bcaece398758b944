//! What `weft check --real` prints.

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use weft_terminal::{say, say_json, table};
use weft_trial::faults::{Fault, Outcome, Seen, Tally, Trial};

/// Prints what came of a trial.
pub fn report(trial: &Trial, outcome: &Outcome, as_json: bool) -> Result<()> {
    match as_json {
        true => say_json(json(trial, outcome)),
        false => say_text(trial, outcome),
    }
}

fn json(trial: &Trial, outcome: &Outcome) -> Value {
    let Outcome { faults, blocks, snapshots, seen } = outcome;
    let row = |(fault, t): &(Fault, Tally)| {
        json!({
            "fault": fault.to_string(),
            "rounds": t.waits.len(),
            "median_wait_s": t.median_wait().as_secs_f64(),
            "longest_wait_s": t.longest_wait().as_secs_f64(),
            "allowed_wait_s": (fault.longest_wait() + trial.slack).as_secs_f64(),
            "bad_sectors": t.erasures,
            "longest_healing_s": t.longest_healing.as_secs_f64(),
        })
    };
    json!({
        "seed": trial.seed,
        "rounds": trial.rounds,
        "blocks_verified": blocks,
        "snapshots_verified": snapshots,
        "files_verified": seen.as_ref().map(|s| s.files),
        "fio_runs_verified": seen.as_ref().map(|s| s.fio_runs),
        "faults": faults.iter().map(row).collect::<Vec<_>>(),
    })
}

fn say_text(trial: &Trial, outcome: &Outcome) -> Result<()> {
    let Outcome { faults, blocks, snapshots, seen } = outcome;
    let mut table = table([
        "fault",
        "rounds",
        "longest wait: median",
        "worst",
        "allowed",
        "longest healing",
        "bad sectors",
    ]);
    let seconds = |time: Duration| format!("{:.2} s", time.as_secs_f64());
    for (fault, t) in faults {
        table.add_row([
            fault.to_string(),
            t.waits.len().to_string(),
            seconds(t.median_wait()),
            seconds(t.longest_wait()),
            seconds(fault.longest_wait() + trial.slack),
            seconds(t.longest_healing),
            t.erasures.to_string(),
        ]);
    }
    say(table)?;
    let snapshots = match snapshots {
        0 => String::new(),
        n => format!(" {n} snapshots were right,"),
    };
    say(format!(
        "{} rounds: every answer was right, no request failed, {blocks} blocks read back at the \
         end,{snapshots} all parity consistent",
        trial.rounds
    ))?;
    let Some(Seen { files, fio_runs }) = seen else { return Ok(()) };
    say(format!(
        "the file system is clean, {files} durable files are intact, fio verified {fio_runs} runs"
    ))
}
