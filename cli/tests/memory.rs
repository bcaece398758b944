//! Hosts that ask and never read their replies: the process uses no more memory than its budget and what each
//! connection costs, and gives it back when they are gone. (The program itself runs, since its allocator counts.)

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use weft_front::nbd::client::Client;
use weft_host::Control;
use weft_host::status::Status;

const MIB: u64 = 1 << 20;

/// `--memory`.
const BUDGET: u64 = 64 * MIB;

const CONNECTIONS: usize = 300;

/// What each connection may have beyond the budget: its share, the request that brings it there, and buffers.
const PER_CONNECTION: u64 = (256 + 64 + 192) << 10;

/// What else the process may use: pools of its nodes, whose lists grow with what is in progress, and what its allocator
/// keeps.
const OTHER: u64 = 64 * MIB;

/// A running array, which ends with the test.
struct Array {
    process: Child,
    dir: PathBuf,
}

impl Array {
    fn start(dir: &Path) -> Array {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
        command.args(["up", "--disk-size", "64M", "--memory", "64M", "--dir"]).arg(dir);
        command.arg("--listen").arg(dir.join("nbd.sock"));
        let command = command.stdin(Stdio::null()).stdout(Stdio::null());
        let array = Array { process: command.spawn().unwrap(), dir: dir.to_path_buf() };
        until("the array listens", || UnixStream::connect(dir.join("nbd.sock")).is_ok());
        array
    }

    /// Bytes of memory that the process has now.
    fn resident(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).expect("resident memory");
        1024 * line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap()
    }

    fn status(&self) -> Status {
        Control::connect(&self.dir).unwrap().status().unwrap()
    }

    fn connect(&self) -> Client<UnixStream> {
        let stream = UnixStream::connect(self.dir.join("nbd.sock")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(240))).unwrap();
        Client::connect(stream, "").unwrap()
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(240), "it never came about that {what}");
        sleep(Duration::from_millis(100));
    }
}

/// Reads of so many bytes, all over the volume.
fn reads(count: u64, bytes: u32, size: u64) -> Vec<u8> {
    let read = |n: u64| {
        let offset = n * u64::from(bytes) % (size - u64::from(bytes) + 1);
        let mut header = 0x2560_9513_u32.to_be_bytes().to_vec();
        header.extend([0, 0, 0, 0]);
        header.extend(n.to_be_bytes());
        header.extend(offset.to_be_bytes());
        header.extend(bytes.to_be_bytes());
        header
    };
    (0..count).flat_map(read).collect()
}

/// Hosts that ask this, and never read what they are told.
fn that_never_read(array: &Array, count: usize, asked: &[u8]) -> Vec<Client<UnixStream>> {
    let ask = |_| {
        let mut host = array.connect();
        host.stream().set_nonblocking(true).unwrap();
        // What the socket does not take would wait in the host: it asks no less for that.
        let written = host.stream().write(asked).unwrap();
        assert!(written >= asked.len().min(28 * 256), "only {written} bytes were taken");
        host
    };
    (0..count).map(ask).collect()
}

/// The most memory of an array until it takes no more requests.
fn most_resident(array: &Array) -> u64 {
    let (mut most, mut requests, mut same) = (0, 0, 0);
    until("no more is taken", || {
        most = most.max(array.resident());
        let now = array.status().totals.requests;
        same = if now == requests { same + 1 } else { 0 };
        requests = now;
        same == 20
    });
    most
}

/// An array whose volume has content everywhere, since holes take no memory when they are read; and a host of it.
fn filled(dir: &Path) -> (Array, Client<UnixStream>) {
    let array = Array::start(dir);
    let mut host = array.connect();
    for n in 0..host.size() / MIB {
        host.write_at(n * MIB, &vec![n as u8 + 1; MIB as usize], false).unwrap();
    }
    host.read_at(0, MIB as u32).unwrap();
    (array, host)
}

#[test]
fn hosts_that_never_read_cost_no_more_than_the_budget_and_it_is_given_back() {
    let dir = tempfile::tempdir().unwrap();
    let (array, mut first) = filled(dir.path());
    let before = array.resident();

    let hosts = that_never_read(&array, CONNECTIONS, &reads(2000, 64 << 10, first.size()));
    let most = most_resident(&array);
    let grown = most.saturating_sub(before);
    let bound = BUDGET + CONNECTIONS as u64 * PER_CONNECTION + OTHER;
    println!(
        "{} MiB before, {} at most, {} allowed",
        before / MIB,
        most / MIB,
        (before + bound) / MIB
    );
    assert!(grown <= bound, "{grown} bytes more than before, of {bound}");
    assert!(grown > BUDGET / 2, "the hosts did not ask enough: {grown} bytes");
    // Others are served meanwhile.
    assert_eq!(first.read_at(3 * MIB, 4096).unwrap()[..], [4; 4096]);

    drop(hosts);
    until("the hosts are gone", || array.status().hosts.len() == 1);
    let mut after = array.resident();
    let begun = Instant::now();
    while after > before + BUDGET / 2 && begun.elapsed() < Duration::from_secs(60) {
        sleep(Duration::from_millis(100));
        after = array.resident();
    }
    println!("{} MiB after", after / MIB);
    assert!(after <= before + BUDGET / 2, "{after} bytes are kept, and {before} were used before");
}

/// Without a bound these would have 1,280 MiB.
#[test]
fn long_requests_wait_for_memory_and_go_on_when_there_is_some() {
    let dir = tempfile::tempdir().unwrap();
    let (array, mut first) = filled(dir.path());
    let (before, long) = (array.resident(), 32 << 20);
    let hosts = that_never_read(&array, 40, &reads(1, long, first.size()));
    let grown = most_resident(&array).saturating_sub(before);
    println!("{} MiB before, {} more", before / MIB, grown / MIB);
    assert!(grown <= BUDGET + OTHER, "{grown} bytes more than before");
    // What comes last is answered when those before have gone.
    let last = thread::spawn(move || first.read_at(0, long).map(|bytes| bytes.len()));
    assert_eq!(array.connect().read_at(3 * MIB, 4096).unwrap()[..], [4; 4096]);
    drop(hosts);
    assert_eq!(last.join().unwrap().unwrap(), long as usize);
}
