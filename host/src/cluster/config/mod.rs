//! `node.toml`: a node as its operator wants it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toml::de::{DeTable, Deserializer, ValueDeserializer};
use weft_core::cluster;
use weft_core::node::FillRates;
use weft_net::identity::{NodeName, PublicKey};

use super::dialled::LocalLinks;
use super::disks::check_distinct;
use super::failure_timeouts::FailureTimeouts;
use super::home::refuse_taken;
use crate::control_protocol::NewHome;
use crate::disk::options::DiskOptions;
use crate::disk_timeout::DiskTimeout;
use crate::doors::{Doors, How, PageDoor, Tls};
use crate::error::{Error, Result, at, fail};
use crate::lanes::Lanes;
use crate::limits::{Limits, LimitsInWords};
use crate::polling::Polling;
use crate::sessions::listen::Listen;
use crate::sessions::{FRONT_ENDS, FrontEnd};
use crate::size::{exactly, parse_size};
use crate::slow_disk_timeout::SlowDiskTimeout;

/// The longest value of a label.
const LONGEST_LABEL: usize = 32;

/// A node's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// Its name; no two nodes of a cluster have the same.
    pub name: NodeName,
    /// Its directory.
    pub dir: PathBuf,
    /// Its disks: block devices, or files. Each is a node of the cluster. Without one it is the
    /// controller, or a host that is its own: that reaches volumes by itself, and serves nothing to others.
    pub disks: Vec<PathBuf>,
    /// Whether it is there to be the controller, without disks and hosts.
    pub controller: bool,
    /// How large to make disks that are files and not there yet.
    pub disk_size: Option<u64>,
    /// Where other nodes reach it.
    pub address: SocketAddr,
    /// Where it lets new nodes in, if it does.
    pub admit: Option<SocketAddr>,
    /// Where it serves metrics, if it does.
    pub metrics: Option<SocketAddr>,
    /// Where it serves the page for operators, if it does.
    pub page: Option<PageDoor>,
    /// Where hosts reach it. In the file each protocol has a key of its own.
    pub listens: Vec<Listen>,
    /// What hosts are told instead, for protocols that have a key for that.
    pub announced: Vec<Listen>,
    /// The failure domains that it is in.
    pub labels: BTreeMap<String, String>,
    /// How fast a disk is filled with what it missed, what is rebuilt on it, and what moves to it.
    pub fill: FillRates,
    /// How it works its disks.
    pub disk_options: DiskOptions,
    /// What hosts may take of it.
    pub limits: Limits,
    /// If it is to dial only some of the other processes: these. It reaches the others through them.
    pub only: Option<BTreeSet<NodeName>>,
    /// How it connects to processes of its machine.
    pub local: LocalLinks,
    /// Whether it looks for input for a while before it sleeps.
    pub polling: Polling,
    /// How many threads run its nodes.
    pub lanes: Lanes,
    /// For how long it waits for processes that are silent.
    pub patience: FailureTimeouts,
    /// How long a disk may take for one operation.
    pub disk_timeout: DiskTimeout,
    /// How long a disk may be slow.
    pub slow_disk_timeout: SlowDiskTimeout,
    /// Authentication of hosts.
    pub doors: Doors,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    dir: PathBuf,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    disk: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    disks: Option<Vec<PathBuf>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    disk_size: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    controller: bool,
    address: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    admit: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metrics: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    page: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    page_certificate: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    page_key: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rebuild_floor: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rebuild_ceiling: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    queue: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    queue_depth: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    preallocate: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    polling: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lanes: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    patience: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    disk_timeout: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    slow_disk_timeout: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tls: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    no_auth: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    socket_group: Option<String>,
    #[serde(default, skip_serializing_if = "LimitsInWords::is_empty")]
    limits: LimitsInWords,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    links: Option<LinksInWords>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

/// Whom it has connections to, and how.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LinksInWords {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    only: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    local: Option<String>,
}

impl LinksInWords {
    /// What stands in the file; nothing if all is as usual.
    fn of(config: &Configuration) -> Option<LinksInWords> {
        let names = |only: &BTreeSet<NodeName>| only.iter().map(NodeName::to_string).collect();
        let only = config.only.as_ref().map(names);
        let local = (config.local != LocalLinks::default()).then(|| config.local.to_string());
        (only.is_some() || local.is_some()).then_some(LinksInWords { only, local })
    }
}

/// Where hosts reach a process, by the protocols' keys.
type Places = BTreeMap<&'static str, Vec<String>>;

/// A file as it is written.
#[derive(Serialize)]
struct Written {
    #[serde(flatten)]
    places: Places,
    #[serde(flatten)]
    file: File,
}

/// Reads a file: the protocols' keys, which the list of front ends has, and then all others.
fn read(text: &str) -> std::result::Result<(File, Places), toml::de::Error> {
    let (mut table, mut places) = (DeTable::parse(text)?, Places::new());
    for key in FRONT_ENDS.iter().flat_map(keys) {
        if let Some(value) = table.get_mut().remove(key) {
            places.insert(key, Vec::deserialize(ValueDeserializer::from(value))?);
        }
    }
    Ok((File::deserialize(Deserializer::from(table))?, places))
}

/// The keys of a front end.
fn keys(front_end: &FrontEnd) -> impl Iterator<Item = &'static str> {
    std::iter::once(front_end.key).chain(front_end.announced)
}

/// The keys that there are, in an error that lists them, with those of the front ends.
fn with_front_ends(error: &str) -> String {
    let keys: String = FRONT_ENDS.iter().flat_map(keys).map(|key| format!(" `{key}`,")).collect();
    error.replacen("expected one of `name`,", &format!("expected one of `name`,{keys}"), 1)
}

impl Configuration {
    /// Where the node of this configuration lives, as others are told.
    pub(super) fn new_home(&self) -> NewHome {
        NewHome {
            address: self.address,
            labels: self.labels.clone(),
            is_host: self.is_host(),
            is_controller: self.controller,
            disks: self.disks.len().max(1),
            only: self.only.iter().flatten().map(NodeName::to_string).collect(),
            replaces: false,
            accept_loss: Vec::new(),
        }
    }

    /// Whether it is a host that is its own controller.
    pub(crate) fn is_host(&self) -> bool {
        self.disks.is_empty() && !self.controller
    }

    /// Reads a configuration. Relative paths in it are taken from where the file is.
    pub fn load(path: &Path) -> Result<Configuration> {
        let bytes = fs::read(path).map_err(at("read", path))?;
        let text = weft_bytes::text::of_file(&bytes)
            .map_err(|e| Error(format!("{}: {e}", path.display())))?;
        let whole = std::path::absolute(path).map_err(at("find", path))?;
        let base = whole.parent().unwrap_or(Path::new("/"));
        Configuration::parse(text, base).map_err(|e| Error(format!("{}: {e}", path.display())))
    }

    fn parse(text: &str, base: &Path) -> Result<Configuration> {
        let (file, places) = read(text).map_err(|mut e| {
            e.set_input(Some(text));
            Error(with_front_ends(&e.to_string()))
        })?;
        let size = |text: String| parse_size(&text).map_err(|e| Error(format!("disk_size: {e}")));
        let listen = |front_end: &FrontEnd, text: &String| {
            let listen: Listen = format!("{}{text}", front_end.prefix)
                .parse()
                .map_err(|e: Error| Error(format!("{}: {e}", front_end.key)))?;
            let path = listen.path().map(|p| base.join(p));
            Ok(path.into_iter().fold(listen, Listen::at_path))
        };
        let announced = FRONT_ENDS.iter().filter_map(|f| Some((f, f.announced?)));
        let announced = announced.flat_map(|(f, key)| {
            places.get(key).into_iter().flatten().map(move |text| {
                Listen::announced(f.key, text).map_err(|e| Error(format!("{key}: {e}")))
            })
        });
        let announced = announced.collect::<Result<Vec<Listen>>>()?;
        let places = FRONT_ENDS.iter().filter_map(|f| Some((f, places.get(f.key)?)));
        let listens = places.flat_map(|(f, texts)| texts.iter().map(move |text| listen(f, text)));
        let disks: Vec<PathBuf> = match (file.disk, file.disks) {
            (Some(_), Some(_)) => return fail("give `disk` or `disks`, not both"),
            (_, Some(disks)) if disks.is_empty() => {
                return fail("disks: the list is empty; name at least one, or omit it for a host");
            }
            (disk, disks) => disk.into_iter().chain(disks.unwrap_or_default()).collect(),
        };
        let disks: Vec<PathBuf> = disks.into_iter().map(|disk| base.join(disk)).collect();
        check_distinct(&disks).map_err(|e| Error(format!("disks: {e}")))?;
        if disks.is_empty() && file.disk_size.is_some() {
            return fail("disk_size needs `disk`; give it, or omit both for a host");
        }
        let fill = fill(file.rebuild_floor.as_deref(), file.rebuild_ceiling.as_deref())?;
        file.labels.iter().try_for_each(|(label, value)| check_label(label, value))?;
        let links = file.links.unwrap_or_default();
        let only = links.only.map(|only| names(&only, &file.name)).transpose()?;
        let lanes = file.lanes.map_or(Ok(Lanes::default()), Lanes::new);
        let polling = file.polling.map_or(Ok(Polling::default()), |p| p.parse());
        let patience = file.patience.map_or(Ok(FailureTimeouts::default()), |p| p.parse());
        let disk_timeout = file.disk_timeout.map_or(Ok(DiskTimeout::default()), |t| t.parse());
        let slow_disk_timeout =
            file.slow_disk_timeout.map_or(Ok(SlowDiskTimeout::default()), |t| t.parse());
        let tls = file.tls.map_or(Ok(Tls::default()), |t| t.parse());
        let page = PageDoor::of_file(
            file.page.as_deref(),
            file.page_certificate.as_deref(),
            file.page_key.as_deref(),
            base,
        )?;
        let local = links.local.map_or(Ok(LocalLinks::default()), |l| l.parse());
        let config = Configuration {
            name: file.name.parse().map_err(|e| Error(format!("name: {e}")))?,
            dir: base.join(file.dir),
            disks,
            disk_size: file.disk_size.map(size).transpose()?,
            controller: file.controller,
            address: address("address", &file.address)?,
            admit: file.admit.as_deref().map(|a| address("admit", a)).transpose()?,
            metrics: file.metrics.as_deref().map(metrics_address).transpose()?,
            page,
            listens: listens.collect::<Result<_>>()?,
            announced,
            labels: file.labels,
            fill,
            disk_options: DiskOptions::read(&file.queue, file.queue_depth, file.preallocate)?,
            limits: file
                .limits
                .over(Limits::default())
                .map_err(|e| Error(format!("limits: {e}")))?,
            only,
            local: local.map_err(|e: Error| Error(format!("links: local: {e}")))?,
            polling: polling.map_err(|e: Error| Error(format!("polling: {e}")))?,
            lanes: lanes.map_err(|e| Error(format!("lanes: {e}")))?,
            patience: patience.map_err(|e: Error| Error(format!("patience: {e}")))?,
            disk_timeout: disk_timeout.map_err(|e: Error| Error(format!("disk_timeout: {e}")))?,
            slow_disk_timeout: slow_disk_timeout
                .map_err(|e: Error| Error(format!("slow_disk_timeout: {e}")))?,
            doors: Doors {
                tls: tls.map_err(|e: Error| Error(format!("tls: {e}")))?,
                no_auth: file.no_auth,
                socket_group: file.socket_group,
            },
        };
        config.check_listens()?;
        config.check_announced()?;
        config.check_doors()?;
        config.check_controller()?;
        Ok(config)
    }

    /// Has each protocol that one of these speaks spoken at these addresses alone.
    pub fn listen_at(&mut self, listens: Vec<Listen>) {
        self.listens.retain(|old| listens.iter().all(|new| new.key() != old.key()));
        self.listens.extend(listens);
        let place = |l: &Listen| FRONT_ENDS.iter().position(|f| f.key == l.key());
        self.listens.sort_by_key(place);
    }

    /// Where it listens, and by which keys.
    fn listens(&self) -> impl Iterator<Item = (&'static str, Listen)> + '_ {
        let tcp = |address: SocketAddr| Listen::tcp(address.to_string());
        [("address", tcp(self.address))]
            .into_iter()
            .chain(self.admit.map(|a| ("admit", tcp(a))))
            .chain(self.metrics.map(|a| ("metrics", tcp(a))))
            .chain(self.page.iter().map(move |p| ("page", tcp(p.address))))
            .chain(self.listens.iter().map(|l| (l.key(), l.clone())))
    }

    /// Refuses to announce addresses of a protocol that has none.
    fn check_announced(&self) -> Result<()> {
        FRONT_ENDS.iter().filter_map(|f| Some((f, f.announced?))).try_for_each(|(f, key)| {
            let of = |l: &&Listen| l.key() == f.key;
            let announced: Vec<Listen> = self.announced.iter().filter(of).cloned().collect();
            Listen::check_announced(&announced, &self.listens, key)
        })
    }

    /// Refuses disks and hosts of a process that is there to be the controller.
    fn check_controller(&self) -> Result<()> {
        let serves = self.listens.first().map(Listen::key);
        let what = match self.disks.is_empty() {
            false => Some("disks"),
            true => serves,
        };
        match what.filter(|_| self.controller) {
            Some(key) => fail(format!(
                "controller: a process dedicated to this role has no {key}; omit {key}, or `controller`: a process with disks can \
             also be the controller, if there is no other"
            )),
            None => Ok(()),
        }
    }

    /// Refuses to serve strangers of other machines.
    pub fn check_doors(&self) -> Result<()> {
        self.listens.iter().try_for_each(|l| l.check_door(&self.doors, l.key(), How::File))
    }

    /// The addresses at which others and hosts reach it.
    pub(super) fn ips(&self) -> Vec<IpAddr> {
        let hosts = self.listens.iter().filter_map(Listen::ip);
        std::iter::once(self.address.ip()).chain(hosts).collect()
    }

    /// The host that whoever comes is taken for, if this is a host that is its own controller.
    pub(crate) fn own_host(&self) -> Option<String> {
        self.is_host().then(|| self.name.to_string())
    }

    /// Refuses to listen at one address twice.
    fn check_listens(&self) -> Result<()> {
        let mut taken: Vec<(&str, Listen)> = Vec::new();
        for (key, listen) in self.listens() {
            if let Some((other, _)) = taken.iter().find(|(_, l)| l.collides(&listen)) {
                return fail(format!(
                    "{key}: {} is also used by {other}; give each its own address",
                    listen.place()
                ));
            }
            taken.push((key, listen));
        }
        Ok(())
    }

    /// Refuses the directory of another process, and addresses that are not this machine's or are in
    /// use, and an unknown group: before a process is founded or joins that could not start.
    pub fn check_here(&self) -> Result<()> {
        refuse_taken(&self.dir)?;
        self.doors.group()?;
        self.check_addresses()
    }

    /// Refuses addresses that are not this machine's or are in use.
    pub(super) fn check_addresses(&self) -> Result<()> {
        let check = |(key, listen): (&str, Listen)| {
            listen.check().map_err(|e| Error(format!("{key}: {e}")))
        };
        self.listens().try_for_each(check)
    }

    /// The configuration as a file, with paths as they are.
    pub fn to_toml(&self) -> Result<String> {
        let mut places = Places::new();
        for listen in &self.listens {
            places.entry(listen.key()).or_default().push(listen.place());
        }
        let key = |l: &Listen| FRONT_ENDS.iter().find(|f| f.key == l.key())?.announced;
        for (key, listen) in self.announced.iter().filter_map(|l| Some((key(l)?, l))) {
            places.entry(key).or_default().push(listen.place());
        }
        let usual = FillRates::default();
        let (queue, queue_depth) = self.disk_options.queue.words();
        let page_file = |which: fn(&(PathBuf, PathBuf)) -> &PathBuf| {
            self.page.as_ref()?.tls.as_ref().map(which).cloned()
        };
        let file = File {
            name: self.name.to_string(),
            dir: self.dir.clone(),
            disk: self.disks.first().filter(|_| self.disks.len() == 1).cloned(),
            disks: (self.disks.len() > 1).then(|| self.disks.clone()),
            disk_size: self.disk_size.map(|s| s.to_string()),
            controller: self.controller,
            address: self.address.to_string(),
            admit: self.admit.map(|a| a.to_string()),
            metrics: self.metrics.map(|a| a.to_string()),
            page: self.page.as_ref().map(|p| p.address.to_string()),
            page_certificate: page_file(|(certificate, _)| certificate),
            page_key: page_file(|(_, key)| key),
            rebuild_floor: (self.fill.floor != usual.floor).then(|| self.fill.floor.to_string()),
            rebuild_ceiling: (self.fill.ceiling != usual.ceiling)
                .then(|| self.fill.ceiling.to_string()),
            queue,
            queue_depth,
            preallocate: self.disk_options.preallocate.then_some(true),
            polling: (self.polling != Polling::default()).then(|| self.polling.to_string()),
            lanes: self.lanes.words(),
            patience: (self.patience != FailureTimeouts::default())
                .then(|| self.patience.to_string()),
            disk_timeout: self.disk_timeout.words(),
            slow_disk_timeout: self.slow_disk_timeout.words(),
            tls: (self.doors.tls != Tls::default()).then(|| self.doors.tls.to_string()),
            no_auth: self.doors.no_auth,
            socket_group: self.doors.socket_group.clone(),
            limits: LimitsInWords::of(&self.limits),
            links: LinksInWords::of(self),
            labels: self.labels.clone(),
        };
        toml::to_string(&Written { places, file })
            .map_err(|e| Error(format!("cannot write the configuration: {e}")))
    }

    /// What the cluster is told of it, which has this key.
    pub(crate) fn home(&self, key: &PublicKey) -> cluster::Home {
        cluster::Home {
            name: self.name.to_string(),
            address: self.address.to_string(),
            labels: self.labels.clone(),
            key: Some(key.digest()),
        }
    }
}

/// The processes that are to be dialled.
fn names(only: &[String], us: &str) -> Result<BTreeSet<NodeName>> {
    if only.iter().any(|name| name == us) {
        return fail(format!("links: only names '{us}', which is this process; name the others"));
    }
    let name = |n: &String| n.parse().map_err(|e| Error(format!("links: only: {e}")));
    only.iter().map(name).collect()
}

/// Below this a disk that was lost would take months to be rebuilt.
const LEAST_FLOOR: u64 = 1 << 20;

/// How fast a disk is filled, in bytes a second.
fn fill(floor: Option<&str>, ceiling: Option<&str>) -> Result<FillRates> {
    let usual = FillRates::default();
    let rate = |key: &str, text: &str| parse_size(text).map_err(|e| Error(format!("{key}: {e}")));
    let ceiling = ceiling.map_or(Ok(usual.ceiling), |t| rate("rebuild_ceiling", t))?;
    let floor = floor.map_or(Ok(usual.floor.min(ceiling)), |t| rate("rebuild_floor", t))?;
    if floor < LEAST_FLOOR {
        return fail(format!(
            "rebuild_floor: {} a second is too slow to rebuild a disk; give at least {}",
            exactly(floor),
            exactly(LEAST_FLOOR)
        ));
    }
    if ceiling < floor {
        return fail(format!(
            "rebuild_ceiling: {} a second is less than the floor, {}; give more, or a lower rebuild_floor",
            exactly(ceiling),
            exactly(floor)
        ));
    }
    Ok(FillRates { floor, ceiling })
}

/// Not a host name: what it stands for may change, and may not be known when nodes start.
fn address(key: &str, text: &str) -> Result<SocketAddr> {
    let address: SocketAddr = text.parse().map_err(|_| {
        Error(format!("{key}: '{text}' is not an address; write it like 192.168.1.11:10810"))
    })?;
    if address.ip().is_unspecified() || address.port() == 0 {
        return fail(format!(
            "{key}: other machines cannot reach {text}; give an address of this machine and a port"
        ));
    }
    Ok(address)
}

/// Where metrics are served. That may be every address of the machine, but not any port.
fn metrics_address(text: &str) -> Result<SocketAddr> {
    let address: Option<SocketAddr> = text.parse().ok();
    address.filter(|a| a.port() != 0).ok_or_else(|| {
        Error(format!("metrics: '{text}' is not an address; write it like 192.168.1.11:9810"))
    })
}

/// Labels are compared letter by letter, so that a typing error would make a failure domain of
/// its own: what cannot be meant is refused.
fn check_label(label: &str, value: &str) -> Result<()> {
    let known = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.".contains(&b);
    let good = |text: &str| (1..=LONGEST_LABEL).contains(&text.len()) && text.bytes().all(known);
    if good(label) && good(value) {
        return Ok(());
    }
    fail(format!(
        "labels: '{label}' = '{value}' is not a label; use 1 to {LONGEST_LABEL} of a-z, 0-9, '-', '_' and '.' for each"
    ))
}

#[cfg(test)]
mod tests;
