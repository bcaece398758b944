//! `weft volume export` and `import`, and `weft mirror`: snapshots as streams, and from one cluster to another.
//!
//! Content goes over the native protocol, on connections to the control socket, so no process needs to serve hosts for
//! it and nothing is asked of the lists of hosts.

mod export;
mod import;
mod mirror;
mod stream;

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use signal_hook::consts::{SIGINT, SIGTERM};
use weft_bytes::escape::in_uri;
use weft_client::{Options, Volume};
use weft_host::status::VolumeStatus;
use weft_host::{Control, ControlRequest};
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

/// Opens a volume or a snapshot through a control socket.
fn open(socket: &Path, name: &str) -> Result<Volume> {
    let path = socket.as_os_str().as_bytes();
    let address = format!("weft+control:///?socket={}", in_uri(path));
    let options = Options { patience: PATIENCE, ..Options::default() };
    let opening = Volume::opening(&[address], name, options)?;
    opening.wait().with_context(|| format!("'{name}' cannot be opened"))
}

/// The volumes of an array, or its snapshots.
fn listed(control: &mut Control, snapshots: bool) -> Result<Vec<VolumeStatus>> {
    let answer = control.request(&ControlRequest::VolumeList { snapshots })?;
    current(answer).with_context(|| control.path().display().to_string())
}

/// The volumes that an answer lists. That of a process that is cut off is refused: a volume that it lacks may exist.
fn current(mut answer: Value) -> Result<Vec<VolumeStatus>> {
    match answer["cut_off"].as_str() {
        Some(_) => bail!(
            "this process is cut off from a majority of the cluster's processes, and its list of volumes may be old; name the \
             directory of another process, or try again when it is connected"
        ),
        None => Ok(serde_json::from_value(answer["volumes"].take())?),
    }
}

/// The amount transferred, in words.
fn in_words(data: u64, zeros: u64) -> String {
    match zeros {
        0 => bytes(data),
        zeros => format!("{}, and {} of zeros", bytes(data), bytes(zeros)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_that_may_be_old_is_refused() {
        let volumes = json!([{ "name": "a" }]);
        let all = current(json!({ "volumes": volumes })).unwrap();
        assert_eq!(all.iter().map(|v| v.name.as_str()).collect::<Vec<_>>(), ["a"]);
        let old = current(json!({ "volumes": volumes, "cut_off": "no majority" })).unwrap_err();
        assert!(old.to_string().contains("cut off"), "{old}");
    }
}
