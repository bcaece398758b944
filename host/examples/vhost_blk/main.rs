//! A client of vhost-user-blk, for tests and measurements: `vhost_blk SOCKET COMMAND ...`.
//!
//! | command | does |
//! |---|---|
//! | `info` | prints the disk's size, block size and name, and whether it is read-only |
//! | `write OFFSET` | writes what comes on standard input |
//! | `read OFFSET LENGTH` | prints bytes |
//! | `discard OFFSET LENGTH`, `zeroes OFFSET LENGTH` | do so |
//! | `grown` | says that it waits, and then the size once the disk has another |
//! | `verify` | writes and reads until standard input ends, and compares every byte, whatever becomes of the other side |
//! | `bench NBD-SOCKET VOLUME PID` | times reads and writes beside NBD, and the processor time that the process PID takes |

mod bench;
#[cfg_attr(not(test), allow(dead_code))]
mod driver;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::io::{Read, Write, stdin, stdout};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use driver::{DISCARD, Driver, FLUSH, LONGEST, NAME, READ, READ_ONLY, WRITE, ZEROES, range};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("vhost_blk: {e}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[&str]) -> Result<()> {
    let (socket, command) = match args {
        [socket, command @ ..] => (Path::new(socket), command),
        [] => return Err("give a socket and a command".into()),
    };
    match command {
        ["info"] => info(&mut Driver::connect(socket, 1)?),
        ["write", offset] => write(&mut Driver::connect(socket, 1)?, offset.parse()?),
        ["read", offset, len] => {
            read(&mut Driver::connect(socket, 1)?, offset.parse()?, len.parse()?)
        }
        ["discard", offset, len] => change(socket, DISCARD, offset.parse()?, len.parse()?),
        ["zeroes", offset, len] => change(socket, ZEROES, offset.parse()?, len.parse()?),
        ["grown"] => grown(&mut Driver::connect(socket, 1)?),
        ["verify"] => verify(&mut Driver::connect(socket, 2)?),
        ["bench", nbd, volume, pid] => bench::run(socket, Path::new(nbd), volume, pid.parse()?),
        _ => Err("there is no such command".into()),
    }
}

fn done(driver: &mut Driver, kind: u32, at: u64, data: &[u8], wanted: usize) -> Result<Vec<u8>> {
    let answer = driver.ask(0, kind, at / 512, data, wanted)?;
    match answer.status {
        0 => Ok(answer.data),
        status => Err(format!("status {status}").into()),
    }
}

fn info(driver: &mut Driver) -> Result<()> {
    let space = driver.config()?;
    let block = u32::from_le_bytes(*space[20..].first_chunk().expect("60 bytes"));
    let name = done(driver, NAME, 0, &[], 20)?;
    let name = String::from_utf8_lossy(&name);
    let access = if driver.features & READ_ONLY != 0 { "read-only" } else { "read-write" };
    println!("{} {block} {} {access}", driver.size()?, name.trim_end_matches('\0'));
    Ok(())
}

fn write(driver: &mut Driver, offset: u64) -> Result<()> {
    let mut data = Vec::new();
    stdin().read_to_end(&mut data)?;
    for (n, piece) in data.chunks(LONGEST).enumerate() {
        done(driver, WRITE, offset + (n * LONGEST) as u64, piece, 0)?;
    }
    done(driver, FLUSH, 0, &[], 0)?;
    Ok(())
}

fn read(driver: &mut Driver, offset: u64, len: u64) -> Result<()> {
    for at in (0..len).step_by(LONGEST) {
        let piece = (len - at).min(LONGEST as u64) as usize;
        stdout().write_all(&done(driver, READ, offset + at, &[], piece)?)?;
    }
    Ok(())
}

fn change(socket: &Path, kind: u32, offset: u64, len: u64) -> Result<()> {
    let mut driver = Driver::connect(socket, 1)?;
    let sectors = u32::try_from(len / 512)?;
    done(&mut driver, kind, 0, &range(offset / 512, sectors), 0)?;
    Ok(())
}

fn grown(driver: &mut Driver) -> Result<()> {
    println!("waits at {}", driver.size()?);
    driver.wait_for_change()?;
    println!("{}", driver.size()?);
    Ok(())
}

/// Bytes of a block, and how many there are of each queue's.
const BLOCK: usize = 4096;
const BLOCKS: usize = 1024;

/// Each queue has its own blocks, and one request for each at a time.
fn verify(driver: &mut Driver) -> Result<()> {
    let is_over = Arc::new(AtomicBool::new(false));
    let tells = is_over.clone();
    std::thread::spawn(move || {
        let _ = stdin().read_to_end(&mut Vec::new());
        tells.store(true, Ordering::Relaxed);
    });
    let mut random = fastrand::Rng::with_seed(7);
    let mut content = vec![[0_u32; BLOCKS]; 2];
    let mut busy: Vec<Vec<Option<(usize, u32, u32)>>> =
        vec![vec![None; usize::from(driver::SLOTS)]; 2];
    let (mut count, mut longest) = (0_u32, std::time::Duration::ZERO);
    for block in 0..BLOCKS {
        for queue in 0..2 {
            done_at(driver, queue, block, &[0; BLOCK])?;
        }
    }
    while !is_over.load(Ordering::Relaxed) || driver.unanswered(0) + driver.unanswered(1) > 0 {
        for queue in 0..2 {
            while !is_over.load(Ordering::Relaxed) && driver.unanswered(queue) < 16 {
                let block = random.usize(0..BLOCKS);
                if busy[queue].iter().flatten().any(|(b, ..)| *b == block) {
                    continue;
                }
                count += 1;
                if count.is_multiple_of(500) {
                    println!("{count} requests over {} connections", driver.connects);
                }
                let is_write = random.bool();
                let new = if is_write { count } else { content[queue][block] };
                let sector = sector(queue, block);
                let slot = match is_write {
                    true => driver.submit(queue, WRITE, sector, &filled(new), 0),
                    false => driver.submit(queue, READ, sector, &[], BLOCK),
                };
                let kind = if is_write { WRITE } else { READ };
                busy[queue][usize::from(slot.ok_or("no room in the queue")?)] =
                    Some((block, kind, new));
            }
            driver.kick(queue)?;
            let since = std::time::Instant::now();
            let answer = match driver.unanswered(queue) {
                0 => continue,
                _ => driver.wait(queue)?,
            };
            longest = longest.max(since.elapsed());
            let place = &mut busy[queue][usize::from(answer.slot)];
            let (block, kind, new) = place.take().ok_or("an answer to nothing")?;
            if answer.status != 0 {
                return Err(format!("status {} for block {block}", answer.status).into());
            }
            if kind == READ && answer.data != filled(new) {
                return Err(
                    format!("block {block} of queue {queue} is not what was written").into()
                );
            }
            content[queue][block] = new;
        }
    }
    for (queue, blocks) in content.iter().enumerate() {
        for (block, write) in blocks.iter().enumerate() {
            let answer = driver.ask(queue, READ, sector(queue, block), &[], BLOCK)?;
            if answer.status != 0 || answer.data != filled(*write) {
                return Err(format!("block {block} of queue {queue} has changed").into());
            }
        }
    }
    println!(
        "{count} requests over {} connections, the longest took {longest:.1?}",
        driver.connects
    );
    Ok(())
}

fn done_at(driver: &mut Driver, queue: usize, block: usize, data: &[u8]) -> Result<()> {
    match driver.ask(queue, WRITE, sector(queue, block), data, 0)?.status {
        0 => Ok(()),
        status => Err(format!("status {status}").into()),
    }
}

fn sector(queue: usize, block: usize) -> u64 {
    ((queue * BLOCKS + block) * BLOCK / 512) as u64
}

/// What a block holds after a write; zeros before the first.
fn filled(write: u32) -> Vec<u8> {
    write.to_le_bytes().repeat(BLOCK / 4)
}
