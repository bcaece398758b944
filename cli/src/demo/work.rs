//! What the demo does to its volume.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use anyhow::{Result, bail};
use bytes::Bytes;
use fastrand::Rng;
use weft_front::nbd::client::{ClientRequest, Data};
use weft_terminal::Stage;

use weft_trial::load::Work;

const PIECE: usize = 1 << 20;

/// Writes the shadow to the volume, in order.
pub struct Fill<'a> {
    shadow: &'a [u8],
    at: usize,
    stage: &'a Stage,
}

impl<'a> Fill<'a> {
    /// All of it.
    pub fn new(shadow: &'a [u8], stage: &'a Stage) -> Fill<'a> {
        Fill { shadow, at: 0, stage }
    }
}

impl Work for Fill<'_> {
    fn next(&mut self) -> Option<ClientRequest> {
        let end = (self.at + PIECE).min(self.shadow.len());
        let data = self.shadow.get(self.at..end).filter(|d| !d.is_empty())?;
        let offset = self.at as u64;
        self.at = end;
        Some(ClientRequest::Write { offset, data: Bytes::copy_from_slice(data), fua: false })
    }

    fn done(&mut self, _: u64, _: Data, _: Duration) -> Result<()> {
        self.stage.advance(PIECE as u64);
        Ok(())
    }
}

/// Reads everything and compares it with the shadow.
pub struct Compare<'a> {
    shadow: &'a [u8],
    at: usize,
    compared: u64,
    stage: &'a Stage,
}

impl<'a> Compare<'a> {
    /// All of it.
    pub fn new(shadow: &'a [u8], stage: &'a Stage) -> Compare<'a> {
        Compare { shadow, at: 0, compared: 0, stage }
    }

    /// So many bytes were equal.
    pub fn compared(&self) -> u64 {
        self.compared
    }
}

impl Work for Compare<'_> {
    fn next(&mut self) -> Option<ClientRequest> {
        let length = PIECE.min(self.shadow.len() - self.at);
        let offset = self.at as u64;
        self.at += length;
        (length > 0).then_some(ClientRequest::Read { offset, length: length as u32 })
    }

    fn done(&mut self, offset: u64, data: Data, _: Duration) -> Result<()> {
        let Data::Read(data) = data else {
            bail!("a read at byte {offset} was answered without data");
        };
        let expected = &self.shadow[offset as usize..][..data.len()];
        if let Some(n) = (0..data.len()).find(|&n| data[n] != expected[n]) {
            bail!("byte {} is wrong: the array lost or damaged data", offset + n as u64);
        }
        self.compared += data.len() as u64;
        self.stage.advance(data.len() as u64);
        Ok(())
    }
}

/// Something that is to happen in the middle of the writes.
pub struct Cue {
    /// Told when a third of them are done.
    pub when: Sender<()>,
    /// The writes do not end before it has happened.
    pub done: Arc<AtomicBool>,
}

/// Writes of 4 to 64 KiB at random, none overlapping another in flight; the shadow follows.
pub struct RandomWrites<'a> {
    shadow: &'a mut [u8],
    /// Where the shadow begins in the volume.
    base: u64,
    left: u64,
    written: u64,
    rng: &'a mut Rng,
    stage: &'a Stage,
    /// Lengths by offset.
    in_flight: HashMap<u64, u64>,
    /// Told when only so much is left.
    tell: Option<(Sender<()>, u64)>,
    /// The writes go on until this is so.
    until: Option<Arc<AtomicBool>>,
}

impl<'a> RandomWrites<'a> {
    /// `total` bytes of writes, or more if what happens `at_third` takes longer.
    pub fn new(
        shadow: &'a mut [u8],
        base: u64,
        total: u64,
        rng: &'a mut Rng,
        stage: &'a Stage,
        at_third: Option<Cue>,
    ) -> RandomWrites<'a> {
        let (left, in_flight) = (total, HashMap::new());
        let (tell, until) = at_third.map(|c| ((c.when, total / 3 * 2), c.done)).unzip();
        RandomWrites { shadow, base, left, written: 0, rng, stage, in_flight, tell, until }
    }

    /// So many bytes were written.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// A range that no write in flight touches.
    fn place(&mut self, length: u64) -> u64 {
        loop {
            let sectors = (self.shadow.len() as u64 - length) / 4096;
            let at = self.rng.u64(..=sectors) * 4096;
            if self.in_flight.iter().all(|(o, l)| at + length <= *o || o + l <= at) {
                return at;
            }
        }
    }
}

impl Work for RandomWrites<'_> {
    fn next(&mut self) -> Option<ClientRequest> {
        let waits = self.until.as_ref().is_some_and(|done| !done.load(Ordering::Acquire));
        if self.left == 0 && !waits {
            return None;
        }
        let length = self.rng.u64(1..=16) * 4096;
        self.left = self.left.saturating_sub(length);
        let at = self.place(length);
        self.in_flight.insert(at, length);
        let range = &mut self.shadow[at as usize..(at + length) as usize];
        self.rng.fill(range);
        let data = Bytes::copy_from_slice(range);
        Some(ClientRequest::Write { offset: self.base + at, data, fua: false })
    }

    fn done(&mut self, offset: u64, _: Data, _: Duration) -> Result<()> {
        let length = self.in_flight.remove(&(offset - self.base)).unwrap_or(0);
        self.written += length;
        self.stage.advance(length);
        if let Some((sender, _)) = self.tell.take_if(|(_, when)| self.left <= *when) {
            // If nobody listens, whoever should kill the node has failed and says so.
            let _ = sender.send(());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_terminal::Counts;

    #[test]
    fn one_wrong_byte_is_an_error() {
        let shadow = vec![7; 2 * PIECE];
        let stage = Stage::new("", 0, Counts::Bytes);
        let mut work = Compare::new(&shadow, &stage);
        let mut data = vec![7; PIECE];
        let took = Duration::ZERO;
        work.done(PIECE as u64, Data::Read(data.clone().into()), took).unwrap();
        assert_eq!(work.compared(), PIECE as u64);
        data[5] = 8;
        let error = work.done(0, Data::Read(data.into()), took).unwrap_err().to_string();
        assert!(error.contains("byte 5 is wrong"), "{error}");
    }
}
