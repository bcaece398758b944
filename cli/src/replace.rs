//! `weft cluster replace`: a machine takes the place of one that is lost.

use std::net::SocketAddr;

use anyhow::{Result, bail};
use clap::Args;
use serde_json::json;
use weft_host::{Configuration, JoinToken, replace};
use weft_terminal::{say, say_json};

use crate::args::{self, numbered};
use crate::token::{self, TokenFile, VARIABLE};

/// The lost process and its replacement.
#[derive(Debug, Args)]
pub struct Replace {
    /// Name of the lost process
    name: String,
    /// Configuration of the new process, with the same name; its address, disks and directory may differ
    #[arg(long)]
    config: std::path::PathBuf,
    /// Token of the cluster; visible to other users of this machine, so prefer --token-file or the variable WEFT_TOKEN
    #[arg(long, value_parser = token::argument, conflicts_with = "token_file")]
    token: Option<JoinToken>,
    #[command(flatten)]
    file: TokenFile,
    /// Admission address of the cluster, as printed by `weft cluster token`
    #[arg(long, value_parser = args::address)]
    at: SocketAddr,
    /// Use the disks even if they are not empty; their content is lost
    #[arg(long)]
    force: bool,
    /// Volume that may lose its data on the lost disks, because nothing can rebuild it; may be repeated
    #[arg(long, value_name = "VOLUME")]
    accept_loss: Vec<String>,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

impl Replace {
    /// Does it, and says how to start the new process.
    pub fn run(&self) -> Result<()> {
        let config = Configuration::load(&self.config)?;
        if config.name.as_str() != self.name {
            bail!(
                "{} is the configuration of {}; the replacement of {} must have its name (`name = \"{}\"`)",
                self.config.display(),
                config.name,
                self.name,
                self.name
            );
        }
        let token = match &self.token {
            Some(token) => Some(token.clone()),
            None => self.file.read()?,
        };
        let Some(token) = token else {
            bail!(
                "give a token from `weft cluster token`: in a file (--token-file), on standard input (--token-file -) or in \
             the variable {VARIABLE}"
            );
        };
        let nodes = replace(&config, &token, self.at, self.force, &self.accept_loss)?;
        if self.json {
            return say_json(json!({ "node": nodes.first(), "nodes": nodes }));
        }
        say(format!(
            "{} is now {}. The content of its lost disks is rebuilt. Start it with\n\n  weft node --config {}\n\n\
             `weft status` shows the progress; `weft cluster rebalance` fills the new disks equally after the rebuild.",
            config.name,
            numbered(&nodes),
            self.config.display()
        ))
    }
}
