//! Load on a volume: requests over the NBD Unix socket, several in flight.

use std::collections::HashMap;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fastrand::Rng;
use weft_front::nbd::client::{Client, ClientRequest, Data};
use weft_terminal::{Counts, Stage};

/// A host's connection to a volume.
pub type Host = Client<UnixStream>;

/// An array that answers nothing for so long will not answer any more.
const PATIENCE: Duration = Duration::from_secs(30);

/// Connects to a volume through a Unix socket.
pub fn connect(socket: &Path, volume: &str) -> Result<Host> {
    let stream = UnixStream::connect(socket)
        .with_context(|| format!("cannot connect to {}", socket.display()))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Client::connect(stream, volume).with_context(|| {
        let (at, s) = (socket.display(), PATIENCE.as_secs());
        format!("cannot open volume '{volume}' at {at} (the array is given {s} s to answer)")
    })
}

/// A stream of requests, and what becomes of them.
pub trait Work {
    /// The next request; `None` if there are to be no more.
    fn next(&mut self) -> Option<ClientRequest>;

    /// A request at `offset` is done and took so long.
    fn done(&mut self, offset: u64, data: Data, took: Duration) -> Result<()>;
}

/// Keeps `depth` requests in flight until there are no more, and returns when the last is
/// done. That one fails is an error.
pub fn pump(host: &mut Host, depth: usize, work: &mut impl Work) -> Result<()> {
    let mut in_flight = HashMap::new();
    loop {
        while in_flight.len() < depth
            && let Some(request) = work.next()
        {
            let offset = offset_of(&request);
            let begun = Instant::now();
            in_flight.insert(host.send(request), (offset, begun));
        }
        if in_flight.is_empty() {
            return Ok(());
        }
        let completion = host.receive().with_context(|| {
            let (n, s) = (in_flight.len(), PATIENCE.as_secs());
            format!("the array did not finish {n} requests in flight (it is given {s} s)")
        })?;
        let Some((offset, begun)) = in_flight.remove(&completion.cookie) else {
            bail!("the array answered a request that was not sent");
        };
        match completion.result {
            Ok(data) => work.done(offset, data, begun.elapsed())?,
            Err(e) => bail!("the array failed a request at byte {offset}: {e}"),
        }
    }
}

fn offset_of(request: &ClientRequest) -> u64 {
    match *request {
        ClientRequest::Read { offset, .. }
        | ClientRequest::Write { offset, .. }
        | ClientRequest::Trim { offset, .. }
        | ClientRequest::WriteZeroes { offset, .. }
        | ClientRequest::Cache { offset, .. }
        | ClientRequest::BlockStatus { offset, .. } => offset,
        ClientRequest::Flush => 0,
    }
}

/// Writes the whole volume once, so that nothing that is measured is sparse; `stage` is what it is
/// called meanwhile.
pub fn fill(host: &mut Host, stage: &str) -> Result<()> {
    let size = host.size();
    let stage = Stage::new(stage, size, Counts::Bytes);
    pump(host, 8, &mut Writing { size, at: 0, rng: Rng::with_seed(7), stage: &stage })?;
    host.flush()?;
    stage.done("done");
    Ok(())
}

/// What is written at a time when a volume is filled, in bytes.
const PIECE: u64 = 1 << 20;

/// Writes the whole volume once.
struct Writing<'a> {
    size: u64,
    at: u64,
    rng: Rng,
    stage: &'a Stage,
}

impl Work for Writing<'_> {
    fn next(&mut self) -> Option<ClientRequest> {
        let offset = self.at;
        let length = PIECE.min(self.size - offset);
        if length == 0 {
            return None;
        }
        self.at += length;
        let mut data = vec![0; length as usize];
        self.rng.fill(&mut data);
        Some(ClientRequest::Write { offset, data: data.into(), fua: false })
    }

    fn done(&mut self, _: u64, _: Data, _: Duration) -> Result<()> {
        self.stage.advance(PIECE);
        Ok(())
    }
}
