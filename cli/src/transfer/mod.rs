//! `weft volume export` and `import`, and `weft mirror`: snapshots as streams, and from one cluster to another.
//!
//! Content goes over the native protocol, on connections to the control socket, so no process needs to serve hosts for
//! it and nothing is asked of the lists of hosts.

mod export;
mod import;
mod mirror;
mod stream;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use signal_hook::consts::{SIGINT, SIGTERM};
use weft_bytes::escape::in_uri;
use weft_client::{Options, Volume};
use weft_host::Control;
use weft_terminal::bytes;

pub use export::Export;
pub use import::Import;
pub use mirror::Mirror;

/// How long a process that does not answer is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// Whether the command was interrupted, and whether it shows its progress.
#[derive(Clone, Debug, Default)]
pub struct Stopped {
    signal: Arc<AtomicBool>,
    shows: bool,
}

impl Stopped {
    /// From now on the first signal ends the command in good order, and the second one at once.
    pub fn by_signals(shows: bool) -> Result<Stopped> {
        let stopped = Stopped { signal: Arc::default(), shows };
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register_conditional_shutdown(signal, 1, stopped.signal.clone())?;
            signal_hook::flag::register(signal, stopped.signal.clone())?;
        }
        Ok(stopped)
    }

    /// Whether it was.
    pub fn is_set(&self) -> bool {
        self.signal.load(Ordering::Relaxed)
    }

    /// An error if it was.
    pub fn check(&self, what: &str) -> Result<()> {
        if self.is_set() {
            bail!("{what} was interrupted");
        }
        Ok(())
    }
}

/// Opens a volume or a snapshot through the control socket.
fn open(control: &Control, name: &str) -> Result<Volume> {
    let path = std::os::unix::ffi::OsStrExt::as_bytes(control.path().as_os_str());
    let address = format!("weft+control:///?socket={}", in_uri(path));
    let options = Options { patience: PATIENCE, ..Options::default() };
    let opening = Volume::opening(&[address], name, options)?;
    opening.wait().with_context(|| format!("'{name}' cannot be opened"))
}

/// The amount transferred, in words.
fn in_words(data: u64, zeros: u64) -> String {
    match zeros {
        0 => bytes(data),
        zeros => format!("{}, and {} of zeros", bytes(data), bytes(zeros)),
    }
}
