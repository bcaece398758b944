//! Asking the array: with a bound on how long that takes, and one status for all who look within a second.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use weft_host::status::{Prediction, Status};
use weft_host::{Control, ControlRequest, Error, HostAction, Result};

/// How long an answer may take that the array gives at once.
const PATIENCE: Duration = Duration::from_secs(5);

/// How old a status may be that is shown.
const FRESH: Duration = Duration::from_secs(1);

/// What connects to the array.
type Connect = Box<dyn Fn() -> Result<Control> + Send + Sync>;

/// A status, or why there is none, and when it was asked for.
type Kept = Option<(Instant, Result<Arc<Status>>)>;

/// Who asks.
pub(crate) struct Asker {
    connect: Connect,
    kept: Mutex<Kept>,
}

/// A host that the cluster knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct KnownHost {
    pub(crate) name: String,
    /// Until when its newest certificate is good, in seconds since 1970.
    pub(crate) until: Option<u64>,
    /// Whether it has a CHAP secret.
    pub(crate) secret: bool,
    pub(crate) volumes: Vec<Right>,
}

/// What a host may do with a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Right {
    pub(crate) volume: String,
    pub(crate) access: String,
}

impl Asker {
    pub(crate) fn new(connect: impl Fn() -> Result<Control> + Send + Sync + 'static) -> Asker {
        Asker { connect: Box::new(connect), kept: Mutex::default() }
    }

    /// A connection whose answers may take as long as they do.
    pub(crate) fn connect(&self) -> Result<Control> {
        (self.connect)()
    }

    fn quickly<T>(&self, ask: impl FnOnce(&mut Control) -> Result<T>) -> Result<T> {
        let begun = Instant::now();
        let asked =
            self.connect().and_then(|c| c.within(Some(PATIENCE))).and_then(|mut c| ask(&mut c));
        asked.map_err(|e| match begun.elapsed() < PATIENCE {
            true => e,
            false => {
                let seconds = PATIENCE.as_secs();
                Error(format!("the array has not answered for {seconds} s; see its log"))
            }
        })
    }

    /// How the array is.
    pub(crate) fn status(&self) -> Result<Arc<Status>> {
        // Whoever comes meanwhile waits, and gets the same.
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, status)) = &*kept
            && at.elapsed() < FRESH
        {
            return status.clone();
        }
        let status = self.quickly(Control::status).map(Arc::new);
        *kept = Some((Instant::now(), status.clone()));
        status
    }

    /// Forgets the last status.
    pub(crate) fn forget(&self) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// What the loss of nodes, or more disks, would mean.
    pub(crate) fn predict(&self, question: &ControlRequest) -> Result<Prediction> {
        self.quickly(|control| control.predict(question))
    }

    /// The hosts that the cluster knows.
    pub(crate) fn known_hosts(&self) -> Result<Vec<KnownHost>> {
        let request = ControlRequest::Hosts { action: HostAction::List };
        let mut answer = self.quickly(|control| control.request(&request))?;
        let known = serde_json::from_value(answer["known"].take());
        known.map_err(|e| Error(format!("the array's list of hosts: {e}")))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn many_who_look_are_one_question() {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = asked.clone();
        let asker = Asker::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            Err(Error("none runs".to_string()))
        });
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| assert_eq!(asker.status().unwrap_err().0, "none runs"));
            }
        });
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        asker.forget();
        assert!(asker.status().is_err() && asked.load(Ordering::Relaxed) == 2);
    }
}
