//! The other side of vhost-user-blk: a virtual machine's process and the driver in the machine, without a machine.
//!
//! Its memory, with the queues in it, outlives the connection, as that of a virtual machine does.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use vhost::vhost_user::message::{
    VhostUserConfigFlags, VhostUserHeaderFlag, VhostUserInflight, VhostUserProtocolFeatures,
};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vm_memory::GuestMemoryBackend;
use vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemoryMmap};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

/// Kinds of requests.
pub const READ: u32 = 0;
pub const WRITE: u32 = 1;
pub const FLUSH: u32 = 4;
pub const NAME: u32 = 8;
pub const DISCARD: u32 = 11;
pub const ZEROES: u32 = 13;

/// Features: the version, event indices, and those of the protocol.
const VERSION: u64 = 1 << 32;
const EVENTS: u64 = 1 << 29;
const INDIRECT: u64 = 1 << 28;
const PROTOCOL: u64 = 1 << 30;
/// Features of disks.
pub const READ_ONLY: u64 = 1 << 5;
pub const FLUSHES: u64 = 1 << 9;

/// Entries of a queue, and requests that it has at most: each takes three entries.
pub const ENTRIES: u16 = 128;
pub const SLOTS: u16 = ENTRIES / 3;

/// Where the memory begins, in the virtual machine.
const BEGINS: u64 = 1 << 30;

/// Where the parts of a queue are in its part of the memory.
const AVAILABLE: u64 = 0x1000;
const USED: u64 = 0x2000;
const BUFFERS: u64 = 0x1_0000;

/// Room for a request: its header, its status, a table, and its data.
const SLOT: u64 = (1 << 20) + 4096;
const STATUS: u64 = 64;
const TABLE: u64 = 128;
const DATA: u64 = 4096;
const QUEUE: u64 = BUFFERS + SLOT * SLOTS as u64;

/// The longest data of a request.
pub const LONGEST: usize = 1 << 20;

/// Descriptor flags.
pub const NEXT: u16 = 1;
pub const FILLED: u16 = 2;
const TABLE_FLAG: u16 = 4;

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    pub slot: u16,
    pub status: u8,
    pub data: Vec<u8>,
}

/// A queue.
struct Queue {
    kick: EventFd,
    call: EventFd,
    available: u16,
    used: u16,
    free: Vec<u16>,
    /// Bytes that the answer to each request has.
    expected: BTreeMap<u16, usize>,
    /// The bell has rung, and there may be answers that were not looked at since.
    rung: bool,
}

/// A virtual machine's process with a driver for its disk.
pub struct Driver {
    path: PathBuf,
    frontend: Option<Frontend>,
    back: Option<UnixStream>,
    memory: GuestMemoryMmap,
    file: File,
    queues: Vec<Queue>,
    inflight: Option<(VhostUserInflight, File)>,
    /// Whether descriptors are in tables of their own.
    pub indirect: bool,
    pub features: u64,
    /// How often it has connected.
    pub connects: usize,
}

fn wrong(e: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::other(e)
}

impl Driver {
    /// Connects to a disk, with this number of queues.
    pub fn connect(path: &Path, queues: usize) -> io::Result<Driver> {
        let len = QUEUE * queues as u64;
        let file = File::from(memfd_create("machine", MemfdFlags::CLOEXEC)?);
        ftruncate(&file, len)?;
        let mapped = Some(FileOffset::new(file.try_clone()?, 0));
        let range = (GuestAddress(BEGINS), len as usize, mapped);
        let memory = GuestMemoryMmap::from_ranges_with_files([range]).map_err(wrong)?;
        let queue = |_| -> io::Result<Queue> {
            let (kick, call) = (EventFd::new(EFD_NONBLOCK)?, EventFd::new(EFD_NONBLOCK)?);
            let free = (0..SLOTS).rev().collect();
            let (expected, rung) = (BTreeMap::new(), false);
            Ok(Queue { kick, call, available: 0, used: 0, free, expected, rung })
        };
        let mut driver = Driver {
            path: path.to_path_buf(),
            frontend: None,
            back: None,
            memory,
            file,
            queues: (0..queues).map(queue).collect::<io::Result<_>>()?,
            inflight: None,
            indirect: false,
            features: 0,
            connects: 0,
        };
        driver.set_up()?;
        Ok(driver)
    }

    /// Connects again, as QEMU does: the queues go on behind the latest answers.
    pub fn set_up(&mut self) -> io::Result<()> {
        self.frontend = None;
        let mut frontend =
            Frontend::connect(&self.path, self.queues.len() as u64).map_err(wrong)?;
        frontend.set_owner().map_err(wrong)?;
        self.features = frontend.get_features().map_err(wrong)?;
        let chosen = self.features & (VERSION | EVENTS | INDIRECT | PROTOCOL | FLUSHES | READ_ONLY);
        let offered = frontend.get_protocol_features().map_err(wrong)?;
        let wanted = VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::BACKEND_REQ
            | VhostUserProtocolFeatures::INFLIGHT_SHMFD
            | VhostUserProtocolFeatures::REPLY_ACK;
        frontend.set_protocol_features(offered & wanted).map_err(wrong)?;
        frontend.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
        frontend.set_features(chosen).map_err(wrong)?;
        let (ours, theirs) = UnixStream::pair()?;
        frontend.set_backend_request_fd(&theirs).map_err(wrong)?;
        self.back = Some(ours);
        frontend.set_mem_table(&[self.region()]).map_err(wrong)?;
        self.set_inflight(&mut frontend)?;
        for index in 0..self.queues.len() {
            self.set_queue(&mut frontend, index)?;
        }
        self.frontend = Some(frontend);
        self.connects += 1;
        Ok(())
    }

    fn region(&self) -> VhostUserMemoryRegionInfo {
        VhostUserMemoryRegionInfo {
            guest_phys_addr: BEGINS,
            memory_size: QUEUE * self.queues.len() as u64,
            userspace_addr: self.user(0),
            mmap_offset: 0,
            mmap_handle: self.file.as_raw_fd(),
        }
    }

    /// An address in this process.
    fn user(&self, offset: u64) -> u64 {
        let at = self.memory.get_host_address(GuestAddress(BEGINS + offset));
        at.expect("it lies within") as u64
    }

    fn set_inflight(&mut self, frontend: &mut Frontend) -> io::Result<()> {
        if self.inflight.is_none() {
            let wanted = VhostUserInflight::new(0, 0, self.queues.len() as u16, ENTRIES);
            self.inflight = Some(frontend.get_inflight_fd(&wanted).map_err(wrong)?);
        }
        let (said, file) = self.inflight.as_ref().expect("there is one");
        frontend.set_inflight_fd(said, file.as_raw_fd()).map_err(wrong)
    }

    fn set_queue(&self, frontend: &mut Frontend, index: usize) -> io::Result<()> {
        let (queue, at) = (&self.queues[index], self.user(QUEUE * index as u64));
        let used: u16 =
            self.memory.load(self.at(index, USED + 2), Ordering::Acquire).map_err(wrong)?;
        let places = VringConfigData {
            queue_max_size: ENTRIES,
            queue_size: ENTRIES,
            flags: 0,
            desc_table_addr: at,
            used_ring_addr: at + USED,
            avail_ring_addr: at + AVAILABLE,
            log_addr: None,
        };
        frontend.set_vring_num(index, ENTRIES).map_err(wrong)?;
        frontend.set_vring_base(index, used).map_err(wrong)?;
        frontend.set_vring_addr(index, &places).map_err(wrong)?;
        frontend.set_vring_call(index, &queue.call).map_err(wrong)?;
        frontend.set_vring_kick(index, &queue.kick).map_err(wrong)?;
        frontend.set_vring_enable(index, true).map_err(wrong)?;
        queue.kick.write(1)
    }

    fn at(&self, queue: usize, offset: u64) -> GuestAddress {
        GuestAddress(BEGINS + QUEUE * queue as u64 + offset)
    }

    fn put(&self, queue: usize, offset: u64, bytes: &[u8]) {
        self.memory.write_slice(bytes, self.at(queue, offset)).expect("it lies within");
    }

    /// The bytes of the configuration space.
    pub fn config(&mut self) -> io::Result<Vec<u8>> {
        let frontend = self.frontend.as_mut().ok_or(ErrorKind::NotConnected)?;
        let flags = VhostUserConfigFlags::empty();
        Ok(frontend.get_config(0, 60, flags, &[0; 60]).map_err(wrong)?.1)
    }

    /// The disk's size.
    pub fn size(&mut self) -> io::Result<u64> {
        let space = self.config()?;
        Ok(512 * u64::from_le_bytes(*space.first_chunk().expect("60 bytes")))
    }

    /// Waits until the disk's process says that the configuration has changed.
    pub fn wait_for_change(&mut self) -> io::Result<()> {
        let mut message = [0; 12];
        self.back.as_mut().ok_or(ErrorKind::NotConnected)?.read_exact(&mut message)?;
        assert_eq!(message[..4], 2_u32.to_ne_bytes(), "the configuration has changed");
        Ok(())
    }

    /// Stops a queue. Says which entry would be next.
    pub fn stop(&mut self, queue: usize) -> io::Result<u32> {
        let frontend = self.frontend.as_mut().ok_or(ErrorKind::NotConnected)?;
        frontend.get_vring_base(queue).map_err(wrong)
    }

    /// Starts a queue that was stopped.
    pub fn start(&mut self, queue: usize) -> io::Result<()> {
        let mut frontend = self.frontend.take().ok_or(ErrorKind::NotConnected)?;
        let started = self.set_queue(&mut frontend, queue);
        self.frontend = Some(frontend);
        started
    }

    /// Writes a descriptor of a queue, as it is.
    pub fn describe(&self, queue: usize, index: u16, at: u64, len: u32, flags: u16, next: u16) {
        self.put(queue, u64::from(index) * 16, &descriptor(at, len, flags, next));
    }

    /// Puts a head into the ring of requests, whatever it is.
    pub fn offer(&mut self, queue: usize, head: u16) {
        let place = self.queues[queue].available % ENTRIES;
        self.put(queue, AVAILABLE + 4 + 2 * u64::from(place), &head.to_le_bytes());
        self.queues[queue].available = self.queues[queue].available.wrapping_add(1);
        self.say_available(queue, self.queues[queue].available);
    }

    /// Says how far the requests go, whatever that is.
    pub fn say_available(&self, queue: usize, index: u16) {
        let at = self.at(queue, AVAILABLE + 2);
        self.memory.store(index.to_le(), at, Ordering::Release).expect("it lies within");
    }

    /// Rings the bell.
    pub fn kick(&self, queue: usize) -> io::Result<()> {
        self.queues[queue].kick.write(1)
    }

    /// Begins a request that says `data` and wants `wanted` bytes, if there is room for it. Nobody is told yet.
    pub fn submit(
        &mut self,
        queue: usize,
        kind: u32,
        sector: u64,
        data: &[u8],
        wanted: usize,
    ) -> Option<u16> {
        let slot = self.queues[queue].free.pop()?;
        self.queues[queue].expected.insert(slot, wanted);
        let at = BUFFERS + SLOT * u64::from(slot);
        let mut header = [0; 16];
        header[..4].copy_from_slice(&kind.to_le_bytes());
        header[8..].copy_from_slice(&sector.to_le_bytes());
        self.put(queue, at, &header);
        self.put(queue, at + STATUS, &[0xff]);
        self.put(queue, at + DATA, data);
        let place = |offset| self.at(queue, at + offset).0;
        let mut parts = vec![(place(0), 16, 0)];
        match (data.len(), wanted) {
            (0, 0) => {}
            (0, wanted) => parts.push((place(DATA), wanted as u32, FILLED)),
            (len, _) => parts.push((place(DATA), len as u32, 0)),
        }
        parts.push((place(STATUS), 1, FILLED));
        let head = slot * 3;
        let (first, table) = match self.indirect {
            true => (0, at + TABLE),
            false => (head, u64::from(head) * 16),
        };
        for (n, (at, len, flags)) in parts.iter().enumerate() {
            let more = if n + 1 < parts.len() { NEXT } else { 0 };
            let bytes = descriptor(*at, *len, flags | more, first + n as u16 + 1);
            self.put(queue, table + 16 * n as u64, &bytes);
        }
        if self.indirect {
            let len = 16 * parts.len() as u32;
            self.describe(queue, head, place(TABLE), len, TABLE_FLAG, 0);
        }
        self.offer(queue, head);
        Some(slot)
    }

    /// The next answer, if there is one.
    pub fn next(&mut self, queue: usize) -> Option<Answer> {
        let used: u16 = self.memory.load(self.at(queue, USED + 2), Ordering::Acquire).ok()?;
        let seen = self.queues[queue].used;
        if used == seen {
            return None;
        }
        let place = u64::from(seen % ENTRIES);
        let head: u32 = self.memory.read_obj(self.at(queue, USED + 4 + 8 * place)).ok()?;
        let slot = head as u16 / 3;
        let wanted = self.queues[queue].expected.remove(&slot)?;
        let at = BUFFERS + SLOT * u64::from(slot);
        let mut data = vec![0; wanted];
        self.memory.read_slice(&mut data, self.at(queue, at + DATA)).ok()?;
        let status = self.memory.read_obj(self.at(queue, at + STATUS)).ok()?;
        let queue_of = &mut self.queues[queue];
        queue_of.used = seen.wrapping_add(1);
        queue_of.free.push(slot);
        // The driver wants to hear of the next answer.
        let used = queue_of.used;
        self.put(queue, AVAILABLE + 4 + 2 * u64::from(ENTRIES), &used.to_le_bytes());
        Some(Answer { slot, status, data })
    }

    /// How many requests of a queue have no answer.
    pub fn unanswered(&self, queue: usize) -> usize {
        self.queues[queue].expected.len()
    }

    /// Waits for an answer; if the disk's process ends meanwhile, for the next one that serves the disk. As in a virtual
    /// machine, nobody looks for answers before the bell has rung.
    pub fn wait(&mut self, queue: usize) -> io::Result<Answer> {
        let since = Instant::now();
        loop {
            if self.queues[queue].rung
                && let Some(answer) = self.next(queue)
            {
                return Ok(answer);
            }
            self.queues[queue].rung = false;
            if since.elapsed() > PATIENCE {
                return Err(ErrorKind::TimedOut.into());
            }
            self.sleep(queue)?;
        }
    }

    /// Sleeps until there may be an answer, and connects again if need be.
    pub fn sleep(&mut self, queue: usize) -> io::Result<()> {
        let Some(frontend) = &self.frontend else { return self.connect_again() };
        // Safe: the descriptor is the frontend's, which is not dropped meanwhile.
        let socket = unsafe { BorrowedFd::borrow_raw(frontend.as_raw_fd()) };
        let call = &self.queues[queue].call;
        let call = unsafe { BorrowedFd::borrow_raw(call.as_raw_fd()) };
        let mut look = [PollFd::new(&call, PollFlags::IN), PollFd::new(&socket, PollFlags::RDHUP)];
        let timeout = Timespec { tv_sec: 1, tv_nsec: 0 };
        poll(&mut look, Some(&timeout))?;
        let is_over = !look[1].revents().is_empty();
        // A bell that has not rung cannot be read.
        self.queues[queue].rung |= self.queues[queue].call.read().is_ok();
        if is_over {
            self.frontend = None;
        }
        Ok(())
    }

    fn connect_again(&mut self) -> io::Result<()> {
        let since = Instant::now();
        while let Err(e) = self.set_up() {
            if since.elapsed() > PATIENCE {
                return Err(e);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// One request, alone in a queue.
    pub fn ask(
        &mut self,
        queue: usize,
        kind: u32,
        sector: u64,
        data: &[u8],
        wanted: usize,
    ) -> io::Result<Answer> {
        let slot = self.submit(queue, kind, sector, data, wanted).ok_or(ErrorKind::ResourceBusy)?;
        self.kick(queue)?;
        let answer = self.wait(queue)?;
        assert_eq!(answer.slot, slot, "it was alone");
        Ok(answer)
    }
}

/// How long an answer or a connection may take.
const PATIENCE: Duration = Duration::from_secs(60);

fn descriptor(at: u64, len: u32, flags: u16, next: u16) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&at.to_le_bytes());
    bytes[8..12].copy_from_slice(&len.to_le_bytes());
    bytes[12..14].copy_from_slice(&flags.to_le_bytes());
    bytes[14..].copy_from_slice(&next.to_le_bytes());
    bytes
}

/// The one range of a discard.
pub fn range(sector: u64, sectors: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&sector.to_le_bytes());
    bytes[8..12].copy_from_slice(&sectors.to_le_bytes());
    bytes
}
