//! Founding a cluster anew when most of its voting members have lost their logs.
//!
//! The map is then the newest that is left: in what can be read of the log of this process, or on its disks. The
//! new group is this process alone; the others join it when they hear of it, those with logs by the group's
//! first snapshot, which comes after everything that they know, and those without with new members.

use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use weft_core::cluster::ClusterMap;
use weft_member::{MapCodec, Stored, epoch_parts};

use super::codec::{AGREED, Codec};
use super::config::Configuration;
use super::home::Home;
use super::memory::{Memory, Trouble};
use super::new_process::write_first_log;
use super::readmit::next_member;
use crate::disk::map_copies::OnDisk;
use crate::disk::{self, Disk};
use crate::durable;
use crate::error::{Error, Result, fail};

/// Elections that nobody remembers may have gone further than the newest map that is left.
const FORGOTTEN_TERMS: u64 = 1000;

/// How long another process is waited for to see that it does not run.
const KNOCK: Duration = Duration::from_millis(500);

/// What there was to found a cluster anew from.
#[derive(Clone, Debug)]
pub struct Remains {
    /// What the member's log is like, in words.
    pub log: String,
    /// The epoch of the map in it, if it can be read.
    pub log_epoch: Option<u64>,
    /// The disks, each with the epochs of its copies, the newest first.
    pub disks: Vec<(PathBuf, Vec<u64>)>,
    /// The epoch of the newest map.
    pub newest: u64,
}

/// Looks what maps the process of a configuration has, and, if it is to `found`, makes its member's log anew: of a
/// group of this process alone, with the newest of the maps.
///
/// # Errors
///
/// If the process or another one of the cluster runs, if there is no map, or if something cannot be read or written.
pub fn refound(config: Configuration, found: bool) -> Result<Remains> {
    let mut home = Home::open(config)?;
    let (log, stored) = match Memory::open(home.dir()) {
        Ok((_, stored)) => ("whole".to_string(), Some(stored)),
        Err(Trouble::Lost(error)) => (error.to_string(), Memory::salvage(home.dir())),
        Err(Trouble::Other(error)) => return Err(error),
    };
    let term = stored.as_ref().map_or(0, Stored::term);
    let of_log = stored.and_then(|s| s.map(&Codec)).filter(|map| map.epoch > 0);
    let log_epoch = of_log.as_ref().map(|map| map.epoch);
    let (disks, of_disks) = on_disks(&home)?;
    let Some(mut map) = of_log.into_iter().chain(of_disks).max_by_key(|map| map.epoch) else {
        return fail(format!(
            "neither the member's log in {} nor a disk of this process has a map; try another process",
            home.dir().display()
        ));
    };
    if map.served_by(home.process).next().is_none() {
        return fail("this process has left the cluster; try another one");
    }
    let newest = map.epoch;
    if found {
        nobody_runs(&map, &home)?;
        let term = epoch_parts(newest).0.max(term) + FORGOTTEN_TERMS;
        let member = next_member(&mut home)?;
        map.pass_over_forgotten_numbers();
        write_first_log(home.dir(), Stored::founded_after(member, &map, &Codec, term))?;
    }
    Ok(Remains { log, log_epoch, disks, newest })
}

/// A disk, and the epochs of its copies, the newest first.
type Epochs = (PathBuf, Vec<u64>);

/// The disks of the process with the epochs of their copies, and the maps of those.
fn on_disks(home: &Home) -> Result<(Vec<Epochs>, Vec<ClusterMap>)> {
    let (mut shown, mut maps) = (Vec::new(), Vec::new());
    for path in home.nodes().into_iter().filter_map(|node| home.path(node)) {
        // What can be no disk is as one that is not there.
        if !durable::is_there(path)? || disk::check_kind(path).is_err() {
            continue;
        }
        let _alone = Disk::alone(path)?;
        let disk = OnDisk::read(path)?;
        let own = disk.copies.iter().filter(|copy| copy.cluster == home.cluster());
        let read = own.clone().filter_map(|copy| match copy.payload.split_first() {
            Some((&AGREED, map)) => Codec.decode(map).filter(|map| map.epoch == copy.version),
            _ => None,
        });
        maps.extend(read);
        shown.push((disk.path.clone(), own.map(|copy| copy.version).collect()));
    }
    Ok((shown, maps))
}

/// Refuses if another process of the cluster runs: it may belong to a majority that remembers.
fn nobody_runs(map: &ClusterMap, home: &Home) -> Result<()> {
    let others =
        map.nodes.iter().filter(|i| !i.removed && !i.is_replaced()).filter_map(|i| i.home.as_ref());
    for other in others.filter(|other| other.name != home.config.name.to_string()) {
        let address: SocketAddr = other.address.parse().map_err(|_| {
            Error(format!("the map has {} for an address of {}", other.address, other.name))
        })?;
        if TcpStream::connect_timeout(&address, KNOCK).is_ok() {
            return fail(format!(
                "{} is running, at {address}: stop all processes of the cluster first. If most voting members have their logs, \
             start those instead",
                other.name
            ));
        }
    }
    Ok(())
}
