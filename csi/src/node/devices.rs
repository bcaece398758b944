//! Devices of the kernel's NBD client. Their requests go through a pair of sockets to this program, which passes them on
//! to the cluster, by TLS if there are certificates.
//!
//! When a connection ends, the next address is tried, and the kernel sends unanswered requests again. If this host has lost
//! its right to use the volume, they fail instead: the device is abandoned. When the driver itself ends, requests wait in
//! the kernel until it is started again and finds the devices by their names.
//!
//! A device's name has the volume and the right by which it was attached. One that was abandoned shows no bytes: so a driver
//! that is started again leaves it alone, though this host may have another right by then.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream as Socket;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use tokio::io::copy;
use tokio::net::UnixStream;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tonic::Status;

use super::nbd::{self, Link, Refusals};
use super::netlink::{Export, Netlink};

/// What the names of devices begin with.
const OURS: &str = "weft-csi:";

/// What separates the volume from the right in the name of a device.
const MARK: char = '#';

/// Where the kernel lists them.
const LISTED: &str = "/sys/block";

/// How long to wait before an address is tried again.
const PAUSE: Duration = Duration::from_millis(500);

/// How long the kernel may take to make, change or end a device.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often a new connection is tried for another size.
const RENEWALS: u32 = 5;

/// How the cluster is reached.
#[derive(Clone)]
pub struct Reach {
    /// The addresses of its nodes, as `host:port`.
    pub addresses: Vec<String>,
    /// The host's certificate, if TLS is used.
    pub tls: Option<Arc<ClientConfig>>,
}

/// The devices of this machine that are volumes.
pub struct Devices {
    reach: Reach,
    handle: Handle,
    served: Mutex<HashMap<String, Served>>,
}

/// A device whose requests are passed on.
struct Served {
    task: JoinHandle<()>,
    /// Whether it is being detached: then nothing is said of connections that end.
    ends: Arc<AtomicBool>,
    /// Asks for a new connection.
    renew: Arc<Notify>,
}

impl Devices {
    /// Devices of an earlier driver are served again.
    pub fn new(reach: Reach, handle: Handle) -> Devices {
        let devices = Devices { reach, handle, served: Mutex::default() };
        for (name, index) in listed().into_iter().filter(|(_, index)| !is_abandoned(*index)) {
            devices.serve(name, index, None);
        }
        devices
    }

    /// The device of a volume, if it is attached.
    pub fn of(&self, volume: &str) -> Option<PathBuf> {
        let (_, index) = attached(volume)?;
        Some(PathBuf::from(format!("/dev/nbd{index}")))
    }

    /// Whether the device of a volume was attached by the right of this identifier, and not abandoned.
    pub fn serves(&self, volume: &str, grant: Option<&str>) -> bool {
        attached(volume).is_some_and(|(name, index)| {
            let is_its = grant.is_none() || name.grant.as_deref() == grant;
            is_its && !is_abandoned(index)
        })
    }

    /// Attaches a volume, by the right of this identifier.
    ///
    /// # Errors
    /// If no node serves it to this host, or the kernel cannot.
    pub fn attach(&self, volume: &str, grant: Option<&str>) -> Result<PathBuf, Status> {
        let connected = nbd::connect(&self.reach.addresses, self.reach.tls.as_ref(), volume);
        let link = self.handle.block_on(connected).map_err(|e| {
            Status::unavailable(format!("volume '{volume}' cannot be reached: {e}"))
        })?;
        let (ours, kernels) = Socket::pair().map_err(|e| cannot("attach", volume, &e))?;
        let name = Name { volume: volume.to_string(), grant: grant.map(str::to_string) };
        let backend = name.to_string();
        let export = Export { backend: &backend, size: link.size, flags: link.flags };
        let made = Netlink::open().and_then(|netlink| netlink.connect(export, kernels.as_fd()));
        let index = made.map_err(|e| cannot("attach", volume, &e))?;
        self.serve(name, index, Some((ours, link)));
        let device = PathBuf::from(format!("/dev/nbd{index}"));
        wait_for(PATIENCE, || device.exists() && self.of(volume).is_some())
            .then_some(device)
            .ok_or_else(|| Status::internal(format!("/dev/nbd{index} does not appear")))
    }

    /// Detaches a volume, and gives up what waits for a connection.
    ///
    /// # Errors
    /// If the kernel cannot.
    pub fn detach(&self, volume: &str, device: &Path) -> Result<(), Status> {
        if let Ok(file) = fs::File::open(device) {
            // Programs have been told that this is done, or have not asked for it.
            let _ = file.sync_all();
        }
        self.say_that_it_ends(volume);
        let ended = Netlink::open().and_then(|netlink| netlink.disconnect(index_of(device)?));
        ended.map_err(|e| cannot("detach", volume, &e))?;
        if !wait_for(PATIENCE, || self.of(volume).is_none()) {
            return Err(Status::aborted(format!("{} is still in use", device.display())));
        }
        let served = self.served.lock().unwrap_or_else(PoisonError::into_inner).remove(volume);
        served.iter().for_each(|served| served.task.abort());
        Ok(())
    }

    /// Has all requests of the device of a volume fail from now on.
    ///
    /// # Errors
    /// If the kernel cannot.
    pub fn abandon(&self, volume: &str) -> Result<(), Status> {
        let Some((name, index)) = attached(volume) else { return Ok(()) };
        self.say_that_it_ends(volume);
        let served = self.served.lock().unwrap_or_else(PoisonError::into_inner).remove(volume);
        if let Some(served) = served {
            // A connection that it is just making would revive the device.
            served.task.abort();
            let _ = self.handle.block_on(served.task);
        }
        abandon(&name, index).map_err(|e| cannot("abandon", volume, &e))
    }

    fn say_that_it_ends(&self, volume: &str) {
        let served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        served.get(volume).iter().for_each(|served| served.ends.store(true, Ordering::Relaxed));
    }

    /// Has a device show the size that its volume has now: a new connection tells it.
    ///
    /// # Errors
    /// If the volume is smaller.
    pub fn resize(&self, volume: &str, device: &Path, bytes: u64) -> Result<(), Status> {
        let index = index_of(device).map_err(|e| cannot("resize", volume, &e))?;
        let has_size = || size_of(index).is_some_and(|size| size >= bytes);
        let renew = || {
            let served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
            served.get(volume).iter().for_each(|served| served.renew.notify_one());
        };
        // A process of the cluster may learn of the size a moment later than others.
        for _ in 0..RENEWALS {
            renew();
            if wait_for(PATIENCE / RENEWALS, has_size) {
                return Ok(());
            }
        }
        Err(Status::aborted(format!(
            "volume '{volume}' does not have {bytes} bytes yet; try again"
        )))
    }

    /// Passes a device's requests on, from now on.
    fn serve(&self, name: Name, index: u32, begun: Option<(Socket, Link)>) {
        let ends = Arc::new(AtomicBool::new(false));
        let renew = Arc::new(Notify::new());
        let volume = name.volume.clone();
        let device = Device { name, index, ends: ends.clone(), renew: renew.clone() };
        let task = self.handle.spawn(device.serve(self.reach.clone(), begun));
        let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(earlier) = served.insert(volume, Served { task, ends, renew }) {
            earlier.task.abort();
        }
    }
}

/// A device, as whoever passes its requests on knows it.
struct Device {
    name: Name,
    index: u32,
    ends: Arc<AtomicBool>,
    renew: Arc<Notify>,
}

impl Device {
    /// Passes its requests on while it is there.
    async fn serve(self, reach: Reach, mut begun: Option<(Socket, Link)>) {
        let mut addresses = reach.addresses.clone();
        let mut refusals = Refusals::default();
        while is_there(&self.name, self.index) {
            if let Some((ours, link)) = begun.take() {
                tokio::select! {
                    // Its size is asked for again.
                    () = self.renew.notified() => continue,
                    ended = pass_on(ours, link) => {
                        self.say(&format!("its connection ended: {}", in_words(&ended)));
                    }
                }
                // The node may be going: another one is tried first.
                addresses.rotate_left(1);
                continue;
            }
            match nbd::connect(&addresses, reach.tls.as_ref(), &self.name.volume).await {
                Ok(link) => {
                    refusals = Refusals::default();
                    match self.reconnect(link) {
                        Ok(again) => begun = Some(again),
                        Err(e) => self.wait(&e).await,
                    }
                }
                // Another node may use the volume now. Requests that wait fail, and the device ends.
                Err(e) if refusals.are_final(&e, Instant::now()) => {
                    self.say(&format!("it is abandoned: {e}"));
                    if let Err(e) = abandon(&self.name, self.index) {
                        self.say(&format!("the kernel does not release it: {e}"));
                    }
                    return;
                }
                Err(e) => self.wait(&e).await,
            }
        }
    }

    /// Gives it a new connection, when its last one has ended.
    fn reconnect(&self, link: Link) -> io::Result<(Socket, Link)> {
        let (ours, kernels) = Socket::pair()?;
        let name = self.name.to_string();
        let export = Export { backend: &name, size: link.size, flags: link.flags };
        Netlink::open()?.reconnect(self.index, export, kernels.as_fd())?;
        Ok((ours, link))
    }

    async fn wait(&self, why: &impl fmt::Display) {
        self.say(&format!("it waits for a connection: {why}"));
        sleep(PAUSE).await;
    }

    fn say(&self, what: &str) {
        if !self.ends.load(Ordering::Relaxed) {
            eprintln!("weft-csi: volume '{}': {what}", self.name.volume);
        }
    }
}

/// Has all requests of a device fail from now on. The device stays while it is in use, and shows no bytes then.
fn abandon(name: &Name, index: u32) -> io::Result<()> {
    let kernel = Netlink::open()?;
    kernel.disconnect(index)?;
    // Later than that, since it waits for requests; and in vain if the device is gone.
    if is_there(name, index) {
        let _ = kernel.resize(index, &name.to_string(), 0);
    }
    Ok(())
}

/// Passes bytes on in both directions until one of them ends.
async fn pass_on(ours: Socket, link: Link) -> io::Result<u64> {
    ours.set_nonblocking(true)?;
    let (mut from_kernel, mut to_kernel) = UnixStream::from_std(ours)?.into_split();
    let (mut from_node, mut to_node) = tokio::io::split(link.stream);
    tokio::select! {
        ended = copy(&mut from_kernel, &mut to_node) => ended,
        ended = copy(&mut from_node, &mut to_kernel) => ended,
    }
}

fn in_words(ended: &io::Result<u64>) -> String {
    match ended {
        Ok(_) => "it was closed".to_string(),
        Err(e) if e.kind() == ErrorKind::UnexpectedEof => "it was closed".to_string(),
        Err(e) => e.to_string(),
    }
}

/// The name of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Name {
    volume: String,
    /// Identifies the right by which it was attached, if that is known.
    grant: Option<String>,
}

impl Name {
    /// Reads the name of a device that a driver has made.
    fn read(text: &str) -> Option<Name> {
        let text = text.trim_end().strip_prefix(OURS)?;
        Some(match text.split_once(MARK) {
            Some((volume, grant)) => {
                Name { volume: volume.to_string(), grant: Some(grant.to_string()) }
            }
            None => Name { volume: text.to_string(), grant: None },
        })
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{OURS}{}", self.volume)?;
        self.grant.iter().try_for_each(|grant| write!(f, "{MARK}{grant}"))
    }
}

/// The devices of volumes: their names and numbers.
fn listed() -> Vec<(Name, u32)> {
    let entries = fs::read_dir(LISTED).into_iter().flatten().flatten();
    let device = |entry: fs::DirEntry| {
        let index = entry.file_name().to_str()?.strip_prefix("nbd")?.parse().ok()?;
        let name = fs::read_to_string(entry.path().join("backend")).ok()?;
        Some((Name::read(&name)?, index))
    };
    entries.filter_map(device).collect()
}

/// The device of a volume.
fn attached(volume: &str) -> Option<(Name, u32)> {
    listed().into_iter().find(|(name, _)| name.volume == volume)
}

fn is_there(name: &Name, index: u32) -> bool {
    listed().contains(&(name.clone(), index))
}

/// Whether a device that is there was abandoned.
fn is_abandoned(index: u32) -> bool {
    size_of(index) == Some(0)
}

/// The bytes that a device shows.
fn size_of(index: u32) -> Option<u64> {
    let sectors = fs::read_to_string(format!("{LISTED}/nbd{index}/size")).ok()?;
    Some(sectors.trim().parse::<u64>().ok()? * 512)
}

fn index_of(device: &Path) -> io::Result<u32> {
    let name = device.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let index = name.strip_prefix("nbd").and_then(|digits| digits.parse().ok());
    index.ok_or_else(|| io::Error::other(format!("{} is not an NBD device", device.display())))
}

/// Waits until something is so; whether it is.
fn wait_for(patience: Duration, is_so: impl Fn() -> bool) -> bool {
    let end = Instant::now() + patience;
    while !is_so() {
        if Instant::now() > end {
            return false;
        }
        thread::sleep(Duration::from_millis(10));
    }
    true
}

fn cannot(what: &str, volume: &str, why: &io::Error) -> Status {
    Status::internal(format!("cannot {what} volume '{volume}': {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_named_by_volume_and_right() {
        for (text, volume, grant) in
            [("weft-csi:v@s#0a", "v@s", Some("0a")), ("weft-csi:v", "v", None)]
        {
            let name = Name { volume: volume.to_string(), grant: grant.map(str::to_string) };
            assert_eq!(Name::read(&format!("{text}\n")), Some(name.clone()));
            assert_eq!(name.to_string(), text);
        }
        assert_eq!(Name::read("other:v"), None);
    }
}
