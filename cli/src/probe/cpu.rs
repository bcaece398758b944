//! What the processor does: the real nodes in this process, on files in memory, and XOR.
//!
//! Arrays without redundancy answer small reads, 16 at a time so that the nodes' thread is always
//! busy; its time is the process's less this thread's, which is the host's. One node alone has no
//! messages to others; five have them for four reads in five; larger reads tell what a byte costs;
//! the same array on the disk tells what a disk operation costs beyond one in memory. What cannot
//! be told apart is split in halves: request and reply, sending and receiving, start and end of a disk
//! operation.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use weft_core::layout::LayoutSpec;
use weft_host::{Array, Control, Listen, Spec};

use crate::bench::workload::{self, Case};
use crate::load::{connect, fill};
use crate::scratch::Scratch;

const VOLUME: &str = "probe";
const KIB: u32 = 1 << 10;

/// Nanoseconds that work takes.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Costs {
    /// A request, from the socket to the socket, without its bytes.
    pub request: f64,
    /// A message from node to node, there, without its bytes.
    pub message: f64,
    /// A disk operation, without its bytes.
    pub disk: f64,
    /// Each byte, each time that the model counts it.
    pub byte: f64,
    /// Each byte added up.
    pub xor_byte: f64,
    /// What a request takes beyond that: the host's own work, and waking up.
    pub host: f64,
}

/// Reads of one size, on one array.
#[derive(Clone, Copy, Debug)]
struct Reads {
    /// Nanoseconds of the nodes' thread for one.
    cpu: f64,
    /// Nanoseconds that one takes, alone.
    alone: f64,
}

/// Measures it, with files in `memory` and on `disk`.
///
/// # Errors
/// If an array cannot be run there.
pub fn measure(memory: &Path, disk: &Path, size: u64, time: Duration) -> Result<Costs> {
    let one = reads(memory, 1, size, time)?;
    let five = reads(memory, 5, size, time)?;
    let on_disk = reads(disk, 1, size, time)?;
    let [small, large] = one;
    // The model counts a byte when the disk has it, when it goes to the originator, and when it
    // goes to the host.
    let byte = ((large.cpu - small.cpu) / f64::from(60 * KIB) / 3.0).max(0.0);
    let bytes = byte * 3.0 * f64::from(4 * KIB);
    let request = (small.cpu - bytes).max(0.0);
    // Four reads in five are another node's, with a message there and one back.
    let message = ((five[0].cpu - small.cpu) / 0.8 / 2.0).max(0.0);
    let disk = (on_disk[0].cpu - small.cpu).max(0.0);
    let host = (small.alone - small.cpu).max(0.0);
    Ok(Costs { request, message, disk, byte, xor_byte: xor_byte(time), host })
}

/// Reads of 4 KiB and of 64 KiB from so many nodes.
fn reads(dir: &Path, nodes: usize, size: u64, time: Duration) -> Result<[Reads; 2]> {
    let scratch = Scratch::new("weft-probe-", dir)?;
    let socket = scratch.path().join("nbd.sock");
    let listens = [Listen::Unix(socket.clone())];
    let spec = Spec {
        nodes: Some(nodes),
        disk_size: Some((size / nodes as u64 + (160 << 20)).next_multiple_of(1 << 20)),
        volumes: vec![(VOLUME.to_string(), size)],
        layout: Some(LayoutSpec::Raid0),
        journal: Some(false),
        ..Spec::default()
    };
    let array = Array::start(scratch.path(), &spec, &listens, Arc::new(|_: &str| {}))?.spawn()?;
    let mut control = Control::connect(scratch.path())?;
    let mut host = connect(&socket, VOLUME)?;
    fill(&mut host, "filling a volume")?;
    control.request(&weft_host::Request::Quiesce)?;
    let mut measure = |block: u32| -> Result<Reads> {
        let case = |depth| Case { write: false, random: true, block, depth };
        let alone = workload::run(&mut host, &mut control, case(1), time)?.mean_us * 1e3;
        let (own, begun) = (thread_seconds(), Instant::now());
        let busy = workload::run(&mut host, &mut control, case(16), time)?;
        let requests = busy.iops * begun.elapsed().as_secs_f64();
        let host = (thread_seconds() - own) / requests.max(1.0);
        Ok(Reads { cpu: (busy.cpu_s_per_1000 / 1e3 - host) * 1e9, alone })
    };
    let both = [measure(4 * KIB)?, measure(64 * KIB)?];
    drop(host);
    array.shutdown()?;
    Ok(both)
}

/// CPU time of this thread, in seconds.
fn thread_seconds() -> f64 {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

/// Nanoseconds for each byte that is added up with the nodes' own kernel, in units of 64 KiB.
fn xor_byte(time: Duration) -> f64 {
    let (mut sum, unit) = (vec![0u8; 64 << 10], vec![7u8; 64 << 10]);
    let (begun, mut bytes) = (Instant::now(), 0usize);
    while begun.elapsed() < time {
        for _ in 0..64 {
            weft_code::xor_into(black_box(&mut sum), black_box(&unit));
            bytes += unit.len();
        }
    }
    begun.elapsed().as_nanos() as f64 / bytes as f64
}
