//! Founding a cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weft_core::cluster::{ClusterMap, NodeInfo};
use weft_core::units::{MAX_NODES, NodeId};
use weft_member::{Stored, member_of};
use weft_net::identity::{CertificateAuthority, Clock, ClusterId, LIFE, NodeKey, NodeName};

use super::codec::Codec;
use super::config::Configuration;
use super::dialled::refuse_strangers;
use super::home::Known;
use super::new_process::NewProcess;
use crate::disk::format::data_sectors;
use crate::error::{Error, Result, fail};
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
    for config in configs {
        let others = configs.iter().filter(|c| c.name != config.name);
        let known = others.map(|c| c.name.as_str()).collect();
        let only = config.only.iter().flatten();
        refuse_strangers(only.map(NodeName::as_str), &known)?;
    }
    if let Some(host) = configs.iter().find(|c| c.disks.is_empty()) {
        return fail(format!(
            "{} has no disk; a cluster is founded by nodes with disks",
            host.name
        ));
    }
    let mut processes = Vec::new();
    let founded = try_found(configs, spec, force, &mut processes);
    match &founded {
        Ok(_) => processes.into_iter().for_each(NewProcess::keep),
        // The last goes first: directories of it may be in those of one before.
        Err(_) => while processes.pop().is_some() {},
    }
    founded
}

fn try_found<'a>(
    configs: &'a [Configuration],
    spec: Option<&Spec>,
    force: bool,
    processes: &mut Vec<NewProcess<'a>>,
) -> Result<ClusterId> {
    for config in configs {
        processes.push(NewProcess::prepare(config, force)?);
    }
    let wrong = |e: weft_net::identity::IdentityError| Error(e.to_string());
    let cluster = ClusterId::generate().map_err(wrong)?;
    let authority = CertificateAuthority::create(cluster).map_err(wrong)?;
    let (mut nodes, mut numbers, mut keys) = (Vec::new(), Vec::new(), Vec::new());
    let mut known: Vec<Known> = Vec::new();
    for (config, process) in configs.iter().zip(&*processes) {
        let key = NodeKey::generate().map_err(wrong)?;
        let (first, home) = (nodes.len() as u16, Arc::new(config.home(&key.public())));
        known.push(Known::of(NodeId(first), &home));
        keys.push(key);
        for (n, size) in process.sizes().enumerate() {
            let process = (n > 0).then_some(NodeId(first));
            let info = NodeInfo::new(0, data_sectors(size)?);
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
    if let Some(first) = configs.first() {
        authority.save(&first.dir).map_err(wrong)?;
    }
    for (((config, process), disks), key) in configs.iter().zip(processes).zip(numbers).zip(keys) {
        let node = disks[0];
        let peers = known.iter().filter(|k| k.node != node).cloned().collect();
        let invitation = Invitation {
            ca: authority.pem().to_string(),
            certificate: authority
                .admit_at(&config.name, &key.public(), &config.ips(), Clock::system().now(), LIFE)
                .map_err(wrong)?,
            node,
            disks,
            peers,
        };
        let stored = match node {
            0 => Stored::founded(member_of(NodeId(0)), &map, &Codec),
            _ => Stored::empty(),
        };
        process.settle(&invitation, stored, &key, cluster.0)?;
    }
    Ok(cluster)
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
