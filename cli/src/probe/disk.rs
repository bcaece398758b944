//! What the disk under a directory does: direct reads and writes by size and depth, and flushes, and
//! a flash model's parameters that are like that.
//!
//! Each access in flight is a thread with a position of its own. Files are written once before
//! anything is measured, so that nothing is sparse.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use fastrand::Rng;
use rustix::fs::OFlags;
use serde::Serialize;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// What one channel of the model serves at a time: larger than what is measured for its latency,
/// so that an access is one channel's.
const UNIT: usize = 128 * KIB;

/// How accesses are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Case {
    pub write: bool,
    /// At random; otherwise in order, every thread in a part of its own.
    pub random: bool,
    pub bytes: usize,
    /// Accesses in flight.
    pub depth: usize,
    /// A flush after each write, and only that is timed.
    pub flush: bool,
}

/// What came out.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    #[serde(flatten)]
    pub case: Case,
    pub accesses_s: f64,
    pub mb_s: f64,
    pub mean_us: f64,
    /// Quantiles of [`QUANTILES`], in microseconds.
    pub quantiles_us: Vec<f64>,
}

/// The quantiles that are kept.
pub const QUANTILES: [f64; 8] = [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99];

const fn case(write: bool, random: bool, bytes: usize, depth: usize) -> Case {
    Case { write, random, bytes, depth, flush: false }
}

const CASES: [Case; 15] = [
    case(false, true, 4 * KIB, 1),
    case(false, true, 4 * KIB, 4),
    case(false, true, 4 * KIB, 16),
    case(false, true, 4 * KIB, 32),
    case(false, true, 64 * KIB, 1),
    case(false, true, 64 * KIB, 16),
    case(false, false, MIB, 4),
    case(true, true, 4 * KIB, 1),
    case(true, true, 4 * KIB, 4),
    case(true, true, 4 * KIB, 16),
    case(true, true, 4 * KIB, 32),
    case(true, true, 64 * KIB, 1),
    case(true, true, 64 * KIB, 16),
    case(true, false, MIB, 4),
    Case { flush: true, ..case(true, true, 4 * KIB, 1) },
];

/// Measures all cases on a file of so many bytes in a directory, each for so long.
///
/// # Errors
/// If the file cannot be made or used past the page cache.
pub fn measure(
    dir: &Path,
    size: u64,
    time: Duration,
    mut told: impl FnMut(&Measured),
) -> Result<Vec<Measured>> {
    let path = dir.join("probe.img");
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .custom_flags(OFlags::DIRECT.bits() as i32)
        .open(&path)
        .with_context(|| {
            format!("{}: direct I/O is not possible; choose another disk", path.display())
        })?;
    let mut piece = Aligned::new(MIB);
    for at in 0..size / MIB as u64 {
        file.write_all_at(piece.bytes(), at * MIB as u64)?;
    }
    file.sync_data()?;
    let mut all = Vec::new();
    for case in CASES {
        let measured = run(&file, size, case, time).with_context(|| path.display().to_string())?;
        told(&measured);
        all.push(measured);
    }
    Ok(all)
}

fn run(file: &File, size: u64, case: Case, time: Duration) -> Result<Measured> {
    let begun = Instant::now();
    let results: Vec<Result<Vec<Duration>>> = thread::scope(|scope| {
        let worker = |n| scope.spawn(move || work(file, size, case, n, begun + time));
        let threads: Vec<_> = (0..case.depth).map(worker).collect();
        threads.into_iter().map(|t| t.join().expect("a thread that measures")).collect()
    });
    let seconds = begun.elapsed().as_secs_f64();
    let mut times = results.into_iter().collect::<Result<Vec<_>>>()?.concat();
    times.sort_unstable();
    let micros = |d: &Duration| d.as_secs_f64() * 1e6;
    let at = |q: f64| micros(&times[((times.len() - 1) as f64 * q) as usize]);
    let accesses_s = times.len() as f64 / seconds;
    Ok(Measured {
        case,
        accesses_s,
        mb_s: accesses_s * case.bytes as f64 / 1e6,
        mean_us: times.iter().map(micros).sum::<f64>() / times.len() as f64,
        quantiles_us: QUANTILES.iter().map(|q| at(*q)).collect(),
    })
}

/// One access after the other until it is time to end, at least one.
fn work(file: &File, size: u64, case: Case, n: usize, end: Instant) -> Result<Vec<Duration>> {
    let mut rng = Rng::with_seed(n as u64);
    let mut buffer = Aligned::new(case.bytes);
    let blocks = size / case.bytes as u64;
    let mut next = blocks * n as u64 / case.depth as u64;
    let mut times = Vec::new();
    while times.is_empty() || Instant::now() < end {
        let block = if case.random { rng.u64(..blocks) } else { next % blocks };
        next += 1;
        let offset = block * case.bytes as u64;
        let mut begun = Instant::now();
        match case.write {
            true => file.write_all_at(buffer.bytes(), offset)?,
            false => file.read_exact_at(buffer.bytes(), offset)?,
        }
        if case.flush {
            begun = Instant::now();
            file.sync_data()?;
        }
        times.push(begun.elapsed());
    }
    Ok(times)
}

/// A buffer that begins where direct transfers may.
struct Aligned {
    memory: Vec<u8>,
    len: usize,
}

impl Aligned {
    fn new(len: usize) -> Aligned {
        Aligned { memory: vec![1; len + 4096], len }
    }

    fn bytes(&mut self) -> &mut [u8] {
        let skip = self.memory.as_ptr().align_offset(4096);
        &mut self.memory[skip..skip + self.len]
    }
}

/// A flash model's parameters.
#[derive(Clone, Debug, Serialize)]
pub struct Flash {
    pub channels: u32,
    /// Milliseconds at each of [`QUANTILES`], and at 1.
    pub read_ms: Vec<f64>,
    pub write_ms: Vec<f64>,
    pub flush_ms: Vec<f64>,
    pub read_bytes_per_s: u64,
    pub write_bytes_per_s: u64,
}

/// Fits a flash model: latencies from 4 KiB at depth 1, less their transfer; bandwidth from the best
/// of large accesses; as many channels as serve the most 4 KiB reads a second at that latency.
pub fn fit(all: &[Measured]) -> Flash {
    let of = |c: Case| all.iter().find(|m| m.case == c).expect("all cases are measured");
    let best = |write: bool, f: fn(&Measured) -> f64| {
        all.iter().filter(|m| m.case.write == write && !m.case.flush).map(f).fold(0.0, f64::max)
    };
    let (read_mb_s, write_mb_s) = (best(false, |m| m.mb_s), best(true, |m| m.mb_s));
    let latency = |m: &Measured, mb_s: f64| -> Vec<f64> {
        let transfer = m.case.bytes as f64 / mb_s;
        let last = m.quantiles_us.last().copied().unwrap_or(0.0);
        // What is beyond 99 in 100 is left out: it is the rare hiccup of a machine.
        let points = m.quantiles_us.iter().copied().chain([last]);
        points.map(|us| (us - transfer).max(0.0) / 1e3).collect()
    };
    let read = of(case(false, true, 4 * KIB, 1));
    let write = of(case(true, true, 4 * KIB, 1));
    let channels = best(false, |m| m.accesses_s) * read.mean_us / 1e6;
    let flush = of(Case { flush: true, ..case(true, true, 4 * KIB, 1) });
    Flash {
        channels: channels.round().max(1.0) as u32,
        read_ms: latency(read, read_mb_s),
        write_ms: latency(write, write_mb_s),
        flush_ms: latency(flush, f64::INFINITY),
        read_bytes_per_s: (read_mb_s * 1e6) as u64,
        write_bytes_per_s: (write_mb_s * 1e6) as u64,
    }
}

impl Flash {
    /// The text of a parameter file of a device of so many bytes.
    pub fn parameter_file(&self, about: &str, capacity: u64) -> String {
        let points = |ms: &[f64]| {
            let quantiles = QUANTILES.iter().chain([&1.0]);
            let point = |(q, ms)| format!("{{ quantile = {q:?}, ms = {ms:.4} }}");
            let points: Vec<String> = quantiles.zip(ms).map(point).collect();
            format!("[\n    {},\n]", points.join(",\n    "))
        };
        format!(
            "name = \"probed\"\nabout = \"{about}\"\n\n[flash]\ncapacity_bytes = {capacity}\n\
             sector_bytes = 4096\nchannels = {}\nunit_bytes = {UNIT}\nread_latency = {}\n\
             write_latency = {}\nflush_latency = {}\n\n[bus]\nread_bytes_per_s = {}\n\
             write_bytes_per_s = {}\npiece_bytes = {UNIT}\n",
            self.channels,
            points(&self.read_ms),
            points(&self.write_ms),
            points(&self.flush_ms),
            self.read_bytes_per_s,
            self.write_bytes_per_s,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a device with this latency (microseconds), so many channels and this bandwidth would do.
    fn ideal(latency: f64, channels: f64, mb_s: f64) -> Vec<Measured> {
        let measured = |case: Case| {
            let time = latency + case.bytes as f64 / mb_s;
            let busy = (case.depth as f64 / time).min(channels / latency) * 1e6;
            let accesses_s = busy.min(mb_s * 1e6 / case.bytes as f64);
            let quantiles_us = vec![time; QUANTILES.len()];
            let mb_s = accesses_s * case.bytes as f64 / 1e6;
            Measured { case, accesses_s, mb_s, mean_us: time, quantiles_us }
        };
        CASES.map(measured).to_vec()
    }

    #[test]
    fn what_is_fitted_is_what_was_there() {
        let flash = fit(&ideal(80.0, 8.0, 1000.0));
        assert_eq!(flash.channels, 8);
        assert!((flash.read_ms[3] - 0.08).abs() < 0.005, "{flash:?}");
        assert!((flash.read_bytes_per_s as f64 / 1e9 - 1.0).abs() < 0.05, "{flash:?}");
        let text = flash.parameter_file("a test", 1 << 40);
        let spec = weft_model::spec::Spec::parse(&text).unwrap();
        assert!(matches!(spec.device, weft_model::spec::Device::Flash(f) if f.channels == 8));
    }
}
