//! `weft node`: runs the nodes of a process of a cluster, and lists, stops, kills, starts and removes nodes.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use rustix::process::{Signal, set_parent_process_death_signal};
use weft_host::status::NodeStatus;
use weft_host::{Array, Configuration, ControlRequest, Home, NodeAction};
use weft_terminal::{align_right, folded, say, say_json, table, width, wrapped};

use crate::args::{self, Common, Whose};
use crate::boxes::{self, Fail, Stop};
use crate::disk::Drain;
use crate::logging::Logging;
use crate::notify;
use crate::output::{map_of, say_cut_off};
use crate::page::bind_page;
use crate::serving::{farewell, serve_metrics};
use crate::status::state;

/// Run a process of a cluster with one node per disk, or manage a node.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub struct Node {
    /// Run the process of this configuration until stopped
    #[arg(long)]
    config: Option<PathBuf>,
    /// Stop when the parent process ends
    #[arg(long, hide = true, requires = "config")]
    with_parent: bool,
    #[command(flatten)]
    logging: Logging,
    #[command(subcommand)]
    action: Option<Action>,
}

/// Commands for nodes.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// List all nodes with their addresses
    List(Common),
    /// Stop a node, or all nodes of a process, cleanly: refresh deferred parity of their data and finish requests in progress, for 5 s at most, while other nodes take new ones; the process keeps running
    Stop(Stop),
    /// Declare the disk of a node, or all disks of a process, lost, and rebuild their content on others: `weft disk fail` for a whole machine
    Fail(Fail),
    /// Kill a node, or all nodes of a process, at once, like a crash of the process
    Kill(Whose),
    /// Start a node, or all nodes of a process, on the old disks; they catch up automatically
    Start(Whose),
    /// Move the content of a node, or of all nodes of a process, to others online: the same as `weft disk drain`
    Drain(Drain),
    /// Remove a lost or drained node with no content from the cluster permanently
    Remove(Which),
}

/// Which node.
#[derive(Debug, Args)]
pub struct Which {
    /// Node number, from 0
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
                bail!("give a command, or --config FILE to run a process; see `weft node --help`")
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn serve(&self, config: &Path) -> Result<()> {
        if self.with_parent {
            set_parent_process_death_signal(Some(Signal::TERM))?;
        }
        // First, so that one that runs already is named, and not an address that it uses.
        let home = Home::open(Configuration::load(config)?)?;
        let config = home.config();
        serve_metrics(config.metrics, &config.dir)?;
        let page = bind_page(config.page.as_ref(), &config.dir)?;
        let array = Array::node(home, page.serve(self.logging.start()?)?)?;
        // It answers from now on. What it serves depends on others, which may start later.
        notify::ready("it runs");
        let stopped = array.run()?;
        notify::stopping();
        say(farewell(&stopped))
    }
}

impl Action {
    fn run(&self) -> Result<()> {
        match self {
            Action::List(common) => list(common),
            Action::Drain(drain) => drain.run().map(drop),
            Action::Stop(stop) => stop.run(),
            Action::Fail(fail) => fail.run(),
            Action::Kill(whose) => boxes::act(whose, NodeAction::Kill),
            Action::Start(whose) => boxes::act(whose, NodeAction::Start),
            Action::Remove(which) => which.remove(),
        }
    }
}

impl Which {
    fn remove(&self) -> Result<()> {
        let request = ControlRequest::NodeRemove { node: self.node };
        let answer = self.common.target.connect()?.request(&request)?;
        if self.common.json {
            return say_json(answer);
        }
        say(format!("node {} has left the cluster ({})", self.node, map_of(&answer)))
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
