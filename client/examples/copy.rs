//! Copies a file to a volume, a volume to a file, or a volume to a volume, many pieces at a time.
//!
//!     copy SOURCE DESTINATION
//!
//! Each is a path, or a URI as `weft status` shows it with the volume's name behind:
//! weft://HOST:PORT/VOLUME or weft+unix:///VOLUME?socket=PATH.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::ExitCode;

use weft_client::{Completion, Volume};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Bytes of a piece, and pieces that are read ahead.
const PIECE: u64 = 1 << 20;
const AHEAD: usize = 8;

enum End {
    File(File),
    Volume(Volume),
}

/// A piece that is being read, or has been.
enum Piece {
    There(Vec<u8>),
    Coming(Completion),
}

/// The name of the volume in a URI, if it is one.
fn volume(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("weft://").or_else(|| text.strip_prefix("weft+unix://"))?;
    let (_, path) = rest.split_once('/')?;
    path.split('?').next()
}

impl End {
    fn open(text: &str, to_write: bool) -> Result<End> {
        Ok(match volume(text) {
            Some(name) => End::Volume(Volume::open(&[text], name)?),
            None if to_write => End::File(File::create(text)?),
            None => End::File(File::open(text)?),
        })
    }

    fn size(&self) -> Result<u64> {
        Ok(match self {
            End::File(file) => file.metadata()?.len(),
            End::Volume(volume) => volume.size(),
        })
    }

    fn read(&self, at: u64, length: u64) -> Result<Piece> {
        Ok(match self {
            End::File(file) => {
                let mut bytes = vec![0; length as usize];
                file.read_exact_at(&mut bytes, at)?;
                Piece::There(bytes)
            }
            End::Volume(volume) => Piece::Coming(volume.read(at, length as u32, &[])?),
        })
    }

    fn write(&self, at: u64, bytes: Vec<u8>, writing: &mut VecDeque<Completion>) -> Result<()> {
        match self {
            End::File(file) => file.write_all_at(&bytes, at)?,
            End::Volume(volume) if bytes.iter().all(|b| *b == 0) => {
                writing.push_back(volume.write_zeroes(at, bytes.len() as u64, &[])?);
            }
            End::Volume(volume) => writing.push_back(volume.write(at, bytes, &[])?),
        }
        Ok(())
    }
}

fn copy(from: &End, to: &End) -> Result<u64> {
    let size = from.size()?;
    if let End::Volume(volume) = to
        && volume.size() < size
    {
        return Err(format!("{size} bytes do not fit into {}", volume.size()).into());
    }
    let (mut reading, mut writing) = (VecDeque::new(), VecDeque::new());
    let mut next = 0;
    loop {
        while next < size && reading.len() < AHEAD {
            let length = PIECE.min(size - next);
            reading.push_back((next, from.read(next, length)?));
            next += length;
        }
        let Some((at, piece)) = reading.pop_front() else { break };
        let bytes = match piece {
            Piece::There(bytes) => bytes,
            Piece::Coming(read) => read.wait()?.to_vec(),
        };
        to.write(at, bytes, &mut writing)?;
        while writing.front().is_some_and(|w: &Completion| w.get().is_some()) {
            writing.pop_front().map(Completion::wait).transpose()?;
        }
    }
    match to {
        // The flush comes after the last writes, so that nobody waits for them here first.
        End::Volume(volume) => {
            let last: Vec<_> = writing.iter().map(Completion::id).collect();
            let mut flush = Vec::new();
            for some in last.chunks(volume.limits().after.into()) {
                flush.push(volume.flush(some)?);
            }
            for request in writing.into_iter().chain(flush) {
                request.wait()?;
            }
        }
        End::File(file) => file.sync_all()?,
    }
    Ok(size)
}

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [from, to] = &arguments[..] else {
        return Err("usage: copy SOURCE DESTINATION".into());
    };
    let (from, to) = (End::open(from, false)?, End::open(to, true)?);
    println!("{} bytes copied", copy(&from, &to)?);
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("copy: {e}");
            ExitCode::FAILURE
        }
    }
}
