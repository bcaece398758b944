//! An ordered checkpoint: the pages of a state, and a header that says that they are all there.
//!
//! There are two areas, used in turn. The pages of a checkpoint come after the header of the one
//! before, and its header comes after its pages. So the area that the header tells of is whole,
//! whenever the array is killed; and nothing is ever flushed, or waited for to keep the order.
//!
//!     checkpoint write ADDRESS,... VOLUME [SECONDS]
//!     checkpoint check ADDRESS,... VOLUME            that the last checkpoint is whole

use std::collections::VecDeque;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use weft_client::{Completion, Id, Volume};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const PAGE: u64 = 4096;
/// Pages of a checkpoint; as many as a request may come after.
const PAGES: u64 = 64;

/// Checkpoints that are under way at once.
const AHEAD: usize = 8;

/// Where page `page` of checkpoint `n` is. The header is before both areas.
fn place(n: u64, page: u64) -> u64 {
    // Apart from one another, so that they are on several disks.
    (1 << 20) + (n % 2) * (16 << 20) + page * 16 * PAGE
}

fn content(n: u64) -> Vec<u8> {
    n.to_le_bytes().repeat(PAGE as usize / 8)
}

fn number(bytes: &[u8]) -> Result<u64> {
    let n = u64::from_le_bytes(bytes[..8].try_into()?);
    if bytes != content(n) {
        return Err("a page is there in part".into());
    }
    Ok(n)
}

fn read(volume: &Volume, at: u64) -> Result<Completion> {
    Ok(volume.read(at, PAGE as u32, &[])?)
}

fn write(volume: &Volume, time: Duration) -> Result<()> {
    let end = Instant::now() + time;
    let begun = number(&read(volume, 0)?.wait()?)?;
    let (mut n, mut header): (u64, Option<Id>) = (begun, None);
    let mut under_way: VecDeque<Vec<Completion>> = VecDeque::new();
    while Instant::now() < end {
        n += 1;
        let before: Vec<Id> = header.into_iter().collect();
        let mut all = Vec::new();
        for page in 0..PAGES {
            all.push(volume.write(place(n, page), content(n), &before)?);
        }
        let pages: Vec<Id> = all.iter().map(Completion::id).collect();
        let last = volume.write(0, content(n), &pages)?;
        header = Some(last.id());
        all.push(last);
        under_way.push_back(all);
        if under_way.len() >= AHEAD {
            for write in under_way.pop_front().into_iter().flatten() {
                write.wait()?;
            }
        }
    }
    for write in under_way.into_iter().flatten() {
        write.wait()?;
    }
    println!("{} checkpoints of {PAGES} pages, none flushed", n - begun);
    Ok(())
}

fn check(volume: &Volume) -> Result<()> {
    let n = number(&read(volume, 0)?.wait()?)?;
    let pages = (0..PAGES).map(|page| read(volume, place(n, page))).collect::<Result<Vec<_>>>()?;
    for (page, found) in pages.into_iter().enumerate() {
        let found = number(&found.wait()?)?;
        if found != n {
            return Err(format!("checkpoint {n} is not whole: page {page} is of {found}").into());
        }
    }
    println!("checkpoint {n} is whole");
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
        _ => Err("usage: checkpoint write|check ADDRESS,... VOLUME [SECONDS]".into()),
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("checkpoint: {e}");
            ExitCode::FAILURE
        }
    }
}
