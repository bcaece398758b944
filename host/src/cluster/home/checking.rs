//! Whether a process can run with a configuration on this machine. `weft config check` asks all of it, `weft node` and
//! `weft cluster init` what concerns them.

use std::collections::BTreeSet;
use std::path::Path;

use weft_core::cluster::ClusterMap;
use weft_core::units::NodeId;
use weft_net::identity::NodeName;

use super::{Content, Home, Known, read};
use crate::cluster::admission::authority;
use crate::cluster::codec::Codec;
use crate::cluster::config::Configuration;
use crate::cluster::dialled::refuse_strangers;
use crate::cluster::disks::refuse_same;
use crate::cluster::memory::Memory;
use crate::disk;
use crate::disk::claim::Claim;
use crate::disk::format::{Own, holder, refuse_others};
use crate::durable;
use crate::error::{Error, Result, fail};

impl Home {
    /// All that speaks against a process running with this configuration on this machine. Nothing is changed.
    pub fn check(config: &Configuration) -> Vec<Error> {
        let wrong = match (Home::is_taken(&config.dir), Home::is_waiting(&config.dir)) {
            (Err(e), _) | (_, Err(e)) => return vec![e],
            (Ok(true), _) => of_a_process(config),
            (Ok(false), Ok(is_waiting)) => of_a_new_one(config, is_waiting),
        };
        wrong.into_iter().filter_map(Result::err).collect()
    }
}

/// What a process needs that is to be founded or to join. One that waits to be let in has its addresses in use.
fn of_a_new_one(config: &Configuration, is_waiting: bool) -> Vec<Result<()>> {
    let disks = config.disks.iter().map(|path| Claim::check(path, config.disk_size, None));
    let here = if is_waiting { Ok(()) } else { config.check_here() };
    disks.chain([refuse_same(&config.disks), here]).collect()
}

/// What a process needs that has been before, and may be running.
fn of_a_process(config: &Configuration) -> Vec<Result<()>> {
    let (identity, content) = match read(config) {
        Ok(read) => read,
        Err(e) => return vec![Err(e)],
    };
    let cluster = identity.cluster().0;
    let disks = config.disks.iter().map(|path| check_disk(config, &content, cluster, path));
    let known = Memory::look(&config.dir).and_then(|stored| {
        let us = NodeId(content.node);
        match stored.map(&Codec) {
            Some(map) => refuse_elsewhere(&map, us, config)
                .and_then(|()| refuse_unknown(&map, &content.peer, config)),
            None => Ok(()),
        }
    });
    // Those of a process that runs are in use: by itself.
    let here = match durable::is_locked(&config.dir) {
        true => Ok(()),
        false => config.check_addresses(),
    };
    let admits = config.admit.map_or(Ok(()), |_| authority(config).map(drop));
    disks.chain([refuse_same(&config.disks), known, here, admits]).collect()
}

/// Refuses a disk that no node of the process could be on, or be put on by a command.
fn check_disk(config: &Configuration, content: &Content, cluster: u128, path: &Path) -> Result<()> {
    let kept = content.disk.iter().find(|kept| kept.path == path);
    let is_ours = |node: u16| content.disk.iter().any(|kept| kept.node == node);
    match kept {
        Some(kept) => {
            refuse_others(path, cluster, kept.node())?;
            disk::check_usable(path)
        }
        // It has been moved.
        None if holder(path, cluster).is_some_and(is_ours) => disk::check_usable(path),
        None => {
            let own = content.disk.first().map(|kept| Own { cluster, node: kept.node() });
            Claim::check(path, config.disk_size, own)
        }
    }
}

/// Refuses to be where nobody looks for us.
pub(in crate::cluster) fn refuse_elsewhere(
    map: &ClusterMap,
    us: NodeId,
    config: &Configuration,
) -> Result<()> {
    let home = map.served_by(us).next().and_then(|n| map.nodes[usize::from(n.0)].home.as_ref());
    let address = config.address.to_string();
    match home.filter(|known| known.address != address) {
        Some(known) => fail(format!(
            "the configuration has the address {address}, but the other processes know this one at {}; restore that address. To \
             change it, remove the process from the cluster and join it again",
            known.address
        )),
        None => Ok(()),
    }
}

/// Refuses names of processes that there are not, where only some are to be dialled. Whoever founds a cluster or
/// joins one was asked before; the configuration may have been changed since.
pub(in crate::cluster) fn refuse_unknown<'a>(
    map: &'a ClusterMap,
    peers: impl IntoIterator<Item = &'a Known>,
    config: &Configuration,
) -> Result<()> {
    let Some(only) = &config.only else { return Ok(()) };
    let homes = map.nodes.iter().filter_map(|n| n.home.as_ref()).map(|h| h.name.as_str());
    let peers = peers.into_iter().map(|known| known.name.as_str());
    let ours = config.name.as_str();
    let known: BTreeSet<&str> = homes.chain(peers).filter(|n| *n != ours).collect();
    refuse_strangers(only.iter().map(NodeName::as_str), &known)
}
