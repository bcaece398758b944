//! `weft host`: lists the hosts that are connected to a process, and ends connections.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use weft_host::ControlRequest;
use weft_host::status::HostStatus;
use weft_terminal::{align_right, say, say_json, table};

use crate::args::Common;

/// Commands for hosts.
#[derive(Debug, Subcommand)]
pub enum Host {
    /// List the hosts connected to this process: addresses, protocols and volumes
    List(Common),
    /// Close connections of hosts to this process, such as those of a machine without power that keep a volume from being deleted or shrunk. Unanswered requests may or may not be done. A running host may reconnect
    Disconnect(Disconnect),
}

/// The connections to close.
#[derive(Debug, Args)]
#[group(id = "whose", required = true, multiple = true)]
pub struct Disconnect {
    /// Address as in `weft host list`, with or without its port
    #[arg(group = "whose")]
    address: Option<String>,
    /// Volume in use by the connections
    #[arg(long, group = "whose")]
    volume: Option<String>,
    #[command(flatten)]
    common: Common,
}

impl Host {
    /// Does it.
    pub fn run(&self) -> Result<ExitCode> {
        match self {
            Host::List(common) => {
                let hosts = common.target.connect()?.status()?.hosts;
                match common.json {
                    true => say_json(serde_json::json!({ "hosts": hosts }))?,
                    false => say(describe(&hosts))?,
                }
            }
            Host::Disconnect(disconnect) => disconnect.run()?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Disconnect {
    fn run(&self) -> Result<()> {
        let (address, volume) = (self.address.clone(), self.volume.clone());
        let request = ControlRequest::HostDisconnect { address, volume };
        let answer = self.common.target.connect()?.request(&request)?;
        match (self.common.json, answer["disconnected"].as_u64()) {
            (true, _) => say_json(answer),
            (false, Some(1)) => say("1 connection closed"),
            (false, count) => say(format!("{} connections closed", count.unwrap_or_default())),
        }
    }
}

fn describe(hosts: &[HostStatus]) -> String {
    if hosts.is_empty() {
        return "no host is connected to this process".to_string();
    }
    let mut table = table(["address", "protocol", "volume", "node"]);
    for HostStatus { address, protocol, volume, node } in hosts {
        let volume = volume.as_deref().unwrap_or("none yet");
        table.add_row([address.as_str(), protocol, volume, &node.to_string()]);
    }
    align_right(&mut table, [3]);
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_listed_with_what_they_use() {
        assert_eq!(describe(&[]), "no host is connected to this process");
        let host = |address: &str, volume: Option<&str>| HostStatus {
            address: address.to_string(),
            protocol: "nbd".to_string(),
            volume: volume.map(str::to_string),
            node: 2,
        };
        let text = describe(&[host("10.0.0.7:4242", Some("db")), host("a local host", None)]);
        let rows: Vec<&str> = text.lines().filter(|l| l.contains("nbd")).collect();
        assert!(rows[0].contains("10.0.0.7:4242") && rows[0].contains("db"), "{text}");
        assert!(rows[1].contains("a local host") && rows[1].contains("none yet"), "{text}");
    }
}
