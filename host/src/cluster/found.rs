//! Founding a cluster, and making a node's directory and disk.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weft_core::cluster::{ClusterMap, NodeInfo};
use weft_core::units::NodeId;
use weft_member::{Config, Input, Member, Output, Stored, member_of};
use weft_net::identity::{CertificateAuthority, ClusterId, Identity, NodeKey};

use super::config::Configuration;
use super::home::{self, Known};
use super::memory::Memory;
use super::together::Codec;
use crate::disk;
use crate::error::{Error, Result, at, fail};
use crate::format::{data_sectors, refuse_used};
use crate::spec::Spec;
use crate::volumes;

/// What a node gets when it is admitted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Invitation {
    /// The certificate of the cluster's authority.
    pub(super) ca: String,
    /// Its own.
    pub(super) certificate: String,
    /// Its number.
    pub(super) node: u16,
    /// The nodes that are there.
    pub(super) peers: Vec<Known>,
}

impl Invitation {
    /// The number of the node that it is for.
    pub fn node(&self) -> u16 {
        self.node
    }
}

/// Founds a cluster of these nodes, none of which runs yet, with the volumes of `spec`. The
/// first one keeps the authority's key, so that it can admit others. Returns the cluster's id.
pub fn found(configs: &[Configuration], spec: Option<&Spec>, force: bool) -> Result<ClusterId> {
    check_distinct(configs)?;
    if let Some(host) = configs.iter().find(|c| c.disk.is_none()) {
        return fail(format!(
            "{} has no disk; a cluster is founded by nodes with disks",
            host.name
        ));
    }
    let sizes = configs.iter().map(|c| check_new(c, force)).collect::<Result<Vec<u64>>>()?;
    let wrong = |e: weft_net::identity::IdentityError| Error(e.to_string());
    let cluster = ClusterId::generate().map_err(wrong)?;
    let authority = CertificateAuthority::create(cluster).map_err(wrong)?;
    let expected = |(config, size): (&Configuration, &u64)| {
        let sectors = data_sectors(*size)?;
        Ok(NodeInfo { home: Some(Arc::new(config.home())), ..NodeInfo::new(0, sectors) })
    };
    let nodes = configs.iter().zip(&sizes).map(expected).collect::<Result<_>>()?;
    let mut map = ClusterMap { nodes, ..ClusterMap::default() };
    if let Some(spec) = spec {
        volumes::place_first(spec, &mut map)?;
    }
    let known: Vec<Known> = configs.iter().enumerate().map(|(n, c)| known(n, c)).collect();
    for (n, config) in configs.iter().enumerate() {
        let key = NodeKey::generate().map_err(wrong)?;
        let peers = known.iter().filter(|k| usize::from(k.node) != n).cloned().collect();
        let invitation = Invitation {
            ca: authority.pem().to_string(),
            certificate: authority.admit(&config.name, &key.public()).map_err(wrong)?,
            node: n as u16,
            peers,
        };
        let stored = match n {
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

fn known(n: usize, config: &Configuration) -> Known {
    let (name, address) = (config.name.to_string(), config.address.to_string());
    Known { node: n as u16, name, address }
}

/// Makes the directory and the disk of a node that has been admitted.
pub(super) fn settle_in(
    config: &Configuration,
    invitation: &Invitation,
    stored: Stored,
    key: &NodeKey,
    cluster: u128,
) -> Result<()> {
    let dir = &config.dir;
    fs::create_dir_all(dir).map_err(at("make the directory", dir))?;
    let node = NodeId(invitation.node);
    if let Some(path) = &config.disk {
        home::make_disk(path, config.disk_size, cluster, node)?;
    }
    write_first_log(dir, node, stored)?;
    home::write_known(dir, node, invitation.peers.clone())?;
    // The identity comes last: it says that the rest is there.
    Identity::save(dir, &invitation.ca, &invitation.certificate, key)
        .map_err(|e| Error(e.to_string()))
}

/// The log of a member that has not run yet. From now on its absence means that it is lost.
fn write_first_log(dir: &Path, node: NodeId, stored: Stored) -> Result<()> {
    let codec = Arc::new(Codec);
    let mut member = Member::new(member_of(node), &[node], stored, Config::default(), codec)
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

/// Refuses a configuration whose directory or disk is in use. Returns the disk's size, 0 if there is
/// to be none.
pub(super) fn check_new(config: &Configuration, force: bool) -> Result<u64> {
    if home::is_taken(&config.dir) {
        return fail(format!(
            "{} is the directory of a node already; choose another one",
            config.dir.display()
        ));
    }
    let Some(path) = &config.disk else { return Ok(0) };
    let there = path.exists();
    if there && !force {
        refuse_used(path)?;
    }
    match (there && disk::is_block(path)?, config.disk_size) {
        (true, None) => disk::size(path),
        (true, Some(_)) => fail(format!(
            "{} is a block device and is used whole; leave disk_size out",
            path.display()
        )),
        (false, Some(size)) => Ok(size),
        (false, None) => fail(format!(
            "{} is no block device; give disk_size to make a file of that size",
            path.display()
        )),
    }
}

/// Refuses what two nodes cannot both have.
fn check_distinct(configs: &[Configuration]) -> Result<()> {
    let mut taken: BTreeMap<String, &str> = BTreeMap::new();
    for config in configs {
        let disk = config.disk.iter().map(|disk| format!("the disk {}", disk.display()));
        let rest = [
            format!("the name {}", config.name),
            format!("the address {}", config.address),
            format!("the directory {}", config.dir.display()),
        ];
        for thing in rest.into_iter().chain(disk) {
            if let Some(other) = taken.insert(thing.clone(), config.name.as_str()) {
                return fail(format!("two nodes ({other} and {}) have {thing}", config.name));
            }
        }
    }
    Ok(())
}
