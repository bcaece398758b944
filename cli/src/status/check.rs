//! `weft status --check`: a line and an exit status for monitoring systems, which must have them soon.

use std::path::Path;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow};
use weft_host::ControlRequest;
use weft_host::status::{Health, Status, Summary};

use crate::args::Target;

/// How long an answer may take that is given at once.
const PATIENCE: Duration = Duration::from_secs(10);

/// How an array is. One that does not answer has failed.
pub fn summary(target: &Target) -> Summary {
    let asked = target.clone();
    let summary = answer_within(PATIENCE, target.dir(), move || ask(&asked));
    summary.unwrap_or_else(|e| Summary { health: Health::Failed, reasons: vec![format!("{e:#}")] })
}

fn ask(target: &Target) -> Result<Summary> {
    let answer = target.connect()?.request(&ControlRequest::Status)?;
    Ok(serde_json::from_value::<Status>(answer)?.summary())
}

/// What comes of asking the process of a directory, which may have been stopped: then even connecting to it can take for
/// ever.
fn answer_within<T: Send + 'static>(
    time: Duration,
    dir: &Path,
    ask: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let (tell, answer) = channel();
    // Nobody listens any more if it comes too late.
    thread::spawn(move || drop(tell.send(ask())));
    let late = |_| anyhow!("the process of {} does not answer", dir.display());
    answer.recv_timeout(time).map_err(late)?
}

/// As monitoring systems read it: well, a warning, critical.
pub fn exit_status(health: Health) -> u8 {
    match health {
        Health::Healthy => 0,
        Health::Degraded => 1,
        Health::Failed => 2,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use weft_host::Control;

    use super::*;

    #[test]
    fn a_process_that_has_been_stopped_does_not_answer() {
        let dir = tempfile::tempdir().unwrap();
        // As of a stopped process: the system accepts connections for it.
        let _stopped = UnixListener::bind(dir.path().join("control.sock")).unwrap();
        let at = dir.path().to_path_buf();
        let ask = move || Ok(Control::connect(&at)?.status()?);
        let error = answer_within(Duration::from_millis(20), dir.path(), ask).unwrap_err();
        let expected = format!("the process of {} does not answer", dir.path().display());
        assert_eq!(error.to_string(), expected);
        assert_eq!(answer_within(Duration::from_secs(60), dir.path(), || Ok(7)).unwrap(), 7);
    }
}
