//! `weft node stop`, `fail`, `kill` and `start`: of one node, or of all nodes of a process.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::{Value, json};
use weft_host::status::{NodeState, Status, VolumeMode};
use weft_host::{Control, ControlRequest, NodeAction};
use weft_terminal::{Counts, Stage, say, say_json};

use crate::args::{Whose, numbered};
use crate::confirm::Confirm;
use crate::disk::{AcceptLoss, given_up, works};
use crate::leaving;
use crate::output::map_of;

/// How often one looks how far it is.
const EVERY: Duration = Duration::from_millis(200);

/// The nodes to stop.
#[derive(Debug, Args)]
pub struct Stop {
    #[command(flatten)]
    whose: Whose,
    /// Skip the refresh of deferred parity
    #[arg(long)]
    now: bool,
}

/// The lost nodes.
#[derive(Debug, Args)]
pub struct Fail {
    #[command(flatten)]
    whose: Whose,
    #[command(flatten)]
    confirm: Confirm,
    /// Skip the refresh of deferred parity
    #[arg(long)]
    now: bool,
    #[command(flatten)]
    accept: AcceptLoss,
}

fn state(status: &Status, node: usize) -> Option<NodeState> {
    status.nodes.iter().find(|n| usize::from(n.node) == node).map(|n| n.state)
}

fn is_down(status: &Status, node: usize) -> bool {
    use NodeState::{Down, Expected, Hung, Lost, Slow};
    matches!(state(status, node), Some(Hung | Slow | Down | Lost | Expected))
}

/// Kills or starts them. If there are several, those that are down or up already are left out.
pub fn act(whose: &Whose, action: NodeAction) -> Result<()> {
    let mut control = whose.common.target.connect()?;
    let status = control.status()?;
    let mut nodes = whose.nodes(&status)?;
    let starts = action == NodeAction::Start;
    if nodes.len() > 1 {
        nodes.retain(|n| is_down(&status, *n) == starts);
        if nodes.is_empty() {
            bail!("all its nodes are already {}", if starts { "up" } else { "down" });
        }
    }
    let mut answer = Value::Null;
    for (n, node) in nodes.iter().enumerate() {
        let request = ControlRequest::Node { action, node: *node };
        let asked = control.request(&request);
        let verb = if starts { "started" } else { "killed" };
        answer = match n {
            0 => asked?,
            n => asked.with_context(|| so_far(verb, &nodes[..n]))?,
        };
    }
    report(whose, answer, &nodes, done(action, nodes.len()), "")
}

/// The words for the result.
fn done(action: NodeAction, nodes: usize) -> &'static str {
    match (action, nodes) {
        (NodeAction::Kill, 1) => "was killed",
        (NodeAction::Kill, _) => "were killed",
        (NodeAction::Start, 1) => "is up again",
        (NodeAction::Start, _) => "are up again",
        (NodeAction::Stop, 1) => "has stopped",
        (NodeAction::Stop, _) => "have stopped",
    }
}

/// Says what was done to nodes.
fn report(whose: &Whose, mut answer: Value, nodes: &[usize], done: &str, more: &str) -> Result<()> {
    if whose.common.json {
        if nodes.len() > 1 {
            answer["nodes"] = json!(nodes);
        }
        return say_json(answer);
    }
    say(format!("{} {done} ({}){more}", numbered(nodes), map_of(&answer)))
}

impl Stop {
    /// Stops them in good order. All parity that waits of what is on them is computed before the first stops.
    pub fn run(&self) -> Result<()> {
        let mut control = self.whose.common.target.connect()?;
        let status = control.status()?;
        let mut nodes = self.whose.nodes(&status)?;
        if nodes.len() > 1 {
            nodes.retain(|n| !is_down(&status, *n));
            if nodes.is_empty() {
                bail!("all its nodes are already down");
            }
        }
        let mut left = nodes.iter().filter(|_| self.now);
        let left = left.find_map(|n| leaving::unprotected(&status, *n));
        let mut suspected = Vec::new();
        let stopped = self.stop(&mut control, &nodes, &mut suspected);
        // Nothing waits where a node is away. When it is back, parity may wait as before.
        for node in suspected {
            leaving::trust(&mut control, node)?;
        }
        let left = left.map(|left| format!("; {left}: hosts wait for it until the node is back"));
        let done = done(NodeAction::Stop, nodes.len());
        report(&self.whose, stopped?, &nodes, done, &left.unwrap_or_default())
    }

    fn stop(
        &self,
        control: &mut Control,
        nodes: &[usize],
        suspected: &mut Vec<usize>,
    ) -> Result<Value> {
        for node in nodes.iter().filter(|_| !self.now) {
            if leaving::make_redundant(control, *node)? {
                suspected.push(*node);
            }
        }
        let mut answer = Value::Null;
        for (n, node) in nodes.iter().enumerate() {
            let request = ControlRequest::Node { action: NodeAction::Stop, node: *node };
            answer = control.request(&request).with_context(|| so_far("stopped", &nodes[..n]))?;
        }
        Ok(answer)
    }
}

/// What was done before something could not be.
fn so_far(done: &str, nodes: &[usize]) -> String {
    match nodes {
        [] => "nothing was done".to_string(),
        [node] => format!("node {node} was {done}, and then"),
        nodes => format!("{} were {done}, and then", numbered(nodes)),
    }
}

impl Fail {
    /// Declares their disks lost, one after the other; where a volume does not bear the next, what the last had is rebuilt
    /// first.
    pub fn run(&self) -> Result<()> {
        let mut control = self.whose.common.target.connect()?;
        let status = control.status()?;
        let mut nodes = self.whose.nodes(&status)?;
        nodes.retain(|n| state(&status, *n) != Some(NodeState::Lost));
        if nodes.is_empty() {
            bail!("all its disks are already declared lost");
        }
        let stakes: Vec<String> = nodes.iter().filter_map(|n| works(&status, *n)).collect();
        if !stakes.is_empty() {
            self.confirm.ask(&stakes.join("; "))?;
        }
        for node in nodes.iter().filter(|_| !self.now) {
            leaving::make_redundant(&mut control, *node)?;
        }
        let mut answer = Value::Null;
        let what = format!("giving up {}", numbered(&nodes));
        let stage = Stage::new(what, nodes.len() as u64, Counts::Things);
        for (n, node) in nodes.iter().enumerate() {
            answer = self
                .give_up(&mut control, *node)
                .with_context(|| so_far("given up", &nodes[..n]))?;
            stage.at(n as u64 + 1);
        }
        stage.done(format!("{} given up", nodes.len()));
        let more = "; their content is rebuilt on disks with enough free space; 'weft status \
                    --watch' shows the progress";
        let done = if nodes.len() == 1 { "has been given up" } else { "have been given up" };
        report(&self.whose, answer, &nodes, done, more)
    }

    /// Gives one up, as soon as that can be borne, if it can be when all is rebuilt.
    fn give_up(&self, control: &mut Control, node: usize) -> Result<Value> {
        loop {
            match control.request(&given_up(node, &self.accept)) {
                Ok(answer) => return Ok(answer),
                Err(_) if is_rebuilding(&control.status()?) => thread::sleep(EVERY),
                Err(e) => return Err(e.into()),
            }
        }
    }
}

fn is_rebuilding(status: &Status) -> bool {
    status.volumes.iter().any(|v| v.mode == VolumeMode::Reconstructing)
        || status.nodes.iter().any(|n| n.state == NodeState::CatchingUp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_become_of_nodes_agrees_with_how_many_there_are() {
        assert_eq!(done(NodeAction::Kill, 1), "was killed");
        assert_eq!(done(NodeAction::Start, 3), "are up again");
    }

    #[test]
    fn what_was_done_before_is_said() {
        assert_eq!(so_far("stopped", &[]), "nothing was done");
        assert_eq!(so_far("stopped", &[3]), "node 3 was stopped, and then");
        assert_eq!(so_far("given up", &[3, 4]), "nodes 3, 4 were given up, and then");
    }
}
