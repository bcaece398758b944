//! `weft node`: runs the nodes of a process of a cluster, and lists, stops, kills, starts and removes nodes.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use rustix::process::{Signal, set_parent_process_death_signal};
use serde_json::Value;
use weft_host::status::NodeStatus;
use weft_host::{Array, Configuration, ControlRequest, Home, NodeAction};
use weft_terminal::{align_right, folded, say, say_json, table, width, wrapped};

use crate::args::{self, Common};
use crate::disk::Drain;
use crate::leaving;
use crate::logging::Logging;
use crate::notify;
use crate::output::{map_of, say_cut_off};
use crate::serving::{farewell, serve_metrics};
use crate::status::state;

/// Run a process of a cluster, with a node for each of its disks, or say what to do to a node.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub struct Node {
    /// Run the process of this configuration, with a node for each disk, until stopped
    #[arg(long)]
    config: Option<PathBuf>,
    /// Stop when the process that started this one ends
    #[arg(long, hide = true, requires = "config")]
    with_parent: bool,
    #[command(flatten)]
    logging: Logging,
    #[command(subcommand)]
    action: Option<Action>,
}

/// What to do to a node.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// All nodes, and where they are
    List(Common),
    /// Stop a node in good order: parity that waits of what is on it is computed first; it finishes what it has begun, for 5 s at most, while others take new requests; its process and the other nodes of that go on
    Stop(Stop),
    /// Kill a node at once, as if its process had died
    Kill(Which),
    /// Start a node on the disk that it had; it catches up by itself
    Start(Which),
    /// Move what is on a node to others while hosts go on: the same as `weft disk drain`
    Drain(Drain),
    /// Take a node that is lost or drained, and holds nothing any more, out of the cluster for good
    Remove(Which),
}

/// The node to stop.
#[derive(Debug, Args)]
pub struct Stop {
    #[command(flatten)]
    which: Which,
    /// Do not have parity computed first that waits of what is on it
    #[arg(long)]
    now: bool,
}

/// Which node.
#[derive(Debug, Args)]
pub struct Which {
    /// Number of the node, from 0
    #[arg(value_parser = args::node)]
    node: usize,
    #[command(flatten)]
    common: Common,
}

impl Node {
    /// Does it, and returns when it is done.
    pub fn run(&self) -> Result<ExitCode> {
        match (&self.config, &self.action) {
            (Some(config), _) => self.serve(config)?,
            (None, Some(Action::List(common))) => list(common)?,
            (None, Some(Action::Drain(drain))) => return drain.run(),
            (None, Some(action)) => action.run()?,
            (None, None) => {
                bail!("say what to do: --config FILE runs a node; see `weft node --help`")
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn serve(&self, config: &Path) -> Result<()> {
        if self.with_parent {
            set_parent_process_death_signal(Some(Signal::TERM))?;
        }
        let config = Configuration::load(config)?;
        serve_metrics(config.metrics, &config.dir)?;
        let array = Array::node(Home::open(config)?, self.logging.start()?)?;
        // It answers from now on. What it serves depends on others, which may start later.
        notify::ready("it runs");
        let stopped = array.run()?;
        notify::stopping();
        say(farewell(&stopped))
    }
}

impl Action {
    fn run(&self) -> Result<()> {
        let (which, request, done) = match self {
            Action::List(common) => return list(common),
            Action::Drain(drain) => return drain.run().map(drop),
            Action::Stop(stop) => return stop.run(),
            Action::Kill(w) => (w, w.act(NodeAction::Kill), "was killed"),
            Action::Start(w) => (w, w.act(NodeAction::Start), "is up again"),
            Action::Remove(w) => {
                (w, ControlRequest::NodeRemove { node: w.node }, "has left the cluster")
            }
        };
        let answer = which.common.target.connect()?.request(&request)?;
        which.say(answer, done, None)
    }
}

impl Stop {
    fn run(&self) -> Result<()> {
        let (which, node) = (&self.which, self.which.node);
        let mut control = which.common.target.connect()?;
        let left = match self.now {
            true => leaving::unprotected(&control.status()?, node),
            false => None,
        };
        let suspected = !self.now && leaving::make_redundant(&mut control, node)?;
        let stopped = control.request(&which.act(NodeAction::Stop));
        if suspected {
            // Nothing waits where a node is away. When it is back, parity may wait as before.
            leaving::trust(&mut control, node)?;
        }
        let left = left.map(|left| format!("; {left}: hosts wait for it until the node is back"));
        which.say(stopped?, "has stopped", left)
    }
}

impl Which {
    fn say(&self, answer: Value, done: &str, more: Option<String>) -> Result<()> {
        if self.common.json {
            return say_json(answer);
        }
        let more = more.unwrap_or_default();
        say(format!("node {} {done} ({}){more}", self.node, map_of(&answer)))
    }

    fn act(&self, action: NodeAction) -> ControlRequest {
        ControlRequest::Node { action, node: self.node }
    }
}

/// Shows all nodes.
fn list(common: &Common) -> Result<()> {
    let answer = common.target.connect()?.request(&ControlRequest::NodeList)?;
    if common.json {
        return say_json(answer);
    }
    say_cut_off(&answer)?;
    let mut table = table(["node", "name", "address", "labels", "state", "disk"]);
    let nodes: Vec<NodeStatus> = serde_json::from_value(answer["nodes"].clone())?;
    for node in &nodes {
        let text = |text: &Option<String>| text.clone().unwrap_or("-".to_string());
        let labels = node.labels.iter().flatten().map(|(key, value)| format!("{key}={value}"));
        let labels = labels.collect::<Vec<_>>().join(",");
        let [name, address, disk] = [&node.name, &node.address, &node.disk].map(text);
        table.add_row([node.node.to_string(), name, address, labels, node.state.to_string(), disk]);
    }
    align_right(&mut table, [0]);
    say(folded(&table, width()))?;
    // Why is too long for a table.
    let away = nodes.iter().filter(|n| n.why.is_some() || n.absence.is_some());
    away.map(|n| format!("node {} is {}", n.node, state(n)))
        .try_for_each(|line| say(wrapped(&line, width())))
}
