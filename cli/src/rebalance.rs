//! `weft cluster rebalance`: has disks that were added get their share.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use weft_host::{Control, RebalanceAction, Request};

use crate::args::Common;
use crate::output::{Counts, Stage, align_right, bytes, say, say_json, table};

/// How often one looks how far it is.
const EVERY: Duration = Duration::from_millis(500);

/// What to do about disks that are not equally full.
#[derive(Debug, Args)]
pub struct Rebalance {
    /// Say what would be moved, and do nothing
    #[arg(long, conflicts_with_all = ["no_wait", "cancel"])]
    dry_run: bool,
    /// Do not wait
    #[arg(long, conflicts_with = "cancel")]
    no_wait: bool,
    /// Begin nothing more; what is under way comes to its end
    #[arg(long)]
    cancel: bool,
    #[command(flatten)]
    common: Common,
}

impl Rebalance {
    /// Does it.
    pub fn run(&self) -> Result<()> {
        let mut control = self.common.target.connect()?;
        let ask = |control: &mut Control, action| control.request(&Request::Rebalance { action });
        let plan = ask(&mut control, RebalanceAction::Plan)?;
        let answer = match (self.dry_run, self.cancel) {
            (true, _) => plan.clone(),
            (_, true) => ask(&mut control, RebalanceAction::Stop)?,
            _ => ask(&mut control, RebalanceAction::Start)?,
        };
        let waits = !self.dry_run && !self.cancel && !self.no_wait;
        let answer = if waits { wait(&mut control, &plan, answer)? } else { answer };
        if self.common.json {
            return say_json(answer);
        }
        if self.dry_run || waits {
            say(disks(&answer))?;
        }
        say(match (self.dry_run, self.cancel, self.no_wait) {
            (true, ..) => would_move(&plan),
            (_, true, _) => "nothing more is moved".to_string(),
            (.., true) => format!("{}; 'weft status' shows when that is done", moves(&plan)),
            _ => "all disks are as equally full as their failure domains let them be".to_string(),
        })
    }
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or(0)
}

fn would_move(plan: &Value) -> String {
    match number(plan, "columns") {
        0 => "nothing need be moved: the disks are as equally full as they can be".to_string(),
        n => format!("{n} columns, {}, would be moved", bytes(number(plan, "bytes"))),
    }
}

fn moves(plan: &Value) -> String {
    format!(
        "{} columns, {}, are being moved",
        number(plan, "columns") + number(plan, "under_way"),
        bytes(number(plan, "bytes"))
    )
}

/// Waits until nothing is moved any more; returns how it is then.
fn wait(control: &mut Control, plan: &Value, first: Value) -> Result<Value> {
    let left = |now: &Value| number(now, "columns") + number(now, "under_way");
    let all = left(plan).max(left(&first));
    let stage = Stage::new("moving columns", all, Counts::Things);
    let mut now = first;
    while now["rebalancing"] == true {
        stage.at(all.saturating_sub(left(&now)));
        thread::sleep(EVERY);
        now = control.request(&Request::Rebalance { action: RebalanceAction::Plan })?;
    }
    let moved = all.saturating_sub(left(&now));
    stage.done(format!("{moved} of {all} columns moved"));
    now["columns_moved"] = json!(moved);
    now["bytes_moved"] = json!(number(plan, "bytes").saturating_sub(number(&now, "bytes")));
    Ok(now)
}

/// A table of the disks, as full as they are and as they will be.
fn disks(plan: &Value) -> String {
    let mut table = table(["node", "disk", "used", "full", "then used", "full"]);
    for disk in plan["disks"].as_array().into_iter().flatten() {
        let all = number(disk, "bytes");
        let percent = |used: u64| format!("{:.1} %", used as f64 * 100.0 / all.max(1) as f64);
        let (used, then) = (number(disk, "used_bytes"), number(disk, "used_bytes_after"));
        table.add_row([
            disk["node"].to_string(),
            bytes(all),
            bytes(used),
            percent(used),
            bytes(then),
            percent(then),
        ]);
    }
    align_right(&mut table, 0..6);
    table.to_string()
}
