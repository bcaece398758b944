//! A write-ahead log that never flushes and never waits.
//!
//! Each record says what is about to be written; the data come after their record. So data are
//! there only if their record is, whenever the array is killed.
//!
//!     wal write ADDRESS,... VOLUME [SECONDS]     logs and writes, and says how much
//!     wal check ADDRESS,... VOLUME               that no data are there without their record

use std::collections::VecDeque;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use weft_client::{Completion, Volume};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The log: so many records, used in turn.
const RECORDS: u64 = 1024;
const RECORD: u64 = 4096;
/// The data behind it: so many places, of two sectors each.
const PLACES: u64 = 4096;
const PLACE: u64 = 8192;
const DATA: u64 = RECORDS * RECORD;

/// Steps that are under way at once. A record is used again only when its data are written.
const AHEAD: usize = 256;

/// The bytes of step `n`: its number, all over.
fn content(n: u64, length: u64) -> Vec<u8> {
    n.to_le_bytes().repeat(length as usize / 8)
}

/// The step whose bytes these are, if they are of one.
fn step(bytes: &[u8]) -> Option<u64> {
    let n = u64::from_le_bytes(bytes[..8].try_into().ok()?);
    (bytes == content(n, bytes.len() as u64)).then_some(n)
}

/// Where the data of a step go: all over the place.
fn place(n: u64) -> u64 {
    DATA + n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % PLACES * PLACE
}

fn record(n: u64) -> u64 {
    n % RECORDS * RECORD
}

fn write(volume: &Volume, time: Duration) -> Result<()> {
    let end = Instant::now() + time;
    // Goes on where the log ends.
    let mut n = log(volume)?.into_iter().max().unwrap_or(0);
    let mut under_way: VecDeque<(Completion, Completion)> = VecDeque::new();
    let begun = n;
    while Instant::now() < end {
        n += 1;
        let log = volume.write(record(n), content(n, RECORD), &[])?;
        let data = volume.write(place(n), content(n, PLACE), &[log.id()])?;
        under_way.push_back((log, data));
        if under_way.len() >= AHEAD
            && let Some((log, data)) = under_way.pop_front()
        {
            log.wait()?;
            data.wait()?;
        }
    }
    for (log, data) in under_way {
        log.wait()?;
        data.wait()?;
    }
    println!("{} steps logged and written, none flushed", n - begun);
    Ok(())
}

/// The steps in the log.
fn log(volume: &Volume) -> Result<Vec<u64>> {
    let bytes = volume.read(0, (RECORDS * RECORD) as u32, &[])?.wait()?;
    let steps = bytes.chunks(RECORD as usize).map(step).collect::<Option<Vec<u64>>>();
    Ok(steps.ok_or("a record is there in part")?)
}

fn check(volume: &Volume) -> Result<()> {
    let log = log(volume)?;
    let mut found = 0;
    for at in (DATA..DATA + PLACES * PLACE).step_by(1 << 20) {
        let bytes = volume.read(at, 1 << 20, &[])?.wait()?;
        for (m, place) in bytes.chunks(PLACE as usize).enumerate() {
            let m = at + m as u64 * PLACE;
            let n = step(place).ok_or_else(|| format!("the data at {m} are there in part"))?;
            // The record of a later step has taken its place at most.
            if n > log[(n % RECORDS) as usize] {
                return Err(format!("the data of step {n} are there, and its record is not").into());
            }
            found += u64::from(n > 0);
        }
    }
    println!("{found} places written, all with their records");
    Ok(())
}

/// Opens a volume at the first of several addresses, with commas between them.
fn open(addresses: &str, name: &str) -> Result<Volume> {
    let addresses: Vec<&str> = addresses.split(',').collect();
    Ok(Volume::open(&addresses, name)?)
}

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["write", at, name] => write(&open(at, name)?, Duration::from_secs(5)),
        ["write", at, name, seconds] => {
            write(&open(at, name)?, Duration::from_secs_f64(seconds.parse()?))
        }
        ["check", at, name] => check(&open(at, name)?),
        _ => {
            Err("usage: wal write ADDRESS,... VOLUME [SECONDS], or wal check ADDRESS,... VOLUME"
                .into())
        }
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("wal: {e}");
            ExitCode::FAILURE
        }
    }
}
