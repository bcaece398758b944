//! `weft cluster rebalance`: has disks that were added get their share.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;
use serde_json::{Value, json};
use weft_host::{Control, ControlRequest, RebalanceAction};
use weft_terminal::{Counts, Stage, align_right, bytes, say, say_json, table};

use crate::args::Common;

/// How often one looks how far it is.
const EVERY: Duration = Duration::from_millis(500);

/// How long one waits for nodes that are down, when nothing can be moved without them.
const PATIENCE: Duration = Duration::from_secs(3);

/// The same while columns are being filled, which may take their time.
const FILLING: Duration = Duration::from_secs(60);

/// Rebalance disks that are not equally full.
#[derive(Debug, Args)]
pub struct Rebalance {
    /// Print the planned moves without doing them
    #[arg(long, conflicts_with_all = ["no_wait", "cancel"])]
    dry_run: bool,
    /// Return at once instead of waiting
    #[arg(long, conflicts_with = "cancel")]
    no_wait: bool,
    /// Start no more moves; those in progress finish
    #[arg(long)]
    cancel: bool,
    #[command(flatten)]
    common: Common,
}

impl Rebalance {
    /// Does it.
    pub fn run(&self) -> Result<()> {
        let mut control = self.common.target.connect()?;
        let ask =
            |control: &mut Control, action| control.request(&ControlRequest::Rebalance { action });
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
            (_, true, _) => "no more columns are moved".to_string(),
            (.., true) => format!("{}; 'weft status' shows the progress", moves(&plan)),
            _ => "all disks are as equally full as the failure domains allow".to_string(),
        })
    }
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or(0)
}

fn would_move(plan: &Value) -> String {
    match number(plan, "columns") {
        0 => "no moves are needed: the disks are as equally full as possible".to_string(),
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
    let (mut since, mut told) = (Instant::now(), None);
    while now["rebalancing"] == true {
        stage.at(all.saturating_sub(left(&now)));
        let waits = waits_for(&now);
        if waits.is_some() && waits != told {
            eprintln!("weft: waiting for {}", waits.as_deref().unwrap_or_default());
        }
        if let Some(nodes) = waits.as_deref().filter(|_| is_held_up(&now, since.elapsed())) {
            bail!("{}", stuck(nodes, all.saturating_sub(left(&now)), &now));
        }
        told = waits;
        thread::sleep(EVERY);
        let before = now;
        now = control.request(&ControlRequest::Rebalance { action: RebalanceAction::Plan })?;
        if before != now {
            since = Instant::now();
        }
    }
    let moved = all.saturating_sub(left(&now));
    stage.done(format!("{moved} of {all} columns moved"));
    now["columns_moved"] = json!(moved);
    now["bytes_moved"] = json!(number(plan, "bytes").saturating_sub(number(&now, "bytes")));
    Ok(now)
}

fn nodes_in<'a>(now: &'a Value, state: &'a str) -> impl Iterator<Item = String> + 'a {
    let nodes = now["waits_for"].as_array().into_iter().flatten();
    nodes.filter(move |n| n["state"] == state).map(|n| n["node"].to_string())
}

/// The nodes that rebalancing waits for, in words.
fn waits_for(now: &Value) -> Option<String> {
    let list = |state| nodes_in(now, state).collect::<Vec<String>>().join(", ");
    let (down, behind) = (list("down"), list("behind"));
    let words = [(down, "down"), (behind, "not caught up")];
    let words = words.into_iter().filter(|(nodes, _)| !nodes.is_empty());
    let words: Vec<String> =
        words.map(|(nodes, state)| format!("node {nodes} ({state})")).collect();
    (!words.is_empty()).then(|| words.join(" and "))
}

/// Whether nothing has been moved for long enough, and a node is down without which nothing will be.
fn is_held_up(now: &Value, unchanged: Duration) -> bool {
    let patience = if number(now, "filled") == 0 { PATIENCE } else { FILLING };
    nodes_in(now, "down").next().is_some() && unchanged >= patience
}

/// What to say when no more will be moved for now.
fn stuck(nodes: &str, moved: u64, now: &Value) -> String {
    let down: Vec<String> = nodes_in(now, "down").collect();
    format!(
        "no more columns can be moved without {nodes}; columns moved: {moved}. When it is back (`weft node start \
         {}`), or its content is rebuilt (`weft disk fail`), moving continues automatically; `weft cluster rebalance \
         --cancel` ends it",
        down.first().map_or("N", String::as_str)
    )
}

/// A table of the disks: how full they may become, where a thin volume counts as a whole, and how full after the moves.
fn disks(plan: &Value) -> String {
    let mut table = table(["node", "disk", "may become", "full", "after moves", "full"]);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_it_up_is_said_and_not_waited_for_for_ever() {
        let now = |nodes: Value, filled: u64| json!({ "waits_for": nodes, "filled": filled });
        let down = json!([{ "node": 2, "state": "down" }, { "node": 3, "state": "behind" }]);
        let held_up = now(down.clone(), 0);
        let words = waits_for(&held_up).unwrap();
        assert_eq!(words, "node 2 (down) and node 3 (not caught up)");
        assert!(is_held_up(&held_up, PATIENCE) && !is_held_up(&held_up, PATIENCE / 2));
        assert!(!is_held_up(&now(down.clone(), 1), PATIENCE), "something is being filled");
        assert!(is_held_up(&now(down, 1), FILLING));
        let catches_up = now(json!([{ "node": 3, "state": "behind" }]), 0);
        assert!(!is_held_up(&catches_up, FILLING), "that comes about by itself");
        assert_eq!(waits_for(&now(json!([]), 0)), None);
        let said = stuck(&words, 5, &held_up);
        assert!(said.contains("node 2 (down)") && said.contains("columns moved: 5"), "{said}");
        assert!(said.contains("node start 2") && said.contains("--cancel"), "{said}");
    }
}
