//! A node's directory: who it is, where the others are, what its member has promised. And its
//! disk, which may be elsewhere.
//!
//! | file | what |
//! |---|---|
//! | `ca.pem`, `node.pem`, `node-key.pem` | its identity (docs/transport.md) |
//! | `ca-key.pem`, `tokens` | where nodes are admitted: the authority's key, issued tokens |
//! | `cluster.toml` | its number, and the nodes that it knew when it was admitted |
//! | `member.log` | the member's log (docs/membership.md) |
//! | `weft.lock`, `control.sock` | while it runs |

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weft_core::units::NodeId;
use weft_net::identity::Identity;
use weft_net::transport::Peer;

use super::config::Configuration;
use crate::disk::{self, Disk};
use crate::durable;
use crate::error::{Error, Result, at, fail};
use crate::format::format_disk;
use crate::slot::Slot;

const FILE: &str = "cluster.toml";
const SPARE: &str = "cluster.toml.new";
const FORMAT: u32 = 1;

/// The file that is there when a node has been admitted.
const IDENTITY: &str = "node-key.pem";

/// A node's directory, open and locked.
pub struct Home {
    pub(crate) config: Configuration,
    pub(super) identity: Arc<Identity>,
    pub(super) node: NodeId,
    pub(super) peers: Vec<Peer>,
    _lock: File,
}

/// A node that another knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Known {
    pub(super) node: u16,
    pub(super) name: String,
    pub(super) address: String,
}

/// `cluster.toml`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    format: u32,
    node: u16,
    #[serde(default)]
    peer: Vec<Known>,
}

impl Home {
    /// Opens the directory of a node that has been admitted to a cluster.
    pub fn open(config: Configuration) -> Result<Home> {
        let dir = config.dir.clone();
        if !is_taken(&dir) {
            return fail(format!(
                "{} is no node's directory yet; found a cluster (`weft cluster init`) or join one \
                 (`weft cluster join`) first",
                dir.display()
            ));
        }
        let lock = durable::lock(&dir)?;
        let identity = Identity::load(&dir).map_err(|e| Error(e.to_string()))?;
        if identity.name() != &config.name {
            return fail(format!(
                "{} is the directory of node {}, and the configuration is of {}",
                dir.display(),
                identity.name(),
                config.name
            ));
        }
        let path = dir.join(FILE);
        let text = fs::read_to_string(&path).map_err(at("read", &path))?;
        let content: Content =
            toml::from_str(&text).map_err(|e| Error(format!("{}: {e}", path.display())))?;
        if content.format != FORMAT {
            return fail(format!(
                "{} has format {} and this program knows {FORMAT}; use the program that made it",
                path.display(),
                content.format
            ));
        }
        Ok(Home {
            config,
            identity: Arc::new(identity),
            node: NodeId(content.node),
            peers: content.peer.iter().map(Known::peer).collect::<Result<_>>()?,
            _lock: lock,
        })
    }

    /// The number of the cluster.
    pub(crate) fn cluster(&self) -> u128 {
        self.identity.cluster().0
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.config.dir
    }

    /// The configuration.
    pub fn config(&self) -> &Configuration {
        &self.config
    }

    /// A place for the node.
    pub(crate) fn slot(&self) -> Slot {
        let Some(path) = &self.config.disk else { return Slot::diskless() };
        // A disk that is gone is told of when the node is to open it.
        let size = disk::size(path).unwrap_or(0);
        Slot::new(path.clone(), size).queued(self.config.queue)
    }

    /// Makes the disk an empty one. Whatever was on it is lost.
    pub(crate) fn make_empty_disk(&self) -> Result<()> {
        let Some(path) = &self.config.disk else {
            return fail(format!("{} has no disk", self.config.name));
        };
        let size = disk::size(path).ok().filter(|size| *size > 0);
        make_disk(path, size.or(self.config.disk_size), self.cluster(), self.node)
    }
}

impl Known {
    pub(super) fn peer(&self) -> Result<Peer> {
        let wrong = |what: String| Error(format!("node {}: {what}", self.node));
        Ok(Peer {
            node: NodeId(self.node),
            name: self.name.parse().map_err(|e| wrong(format!("{e}")))?,
            address: Some(self.address.parse().map_err(|e| wrong(format!("{e}")))?),
        })
    }
}

/// Whether a directory is a node's already.
pub(super) fn is_taken(dir: &Path) -> bool {
    dir.join(IDENTITY).exists()
}

/// Writes what a node must know to find the others.
pub(super) fn write_known(dir: &Path, node: NodeId, peers: Vec<Known>) -> Result<()> {
    let content = Content { format: FORMAT, node: node.0, peer: peers };
    let text = toml::to_string(&content).map_err(|e| Error(format!("cannot write {FILE}: {e}")))?;
    durable::replace(&dir.join(FILE), &dir.join(SPARE), text.as_bytes())
}

/// Makes a node's disk, and its file if it is one.
pub(super) fn make_disk(path: &Path, size: Option<u64>, cluster: u128, node: NodeId) -> Result<()> {
    if path.exists() && disk::is_block(path)? {
        let size = disk::size(path)?;
        return format_disk(&Disk::create(path, size)?, size, cluster, node.0);
    }
    let Some(size) = size else {
        return fail(format!(
            "{} is not there; attach the disk, or give disk_size to make a file",
            path.display()
        ));
    };
    let new = path.with_extension("new");
    durable::remove(&new)?;
    Disk::create(&new, size)
        .and_then(|disk| format_disk(&disk, size, cluster, node.0))
        .and_then(|()| durable::rename(&new, path))
        .inspect_err(|_| {
            // The first error is the one to tell.
            let _ = fs::remove_file(&new);
        })
}
