//! Founding a cluster, and making a process's directory and disks.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weft_core::cluster::{ClusterMap, NodeInfo};
use weft_core::units::{MAX_NODES, NodeId, SECTOR};
use weft_member::{Config, Input, Member, Output, Stored, member_of};
use weft_net::identity::{CertificateAuthority, ClusterId, Identity, NodeKey};

use super::config::Configuration;
use super::disks::Kept;
use super::home::{self, Known};
use super::memory::Memory;
use super::together::Codec;
use crate::disk;
use crate::error::{Error, Result, at, fail};
use crate::format::{data_sectors, refuse_used};
use crate::size::require_multiple;
use crate::spec::Spec;
use crate::volumes;

/// What a process gets when it is admitted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Invitation {
    /// The certificate of the cluster's authority.
    pub(super) ca: String,
    /// Its own.
    pub(super) certificate: String,
    /// Its number.
    pub(super) node: u16,
    /// The numbers of its nodes, one for each disk; its own alone if there is nothing here.
    #[serde(default)]
    pub(super) disks: Vec<u16>,
    /// The processes that are there.
    pub(super) peers: Vec<Known>,
}

impl Invitation {
    /// The numbers of the nodes that it is for.
    pub fn nodes(&self) -> Vec<u16> {
        match self.disks.is_empty() {
            true => vec![self.node],
            false => self.disks.clone(),
        }
    }
}

/// Founds a cluster of these processes, none of which runs yet, with the volumes of `spec`. The
/// first one keeps the authority's key, so that it can admit others. Returns the cluster's id.
pub fn found(configs: &[Configuration], spec: Option<&Spec>, force: bool) -> Result<ClusterId> {
    check_distinct(configs)?;
    if let Some(host) = configs.iter().find(|c| c.disks.is_empty()) {
        return fail(format!(
            "{} has no disk; a cluster is founded by nodes with disks",
            host.name
        ));
    }
    let sizes = configs.iter().map(|c| check_new(c, force)).collect::<Result<Vec<_>>>()?;
    let wrong = |e: weft_net::identity::IdentityError| Error(e.to_string());
    let cluster = ClusterId::generate().map_err(wrong)?;
    let authority = CertificateAuthority::create(cluster).map_err(wrong)?;
    let (mut nodes, mut numbers) = (Vec::new(), Vec::new());
    for (config, sizes) in configs.iter().zip(&sizes) {
        let (first, home) = (nodes.len() as u16, Arc::new(config.home()));
        for (n, size) in sizes.iter().enumerate() {
            let process = (n > 0).then_some(NodeId(first));
            let info = NodeInfo::new(0, data_sectors(*size)?);
            nodes.push(NodeInfo { home: Some(home.clone()), process, ..info });
        }
        numbers.push((first..nodes.len() as u16).collect::<Vec<u16>>());
    }
    if nodes.len() > MAX_NODES {
        return fail(format!("a cluster has {MAX_NODES} disks at most"));
    }
    let mut map = ClusterMap { nodes, ..ClusterMap::default() };
    if let Some(spec) = spec {
        volumes::place_first(spec, &mut map)?;
    }
    let known: Vec<Known> =
        numbers.iter().zip(configs).map(|(numbers, c)| known(numbers[0], c)).collect();
    for (config, disks) in configs.iter().zip(numbers) {
        let key = NodeKey::generate().map_err(wrong)?;
        let node = disks[0];
        let peers = known.iter().filter(|k| k.node != node).cloned().collect();
        let invitation = Invitation {
            ca: authority.pem().to_string(),
            certificate: authority.admit(&config.name, &key.public()).map_err(wrong)?,
            node,
            disks,
            peers,
        };
        let stored = match node {
            0 => Stored::founded(member_of(NodeId(0)), &map, &Codec),
            _ => Stored::empty(),
        };
        settle_in(config, &invitation, stored, &key, cluster.0)?;
    }
    if let Some(first) = configs.first() {
        authority.save(&first.dir).map_err(wrong)?;
    }
    Ok(cluster)
}

fn known(node: u16, config: &Configuration) -> Known {
    let (name, address) = (config.name.to_string(), config.address.to_string());
    Known { node, name, address }
}

/// Makes the directory and the disks of a process that has been admitted.
pub(super) fn settle_in(
    config: &Configuration,
    invitation: &Invitation,
    stored: Stored,
    key: &NodeKey,
    cluster: u128,
) -> Result<()> {
    let dir = &config.dir;
    fs::create_dir_all(dir).map_err(at("make the directory", dir))?;
    let (process, nodes) = (NodeId(invitation.node), invitation.nodes());
    if !config.disks.is_empty() && config.disks.len() != nodes.len() {
        return fail(format!(
            "the configuration names {} disks, and the cluster expects {}; ask again with as many",
            config.disks.len(),
            nodes.len()
        ));
    }
    let kept = Kept::of(&nodes, &config.disks);
    for disk in &kept {
        home::make_disk(&disk.path, config.disk_size, cluster, disk.node())?;
    }
    write_first_log(dir, process, stored)?;
    home::write_known(dir, process, kept, invitation.peers.clone())?;
    // The identity comes last: it says that the rest is there.
    Identity::save(dir, &invitation.ca, &invitation.certificate, key)
        .map_err(|e| Error(e.to_string()))
}

/// The log of a member that has not run yet. From now on its absence means that it is lost.
fn write_first_log(dir: &Path, process: NodeId, stored: Stored) -> Result<()> {
    let codec = Arc::new(Codec);
    let mut member = Member::new(member_of(process), &[], stored, Config::default(), codec)
        .map_err(|e| Error(e.to_string()))?;
    let mut out = Vec::new();
    member.handle(0, Input::Tick, &mut out);
    let first = out.iter().find_map(|o| match o {
        Output::Persist(_, persist) => Some(persist),
        _ => None,
    });
    match first {
        Some(persist) => Memory::new(dir).write(persist),
        None => fail("a new member has nothing to remember"),
    }
}

/// Refuses a configuration whose directory or one of whose disks is in use. Returns the disks' sizes.
pub(super) fn check_new(config: &Configuration, force: bool) -> Result<Vec<u64>> {
    if home::is_taken(&config.dir) {
        return fail(format!(
            "{} is the directory of a node already; choose another one",
            config.dir.display()
        ));
    }
    config.disks.iter().map(|path| check_disk(path, config.disk_size, force)).collect()
}

/// Refuses a disk that is in use, or a file of no size. Returns its size.
pub(crate) fn check_disk(path: &Path, size: Option<u64>, force: bool) -> Result<u64> {
    let there = path.exists();
    if there && !force {
        refuse_used(path)?;
    }
    match (there && disk::is_block(path)?, size) {
        (true, None) => disk::size(path),
        (true, Some(_)) => fail(format!(
            "{} is a block device and is used whole; leave disk_size out",
            path.display()
        )),
        (false, Some(size)) => require_multiple("a disk size", size, SECTOR).map(|()| size),
        (false, None) => fail(format!(
            "{} is no block device; give disk_size (or --size) to make a file of that size",
            path.display()
        )),
    }
}

/// Refuses what two nodes cannot both have.
fn check_distinct(configs: &[Configuration]) -> Result<()> {
    let mut taken: BTreeMap<String, &str> = BTreeMap::new();
    for config in configs {
        let disks = config.disks.iter().map(|disk| format!("the disk {}", disk.display()));
        let rest = [
            format!("the name {}", config.name),
            format!("the address {}", config.address),
            format!("the directory {}", config.dir.display()),
        ];
        for thing in rest.into_iter().chain(disks) {
            if let Some(other) = taken.insert(thing.clone(), config.name.as_str()) {
                return fail(format!("two nodes ({other} and {}) have {thing}", config.name));
            }
        }
    }
    Ok(())
}
