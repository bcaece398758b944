//! `weft cluster`: founds a cluster of processes, and lets nodes in.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use weft_host::{
    Configuration, ControlRequest, JoinToken, certify, found, join, join_certified, join_request,
    readmit, renewed,
};
use weft_terminal::{say, say_json};

use crate::args::{self, Common, numbered};
use crate::output::say_cut_off;
use crate::rebalance::Rebalance;
use crate::replace::Replace;
use crate::token::{self, TokenFile, VARIABLE};
use crate::what_if::WhatIf;

/// A command for a cluster.
#[derive(Debug, Subcommand)]
pub enum Cluster {
    /// Found a cluster with this process as its first, with one node per disk
    Init(Init),
    /// Issue a token that admits one process with all its disks, and print how to use it
    Token(Token),
    /// Write a certificate request, for a node that joins without a token
    Request(Ask),
    /// Admit the node of a certificate request, and write its certificate
    Certify(Certify),
    /// Join a cluster by a token or certificate, with one node per disk
    Join(Join),
    /// Replace a process of a lost machine on this one, with its name and a token. Its disks start empty, and their
    /// content is rebuilt
    Replace(Replace),
    /// Renew an expired certificate of a node; run where the authority's key is
    Renew(Renew),
    /// Readmit a process whose consensus log is damaged or lost, with a new member. Its nodes and disks stay. The
    /// process must be stopped
    Readmit(Readmit),
    /// Change a setting of the cluster. give-up-after=10m: time after which a node that is down or has a failed disk is given up, one failure domain at a time, if there is enough free space and no volume needs it; or never (default). rebuild-floor=128M, rebuild-ceiling=none: rebuild rate per disk in bytes per second while hosts use it and while none does; or configured (default), for each process's configuration
    Set(Set),
    /// Show the settings of the cluster
    Show(Common),
    /// Move content online until all disks are equally full for their size, such as after adding disks. Waits until done (Ctrl-C ends only the wait)
    Rebalance(Rebalance),
    /// Predict the consequences of the loss of nodes, or of more disks: volumes that go on, the size and time of the
    /// rebuild, and how full disks are then. Nothing is changed
    WhatIf(WhatIf),
}

/// The first node.
#[derive(Debug, Args)]
pub struct Init {
    #[command(flatten)]
    new: New,
}

/// A new node.
#[derive(Debug, Args)]
struct New {
    /// Configuration of the process
    #[arg(long)]
    config: PathBuf,
    /// Use the disks even if they are not empty; their content is lost
    #[arg(long)]
    force: bool,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

/// A token.
#[derive(Debug, Args)]
pub struct Token {
    /// Time until it expires, such as 15m or 12h
    #[arg(long, default_value = "1h", value_parser = weft_host::parse_seconds)]
    valid: u64,
    #[command(flatten)]
    common: Common,
}

/// A request for a certificate.
#[derive(Debug, Args)]
pub struct Ask {
    /// Output file
    #[arg(long)]
    out: PathBuf,
    #[command(flatten)]
    new: New,
}

/// A request, and the file of the certificate.
#[derive(Debug, Args)]
pub struct Certify {
    /// File of the request
    request: PathBuf,
    /// Output file of the certificate
    #[arg(long)]
    out: PathBuf,
    #[command(flatten)]
    common: Common,
}

/// The cluster to join, and the token or certificate.
#[derive(Debug, Args)]
pub struct Join {
    /// Token; visible to other users of this machine, so prefer --token-file or the variable WEFT_TOKEN
    #[arg(value_parser = token::argument, requires = "at", conflicts_with = "token_file")]
    token: Option<JoinToken>,
    #[command(flatten)]
    file: TokenFile,
    /// Admission address of the cluster, as printed by `weft cluster token`
    #[arg(long, required_unless_present = "certificate", value_parser = args::address)]
    at: Option<SocketAddr>,
    /// Certificate from `weft cluster certify` for this node's request
    #[arg(long, conflicts_with_all = ["token", "token_file", "at"])]
    certificate: Option<PathBuf>,
    #[command(flatten)]
    new: New,
}

/// A certificate, and the file of the new one.
#[derive(Debug, Args)]
pub struct Renew {
    /// Certificate to renew (`node.pem` of the node's directory)
    certificate: PathBuf,
    /// Output file of the new certificate
    #[arg(long)]
    out: PathBuf,
    /// Time until it expires, such as 90d; a year at most
    #[arg(long, default_value = "365d", value_parser = weft_host::parse_seconds)]
    valid: u64,
    #[command(flatten)]
    common: Common,
}

/// A setting.
#[derive(Debug, Args)]
pub struct Set {
    #[arg(value_name = "KEY=VALUE", value_parser = key_value)]
    set: (String, String),
    #[command(flatten)]
    common: Common,
}

fn key_value(text: &str) -> Result<(String, String), String> {
    let split = text.split_once('=').map(|(key, value)| (key.to_string(), value.to_string()));
    split.ok_or_else(|| format!("'{text}' is not KEY=VALUE; write it like give-up-after=10m"))
}

/// The process to readmit.
#[derive(Debug, Args)]
pub struct Readmit {
    /// Configuration of the process
    #[arg(long)]
    config: PathBuf,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

impl Cluster {
    /// Does it.
    pub fn run(&self) -> Result<ExitCode> {
        match self {
            Cluster::Init(init) => init.run()?,
            Cluster::Token(token) => token.run()?,
            Cluster::Request(ask) => ask.run()?,
            Cluster::Certify(certify) => certify.run()?,
            Cluster::Join(join) => join.run()?,
            Cluster::Replace(replace) => replace.run()?,
            Cluster::Renew(renew) => renew.run()?,
            Cluster::Readmit(readmit) => readmit.run()?,
            Cluster::Set(set) => set.run()?,
            Cluster::Show(common) => ask(common, &ControlRequest::ClusterShow)?,
            Cluster::Rebalance(rebalance) => rebalance.run()?,
            Cluster::WhatIf(what_if) => what_if.run()?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Set {
    fn run(&self) -> Result<()> {
        let (key, value) = self.set.clone();
        ask(&self.common, &ControlRequest::ClusterSet { key, value })
    }
}

/// Asks for something, and says what is chosen then.
fn ask(common: &Common, request: &ControlRequest) -> Result<()> {
    let answer = common.target.connect()?.request(request)?;
    if common.json {
        return say_json(answer);
    }
    say_cut_off(&answer)?;
    for (key, value) in answer["settings"].as_object().into_iter().flatten() {
        say(format!("{key}={}", value.as_str().unwrap_or_default()))?;
    }
    Ok(())
}

impl Init {
    fn run(&self) -> Result<()> {
        let config = Configuration::load(&self.new.config)?;
        config.check_here()?;
        let cluster = found(std::slice::from_ref(&config), None, self.new.force)?;
        if self.new.json {
            let nodes: Vec<usize> = (0..config.disks.len()).collect();
            return say_json(json!({ "cluster": cluster.to_string(), "node": 0, "nodes": nodes }));
        }
        say(format!(
            "cluster {cluster} is founded, and {} is its {}. Start it with\n\n  \
             weft node --config {}\n\n\
             Keep a copy of {}, which holds the key that admits nodes.",
            config.name,
            numbered(&(0..config.disks.len() as u16).collect::<Vec<_>>()),
            self.new.config.display(),
            config.dir.join("ca-key.pem").display(),
        ))
    }
}

impl Token {
    fn run(&self) -> Result<()> {
        let answer = self
            .common
            .target
            .connect()?
            .request(&ControlRequest::Token { seconds: self.valid })?;
        if self.common.json {
            return say_json(answer);
        }
        let text = |key: &str| answer[key].as_str().unwrap_or_default().to_string();
        say(how_to_use(&text("token"), &text("admit")))
    }
}

/// What to run where a token is used, by a process with disks or by a host. Not as an argument, which others can read.
fn how_to_use(token: &str, admit: &str) -> String {
    format!(
        "{VARIABLE}={token} weft cluster join --at {admit} --config node.toml\n\n\
         or, for an attached host without disks,\n\n\
         {VARIABLE}={token} weft attach VOLUME --at {admit}"
    )
}

impl Join {
    fn run(&self) -> Result<()> {
        let config = Configuration::load(&self.new.config)?;
        let nodes = self.admitted(&config)?;
        if self.new.json {
            return say_json(json!({ "node": nodes.first(), "nodes": nodes }));
        }
        say(format!(
            "{} is {}. Start it with\n\n  weft node --config {}",
            config.name,
            numbered(&nodes),
            self.new.config.display()
        ))
    }

    fn admitted(&self, config: &Configuration) -> Result<Vec<u16>> {
        let force = self.new.force;
        if let Some(path) = &self.certificate {
            return Ok(join_certified(config, &read(path)?, force)?);
        }
        let token = match &self.token {
            Some(token) => Some(token.clone()),
            None => self.file.read()?,
        };
        match (token, self.at) {
            (Some(token), Some(at)) => Ok(join(config, &token, at, force)?),
            _ => bail!(
                "give a token and --at, as printed by `weft cluster token`, or --certificate. The token may be in a file \
             (--token-file), on standard input (--token-file -) or in the variable {VARIABLE}"
            ),
        }
    }
}

impl Renew {
    fn run(&self) -> Result<()> {
        let old = fs::read_to_string(&self.certificate)
            .with_context(|| format!("cannot read {}", self.certificate.display()))?;
        let (name, new) = renewed(self.common.target.dir(), &old, self.valid)
            .with_context(|| format!("cannot renew {}", self.certificate.display()))?;
        fs::write(&self.out, new)
            .with_context(|| format!("cannot write {}", self.out.display()))?;
        if self.common.json {
            let name = name.to_string();
            return say_json(json!({ "name": name, "certificate": self.out }));
        }
        say(format!(
            "The certificate of {name} is renewed. Replace `node.pem` in its directory by {}, and start it",
            self.out.display()
        ))
    }
}

impl Readmit {
    fn run(&self) -> Result<()> {
        let config = Configuration::load(&self.config)?;
        let name = config.name.clone();
        let process = readmit(config)?;
        if self.json {
            return say_json(json!({ "node": process.0, "name": name.to_string() }));
        }
        say(format!(
            "{name} has a new member. Start it with\n\n  \
             weft node --config {}\n\n\
             It serves again when a majority of the voting members has admitted it (see `weft status`).",
            self.config.display()
        ))
    }
}

impl Ask {
    fn run(&self) -> Result<()> {
        let config = Configuration::load(&self.new.config)?;
        write(&self.out, &join_request(&config, self.new.force)?)?;
        if self.new.json {
            return say_json(json!({ "name": config.name.to_string(), "request": self.out }));
        }
        say(format!(
            "The request of {} is written. Copy {} to the node with the authority's key, and run there\n\n  \
             weft cluster certify {} --out FILE --dir DIR",
            config.name,
            self.out.display(),
            self.out.display()
        ))
    }
}

impl Certify {
    fn run(&self) -> Result<()> {
        let invitation = certify(self.common.target.dir(), read(&self.request)?)?;
        write(&self.out, &invitation)?;
        if self.common.json {
            let nodes = invitation.nodes();
            return say_json(
                json!({ "node": nodes.first(), "nodes": nodes, "certificate": self.out }),
            );
        }
        let nodes = invitation.nodes();
        say(format!(
            "{} {} expected. Take {} there, and\n\n  \
             weft cluster join --certificate {} --config node.toml",
            numbered(&nodes),
            if nodes.len() == 1 { "is" } else { "are" },
            self.out.display(),
            self.out.display()
        ))
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&text)
        .with_context(|| format!("{} is not a valid answer", path.display()))
}

fn write(path: &Path, content: &impl Serialize) -> Result<()> {
    fs::write(path, serde_json::to_vec_pretty(content)?)
        .with_context(|| format!("cannot write {}", path.display()))
}
