//! A process's directory: who it is, where the others are, what its member has promised. And its
//! disks, which may be elsewhere.
//!
//! | file | what |
//! |---|---|
//! | `ca.pem`, `node.pem`, `node-key.pem` | its identity (docs/internals/transport.md) |
//! | `ca-key.pem`, `tokens` | where nodes are admitted: the authority's key, issued tokens and what they were used for |
//! | `joining-key.pem` | the key of a process that has asked to be admitted, until it is |
//! | `cluster.toml` | its number, its disks, and the processes that it knew last |
//! | `member.log`, `member.witness` | the member's log, and how far it must go (docs/internals/membership.md) |
//! | `member.outdated` | why that log is not to be taken up, if it has turned out to be an older copy of itself |
//! | `weft.lock`, `control.sock`, `peers.sock` | while it runs: its lock, where commands reach it, where processes of its machine do |

pub(super) mod checking;

use std::fs::{self, File};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weft_core::cluster;
use weft_core::units::NodeId;
use weft_net::identity::Identity;
use weft_net::transport::Peer;

use super::config::Configuration;
use super::disks::{Kept, take_up};
use crate::disk;
use crate::disk::claim::{Claim, Claimer};
use crate::disk::format::{Own, holder};
use crate::disk::handle::within;
use crate::doors::keeper::Keeper;
use crate::durable;
use crate::error::{Error, Result, at, fail};

const FILE: &str = "cluster.toml";
const SPARE: &str = "cluster.toml.new";
const FORMAT: u32 = 1;

/// For so long another disk of the process is asked whether it is the one at a path.
const ANSWERS_WITHIN: Duration = Duration::from_millis(300);

/// A disk that does not say whose it is within this time counts as gone.
const READS_WITHIN: Duration = Duration::from_secs(2);

/// The file that is there when a node has been admitted.
const IDENTITY: &str = "node-key.pem";

/// Files of a process that nothing can make again.
const OWN: [&str; 4] = [FILE, IDENTITY, "node.pem", "ca.pem"];

/// A process's directory, open and locked.
pub struct Home {
    pub(crate) config: Configuration,
    pub(super) identity: Arc<Identity>,
    /// The number of the process: that of the first node that it had.
    pub(super) process: NodeId,
    /// The processes that it knew last: until it has heard the map it dials these, and lets them in.
    pub(super) peers: Vec<Known>,
    /// Disks that the configuration names and that no node is on.
    pub(super) unused: Vec<PathBuf>,
    content: Content,
    _lock: File,
}

/// A process that another knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Known {
    pub(super) node: u16,
    pub(super) name: String,
    pub(super) address: String,
    /// The digest of the public key that it was admitted with, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<String>,
}

/// `cluster.toml`.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    format: u32,
    node: u16,
    /// Its last node has left the cluster.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    left: bool,
    /// Which of its members is the last one, after a log was lost.
    #[serde(default, skip_serializing_if = "is_first")]
    incarnation: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    disk: Vec<Kept>,
    #[serde(default)]
    peer: Vec<Known>,
}

fn is_first(incarnation: &u32) -> bool {
    *incarnation == 0
}

impl Content {
    fn write(&self, dir: &Path) -> Result<()> {
        let text = toml::to_string(self).map_err(|e| Error(format!("cannot write {FILE}: {e}")))?;
        durable::replace(&dir.join(FILE), &dir.join(SPARE), text.as_bytes())
    }
}

impl Home {
    /// Whether a directory is that of a process that has been admitted to a cluster.
    ///
    /// # Errors
    /// If that cannot be seen.
    pub fn is_taken(dir: &Path) -> Result<bool> {
        durable::is_there(&dir.join(IDENTITY))
    }

    /// Whether a process has asked to be admitted from a directory, and does not know whether it has been.
    ///
    /// # Errors
    /// If that cannot be seen.
    pub fn is_waiting(dir: &Path) -> Result<bool> {
        Ok(!Home::is_taken(dir)? && super::certificate::is_waiting(dir)?)
    }

    /// Opens the directory of a process that has been admitted to a cluster.
    pub fn open(config: Configuration) -> Result<Home> {
        let dir = config.dir.clone();
        refuse_incomplete(&config)?;
        refuse_untaken(&dir)?;
        let lock = durable::lock(&dir)?;
        let (identity, mut content) = read(&config)?;
        let cluster = identity.cluster().0;
        let before = content.disk.clone();
        // One that hangs is not waited for.
        let holder_at = |path: &Path| {
            let path = path.to_path_buf();
            within(READS_WITHIN, move || holder(&path, cluster)).flatten()
        };
        let unused = take_up(&mut content.disk, &config.disks, holder_at);
        if content.disk != before {
            content.write(&dir)?;
        }
        Ok(Home {
            config,
            identity: Arc::new(identity),
            process: NodeId(content.node),
            peers: content.peer.clone(),
            unused,
            content,
            _lock: lock,
        })
    }

    /// The nodes of this process.
    pub(crate) fn nodes(&self) -> Vec<NodeId> {
        match self.content.disk.is_empty() {
            true if self.config.disks.is_empty() => vec![self.process],
            _ => self.content.disk.iter().map(Kept::node).collect(),
        }
    }

    /// Whether a node is of this process.
    pub(crate) fn has(&self, node: NodeId) -> bool {
        match &self.content.disk[..] {
            [] => self.config.disks.is_empty() && node == self.process,
            disks => disks.iter().any(|d| d.node() == node),
        }
    }

    /// Where the disks of this process are.
    pub(crate) fn disks(&self) -> Disks {
        Disks(self.content.disk.iter().map(|d| (d.node(), d.path.clone())).collect())
    }

    /// Takes note that a node is on the disk at a path, which has been made its empty one; no longer on the one that it had, if
    /// it had one.
    pub(crate) fn take_disk(&mut self, node: NodeId, path: PathBuf) -> Result<()> {
        let mut content = self.content.clone();
        content.disk.retain(|d| d.node() != node);
        content.disk.push(Kept { node: node.0, path, by_command: true });
        content.disk.sort_by_key(|d| d.node);
        content.write(self.dir())?;
        self.content = content;
        Ok(())
    }

    /// Forgets a node that has left the cluster.
    pub(crate) fn forget(&mut self, node: NodeId) -> Result<()> {
        self.content.disk.retain(|d| d.node() != node);
        self.content.write(self.dir())
    }

    /// Takes note of the processes that there are, for when the member's log is lost.
    pub(super) fn know(&mut self, peers: impl Iterator<Item = Known>) -> Result<()> {
        let peers: Vec<Known> = peers.collect();
        if peers == self.content.peer {
            return Ok(());
        }
        self.content.peer = peers;
        self.content.write(self.dir())
    }

    /// Which of its members is the last one.
    pub(super) fn incarnation(&self) -> u32 {
        self.content.incarnation
    }

    /// Takes note of a new member of the process.
    pub(super) fn set_incarnation(&mut self, incarnation: u32) -> Result<()> {
        self.content.incarnation = incarnation;
        self.content.write(self.dir())
    }

    /// Its last node has left the cluster.
    pub(super) fn leave(&mut self) -> Result<()> {
        self.content.disk.clear();
        self.content.left = true;
        self.content.write(self.dir())
    }

    /// Whether its last node has left the cluster.
    pub(crate) fn has_left(&self) -> bool {
        self.content.left
    }

    /// The number of the cluster.
    pub(crate) fn cluster(&self) -> u128 {
        self.identity.cluster().0
    }

    /// The certificates by which hosts are served.
    pub(crate) fn keeper(&self) -> Keeper {
        Keeper::together(self.dir(), self.identity.clone())
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.config.dir
    }

    /// The configuration.
    pub fn config(&self) -> &Configuration {
        &self.config
    }

    /// Where a node's disk is.
    pub(crate) fn path(&self, node: NodeId) -> Option<&Path> {
        self.content.disk.iter().find(|d| d.node() == node).map(|d| &*d.path)
    }

    /// Where a node's disk is, and how it is claimed, to make it an empty one.
    pub(crate) fn claimer(&self, node: NodeId, force: bool) -> Result<(PathBuf, Claimer)> {
        let Some(path) = self.path(node).map(Path::to_path_buf) else {
            return fail(format!("{} has no disk", self.config.name));
        };
        let (own, usual, there) = (self.own(node), self.config.disk_size, path.clone());
        let preallocate = self.config.disk_options.preallocate;
        let claim = move || {
            let size = match disk::is_block(&there) {
                true => None,
                false => disk::size(&there).ok().filter(|size| *size > 0).or(usual),
            };
            Claim::new(&there, size, Some(own), force)?.allocated(preallocate)
        };
        Ok((path, Box::new(claim)))
    }

    /// Whose a disk is that a node of this process has had.
    pub(crate) fn own(&self, node: NodeId) -> Own {
        Own { cluster: self.cluster(), node }
    }
}

/// Where the disks of a process are.
pub(crate) struct Disks(Vec<(NodeId, PathBuf)>);

impl Disks {
    /// The node that is on the disk at a path, if any. It may take as long as the disk does to answer; others are not waited for.
    pub(crate) fn on(&self, path: &Path) -> Option<NodeId> {
        let whole = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let path = whole(path);
        let is_there = |other: &PathBuf| {
            let its = other.clone();
            *other == path || within(ANSWERS_WITHIN, move || whole(&its)).as_ref() == Some(&path)
        };
        self.0.iter().find(|(_, other)| is_there(other)).map(|(node, _)| *node)
    }
}

impl Known {
    /// A process that lives there.
    pub(crate) fn of(process: NodeId, home: &cluster::Home) -> Known {
        let key = home.key.map(|key| format!("{key:032x}"));
        Known { node: process.0, name: home.name.clone(), address: home.address.clone(), key }
    }

    /// Where it is reached, without the port.
    pub(super) fn ip(&self) -> Option<IpAddr> {
        self.address.parse().ok().map(|address: SocketAddr| address.ip())
    }

    pub(super) fn peer(&self) -> Result<Peer> {
        let wrong = |what: String| Error(format!("node {}: {what}", self.node));
        Ok(Peer {
            node: NodeId(self.node),
            name: self.name.parse().map_err(|e| wrong(format!("{e}")))?,
            address: Some(self.address.parse().map_err(|e| wrong(format!("{e}")))?),
            key: self
                .key
                .as_ref()
                .map(|key| {
                    u128::from_str_radix(key, 16).map_err(|e| wrong(format!("its key: {e}")))
                })
                .transpose()?,
        })
    }
}

/// Refuses the directory of a process.
pub(super) fn refuse_taken(dir: &Path) -> Result<()> {
    match Home::is_taken(dir)? {
        true => fail(format!(
            "{} is already the directory of a node; choose another one",
            dir.display()
        )),
        false => Ok(()),
    }
}

/// Refuses the directory of a process that lacks some of its files. One that has yet to be admitted has some, too.
fn refuse_incomplete(config: &Configuration) -> Result<()> {
    let (dir, name) = (&config.dir, &config.name);
    let is_there = |file: &&str| durable::is_there(&dir.join(file));
    let mut lost = Vec::new();
    for file in OWN {
        if !is_there(&file)? {
            lost.push(file);
        }
    }
    if lost.is_empty() || lost.contains(&FILE) && lost.contains(&IDENTITY) || Home::is_waiting(dir)?
    {
        return Ok(());
    }
    fail(format!(
        "{} lacks {}, which cannot be made again. If {name} has run: move the directory away, and give the process a new one with \
         `weft cluster replace {name} --force`, which rebuilds its disks from others (`weft cluster what-if --lose {name}` at \
         another process says whether that is possible). If it never ran: remove the directory and join again",
        dir.display(),
        lost.join(" and ")
    ))
}

/// Refuses a directory that is none of a process.
fn refuse_untaken(dir: &Path) -> Result<()> {
    match Home::is_taken(dir)? {
        true => Ok(()),
        false => fail(format!(
            "{} is not yet the directory of a node; found a cluster (`weft cluster init`) or join one (`weft cluster join`) first",
            dir.display()
        )),
    }
}

/// Reads who the process of a configuration is, and what it must know. Refused if it cannot run with that
/// configuration.
fn read(config: &Configuration) -> Result<(Identity, Content)> {
    let dir = &config.dir;
    let identity = Identity::load(dir).map_err(|e| Error(e.to_string()))?;
    if identity.name() != &config.name {
        return fail(format!(
            "{} is the directory of node {}, but the configuration is of {}",
            dir.display(),
            identity.name(),
            config.name
        ));
    }
    let path = dir.join(FILE);
    let text = fs::read_to_string(&path).map_err(at("read", &path))?;
    let mut content: Content =
        toml::from_str(&text).map_err(|e| Error(format!("{}: {e}", path.display())))?;
    if content.format != FORMAT {
        return fail(format!(
            "{} has format {}, and this program reads {FORMAT}; use the program that wrote it",
            path.display(),
            content.format
        ));
    }
    if content.left {
        return fail(format!(
            "the last node of {} has left the cluster, so its process has nothing to do; to use this machine again, remove {} \
             and join it again (`weft cluster join`)",
            config.name,
            dir.display()
        ));
    }
    if content.disk.is_empty() {
        content.disk = Kept::of(&[content.node], &config.disks);
    }
    Ok((identity, content))
}

/// Writes what a process must know: its number and disks, and where the others are.
pub(super) fn write_known(
    dir: &Path,
    process: NodeId,
    disk: Vec<Kept>,
    peer: Vec<Known>,
) -> Result<()> {
    Content { format: FORMAT, node: process.0, left: false, incarnation: 0, disk, peer }.write(dir)
}

#[cfg(test)]
mod tests;
