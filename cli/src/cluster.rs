//! `weft cluster`: founds a cluster of processes, and lets nodes in.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::json;
use weft_host::{Configuration, JoinToken, Request, found, join};

use crate::args::{self, Common};
use crate::output::{say, say_json};
use crate::rebalance::Rebalance;

/// What to do about a cluster.
#[derive(Debug, Subcommand)]
pub enum Cluster {
    /// Found a cluster with this node as its first; it can let others in
    Init(Init),
    /// Issue a token that lets one node in, and say how to use it
    Token(Token),
    /// Join a cluster with a token
    Join(Join),
    /// Move what is on disks until all are equally full for their size, while hosts go on: after disks were added. Waits until it is done (Ctrl-C ends the waiting only)
    Rebalance(Rebalance),
}

/// The first node.
#[derive(Debug, Args)]
pub struct Init {
    #[command(flatten)]
    new: New,
}

/// A node that is new.
#[derive(Debug, Args)]
struct New {
    /// The node's configuration
    #[arg(long)]
    config: PathBuf,
    /// Use the disk even if there is something on it, which is lost then
    #[arg(long)]
    force: bool,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

/// A token.
#[derive(Debug, Args)]
pub struct Token {
    /// How long it is good, such as 15m or 12h
    #[arg(long, default_value = "1h", value_parser = args::seconds)]
    valid: u64,
    #[command(flatten)]
    common: Common,
}

/// Where to join, and with what.
#[derive(Debug, Args)]
pub struct Join {
    /// The token
    #[arg(value_parser = token)]
    token: JoinToken,
    /// Where the cluster lets nodes in, as `weft cluster token` says
    #[arg(long)]
    at: SocketAddr,
    #[command(flatten)]
    new: New,
}

fn token(text: &str) -> Result<JoinToken, String> {
    text.parse().map_err(|e: weft_host::TokenError| e.to_string())
}

impl Cluster {
    /// Does it.
    pub fn run(&self) -> Result<ExitCode> {
        match self {
            Cluster::Init(init) => init.run()?,
            Cluster::Token(token) => token.run()?,
            Cluster::Join(join) => join.run()?,
            Cluster::Rebalance(rebalance) => rebalance.run()?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Init {
    fn run(&self) -> Result<()> {
        let config = Configuration::load(&self.new.config)?;
        let cluster = found(std::slice::from_ref(&config), None, self.new.force)?;
        if self.new.json {
            return say_json(json!({ "cluster": cluster.to_string(), "node": 0 }));
        }
        say(format!(
            "cluster {cluster} is founded, and {} is its node 0. Start it with\n\n  \
             weft node --config {}\n\n\
             Keep a copy of {}, which holds the key that lets nodes in.",
            config.name,
            self.new.config.display(),
            config.dir.join("ca-key.pem").display(),
        ))
    }
}

impl Token {
    fn run(&self) -> Result<()> {
        let answer =
            self.common.target.connect()?.request(&Request::Token { seconds: self.valid })?;
        if self.common.json {
            return say_json(answer);
        }
        let text = |key: &str| answer[key].as_str().unwrap_or_default().to_string();
        say(format!(
            "weft cluster join {} --at {} --config node.toml",
            text("token"),
            text("admit")
        ))
    }
}

impl Join {
    fn run(&self) -> Result<()> {
        let config = Configuration::load(&self.new.config)?;
        let node = join(&config, &self.token, self.at, self.new.force)?;
        if self.new.json {
            return say_json(json!({ "node": node }));
        }
        say(format!(
            "{} is node {node}. Start it with\n\n  weft node --config {}",
            config.name,
            self.new.config.display()
        ))
    }
}
