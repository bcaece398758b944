//! `weft cluster replace`: a machine takes the place of one that is lost.

use std::net::SocketAddr;

use anyhow::{Result, bail};
use clap::Args;
use serde_json::json;
use weft_host::{Configuration, JoinToken, replace};
use weft_terminal::{say, say_json};

use crate::args::numbered;
use crate::token::{self, TokenFile, VARIABLE};

/// Who is replaced, and by what.
#[derive(Debug, Args)]
pub struct Replace {
    /// The name of the process that is lost
    name: String,
    /// The configuration of the new process, which has that name; its address, disks and directory may be others
    #[arg(long)]
    config: std::path::PathBuf,
    /// A token of the cluster; others on this machine can read it here, so prefer --token-file or the variable WEFT_TOKEN
    #[arg(long, value_parser = token::argument, conflicts_with = "token_file")]
    token: Option<JoinToken>,
    #[command(flatten)]
    file: TokenFile,
    /// Where the cluster lets nodes in, as `weft cluster token` says
    #[arg(long)]
    at: SocketAddr,
    /// Use the disks even if there is something on them, which is lost then
    #[arg(long)]
    force: bool,
    /// A volume that may lose what it had on the lost disks, because nothing can rebuild it; may be given several times
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
                "{} is the configuration of {}; the process that takes the place of {} has its name (`name = \"{}\"`)",
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
                "give a token, as `weft cluster token` says it: in a file (--token-file), on standard input \
                 (--token-file -) or in the variable {VARIABLE}"
            );
        };
        let nodes = replace(&config, &token, self.at, self.force, &self.accept_loss)?;
        if self.json {
            return say_json(json!({ "node": nodes.first(), "nodes": nodes }));
        }
        say(format!(
            "{} is {} from now on. What its lost disks had is rebuilt. Start it with\n\n  weft node --config {}\n\n\
             `weft status` shows how far it is; `weft cluster rebalance` gives the new disks their share when all is rebuilt.",
            config.name,
            numbered(&nodes),
            self.config.display()
        ))
    }
}
