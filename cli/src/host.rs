//! `weft host`: hosts that the cluster knows, their certificates, and the connections of hosts.

mod secret;

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::{Value, json};
use weft_host::status::HostStatus;
use weft_host::{ControlRequest, HostAction, NodeKey, date};
use weft_terminal::{align_right, say, say_json, table};

use self::secret::Secret;
use crate::args::Common;
use crate::output::map_of;

/// Commands for hosts.
#[derive(Debug, Subcommand)]
pub enum Host {
    /// List the hosts that the cluster knows and the hosts connected to this process
    List(Common),
    /// Add a host by name
    Create(Named),
    /// Show a known host: its certificate, whether it has a CHAP secret, and its volumes
    Show(Named),
    /// Delete a known host: its connections end at all processes, and its certificate is refused
    Delete(Named),
    /// Make a certificate for a known host. Earlier ones stay valid until they expire or are revoked. Run this at the process with the authority's key
    Certify(Certify),
    /// Set or remove the CHAP secret of a known host, for iSCSI; an earlier one is refused, and its connections end
    Secret(Secret),
    /// Close connections of hosts to this process, such as those of a machine without power that keep a volume from being deleted or shrunk. Unanswered requests may or may not be done. A running host may reconnect
    Disconnect(Disconnect),
}

/// A known host.
#[derive(Debug, Args)]
pub struct Named {
    /// Name of the host
    name: String,
    #[command(flatten)]
    common: Common,
}

/// A host and the directory of its certificate.
#[derive(Debug, Args)]
pub struct Certify {
    /// Name of the host
    name: String,
    /// Directory for ca-cert.pem, client-cert.pem and client-key.pem, created if necessary
    #[arg(long)]
    out: PathBuf,
    /// Revoke all other certificates of the host: connections that use one end at once
    #[arg(long)]
    revoke_others: bool,
    #[command(flatten)]
    common: Common,
}

/// What the cluster knows of a host.
#[derive(Debug, Deserialize)]
struct Known {
    name: String,
    until: Option<u64>,
    #[serde(default)]
    certificates: Vec<Valid>,
    #[serde(default)]
    secret: bool,
    #[serde(default)]
    mutual: bool,
    volumes: Vec<Right>,
}

/// A certificate of a host.
#[derive(Debug, Deserialize)]
struct Valid {
    until: u64,
}

/// A volume that a host may use.
#[derive(Debug, Deserialize)]
struct Right {
    volume: String,
    access: String,
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
                let mut control = common.target.connect()?;
                let hosts = control.status()?.hosts;
                let known = control.request(&request(HostAction::List))?["known"].take();
                if common.json {
                    say_json(json!({ "hosts": hosts, "known": known }))?;
                    return Ok(ExitCode::SUCCESS);
                }
                let known: Vec<Known> = serde_json::from_value(known)?;
                if !known.is_empty() {
                    say(format!("{}\n", described(&known, now())))?;
                }
                say(describe(&hosts))?;
            }
            Host::Create(host) => {
                let name = host.name.clone();
                host.change(HostAction::Create { name }, "is known now")?;
            }
            Host::Delete(host) => {
                let name = host.name.clone();
                host.change(HostAction::Delete { name }, "is deleted")?;
            }
            Host::Show(host) => host.show()?,
            Host::Certify(certify) => certify.run()?,
            Host::Secret(secret) => secret.run()?,
            Host::Disconnect(disconnect) => disconnect.run()?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Asks about known hosts.
fn request(action: HostAction) -> ControlRequest {
    ControlRequest::Hosts { action }
}

impl Named {
    fn change(&self, action: HostAction, done: &str) -> Result<()> {
        let answer = self.common.target.connect()?.request(&request(action))?;
        match self.common.json {
            true => say_json(answer),
            false => say(format!("host '{}' {done} ({})", self.name, map_of(&answer))),
        }
    }

    fn show(&self) -> Result<()> {
        let answer = self.common.target.connect()?.request(&request(HostAction::List))?;
        let all: Vec<Value> = serde_json::from_value(answer["known"].clone())?;
        let Some(found) = all.into_iter().find(|known| known["name"] == *self.name) else {
            bail!("there is no host '{}'; `weft host list` lists all", self.name);
        };
        if self.common.json {
            return say_json(json!({ "host": found }));
        }
        say(described(&[serde_json::from_value(found)?], now()))
    }
}

impl Certify {
    /// The key is made here and goes nowhere else. The new certificate counts once its files are there, and its files
    /// take the place of others once it counts.
    fn run(&self) -> Result<()> {
        let (name, dir) = (self.name.clone(), &self.out);
        let key = NodeKey::generate()?;
        let mut control = self.common.target.connect()?;
        let public = key.public().as_bytes().to_vec();
        let signed = control.request(&request(HostAction::Sign { name, key: public }))?;
        let text = |field: &str| signed[field].as_str().unwrap_or_default().to_string();
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let files = [
            ("ca-cert.pem", text("ca"), 0o644),
            ("client-cert.pem", text("certificate"), 0o644),
            ("client-key.pem", key.to_pem(), 0o600),
        ];
        for (file, content, mode) in &files {
            let beside = dir.join(format!("{file}.new"));
            write(&beside, content, *mode)
                .with_context(|| format!("cannot write {}", beside.display()))?;
        }
        let until = signed["until"].as_u64().unwrap_or_default();
        let (name, key, revoke_others) = (self.name.clone(), text("key"), self.revoke_others);
        let action = HostAction::Certify { name, key, until, revoke_others };
        let answer = control.request(&request(action)).inspect_err(|_| {
            // Nothing counts of them.
            files.iter().for_each(|f| drop(fs::remove_file(dir.join(format!("{}.new", f.0)))));
        })?;
        for (file, ..) in &files {
            let (from, to) = (dir.join(format!("{file}.new")), dir.join(file));
            fs::rename(&from, &to).with_context(|| format!("cannot write {}", to.display()))?;
        }
        match self.common.json {
            true => say_json(answer),
            false => say(format!(
                "host '{}' has a certificate, valid until {}, in {} ({})",
                self.name,
                date(until),
                dir.display(),
                map_of(&answer)
            )),
        }
    }
}

/// Writes a new file.
fn write(path: &Path, content: &str, mode: u32) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(content.as_bytes())?;
    file.sync_all()
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// For how long a host's newest certificate is valid, and how many others are.
fn validity(until: Option<u64>, certificates: &[Valid], now: u64) -> String {
    const DAY: u64 = 86_400;
    let Some(until) = until else { return "none".to_string() };
    if until <= now {
        return format!("expired on {}", date(until));
    }
    let left = match (until - now) / DAY {
        0 => "less than a day left".to_string(),
        1 => "1 day left".to_string(),
        days => format!("{days} days left"),
    };
    let earlier = certificates.iter().filter(|one| one.until > now).count().saturating_sub(1);
    let earlier = if earlier > 0 { format!(", and {earlier} earlier") } else { String::new() };
    format!("until {} ({left}){earlier}", date(until))
}

fn described(known: &[Known], now: u64) -> String {
    let mut table = table(["host", "certificate", "secret", "volumes"]);
    for Known { name, until, certificates, secret, mutual, volumes } in known {
        let until = validity(*until, certificates, now);
        let volumes: Vec<String> =
            volumes.iter().map(|r| format!("{} ({})", r.volume, r.access)).collect();
        let secret = match (secret, mutual) {
            (false, _) => "none",
            (true, false) => "CHAP",
            (true, true) => "CHAP, mutual",
        };
        table.add_row([name.as_str(), &until, secret, &volumes.join(", ")]);
    }
    table.to_string()
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
    let mut table = table(["address", "host", "protocol", "volume", "node"]);
    for HostStatus { address, protocol, volume, node, host, tls, read_only } in hosts {
        let volume = volume.as_deref().unwrap_or("none yet");
        let volume = format!("{volume}{}", if *read_only { " (read-only)" } else { "" });
        let protocol = format!("{protocol}{}", if *tls { ", TLS" } else { "" });
        let host = host.as_deref().unwrap_or("-");
        table.add_row([address.as_str(), host, &protocol, &volume, &node.to_string()]);
    }
    align_right(&mut table, [4]);
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_validity_of_certificates_is_listed() {
        const DAY: u64 = 86_400;
        let now = 20_000 * DAY;
        let said = |ends: &[u64]| {
            let all: Vec<Valid> = ends.iter().map(|until| Valid { until: *until }).collect();
            validity(ends.last().copied(), &all, now)
        };
        assert_eq!(said(&[]), "none");
        assert_eq!(said(&[now + 365 * DAY]), "until 2025-10-04 (365 days left)");
        let ends = [now - 1, now + 30 * DAY, now + DAY + 7];
        assert_eq!(said(&ends), "until 2024-10-05 (1 day left), and 1 earlier");
        assert_eq!(said(&[now + 7]), "until 2024-10-04 (less than a day left)");
        assert_eq!(said(&[now]), "expired on 2024-10-04");
    }

    #[test]
    fn hosts_are_listed_with_what_they_use() {
        assert_eq!(describe(&[]), "no host is connected to this process");
        let host = |address: &str, volume: Option<&str>| HostStatus {
            address: address.to_string(),
            protocol: "nbd".to_string(),
            volume: volume.map(str::to_string),
            node: 2,
            ..HostStatus::default()
        };
        let text = describe(&[host("10.0.0.7:4242", Some("db")), host("a local host", None)]);
        let rows: Vec<&str> = text.lines().filter(|l| l.contains("nbd")).collect();
        assert!(rows[0].contains("10.0.0.7:4242") && rows[0].contains("db"), "{text}");
        assert!(rows[1].contains("a local host") && rows[1].contains("none yet"), "{text}");
    }
}
