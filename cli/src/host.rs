//! `weft host`: lists the hosts that are connected to a process, and ends connections.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use weft_host::ControlRequest;
use weft_host::status::HostStatus;
use weft_terminal::{align_right, say, say_json, table};

use crate::args::Common;

/// What to do about hosts.
#[derive(Debug, Subcommand)]
pub enum Host {
    /// The hosts that are connected to the process that is asked: their addresses, what they speak, and the volumes that they use
    List(Common),
    /// End the connections of hosts to the process that is asked: of a machine that has lost power, say, whose volume could not be deleted or shrunk. What was not answered may be done or not. A host that runs may come back
    Disconnect(Disconnect),
}

/// Whose connections to end.
#[derive(Debug, Args)]
#[group(id = "whose", required = true, multiple = true)]
pub struct Disconnect {
    /// Those from this address, as `weft host list` has it, or without its port
    #[arg(group = "whose")]
    address: Option<String>,
    /// Those that use this volume
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
            (false, Some(1)) => say("1 connection is ended"),
            (false, count) => say(format!("{} connections are ended", count.unwrap_or_default())),
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
