//! `weft volume copy`: copies a volume to another, piece by piece, by several requests at a time.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use weft_host::{Control, ControlRequest};
use weft_terminal::{Counts, Stage, bytes, say, say_json};

use crate::args::{self, Common};
use crate::output::NO_THREAD;

/// Approximate bytes of a request.
const PIECE: u64 = 16 << 20;
/// Requests in flight.
const AT_ONCE: usize = 4;
/// How often a request that waits for the rate checks for an interruption.
const LOOK: Duration = Duration::from_millis(100);

/// The volumes to copy.
#[derive(Debug, Args)]
pub struct Copy {
    /// Volume to read
    source: String,
    /// Volume to write, at least as large, that no host uses
    destination: String,
    /// Replace the content of the destination
    #[arg(long)]
    overwrite: bool,
    /// Byte to start at, to resume an interrupted copy
    #[arg(long, value_name = "BYTE", default_value = "0", value_parser = args::size)]
    from: u64,
    /// Maximum bytes per second, such as 50M [default: no limit]
    #[arg(long, value_parser = rate)]
    rate: Option<u64>,
    #[command(flatten)]
    common: Common,
}

/// Reads a rate in bytes a second.
fn rate(text: &str) -> Result<u64, String> {
    match args::size(text)? {
        0 => Err("the rate cannot be 0; give a rate such as 50M".to_string()),
        rate => Ok(rate),
    }
}

impl Copy {
    /// Copies, and prints how much.
    pub(super) fn run(&self) -> Result<ExitCode> {
        let mut control = self.common.target.connect()?;
        let (size, piece) = self.look(&mut control)?;
        let work = Work::new(self.from, size, piece);
        let is_stopped = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // The first signal lets requests in flight end, the second one ends the process.
            signal_hook::flag::register_conditional_shutdown(signal, 1, is_stopped.clone())?;
            signal_hook::flag::register(signal, is_stopped.clone())?;
        }
        let name = format!("copying {} to {}", self.source, self.destination);
        let stage = Stage::new(name, size, Counts::Bytes);
        stage.at(self.from);
        let begun = Instant::now();
        let connections = (0..AT_ONCE).map(|_| self.common.target.connect());
        let connections = connections.collect::<Result<Vec<Control>>>()?;
        let result = thread::scope(|scope| {
            let start = |control: Control| {
                let (work, stage, is_stopped) = (&work, &stage, &*is_stopped);
                let run = move || self.copy_pieces(control, work, stage, (begun, is_stopped));
                let started = thread::Builder::new().spawn_scoped(scope, run).context(NO_THREAD);
                started.inspect_err(|_| work.stop())
            };
            let workers: Vec<_> = connections.into_iter().map(start).collect();
            let join = |worker: Result<thread::ScopedJoinHandle<'_, Result<()>>>| {
                worker?.join().unwrap_or_else(|_| bail!("a request ended without an answer"))
            };
            let results: Vec<Result<()>> = workers.into_iter().map(join).collect();
            results.into_iter().collect::<Result<()>>()
        });
        let Progress { copied, zeroed, .. } = work.progress();
        let done = work.done_until();
        let result = result.and_then(|()| match done < size {
            true => bail!("the copy was interrupted"),
            false => Ok(()),
        });
        if let Err(e) = result {
            stage.done("not finished");
            return Err(match done > self.from {
                true => e.context(format!(
                    "copied up to byte {done}; resume with `weft volume copy {} {} --from {done}`",
                    self.source, self.destination
                )),
                false => e,
            });
        }
        stage.done(format!("{} copied, {} zeroed", bytes(copied), bytes(zeroed)));
        match self.common.json {
            true => say_json(json!({ "copied": copied, "zeroed": zeroed }))?,
            false => say(format!("volume {} is copied to {}", self.source, self.destination))?,
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Checks that the copy is possible. Returns the size of the source and of a piece: whole stripes of the destination.
    fn look(&self, control: &mut Control) -> Result<(u64, u64)> {
        let (source, destination) = (&self.source, &self.destination);
        let volumes = control.status()?.volumes;
        let named = |name: &String| volumes.iter().find(|v| v.name == *name);
        let Some(from) = named(source) else { bail!("there is no volume '{source}'") };
        ensure!(self.from < from.size, "volume '{source}' ends at byte {}", from.size);
        if named(destination).is_some_and(|v| v.snapshot_of.is_some()) {
            bail!("'{destination}' is a snapshot, which does not change; copy to another volume");
        }
        if named(destination).is_none() {
            let size = from.size;
            bail!(
                "there is no volume '{destination}'; create it with `weft volume create {destination} {size}`, in a layout of your choice"
            );
        }
        let usage = control.request(&ControlRequest::VolumeUsage { name: destination.clone() })?;
        let [used, stripe] = ["used", "stripe_bytes"].map(|key| number(&usage, key));
        if source != destination && used > 0 && !self.overwrite && self.from == 0 {
            bail!(
                "volume '{destination}' has {} of content; give another volume, or --overwrite to replace that",
                bytes(used)
            );
        }
        Ok((from.size, (PIECE / stripe.max(1)).max(1) * stripe.max(1)))
    }

    /// Copies pieces as long as there are any.
    fn copy_pieces(
        &self,
        mut control: Control,
        work: &Work,
        stage: &Stage,
        (begun, is_stopped): (Instant, &AtomicBool),
    ) -> Result<()> {
        while let Some((offset, length)) = work.next() {
            while let Some(rest) = waits(self.rate, offset - self.from, begun.elapsed()) {
                if is_stopped.load(Ordering::Relaxed) {
                    return Ok(());
                }
                thread::sleep(rest.min(LOOK));
            }
            if is_stopped.load(Ordering::Relaxed) {
                return Ok(());
            }
            let (source, destination) = (self.source.clone(), self.destination.clone());
            let request = ControlRequest::VolumeCopy { source, destination, offset, length };
            let answer = control.request(&request).inspect_err(|_| work.stop())?;
            work.done(offset, &answer);
            stage.advance(length);
        }
        Ok(())
    }
}

/// How long a piece must wait for the rate, given the bytes before it and the time since the start.
fn waits(rate: Option<u64>, before: u64, elapsed: Duration) -> Option<Duration> {
    let due = Duration::from_secs_f64(before as f64 / rate? as f64);
    due.checked_sub(elapsed).filter(|rest| !rest.is_zero())
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or(0)
}

/// The pieces that remain, and the progress.
struct Work {
    size: u64,
    piece: u64,
    state: Mutex<Progress>,
}

#[derive(Clone, Default)]
struct Progress {
    /// Where the next piece begins.
    next: u64,
    /// The pieces in flight, by their first byte.
    in_work: BTreeSet<u64>,
    copied: u64,
    zeroed: u64,
}

impl Work {
    fn new(from: u64, size: u64, piece: u64) -> Work {
        Work { size, piece, state: Mutex::new(Progress { next: from, ..Progress::default() }) }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, Progress> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Takes the next piece: its first byte and its length. Pieces end at multiples of their size.
    fn next(&self) -> Option<(u64, u64)> {
        let mut state = self.state();
        let offset = state.next;
        let end = ((offset / self.piece + 1) * self.piece).min(self.size);
        (offset < end).then(|| {
            state.next = end;
            state.in_work.insert(offset);
            (offset, end - offset)
        })
    }

    /// No further piece is begun.
    fn stop(&self) {
        let mut state = self.state();
        // The first piece that was not begun stays unfinished.
        let next = state.next;
        if next < self.size {
            state.in_work.insert(next);
            state.next = self.size;
        }
    }

    fn done(&self, offset: u64, answer: &Value) {
        let mut state = self.state();
        state.in_work.remove(&offset);
        state.copied += number(answer, "copied");
        state.zeroed += number(answer, "zeroed");
    }

    /// Every byte before this one is copied.
    fn done_until(&self) -> u64 {
        let state = self.state();
        state.in_work.first().copied().unwrap_or(state.next)
    }

    fn progress(&self) -> Progress {
        self.state().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_ends_where_the_first_piece_is_missing() {
        let work = Work::new(5, 35, 10);
        let pieces: Vec<_> = std::iter::from_fn(|| work.next()).collect();
        assert_eq!(pieces, [(5, 5), (10, 10), (20, 10), (30, 5)]);
        let answer = json!({ "copied": 3, "zeroed": 2 });
        assert_eq!(work.done_until(), 5);
        work.done(10, &answer);
        assert_eq!(work.done_until(), 5, "the first piece is still in work");
        work.done(5, &answer);
        assert_eq!(work.done_until(), 20);
        work.done(20, &answer);
        work.done(30, &answer);
        assert_eq!(
            (work.done_until(), work.progress().copied, work.progress().zeroed),
            (35, 12, 8)
        );
    }

    #[test]
    fn a_copy_that_stops_is_resumed_where_it_stopped() {
        let work = Work::new(0, 35, 10);
        let first = work.next().unwrap();
        work.stop();
        assert_eq!(work.next(), None);
        work.done(first.0, &json!({}));
        assert_eq!(work.done_until(), 10);
    }

    #[test]
    fn the_rate_spreads_pieces_over_time() {
        let seconds = Duration::from_secs;
        assert_eq!(waits(None, 900, seconds(0)), None);
        assert_eq!(waits(Some(10), 0, seconds(0)), None);
        assert_eq!(waits(Some(10), 100, seconds(4)), Some(seconds(6)));
        assert_eq!(waits(Some(10), 100, seconds(10)), None);
    }
}
