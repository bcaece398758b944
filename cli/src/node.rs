//! `weft node`: stops, kills and starts nodes.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use weft_host::{NodeAction, Request};

use crate::args::Target;
use crate::output::{say, say_json};

/// What to do to a node.
#[derive(Debug, Subcommand)]
pub enum Node {
    /// Stop a node in good order: it finishes what it has begun, for 5 s at most, while others take new requests
    Stop(Which),
    /// Kill a node at once, as if its process had died
    Kill(Which),
    /// Start a node on the disk that it had; it catches up by itself
    Start(Which),
}

/// Which node.
#[derive(Debug, Args)]
pub struct Which {
    /// Number of the node, from 0
    node: usize,
    #[command(flatten)]
    target: Target,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

impl Node {
    /// Does it, and returns when it is done.
    pub fn run(&self) -> Result<ExitCode> {
        let (action, which, done) = match self {
            Node::Stop(which) => (NodeAction::Stop, which, "has stopped"),
            Node::Kill(which) => (NodeAction::Kill, which, "was killed"),
            Node::Start(which) => (NodeAction::Start, which, "takes part again"),
        };
        let answer =
            which.target.connect()?.request(&Request::Node { action, node: which.node })?;
        if which.json {
            say_json(answer)?;
        } else {
            say(format!("node {} {done} (map {})", which.node, answer["epoch"]))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
