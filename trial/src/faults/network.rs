//! Network namespaces, one for each node, joined by a bridge in one more; what can be done to
//! their links. Needs root, `ip` and `nft`.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The namespaces. They go when this is dropped.
pub struct Network {
    prefix: String,
    nodes: usize,
}

impl Network {
    /// Namespaces for so many nodes.
    pub fn new(nodes: usize) -> Result<Network> {
        let network = Network { prefix: format!("weft{}", std::process::id()), nodes };
        network.make()?;
        Ok(network)
    }

    fn make(&self) -> Result<()> {
        let switch = self.switch();
        ip(&["netns", "add", &switch])?;
        ip(&["-n", &switch, "link", "add", "br0", "type", "bridge"])?;
        ip(&["-n", &switch, "link", "set", "br0", "up"])?;
        for n in 0..self.nodes {
            let (space, port) = (self.space(n), port(n));
            ip(&["netns", "add", &space])?;
            ip(&["-n", &space, "link", "set", "lo", "up"])?;
            let there = ["type", "veth", "peer", "name", &port, "netns", &switch];
            ip(&[&["-n", &space, "link", "add", "eth0"], &there[..]].concat())?;
            ip(&["-n", &space, "address", "add", &format!("{}/24", address(n)), "dev", "eth0"])?;
            ip(&["-n", &space, "link", "set", "eth0", "up"])?;
            ip(&["-n", &switch, "link", "set", &port, "master", "br0", "up"])?;
        }
        self.nft("add table bridge weft")?;
        self.nft("add chain bridge weft f { type filter hook forward priority 0; }")
    }

    fn switch(&self) -> String {
        format!("{}sw", self.prefix)
    }

    /// The namespace of a node.
    pub fn space(&self, node: usize) -> String {
        format!("{}n{node}", self.prefix)
    }

    /// A command that runs a program in the namespace of a node. `ip netns exec` would also keep a copy of
    /// all that is mounted, and what others unmount would stay in use.
    pub fn inside(&self, node: usize, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.space(node))).arg(program);
        command
    }

    fn nft(&self, rule: &str) -> Result<()> {
        run("ip", &["netns", "exec", &self.switch(), "nft", rule])
    }

    /// Drops everything that a node sends, and, if `both`, what is sent to it.
    pub fn cut(&self, node: usize, both: bool) -> Result<()> {
        self.nft(&format!("add rule bridge weft f iifname {} drop", port(node)))?;
        match both {
            true => self.nft(&format!("add rule bridge weft f oifname {} drop", port(node))),
            false => Ok(()),
        }
    }

    /// Drops everything that one node sends another.
    pub fn cut_link(&self, from: usize, to: usize) -> Result<()> {
        let (from, to) = (port(from), port(to));
        self.nft(&format!("add rule bridge weft f iifname {from} oifname {to} drop"))
    }

    /// Drops a part of what a node sends and gets.
    pub fn lose(&self, node: usize, percent: u8) -> Result<()> {
        for side in ["iifname", "oifname"] {
            let rule = format!(
                "add rule bridge weft f {side} {} numgen random mod 100 lt {percent} drop",
                port(node)
            );
            self.nft(&rule)?;
        }
        Ok(())
    }

    /// All links are whole again.
    pub fn heal(&self) -> Result<()> {
        self.nft("flush chain bridge weft f")
    }
}

/// The address of a node in its namespace.
pub fn address(node: usize) -> String {
    format!("10.77.0.{}", node + 1)
}

fn port(node: usize) -> String {
    format!("p{node}")
}

fn ip(arguments: &[&str]) -> Result<()> {
    run("ip", arguments)
}

fn run(program: &str, arguments: &[&str]) -> Result<()> {
    let out = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {program}"))?;
    if out.status.success() {
        return Ok(());
    }
    bail!("{program} {}: {}", arguments.join(" "), String::from_utf8_lossy(&out.stderr).trim())
}

impl Drop for Network {
    fn drop(&mut self) {
        let spaces = (0..self.nodes).map(|n| self.space(n));
        for space in spaces.chain([self.switch()]) {
            // One that is not there need not go.
            let _ = ip(&["netns", "delete", &space]);
        }
    }
}
