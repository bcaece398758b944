//! A workload, and measuring it.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::Result;
use bytes::Bytes;
use fastrand::Rng;
use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};
use weft_front::nbd::client::{ClientRequest, Data};
use weft_host::Control;
use weft_terminal::mb_per_s;

use weft_trial::load::{Host, Work, pump};

const KIB: u32 = 1 << 10;
const MIB: u32 = 1 << 20;

/// A workload.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Writes; otherwise reads.
    pub write: bool,
    /// At random; otherwise in order.
    pub random: bool,
    /// Bytes in a request.
    pub block: u32,
    /// Requests in flight.
    pub depth: usize,
}

const fn case(write: bool, random: bool, block: u32, depth: usize) -> Case {
    Case { write, random, block, depth }
}

/// The fixed set.
pub const CASES: [Case; 8] = [
    case(false, true, 4 * KIB, 1),
    case(false, true, 4 * KIB, 32),
    case(true, true, 4 * KIB, 1),
    case(true, true, 4 * KIB, 32),
    case(false, true, 64 * KIB, 8),
    case(true, true, 64 * KIB, 8),
    case(false, false, MIB, 8),
    case(true, false, MIB, 8),
];

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = match self.block {
            b if b >= MIB => format!("{} MiB", b / MIB),
            b => format!("{} KiB", b / KIB),
        };
        let order = if self.random { "random" } else { "sequential" };
        let what = if self.write { "write" } else { "read" };
        write!(f, "{size} {order} {what}, depth {}", self.depth)
    }
}

/// What a workload came to.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Requests in a second.
    pub iops: f64,
    /// Millions of bytes in a second.
    pub mb_per_s: f64,
    /// Mean time of a request, in microseconds.
    pub mean_us: f64,
    /// Half of the requests took no longer.
    pub p50_us: u64,
    /// 99 of 100 requests took no longer.
    pub p99_us: u64,
    /// Seconds of CPU time that 1,000 requests took in this process.
    pub cpu_s_per_1000: f64,
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:9.0} IOPS {:9.1} MB/s", self.iops, self.mb_per_s)
    }
}

/// Runs a workload for some time. The CPU time includes what the array does afterwards to
/// put everything in its place.
pub fn run(host: &mut Host, control: &mut Control, case: Case, time: Duration) -> Result<Measured> {
    let mut load = Load::new(case, host.size(), time)?;
    let (begun, cpu) = (Instant::now(), cpu_time());
    pump(host, case.depth, &mut load)?;
    let seconds = begun.elapsed().as_secs_f64();
    control.request(&weft_host::ControlRequest::Quiesce)?;
    Ok(load.measured(seconds, cpu_time() - cpu))
}

/// Runs a workload in bursts for some time in all, with a pause after each that does not count. What the array does afterwards is
/// not waited for.
pub fn bursts(
    host: &mut Host,
    case: Case,
    time: Duration,
    burst: Duration,
    pause: impl Fn(),
) -> Result<Measured> {
    let mut load = Load::new(case, host.size(), Duration::ZERO)?;
    let (mut seconds, mut cpu) = (0.0, 0.0);
    while seconds < time.as_secs_f64() {
        let (begun, cpu_begun) = (Instant::now(), cpu_time());
        load.end = begun + burst;
        pump(host, case.depth, &mut load)?;
        seconds += begun.elapsed().as_secs_f64();
        cpu += cpu_time() - cpu_begun;
        pause();
    }
    Ok(load.measured(seconds, cpu))
}

/// CPU time that this process has used, in seconds.
fn cpu_time() -> f64 {
    let t = clock_gettime(ClockId::ProcessCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

struct Load {
    case: Case,
    blocks: u64,
    next: u64,
    end: Instant,
    rng: Rng,
    data: Bytes,
    latencies: Histogram<u64>,
}

impl Load {
    fn new(case: Case, size: u64, time: Duration) -> Result<Load> {
        let mut rng = Rng::with_seed(1994);
        let mut data = vec![0; 2 * case.block as usize];
        rng.fill(&mut data);
        Ok(Load {
            case,
            blocks: size / u64::from(case.block),
            next: 0,
            end: Instant::now() + time,
            rng,
            data: data.into(),
            latencies: Histogram::new(3)?,
        })
    }

    /// What it came to in so many seconds, and seconds of CPU time.
    fn measured(&self, seconds: f64, cpu: f64) -> Measured {
        let requests = self.latencies.len();
        Measured {
            iops: requests as f64 / seconds,
            mb_per_s: mb_per_s(requests * u64::from(self.case.block), seconds),
            mean_us: self.latencies.mean() / 1e3,
            p50_us: self.latencies.value_at_quantile(0.5) / 1000,
            p99_us: self.latencies.value_at_quantile(0.99) / 1000,
            cpu_s_per_1000: cpu / requests.max(1) as f64 * 1000.0,
        }
    }
}

impl Work for Load {
    fn next(&mut self) -> Option<ClientRequest> {
        if Instant::now() >= self.end {
            return None;
        }
        let block = match self.case.random {
            true => self.rng.u64(..self.blocks),
            false => self.next,
        };
        self.next = (block + 1) % self.blocks;
        let (length, offset) = (self.case.block, block * u64::from(self.case.block));
        if !self.case.write {
            return Some(ClientRequest::Read { offset, length });
        }
        // Another piece of the data each time, so that what is written changes.
        let at = self.rng.usize(..=length as usize / 8) * 8;
        let data = self.data.slice(at..at + length as usize);
        Some(ClientRequest::Write { offset, data, fua: false })
    }

    fn done(&mut self, _: u64, _: Data, took: Duration) -> Result<()> {
        Ok(self.latencies.record(took.as_nanos() as u64)?)
    }
}
